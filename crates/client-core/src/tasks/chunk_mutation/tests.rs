//! Mutations against answers told one by one: grants, chains, retries, and what a failure says.

use crate::operation::{Operation, Output};
use crate::test_client::{
    Call, FILE, ResultSlot, TestClient, connected, connected_to, grant, handle, is_done, result,
};
use bytes::Bytes;
use cairn_protocol::{
    Append, AppendAnswer, AppendOrder, ErrorCode, Failure, Lease, LeasePurpose, Outcome, Push,
    PushAnswer, RecordLength, RecordLengthAnswer, Request, Response, SyncChunkAnswer, Write,
    WriteAnswer,
};
use cairn_types::{BlockChecksums, CellConfig, ChunkVersion, LeaseId, SerialNumber, ServerId};
use std::time::Duration;

fn append(size: usize) -> Operation {
    Operation::Append { file: FILE, bytes: vec![5; size].into(), sync: false }
}

fn leased(client: &mut TestClient, response: Response) -> Lease {
    let call = client.answer(response);
    let Request::Lease(lease) = call.request else { panic!("no lease asked: {call:?}") };
    lease
}

fn pushed(client: &mut TestClient) -> (Push, Call) {
    let call = client.call();
    let Request::Push(push) = call.request.clone() else { panic!("no push: {call:?}") };
    (push, call)
}

fn push_ok(client: &mut TestClient) -> Push {
    let (push, call) = pushed(client);
    client.tell(&call, Ok(Response::Push(PushAnswer {})));
    push
}

fn ordered(client: &mut TestClient) -> (Append, Call) {
    let call = client.call();
    let Request::Append(append) = call.request.clone() else { panic!("no append: {call:?}") };
    (append, call)
}

fn synced(length: u64) -> Response {
    Response::SyncChunk(SyncChunkAnswer { length, ..SyncChunkAnswer::default() })
}

fn appended(offset: u64) -> Response {
    Response::Append(AppendAnswer { offset, ..AppendAnswer::default() })
}

#[test]
fn an_append_is_granted_pushed_nearest_first_and_ordered_by_the_primary() {
    let mut client = connected();
    let done = client.start(append(100));
    let lease = leased(&mut client, grant(3, 8, 21, &[4, 1, 3]));
    assert_eq!((lease.file, lease.purpose), (FILE, LeasePurpose::Append));
    let (push, call) = pushed(&mut client);
    assert_eq!(call.to.as_str(), "s1:1", "nearest first, not the primary first");
    assert_eq!(push.chain.len(), 2);
    assert_eq!((push.block_offset, push.block_size), (0, 64));
    assert_eq!(push.checksums, BlockChecksums::of(0, &[5; 100], 64));
    assert_eq!(call.payload, Bytes::from(vec![5; 100]));
    client.assert_asks_nobody();
    client.tell(&call, Ok(Response::Push(PushAnswer {})));
    let (sent, call) = ordered(&mut client);
    assert_eq!(call.to.as_str(), "s4:1");
    let expected = Append {
        handle: handle(3),
        version: ChunkVersion::new(8),
        lease: LeaseId::new(21),
        push: push.push,
        size: 100,
        checksums: push.checksums,
        sync: false,
    };
    assert_eq!(sent, expected);
    client.tell(&call, Ok(appended(40)));
    assert_eq!(result(&done), Ok(Output::Appended { offset: 3 * 4096 + 40 }));

    client.start(append(1));
    let (second, _) = pushed(&mut client);
    assert_ne!(second.push, push.push, "the grant is kept, the name of the data is new");
}

#[test]
fn mutations_that_are_over_wake_nobody_any_more() {
    let mut client = connected();
    for round in 0..9 {
        let done = client.start(append(100));
        if round == 0 {
            leased(&mut client, grant(3, 8, 21, &[4, 1, 3]));
        }
        push_ok(&mut client);
        let (_, call) = ordered(&mut client);
        client.tell(&call, Ok(appended(0)));
        assert!(is_done(&done));
        client.pass(Duration::from_millis(1));
    }
    let rung = client.pass(Duration::from_secs(2));
    assert_eq!(rung, 1, "the first one's impatience was asked for, and finds nothing to watch");
}

#[test]
fn a_write_is_cut_at_the_chunk_boundary_and_its_pieces_at_block_boundaries() {
    let mut client = connected();
    let bytes = Bytes::from(vec![6; 50]);
    let done = client.start(Operation::Write { file: FILE, offset: 4070, bytes, sync: true });
    let (first, second) = (client.call(), client.call());
    client.tell(&first, Ok(grant(0, 8, 1, &[1])));
    client.tell(&second, Ok(grant(1, 9, 2, &[1])));
    let (a, b) = (push_ok(&mut client), push_ok(&mut client));
    assert_eq!((a.block_offset, b.block_offset), (4070 % 64, 0));
    for (index, offset, size) in [(0, 4070, 26), (1, 0, 24)] {
        let call = client.answer(Response::Write(WriteAnswer::default()));
        let Request::Write(Write { handle: to, offset: at, size: of, sync, .. }) = call.request
        else {
            panic!("no write")
        };
        assert_eq!((to, at, of, sync), (handle(index), offset, size, true));
    }
    assert_eq!(result(&done), Ok(Output::Written));
}

fn written_at(client: &mut TestClient) -> (u64, Call) {
    let call = client.call();
    let Request::Write(Write { offset, .. }) = call.request else { panic!("no write: {call:?}") };
    (offset, call)
}

/// Three writes of ten bytes, one behind the other, with their pushes.
fn three_writes(client: &mut TestClient) -> [(ResultSlot, Call); 3] {
    let mut granted = false;
    [0, 10, 20].map(|offset| {
        let bytes = Bytes::from(vec![6; 10]);
        let done = client.start(Operation::Write { file: FILE, offset, bytes, sync: false });
        if !std::mem::replace(&mut granted, true) {
            leased(client, grant(0, 8, 1, &[1]));
        }
        (done, pushed(client).1)
    })
}

#[test]
fn writes_of_a_stream_are_ordered_by_their_offsets_however_their_data_arrives() {
    let mut client = connected();
    let [(_, first), (_, second), (_, third)] = three_writes(&mut client);
    let arrived = || Ok(Response::Push(PushAnswer {}));
    client.tell(&third, arrived());
    client.tell(&second, arrived());
    client.assert_asks_nobody();
    client.tell(&first, arrived());
    let orders = [(); 3].map(|()| written_at(&mut client).0);
    assert_eq!(orders, [0, 10, 20], "each overtakes nobody");
}

#[test]
fn a_write_does_not_wait_for_one_whose_push_has_failed() {
    let mut client = connected();
    let [(first_done, first), (second_done, second), _] = three_writes(&mut client);
    client.tell(&second, Ok(Response::Push(PushAnswer {})));
    client.assert_asks_nobody();
    let refused = Failure::refused(ErrorCode::Invalid, "not a push");
    client.tell(&first, Err(refused));
    assert!(is_done(&first_done));
    let (offset, call) = written_at(&mut client);
    assert_eq!(offset, 10);
    client.tell(&call, Ok(Response::Write(WriteAnswer::default())));
    assert_eq!(result(&second_done), Ok(Output::Written));
}

#[test]
fn a_write_does_not_wait_for_one_that_was_given_up_at_its_deadline() {
    let mut client = connected();
    let [(first_done, _), _, _] = three_writes(&mut client);
    client.pass(Duration::from_secs(60));
    assert!(is_done(&first_done));
    let bytes = Bytes::from(vec![6; 10]);
    client.start(Operation::Write { file: FILE, offset: 10, bytes, sync: false });
    push_ok(&mut client);
    assert_eq!(written_at(&mut client).0, 10);
}

#[test]
fn a_broken_chain_does_not_stop_the_order_as_long_as_the_primary_has_the_data() {
    let mut client = connected();
    let done = client.start(append(10));
    leased(&mut client, grant(0, 8, 1, &[1, 3, 4]));
    let broken = Failure {
        server: ServerId::new(4),
        ..Failure::not_done(ErrorCode::ChainBroken, "server 4 does not answer")
    };
    client.fail(broken);
    let ((a, to_a), (b, to_b)) = (pushed(&mut client), pushed(&mut client));
    let mut apart = [to_a.to.as_str(), to_b.to.as_str()];
    apart.sort_unstable();
    assert_eq!(apart, ["s1:1", "s3:1"]);
    assert!(a.chain.is_empty() && b.chain.is_empty() && a.push == b.push);
    client.tell(&to_a, Ok(Response::Push(PushAnswer {})));
    client.assert_asks_nobody();
    client.tell(&to_b, Ok(Response::Push(PushAnswer {})));
    let (_, call) = ordered(&mut client);
    assert_eq!(call.to.as_str(), "s1:1", "U1");
    client.tell(&call, Ok(appended(0)));
    assert!(result(&done).is_ok());
}

#[test]
fn a_primary_that_the_data_does_not_reach_is_named_to_the_master() {
    let mut client = connected();
    client.start(append(10));
    leased(&mut client, grant(0, 8, 1, &[1, 3]));
    let gone = || Failure::not_done(ErrorCode::Unreachable, "connection refused");
    assert_eq!(client.fail(gone()).to.as_str(), "s1:1");
    push_ok(&mut client);
    let lease = leased(&mut client, grant(1, 9, 2, &[3, 4]));
    assert_eq!((lease.failed.get(), lease.failed_version.get()), (1, 8));
}

#[test]
fn a_retry_at_the_same_lease_has_the_same_push_and_at_another_lease_another() {
    let mut client = connected();
    let done = client.start(append(10));
    leased(&mut client, grant(0, 8, 1, &[1, 3]));
    let first = push_ok(&mut client);
    let lost = || Failure::unknown(ErrorCode::Unreachable, "the connection was lost");
    let (_, call) = ordered(&mut client);
    client.tell(&call, Err(lost()));
    // The master probed: the primary lives, and a raise in between has changed the version.
    let lease = leased(&mut client, grant(0, 9, 1, &[1, 3]));
    assert_eq!(lease.failed.get(), 1);
    let second = push_ok(&mut client);
    assert_eq!(first.push, second.push, "R15");
    let (again, call) = ordered(&mut client);
    assert_eq!((again.push, again.version.get()), (first.push, 9));
    client.tell(&call, Err(lost()));
    client.pass(Duration::from_millis(250));
    leased(&mut client, grant(1, 10, 2, &[3, 4]));
    let third = push_ok(&mut client);
    assert_ne!(third.push, first.push, "U2");
    let (_, call) = ordered(&mut client);
    client.tell(&call, Err(Failure::refused(ErrorCode::Invalid, "no")));
    assert_eq!(result(&done).map_err(|f| f.outcome), Err(Outcome::Unknown), "U3");
}

#[test]
fn data_that_has_aged_out_is_pushed_again_under_its_name() {
    let mut client = connected();
    client.start(append(10));
    leased(&mut client, grant(0, 8, 1, &[1]));
    let first = push_ok(&mut client);
    let (_, call) = ordered(&mut client);
    client.tell(&call, Err(Failure::not_done(ErrorCode::PushMissing, "aged out")));
    assert_eq!(push_ok(&mut client).push, first.push);
    let _ = ordered(&mut client);
}

#[test]
fn a_full_chunk_sends_the_append_to_the_next_one() {
    let mut client = connected();
    let done = client.start(append(10));
    leased(&mut client, grant(0, 8, 1, &[1]));
    push_ok(&mut client);
    let (_, call) = ordered(&mut client);
    client.tell(&call, Err(Failure::not_done(ErrorCode::ChunkClosed, "full")));
    let lease = leased(&mut client, grant(1, 9, 2, &[1]));
    assert_eq!(lease.failed, ServerId::default(), "nobody has failed");
    push_ok(&mut client);
    let (_, call) = ordered(&mut client);
    client.tell(&call, Ok(appended(0)));
    assert_eq!(result(&done), Ok(Output::Appended { offset: 4096 }));
}

#[test]
fn a_record_over_a_quarter_of_a_chunk_is_refused_before_anyone_is_asked() {
    let mut client = connected();
    let done = client.start(append(1025));
    client.assert_asks_nobody();
    let failure = result(&done).expect_err("too large");
    assert_eq!((failure.code, failure.outcome), (ErrorCode::RecordTooLarge, Outcome::Refused));
}

#[test]
fn an_append_that_was_ordered_and_not_answered_is_unknown_and_one_only_pushed_not_done() {
    let mut client = connected();
    let done = client.start(append(10));
    leased(&mut client, grant(0, 8, 1, &[1]));
    push_ok(&mut client);
    let _ordered = ordered(&mut client);
    client.pass(Duration::from_secs(61));
    assert_eq!(result(&done).map_err(|f| f.outcome), Err(Outcome::Unknown));
    while client.has_calls() {
        // Whether the primary is there, nobody has told.
        client.call();
    }

    let mut client = connected();
    let done = client.start(append(10));
    leased(&mut client, grant(0, 8, 1, &[4, 1]));
    let (push, _) = pushed(&mut client);
    assert_eq!(push.order, None, "another than the primary is nearer");
    client.pass(Duration::from_secs(61));
    assert_eq!(result(&done).map_err(|f| f.outcome), Err(Outcome::NotDone));
}

/// An append whose primary, server 1, is as near as any; its push, which brings the order.
fn ordered_by_its_push(client: &mut TestClient) -> (ResultSlot, Push, Call) {
    let done = client.start(append(10));
    leased(client, grant(0, 8, 21, &[2, 4, 1, 3]));
    let (push, call) = pushed(client);
    (done, push, call)
}

#[test]
fn where_nobody_is_nearer_than_the_primary_the_data_of_an_append_brings_its_order() {
    let mut client = connected();
    let (done, push, call) = ordered_by_its_push(&mut client);
    assert_eq!(call.to.as_str(), "s2:1", "the primary, of two that are as near");
    let servers: Vec<u64> = push.chain.iter().map(|at| at.server.get()).collect();
    assert_eq!(servers.len(), 3);
    assert_eq!(servers[0], 1, "and then whoever is next to it");
    let (handle, version, lease) = (handle(0), ChunkVersion::new(8), LeaseId::new(21));
    assert_eq!(push.order.as_deref(), Some(&AppendOrder { handle, version, lease }));
    client.tell(&call, Ok(appended(40)));
    assert_eq!(result(&done), Ok(Output::Appended { offset: 40 }));
    client.assert_asks_nobody();

    // One that is to be on disk waits for that longer than a push is waited for.
    client.start(Operation::Append { file: FILE, bytes: vec![5; 10].into(), sync: true });
    assert_eq!(push_ok(&mut client).order, None);
    assert!(ordered(&mut client).0.sync);
}

#[test]
fn long_data_brings_no_order_along_for_others_would_wait_behind_it() {
    for (size, brings) in [(64 << 10, true), ((64 << 10) + 1, false)] {
        let chunk_size = 1 << 20;
        let mut client = connected_to(CellConfig { chunk_size, ..CellConfig::tiny() });
        client.start(append(size));
        leased(&mut client, grant(0, 8, 21, &[2, 1]));
        assert_eq!(pushed(&mut client).0.order.is_some(), brings, "{size} bytes");
    }
}

#[test]
fn a_server_of_before_answers_the_push_and_is_told_the_order_by_itself() {
    let mut client = connected();
    let (done, push, call) = ordered_by_its_push(&mut client);
    client.tell(&call, Ok(Response::Push(PushAnswer {})));
    let (append, call) = ordered(&mut client);
    assert_eq!((append.push, append.lease), (push.push, LeaseId::new(21)));
    client.tell(&call, Ok(appended(40)));
    assert_eq!(result(&done), Ok(Output::Appended { offset: 40 }));
}

#[test]
fn what_the_primary_says_of_an_order_that_came_with_its_data_counts_as_of_any() {
    let mut client = connected();
    let (_, first, call) = ordered_by_its_push(&mut client);
    client.tell(&call, Err(Failure::not_done(ErrorCode::PushMissing, "aged out")));
    let (again, call) = pushed(&mut client);
    assert_eq!((again.push, again.order.is_some()), (first.push, true), "R15");
    client.tell(&call, Err(Failure::not_done(ErrorCode::ChunkClosed, "full")));
    let lease = leased(&mut client, grant(1, 9, 22, &[2, 3]));
    assert_eq!(lease.failed, ServerId::default(), "nobody has failed");
    let (next, call) = pushed(&mut client);
    assert_ne!(next.push, first.push);
    client.tell(&call, Err(Failure::not_done(ErrorCode::NotPrimary, "it has no lease")));
    client.pass(Duration::from_millis(250));
    assert_eq!(leased(&mut client, grant(1, 9, 23, &[2, 3])).failed, ServerId::new(2));
}

#[test]
fn a_push_with_an_order_that_is_not_answered_may_have_been_carried_out() {
    let mut client = connected();
    let (done, first, call) = ordered_by_its_push(&mut client);
    client.tell(&call, Err(Failure::unknown(ErrorCode::DeadlineExceeded, "no answer in time")));
    let apart = [(); 4].map(|()| pushed(&mut client));
    assert!(apart.iter().all(|(push, _)| push.push == first.push && push.order.is_none()));
    for (_, call) in &apart {
        client.tell(call, Ok(Response::Push(PushAnswer {})));
    }
    let (append, call) = ordered(&mut client);
    assert_eq!(append.push, first.push, "the primary knows it by its name (R15)");
    client.tell(&call, Err(Failure::refused(ErrorCode::Invalid, "no")));
    assert_eq!(result(&done).map_err(|f| f.outcome), Err(Outcome::Unknown), "U3");

    let mut client = connected();
    let (done, ..) = ordered_by_its_push(&mut client);
    client.pass(Duration::from_secs(61));
    assert_eq!(result(&done).map_err(|f| f.outcome), Err(Outcome::Unknown));
}

#[test]
fn a_push_with_an_order_that_was_late_makes_no_other_wait_for_its_turn() {
    let mut client = connected();
    let (_, _, late) = ordered_by_its_push(&mut client);
    client.tell(&late, Err(Failure::unknown(ErrorCode::DeadlineExceeded, "no answer in time")));
    let _apart = [(); 4].map(|()| pushed(&mut client));
    client.start(append(1000));
    assert!(pushed(&mut client).0.order.is_some(), "the line does not count as slow");
}

#[test]
fn a_primary_that_lets_wait_with_a_push_and_its_order_is_doubted_and_left_where_the_master_is() {
    let mut client = connected();
    let (done, _, late) = ordered_by_its_push(&mut client);
    client.pass(Duration::from_millis(600));
    let lease = leased(&mut client, grant(0, 9, 21, &[2, 4, 1, 3]));
    assert_eq!((lease.failed, lease.failed_version), (ServerId::new(2), ChunkVersion::new(8)));
    client.assert_asks_nobody();
    client.pass(Duration::from_millis(1100));
    leased(&mut client, grant(1, 9, 22, &[1, 3]));
    client.pass(Duration::from_millis(250));
    let (second, call) = pushed(&mut client);
    assert_eq!((call.to.as_str(), second.order.is_some()), ("s1:1", true));
    client.tell(&late, Ok(appended(40)));
    assert!(!is_done(&done), "the word of the one that was given up counts no more");
    client.tell(&call, Err(Failure::refused(ErrorCode::Invalid, "no")));
    assert_eq!(result(&done).map_err(|f| f.outcome), Err(Outcome::Unknown));
}

#[test]
fn a_push_with_an_order_whose_chain_broke_was_not_carried_out() {
    let mut client = connected();
    let (done, _, call) = ordered_by_its_push(&mut client);
    let broken = Failure {
        server: ServerId::new(4),
        ..Failure::not_done(ErrorCode::ChainBroken, "server 4 does not answer")
    };
    client.tell(&call, Err(broken));
    for (_, call) in [(); 3].map(|()| pushed(&mut client)) {
        client.tell(&call, Ok(Response::Push(PushAnswer {})));
    }
    let (_, call) = ordered(&mut client);
    client.tell(&call, Err(Failure::refused(ErrorCode::Invalid, "no")));
    assert_eq!(result(&done).map_err(|f| f.outcome), Err(Outcome::Refused));
}

#[test]
fn a_sync_covers_what_was_acknowledged_before_it_and_leaves_what_came_meanwhile() {
    let mut client = connected();
    let write = |client: &mut TestClient| {
        client.start(append(10));
    };
    write(&mut client);
    leased(&mut client, grant(0, 8, 1, &[1]));
    push_ok(&mut client);
    client.answer(appended(0));
    let sync = client.start(Operation::Sync { file: FILE });
    let syncing = client.call();
    assert!(matches!(&syncing.request, Request::SyncChunk(sync) if sync.handle == handle(0)));
    write(&mut client);
    push_ok(&mut client);
    client.answer(appended(10));
    client.tell(&syncing, Ok(synced(10)));
    assert!(!is_done(&sync));
    let recorded = Response::RecordLength(RecordLengthAnswer { length: 10 });
    client.answer(recorded.clone());
    assert_eq!(result(&sync), Ok(Output::Recorded { length: 10 }));

    client.start(Operation::Sync { file: FILE });
    let call = client.answer(synced(20));
    assert!(matches!(call.request, Request::SyncChunk(_)), "SO1");
    client.answer(recorded.clone());
    client.start(Operation::Sync { file: FILE });
    let call = client.answer(recorded);
    assert!(matches!(call.request, Request::RecordLength(_)), "all is synced");
}

#[test]
fn a_close_tells_the_master_that_it_is_one_and_a_sync_that_it_is_none() {
    let mut client = connected();
    let recorded = Response::RecordLength(RecordLengthAnswer::default());
    for (asked, closes) in [
        (Operation::Sync { file: FILE }, false),
        (Operation::Close { file: FILE, sync: true }, true),
        (Operation::Close { file: FILE, sync: false }, true),
    ] {
        client.start(asked);
        let call = client.answer(recorded.clone());
        assert_eq!(call.request, Request::RecordLength(RecordLength { file: FILE, closes }));
    }
}

#[test]
fn a_sync_tells_once_of_acknowledged_bytes_that_are_gone() {
    let mut client = connected();
    client.start(append(10));
    leased(&mut client, grant(0, 8, 1, &[1]));
    push_ok(&mut client);
    client.answer(appended(30));
    let sync = client.start(Operation::Sync { file: FILE });
    // The power failed, and what is left was levelled (R28).
    client.answer(synced(39));
    let failure = result(&sync).expect_err("byte 39 was acknowledged");
    assert_eq!((failure.code, failure.outcome), (ErrorCode::Io, Outcome::Refused));
    assert!(failure.message.contains("40 acknowledged bytes"), "{failure}");
    client.assert_asks_nobody();
    client.start(Operation::Sync { file: FILE });
    assert!(matches!(client.call().request, Request::RecordLength(_)), "told once");
}

#[test]
fn a_sync_tells_once_of_bytes_that_were_acknowledged_in_another_life_of_the_chunk() {
    let mut client = connected();
    client.start(append(10));
    leased(&mut client, grant(0, 8, 1, &[1]));
    push_ok(&mut client);
    client.answer(appended(30));
    // The power failed, another client has written further on, and this one again.
    let serial = SerialNumber::default().next_life();
    client.start(append(10));
    push_ok(&mut client);
    client.answer(Response::Append(AppendAnswer { offset: 50, serial }));
    let synced = |length| {
        let server = ServerId::default();
        Response::SyncChunk(SyncChunkAnswer { length, server, serial })
    };
    let sync = client.start(Operation::Sync { file: FILE });
    client.answer(synced(60));
    let failure = result(&sync).expect_err("bytes 30 to 39 were acknowledged before");
    assert_eq!((failure.code, failure.outcome), (ErrorCode::Io, Outcome::Refused));
    client.start(append(10));
    push_ok(&mut client);
    client.answer(Response::Append(AppendAnswer { offset: 70, serial: serial.next() }));
    let sync = client.start(Operation::Sync { file: FILE });
    client.answer(synced(80));
    client.answer(Response::RecordLength(RecordLengthAnswer { length: 80 }));
    assert!(result(&sync).is_ok(), "told once");
}

/// Answers every call with a failure, leases apart from the rest, until the operation is done.
fn fail_all(client: &mut TestClient, done: &ResultSlot, lease: &Failure, rest: &Failure) {
    while !is_done(done) {
        while client.has_calls() {
            let call = client.call();
            let leases = matches!(call.request, Request::Lease(_));
            client.tell(&call, Err(if leases { lease.clone() } else { rest.clone() }));
        }
        client.pass(Duration::from_millis(100));
    }
}

#[test]
fn where_every_server_is_full_an_append_says_so_by_its_deadline() {
    let mut client = connected();
    let done = client.start(append(10));
    leased(&mut client, grant(0, 8, 1, &[1]));
    push_ok(&mut client);
    let (_, call) = ordered(&mut client);
    client.tell(&call, Err(Failure::not_done(ErrorCode::ChunkClosed, "its disk is full")));
    let full = Failure::not_done(ErrorCode::TooFewServers, "no server has room for a chunk");
    fail_all(&mut client, &done, &full, &full);
    let failure = result(&done).expect_err("no room");
    assert_eq!((failure.code, failure.outcome), (ErrorCode::TooFewServers, Outcome::NotDone));

    // A master that never answers: what the primary said last is told.
    let done = client.start(append(10));
    leased(&mut client, grant(0, 8, 1, &[1]));
    push_ok(&mut client);
    let (_, call) = ordered(&mut client);
    client.tell(&call, Err(Failure::not_done(ErrorCode::ChunkClosed, "its disk is full")));
    client.pass(Duration::from_secs(61));
    let failure = result(&done).expect_err("no room");
    assert_eq!(failure.code, ErrorCode::ChunkClosed);
    assert!(failure.message.contains("its disk is full"), "{failure}");
}

#[test]
fn a_write_to_a_full_disk_is_refused_at_once() {
    let mut client = connected();
    let bytes = Bytes::from(vec![6; 5]);
    let done = client.start(Operation::Write { file: FILE, offset: 0, bytes, sync: false });
    leased(&mut client, grant(0, 8, 1, &[1]));
    push_ok(&mut client);
    client.fail(Failure::not_done(ErrorCode::DiskFull, "no space left"));
    assert_eq!(result(&done).map_err(|f| f.code), Err(ErrorCode::DiskFull));
}

/// An append whose primary, server 4, has been told and says nothing for a while: the master is
/// asked about it.
fn doubted(client: &mut TestClient) -> (ResultSlot, Call) {
    let done = client.start(append(10));
    leased(client, grant(0, 8, 1, &[4, 1]));
    push_ok(client);
    let (_, order) = ordered(client);
    client.pass(Duration::from_millis(600));
    (done, order)
}

#[test]
fn a_primary_that_lets_wait_is_waited_for_while_the_master_vouches_for_it() {
    let mut client = connected();
    let (done, order) = doubted(&mut client);
    let lease = leased(&mut client, grant(0, 9, 1, &[4]));
    assert_eq!((lease.failed, lease.failed_version), (ServerId::new(4), ChunkVersion::new(8)));
    client.assert_asks_nobody();
    client.pass(Duration::from_millis(1100));
    leased(&mut client, grant(0, 9, 1, &[4]));
    client.assert_asks_nobody();
    client.tell(&order, Ok(appended(40)));
    assert_eq!(result(&done), Ok(Output::Appended { offset: 40 }));
}

#[test]
fn where_the_master_has_gone_on_to_another_lease_the_mutation_follows_and_may_have_happened() {
    let mut client = connected();
    let (done, order) = doubted(&mut client);
    leased(&mut client, grant(1, 9, 2, &[1, 3]));
    assert_eq!(push_ok(&mut client).chain.len(), 1);
    let (append, call) = ordered(&mut client);
    assert_eq!((append.handle, append.lease), (handle(1), LeaseId::new(2)));
    client.tell(&order, Err(Failure::unknown(ErrorCode::DeadlineExceeded, "it hung")));
    assert!(!is_done(&done), "the word of the one that was given up counts no more");
    client.tell(&call, Err(Failure::refused(ErrorCode::Invalid, "no")));
    assert_eq!(result(&done).map_err(|f| f.outcome), Err(Outcome::Unknown));
}

#[test]
fn an_order_does_not_wait_for_a_replica_that_is_late_with_its_data() {
    let mut client = connected();
    client.start(append(10));
    leased(&mut client, grant(0, 8, 1, &[4, 1, 3]));
    let (_, chain) = pushed(&mut client);
    client.tell(&chain, Err(Failure::unknown(ErrorCode::DeadlineExceeded, "no answer")));
    let apart = [(); 3].map(|()| pushed(&mut client).1);
    for call in apart.iter().filter(|call| call.to.as_str() != "s3:1") {
        client.tell(call, Ok(Response::Push(PushAnswer {})));
    }
    client.assert_asks_nobody();
    client.pass(Duration::from_millis(200));
    let calls = [client.call(), client.call()];
    assert!(calls.iter().any(|call| matches!(call.request, Request::Append(_))), "{calls:?}");
}
