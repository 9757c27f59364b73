//! The scrub: what is verified when, what comes of a bad block, and how a restart goes on.

mod bench;

use bench::{Bench, TERM, append, handle, raise, version};
use cairn_env::{
    ChunkDone, ChunkError, ChunkJob, ChunkResult, DiskError, IoFailure, JournalEntry, JournalPart,
    LogEvent,
};
use cairn_protocol::{HeartbeatAnswer, InventoryAnswer, Raise, ReplicaReport, Request, Response};
use cairn_types::{ChunkHandle, SerialNumber};
use std::collections::BTreeSet;
use std::time::Duration;

/// In a bench a thousand bytes may be verified in a second, and a round begins every hour.
const HOUR: Duration = Duration::from_secs(3600);

fn other() -> ChunkHandle {
    ChunkHandle::of(TERM, 2)
}

impl Bench {
    /// With two replicas.
    fn with_two() -> Self {
        let mut bench = Self::with_replica();
        bench.ask(Raise { handle: other(), create: true, ..raise(Default::default(), version(1)) });
        bench.journaled();
        bench.replies.clear();
        bench
    }

    /// The next part is verified.
    fn scrubbed(&mut self, size: u64, next: Option<u64>, good: bool) -> (ChunkHandle, u64) {
        let (id, job) = self.scrubs.pop_front().expect("a part is to be verified");
        let ChunkJob::Scrub { handle, offset } = job else { panic!("{job:?}") };
        let bad = (!good).then_some(offset);
        self.done(id, Ok(ChunkDone::Scrubbed { size, next, bad }));
        (handle, offset)
    }

    /// So much later.
    fn pass(&mut self, later: Duration) {
        self.calls.clear();
        self.tick(later);
    }

    fn noted(&mut self) -> Vec<JournalEntry> {
        let entries = self.jobs.drain(..).filter_map(|(_, job)| match job {
            ChunkJob::Journal(entries) => Some(entries),
            _ => None,
        });
        entries.flatten().collect()
    }
}

#[test]
fn every_replica_is_verified_in_turn_at_the_rate_and_again_when_the_period_is_over() {
    let mut bench = Bench::with_two();
    bench.pass(Duration::from_millis(1));
    assert_eq!(bench.scrubbed(904, Some(904), true), (handle(), 0));
    // With what a part costs: five seconds.
    bench.pass(Duration::from_millis(4_999));
    assert!(bench.scrubs.is_empty(), "that was read too fast");
    bench.pass(Duration::from_millis(1));
    assert_eq!(bench.scrubbed(0, None, true), (handle(), 904));
    bench.pass(Duration::from_secs(5));
    assert_eq!(bench.scrubbed(10, None, true), (other(), 0));
    bench.pass(Duration::from_secs(5));
    assert!(bench.scrubs.is_empty(), "the round is over");
    let end = ChunkHandle::new(u64::MAX);
    let began_ms = bench.wall_ms;
    assert!(bench.noted().contains(&JournalEntry::Scrubbed { began_ms, handle: end }));
    let progress = bench.heartbeat().1.scrub;
    assert_eq!((progress.verified, progress.bad, progress.is_over), (914, 0, true));
    bench.wall_ms += HOUR.as_millis() as u64;
    bench.pass(Duration::from_secs(1));
    assert_eq!(bench.scrubbed(10, None, true), (handle(), 0));
}

#[test]
fn a_bad_block_is_told_to_the_master_and_noted_and_the_rest_of_the_replica_is_not_read() {
    let mut bench = Bench::with_two();
    bench.pass(Duration::from_millis(1));
    assert_eq!(bench.scrubbed(900, None, false), (handle(), 0));
    let beat = bench.heartbeat().1;
    assert_eq!((beat.damaged, beat.scrub.bad), (vec![handle()], 1));
    assert!(bench.noted().contains(&JournalEntry::Damaged(handle())), "a restart knows it too");
    bench.pass(Duration::from_secs(5));
    assert!(!bench.noted().contains(&JournalEntry::Damaged(handle())), "once");
    assert_eq!(bench.scrubbed(0, None, true), (other(), 0));
}

#[test]
fn where_the_scrub_is_stands_behind_what_it_found_though_no_master_answers() {
    let mut bench = Bench::with_two();
    bench.noted();
    bench.pass(Duration::from_millis(1));
    let damaged = ChunkJob::Journal(vec![JournalEntry::Damaged(handle())]);
    let began_ms = bench.wall_ms;
    bench.time = bench.time + Duration::from_secs(61);
    bench.scrubbed(900, None, false);
    for refuses in [true, false] {
        let at = bench.jobs.iter().position(|(_, job)| *job == damaged).expect("it is found");
        let (id, _) = bench.jobs.remove(at).expect("it is there");
        let is_place = |entry: &JournalEntry| matches!(entry, JournalEntry::Scrubbed { .. });
        assert!(!bench.noted().iter().any(is_place), "a restart would not know of it");
        if refuses {
            bench.done(id, Err(ChunkError::Disk(DiskError::NoSpace)));
            bench.pass(Duration::from_secs(61));
            bench.scrubbed(900, None, true);
        } else {
            bench.done(id, Ok(ChunkDone::Journaled));
        }
    }
    bench.pass(Duration::from_secs(61));
    let end = ChunkHandle::new(u64::MAX);
    assert!(bench.noted().contains(&JournalEntry::Scrubbed { began_ms, handle: end }));
}

#[test]
fn what_a_full_disk_did_not_note_is_noted_again_until_a_journal_has_it() {
    let mut bench = Bench::with_two();
    bench.pass(Duration::from_millis(1));
    bench.scrubbed(900, None, false);
    for _ in 0..2 {
        bench.heartbeat();
        let mut notes = bench.jobs.drain(..).filter(|(_, job)| match job {
            ChunkJob::Journal(entries) => entries.contains(&JournalEntry::Damaged(handle())),
            _ => false,
        });
        let (id, _) = notes.next().expect("a restart is to know it");
        drop(notes);
        bench.done(id, Err(DiskError::NoSpace.into()));
        bench.pass(Duration::from_secs(1));
    }
    assert!(bench.noted().contains(&JournalEntry::Damaged(handle())), "there may be room now");
    bench.pass(Duration::from_secs(1));
    assert!(
        !bench.noted().contains(&JournalEntry::Damaged(handle())),
        "nobody said that it failed"
    );
}

#[test]
fn a_disk_that_cannot_look_says_nothing_of_the_replica() {
    let mut bench = Bench::with_two();
    bench.pass(Duration::from_millis(1));
    let (id, _) = bench.scrubs.pop_front().expect("a part");
    bench.done(id, Err(ChunkError::Disk(DiskError::Io(IoFailure::NoDescriptors))));
    assert_eq!(bench.heartbeat().1.damaged, []);
    bench.pass(Duration::from_secs(5));
    let (id, _) = bench.scrubs.pop_front().expect("the next one");
    bench.done(id, Err(ChunkError::Corrupt { offset: 0 }));
    assert_eq!(bench.heartbeat().1.damaged, [other()], "its files are gone");
}

#[test]
fn a_scrub_takes_a_quarter_of_its_rate_while_clients_are_busy() {
    let mut bench = Bench::primary();
    for number in 1..=80 {
        bench.ask(append(number, 1));
    }
    bench.pass(Duration::from_millis(1));
    assert_eq!(bench.scrubbed(904, Some(904), true), (handle(), 0));
    bench.pass(Duration::from_secs(19));
    assert!(bench.scrubs.is_empty(), "clients were busy");
    bench.pass(Duration::from_secs(1));
    assert_eq!(bench.scrubbed(0, None, true), (handle(), 904));
}

#[test]
fn a_restart_goes_on_behind_what_was_verified_and_knows_what_was_found() {
    let mut bench = Bench::restarted(&[handle(), other()], handle(), &[other()]);
    bench.pass(Duration::from_millis(1));
    assert!(bench.scrubs.is_empty(), "the first was verified, the second is known as bad");
    assert_eq!(bench.heartbeat().1.damaged, [other()]);
    assert!(!bench.noted().contains(&JournalEntry::Damaged(other())), "it is noted");
    let mut bench = Bench::restarted(&[handle(), other()], handle(), &[]);
    bench.pass(Duration::from_millis(1));
    assert_eq!(bench.scrubbed(10, None, true), (other(), 0));
}

#[test]
fn a_bad_replica_is_looked_at_again_and_is_sound_once_every_block_verifies() {
    let mut bench = Bench::with_replica();
    bench.pass(Duration::from_millis(1));
    assert_eq!(bench.scrubbed(900, None, false), (handle(), 0));
    assert_eq!(bench.heartbeat().1.damaged, [handle()]);
    assert!(bench.noted().contains(&JournalEntry::Damaged(handle())));
    bench.pass(Duration::from_secs(9));
    assert!(bench.scrubs.is_empty(), "it rests");
    bench.pass(Duration::from_secs(2));
    assert_eq!(bench.scrubbed(400, Some(400), true), (handle(), 0));
    bench.pass(Duration::from_secs(60));
    assert!(bench.heartbeat().1.sound.is_empty(), "half of it says nothing");
    assert_eq!(bench.scrubbed(500, None, true), (handle(), 400));
    assert!(bench.noted().contains(&JournalEntry::Sound(handle())), "a restart knows it too");
    let (_, beat) = bench.heartbeat();
    assert_eq!((beat.damaged, beat.sound), (vec![], vec![handle()]));
}

#[test]
fn what_stays_bad_is_looked_at_less_and_less_often() {
    let mut bench = Bench::with_replica();
    bench.pass(Duration::from_millis(1));
    bench.scrubbed(900, None, false);
    for rest in [10, 20, 40, 80] {
        bench.pass(Duration::from_secs(1));
        bench.pass(Duration::from_secs(rest * 2 / 3));
        assert!(bench.scrubs.is_empty(), "before {rest} s");
        bench.pass(Duration::from_secs(rest / 3 + 1));
        assert_eq!(bench.scrubbed(0, None, false), (handle(), 0), "after {rest} s");
        let (_, beat) = bench.heartbeat();
        assert_eq!((beat.damaged, beat.sound), (vec![handle()], vec![]));
    }
}

/// How the one that could not be read stands.
fn read_at_last() -> ReplicaReport {
    let serial = SerialNumber::new(7);
    ReplicaReport {
        handle: handle(),
        version: version(1),
        length: 900,
        serial,
        ..Default::default()
    }
}

fn reopened(bench: &mut Bench, result: ChunkResult) -> bool {
    let at = bench.jobs.iter().position(|(_, job)| matches!(job, ChunkJob::Reopen { .. }));
    let id = at.and_then(|at| bench.jobs.remove(at)).map(|(id, _)| id);
    if let Some(id) = id {
        bench.done(id, result);
    }
    id.is_some()
}

#[test]
fn what_a_start_could_not_read_is_read_later_and_verified_and_stands_as_it_stood() {
    let mut bench = Bench::with_unread();
    let cannot = || Err(ChunkError::Disk(DiskError::Io(IoFailure::Device)));
    bench.pass(Duration::from_millis(1));
    for rest in [10, 20] {
        bench.pass(Duration::from_secs(rest - 2));
        assert!(!reopened(&mut bench, cannot()), "it rests");
        bench.pass(Duration::from_secs(3));
        assert!(reopened(&mut bench, cannot()), "after {rest} s");
        assert_eq!(bench.heartbeat().1.damaged, [handle()]);
    }
    bench.pass(Duration::from_secs(41));
    assert!(reopened(&mut bench, Ok(ChunkDone::Reopened(read_at_last()))));
    let (_, beat) = bench.heartbeat();
    assert!(beat.held.contains(&read_at_last()), "{:?}", beat.held);
    assert_eq!((beat.damaged, beat.sound), (vec![handle()], vec![]), "it is not verified");
    bench.pass(Duration::from_secs(20));
    assert_eq!(bench.scrubbed(900, None, true), (handle(), 0));
    let (_, beat) = bench.heartbeat();
    assert_eq!((beat.damaged, beat.sound), (vec![], vec![handle()]));
}

#[test]
fn what_a_start_could_not_read_and_a_raise_took_in_is_as_its_set_says() {
    let mut bench = Bench::with_unread();
    bench.pass(Duration::from_millis(1));
    bench.pass(Duration::from_secs(11));
    bench.ask(Raise { handle: handle(), ..raise(version(1), version(2)) });
    assert!(reopened(&mut bench, Ok(ChunkDone::Reopened(read_at_last()))));
    bench.pass(Duration::from_secs(3600));
    assert!(bench.scrubs.is_empty() && !bench.heartbeat().1.held.contains(&read_at_last()));
}

#[test]
fn of_a_whole_disk_of_bad_replicas_a_tick_looks_only_at_what_has_changed() {
    // Were each tick to compare them with each other, this would not end.
    let held: Vec<ChunkHandle> = (1..=50_000).map(|it| ChunkHandle::of(TERM, it)).collect();
    let mut bench = Bench::restarted(&held, held[held.len() - 1], &held);
    for _ in 0..195 {
        bench.pass(Duration::from_millis(50));
        assert!(bench.scrubs.is_empty(), "they rest");
    }
    bench.pass(Duration::from_secs(1));
    assert_eq!(bench.scrubbed(10, None, true), (held[0], 0));
    assert!(bench.noted().contains(&JournalEntry::Sound(held[0])));
    bench.pass(Duration::from_secs(60));
    assert_eq!(bench.scrubbed(10, None, false), (held[1], 0), "the next one");
    bench.pass(Duration::from_secs(60));
    assert_eq!(
        bench.scrubbed(10, None, true),
        (held[2], 0),
        "it rests once more, the others do not"
    );
}

#[test]
fn of_more_bad_replicas_than_a_heartbeat_names_all_are_named_in_turn_again_and_again() {
    let held: Vec<ChunkHandle> = (1..=25_000).map(|it| ChunkHandle::of(TERM, it)).collect();
    let mut bench = Bench::restarted(&held, held[held.len() - 1], &held);
    while let Some((id, Request::Inventory(_))) = bench.calls.pop_front() {
        bench.answer(id, Ok(Response::Inventory(InventoryAnswer::default())));
    }
    for _ in 0..2 {
        let mut named = BTreeSet::new();
        for _ in 0..3 {
            let (id, beat) = bench.heartbeat();
            assert!(beat.damaged.len() <= 10_000, "{} at once", beat.damaged.len());
            assert!(beat.damaged.is_sorted(), "each once");
            named.extend(beat.damaged);
            let answer = HeartbeatAnswer { term: TERM, ..HeartbeatAnswer::default() };
            bench.answer(id, Ok(Response::Heartbeat(answer.into())));
        }
        assert!(named.iter().eq(&held), "{} are named", named.len());
    }
}

#[test]
fn a_round_begins_with_the_journals_of_all_directories_at_the_rate_and_damage_is_told() {
    let mut bench = Bench::with_two();
    bench.has_journals = true;
    let second = JournalPart { directory: 1, generation: 7, offset: 4000 };
    let damage = || LogEvent::error("a journal is damaged: it is written anew");
    let answers = [(JournalPart::default(), Some(second), None), (second, None, Some(damage()))];
    bench.pass(Duration::from_millis(1));
    for (asked, next, told) in answers {
        assert!(bench.scrubs.is_empty(), "the journals come first");
        let (id, part) = bench.journal_looks.pop_front().expect("a journal is to be verified");
        assert_eq!(part, asked);
        bench.done(id, Ok(ChunkDone::JournalScrubbed { size: 4000, next, told }));
        bench.pass(Duration::from_millis(3_999));
        assert!(bench.journal_looks.is_empty() && bench.scrubs.is_empty(), "that is too fast");
        bench.pass(Duration::from_millis(1));
    }
    assert!(bench.logged.iter().any(|line| line.contains("a journal is damaged")));
    assert_eq!(bench.scrubbed(10, None, true), (handle(), 0));
    bench.pass(Duration::from_secs(5));
    assert_eq!(bench.scrubbed(10, None, true), (other(), 0));
    bench.pass(Duration::from_secs(5));
    assert!(bench.journal_looks.is_empty(), "once in a round");
    bench.wall_ms += HOUR.as_millis() as u64;
    bench.pass(Duration::from_secs(1));
    let (id, part) = bench.journal_looks.pop_front().expect("the next round");
    assert_eq!(part, JournalPart::default());
    bench.done(id, Err(ChunkError::Disk(DiskError::Io(IoFailure::NoDescriptors))));
    let (_, part) = bench.journal_looks.pop_front().expect("the one of the next directory");
    assert_eq!(part, JournalPart { directory: 1, ..JournalPart::default() });
}
