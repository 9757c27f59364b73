//! Checks of single replicas for people: what is asked of the disk, and what comes of its word.

mod bench;

use bench::{Bench, TERM, handle, raise, version};
use cairn_env::{ChunkDone, ChunkError, ChunkJob, DiskError, IoFailure, Now};
use cairn_protocol::{
    CheckReplica, CheckReplicaAnswer, ErrorCode, Garbage, HeartbeatAnswer, ListHeld, Outcome,
    Raise, ReplicaFault, Request, Response,
};
use cairn_types::{ChunkHandle, ChunkVersion, WallTime};

impl Bench {
    fn check(&mut self, data: bool) {
        self.ask(CheckReplica { handle: handle(), offset: 0, data });
    }

    fn checked(&mut self) -> CheckReplicaAnswer {
        match self.reply().1 {
            Ok(Response::CheckReplica(answer)) => answer,
            other => panic!("{other:?}"),
        }
    }

    fn damaged(&mut self) -> Vec<ChunkHandle> {
        self.heartbeat().1.damaged
    }

    fn lost(&mut self) -> Vec<ChunkHandle> {
        self.heartbeat().1.lost
    }
}

#[test]
fn a_file_that_is_gone_is_told_to_who_asked_and_to_the_master() {
    let mut bench = Bench::with_replica();
    bench.check(false);
    let (id, job) = bench.job();
    assert_eq!(job, ChunkJob::Look { handle: handle() });
    bench.done(id, Ok(ChunkDone::Looked { fault: ReplicaFault::Sound, reflinked: false }));
    let answer = bench.checked();
    assert_eq!((answer.fault, answer.damaged), (ReplicaFault::Sound, false));
    assert_eq!(bench.damaged(), []);
    bench.jobs.clear();
    bench.check(false);
    let (id, _) = bench.job();
    bench.done(id, Ok(ChunkDone::Looked { fault: ReplicaFault::NoSidecar, reflinked: false }));
    let answer = bench.checked();
    assert_eq!((answer.fault, answer.replica.handle), (ReplicaFault::NoSidecar, handle()));
    assert_eq!(bench.damaged(), [handle()]);
}

#[test]
fn bytes_are_verified_part_by_part_and_a_bad_block_is_named() {
    let mut bench = Bench::with_replica();
    bench.check(true);
    let (id, job) = bench.scrubs.pop_front().expect("a part is verified");
    assert_eq!(job, ChunkJob::Scrub { handle: handle(), offset: 0 });
    bench.done(id, Ok(ChunkDone::Scrubbed { size: 900, next: Some(512), bad: Some(448) }));
    let answer = bench.checked();
    assert_eq!((answer.fault, answer.bad_offset), (ReplicaFault::BadBlock, 448));
    assert_eq!((answer.size, answer.next), (900, Some(512)), "who asked goes on behind it");
    assert_eq!(bench.damaged(), [handle()]);
}

#[test]
fn a_disk_that_cannot_look_says_nothing_of_the_replica_and_one_that_is_not_here_is_not_looked_for()
{
    let mut bench = Bench::with_replica();
    bench.check(false);
    let (id, _) = bench.job();
    bench.done(id, Err(ChunkError::Disk(DiskError::Io(IoFailure::NoDescriptors))));
    assert_eq!(bench.failure().code, ErrorCode::Io);
    assert_eq!(bench.damaged(), []);
    bench.jobs.clear();
    bench.scrubs.clear();
    let absent = ChunkHandle::of(TERM, 99);
    bench.ask(CheckReplica { handle: absent, ..CheckReplica::default() });
    assert_eq!(bench.failure().code, ErrorCode::NoSuchChunk);
    assert_eq!(bench.lost(), [absent], "the master hears that it is not here");
    bench.jobs.clear();
    bench.scrubs.clear();
    bench.ask(CheckReplica { handle: handle(), offset: u64::MAX, data: true });
    assert_eq!(bench.failure().code, ErrorCode::Invalid, "it has no such byte");
    assert!(bench.jobs.is_empty() && bench.scrubs.is_empty());
}

#[test]
fn what_is_held_is_told_page_by_page() {
    let held: Vec<ChunkHandle> = (1..=5).map(|number| ChunkHandle::of(TERM, number)).collect();
    let mut bench = Bench::restarted(&held, ChunkHandle::default(), &[]);
    let (mut all, mut after) = (Vec::new(), ChunkHandle::default());
    loop {
        bench.ask(ListHeld { after, limit: 2 });
        let Ok(Response::ListHeld(answer)) = bench.reply().1 else { panic!("a page") };
        assert!(answer.replicas.0.len() <= 2);
        all.extend(answer.replicas.0.iter().map(|report| report.handle));
        match answer.resume {
            Some(resume) => after = resume,
            None => break,
        }
    }
    assert_eq!(all, held);
    let after = ChunkHandle::new(u64::MAX);
    bench.ask(ListHeld { after, limit: 2 });
    assert!(matches!(bench.reply().1, Ok(Response::ListHeld(answer)) if answer.resume.is_none()));
}

#[test]
fn what_could_not_be_created_is_told_as_gone_in_case_it_was_told_of_meanwhile() {
    let mut bench = Bench::joined();
    bench.ask(Raise { create: true, ..raise(ChunkVersion::default(), version(1)) });
    let (id, _) = bench.job();
    let (beat, told) = bench.heartbeat();
    assert_eq!(told.held.iter().map(|it| it.handle).collect::<Vec<_>>(), [handle()]);
    let answer = HeartbeatAnswer { term: TERM, ..HeartbeatAnswer::default() };
    bench.answer(beat, Ok(Response::Heartbeat(answer.into())));
    bench.done(id, Err(ChunkError::NoSuchChunk));
    assert_eq!(bench.lost(), [handle()]);
}

#[test]
fn what_has_gone_as_garbage_is_told_as_gone_in_case_it_was_told_of_meanwhile() {
    let mut bench = Bench::with_replica();
    assert_eq!(bench.lost(), []);
    let beat = bench.calls.iter().position(|(_, it)| matches!(it, Request::Heartbeat(_)));
    let (id, _) = bench.calls.remove(beat.expect("it was sent just now")).expect("it is there");
    let garbage = vec![Garbage { handle: handle(), version: version(1) }];
    let answer = HeartbeatAnswer { term: TERM, garbage, ..HeartbeatAnswer::default() };
    bench.jobs.clear();
    bench.answer(id, Ok(Response::Heartbeat(answer.into())));
    let at = bench.jobs.iter().position(|(_, job)| matches!(job, ChunkJob::Trash { .. }));
    let (id, _) = bench.jobs.remove(at.expect("it goes")).expect("it is there");
    bench.done(id, Ok(ChunkDone::Trashed { gone: true }));
    assert_eq!(bench.lost(), [handle()]);
}

/// Answers the heartbeat under way: this one's replica is garbage.
fn name_as_garbage(bench: &mut Bench, handle: ChunkHandle) {
    let (beat, _) = bench.heartbeat();
    let garbage = vec![Garbage { handle, version: version(1) }];
    let answer = HeartbeatAnswer { term: TERM, garbage, ..HeartbeatAnswer::default() };
    bench.answer(beat, Ok(Response::Heartbeat(answer.into())));
}

#[test]
fn what_is_named_again_while_it_goes_goes_once_and_nothing_comes_in_its_place_meanwhile() {
    let mut bench = Bench::with_replica();
    let trash = |bench: &mut Bench| {
        let at = bench.jobs.iter().position(|(_, job)| matches!(job, ChunkJob::Trash { .. }));
        at.and_then(|at| bench.jobs.remove(at)).map(|(id, _)| id)
    };
    name_as_garbage(&mut bench, handle());
    let first = trash(&mut bench).expect("it goes");
    name_as_garbage(&mut bench, handle());
    assert_eq!(trash(&mut bench), None, "it is going");
    // Its disk fails meanwhile: what its job says is still to come.
    let now = Now { time: bench.time, wall: WallTime::default() };
    bench.core.lose(now, &[handle()]);
    bench.replies.clear();
    let create = || Raise { create: true, ..raise(ChunkVersion::default(), version(2)) };
    bench.ask(create());
    let failure = bench.reply().1.expect_err("it may be going still");
    assert_eq!((failure.code, failure.outcome), (ErrorCode::Busy, Outcome::NotDone));
    bench.done(first, Ok(ChunkDone::Trashed { gone: true }));
    bench.ask(create());
    let (made, _) = bench.job();
    bench.done(made, Ok(ChunkDone::Journaled));
    assert!(bench.reply().1.is_ok(), "a new one");
}

#[test]
fn a_line_of_the_replica_before_says_nothing_of_the_one_that_is_here_now() {
    for refused in [true, false] {
        let mut bench = Bench::with_replica();
        bench.jobs.clear();
        bench.ask(raise(version(1), version(2)));
        let (late, _) = bench.job();
        let now = Now { time: bench.time, wall: WallTime::default() };
        bench.core.lose(now, &[handle()]);
        bench.jobs.clear();
        bench.ask(Raise { create: true, ..raise(ChunkVersion::default(), version(3)) });
        let (made, _) = bench.job();
        // Whoever raised the one before was told that it is gone.
        bench.replies.clear();
        let result = if refused { Err(ChunkError::NoSuchChunk) } else { Ok(ChunkDone::Journaled) };
        bench.done(late, result);
        assert!(bench.replies.is_empty(), "it is not durable yet");
        bench.done(made, Ok(ChunkDone::Journaled));
        assert!(bench.reply().1.is_ok());
        assert!(bench.heartbeat().1.held.iter().any(|it| it.handle == handle()), "it is here");
    }
}
