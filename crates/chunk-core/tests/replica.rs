//! A chunkserver's decisions, effect by effect: what goes out for what comes in.

mod bench;

use bench::{
    Bench, CallEffect, TERM, append, forward, grant, handle, lease, push, raise, read, server,
    version,
};
use bytes::Bytes;
use cairn_env::{
    Answer, Caller, ChunkDone, ChunkError, ChunkJob, Completion, DiskError, EffectId, Event, Now,
    ReadDone,
};
use cairn_protocol::{
    AcknowledgedAnswer, ChunkClosedAnswer, ErrorCode, Failure, Fetch, FetchAnswer, Forward,
    ForwardAnswer, Forwarded, GrantLease, HeartbeatAnswer, InventoryAnswer, JoinAnswer, LeftOut,
    LevelSource, Outcome, Raise, Read, ReplicaReport, Request, Response, RevokeLease,
    SecondaryFailedAnswer, SyncChunk, SyncChunkAnswer,
};
use cairn_types::{
    BlockChecksums, CellConfig, CellId, ChunkHandle, ChunkVersion, LeaseId, SerialNumber, ServerId,
    Term, WallTime,
};
use std::time::Duration;

#[test]
fn settings_that_do_not_fit_together_are_not_taken_over_and_the_server_asks_again() {
    let mut bench = Bench::alone();
    let join = bench.call();
    let config = Box::new(CellConfig::default());
    let answer = JoinAnswer { term: TERM, cell: CellId::new(5), config, ..JoinAnswer::default() };
    bench.answer(join.0, Ok(Response::Join(answer)));
    assert!(bench.calls.is_empty(), "no inventory");
    bench.tick(Duration::from_secs(60));
    assert!(matches!(bench.call().1, Request::Join(_)));
}

#[test]
fn a_raise_is_answered_only_when_durable_and_refuses_the_old_version_at_once() {
    let mut bench = Bench::with_replica();
    bench.ask(raise(version(1), version(2)));
    assert!(bench.replies.is_empty(), "not durable yet");
    bench.ask(read(0, 10));
    assert_eq!(bench.failure().code, ErrorCode::StaleVersion);
    bench.journaled();
    let Ok(Response::Raise(answer)) = bench.reply().1 else { panic!("the raise is answered") };
    assert_eq!(answer.replica.version, version(2));
    bench.ask(raise(version(1), version(3)));
    assert_eq!(bench.failure().code, ErrorCode::StaleVersion, "it stands elsewhere");
}

#[test]
fn an_order_of_a_lower_term_or_for_another_server_is_refused() {
    let mut bench = Bench::with_replica();
    bench.ask(Raise { term: Term::new(2), ..raise(version(1), version(2)) });
    assert_eq!(bench.failure().code, ErrorCode::NotPrimaryMaster);
    bench.ask(Raise { server: ServerId::new(4), ..raise(version(1), version(2)) });
    assert_eq!(bench.failure().code, ErrorCode::WrongServer);
    bench.ask(Raise { term: Term::new(4), ..raise(version(1), version(2)) });
    let (_, job) = bench.job();
    assert_eq!(job, ChunkJob::Journal(vec![cairn_env::JournalEntry::Term(Term::new(4))]));
}

#[test]
fn an_append_is_acknowledged_when_the_last_secondary_has_applied_it() {
    let mut bench = Bench::primary();
    bench.ask(append(1, 100));
    assert_eq!(bench.applied(100), 1);
    bench.forward_answered();
    assert!(bench.replies.is_empty(), "one secondary has not answered");
    bench.forward_answered();
    let Ok(Response::Append(answer)) = bench.reply().1 else { panic!("acknowledged") };
    assert_eq!(answer.offset, 0);
}

#[test]
fn appends_that_wait_go_on_as_one_batch_one_after_the_other() {
    let mut bench = Bench::primary();
    bench.ask(append(1, 100));
    bench.ask(append(2, 50));
    bench.ask(append(3, 50));
    assert_eq!(bench.applied(100), 1);
    assert_eq!(bench.applied(200), 2, "what gathered meanwhile");
    for _ in 0..2 {
        assert_eq!(bench.forward_answered().mutations.len(), 1);
    }
    for known in [0, 100] {
        let sent = bench.forward_answered();
        assert_eq!(sent.acknowledged, known, "what was acknowledged when it was sent");
        assert_eq!(sent.mutations.iter().map(|m| m.offset).collect::<Vec<_>>(), [100, 150]);
    }
    assert_eq!(bench.replies.len(), 3);
}

#[test]
fn a_failed_secondary_holds_the_answer_until_the_set_is_changed_and_the_rest_have_it() {
    let mut bench = Bench::primary();
    bench.ask(append(1, 100));
    bench.applied(100);
    let (failed, _) = bench.call();
    bench.forward_answered();
    let lost = Failure::unknown(ErrorCode::Unreachable, "gone");
    bench.answer(failed, Err(lost));
    assert!(bench.replies.is_empty(), "two of three is not acknowledged");
    let (shrink, request) = bench.call();
    let Request::SecondaryFailed(request) = request else { panic!("{request:?}") };
    assert_eq!(request.failed, [ServerId::new(2)]);
    // The master raises this replica too; the lease goes on.
    bench.ask(Raise { keeps_lease: true, ..raise(version(1), version(2)) });
    bench.journaled();
    assert!(matches!(bench.reply().1, Ok(Response::Raise(_))));
    let answer = SecondaryFailedAnswer { version: version(2), secondaries: vec![server(3)] };
    bench.answer(shrink, Ok(Response::SecondaryFailed(answer)));
    assert!(matches!(bench.reply().1, Ok(Response::Append(_))));
}

#[test]
fn a_primary_does_not_go_on_with_a_set_that_has_a_member_it_does_not_know() {
    let mut bench = Bench::primary();
    bench.ask(append(1, 100));
    bench.applied(100);
    let (failed, _) = bench.call();
    bench.forward_answered();
    bench.answer(failed, Err(Failure::unknown(ErrorCode::Unreachable, "gone")));
    let (shrink, _) = bench.call();
    bench.ask(Raise { keeps_lease: true, ..raise(version(1), version(2)) });
    bench.journaled();
    assert!(matches!(bench.reply().1, Ok(Response::Raise(_))));
    // The one that failed, by the id under which it came back.
    let secondaries = vec![server(3), server(9)];
    let answer = SecondaryFailedAnswer { version: version(2), secondaries };
    bench.answer(shrink, Ok(Response::SecondaryFailed(answer)));
    assert!(bench.reply().1.is_err(), "it would be acknowledged, and one that counts lacks it");
}

#[test]
fn a_primary_changes_nothing_under_a_version_that_may_never_be_logged() {
    let mut bench = Bench::primary();
    bench.ask(append(1, 100));
    bench.applied(100);
    let (failed, _) = bench.call();
    bench.forward_answered();
    bench.answer(failed, Err(Failure::unknown(ErrorCode::Unreachable, "gone")));
    let (shrink, _) = bench.call();
    // One that was asked does not answer: this number is spent, and the next one is logged (R8).
    bench.ask(Raise { keeps_lease: true, ..raise(version(1), version(2)) });
    bench.journaled();
    bench.ask(append(2, 50));
    assert!(bench.jobs.is_empty(), "R8: {:?}", bench.jobs);
    bench.ask(Raise { keeps_lease: true, ..raise(version(2), version(3)) });
    bench.journaled();
    assert!(bench.jobs.is_empty(), "R8: {:?}", bench.jobs);
    let answer = SecondaryFailedAnswer { version: version(3), secondaries: vec![server(3)] };
    bench.answer(shrink, Ok(Response::SecondaryFailed(answer)));
    let (_, job) = bench.job();
    let ChunkJob::Apply { version: under, .. } = job else { panic!("{job:?}") };
    assert_eq!(under, version(3));
}

#[test]
fn a_record_that_does_not_fit_closes_the_chunk_everywhere_before_anyone_hears_of_it() {
    let mut bench = Bench::primary();
    for number in 1..=4 {
        bench.ask(append(number, 1000));
    }
    bench.applied(1000);
    bench.applied(4000);
    for _ in 0..4 {
        bench.forward_answered();
    }
    assert_eq!(bench.replies.drain(..).filter(|(_, answer)| answer.is_ok()).count(), 4);
    bench.ask(append(5, 97));
    bench.journaled();
    for _ in 0..2 {
        assert!(bench.replies.is_empty(), "the mark is not everywhere yet");
        assert!(bench.forward_answered().mutations[0].close);
    }
    let (told, request) = bench.call();
    assert!(matches!(request, Request::ChunkClosed(_)));
    assert!(bench.replies.is_empty(), "the next chunk is not logged yet");
    bench.answer(told, Ok(Response::ChunkClosed(ChunkClosedAnswer {})));
    assert_eq!(bench.failure().code, ErrorCode::ChunkClosed);
    bench.ask(Read { closed: true, ..read(4050, 46) });
    let Ok(Response::Read(answer)) = bench.reply().1 else { panic!("the padding reads") };
    assert_eq!((answer.zeros, answer.closed), (46, true));
}

#[test]
fn a_repeat_of_a_push_gets_the_first_answer_and_changes_nothing() {
    let mut bench = Bench::primary();
    bench.ask(append(1, 100));
    bench.ask(append(1, 100));
    bench.applied(100);
    bench.forward_answered();
    bench.forward_answered();
    let answers: Vec<_> = bench.replies.drain(..).map(|(_, answer)| answer).collect();
    assert_eq!(answers.len(), 2);
    assert_eq!(answers[0], answers[1]);
    bench.ask(append(1, 100));
    assert_eq!(bench.reply().1, answers[0]);
    assert!(bench.jobs.is_empty(), "nothing is applied twice");
}

#[test]
fn a_push_that_is_not_here_goes_back_to_its_client_and_the_others_of_the_batch_go_on() {
    let mut bench = Bench::primary();
    bench.ask(append(1, 100));
    bench.ask(append(2, 100));
    bench.ask(append(3, 100));
    bench.applied(100);
    let (id, _) = bench.job();
    bench.done(id, Err(ChunkError::PushMissing { push: push(2) }));
    assert_eq!(bench.failure().code, ErrorCode::PushMissing);
    let (_, job) = bench.job();
    let ChunkJob::Apply { mutations, .. } = job else { panic!("{job:?}") };
    assert_eq!(mutations.len(), 1);
    assert_eq!((mutations[0].offset, mutations[0].push), (100, Some(push(3))));
}

#[test]
fn nothing_is_acknowledged_after_the_lease_has_run_out() {
    let mut bench = Bench::primary();
    bench.ask(append(1, 100));
    bench.applied(100);
    let (first, _) = bench.call();
    let (second, _) = bench.call();
    bench.time = bench.time + CellConfig::tiny().lease();
    for id in [first, second] {
        let serial = SerialNumber::new(2);
        bench.answer(id, Ok(Response::Forward(ForwardAnswer { serial })));
    }
    let failure = bench.failure();
    assert_eq!((failure.code, failure.outcome), (ErrorCode::NotPrimary, Outcome::Unknown));
}

#[test]
fn a_lease_that_is_asked_back_again_while_it_drains_is_given_back_to_all_who_asked() {
    let mut bench = Bench::primary();
    bench.ask(append(1, 100));
    bench.applied(100);
    let revoke = RevokeLease { term: TERM, handle: handle(), lease: lease() };
    let asked: Vec<Caller> = (0..5).map(|_| bench.ask(revoke.clone())).collect();
    let (oldest, refusal) = bench.reply();
    let refusal = refusal.expect_err("four wait at the most");
    assert_eq!(
        (oldest, refusal.code, refusal.outcome),
        (asked[0], ErrorCode::Busy, Outcome::NotDone)
    );
    assert!(bench.replies.is_empty(), "it drains");
    for _ in 0..2 {
        bench.forward_answered();
    }
    assert!(matches!(bench.reply().1, Ok(Response::Append(_))));
    for from in &asked[1..] {
        let (to, Ok(Response::RevokeLease(answer))) = bench.reply() else { panic!("given back") };
        assert_eq!((to, answer.replica.acknowledged), (*from, 100));
    }
    bench.ask(append(2, 100));
    assert_eq!(bench.failure().code, ErrorCode::NotPrimary);
}

#[test]
fn a_lease_is_extended_from_when_the_heartbeat_was_sent() {
    let mut bench = Bench::primary();
    bench.tick(Duration::from_millis(50));
    let beat = bench.calls.iter().find(|(_, request)| matches!(request, Request::Heartbeat(_)));
    let beat = beat.expect("a heartbeat is due").0;
    let sent = bench.time;
    bench.time = bench.time + Duration::from_millis(900);
    let answer = HeartbeatAnswer { term: TERM, extended: vec![lease()], ..Default::default() };
    bench.answer(beat, Ok(Response::Heartbeat(answer.into())));
    let config = CellConfig::tiny();
    bench.time = sent + config.lease_of_holder() - Duration::from_millis(1);
    bench.ask(append(1, 10));
    assert!(bench.replies.is_empty(), "the lease lives");
    bench.time = sent + config.lease_of_holder();
    bench.ask(append(2, 10));
    assert_eq!(bench.failure().code, ErrorCode::NotPrimary);
}

#[test]
fn a_replica_that_the_set_goes_on_without_serves_no_reader_until_it_is_raised() {
    let mut bench = Bench::with_replica();
    bench.tick(Duration::from_millis(50));
    let beat = bench.calls.iter().find(|(_, request)| matches!(request, Request::Heartbeat(_)));
    let beat = beat.expect("a heartbeat is due").0;
    bench.ask(read(0, 10));
    assert!(bench.reply().1.is_ok());
    let left_out = vec![LeftOut { handle: handle(), version: version(2) }];
    let answer = HeartbeatAnswer { term: TERM, left_out, news: 4, ..HeartbeatAnswer::default() };
    bench.answer(beat, Ok(Response::Heartbeat(answer.into())));
    bench.ask(read(0, 10));
    assert_eq!(bench.failure().code, ErrorCode::StaleVersion);
    bench.calls.clear();
    bench.tick(Duration::from_secs(1));
    let heeded = bench.calls.iter().find_map(|(_, request)| match request {
        Request::Heartbeat(beat) => Some(beat.heeded),
        _ => None,
    });
    assert_eq!(heeded, Some(4));
    bench.ask(raise(version(1), version(3)));
    bench.journaled();
    assert!(bench.reply().1.is_ok());
    bench.ask(Read { version: version(3), ..read(0, 10) });
    assert!(bench.reply().1.is_ok());
}

#[test]
fn a_reader_with_an_old_location_is_served_by_a_primary_and_by_who_hears_its_master() {
    let silent_ms = CellConfig::tiny().silent_ms;
    let old = Read { location_age_ms: silent_ms + 1, ..read(0, 10) };
    let mut bench = Bench::with_replica();
    bench.ask(old.clone());
    assert_eq!(bench.failure().code, ErrorCode::StaleVersion, "located before this server joined");
    bench.ask(Read { takes_behind: true, ..old.clone() });
    assert!(bench.reply().1.is_ok(), "a shadow's reader takes what may be old");
    bench.ask(read(0, 10));
    assert!(bench.reply().1.is_ok(), "located just now");
    let mut bench = Bench::primary();
    bench.ask(old);
    assert!(bench.reply().1.is_ok(), "nobody changes the chunk without it");
}

#[test]
fn a_secondary_applies_in_serial_order_and_nothing_twice() {
    let mut bench = Bench::with_replica();
    bench.ask(Forward { level: Some(Box::default()), ..forward(1, 1) });
    bench.applied(10);
    assert!(bench.reply().1.is_ok());
    bench.ask(forward(3, 1));
    assert_eq!(bench.failure().code, ErrorCode::OutOfOrder);
    bench.ask(forward(1, 3));
    assert_eq!(bench.applied(30), 2, "the first was applied before");
    let Ok(Response::Forward(answer)) = bench.reply().1 else { panic!("applied") };
    assert_eq!(answer.serial, SerialNumber::new(3));
    bench.ask(Forward { lease: LeaseId::of(TERM, 10), ..forward(4, 1) });
    assert_eq!(bench.failure().code, ErrorCode::NotPrimary, "another lease");
}

#[test]
fn readers_see_what_is_acknowledged_and_nothing_before() {
    let mut bench = Bench::with_replica();
    bench.ask(Forward { level: Some(Box::default()), ..forward(1, 1) });
    bench.applied(10);
    assert!(bench.reply().1.is_ok());
    bench.ask(read(0, 10));
    assert_eq!(bench.failure().code, ErrorCode::PastAcknowledged);
    bench.ask(Read { takes_behind: true, ..read(0, 10) });
    assert!(matches!(bench.reply().1, Ok(Response::Read(it)) if it.readable == 0 && it.zeros == 0));
    bench.ask(Forward { acknowledged: 10, ..forward(2, 1) });
    bench.applied(20);
    assert!(bench.reply().1.is_ok());
    bench.ask(read(0, 20));
    let (id, job) = bench.job();
    assert_eq!(job, ChunkJob::Read { handle: handle(), offset: 0, size: 10 });
    let payload = Bytes::from_static(&[1; 10]).into();
    bench.done(id, Ok(ChunkDone::Read(ReadDone { payload, ..ReadDone::default() })));
    assert!(matches!(bench.reply().1, Ok(Response::Read(answer)) if answer.readable == 10));
}

#[test]
fn a_lease_holder_answers_the_end_where_another_replica_does_not_know_it() {
    let mut bench = Bench::primary();
    bench.ask(read(0, 10));
    let Ok(Response::Read(answer)) = bench.reply().1 else { panic!("the end, from the primary") };
    assert_eq!((answer.readable, answer.closed, answer.zeros), (0, false, 0));
}

#[test]
fn where_the_disk_has_less_than_was_stored_a_reader_gets_no_zeros_for_it() {
    let mut bench = Bench::primary();
    bench.ask(append(1, 100));
    bench.applied(100);
    bench.forward_answered();
    bench.forward_answered();
    assert!(bench.reply().1.is_ok());
    for _ in 0..2 {
        bench.ask(read(0, 100));
        let (id, _) = bench.job();
        let payload = Bytes::from_static(&[1; 60]).into();
        bench.done(id, Ok(ChunkDone::Read(ReadDone { payload, ..ReadDone::default() })));
        assert_eq!(bench.failure().code, ErrorCode::ChecksumMismatch);
    }
    bench.ask(read(100, 10));
    assert_eq!(bench.failure().code, ErrorCode::ChecksumMismatch, "where it ends is not known");
}

#[test]
fn a_lease_does_not_survive_a_raise_that_its_holder_did_not_ask_for() {
    for keeps_lease in [false, true] {
        let mut bench = Bench::primary();
        bench.ask(append(1, 100));
        bench.applied(100);
        let (failed, _) = bench.call();
        bench.forward_answered();
        bench.answer(failed, Err(Failure::unknown(ErrorCode::Unreachable, "gone")));
        assert!(matches!(bench.call().1, Request::SecondaryFailed(_)));
        bench.ask(Raise { keeps_lease, ..raise(version(1), version(2)) });
        assert_eq!(bench.replies.len(), usize::from(!keeps_lease), "who waits is told at the end");
        let lost = bench.logged.iter().any(|event| event.contains("lease lost"));
        assert_eq!(lost, !keeps_lease, "{:?}", bench.logged);
    }
}

#[test]
fn a_block_that_fails_its_checksum_is_reported_and_the_others_are_still_read() {
    let mut bench = Bench::primary();
    bench.ask(append(1, 100));
    bench.applied(100);
    bench.forward_answered();
    bench.forward_answered();
    assert!(bench.reply().1.is_ok());
    bench.ask(read(0, 100));
    let (id, _) = bench.job();
    bench.done(id, Err(ChunkError::Corrupt { offset: 0 }));
    assert_eq!(bench.failure().code, ErrorCode::ChecksumMismatch);
    bench.ask(read(64, 36));
    let (_, job) = bench.job();
    assert!(matches!(job, ChunkJob::Read { offset: 64, .. }), "another block may be good: {job:?}");
    bench.tick(Duration::from_millis(50));
    let beat = bench.calls.iter().find_map(|(_, request)| match request {
        Request::Heartbeat(beat) => Some(beat.damaged.clone()),
        _ => None,
    });
    assert_eq!(beat, Some(vec![handle()]));
}

#[test]
fn a_primary_names_all_secondaries_that_it_lost_at_once_and_asks_for_nothing_before() {
    for both in [true, false] {
        let mut bench = Bench::primary();
        bench.ask(append(1, 100));
        bench.applied(100);
        let (failed, _) = bench.call();
        let (late, request) = bench.call();
        bench.answer(failed, Err(Failure::unknown(ErrorCode::Unreachable, "gone")));
        assert!(bench.calls.is_empty(), "the other has not answered: {:?}", bench.calls);
        bench.ask(append(2, 100));
        bench.applied(200);
        assert!(bench.calls.is_empty(), "nothing is forwarded before the set is known");
        let Request::Forward(forward) = request else { panic!("{request:?}") };
        let serial = forward.mutations.last().expect("never an empty batch").serial;
        match both {
            true => bench.answer(late, Err(Failure::unknown(ErrorCode::DeadlineExceeded, "late"))),
            false => bench.answer(late, Ok(Response::Forward(ForwardAnswer { serial }))),
        }
        let (_, request) = bench.call();
        let Request::SecondaryFailed(request) = request else { panic!("{request:?}") };
        assert_eq!(request.failed.len(), if both { 2 } else { 1 });
        assert!(bench.replies.is_empty(), "nothing is acknowledged (R14)");
    }
}

#[test]
fn one_answer_never_carries_more_than_a_frame_may_hold() {
    let mut bench = Bench::with_replica();
    let config = CellConfig::tiny();
    bench.ask(Raise { close: true, ..raise(version(1), version(2)) });
    bench.journaled();
    assert!(bench.reply().1.is_ok());
    bench.ask(Read { size: u64::MAX, version: version(2), closed: true, ..read(0, 0) });
    let Ok(Response::Read(answer)) = bench.reply().1 else { panic!("zeros, as it is closed") };
    assert_eq!(answer.zeros, config.chunk_size);
}

#[test]
fn while_the_close_mark_travels_readers_see_what_is_acknowledged_and_no_end() {
    let mut bench = Bench::primary();
    bench.ask(append(1, 1024));
    bench.applied(1024);
    bench.ask(append(2, 1024));
    bench.applied(2048);
    bench.ask(append(3, 1024));
    bench.applied(3072);
    bench.ask(append(4, 1024));
    bench.applied(4096);
    bench.ask(append(5, 1024));
    bench.journaled();
    assert!(bench.replies.is_empty(), "no secondary has answered");
    bench.ask(read(0, 10));
    let Ok(Response::Read(answer)) = bench.reply().1 else { panic!("the holder's answer") };
    assert_eq!((answer.readable, answer.closed, answer.zeros), (0, false, 0));
}

#[test]
fn an_append_that_finds_the_disk_full_closes_the_chunk_and_goes_on_elsewhere() {
    let mut bench = Bench::primary();
    bench.ask(append(1, 100));
    let (id, _) = bench.job();
    bench.done(id, Err(DiskError::NoSpace.into()));
    bench.journaled();
    bench.forward_answered();
    bench.forward_answered();
    let (told, request) = bench.call();
    assert!(matches!(request, Request::ChunkClosed(_)), "{request:?}");
    bench.answer(told, Ok(Response::ChunkClosed(ChunkClosedAnswer {})));
    assert_eq!(bench.failure().code, ErrorCode::ChunkClosed);
}

#[test]
fn a_repeat_that_finds_the_first_still_in_the_queue_waits_beside_it() {
    let mut bench = Bench::primary();
    bench.ask(append(1, 10));
    bench.ask(append(2, 10));
    bench.ask(append(2, 10));
    bench.applied(10);
    assert_eq!(bench.applied(20), 1, "one mutation, two who wait for it");
}

#[test]
fn a_replica_that_could_not_be_created_leaves_nothing_behind() {
    let mut bench = Bench::joined();
    bench.ask(Raise { create: true, ..raise(ChunkVersion::default(), version(1)) });
    let (id, _) = bench.job();
    bench.done(id, Err(DiskError::NoSpace.into()));
    assert!(bench.reply().1.is_err());
    bench.ask(read(0, 1));
    assert_eq!(bench.failure().code, ErrorCode::NoSuchChunk);
}

#[test]
fn a_mark_is_the_end_only_for_readers_who_have_the_close_from_the_master() {
    let mut bench = Bench::with_replica();
    bench.ask(Forward { level: Some(Box::default()), ..forward(1, 1) });
    bench.applied(10);
    assert!(bench.reply().1.is_ok());
    bench.ask(Raise { close: true, ..raise(version(1), version(2)) });
    bench.journaled();
    assert!(bench.reply().1.is_ok());
    // Stored, and known to nobody as acknowledged.
    bench.ask(Read { version: version(2), ..read(0, 20) });
    assert_eq!(bench.failure().code, ErrorCode::PastAcknowledged);
    bench.ask(Read { version: version(2), closed: true, ..read(10, 20) });
    let Ok(Response::Read(answer)) = bench.reply().1 else { panic!("the padding reads") };
    assert_eq!((answer.closed, answer.zeros), (true, 20));
}

#[test]
fn a_close_mark_that_the_disk_did_not_take_is_told_to_nobody() {
    let mut bench = Bench::with_replica();
    bench.ask(Raise { close: true, ..raise(version(1), version(2)) });
    let (id, _) = bench.job();
    bench.done(id, Err(DiskError::NoSpace.into()));
    assert!(bench.reply().1.is_err());
    bench.ask(Read { version: version(2), closed: true, ..read(0, 10) });
    let Ok(Response::Read(answer)) = bench.reply().1 else { panic!("an empty replica's end") };
    assert_eq!((answer.closed, answer.zeros), (false, 0));
}

#[test]
fn what_has_not_changed_for_a_while_is_brought_to_disk_once() {
    let mut bench = Bench::with_replica();
    bench.tick(Duration::from_millis(50));
    assert!(bench.jobs.is_empty(), "it may change again");
    bench.tick(Duration::from_secs(31));
    let (id, job) = bench.job();
    assert_eq!(job, ChunkJob::Sync { handle: handle() });
    bench.done(id, Ok(ChunkDone::Synced));
    bench.tick(Duration::from_secs(31));
    assert!(bench.jobs.is_empty());
}

#[test]
fn a_secondary_that_cannot_sync_is_left_out_of_the_set() {
    let mut bench = Bench::primary();
    let sync = SyncChunk { handle: handle(), lease: lease(), ..SyncChunk::default() };
    bench.ask(SyncChunk { version: version(1), ..sync.clone() });
    let (id, _) = bench.job();
    bench.done(id, Ok(ChunkDone::Synced));
    let (first, _) = bench.call();
    let (second, _) = bench.call();
    bench.answer(first, Ok(Response::SyncChunk(SyncChunkAnswer::default())));
    bench.answer(second, Err(Failure::unknown(ErrorCode::Unreachable, "gone")));
    assert_eq!(bench.failure().code, ErrorCode::ReplicaFailed, "the client asks again");
    let (shrink, request) = bench.call();
    let Request::SecondaryFailed(failed) = request else { panic!("R14: {request:?}") };
    assert_eq!(failed.failed, [ServerId::new(3)]);
    let answer = SecondaryFailedAnswer { version: version(2), secondaries: vec![server(2)] };
    bench.ask(Raise { keeps_lease: true, ..raise(version(1), version(2)) });
    bench.journaled();
    bench.answer(shrink, Ok(Response::SecondaryFailed(answer)));
    bench.ask(SyncChunk { version: version(2), ..sync });
    assert_eq!(bench.calls.len(), 1, "of the one that is left");
}

#[test]
fn a_replica_vouches_for_a_sync_only_while_it_follows_the_lease() {
    let mut bench = Bench::with_replica();
    let of_primary =
        SyncChunk { handle: handle(), version: version(1), lease: lease(), from_primary: true };
    // As after a restart within the lease: at the same version, with fewer bytes perhaps.
    bench.ask(of_primary.clone());
    assert_eq!(bench.failure().code, ErrorCode::NotPrimary);
    bench.ask(Forward { level: Some(Box::default()), ..forward(1, 1) });
    bench.applied(10);
    assert!(bench.reply().1.is_ok());
    bench.ask(SyncChunk { lease: LeaseId::of(TERM, 10), ..of_primary.clone() });
    assert_eq!(bench.failure().code, ErrorCode::NotPrimary, "another lease");
    bench.ask(of_primary);
    let (id, _) = bench.job();
    bench.done(id, Ok(ChunkDone::Synced));
    assert!(matches!(bench.reply().1, Ok(Response::SyncChunk(_))));
}

#[test]
fn heartbeats_tell_first_of_what_has_changed() {
    let mut bench = Bench::with_replica();
    for counter in 2..400 {
        let handle = ChunkHandle::of(TERM, counter);
        let create = Raise { create: true, ..raise(ChunkVersion::default(), version(counter)) };
        bench.ask(Raise { handle, ..create });
        bench.journaled();
    }
    let told = |bench: &mut Bench| {
        bench.calls.clear();
        bench.tick(Duration::from_secs(1));
        let beat = bench.calls.drain(..).find_map(|(id, request)| match request {
            Request::Heartbeat(beat) => Some((id, beat.held)),
            _ => None,
        });
        let (id, held) = beat.expect("a heartbeat");
        let answer = HeartbeatAnswer { term: TERM, ..HeartbeatAnswer::default() };
        bench.answer(id, Ok(Response::Heartbeat(answer.into())));
        held.iter().map(|replica| replica.handle).collect::<Vec<_>>()
    };
    // All of them are new; then they come in turn.
    (0..8).for_each(|_| drop(told(&mut bench)));
    let last = ChunkHandle::of(TERM, 399);
    bench.ask(Raise { handle: last, ..raise(version(399), version(500)) });
    bench.journaled();
    assert_eq!(told(&mut bench)[0], last);
}

#[test]
fn a_person_hears_that_a_master_takes_the_server_in_and_once_why_none_does() {
    let mut bench = Bench::joined();
    let refuse = |bench: &mut Bench| {
        bench.calls.clear();
        for _ in 0..40 {
            bench.tick(Duration::from_millis(250));
            while let Some((id, request)) = bench.calls.pop_front() {
                if matches!(request, Request::Heartbeat(_) | Request::Join(_)) {
                    let why = Failure::not_done(ErrorCode::Unreachable, "nobody listens there");
                    bench.answer(id, Err(why));
                }
            }
            bench.find("nobody", TERM);
        }
    };
    refuse(&mut bench);
    let taken_in = "INFO in the cell master=master:1";
    let left_out = "WARN not in the cell master=master:1 why=\"nobody listens there\"";
    assert_eq!(bench.logged, [taken_in, left_out]);
    while bench.logged.len() < 3 {
        bench.tick(Duration::from_millis(250));
        bench.find("master:1", TERM);
        while let Some((id, request)) = bench.calls.pop_front() {
            let config = Box::new(CellConfig::tiny());
            let join =
                JoinAnswer { term: TERM, cell: CellId::new(5), config, ..JoinAnswer::default() };
            match request {
                Request::Join(_) => bench.answer(id, Ok(Response::Join(join))),
                Request::Inventory(_) => {
                    bench.answer(id, Ok(Response::Inventory(InventoryAnswer::default())));
                }
                _ => {}
            }
        }
    }
    assert_eq!(bench.logged[2], taken_in);
}

fn source(serial: u64, length: u64) -> LevelSource {
    let (at, serial) = (server(2), SerialNumber::new(serial));
    LevelSource { at, serial, length, mutated_version: version(1) }
}

/// The levelling by server 2, which has applied five mutations and holds 1 000 bytes.
fn levelling() -> Forward {
    let serial = SerialNumber::new(5);
    let zeros = Forwarded { serial, size: 1_000, ..Forwarded::default() };
    Forward { mutations: vec![zeros], level: Some(source(5, 1_000).into()), ..forward(1, 0) }
}

impl Bench {
    /// It tells the checksums of its own blocks, and asks the source for what differs.
    fn asked_with(&mut self, length: u64, known: &[u32]) -> (EffectId, Fetch) {
        let (id, job) = self.job();
        assert_eq!(job, ChunkJob::Checksums { handle: handle() });
        let checksums = BlockChecksums(known.to_vec());
        self.done(id, Ok(ChunkDone::Checksums { length, checksums }));
        self.asked()
    }

    fn asked(&mut self) -> (EffectId, Fetch) {
        let (id, request) = self.call();
        let Request::Fetch(fetch) = request else { panic!("{request:?}") };
        assert_eq!((fetch.handle, fetch.version), (handle(), version(1)));
        (id, fetch)
    }

    /// The source sends blocks of which each has the checksum 7.
    fn fetched(&mut self, id: EffectId, offset: u64, size: usize) {
        let blocks = size.div_ceil(CellConfig::tiny().block_size as usize);
        let checksums = BlockChecksums(vec![7; blocks]);
        let response = Response::Fetch(FetchAnswer { offset, checksums, ..FetchAnswer::default() });
        let answer = Answer { response, payload: Bytes::from(vec![1; size]) };
        self.step(Event::Completed { id, result: Completion::Answered(Ok(answer)) });
    }
}

#[test]
fn one_that_is_behind_fetches_the_blocks_that_differ_before_it_answers_the_levelling() {
    let block = u64::from(CellConfig::tiny().block_size);
    let mut bench = Bench::with_replica();
    bench.ask(levelling());
    let (id, fetch) = bench.asked_with(3 * block, &[1, 2, 3]);
    assert_eq!((fetch.offset, fetch.length, fetch.known.0), (0, 3 * block, vec![1, 2, 3]));
    bench.fetched(id, block, 2);
    let (id, job) = bench.job();
    assert!(matches!(job, ChunkJob::Install { offset, .. } if offset == block), "{job:?}");
    bench.done(id, Ok(ChunkDone::Applied { length: 3 * block, serial: SerialNumber::default() }));
    // A partial block is the last one.
    assert_eq!(bench.applied(1_000), 1, "the levelling itself");
    let Ok(Response::Forward(answer)) = bench.reply().1 else { panic!("levelled") };
    assert_eq!(answer.serial, SerialNumber::new(5));
}

/// However far a peer says that it has counted, the next number has to exist: else the next
/// mutation would end the process.
#[test]
fn numbers_that_leave_no_room_for_the_next_are_taken_from_nobody() {
    for serial in [u64::MAX, u64::MAX - 1, 3 << 62].map(SerialNumber::new) {
        let mut bench = Bench::with_replica();
        bench.ask(GrantLease { serial, ..grant() });
        assert_eq!(bench.failure().code, ErrorCode::Invalid, "a grant at {serial}");
        let mut forward = levelling();
        forward.mutations[0].serial = serial;
        bench.ask(forward);
        assert_eq!(bench.failure().code, ErrorCode::Invalid, "a levelling to {serial}");
        assert!(bench.jobs.is_empty(), "{:?}", bench.jobs);
    }
}

#[test]
fn it_asks_behind_each_answer_until_nothing_differs() {
    let block = u64::from(CellConfig::tiny().block_size);
    let mut bench = Bench::with_replica();
    bench.ask(levelling());
    let (id, _) = bench.asked_with(3 * block, &[1, 2, 3]);
    bench.fetched(id, block, CellConfig::tiny().block_size as usize);
    let (id, _) = bench.job();
    bench.done(id, Ok(ChunkDone::Applied { length: 3 * block, serial: SerialNumber::default() }));
    let (id, fetch) = bench.asked();
    assert_eq!((fetch.offset, fetch.known.0), (2 * block, vec![3]));
    bench.fetched(id, 1_000, 0);
    assert_eq!(bench.applied(1_000), 1, "the levelling itself");
    assert!(bench.reply().1.is_ok());
}

/// Seed 621: the sync of a batch failed that was applied, and the primary told of less than its
/// disk had, levelled the others to that, and went on behind the rest.
#[test]
fn where_a_change_failed_half_way_the_disk_is_asked_how_it_stands_before_that_is_told() {
    let mut bench = Bench::primary();
    bench.ask(append(1, 10));
    let (id, job) = bench.job();
    assert!(matches!(job, ChunkJob::Apply { .. }), "{job:?}");
    bench.done(id, Err(DiskError::NoSpaceMidway.into()));
    bench.replies.clear();
    bench.calls.clear();
    let (id, job) = bench.job();
    assert_eq!(job, ChunkJob::Reopen { handle: handle() }, "before anything else that is asked");
    bench.ask(raise(version(1), version(2)));
    assert!(bench.jobs.is_empty(), "once, and nothing is journaled");
    // It does not say: then no raise is taken, and the next one asks again.
    bench.done(id, Err(DiskError::NoSpace.into()));
    assert_eq!(bench.failure().code, ErrorCode::Io);
    bench.ask(Raise { sync: true, ..raise(version(2), version(3)) });
    let (id, _) = bench.job();
    let serial = SerialNumber::new(9);
    let stands = ReplicaReport { handle: handle(), length: 90, serial, ..ReplicaReport::default() };
    bench.done(id, Ok(ChunkDone::Reopened(stands)));
    bench.journaled();
    let Ok(Response::Raise(answer)) = bench.reply().1 else { panic!("the raise is answered") };
    let told = answer.replica;
    assert_eq!((told.version, told.serial, told.length), (version(3), serial, 90));
    // Nobody asks it for what is known.
    bench.ask(raise(version(3), version(4)));
    bench.journaled();
}

#[test]
fn a_secondary_whose_disk_failed_half_way_asks_it_and_one_that_was_refused_does_not() {
    for (error, asks) in [(DiskError::NoSpaceMidway, true), (DiskError::NoSpace, false)] {
        let mut bench = Bench::with_replica();
        bench.ask(Forward { level: Some(Box::default()), ..forward(1, 1) });
        let (id, job) = bench.job();
        assert!(matches!(job, ChunkJob::Apply { .. }), "{job:?}");
        bench.done(id, Err(error.into()));
        assert!(bench.reply().1.is_err());
        let asked = bench.jobs.iter().any(|(_, job)| matches!(job, ChunkJob::Reopen { .. }));
        assert_eq!(asked, asks);
    }
}

#[test]
fn a_raise_does_not_wait_for_bytes_that_are_being_fetched() {
    let mut bench = Bench::with_replica();
    bench.ask(levelling());
    let (late, _) = bench.asked_with(0, &[]);
    bench.ask(raise(version(1), version(2)));
    assert_eq!(bench.failure().code, ErrorCode::StaleVersion, "the levelling broke off");
    bench.journaled();
    assert!(matches!(bench.reply().1, Ok(Response::Raise(_))));
    bench.fetched(late, 0, 10);
    assert!(bench.jobs.is_empty(), "bytes of an older version");
}

#[test]
fn bytes_are_not_taken_from_one_that_has_applied_less() {
    let mut bench = Bench::with_replica();
    bench.ask(Forward { level: Some(source(0, 0).into()), ..forward(1, 1) });
    let (id, _) = bench.asked_with(0, &[]);
    bench.fetched(id, 0, 0);
    bench.applied(10);
    assert!(bench.reply().1.is_ok());
    bench.ask(Forward { level: Some(source(0, 0).into()), ..forward(2, 1) });
    assert_eq!(bench.failure().code, ErrorCode::OutOfOrder);
    assert!(bench.jobs.is_empty() && bench.calls.is_empty());
}

#[test]
fn a_primary_that_is_behind_catches_up_before_it_levels_the_others_by_those_bytes() {
    let mut bench = Bench::with_replica();
    let serial = SerialNumber::new(5);
    bench.ask(GrantLease { serial, length: 10, source: Some(source(5, 10).into()), ..grant() });
    let (id, _) = bench.asked_with(0, &[]);
    bench.fetched(id, 0, 10);
    let (id, _) = bench.job();
    bench.done(id, Ok(ChunkDone::Applied { length: 10, serial: SerialNumber::default() }));
    bench.applied(10);
    let levelling = bench.forward_answered();
    assert_eq!(levelling.level, Some(LevelSource { at: server(1), ..source(5, 10) }.into()));
    assert_eq!(levelling.mutations[0].serial, serial, "it has gone no further for that");
    bench.forward_answered();
    assert!(matches!(bench.reply().1, Ok(Response::GrantLease(_))));
}

#[test]
fn a_source_that_does_not_answer_is_named_to_the_master() {
    let mut bench = Bench::with_replica();
    bench.ask(GrantLease { source: Some(source(5, 10).into()), ..grant() });
    let (id, _) = bench.asked_with(0, &[]);
    bench.answer(id, Err(Failure::unknown(ErrorCode::Unreachable, "gone")));
    let failure = bench.failure();
    assert_eq!((failure.code, failure.server), (ErrorCode::ReplicaFailed, ServerId::new(2)));
}

#[test]
fn the_idle_notice_is_told_again_until_it_is_heard() {
    let mut bench = Bench::primary();
    bench.ask(append(1, 100));
    bench.applied(100);
    bench.forward_answered();
    bench.forward_answered();
    let told = |bench: &mut Bench, later| {
        bench.tick(later);
        let calls = std::mem::take(&mut bench.calls).into_iter();
        let notice = |(id, request)| match request {
            Request::Acknowledged(notice) => Some((id, notice.acknowledged)),
            _ => None,
        };
        calls.filter_map(notice).collect::<Vec<_>>()
    };
    let tick = Duration::from_millis(50);
    let [heard, lost] = told(&mut bench, tick)[..] else { panic!("both are told") };
    assert_eq!((heard.1, lost.1), (100, 100));
    assert_eq!(told(&mut bench, tick), [], "each is being told");
    bench.answer(heard.0, Ok(Response::Acknowledged(AcknowledgedAnswer {})));
    bench.answer(lost.0, Err(Failure::unknown(ErrorCode::Unreachable, "gone")));
    assert_eq!(told(&mut bench, tick), [], "not at once");
    let later = Duration::from_millis(CellConfig::tiny().heartbeat_ms);
    assert_eq!(told(&mut bench, later).len(), 1, "the one that has not heard");
}

#[test]
fn a_secondary_that_lacks_pushed_data_is_asked_again_for_a_while_before_it_has_failed() {
    for arrives in [true, false] {
        let mut bench = Bench::primary();
        bench.ask(append(1, 100));
        bench.applied(100);
        bench.forward_answered();
        let lacks = |bench: &mut Bench| {
            let (id, request) = bench.call();
            let missing = Failure::not_done(ErrorCode::PushMissing, "not here yet");
            assert!(matches!(request, Request::Forward(_)), "{request:?}");
            bench.answer(id, Err(missing));
        };
        lacks(&mut bench);
        assert!(bench.calls.is_empty(), "its data may be on its way: {:?}", bench.calls);
        bench.tick(Duration::from_millis(100));
        if arrives {
            bench.forward_answered();
            assert!(matches!(bench.reply().1, Ok(Response::Append(_))));
            continue;
        }
        bench.tick(Duration::from_millis(1000));
        lacks(&mut bench);
        let asks = |(_, request): &CallEffect| matches!(request, Request::SecondaryFailed(_));
        assert!(bench.calls.iter().any(asks), "R14: {:?}", bench.calls);
    }
}

#[test]
fn blocks_go_to_another_server_with_how_the_replica_stands_that_they_are_of() {
    let mut bench = Bench::primary();
    bench.ask(append(1, 100));
    bench.applied(100);
    let (offset, length, known) = (0, 0, BlockChecksums::default());
    let (version, size_max) = (version(1), 0);
    bench.ask(Fetch { handle: handle(), version, offset, length, known, size_max });
    let (id, job) = bench.job();
    assert!(matches!(job, ChunkJob::Fetch { .. }), "{job:?}");
    bench.done(id, Ok(ChunkDone::Read(ReadDone::default())));
    let Ok(Response::Fetch(FetchAnswer { replica, .. })) = bench.reply().1 else {
        panic!("it serves its bytes while they change");
    };
    assert_eq!((replica.length, replica.version), (100, version));
    assert_eq!((replica.serial, replica.acknowledged), (SerialNumber::new(2), 0));
}

#[test]
fn what_went_with_a_disk_is_told_until_the_master_has_heard_it_and_not_what_came_again() {
    let mut bench = Bench::with_replica();
    let other = ChunkHandle::of(TERM, 2);
    bench.ask(Raise { handle: other, create: true, ..raise(Default::default(), version(1)) });
    bench.journaled();
    let now = Now { time: bench.time, wall: WallTime::from_millis(1) };
    bench.core.lose(now, &[handle(), other]);
    assert_eq!(bench.heartbeat().1.lost, [handle(), other]);
    bench.ask(Raise { handle: other, create: true, ..raise(Default::default(), version(2)) });
    bench.journaled();
    let (id, told) = bench.heartbeat();
    assert_eq!(told.lost, [handle()], "the other is there again");
    let answer = HeartbeatAnswer { term: TERM, ..HeartbeatAnswer::default() };
    bench.answer(id, Ok(Response::Heartbeat(answer.into())));
    assert_eq!(bench.heartbeat().1.lost, []);
}
