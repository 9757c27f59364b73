//! Reads of streams against answers told one by one.

use crate::operation::{HoleRead, Operation, Output};
use crate::test_client::{
    Call, FILE, ResultSlot, TestClient, bytes_read, chunk, connected, handle, is_done, result,
};
use cairn_protocol::{
    ErrorCode, Failure, LostTail, Open, OpenAnswer, Outcome, Read, ReadAnswer, ReadExtents,
    ReadExtentsAnswer, Request, Response, StreamExtent,
};
use cairn_types::{Entry, Layout, RecordNumber};
use std::time::Duration;

fn entry(length: u64) -> Entry {
    Entry { id: FILE, length, layout: Layout::Stream, ..Entry::default() }
}

/// A client that has the stream open.
fn opened(length: u64) -> TestClient {
    let mut client = connected();
    client.start(Operation::Open(Open::default().into()));
    let answer = OpenAnswer { entry: entry(length), ..OpenAnswer::default() };
    client.answer(Response::Open(answer));
    client
}

fn read(offset: u64, size: u64) -> Operation {
    Operation::Read { file: FILE, offset, size, fresh: false }
}

/// The next call asks for extents from `offset` on; these are the answer: offset, size, chunk,
/// offset in it. Each chunk is on servers 1 and 2.
fn tell_extents(
    client: &mut TestClient,
    offset: u64,
    length: u64,
    extents: &[(u64, u64, u64, u64)],
) {
    tell_lost(client, offset, length, extents, &[]);
}

/// The same; some of these chunks have lost what is behind so many bytes of them, and it may be a
/// hole.
fn tell_lost(
    client: &mut TestClient,
    offset: u64,
    length: u64,
    extents: &[(u64, u64, u64, u64)],
    lost: &[(u64, u64, bool)],
) {
    let call = client.call_of(|request| matches!(request, Request::ReadExtents(_)));
    let Request::ReadExtents(ReadExtents { file, offset: from, .. }) = call.request else {
        panic!("{call:?}")
    };
    assert_eq!((file, from), (FILE, offset));
    let mut chunks: Vec<u64> = extents.iter().map(|it| it.2).collect();
    chunks.sort_unstable();
    chunks.dedup();
    let chunks = chunks.into_iter().map(|nth| chunk(nth, 7, &[1, 2], None)).collect();
    let extents = extents.iter().map(|&(offset, size, nth, chunk_offset)| StreamExtent {
        offset,
        size,
        handle: handle(nth),
        chunk_offset,
    });
    let (entry, extents) = (entry(length).into(), extents.collect());
    let lost = lost.iter().map(|&(nth, held, is_hole)| LostTail {
        handle: handle(nth),
        held,
        committed: u64::MAX,
        is_hole,
    });
    let lost = lost.collect();
    let answer = ReadExtentsAnswer { entry, extents, chunks, lost, ..ReadExtentsAnswer::default() };
    client.tell(&call, Ok(Response::ReadExtents(answer)));
}

fn asked(call: &Call) -> &Read {
    let Request::Read(read) = &call.request else { panic!("no read: {call:?}") };
    read
}

fn is_read_of(call: &Call, nth: u64) -> bool {
    matches!(&call.request, Request::Read(read) if read.handle == handle(nth))
}

/// The bytes of a chunk: each tells where it stands there, and in which chunk.
fn bytes_of(nth: u64, offset: u64, size: u64) -> Vec<u8> {
    (offset..offset + size).map(|at| (at as u8) ^ (nth as u8) << 5).collect()
}

/// Answers the next read with what it asked for.
fn send(client: &mut TestClient) -> Read {
    let call = client.call_of(|request| matches!(request, Request::Read(_)));
    let read = asked(&call).clone();
    let nth = (0..9).find(|nth| handle(*nth) == read.handle).expect("a chunk of the test");
    let bytes = bytes_of(nth, read.offset, read.size);
    client.send_bytes(&call, &bytes, ReadAnswer::default());
    read
}

fn error(done: &ResultSlot) -> (ErrorCode, Outcome) {
    let failure = result(done).expect_err("it fails");
    (failure.code, failure.outcome)
}

#[test]
fn what_a_range_has_of_each_chunk_is_read_at_once_up_to_what_is_committed() {
    let mut client = opened(100);
    let done = client.start(read(10, 500));
    let all = [(0, 40, 1, 0), (40, 20, 2, 0), (60, 30, 1, 40), (90, 10, 3, 0), (100, 50, 1, 70)];
    tell_extents(&mut client, 10, 150, &all);
    let reads: Vec<Read> = (0..3).map(|_| send(&mut client)).collect();
    let of = |nth| reads.iter().find(|read| read.handle == handle(nth)).expect("read");
    assert_eq!((of(1).offset, of(1).size, of(1).committed), (10, 110, Some(120)));
    assert_eq!((of(2).offset, of(2).size, of(2).committed), (0, 20, Some(20)));
    assert_eq!((of(3).version.get(), of(3).closed, of(3).takes_behind), (7, false, false));
    let Ok(Output::Read { end, suspect, .. }) = result(&done) else { panic!("not read") };
    assert!(end && !suspect, "the file ends at 150");
    let parts = [(1, 10, 30), (2, 0, 20), (1, 40, 30), (3, 0, 10), (1, 70, 50)];
    let expected = parts.map(|(nth, offset, size)| bytes_of(nth, offset, size)).concat();
    assert_eq!(bytes_read(&done), expected);
    // All of that is known now.
    let again = client.start(read(45, 20));
    let reads = [send(&mut client), send(&mut client)];
    let first = reads.iter().find(|read| read.handle == handle(1)).expect("read");
    assert_eq!((first.offset, first.size, first.committed), (40, 5, Some(120)), "SE2");
    assert_eq!(bytes_read(&again), [bytes_of(2, 5, 15), bytes_of(1, 40, 5)].concat());
    client.assert_asks_nobody();
}

#[test]
fn what_is_lost_is_refused_by_the_newest_word_and_is_zeros_while_it_is_a_hole() {
    let mut client = opened(100);
    let extents = [(0, 40, 1, 0), (40, 20, 2, 0), (60, 40, 1, 40)];
    let done = client.start(read(70, 30));
    tell_lost(&mut client, 70, 100, &extents, &[(1, 50, false)]);
    assert_eq!(error(&done), (ErrorCode::LostBytes, Outcome::Refused));
    let told = result(&done).expect_err("it fails").message;
    assert!(told.starts_with("bytes 70 to 100 of the stream are lost"), "{told}");
    // What is not lost is read, and nobody is asked for more.
    let whole = client.start(read(0, 70));
    let reads = [send(&mut client), send(&mut client)].map(|read| (read.offset, read.size));
    assert!(reads.contains(&(0, 50)) && reads.contains(&(0, 20)), "{reads:?}");
    assert_eq!(bytes_read(&whole).len(), 70);
    // A read ends before what is lost, if that is so still (RE1).
    let before = client.start(read(65, 35));
    tell_lost(&mut client, 65, 100, &extents, &[(1, 50, false)]);
    let part = send(&mut client);
    assert_eq!((part.offset, part.size), (45, 5), "and no more of it");
    let Ok(Output::Read { pieces, end, .. }) = result(&before) else { panic!("not read") };
    assert_eq!((pieces.concat(), end), (bytes_of(1, 45, 5), false));
    // Whoever asks again may be told otherwise.
    let again = client.start(read(65, 35));
    tell_lost(&mut client, 65, 100, &extents, &[(1, 50, true)]);
    send(&mut client);
    let Ok(Output::Read { pieces, holes, .. }) = result(&again) else { panic!("not read") };
    assert_eq!(pieces.concat(), [bytes_of(1, 45, 5), vec![0; 30]].concat());
    assert_eq!(holes, [HoleRead { offset: 70, size: 30 }]);
    // For a while nobody is asked where the hole is known.
    let known = client.start(read(80, 10));
    assert_eq!(bytes_read(&known), [0; 10]);
    client.assert_asks_nobody();
    client.pass(Duration::from_secs(120));
    let back = client.start(read(80, 10));
    tell_extents(&mut client, 80, 100, &extents);
    send(&mut client);
    assert_eq!(bytes_read(&back), bytes_of(1, 60, 10), "a server is back with it");
}

#[test]
fn who_reads_what_is_lost_meanwhile_is_told_so_and_not_at_the_deadline() {
    let mut client = opened(100);
    let done = client.start(read(60, 40));
    tell_extents(&mut client, 60, 100, &[(0, 100, 1, 0)]);
    for _ in 0..2 {
        let call = client.call_of(|request| matches!(request, Request::Read(_)));
        let lacks = Failure::not_done(ErrorCode::PastAcknowledged, "it has less");
        client.tell(&call, Err(lacks));
    }
    client.pass(Duration::from_secs(1));
    tell_lost(&mut client, 60, 100, &[(0, 100, 1, 0)], &[(1, 50, false)]);
    // The run is given up, and all is looked up anew.
    tell_lost(&mut client, 60, 100, &[(0, 100, 1, 0)], &[(1, 50, false)]);
    assert_eq!(error(&done), (ErrorCode::LostBytes, Outcome::Refused));
}

#[test]
fn what_was_lost_and_is_replaced_meanwhile_is_read_with_all_that_was_asked_for() {
    let mut client = opened(100);
    let done = client.start(read(0, 100));
    let lost = [(2, 30, false)];
    tell_lost(&mut client, 0, 100, &[(0, 40, 1, 0), (40, 60, 2, 0)], &lost);
    let is_first =
        |request: &Request| matches!(request, Request::Read(read) if read.handle == handle(1));
    for _ in 0..2 {
        let call = client.call_of(is_first);
        client.tell(&call, Err(Failure::not_done(ErrorCode::NoSuchChunk, "gone")));
    }
    client.pass(Duration::from_secs(1));
    // The run is given up, and all is looked up anew.
    tell_extents(&mut client, 0, 100, &[(0, 100, 3, 0)]);
    tell_extents(&mut client, 0, 100, &[(0, 100, 3, 0)]);
    let call = client
        .call_of(|request| matches!(request, Request::Read(read) if read.handle == handle(3)));
    client.send_bytes(&call, &bytes_of(3, 0, 100), ReadAnswer::default());
    assert_eq!(bytes_read(&done), bytes_of(3, 0, 100), "and not up to where it was lost");
}

#[test]
fn a_long_run_is_cut_where_blocks_end() {
    const KIB: u64 = 1 << 10;
    let mut client = opened(100);
    let size = 2500 * KIB;
    let done = client.start(read(0, size));
    tell_extents(
        &mut client,
        0,
        size,
        &[(0, 900 * KIB, 1, 300 * KIB), (900 * KIB, 1600 * KIB, 1, 1200 * KIB)],
    );
    let mut reads: Vec<(u64, u64)> =
        (0..3).map(|_| send(&mut client)).map(|it| (it.offset / KIB, it.size / KIB)).collect();
    reads.sort_unstable();
    assert_eq!(reads, [(300, 724), (1024, 1024), (2048, 752)]);
    assert_eq!(bytes_read(&done), bytes_of(1, 300 * KIB, size));
}

#[test]
fn an_open_brings_where_the_bytes_are_and_the_master_is_asked_nothing_more_to_read_them() {
    let mut client = connected();
    client.start(Operation::Open(Open::default().into()));
    let call = client.call();
    let Request::Open(asked) = &call.request else { panic!("{call:?}") };
    assert!(asked.extents >= 200, "as many as there may be");
    let extent = |nth: u64| StreamExtent {
        offset: 10 * nth,
        size: 10,
        handle: handle(1 + nth % 2),
        chunk_offset: 10 * (nth / 2),
    };
    let (entry, chunks) = (entry(2000), [1, 2].map(|nth| chunk(nth, 7, &[1, 2], None)).to_vec());
    let extents = (0..200).map(extent).collect();
    let told = ReadExtentsAnswer {
        entry: entry.clone().into(),
        chunks,
        extents,
        ..ReadExtentsAnswer::default()
    };
    let stream = Some(told.into());
    let answer = OpenAnswer { entry, stream, ..OpenAnswer::default() };
    client.tell(&call, Ok(Response::Open(answer)));
    // All of it, piece by piece: the servers are asked, and no master.
    for offset in (0..2000).step_by(500) {
        let done = client.start(read(offset, 500));
        let reads = [send(&mut client), send(&mut client)];
        assert!(reads.iter().all(|read| read.size == 250), "{reads:?}");
        assert_eq!(bytes_read(&done).len(), 500);
        client.assert_asks_nobody();
    }
}

#[test]
fn extents_from_before_and_behind_a_replaced_range_are_not_mixed() {
    let mut client = opened(100);
    let done = client.start(read(0, 20));
    tell_extents(&mut client, 0, 100, &[(0, 20, 1, 0)]);
    send(&mut client);
    assert_eq!(bytes_read(&done), bytes_of(1, 0, 20));
    // What is told of the rest is of after bytes 10 to 30 were replaced.
    let done = client.start(read(0, 40));
    let call = client.call_of(|request| matches!(request, Request::ReadExtents(_)));
    let told = |extents: &[(u64, u64, u64, u64)]| ReadExtentsAnswer {
        entry: entry(100).into(),
        extents: extents
            .iter()
            .map(|it| StreamExtent {
                offset: it.0,
                size: it.1,
                handle: handle(it.2),
                chunk_offset: it.3,
            })
            .collect(),
        chunks: [1, 2].map(|nth| chunk(nth, 7, &[1, 2], None)).to_vec(),
        replaced: RecordNumber::new(1),
        ..ReadExtentsAnswer::default()
    };
    let rest = [(10, 20, 2, 0), (30, 70, 1, 30)];
    client.tell(&call, Ok(Response::ReadExtents(told(&rest))));
    let call = client.call_of(|request| matches!(request, Request::ReadExtents(_)));
    let Request::ReadExtents(asked) = &call.request else { panic!("{call:?}") };
    assert_eq!(asked.offset, 0, "all of it anew (SE1)");
    let all = [(0, 10, 1, 0), (10, 20, 2, 0), (30, 70, 1, 30)];
    client.tell(&call, Ok(Response::ReadExtents(told(&all))));
    for _ in 0..3 {
        send(&mut client);
    }
    let expected = [bytes_of(1, 0, 10), bytes_of(2, 0, 20), bytes_of(1, 30, 10)].concat();
    assert_eq!(bytes_read(&done), expected);
}

#[test]
fn the_end_is_asked_for_anew_and_only_a_younger_answer_is_believed() {
    let mut client = opened(0);
    let done = client.start(read(0, 10));
    tell_extents(&mut client, 0, 0, &[]);
    assert_eq!(
        result(&done),
        Ok(Output::Read { pieces: vec![], end: true, suspect: false, holes: vec![] })
    );
    let done = client.start(read(0, 10));
    tell_extents(&mut client, 0, 30, &[(0, 30, 1, 0)]);
    send(&mut client);
    assert_eq!(bytes_read(&done), bytes_of(1, 0, 10));
    // It has grown: the extent is longer, and so is what is committed of the chunk.
    let done = client.start(read(20, 20));
    tell_extents(&mut client, 30, 35, &[(30, 5, 1, 30)]);
    assert_eq!(send(&mut client).committed, Some(35));
    let Ok(Output::Read { end: true, .. }) = result(&done) else { panic!("it ends at 35") };
    assert_eq!(bytes_read(&done), bytes_of(1, 20, 15));
    let fresh = Operation::Read { file: FILE, offset: 0, size: 5, fresh: true };
    let done = client.start(fresh);
    tell_extents(&mut client, 0, 35, &[(0, 35, 1, 0)]);
    send(&mut client);
    assert!(is_done(&done));
}

#[test]
fn a_replica_that_is_behind_or_rotten_is_left_for_another_and_none_ends_the_file() {
    let mut client = opened(100);
    let done = client.start(read(0, 100));
    tell_extents(&mut client, 0, 100, &[(0, 100, 1, 0)]);
    let first = client.call();
    client.send_bytes(&first, &bytes_of(1, 0, 64), ReadAnswer::default());
    let second = client.call();
    assert_ne!(second.to, first.to);
    assert_eq!((asked(&second).offset, asked(&second).size), (64, 36));
    client.send_bad_bytes(&second, &bytes_of(1, 64, 36), 3);
    let report = client.call_of(|request| matches!(request, Request::ReportBadBlock(_)));
    assert!(matches!(report.request, Request::ReportBadBlock(_)));
    client.pass(Duration::from_secs(1));
    tell_extents(&mut client, 0, 100, &[(0, 100, 1, 0)]);
    let third = client.call();
    client.send_bytes(&third, &[], ReadAnswer { zeros: 36, ..ReadAnswer::default() });
    assert!(!is_done(&done), "RR2: zeros that nobody wrote");
    let fourth = client.call();
    assert_eq!(asked(&fourth).size, 36);
    client.send_bytes(&fourth, &bytes_of(1, 64, 36), ReadAnswer::default());
    assert_eq!(bytes_read(&done), bytes_of(1, 0, 100));
}

#[test]
fn where_the_bytes_were_copied_to_another_chunk_all_is_looked_up_anew() {
    let mut client = opened(100);
    let done = client.start(read(0, 100));
    tell_extents(&mut client, 0, 100, &[(0, 50, 1, 0), (50, 50, 2, 0)]);
    for _ in 0..2 {
        let call = client
            .call_of(|request| matches!(request, Request::Read(read) if read.handle == handle(1)));
        client.tell(&call, Err(Failure::not_done(ErrorCode::NoSuchChunk, "gone")));
    }
    client.pass(Duration::from_secs(1));
    tell_extents(&mut client, 0, 100, &[(0, 100, 3, 0)]);
    // The old chunk is known still, and the master was asked for it again.
    for _ in 0..9 {
        if is_done(&done) {
            break;
        }
        match client.next_call() {
            Some(call) if matches!(call.request, Request::ReadExtents(_)) => {
                let extents =
                    vec![StreamExtent { offset: 0, size: 100, handle: handle(3), chunk_offset: 0 }];
                let chunks = vec![chunk(3, 7, &[1, 2], None)];
                let entry = entry(100).into();
                let answer =
                    ReadExtentsAnswer { entry, extents, chunks, ..ReadExtentsAnswer::default() };
                client.tell(&call, Ok(Response::ReadExtents(answer)));
            }
            Some(call) if is_read_of(&call, 3) => {
                client.send_bytes(&call, &bytes_of(3, 0, 100), ReadAnswer::default());
            }
            Some(_) => {}
            None => drop(client.pass(Duration::from_secs(1))),
        }
    }
    assert_eq!(bytes_read(&done), bytes_of(3, 0, 100));
}

#[test]
fn a_master_that_does_not_say_where_bytes_are_is_not_asked_for_ever() {
    let mut client = opened(100);
    let done = client.start(read(0, 100));
    tell_extents(&mut client, 0, 100, &[(0, 50, 1, 0)]);
    tell_extents(&mut client, 50, 100, &[]);
    assert_eq!(error(&done), (ErrorCode::Internal, Outcome::NotDone));
}

/// Of a stream in small pieces one answer tells little, and a question that is under way may have
/// begun far before what another read wants.
#[test]
fn a_read_that_joined_a_question_which_came_to_less_asks_its_own() {
    let mut client = opened(100);
    let first = client.start(read(0, 20));
    let second = client.start(read(20, 40));
    // The second one has asked for itself, as the first one's question is older than it.
    tell_extents(&mut client, 0, 100, &[(0, 10, 1, 0)]);
    // Now the first one asks again, and the second's answer ends within what that may tell.
    tell_extents(&mut client, 20, 100, &[(20, 10, 2, 0)]);
    tell_extents(&mut client, 10, 100, &[(10, 10, 1, 10)]);
    assert!(!is_done(&second), "the master was not asked what stands at 30");
    tell_extents(&mut client, 30, 100, &[(30, 30, 2, 10)]);
    send(&mut client);
    send(&mut client);
    assert_eq!((bytes_read(&first).len(), bytes_read(&second).len()), (20, 40));
}

#[test]
fn what_changes_a_file_of_chunks_is_refused_on_a_stream_and_asks_nobody() {
    let mut client = opened(100);
    let bytes: bytes::Bytes = vec![1].into();
    let all = [
        Operation::Write { file: FILE, offset: 0, bytes: bytes.clone(), sync: false },
        Operation::Append { file: FILE, bytes, sync: false },
        Operation::Sync { file: FILE },
    ];
    for operation in all {
        let done = client.start(operation);
        assert_eq!(error(&done), (ErrorCode::Invalid, Outcome::Refused));
    }
    let length = client.start(Operation::Length { file: FILE });
    tell_extents(&mut client, u64::MAX, 130, &[]);
    assert_eq!(result(&length), Ok(Output::Length(130)));
    let closed = client.start(Operation::Close { file: FILE, sync: false });
    assert!(matches!(result(&closed), Ok(Output::Recorded { .. })));
    client.assert_asks_nobody();
    // Nobody has it open now: its chunks are not read as those of another file.
    let done = client.start(read(0, 10));
    let answer = cairn_protocol::LocateAnswer { entry: entry(100), ..Default::default() };
    client.answer(Response::Locate(answer));
    assert_eq!(error(&done), (ErrorCode::Invalid, Outcome::Refused));
}
