//! What a chunkserver tells the masters that are not in charge (A26).

mod bench;

use bench::{Bench, TERM, append, handle, raise, server, version};
use cairn_env::{ChunkDone, ChunkJob, EffectId};
use cairn_protocol::{
    ErrorCode, Failure, Garbage, HeartbeatAnswer, Raise, Read, Request, Response, TellShadow,
    TellShadowAnswer,
};
use cairn_types::{CellConfig, ChunkHandle, ChunkVersion, JoinId};
use std::collections::BTreeSet;
use std::time::Duration;

const TICK: Duration = Duration::from_millis(50);

/// Of three masters, of which the first has taken it in.
fn joined() -> Bench {
    let mut bench = Bench::of_masters(&["master1:1", "master2:1", "master3:1"]);
    bench.join();
    bench.find("master1:1", TERM);
    bench
}

/// The same, with a replica.
fn with_replica() -> Bench {
    let mut bench = joined();
    bench.ask(Raise { create: true, ..raise(ChunkVersion::default(), version(1)) });
    bench.journaled();
    bench.reply().1.expect("it was created");
    bench
}

/// What the master of that name is told by now or soon; everybody else is left to wait.
fn told(bench: &mut Bench, name: &str) -> (EffectId, TellShadow) {
    for _ in 0..40 {
        let mine = bench.tells.iter().position(|(_, to, _)| to.as_str() == name);
        if let Some((id, _, tell)) = mine.and_then(|at| bench.tells.remove(at)) {
            return (id, tell);
        }
        bench.tick(TICK);
    }
    panic!("{name} is told nothing");
}

fn answer(bench: &mut Bench, id: EffectId, join: u64, unknown: Vec<ChunkHandle>) {
    let (join, config) = (JoinId::new(join), Some(Box::new(CellConfig::tiny())));
    let answer = TellShadowAnswer { join, unknown, config };
    bench.answer(id, Ok(Response::TellShadow(answer)));
}

/// Has it taken in, and tells all of the first round.
fn meet(bench: &mut Bench, name: &str, join: u64) -> Vec<ChunkHandle> {
    let (id, first) = told(bench, name);
    assert!(first.replicas.0.is_empty() && first.join == JoinId::default());
    answer(bench, id, join, vec![]);
    let mut handles = Vec::new();
    loop {
        let (id, tell) = told(bench, name);
        handles.extend(tell.replicas.0.iter().map(|report| report.handle));
        answer(bench, id, join, vec![]);
        if tell.all {
            return handles;
        }
    }
}

fn unreachable() -> Failure {
    Failure::not_done(ErrorCode::Unreachable, "connection refused")
}

#[test]
fn the_masters_that_are_not_in_charge_are_told_all_that_is_held_and_then_what_changes() {
    let mut bench = with_replica();
    bench.tick(TICK);
    assert_eq!(meet(&mut bench, "master2:1", 7), [handle()]);
    assert!(bench.tells.iter().all(|(_, to, _)| to.as_str() == "master3:1"), "not the primary");
    bench.tells.clear();
    // A change is told soon, and a replica that goes is told as gone.
    bench.ask(raise(version(1), version(2)));
    let before = bench.time;
    while let Some((id, job)) = bench.jobs.pop_front() {
        let done = match job {
            ChunkJob::Sync { .. } => ChunkDone::Synced,
            _ => ChunkDone::Journaled,
        };
        bench.done(id, Ok(done));
    }
    let (id, tell) = told(&mut bench, "master2:1");
    assert!(bench.time.since(before) <= Duration::from_millis(300));
    assert_eq!(tell.replicas.0[0].version, version(2));
    assert_eq!(tell.join, JoinId::new(7));
    answer(&mut bench, id, 7, vec![]);
    let (beat, _) = bench.heartbeat();
    let garbage = vec![Garbage { handle: handle(), version: version(2) }];
    let heeded = HeartbeatAnswer { term: TERM, garbage, ..HeartbeatAnswer::default() };
    bench.answer(beat, Ok(Response::Heartbeat(heeded.into())));
    let trash = bench.jobs.iter().position(|(_, job)| matches!(job, ChunkJob::Trash { .. }));
    let (id, _) = trash.and_then(|at| bench.jobs.remove(at)).expect("it goes to the trash");
    bench.done(id, Ok(ChunkDone::Trashed { gone: true }));
    loop {
        let (id, tell) = told(&mut bench, "master2:1");
        answer(&mut bench, id, 7, vec![]);
        if tell.gone == [handle()] {
            break;
        }
    }
}

#[test]
fn a_shadow_that_knows_a_chunk_only_later_is_told_of_it_again() {
    // So many that it is not the turn of the last one when the next word goes out.
    let held: Vec<ChunkHandle> = (1..=500).map(|counter| ChunkHandle::of(TERM, counter)).collect();
    let late = held[400];
    let mut bench = Bench::waiting(&["master1:1", "master2:1"], &held);
    assert_eq!(meet(&mut bench, "master2:1", 7), held);
    let told_of = |tell: &TellShadow| tell.replicas.0.iter().any(|report| report.handle == late);
    let (id, before) = told(&mut bench, "master2:1");
    assert!(!told_of(&before));
    answer(&mut bench, id, 7, vec![late]);
    let (id, again) = told(&mut bench, "master2:1");
    assert!(told_of(&again));
    answer(&mut bench, id, 7, vec![]);
    let (_, after) = told(&mut bench, "master2:1");
    assert!(!told_of(&after), "once is enough");
}

#[test]
fn one_that_begins_anew_or_does_not_answer_is_told_all_from_the_beginning() {
    let mut bench = with_replica();
    meet(&mut bench, "master2:1", 7);
    let (id, _) = told(&mut bench, "master2:1");
    answer(&mut bench, id, 8, vec![]);
    let (id, tell) = told(&mut bench, "master2:1");
    assert_eq!((tell.join, tell.replicas.0.len()), (JoinId::new(8), 1));
    bench.answer(id, Err(unreachable()));
    assert_eq!(meet(&mut bench, "master2:1", 9), [handle()]);
}

#[test]
fn shadows_are_told_while_nobody_is_in_charge_and_who_was_is_told_like_the_others() {
    let mut bench = with_replica();
    bench.tells.clear();
    for _ in 0..100 {
        bench.tick(TICK);
        while let Some((id, request)) = bench.calls.pop_front() {
            assert!(!matches!(request, Request::Raise(_)));
            bench.answer(id, Err(unreachable()));
        }
        while let Some((id, _)) = bench.searches.pop_front() {
            bench.answer(id, Err(unreachable()));
        }
        let dead: Vec<EffectId> = (bench.tells.iter())
            .filter(|(_, to, _)| to.as_str() != "master2:1")
            .map(|(id, ..)| *id)
            .collect();
        bench.tells.retain(|(id, ..)| !dead.contains(id));
        for id in dead {
            bench.answer(id, Err(unreachable()));
        }
    }
    assert_eq!(bench.tells.len(), 1, "SR2: it is asked once at a time");
    assert_eq!(meet(&mut bench, "master2:1", 7), [handle()]);
    let (_, tell) = told(&mut bench, "master1:1");
    assert_eq!((tell.at, tell.all), (server(1), false));
}

#[test]
fn a_server_of_a_cell_of_one_master_tells_no_shadow() {
    let mut bench = Bench::primary();
    bench.ask(append(1, 10));
    bench.applied(10);
    for _ in 0..100 {
        bench.tick(TICK);
    }
    assert!(bench.tells.is_empty());
}

#[test]
fn who_starts_while_nobody_is_in_charge_serves_readers_whom_a_shadow_sent_and_nobody_else() {
    let mut bench = Bench::waiting(&["master1:1", "master2:1"], &[handle()]);
    let read = Read { handle: handle(), version: version(1), size: 10, ..Read::default() };
    let sent = Read { takes_behind: true, ..read.clone() };
    bench.ask(sent.clone());
    assert_eq!(bench.failure().code, ErrorCode::Busy, "nobody knows how large a chunk is");
    assert_eq!(meet(&mut bench, "master2:1", 7), [handle()]);
    bench.ask(read);
    assert_eq!(bench.failure().code, ErrorCode::Busy, "no master has taken it in");
    bench.ask(raise(version(1), version(2)));
    assert_eq!(bench.failure().code, ErrorCode::Busy);
    bench.ask(sent);
    assert!(bench.replies.pop_front().is_none_or(|(_, answer)| answer.is_ok()));
}

#[test]
fn of_a_whole_disk_of_bad_replicas_a_shadow_hears_beside_what_it_is_told_of_each() {
    let held: Vec<ChunkHandle> = (1..=3000).map(|it| ChunkHandle::of(TERM, it)).collect();
    let (bad, sound) = held.split_at(2500);
    let mut bench = Bench::waiting(&["master1:1", "master2:1"], &held);
    assert_eq!(meet(&mut bench, "master2:1", 7), held);
    bench.core.mark_damaged(bad);
    let mut named = BTreeSet::new();
    while named.len() < bad.len() {
        let (id, tell) = told(&mut bench, "master2:1");
        let told_of: BTreeSet<_> = tell.replicas.0.iter().map(|report| report.handle).collect();
        assert!(told_of.len() <= 1024 && tell.damaged.iter().all(|it| told_of.contains(it)));
        // What is told and not named is sound.
        let unnamed = told_of.iter().filter(|it| !tell.damaged.contains(it));
        assert!(unnamed.copied().all(|it| sound.contains(&it)), "{}", tell.damaged.len());
        named.extend(tell.damaged);
        answer(&mut bench, id, 7, vec![]);
        assert!(bench.time.since(Default::default()) < Duration::from_secs(15), "soon");
    }
}
