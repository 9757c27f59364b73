//! The scrub: every block of every replica is verified within a period, at a bounded rate, and
//! slower while clients are busy (GFS §5.2; design §6).
//!
//! ```text
//!   round begins ─► the journals ─► replica after replica, part after part ─► round over ─► the
//!                          │                                                 period is over
//!                          └─► a bad block: the replica is damaged; the rest of it is not read
//! ```
//! - SB1: one part at a time is under way, and none while what was read lasts at the rate.
//! - SB2: where it is stands in the journals now and then, behind all that was found bad: a restart
//!   goes on from there, and looks at nothing before it again in this round.

use crate::client_load::{ClientLoad, time_at};
use crate::outbox::{DiskPurpose, Outbox};
use crate::replica::Replica;
use crate::replica_table::ReplicaTable;
use cairn_env::{
    ChunkDone, ChunkError, ChunkJob, ChunkResult, Effect, JournalEntry, JournalPart, Now,
};
use cairn_format::ScrubPosition;
use cairn_protocol::ScrubProgress;
use cairn_types::planted::{Rule, broken};
use cairn_types::{ChunkHandle, Time};
use std::time::Duration;

/// What a part costs beside its bytes, in bytes: checksums, and the two slots of the head.
const PART_SIZE: u64 = 4 << 10;
/// From one note of where it is to the next.
const NOTE_EVERY: Duration = Duration::from_secs(60);
/// What a part that comes to its turn late makes up for.
const BEHIND_MAX: Duration = Duration::from_millis(100);

/// Behind all replicas.
const END: ChunkHandle = ChunkHandle::new(u64::MAX);

/// How often, and how fast.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ScrubSettings {
    /// Milliseconds from the beginning of one round to the next. For whoever weighs the time that
    /// damage may stay unseen against disks that are never idle.
    pub period_ms: u64,
    /// Bytes a second, and a quarter of it while clients are busy; zero: nothing is verified. For
    /// whoever has slow disks, or many bytes on each.
    pub rate: u64,
}

impl Default for ScrubSettings {
    /// Two weeks, and 8 MiB a second: ten terabytes in a round.
    fn default() -> Self {
        Self { period_ms: 14 * 24 * 3600 * 1000, rate: 8 << 20 }
    }
}

/// The part that is verified next, or just now.
#[derive(Clone, Copy, Debug)]
struct ScrubPart {
    handle: ChunkHandle,
    offset: u64,
}

#[derive(Debug)]
pub(crate) struct Scrub {
    settings: ScrubSettings,
    /// Of this round, or of the last one.
    position: ScrubPosition,
    part: Option<ScrubPart>,
    /// The part of a journal that is verified next, or just now; none: they are, in this round. A
    /// restart has read them all.
    journals: Option<JournalPart>,
    under_way: bool,
    /// Until then what was read lasts.
    due: Time,
    noted: Time,
    /// It has got on since it was noted.
    has_moved: bool,
    verified: u64,
    total: u64,
    /// The total is of this round, or of what a restart found of it.
    is_counted: bool,
    bad: u64,
}

impl Scrub {
    pub(crate) fn new(settings: ScrubSettings, position: ScrubPosition) -> Self {
        Self {
            settings,
            position,
            part: None,
            journals: None,
            under_way: false,
            due: Time::default(),
            noted: Time::default(),
            has_moved: false,
            verified: 0,
            total: 0,
            is_counted: false,
            bad: 0,
        }
    }

    /// How far it is, as heartbeats tell it.
    pub(crate) fn progress(&self) -> ScrubProgress {
        ScrubProgress {
            verified: self.verified,
            total: self.total.max(self.verified),
            began_ms: self.position.began_ms,
            bad: self.bad,
            is_over: self.position.handle == END,
        }
    }

    /// Goes on, if it is time to.
    pub(crate) fn tick(&mut self, now: Now, table: &mut ReplicaTable, out: &mut Outbox) {
        if self.has_moved && now.time.since(self.noted) >= NOTE_EVERY {
            self.note(now, table, out);
        }
        if self.under_way || now.time < self.due || self.settings.rate == 0 {
            return;
        }
        let wall_ms = now.wall.as_millis();
        if self.position.began_ms == 0 || self.position.handle == END {
            // A clock that was set back makes no round wait for ever.
            self.position.began_ms = self.position.began_ms.min(wall_ms);
            let next_ms = self.position.began_ms.saturating_add(self.settings.period_ms);
            if self.position.began_ms > 0 && wall_ms < next_ms {
                return;
            }
            self.position =
                ScrubPosition { began_ms: wall_ms.max(1), handle: ChunkHandle::default() };
            self.is_counted = false;
            self.journals = Some(JournalPart::default());
        }
        if !self.is_counted {
            self.is_counted = true;
            let length = |replica: &Replica| replica.stored().length();
            self.total = table.all().map(length).sum();
            let left: u64 = table.behind(self.position.handle).map(length).sum();
            assert!(left <= self.total, "more is left than there is");
            self.verified = self.total - left;
        }
        self.start_part(now, table, out);
    }

    fn start_part(&mut self, now: Now, table: &mut ReplicaTable, out: &mut Outbox) {
        if let Some(part) = self.journals {
            self.under_way = true;
            return out.scrub_journal(part);
        }
        let here = self.position.handle;
        let next = table.behind(here).find(|replica| !replica.stored().is_damaged());
        let Some(handle) = next.map(|replica| replica.stored().handle()) else {
            (self.position.handle, self.has_moved) = (END, true);
            return self.note(now, table, out);
        };
        let known = self.part.filter(|part| part.handle == handle);
        let part = known.unwrap_or(ScrubPart { handle, offset: 0 });
        assert!(!self.under_way, "two parts at once (SB1)");
        (self.part, self.under_way) = (Some(part), true);
        let ScrubPart { handle, offset } = part;
        out.chunk_job(handle, DiskPurpose::Scrub, ChunkJob::Scrub { handle, offset });
    }

    /// A part is verified; names the replica whose block is bad, if one is.
    pub(crate) fn on_done(
        &mut self,
        now: Now,
        load: &ClientLoad,
        result: ChunkResult,
        out: &mut Outbox,
    ) -> Option<ChunkHandle> {
        self.under_way = false;
        if let Some(part) = self.journals {
            self.on_journal_done(now, load, (part, result), out);
            return None;
        }
        let ScrubPart { handle, .. } = self.part.expect("a part was under way");
        assert!(handle > self.position.handle, "{handle:?} was verified before");
        let (size, next, good) = match result {
            Ok(ChunkDone::Scrubbed { size, next, bad: None }) => (size, next, true),
            // H2 broken: what is bad is not found.
            Ok(ChunkDone::Scrubbed { size, next, .. }) if broken(Rule::H2) => (size, next, true),
            // The rest of it is not read.
            Ok(ChunkDone::Scrubbed { size, bad: Some(_), .. }) => (size, None, false),
            Err(ChunkError::Corrupt { .. }) => (0, None, false),
            // It is gone, or its disk has other troubles: nothing is said of it.
            Err(_) => (0, None, true),
            Ok(done) => panic!("a part was to be verified, and came to {done:?}"),
        };
        self.verified += size;
        self.pay(now, load, size + PART_SIZE);
        self.part = next.map(|offset| ScrubPart { handle, offset });
        if self.part.is_none() {
            self.position.handle = handle;
        }
        self.has_moved = true;
        self.bad += u64::from(!good);
        (!good).then_some(handle)
    }

    /// A part of a journal is verified; where it was damaged, a person is told.
    fn on_journal_done(
        &mut self,
        now: Now,
        load: &ClientLoad,
        (part, result): (JournalPart, ChunkResult),
        out: &mut Outbox,
    ) {
        let (size, next) = match result {
            Ok(ChunkDone::JournalScrubbed { size, next, told }) => {
                told.into_iter().for_each(|event| out.push(Effect::Log(event)));
                (size, next)
            }
            // Its directory has other troubles.
            Err(_) => (0, Some(part.of_next_directory())),
            Ok(done) => panic!("a journal was to be verified, and came to {done:?}"),
        };
        self.journals = next;
        self.pay(now, load, size);
    }

    /// So many bytes were read.
    fn pay(&mut self, now: Now, load: &ClientLoad, size: u64) {
        let lasts = time_at(size, load.allowed(now.time, self.settings.rate));
        let is_behind = now.time.since(self.due) > BEHIND_MAX;
        self.due = if is_behind { now.time + lasts } else { self.due + lasts };
    }

    /// Keeps where it is (SB2).
    fn note(&mut self, now: Now, table: &mut ReplicaTable, out: &mut Outbox) {
        self.noted = now.time;
        table.journal_damage(out);
        if !table.is_damage_kept() {
            // Its time comes again.
            return;
        }
        self.has_moved = false;
        let ScrubPosition { began_ms, handle } = self.position;
        out.journal(DiskPurpose::Nobody, JournalEntry::Scrubbed { began_ms, handle });
    }
}
