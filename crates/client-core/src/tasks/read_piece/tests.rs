//! Pieces of reads against answers told one by one: what is believed, and what is asked again.

use crate::operation::{Operation, Output};
use crate::test_client::{
    FILE, TestClient, bytes_read, chunk, connected, connected_to, grant, handle, is_done, located,
    result, server,
};
use cairn_protocol::{
    ChunkLocations, ErrorCode, Failure, LeasePurpose, LocateAnswer, Outcome, Read, ReadAnswer,
    Request, Response,
};
use cairn_types::{CellConfig, ChunkVersion, Entry, ReplicaAt};
use std::time::Duration;

fn read(offset: u64, size: u64) -> Operation {
    Operation::Read { file: FILE, offset, size, fresh: false }
}

fn readable(readable: u64) -> ReadAnswer {
    ReadAnswer { readable, ..ReadAnswer::default() }
}

/// Of each server that is asked, which block is bad (RP1); the bytes of a block are its number.
fn serve_with_bad_blocks(client: &mut TestClient, bad: &[(&str, u64)]) -> Vec<(String, u64, u64)> {
    let block = u64::from(CellConfig::tiny().block_size);
    let mut asked = Vec::new();
    while client.has_calls() {
        let call = client.call();
        let Request::Read(read) = call.request.clone() else { continue };
        let to = call.to.to_string();
        asked.push((to.clone(), read.offset / block, read.size / block));
        let bytes: Vec<u8> = (read.offset..read.offset + read.size)
            .map(|at| u8::try_from(at / block).expect("a few blocks"))
            .collect();
        let (_, number) = bad.iter().find(|(server, _)| *server == to).expect("it is known");
        let range = read.offset..read.offset + read.size;
        match range.contains(&(number * block)) {
            true => {
                let place = usize::try_from(number * block - read.offset).expect("a few blocks");
                client.send_bad_bytes(&call, &bytes, place);
            }
            false => {
                client.send_bytes(&call, &bytes, readable(1 << 20));
            }
        }
    }
    asked
}

/// Answers the question where chunk 0 lies.
fn locate(client: &mut TestClient, version: u64, servers: &[u64], primary: Option<u64>) {
    let call = client.answer(located(1, vec![chunk(0, version, servers, primary)]));
    assert!(matches!(call.request, Request::Locate(_)), "{call:?}");
}

fn asked(client: &mut TestClient) -> (String, Read, crate::test_client::Call) {
    let call = client.call();
    let Request::Read(read) = call.request.clone() else { panic!("{call:?}") };
    (call.to.to_string(), read, call)
}

#[test]
fn a_whole_read_asks_the_master_once_and_the_nearest_replica_once() {
    let mut client = connected();
    let done = client.start(read(10, 20));
    locate(&mut client, 5, &[3, 1, 4], None);
    let (to, sent, call) = asked(&mut client);
    let version = ChunkVersion::new(5);
    assert_eq!(to, "s1:1");
    let wanted = Read { handle: handle(0), version, offset: 10, size: 20, ..Read::default() };
    assert_eq!(sent, wanted);
    client.send_bytes(&call, &[7; 20], readable(100));
    assert_eq!(bytes_read(&done), [7; 20]);
    client.assert_asks_nobody();

    client.start(read(0, 5));
    assert_eq!(asked(&mut client).0, "s1:1", "the location is remembered");
}

#[test]
fn an_answer_that_came_too_late_to_be_kept_serves_the_read_that_asked_and_no_other() {
    let mut client = connected_to(CellConfig { location_ttl_ms: 1000, ..CellConfig::tiny() });
    for _ in 0..2 {
        let done = client.start(read(0, 20));
        client.now = client.now + Duration::from_secs(2);
        locate(&mut client, 5, &[1], None);
        let (_, _, call) = asked(&mut client);
        client.send_bytes(&call, &[7; 20], readable(20));
        assert_eq!(bytes_read(&done), [7; 20], "H3");
    }
}

#[test]
fn where_each_replica_has_a_bad_block_of_its_own_all_blocks_are_read() {
    let block = u64::from(CellConfig::tiny().block_size);
    let mut client = connected();
    let done = client.start(read(0, 6 * block));
    locate(&mut client, 5, &[1, 3, 4], None);
    let bad = [("s1:1", 1), ("s3:1", 2), ("s4:1", 4)];
    let asked = serve_with_bad_blocks(&mut client, &bad);
    let wanted: Vec<u8> =
        (0..6).flat_map(|number| vec![number; usize::try_from(block).expect("small")]).collect();
    assert!(is_done(&done), "after {asked:?}");
    assert_eq!(bytes_read(&done), wanted);
    assert!(asked.len() <= 8, "no block is asked for again and again: {asked:?}");
}

#[test]
fn bytes_that_fail_their_checksum_are_reported_and_read_elsewhere() {
    let mut client = connected();
    let done = client.start(read(0, 20));
    locate(&mut client, 5, &[1, 3], None);
    let (_, _, call) = asked(&mut client);
    client.send_bad_bytes(&call, &[7; 20], 0);
    assert!(!is_done(&done), "K2");
    let report = client.call();
    assert!(matches!(&report.request, Request::ReportBadBlock(bad) if bad.server.get() == 1));
    let (to, _, call) = asked(&mut client);
    assert_eq!(to, "s3:1");
    client.send_bytes(&call, &[7; 20], readable(20));
    assert_eq!(bytes_read(&done), [7; 20]);
}

#[test]
fn the_block_that_fails_its_checksum_is_reported_and_not_the_one_that_the_answer_begins_with() {
    let mut client = connected();
    client.start(read(0, 640));
    locate(&mut client, 5, &[1, 3], None);
    let (_, _, call) = asked(&mut client);
    client.send_bad_bytes(&call, &[7; 640], 350);
    let Request::ReportBadBlock(bad) = client.call().request else { panic!("no report") };
    assert_eq!((bad.server.get(), bad.offset), (1, 320), "the sixth block of 64 bytes");
}

#[test]
fn bytes_of_another_place_are_no_rot_and_are_read_elsewhere() {
    let mut client = connected();
    let done = client.start(read(64, 20));
    locate(&mut client, 5, &[1, 3], None);
    let (_, _, call) = asked(&mut client);
    // They stand behind the ones asked for.
    client.send_bytes_of(&call, 128, &[7; 20]);
    let (to, _, call) = asked(&mut client);
    assert_eq!(to, "s3:1", "nothing is reported");
    client.send_bytes(&call, &[8; 20], readable(84));
    assert_eq!(bytes_read(&done), [8; 20]);
}

#[test]
fn a_short_answer_is_the_end_only_at_a_version_asked_for_since_and_from_the_primary() {
    let mut client = connected();
    let done = client.start(read(0, 100));
    locate(&mut client, 5, &[1, 3], Some(3));
    let (to, _, call) = asked(&mut client);
    assert_eq!(to, "s1:1");
    client.send_bytes(&call, &[7; 30], readable(30));
    // R19: the master first, at whatever version it now says; then the rest.
    locate(&mut client, 6, &[1, 3], Some(3));
    let (to, sent, call) = asked(&mut client);
    assert_eq!((to.as_str(), sent.offset, sent.version.get()), ("s3:1", 30, 6));
    client.send_bytes(&call, &[8; 10], readable(40));
    let (to, sent, call) = asked(&mut client);
    assert_eq!((to.as_str(), sent.offset, sent.size), ("s3:1", 40, 60));
    client.send_bytes(&call, &[], readable(40));
    assert_eq!(bytes_read(&done), [&[7; 30][..], &[8; 10]].concat());
    let sure = |it| matches!(it, Ok(Output::Read { end: true, suspect: false, .. }));
    assert!(sure(result(&done)));
}

#[test]
fn past_the_mark_without_a_lease_the_master_levels_and_the_new_primary_is_asked() {
    let mut client = connected();
    let done = client.start(read(50, 10));
    locate(&mut client, 5, &[1, 3], None);
    let past = || Failure::not_done(ErrorCode::PastAcknowledged, "50 bytes are acknowledged");
    client.fail(past());
    locate(&mut client, 5, &[1, 3], None);
    client.fail(past());
    let call = client.answer(grant(0, 6, 1, &[3, 1]));
    let Request::Lease(lease) = call.request else { panic!("{call:?}") };
    assert_eq!(lease.purpose, LeasePurpose::Level, "R17");
    let (to, sent, call) = asked(&mut client);
    assert_eq!((to.as_str(), sent.version.get()), ("s3:1", 6));
    client.send_bytes(&call, &[9; 4], readable(54));
    let (_, sent, call) = asked(&mut client);
    assert_eq!(sent.offset, 54);
    client.send_bytes(&call, &[], readable(54));
    assert_eq!(bytes_read(&done), [9; 4]);
}

#[test]
fn a_hidden_file_gets_no_lease_and_ends_where_its_acknowledged_bytes_end() {
    let mut client = connected();
    let done = client.start(read(0, 10));
    locate(&mut client, 5, &[1], None);
    let (_, _, call) = asked(&mut client);
    client.send_bytes(&call, &[9; 4], readable(4));
    locate(&mut client, 5, &[1], None);
    client.fail(Failure::not_done(ErrorCode::PastAcknowledged, "4 bytes are acknowledged"));
    let call = client.fail(Failure::refused(ErrorCode::NotFound, "it is deleted"));
    assert!(matches!(call.request, Request::Lease(_)));
    assert_eq!(bytes_read(&done), [9; 4]);
}

#[test]
fn a_reader_that_reaches_nobody_asks_the_master_about_once_a_second() {
    let mut client = connected();
    client.start(read(0, 10));
    let (end, mut located_times) = (client.now + Duration::from_secs(30), 0);
    while client.now < end {
        while client.has_calls() {
            let call = client.call();
            if matches!(call.request, Request::Locate(_)) {
                located_times += 1;
                client.tell(&call, Ok(located(1, vec![chunk(0, 5, &[1, 3], None)])));
            } else {
                let gone = Failure::not_done(ErrorCode::Unreachable, "connection refused");
                client.tell(&call, Err(gone));
            }
        }
        client.pass(Duration::from_millis(50));
    }
    assert!((20..80).contains(&located_times), "{located_times} times in 30 seconds");
}

fn suspect(readable: u64) -> ReadAnswer {
    ReadAnswer { readable, suspect: true, ..ReadAnswer::default() }
}

#[test]
fn where_all_replicas_are_suspect_the_master_is_asked_to_level_them() {
    let mut client = connected();
    let done = client.start(read(0, 100));
    locate(&mut client, 5, &[1, 3], None);
    let (_, _, call) = asked(&mut client);
    client.send_bytes(&call, &[7; 30], suspect(30));
    locate(&mut client, 5, &[1, 3], None);
    // Each of them first: one may have lost less than the other.
    let (to, sent, call) = asked(&mut client);
    assert_eq!((to.as_str(), sent.offset), ("s1:1", 30));
    client.send_bytes(&call, &[], suspect(30));
    let (to, sent, call) = asked(&mut client);
    assert_eq!((to.as_str(), sent.offset), ("s3:1", 30));
    client.send_bytes(&call, &[8; 10], suspect(40));
    let call = client.answer(grant(0, 6, 1, &[3, 1]));
    let Request::Lease(lease) = call.request else { panic!("{call:?}") };
    assert_eq!(lease.purpose, LeasePurpose::Level, "R28: a logged decision");
    let (to, sent, call) = asked(&mut client);
    assert_eq!((to.as_str(), sent.offset, sent.version.get()), ("s3:1", 40, 6));
    client.send_bytes(&call, &[], readable(40));
    assert_eq!(bytes_read(&done), [&[7; 30][..], &[8; 10]].concat());
    let warned = |it| matches!(it, Ok(Output::Read { end: true, suspect: true, .. }));
    assert!(warned(result(&done)), "R28: read with a warning");
}

/// Answers for two suspect replicas of 30 bytes, while the master grants no lease, for so long.
fn only_suspects(client: &mut TestClient, (chunk_count, length): (u64, u64), span: Duration) {
    let end = client.now + span;
    while client.now < end {
        while client.has_calls() {
            let call = client.call();
            match &call.request {
                Request::Locate(_) => {
                    let chunks = vec![chunk(0, 5, &[1, 3], None)];
                    let entry = Entry { id: FILE, chunk_count, length, ..Entry::default() };
                    let answer = LocateAnswer { entry, chunks, ..LocateAnswer::default() };
                    client.tell(&call, Ok(Response::Locate(answer)));
                }
                Request::Read(read) => {
                    let lacks = usize::try_from(30 - read.offset).expect("no more is asked");
                    client.send_bytes(&call, &vec![7; lacks], suspect(30));
                }
                Request::Lease(_) => {
                    let why = "2 usable replicas of 3; one is missing";
                    client.tell(&call, Err(Failure::not_done(ErrorCode::Busy, why)));
                }
                other => panic!("{other:?}"),
            }
        }
        client.pass(Duration::from_millis(100));
    }
}

#[test]
fn where_suspects_are_all_there_is_and_no_lease_comes_the_file_ends_where_they_do() {
    let mut client = connected();
    let done = client.start(read(0, 100));
    only_suspects(&mut client, (1, 0), Duration::from_secs(3));
    assert!(!is_done(&done), "the missing one is not dead yet");
    only_suspects(&mut client, (1, 0), Duration::from_secs(3));
    assert_eq!(bytes_read(&done), [7; 30]);
    let length = client.start(Operation::Length { file: FILE });
    while !is_done(&length) {
        let call = client.call();
        match &call.request {
            Request::Read(_) => client.send_bytes(&call, &[], suspect(30)),
            Request::Lease(_) => {
                let why = Failure::not_done(ErrorCode::Busy, "not now");
                client.tell(&call, Err(why));
            }
            _ => client.tell(&call, Ok(located(1, vec![chunk(0, 5, &[1], None)]))),
        }
        while !client.has_calls() && !is_done(&length) {
            client.pass(Duration::from_millis(100));
        }
    }
    assert_eq!(result(&length), Ok(Output::Length(30)));
}

#[test]
fn the_end_of_suspects_is_never_the_end_of_a_chunk_that_others_follow() {
    let mut client = connected();
    let done = client.start(read(0, 100));
    only_suspects(&mut client, (2, 0), Duration::from_secs(61));
    let failure = result(&done).expect_err("the bytes behind are missing, not absent");
    assert_eq!(failure.code, ErrorCode::Busy);
}

#[test]
fn suspects_do_not_end_a_file_below_the_length_that_is_on_record() {
    let mut client = connected();
    let done = client.start(read(0, 100));
    only_suspects(&mut client, (1, 31), Duration::from_secs(61));
    let failure = result(&done).expect_err("a byte that was acknowledged is missing, not absent");
    assert_eq!(failure.code, ErrorCode::Busy);
}

#[test]
fn a_version_that_moved_on_is_asked_of_the_master_again() {
    let mut client = connected();
    let done = client.start(read(0, 4));
    locate(&mut client, 5, &[1], None);
    client.fail(Failure::not_done(ErrorCode::StaleVersion, "version 6 is here"));
    locate(&mut client, 6, &[3], None);
    let (to, sent, call) = asked(&mut client);
    assert_eq!((to.as_str(), sent.version.get()), ("s3:1", 6));
    client.send_bytes(&call, &[1; 4], readable(4));
    assert_eq!(bytes_read(&done), [1; 4]);
}

#[test]
fn a_slow_replica_is_overtaken_by_another() {
    let mut client = connected();
    let done = client.start(read(0, 4));
    locate(&mut client, 5, &[1, 3], None);
    let (_, _, slow) = asked(&mut client);
    client.pass(Duration::from_millis(1_001));
    let (to, _, fast) = asked(&mut client);
    assert_eq!(to, "s3:1");
    client.send_bytes(&fast, &[1; 4], readable(4));
    assert_eq!(bytes_read(&done), [1; 4]);
    client.send_bytes(&slow, &[1; 4], readable(4));
    client.assert_asks_nobody();
}

#[test]
fn when_no_replica_answers_the_master_is_asked_again_after_a_rest() {
    let mut client = connected();
    let done = client.start(read(0, 4));
    locate(&mut client, 5, &[1, 3], None);
    let gone = || Failure::not_done(ErrorCode::Unreachable, "connection refused");
    assert_eq!(client.fail(gone()).to.as_str(), "s1:1");
    assert_eq!(client.fail(gone()).to.as_str(), "s3:1");
    client.pass(Duration::from_millis(50));
    locate(&mut client, 5, &[4], None);
    let (to, _, call) = asked(&mut client);
    assert_eq!(to, "s4:1");
    client.send_bytes(&call, &[1; 4], readable(4));
    assert_eq!(bytes_read(&done), [1; 4]);
}

#[test]
fn holes_read_as_zeros_and_the_end_of_the_file_ends_the_read() {
    let mut client = connected();
    let done = client.start(read(4000, 5000));
    // Chunks of 4096: 0 is a hole, 1 is there, 2 is behind the end.
    let known = located(2, vec![chunk(1, 5, &[1], None)]);
    client.answer(known.clone());
    let (_, sent, call) = asked(&mut client);
    assert_eq!((sent.handle, sent.offset, sent.size), (handle(1), 0, 4096));
    let closed = ReadAnswer { closed: true, zeros: 4094, ..readable(4096) };
    client.send_bytes(&call, &[7; 2], closed);
    let mut whole = vec![0; 96];
    whole.extend([7; 2]);
    whole.resize(96 + 4096, 0);
    assert_eq!(bytes_read(&done), whole);
    client.assert_asks_nobody();
}

#[test]
fn the_end_known_from_an_older_question_is_asked_for_again() {
    let mut client = connected();
    let first = client.start(read(0, 4));
    client.answer(located(0, vec![]));
    assert_eq!(bytes_read(&first), []);
    let second = client.start(read(0, 4));
    locate(&mut client, 5, &[1], None);
    let (_, _, call) = asked(&mut client);
    client.send_bytes(&call, &[1; 4], readable(4));
    assert_eq!(bytes_read(&second), [1; 4]);
}

#[test]
fn a_read_of_several_chunks_asks_for_all_at_once_and_keeps_their_order() {
    let mut client = connected();
    let done = client.start(read(4090, 12));
    let chunks = (0..20).map(|index| chunk(index, 5, &[1], None)).collect();
    client.answer(located(20, chunks));
    let (_, first, call_0) = asked(&mut client);
    let (_, second, call_1) = asked(&mut client);
    assert_eq!((first.handle, first.size), (handle(0), 6));
    assert_eq!((second.handle, second.size), (handle(1), 6));
    client.send_bytes(&call_1, &[2; 6], readable(4096));
    client.send_bytes(&call_0, &[1; 6], readable(4096));
    assert_eq!(bytes_read(&done), [1, 1, 1, 1, 1, 1, 2, 2, 2, 2, 2, 2]);
}

#[test]
fn near_the_end_of_what_is_known_the_next_locations_are_fetched_ahead() {
    let mut client = connected();
    client.start(read(14 * 4096, 4));
    let call = client.answer(located(40, (14..30).map(|i| chunk(i, 5, &[1], None)).collect()));
    assert!(matches!(call.request, Request::Locate(_)));
    let _ = asked(&mut client);
    client.start(read(28 * 4096, 4));
    let kinds: Vec<Request> = [client.call(), client.call()].map(|call| call.request).into();
    assert!(kinds.iter().any(|request| matches!(request, Request::Read(_))));
    let ahead = kinds
        .iter()
        .any(|request| matches!(request, Request::Locate(locate) if locate.first.get() == 30));
    assert!(ahead, "{kinds:?}");
}

/// Chunk 0 of a file of one, which the master cannot send anybody to.
fn nowhere(lost: Vec<ReplicaAt>) -> Response {
    located(1, vec![ChunkLocations { lost, ..chunk(0, 5, &[], None) }])
}

#[test]
fn where_all_servers_of_a_chunk_are_dead_a_read_says_at_once_which_must_come_back() {
    let mut client = connected();
    let done = client.start(read(0, 4));
    client.answer(nowhere(vec![server(1), server(2)]));
    let failure = result(&done).expect_err("nobody has it");
    assert_eq!((failure.code, failure.outcome), (ErrorCode::ReplicaFailed, Outcome::NotDone));
    assert!(failure.message.ends_with("start s1:1 or s2:1 again"), "{failure}");
    client.assert_asks_nobody();
}

#[test]
fn where_a_server_may_yet_come_a_read_waits_and_says_what_it_waits_for() {
    let mut client = connected();
    let done = client.start(read(0, 4));
    client.answer(nowhere(vec![]));
    client.pass(Duration::from_secs(61));
    let failure = result(&done).expect_err("nobody came");
    assert_eq!(failure.code, ErrorCode::ReplicaFailed);
    assert!(failure.message.contains("no server that has chunk 0"), "{failure}");
}
