//! Producers against answers told one by one.

use crate::operation::{Operation, Output, ProducerMode};
use crate::producers::ProducerKey;
use crate::test_client::{
    Call, FILE, ResultSlot, TestClient, connected, handle, is_done, result, server,
};
use bytes::Bytes;
use cairn_protocol::{
    AllocateChunks, AllocateChunksAnswer, Bundle, BundleAnswer, BundleHolder, CommitBundles,
    CommitBundlesAnswer, CommitOutcome, Cursor, ErrorCode, Extend, ExtendAnswer, Failure,
    OpenProducerAnswer, OpenStreamChunk, Outcome, Push, PushAnswer, Request, Response,
};
use cairn_types::{
    BlockChecksums, ChunkIndex, ChunkVersion, Epoch, Incarnation, ProducerId, RecordNumber,
    SerialNumber, ServerId,
};
use std::time::Duration;

fn number(raw: u64) -> RecordNumber {
    RecordNumber::new(raw)
}

/// A client with a producer that has 10 records in the stream.
fn producer() -> (TestClient, ProducerKey) {
    let mut client = connected();
    let done = client.start(Operation::OpenProducer {
        file: FILE,
        name: "p".to_owned(),
        mode: ProducerMode::default(),
    });
    let cursor = Some(Cursor { number: number(10), text: Bytes::from_static(b"c") });
    let call = client.answer(Response::OpenProducer(OpenProducerAnswer {
        producer: ProducerId::new(3),
        epoch: Epoch::new(4),
        number: number(10),
        cursor: cursor.clone(),
        cursor_gone: false,
        lease_ms: 0,
    }));
    let Request::OpenProducer(asked) = &call.request else { panic!("{call:?}") };
    assert_eq!((asked.file, asked.name.as_str(), asked.mutation.number.get()), (FILE, "p", 1));
    let Ok(Output::ProducerOpened(opened)) = result(&done) else { panic!("not open") };
    assert_eq!((opened.epoch, opened.number), (Epoch::new(4), number(10)));
    assert_eq!(opened.cursor, cursor);
    (client, opened.producer)
}

fn bundle(producer: ProducerKey, first: u64, count: u64, size: usize) -> Operation {
    let (first, bytes) = (number(first), Bytes::from(vec![first as u8; size]));
    let (cursor, sync, replaces) = (None, false, None);
    Operation::SendBundle { producer, first, count, bytes, cursor, sync, replaces }
}

fn stream_chunk(nth: u64, servers: &[u64]) -> OpenStreamChunk {
    OpenStreamChunk {
        index: ChunkIndex::new(nth),
        handle: handle(nth),
        version: ChunkVersion::new(7),
        replicas: servers.iter().map(|n| server(*n)).collect(),
        length: 0,
        serial: SerialNumber::default(),
        commit_replicas: 0,
    }
}

/// The next call is for chunks; it is answered with these, all with servers 1, 2 and 3.
fn allocate(client: &mut TestClient, chunks: &[u64]) -> AllocateChunks {
    let chunks = chunks.iter().map(|nth| stream_chunk(*nth, &[1, 2, 3])).collect();
    let answer = AllocateChunksAnswer { chunks, commit_replicas: 2 };
    let call = client.call_of(|request| matches!(request, Request::AllocateChunks(_)));
    client.tell(&call, Ok(Response::AllocateChunks(answer)));
    let Request::AllocateChunks(asked) = call.request else { panic!("{call:?}") };
    asked
}

fn pushed(client: &mut TestClient) -> Push {
    let call = client.answer(Response::Push(PushAnswer {}));
    let Request::Push(push) = call.request else { panic!("no push: {call:?}") };
    push
}

/// The next calls: so many servers are told of a bundle.
fn extends(client: &mut TestClient, count: usize) -> Vec<(Extend, Call)> {
    let extend = |call: Call| {
        let Request::Extend(extend) = call.request.clone() else { panic!("{call:?}") };
        (extend, call)
    };
    let is_extend = |request: &Request| matches!(request, Request::Extend(_));
    (0..count).map(|_| extend(client.call_of(is_extend))).collect()
}

/// A server has stored what it was told of.
fn stored(client: &mut TestClient, (extend, call): &(Extend, Call)) {
    let raw: u64 = call.to.as_str()[1..2].parse().expect("s1:1");
    let answer = ExtendAnswer {
        server: ServerId::new(raw),
        incarnation: Incarnation::new(100 + raw),
        length: extend.offset + extend.size,
    };
    client.tell(call, Ok(Response::Extend(answer)));
}

/// A bundle is pushed and stored on all servers.
fn store(client: &mut TestClient) -> Extend {
    pushed(client);
    let extends = extends(client, 3);
    extends.iter().for_each(|it| stored(client, it));
    extends[0].0.clone()
}

fn committing(client: &mut TestClient) -> (CommitBundles, Call) {
    let call = client.call_of(|request| matches!(request, Request::CommitBundles(_)));
    let Request::CommitBundles(commit) = call.request.clone() else { panic!("{call:?}") };
    (commit, call)
}

/// Answers a commit: an outcome for each bundle, and where the first stands.
fn commit(client: &mut TestClient, outcomes: &[CommitOutcome], last: u64) -> CommitBundles {
    let (asked, call) = committing(client);
    let bundles = (0..).zip(outcomes);
    let bundles =
        bundles.map(|(nth, outcome)| BundleAnswer { outcome: *outcome, offset: 1000 * (nth + 1) });
    let (bundles, number) = (bundles.collect(), number(last));
    client.tell(&call, Ok(Response::CommitBundles(CommitBundlesAnswer { bundles, number })));
    asked
}

fn committed(offset: u64) -> Result<Output, Failure> {
    Ok(Output::BundleCommitted { offset: Some(offset) })
}

fn holders(bundle: &Bundle) -> Vec<u64> {
    bundle.holders.iter().map(|holder| holder.server.get()).collect()
}

fn failure(done: &ResultSlot) -> (ErrorCode, Outcome) {
    let failure = result(done).expect_err("it fails");
    (failure.code, failure.outcome)
}

#[test]
fn a_bundle_is_pushed_stored_by_each_server_and_committed() {
    let (mut client, producer) = producer();
    let done = client.start(bundle(producer, 11, 3, 100));
    let asked = allocate(&mut client, &[1]);
    let (id, epoch) = (ProducerId::new(3), Epoch::new(4));
    assert_eq!((asked.file, asked.producer, asked.epoch, asked.count), (FILE, id, epoch, 1));
    let push = pushed(&mut client);
    assert_eq!((push.chain.len(), push.block_offset), (2, 0), "down the chain");
    let told = extends(&mut client, 3);
    let bytes = [11u8; 100];
    let expected = Extend {
        handle: handle(1),
        version: ChunkVersion::new(7),
        push: push.push,
        serial: SerialNumber::new(1),
        offset: 0,
        size: 100,
        checksums: BlockChecksums::of(0, &bytes, 64),
        sync: false,
    };
    assert!(told.iter().all(|(extend, _)| *extend == expected));
    told.iter().for_each(|it| stored(&mut client, it));
    let asked = commit(&mut client, &[CommitOutcome::Committed], 13);
    assert_eq!((asked.file, asked.producer, asked.epoch), (FILE, id, epoch));
    let raw = asked.bundles[0].holders.iter().map(|it| it.server.get()).collect::<Vec<_>>();
    let expected = Bundle {
        first: number(11),
        count: 3,
        handle: handle(1),
        offset: 0,
        size: 100,
        serial: SerialNumber::new(1),
        holders: raw
            .iter()
            .map(|raw| BundleHolder {
                server: ServerId::new(*raw),
                incarnation: Incarnation::new(100 + *raw),
            })
            .collect(),
        cursor: None,
        replaces: None,
    };
    assert_eq!((asked.bundles, raw.len()), (vec![expected], 3));
    assert_eq!(result(&done), committed(1000));
    client.assert_asks_nobody();
}

#[test]
fn a_server_hears_of_a_bundle_once_it_has_stored_the_one_before_and_all_are_committed_together() {
    let (mut client, producer) = producer();
    let first = client.start(bundle(producer, 11, 1, 100));
    allocate(&mut client, &[1]);
    let push = client.call();
    let mut cursored = bundle(producer, 12, 2, 50);
    if let Operation::SendBundle { cursor, sync, .. } = &mut cursored {
        (*cursor, *sync) = (Some(Bytes::from_static(b"here")), true);
    }
    let second = client.start(cursored);
    let third = client.start(bundle(producer, 14, 1, 10));
    assert_eq!(pushed(&mut client).block_offset, 100 % 64, "its data goes ahead");
    pushed(&mut client);
    client.assert_asks_nobody();
    client.tell(&push, Ok(Response::Push(PushAnswer {})));
    let told = extends(&mut client, 3);
    stored(&mut client, &told[0]);
    stored(&mut client, &told[1]);
    client.assert_asks_nobody();
    stored(&mut client, &told[2]);
    let (asked, call) = committing(&mut client);
    assert_eq!(asked.bundles.len(), 1);
    let told = extends(&mut client, 3);
    let (extend, _) = &told[0];
    assert_eq!((extend.offset, extend.size, extend.serial.get(), extend.sync), (100, 50, 2, true));
    told.iter().for_each(|it| stored(&mut client, it));
    let told = extends(&mut client, 3);
    told.iter().for_each(|it| stored(&mut client, it));
    client.assert_asks_nobody();
    let bundles = vec![BundleAnswer { outcome: CommitOutcome::Committed, offset: 9 }];
    let answer = CommitBundlesAnswer { bundles, number: number(11) };
    client.tell(&call, Ok(Response::CommitBundles(answer)));
    assert_eq!(result(&first), committed(9));
    let asked = commit(&mut client, &[CommitOutcome::Committed, CommitOutcome::DoneBefore], 14);
    let firsts: Vec<u64> = asked.bundles.iter().map(|it| it.first.get()).collect();
    assert_eq!(firsts, [12, 14]);
    assert_eq!(asked.bundles[0].cursor.as_deref(), Some(&b"here"[..]));
    assert_eq!(result(&second), committed(1000));
    assert_eq!(result(&third), Ok(Output::BundleCommitted { offset: None }));
}

#[test]
fn where_one_server_fails_the_others_will_do_and_the_chunk_is_left_with_all_behind() {
    let (mut client, producer) = producer();
    let first = client.start(bundle(producer, 11, 1, 100));
    allocate(&mut client, &[1]);
    let second = client.start(bundle(producer, 12, 1, 100));
    pushed(&mut client);
    // The first bundle's servers are told while the second's data is on its way.
    let behind = client.call();
    assert!(matches!(behind.request, Request::Push(_)));
    let told = extends(&mut client, 3);
    stored(&mut client, &told[0]);
    stored(&mut client, &told[1]);
    let gone = told[2].1.to.clone();
    client.tell(&told[2].1, Err(Failure::not_done(ErrorCode::Unreachable, "gone")));
    let asked = commit(&mut client, &[CommitOutcome::Committed], 11);
    assert_eq!(holders(&asked.bundles[0]).len(), 2);
    assert_eq!(result(&first), committed(1000));
    client.tell(&behind, Ok(Response::Push(PushAnswer {})));
    // Asked for when the first one failed, and again once nothing is left in the chunk.
    let asked = allocate(&mut client, &[1, 2]);
    assert_eq!((asked.unreachable.len(), asked.count), (1, 2));
    assert_eq!(format!("s{}:1", asked.unreachable[0].get()), gone.as_str());
    let asked = allocate(&mut client, &[2]);
    assert_eq!((asked.leaves, asked.count), (vec![handle(1)], 1));
    let extend = store(&mut client);
    assert_eq!((extend.handle, extend.offset, extend.serial.get()), (handle(2), 0, 1));
    commit(&mut client, &[CommitOutcome::Committed], 12);
    assert_eq!(result(&second), committed(1000));
}

#[test]
fn with_too_few_holders_a_bundle_goes_to_another_chunk_with_the_numbers_it_had() {
    let (mut client, producer) = producer();
    let done = client.start(bundle(producer, 11, 2, 100));
    allocate(&mut client, &[1]);
    pushed(&mut client);
    let told = extends(&mut client, 3);
    stored(&mut client, &told[0]);
    for (_, call) in &told[1..] {
        client.tell(call, Err(Failure::not_done(ErrorCode::StaleVersion, "raised")));
    }
    let asked = allocate(&mut client, &[2]);
    assert_eq!((asked.leaves, asked.unreachable), (vec![handle(1)], vec![]));
    store(&mut client);
    let asked = commit(&mut client, &[CommitOutcome::Committed], 12);
    assert_eq!((asked.bundles[0].first, asked.bundles[0].handle), (number(11), handle(2)));
    assert_eq!(result(&done), committed(1000));
}

#[test]
fn what_is_lost_with_its_chunk_goes_to_another_one_that_has_nothing_of_later() {
    let (mut client, producer) = producer();
    let all = [
        client.start(bundle(producer, 11, 1, 1000)),
        client.start(bundle(producer, 12, 1, 1000)),
        client.start(bundle(producer, 13, 1, 1000)),
    ];
    allocate(&mut client, &[1]);
    // A tiny chunk has 4096 bytes: four of these fit, and the fifth goes to the next chunk.
    let fourth = client.start(bundle(producer, 14, 1, 1000));
    let fifth = client.start(bundle(producer, 15, 1, 1000));
    let (mut commits, mut allocated) = (Vec::new(), 0);
    while let Some(call) = client.next_call() {
        match &call.request {
            Request::Push(_) => client.tell(&call, Ok(Response::Push(PushAnswer {}))),
            Request::Extend(extend) => stored(&mut client, &(extend.clone(), call.clone())),
            Request::AllocateChunks(_) => {
                let chunks = vec![stream_chunk(1, &[1, 2, 3]), stream_chunk(2, &[1, 2, 3])];
                let answer = AllocateChunksAnswer { chunks, commit_replicas: 2 };
                client.tell(&call, Ok(Response::AllocateChunks(answer)));
                allocated += 1;
            }
            Request::CommitBundles(_) => commits.push(call),
            other => panic!("{other:?}"),
        }
    }
    assert_eq!((commits.len(), allocated), (1, 1));
    let lost = BundleAnswer { outcome: CommitOutcome::ChunkLost, offset: 0 };
    let answer = CommitBundlesAnswer { bundles: vec![lost], number: number(10) };
    client.tell(&commits[0], Ok(Response::CommitBundles(answer)));
    let asked = allocate(&mut client, &[2, 3]);
    assert_eq!((asked.leaves, asked.count), (vec![handle(1)], 2));
    (0..4).for_each(|_| drop(pushed(&mut client)));
    for serial in 1..=4 {
        let calls: Vec<Call> = (0..3).map(|_| next_extend(&mut client, &mut commits)).collect();
        for call in calls {
            let Request::Extend(extend) = &call.request else { panic!("{call:?}") };
            assert_eq!((extend.handle, extend.serial.get()), (handle(3), serial));
            stored(&mut client, &(extend.clone(), call.clone()));
        }
    }
    let mut told = 10;
    let mut next = commits.pop().or_else(|| client.next_call());
    while let Some(call) = next {
        if let Request::CommitBundles(asked) = &call.request {
            let count = asked.bundles.len();
            let ok = BundleAnswer { outcome: CommitOutcome::Committed, offset: 5 };
            told += count as u64;
            let answer = CommitBundlesAnswer { bundles: vec![ok; count], number: number(told) };
            client.tell(&call, Ok(Response::CommitBundles(answer)));
        }
        next = client.next_call();
    }
    for done in all.iter().chain([&fourth, &fifth]) {
        assert_eq!(result(done), committed(5));
    }
}

/// The next call to a server; a commit meanwhile is kept.
fn next_extend(client: &mut TestClient, commits: &mut Vec<Call>) -> Call {
    loop {
        let call = client.call();
        match &call.request {
            Request::Extend(_) => return call,
            Request::CommitBundles(_) => {
                commits.clear();
                commits.push(call);
            }
            other => panic!("{other:?}"),
        }
    }
}

#[test]
fn a_fenced_producer_tells_what_is_in_the_stream_and_takes_nothing_more() {
    let (mut client, producer) = producer();
    let all: Vec<ResultSlot> =
        (11..14).map(|first| client.start(bundle(producer, first, 1, 10))).collect();
    allocate(&mut client, &[1]);
    (0..3).for_each(|_| drop(pushed(&mut client)));
    let told = extends(&mut client, 3);
    told.iter().for_each(|it| stored(&mut client, it));
    // The second is on its servers, the third waits for it.
    let (_, call) = committing(&mut client);
    let bundles = vec![BundleAnswer { outcome: CommitOutcome::Fenced, offset: 0 }];
    let answer = CommitBundlesAnswer { bundles, number: number(11) };
    client.tell(&call, Ok(Response::CommitBundles(answer)));
    assert_eq!(result(&all[0]), Ok(Output::BundleCommitted { offset: None }));
    for done in &all[1..] {
        assert_eq!(failure(done), (ErrorCode::ProducerFenced, Outcome::Refused));
        let failure = result(done).expect_err("fenced");
        assert!(failure.message.contains("records up to 11 are in"), "{failure}");
    }
    let later = client.start(bundle(producer, 14, 1, 10));
    assert_eq!(failure(&later), (ErrorCode::ProducerFenced, Outcome::Refused));
}

#[test]
fn who_is_refused_a_chunk_as_fenced_ends_once_all_that_is_with_the_master_is_answered() {
    let (mut client, producer) = producer();
    let first = client.start(bundle(producer, 11, 1, 1024));
    allocate(&mut client, &[1]);
    store(&mut client);
    let (_, call) = committing(&mut client);
    let rest: Vec<ResultSlot> =
        (12..16).map(|first| client.start(bundle(producer, first, 1, 1024))).collect();
    let push = |request: &Request| matches!(request, Request::Push(_));
    let pushes: Vec<Call> = (0..3).map(|_| client.call_of(push)).collect();
    let asked = client.call_of(|request| matches!(request, Request::AllocateChunks(_)));
    let fenced = Failure::refused(ErrorCode::ProducerFenced, "another epoch");
    client.tell(&asked, Err(fenced.clone()));
    assert!(!is_done(&first) && !rest.iter().any(is_done), "the commit will tell");
    let bundles = vec![BundleAnswer { outcome: CommitOutcome::Committed, offset: 3 }];
    let answer = CommitBundlesAnswer { bundles, number: number(11) };
    client.tell(&call, Ok(Response::CommitBundles(answer)));
    assert_eq!(result(&first), committed(3));
    client.pass(Duration::from_secs(1));
    let asked = client.call_of(|request| matches!(request, Request::AllocateChunks(_)));
    client.tell(&asked, Err(fenced));
    for done in &rest {
        assert_eq!(failure(done), (ErrorCode::ProducerFenced, Outcome::Refused));
        let failure = result(done).expect_err("fenced");
        assert!(failure.message.contains("records up to 11 are in"), "{failure}");
    }
    while client.next_call().is_some() {}
    for push in &pushes {
        client.tell(push, Ok(Response::Push(PushAnswer {})));
    }
    client.assert_asks_nobody();
}

#[test]
fn at_the_deadline_what_was_put_to_the_master_is_unknown_and_the_rest_was_not_done() {
    let (mut client, producer) = producer();
    let first = client.start(bundle(producer, 11, 1, 10));
    allocate(&mut client, &[1]);
    store(&mut client);
    let (_, call) = committing(&mut client);
    let second = client.start(bundle(producer, 12, 1, 10));
    client.pass(Duration::from_secs(61));
    assert_eq!(failure(&first).1, Outcome::Unknown);
    assert_eq!(failure(&second).1, Outcome::NotDone);
    let third = client.start(bundle(producer, 13, 1, 10));
    assert_eq!(failure(&third).1, Outcome::Refused);
    // A late word moves nobody.
    let bundles = vec![BundleAnswer::default()];
    let answer = CommitBundlesAnswer { bundles, number: number(11) };
    client.tell(&call, Ok(Response::CommitBundles(answer)));
    let closed = client.start(Operation::DropProducer { producer });
    assert_eq!(result(&closed), Ok(Output::Forgotten));
}

#[test]
fn a_commit_that_may_have_been_done_is_asked_of_the_next_master_word_for_word() {
    let (mut client, producer) = producer();
    let done = client.start(bundle(producer, 11, 1, 10));
    allocate(&mut client, &[1]);
    store(&mut client);
    let (asked, call) = committing(&mut client);
    client.tell(&call, Err(Failure::unknown(ErrorCode::Unreachable, "reset")));
    client.find("m2:1", 1);
    let (again, call) = committing(&mut client);
    assert_eq!((again, call.to.as_str()), (asked, "m2:1"), "R39");
    let bundles = vec![BundleAnswer { outcome: CommitOutcome::Committed, offset: 77 }];
    let answer = CommitBundlesAnswer { bundles, number: number(11) };
    client.tell(&call, Ok(Response::CommitBundles(answer)));
    assert_eq!(result(&done), committed(77));
}

#[test]
fn what_a_repeated_commit_is_told_of_its_chunk_says_nothing_of_the_try_before() {
    for (tells_later, outcome) in [(false, Outcome::Unknown), (true, Outcome::Refused)] {
        let (mut client, producer) = producer();
        let done = client.start(bundle(producer, 11, 1, 10));
        allocate(&mut client, &[1]);
        store(&mut client);
        let (_, call) = committing(&mut client);
        client.tell(&call, Err(Failure::unknown(ErrorCode::Unreachable, "reset")));
        client.find("m2:1", 1);
        commit(&mut client, &[CommitOutcome::ChunkLost], 10);
        if tells_later {
            allocate(&mut client, &[2]);
            store(&mut client);
            commit(&mut client, &[CommitOutcome::Fenced], 10);
        } else {
            let asked = client.call_of(|request| matches!(request, Request::AllocateChunks(_)));
            let fenced = Failure::refused(ErrorCode::ProducerFenced, "another epoch");
            client.tell(&asked, Err(fenced));
        }
        assert_eq!(failure(&done), (ErrorCode::ProducerFenced, outcome), "PR4");
    }
}

#[test]
fn a_commit_that_is_refused_when_it_is_repeated_may_be_in_the_stream() {
    for repeated in [false, true] {
        let (mut client, producer) = producer();
        let done = client.start(bundle(producer, 11, 1, 10));
        allocate(&mut client, &[1]);
        store(&mut client);
        let (_, mut call) = committing(&mut client);
        if repeated {
            client.tell(&call, Err(Failure::unknown(ErrorCode::Unreachable, "reset")));
            client.find("m2:1", 1);
            (_, call) = committing(&mut client);
        }
        client.tell(&call, Err(Failure::refused(ErrorCode::NotFound, "deleted")));
        let outcome = if repeated { Outcome::Unknown } else { Outcome::Refused };
        assert_eq!(failure(&done), (ErrorCode::NotFound, outcome));
    }
}

#[test]
fn a_server_that_lost_the_data_gets_the_same_again_under_the_name_it_had() {
    let (mut client, producer) = producer();
    let done = client.start(bundle(producer, 11, 1, 10));
    allocate(&mut client, &[1]);
    let push = pushed(&mut client);
    let told = extends(&mut client, 3);
    stored(&mut client, &told[0]);
    stored(&mut client, &told[1]);
    client.tell(&told[2].1, Err(Failure::not_done(ErrorCode::PushMissing, "evicted")));
    let call = client.answer(Response::Push(PushAnswer {}));
    assert_eq!(call.to, told[2].1.to);
    let Request::Push(again) = call.request else { panic!("no push") };
    assert_eq!((again.push, again.chain.len()), (push.push, 0));
    let more = extends(&mut client, 1);
    assert_eq!(more[0].0, told[2].0);
    stored(&mut client, &more[0]);
    let asked = commit(&mut client, &[CommitOutcome::Committed], 11);
    assert_eq!(holders(&asked.bundles[0]).len(), 3);
    assert_eq!(result(&done), committed(1000));
}

#[test]
fn a_slow_server_is_waited_for_a_while_and_then_left_out() {
    let (mut client, producer) = producer();
    let done = client.start(bundle(producer, 11, 1, 10));
    allocate(&mut client, &[1]);
    pushed(&mut client);
    let told = extends(&mut client, 3);
    stored(&mut client, &told[0]);
    client.pass(Duration::from_millis(600));
    client.assert_asks_nobody();
    stored(&mut client, &told[1]);
    client.assert_asks_nobody();
    client.pass(Duration::from_millis(600));
    let asked = commit(&mut client, &[CommitOutcome::Committed], 11);
    assert_eq!(holders(&asked.bundles[0]).len(), 2);
    assert_eq!(result(&done), committed(1000));
}

#[test]
fn who_is_late_with_the_data_is_not_told_of_the_bundle_and_left_with_the_chunk() {
    let (mut client, producer) = producer();
    client.start(bundle(producer, 11, 1, 10));
    allocate(&mut client, &[1]);
    let broken = Err(Failure::unknown(ErrorCode::DeadlineExceeded, "no answer in time"));
    let chain = client.call();
    client.tell(&chain, broken);
    let apart = [(); 3].map(|()| client.call());
    for call in &apart[..2] {
        client.tell(call, Ok(Response::Push(PushAnswer {})));
    }
    client.assert_asks_nobody();
    client.pass(Duration::from_millis(1_100));
    let told = extends(&mut client, 2);
    assert!(told.iter().all(|(_, call)| call.to != apart[2].to), "BS4: {told:?}");
    told.iter().for_each(|it| stored(&mut client, it));
    let asked = commit(&mut client, &[CommitOutcome::Committed], 11);
    assert_eq!(holders(&asked.bundles[0]).len(), 2);
}

#[test]
fn who_leaves_its_last_chunk_asks_for_another_at_once() {
    let (mut client, producer) = producer();
    client.start(bundle(producer, 11, 1, 10));
    allocate(&mut client, &[1]);
    pushed(&mut client);
    let told = extends(&mut client, 3);
    stored(&mut client, &told[0]);
    stored(&mut client, &told[1]);
    client.tell(&told[2].1, Err(Failure::not_done(ErrorCode::Unreachable, "gone")));
    commit(&mut client, &[CommitOutcome::Committed], 11);
    let leaving = client.call();
    let Request::AllocateChunks(asked) = &leaving.request else { panic!("{leaving:?}") };
    assert_eq!((asked.count, &asked.leaves[..]), (1, &[handle(1)][..]));
    // The master says that it has none for now, and goes on saying so for a while.
    client.tell(&leaving, Err(Failure::not_done(ErrorCode::Busy, "being sealed")));
    let done = client.start(bundle(producer, 12, 1, 10));
    client.pass(Duration::from_secs(1));
    let asked = allocate(&mut client, &[2]);
    assert_eq!((asked.count, asked.leaves), (1, vec![handle(1)]));
    store(&mut client);
    commit(&mut client, &[CommitOutcome::Committed], 12);
    assert_eq!(result(&done), committed(1000));
}

#[test]
fn another_chunk_is_asked_for_before_the_first_is_full_and_the_full_one_is_left() {
    let (mut client, producer) = producer();
    client.start(bundle(producer, 11, 1, 1024));
    assert_eq!(allocate(&mut client, &[1]).count, 1);
    store(&mut client);
    commit(&mut client, &[CommitOutcome::Committed], 11);
    client.assert_asks_nobody();
    client.start(bundle(producer, 12, 1, 1024));
    store(&mut client);
    commit(&mut client, &[CommitOutcome::Committed], 12);
    client.start(bundle(producer, 13, 1, 100));
    let push = client.call();
    let ahead = allocate(&mut client, &[1, 2]);
    assert_eq!((ahead.count, ahead.leaves), (2, vec![]), "ahead of need");
    client.tell(&push, Ok(Response::Push(PushAnswer {})));
    extends(&mut client, 3).iter().for_each(|it| stored(&mut client, it));
    commit(&mut client, &[CommitOutcome::Committed], 13);
    client.start(bundle(producer, 14, 1, 1024));
    store(&mut client);
    commit(&mut client, &[CommitOutcome::Committed], 14);
    client.start(bundle(producer, 15, 1, 1024));
    let push = client.call();
    let Request::Push(_) = &push.request else { panic!("{push:?}") };
    let asked = allocate(&mut client, &[2]);
    assert_eq!((asked.leaves, asked.count), (vec![handle(1)], 1));
    client.tell(&push, Ok(Response::Push(PushAnswer {})));
    let told = extends(&mut client, 3);
    assert_eq!(told[0].0.handle, handle(2));
}

#[test]
fn what_cannot_be_a_bundle_is_refused_and_the_next_may_be_one() {
    let (mut client, producer) = producer();
    let refused = |client: &mut TestClient, operation| {
        let done = client.start(operation);
        client.assert_asks_nobody();
        failure(&done)
    };
    let invalid = (ErrorCode::Invalid, Outcome::Refused);
    assert_eq!(refused(&mut client, bundle(producer, 12, 1, 10)), invalid);
    assert_eq!(refused(&mut client, bundle(producer, 11, 0, 10)), invalid);
    assert_eq!(refused(&mut client, bundle(producer, 11, u64::MAX, 10)), invalid);
    assert_eq!(refused(&mut client, bundle(producer, 11, 1, 0)), invalid);
    let large = (ErrorCode::RecordTooLarge, Outcome::Refused);
    assert_eq!(refused(&mut client, bundle(producer, 11, 1, 1025)), large);
    let mut cursored = bundle(producer, 11, 1, 10);
    if let Operation::SendBundle { cursor, .. } = &mut cursored {
        *cursor = Some(vec![0; 1025].into());
    }
    assert_eq!(refused(&mut client, cursored), invalid);
    client.start(bundle(producer, 11, 1, 10));
    let closing = client.start(Operation::CloseProducer { producer });
    assert_eq!(failure(&closing), invalid, "some are on their way");
    allocate(&mut client, &[1]);
    store(&mut client);
    commit(&mut client, &[CommitOutcome::Committed], 11);
    let closing = client.start(Operation::CloseProducer { producer });
    let call = client.answer(Response::CloseProducer(cairn_protocol::CloseProducerAnswer {}));
    let Request::CloseProducer(closed) = call.request else { panic!("not closed") };
    assert_eq!((closed.producer, closed.epoch), (ProducerId::new(3), Epoch::new(4)));
    assert_eq!(result(&closing), Ok(Output::Forgotten));
    assert_eq!(refused(&mut client, bundle(producer, 12, 1, 10)), invalid);
}
