//! One replica: its version, its bytes' extent, and the queue of what changes either.
//!
//! ```text
//!   Raise, GrantLease, Forward ──► waiting ──┐
//!                                            ├──► one at a time: journal or apply ──► answer
//!   Write, Append (primary) ─────► queue ────┘
//! ```
//! - X1: at most one change is under way (`busy`), so what a raise reports is what is stored.
//! - X2: a raise refuses the old version from the moment it is taken up, and is answered only
//!   once it is durable (R7).

use crate::duplicate_filter::DuplicateFilter;
use crate::outbox::{JOURNAL_LANE, Outbox, Purpose, lane_of};
use crate::primary::Primary;
use crate::sync::SyncRounds;
use cairn_env::{Caller, ChunkJob, JournalEntry};
use cairn_protocol::{
    ErrorCode, Failure, Forward, GrantLease, Raise, RaiseAnswer, ReplicaReport, Response,
};
use cairn_types::planted::{Rule, broken};
use cairn_types::{CellConfig, ChunkHandle, ChunkVersion, LeaseId, SerialNumber, ServerId, Time};
use std::collections::VecDeque;

/// What every decision about a replica may look at besides the replica.
pub(crate) struct Context<'a> {
    pub(crate) now: Time,
    pub(crate) config: &'a CellConfig,
    pub(crate) out: &'a mut Outbox,
    pub(crate) me: ServerId,
    pub(crate) master: &'a cairn_types::Address,
}

/// How far a chunk's bytes are acknowledged: where readers may go (R17), and what no up-to-date
/// replica lacks (R29).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Mark {
    pub(crate) length: u64,
    pub(crate) serial: SerialNumber,
}

/// A change that waits for the one under way.
#[derive(Debug)]
pub(crate) enum Waiting {
    Raise(Caller, Raise),
    Grant(Caller, Box<GrantLease>),
    Forward(Caller, Forward),
}

/// The change under way.
#[derive(Debug)]
pub(crate) enum Busy {
    /// A raise becomes durable.
    Raising { from: Caller, raise: Raise },
    /// The primary's own bytes, or its levelling.
    Primary,
    /// The primary's own close mark.
    Closing,
    /// A secondary's batch: bytes, and perhaps the close mark after them.
    Secondary { from: Caller, close: Option<SerialNumber>, acknowledged: Mark },
}

#[derive(Debug, Default)]
pub(crate) struct Replica {
    pub(crate) handle: ChunkHandle,
    pub(crate) version: ChunkVersion,
    pub(crate) mutated_version: ChunkVersion,
    pub(crate) serial: SerialNumber,
    pub(crate) length: u64,
    pub(crate) acknowledged: u64,
    pub(crate) acknowledged_serial: SerialNumber,
    pub(crate) closed: bool,
    pub(crate) suspect: bool,
    /// A stored block failed its checksum: no lease, and readers only where no other replica is
    /// left, until it is replaced.
    pub(crate) damaged: bool,
    /// Its creation failed: there is nothing to keep.
    pub(crate) never_was: bool,
    /// When the raise to the present version was answered; the lease counts from then (R4).
    pub(crate) raised_at: Time,
    /// The lease whose mutations it applies as a secondary.
    pub(crate) followed: Option<LeaseId>,
    pub(crate) busy: Option<Busy>,
    pub(crate) waiting: VecDeque<Waiting>,
    /// Boxed, because few of a server's replicas have one.
    pub(crate) primary: Option<Box<Primary>>,
    pub(crate) repeats: DuplicateFilter,
    pub(crate) syncs: SyncRounds,
}

impl Replica {
    /// A replica as its disk was found.
    pub(crate) fn from_recovered(recovered: &ReplicaReport) -> Self {
        Self {
            handle: recovered.handle,
            version: recovered.version,
            mutated_version: recovered.mutated_version,
            serial: recovered.serial,
            length: recovered.length,
            acknowledged: recovered.acknowledged,
            acknowledged_serial: recovered.acknowledged_serial,
            closed: recovered.closed,
            suspect: recovered.suspect,
            ..Self::default()
        }
    }

    pub(crate) fn report(&self) -> ReplicaReport {
        ReplicaReport {
            handle: self.handle,
            version: self.version,
            mutated_version: self.mutated_version,
            serial: self.serial,
            length: self.length,
            closed: self.closed,
            suspect: self.suspect,
            acknowledged: self.acknowledged,
            acknowledged_serial: self.acknowledged_serial,
        }
    }

    /// Whether `version` is the one it stands at (R12).
    pub(crate) fn check_version(&self, version: ChunkVersion) -> Result<(), Failure> {
        if version == self.version || broken(Rule::R12) {
            return Ok(());
        }
        Err(Failure::not_done(
            ErrorCode::StaleVersion,
            format!(
                "chunk {} stands at version {} here, the request names {}",
                self.handle.short(),
                self.version.short(),
                version.short()
            ),
        ))
    }

    /// Takes a change into the queue.
    pub(crate) fn enqueue(&mut self, cx: &mut Context<'_>, waiting: Waiting) {
        self.waiting.push_back(waiting);
        self.pump(cx);
    }

    /// Starts the next change if none is under way (X1).
    pub(crate) fn pump(&mut self, cx: &mut Context<'_>) {
        while self.busy.is_none() {
            match self.waiting.pop_front() {
                Some(Waiting::Raise(from, raise)) => self.start_raise(cx, from, &raise),
                Some(Waiting::Grant(from, grant)) => self.start_lease(cx, from, *grant),
                Some(Waiting::Forward(from, forward)) => self.start_forward(cx, from, forward),
                None if self.primary_has_work() => self.start_batch(cx),
                None => return,
            }
        }
    }

    fn start_raise(&mut self, cx: &mut Context<'_>, from: Caller, raise: &Raise) {
        if !raise.create && raise.from != self.version {
            let failure = self.check_version(raise.from).err().unwrap_or_default();
            cx.out.refuse(from, failure);
            return;
        }
        if raise.to <= self.version {
            cx.out.refuse(
                from,
                Failure::not_done(
                    ErrorCode::StaleVersion,
                    format!("a raise to {} goes backwards", raise.to.short()),
                ),
            );
            return;
        }
        // From here on the old version is refused everywhere (X2).
        self.version = raise.to;
        let shrinking = self.primary.as_deref().is_some_and(Primary::is_shrinking);
        let closes = raise.close && !self.closed;
        self.closed |= raise.close;
        if !shrinking || closes {
            self.drop_lease(cx, "the master raised the chunk's version");
        }
        self.busy = Some(Busy::Raising { from, raise: raise.clone() });
        if raise.sync {
            let purpose = Purpose::SyncedToRaise(self.handle);
            cx.out.disk(purpose, lane_of(self.handle), ChunkJob::Sync { handle: self.handle });
        } else {
            self.journal_raise(cx);
        }
    }

    /// The raise under way, whose bytes are on disk where they had to be, becomes durable.
    pub(crate) fn journal_raise(&mut self, cx: &mut Context<'_>) {
        let Some(Busy::Raising { raise, .. }) = &self.busy else { return };
        let entry = JournalEntry::Raise {
            handle: self.handle,
            version: raise.to,
            create: raise.create,
            close: raise.close,
        };
        if broken(Rule::R7) {
            cx.out.disk(Purpose::Nobody, JOURNAL_LANE, ChunkJob::Journal(vec![]));
            self.on_journaled(cx);
            return;
        }
        cx.out.disk(Purpose::Journaled(self.handle), JOURNAL_LANE, ChunkJob::Journal(vec![entry]));
    }

    /// The journal holds what the change under way wanted it to hold.
    pub(crate) fn on_journaled(&mut self, cx: &mut Context<'_>) {
        match self.busy.take() {
            Some(Busy::Raising { from, .. }) => {
                self.raised_at = cx.now;
                let answer = RaiseAnswer { replica: self.report() };
                cx.out.reply(from, Response::Raise(answer));
            }
            Some(Busy::Closing) => self.on_own_close_mark(cx),
            Some(Busy::Secondary { from, close, acknowledged }) => {
                self.on_close_mark_of_secondary(cx, from, close, acknowledged);
            }
            other => self.busy = other,
        }
        self.pump(cx);
    }

    /// The disk refused; what was under way is answered as a failure.
    pub(crate) fn on_change_failed(&mut self, cx: &mut Context<'_>, why: &str) {
        let failure = Failure::unknown(ErrorCode::Io, why);
        match self.busy.take() {
            Some(Busy::Raising { from, raise }) => {
                self.never_was = raise.create;
                cx.out.refuse(from, failure);
            }
            Some(Busy::Secondary { from, .. }) => cx.out.refuse(from, failure),
            Some(Busy::Primary | Busy::Closing) => self.drop_lease(cx, why),
            None => {}
        }
        self.pump(cx);
    }

    /// The master has logged a version that counts this replica in although it may have lost
    /// bytes: from here on what it holds is what the chunk is (R28).
    pub(crate) fn become_current(&mut self, cx: &mut Context<'_>) {
        if std::mem::take(&mut self.suspect) {
            let job = ChunkJob::Journal(vec![JournalEntry::Cleared(self.handle)]);
            cx.out.disk(Purpose::Nobody, JOURNAL_LANE, job);
        }
    }

    /// The replica goes: whoever waits for it is told.
    pub(crate) fn abandon(&mut self, cx: &mut Context<'_>, why: &str) {
        self.drop_lease(cx, why);
        let failure = |handle: ChunkHandle| {
            Failure::unknown(ErrorCode::NoSuchChunk, format!("chunk {}: {why}", handle.short()))
        };
        if let Some(Busy::Raising { from, .. } | Busy::Secondary { from, .. }) = self.busy.take() {
            cx.out.refuse(from, failure(self.handle));
        }
        for waiting in std::mem::take(&mut self.waiting) {
            let (Waiting::Raise(from, _) | Waiting::Grant(from, _) | Waiting::Forward(from, _)) =
                waiting;
            cx.out.refuse(from, failure(self.handle));
        }
    }

    /// Takes a newer mark; never more than is stored here.
    pub(crate) fn learn_acknowledged(&mut self, mark: Mark) -> bool {
        let before = self.mark();
        self.acknowledged = self.acknowledged.max(mark.length.min(self.length));
        self.acknowledged_serial = self.acknowledged_serial.max(mark.serial.min(self.serial));
        before != self.mark()
    }

    pub(crate) fn mark(&self) -> Mark {
        Mark { length: self.acknowledged, serial: self.acknowledged_serial }
    }

    /// Writes the acknowledged length into the head, so that a restart knows it.
    pub(crate) fn settle(&self, cx: &mut Context<'_>) {
        let job = ChunkJob::Settle {
            handle: self.handle,
            acknowledged: self.acknowledged,
            acknowledged_serial: self.acknowledged_serial,
        };
        cx.out.disk(Purpose::Nobody, lane_of(self.handle), job);
    }
}
