//! A stream's chunk on one server, effect by effect: who may extend it, and what readers see (R40,
//! R44).

mod bench;

use bench::{Bench, TERM, forward, handle, push, raise, read, server, version};
use bytes::Bytes;
use cairn_env::{ApplyMutation, ChunkDone, ChunkError, ChunkJob, DiskError, ReadDone};
use cairn_protocol::{
    CheckReplica, ErrorCode, Extend, ExtendAnswer, Failure, Fetch, Forward, HeartbeatAnswer,
    LeftOut, LevelSource, Outcome, Raise, RaiseAnswer, Read, ReadAnswer, ReplicaFault,
    ReplicaReport, Request, Response,
};
use cairn_types::{BlockChecksums, CellConfig, Incarnation, SerialNumber, ServerId};

/// The bundle of ten bytes with that number.
fn extend(number: u64) -> Extend {
    Extend {
        handle: handle(),
        version: version(1),
        push: push(number),
        serial: SerialNumber::new(number),
        offset: 10 * (number - 1),
        size: 10,
        ..Extend::default()
    }
}

/// The disk appends the next bundle, or finds it there.
fn stored(bench: &mut Bench, number: u64) -> ApplyMutation {
    let (id, job) = bench.job();
    let ChunkJob::Extend { extent, .. } = job else { panic!("{job:?}") };
    bench.done(
        id,
        Ok(ChunkDone::Applied { length: 10 * number, serial: SerialNumber::new(number) }),
    );
    extent
}

fn answer(bench: &mut Bench) -> ExtendAnswer {
    match bench.reply().1 {
        Ok(Response::Extend(answer)) => answer,
        other => panic!("{other:?}"),
    }
}

fn refused(bench: &mut Bench, request: impl Into<Request>) -> Failure {
    bench.ask(request);
    assert!(bench.jobs.is_empty(), "the disk is not asked: {:?}", bench.jobs);
    bench.failure()
}

/// A server whose stream's chunk has so many bundles.
fn extended(count: u64) -> Bench {
    let mut bench = Bench::with_replica();
    for number in 1..=count {
        bench.ask(extend(number));
        stored(&mut bench, number);
        answer(&mut bench);
    }
    bench
}

/// A server that finds a stream's chunk of five bundles.
fn found(report: ReplicaReport) -> Bench {
    let serial = SerialNumber::new(5);
    let (version, mutated_version) = (version(1), version(1));
    let found =
        ReplicaReport { handle: handle(), version, mutated_version, serial, length: 50, ..report };
    Bench::holding(&[found])
}

fn reported(bench: &mut Bench) -> ReplicaReport {
    bench.ask(CheckReplica { handle: handle(), offset: 0, data: false });
    let (id, job) = bench.job();
    assert!(matches!(job, ChunkJob::Look { .. }), "{job:?}");
    bench.done(id, Ok(ChunkDone::Looked { fault: ReplicaFault::Sound, reflinked: false }));
    match bench.reply().1 {
        Ok(Response::CheckReplica(answer)) => answer.replica,
        other => panic!("{other:?}"),
    }
}

#[test]
fn a_bundle_is_answered_once_the_disk_has_it_and_says_who_holds_it_and_how_much() {
    let mut bench = Bench::with_replica();
    bench.ask(Extend { sync: true, ..extend(1) });
    assert!(bench.replies.is_empty(), "the disk has not said so");
    let (id, job) = bench.job();
    let extent = ApplyMutation {
        serial: SerialNumber::new(1),
        offset: 0,
        size: 10,
        push: Some(push(1)),
        checksums: BlockChecksums::default(),
    };
    let (handle, version) = (handle(), version(1));
    assert_eq!(job, ChunkJob::Extend { handle, version, extent, sync: true });
    bench.done(id, Ok(ChunkDone::Applied { length: 10, serial: SerialNumber::new(1) }));
    let (server, incarnation) = (ServerId::new(1), Incarnation::new(1));
    assert_eq!(answer(&mut bench), ExtendAnswer { server, incarnation, length: 10 });
    let report = reported(&mut bench);
    assert_eq!((report.serial, report.length), (SerialNumber::new(1), 10));
    assert_eq!(report.mutated_version, version);
}

#[test]
fn bundles_that_come_at_once_go_to_the_disk_one_after_the_other_in_their_order() {
    let mut bench = Bench::with_replica();
    let asked = [1, 2, 3].map(|number| bench.ask(extend(number)));
    for (number, from) in (1..=3).zip(asked) {
        assert_eq!(bench.jobs.len(), 1, "one at a time (X1)");
        assert_eq!(stored(&mut bench, number).serial, SerialNumber::new(number));
        let (to, answer) = bench.reply();
        assert!(to == from && answer.is_ok(), "{answer:?}");
    }
}

#[test]
fn a_repeat_is_answered_as_the_first_time_and_leaves_everything_as_it_is() {
    let mut bench = extended(2);
    let before = reported(&mut bench);
    bench.ask(extend(1));
    let (id, job) = bench.job();
    assert!(matches!(job, ChunkJob::Extend { .. }), "the disk compares: {job:?}");
    bench.done(id, Ok(ChunkDone::Applied { length: 20, serial: SerialNumber::new(2) }));
    assert_eq!(answer(&mut bench).length, 20);
    assert_eq!(reported(&mut bench), before);
}

#[test]
fn what_the_disk_refuses_is_told_as_it_is_and_the_next_bundle_goes_on() {
    let push = push(1);
    let last = SerialNumber::new(2);
    let refusals = [
        (ChunkError::OutOfOrder { last, length: 20 }, ErrorCode::OutOfOrder, Outcome::NotDone),
        (ChunkError::BytesDiffer { offset: 3 }, ErrorCode::BytesDiffer, Outcome::Refused),
        (ChunkError::PushMissing { push }, ErrorCode::PushMissing, Outcome::NotDone),
        (ChunkError::PushDiffers { push }, ErrorCode::Invalid, Outcome::Refused),
        (DiskError::NoSpace.into(), ErrorCode::DiskFull, Outcome::NotDone),
        (DiskError::NoSpaceMidway.into(), ErrorCode::Io, Outcome::Unknown),
    ];
    for (error, code, outcome) in refusals {
        let mut bench = extended(2);
        bench.ask(extend(3));
        bench.ask(extend(4));
        let (id, _) = bench.job();
        bench.done(id, Err(error));
        let failure = bench.failure();
        assert_eq!((failure.code, failure.outcome), (code, outcome));
        // What waited is taken by the disk.
        stored(&mut bench, 4);
        assert_eq!(answer(&mut bench).length, 40);
    }
}

#[test]
fn a_bad_block_that_a_repeat_meets_is_damage_and_nothing_is_added_to_it() {
    let mut bench = extended(2);
    bench.ask(extend(1));
    let (id, _) = bench.job();
    bench.done(id, Err(ChunkError::Corrupt { offset: 0 }));
    assert_eq!(bench.failure().code, ErrorCode::ChecksumMismatch);
    assert_eq!(refused(&mut bench, extend(3)).code, ErrorCode::ChecksumMismatch);
}

#[test]
fn a_bundle_without_number_or_bytes_or_past_its_chunk_s_end_is_nonsense() {
    let mut bench = Bench::with_replica();
    let size = CellConfig::tiny().chunk_size;
    for nonsense in [
        Extend { serial: SerialNumber::default(), ..extend(1) },
        Extend { size: 0, ..extend(1) },
        Extend { offset: size - 9, ..extend(1) },
        Extend { offset: u64::MAX, ..extend(1) },
    ] {
        let failure = refused(&mut bench, nonsense);
        assert_eq!((failure.code, failure.outcome), (ErrorCode::Invalid, Outcome::Refused));
    }
}

#[test]
fn a_raise_ends_the_writing_of_a_chunk_also_for_what_waits_behind_it() {
    let mut bench = extended(2);
    bench.ask(extend(3));
    bench.ask(Raise { close: true, sync: true, ..raise(version(1), version(2)) });
    bench.ask(extend(4));
    stored(&mut bench, 3);
    assert_eq!(answer(&mut bench).length, 30);
    // The raise is under way: what it reports includes the third.
    let (id, job) = bench.job();
    assert!(matches!(job, ChunkJob::Sync { .. }), "{job:?}");
    bench.done(id, Ok(ChunkDone::Synced));
    bench.journaled();
    let Ok(Response::Raise(RaiseAnswer { replica })) = bench.reply().1 else { panic!("raised") };
    assert_eq!((replica.serial, replica.length), (SerialNumber::new(3), 30));
    assert!(replica.closed);
    assert_eq!(bench.failure().code, ErrorCode::StaleVersion, "the fourth");
    let at_the_new_one = Extend { version: version(2), ..extend(4) };
    assert_eq!(refused(&mut bench, at_the_new_one).code, ErrorCode::ChunkClosed);
}

#[test]
fn who_is_out_of_the_set_or_may_have_lost_bytes_or_is_damaged_takes_no_bundle() {
    let mut suspect = found(ReplicaReport { suspect: true, ..ReplicaReport::default() });
    assert_eq!(refused(&mut suspect, extend(6)).code, ErrorCode::ReplicaFailed);
    let mut damaged = found(ReplicaReport::default());
    damaged.core.mark_damaged(&[handle()]);
    assert_eq!(refused(&mut damaged, extend(6)).code, ErrorCode::ChecksumMismatch);
    let mut left_out = found(ReplicaReport::default());
    let (beat, _) = left_out.heartbeat();
    let left = vec![LeftOut { handle: handle(), version: version(2) }];
    let heard = HeartbeatAnswer { term: TERM, left_out: left, ..HeartbeatAnswer::default() };
    left_out.answer(beat, Ok(Response::Heartbeat(heard.into())));
    assert_eq!(refused(&mut left_out, extend(6)).code, ErrorCode::StaleVersion);
}

#[test]
fn what_has_or_had_a_part_in_a_lease_is_no_stream_s_chunk() {
    let mut primary = Bench::primary();
    assert_eq!(refused(&mut primary, extend(1)).code, ErrorCode::Invalid);
    let mut secondary = Bench::with_replica();
    let level = Some(LevelSource { at: server(2), ..LevelSource::default() }.into());
    secondary.ask(Forward { level, ..forward(1, 1) });
    secondary.applied(10);
    assert!(secondary.reply().1.is_ok());
    assert_eq!(refused(&mut secondary, extend(2)).code, ErrorCode::Invalid);
    let mut written = found(ReplicaReport {
        acknowledged: 10,
        acknowledged_serial: SerialNumber::new(1),
        ..ReplicaReport::default()
    });
    assert_eq!(refused(&mut written, extend(6)).code, ErrorCode::Invalid);
}

#[test]
fn a_reader_gets_what_is_committed_and_no_more_whatever_the_marks_here_say() {
    let of = |committed| Read { committed: Some(committed), ..read(0, 1000) };
    let mut bench = extended(5);
    for (committed, size) in [(30, 30), (50, 50), (4000, 50)] {
        bench.ask(of(committed));
        let (id, job) = bench.job();
        let expected = ChunkJob::Read { handle: handle(), offset: 0, size };
        assert_eq!(job, expected, "{committed} are committed");
        let payload = Bytes::from(vec![7; size as usize]).into();
        bench.done(id, Ok(ChunkDone::Read(ReadDone { payload, ..ReadDone::default() })));
        let Ok(Response::Read(got)) = bench.reply().1 else { panic!("served") };
        let nothing = ReadAnswer { readable: size, ..ReadAnswer::default() };
        assert_eq!(got, nothing, "never zeros");
    }
    bench.ask(Read { offset: 50, ..of(4000) });
    let Ok(Response::Read(short)) = bench.reply().1 else { panic!("a short answer") };
    assert_eq!((short.readable, short.zeros), (50, 0), "go to another");
    // Sealed, and known as such: no zeros either.
    bench.ask(Raise { close: true, ..raise(version(1), version(2)) });
    bench.journaled();
    assert!(bench.reply().1.is_ok());
    let sealed = Read { offset: 30, version: version(2), closed: true, ..of(30) };
    bench.ask(sealed);
    let Ok(Response::Read(end)) = bench.reply().1 else { panic!("an empty answer") };
    assert_eq!((end.readable, end.zeros), (30, 0));
    bench.ask(of(30));
    assert_eq!(bench.failure().code, ErrorCode::StaleVersion, "R12");
}

#[test]
fn who_lost_its_end_tells_no_reader_of_a_stream_where_it_ends() {
    let mut bench = extended(5);
    bench.core.mark_damaged(&[handle()]);
    bench.ask(Read { committed: Some(80), ..read(50, 10) });
    assert_eq!(bench.failure().code, ErrorCode::ChecksumMismatch);
}

#[test]
fn what_is_committed_of_it_makes_a_suspect_replica_current_that_has_all_of_that() {
    let suspect = || found(ReplicaReport { suspect: true, ..ReplicaReport::default() });
    let seal = |committed| {
        let committed = Some(SerialNumber::new(committed));
        Raise { close: true, committed, ..raise(version(1), version(2)) }
    };
    for (committed, current) in [(4, true), (5, true), (6, false)] {
        let mut bench = suspect();
        bench.ask(seal(committed));
        bench.journaled();
        let Ok(Response::Raise(RaiseAnswer { replica })) = bench.reply().1 else {
            panic!("raised")
        };
        assert_eq!(replica.suspect, !current, "{committed} are committed, five are here");
        assert_eq!(
            bench.jobs.len(),
            usize::from(current),
            "and its journal knows: {:?}",
            bench.jobs
        );
    }
    let mut lost = suspect();
    lost.core.mark_damaged(&[handle()]);
    lost.ask(seal(1));
    lost.journaled();
    let Ok(Response::Raise(RaiseAnswer { replica })) = lost.reply().1 else { panic!("raised") };
    assert!(replica.suspect, "nobody knows what it lost");
}

#[test]
fn a_sealed_chunk_is_copied_and_fetched_as_any_other() {
    let mut bench = extended(3);
    bench.ask(Raise { close: true, ..raise(version(1), version(2)) });
    bench.journaled();
    assert!(bench.reply().1.is_ok());
    bench.ask(Fetch { handle: handle(), version: version(2), ..Fetch::default() });
    let (id, job) = bench.job();
    assert!(matches!(job, ChunkJob::Fetch { .. }), "{job:?}");
    let (payload, checksums) = (Bytes::from(vec![7; 30]).into(), BlockChecksums(vec![1]));
    bench.done(id, Ok(ChunkDone::Read(ReadDone { offset: 0, payload, checksums })));
    let Ok(Response::Fetch(fetched)) = bench.reply().1 else { panic!("all of it") };
    let stands = fetched.replica;
    assert_eq!((stands.length, stands.serial), (30, SerialNumber::new(3)), "none is acknowledged");
    assert!(stands.closed && !stands.suspect);
}
