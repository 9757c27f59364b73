//! The primary's part: holding a lease, giving serial numbers, acknowledging (GFS §3.1).
//!
//! ```text
//!    GrantLease ──► Levelling ──► Serving ◄──► Shrinking (a secondary failed: R14)
//!                                    │
//!        raise, expiry, revoke ──────┴──► dropped: unanswered mutations are *unknown*
//! ```
//! - P1: the holder's lease ends before the master's does: it counts from when it answered the
//!   raise, and by a clock that may run slow (R4).
//! - P2: the first act of a lease is to level the replicas to the longest among them (R16).
//! - P3: nothing is acknowledged after the lease's end.

use crate::duplicate_filter::DuplicateFilter;
use crate::mutation_queue::{Kind, Logged, Queued};
use crate::outbox::{Purpose, lane_of};
use crate::replica::{Busy, Context, Mark, Replica};
use crate::secondary::to_apply;
use cairn_env::{Caller, ChunkError, ChunkJob, ConnectionId, DiskError};
use cairn_protocol::{
    ErrorCode, Failure, Forwarded, GrantLease, GrantLeaseAnswer, Probe, ProbeAnswer, Response,
    RevokeLease, RevokeLeaseAnswer,
};
use cairn_types::planted::{Rule, broken};
use cairn_types::{
    BLOCKS_PER_CHUNK_MAX, BlockChecksums, ChunkIndex, EntryId, LeaseId, PushId, ReplicaAt,
    SerialNumber, SessionId, Time,
};
use std::collections::VecDeque;

/// Mutations that one batch may hold.
pub(crate) const BATCH_COUNT_MAX: usize = 1024;
/// Bytes that one batch may hold, unless a single mutation is larger.
const BATCH_SIZE_MAX: u64 = 8 << 20;
/// Checksums that one forward may carry, unless a single mutation has more: what a secondary lacks
/// may be several batches, and they share a message.
pub(crate) const FORWARD_SUM_COUNT_MAX: usize = 1 << 18;
const _: () = assert!(
    (FORWARD_SUM_COUNT_MAX + BLOCKS_PER_CHUNK_MAX as usize) * 4 + BATCH_COUNT_MAX * 128
        < cairn_protocol::MESSAGE_SIZE_MAX as usize
);

/// What the lease is about right now.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Stage {
    /// The replicas are brought to one length; the master waits for it.
    Levelling(Caller),
    /// Mutations flow.
    Serving,
    /// The master was asked for a set without those that failed.
    Shrinking,
}

/// How far a chunk's close has come (R18).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Closing {
    /// A record did not fit; the mark is not set yet.
    Wanted,
    /// The mark is on its way to every replica.
    Marking,
    /// The master has been told.
    Reported,
}

/// A secondary as its primary sees it.
#[derive(Debug)]
pub(crate) struct Secondary {
    pub(crate) at: ReplicaAt,
    pub(crate) applied: SerialNumber,
    pub(crate) outstanding: bool,
    pub(crate) failed: bool,
}

#[derive(Debug)]
pub(crate) struct Primary {
    pub(crate) lease: LeaseId,
    pub(crate) expires: Time,
    pub(crate) file: EntryId,
    pub(crate) index: ChunkIndex,
    pub(crate) stage: Stage,
    pub(crate) secondaries: Vec<Secondary>,
    pub(crate) queue: VecDeque<Queued>,
    pub(crate) applying: Vec<Logged>,
    pub(crate) log: VecDeque<Logged>,
    /// Where the next record goes.
    pub(crate) end: u64,
    pub(crate) writes_only: bool,
    pub(crate) closing: Option<Closing>,
    /// Appends that wait for the close, to be told to go on in the next chunk.
    pub(crate) closers: Vec<Caller>,
    /// The master waits for the lease to be given back.
    pub(crate) draining: Option<Caller>,
    /// Mutations came since the last heartbeat.
    pub(crate) used: bool,
    /// The mark that the secondaries were last told.
    pub(crate) told: Mark,
}

impl Primary {
    pub(crate) fn is_shrinking(&self) -> bool {
        self.stage == Stage::Shrinking
    }

    pub(crate) fn is_live(&self, now: Time) -> bool {
        now < self.expires
    }

    /// What a client session still had queued by an older connection is dropped: nobody hears the
    /// answer, and what comes by the newer one must not be overtaken by it (R15).
    pub(crate) fn forget_older(&mut self, session: SessionId, connection: ConnectionId) {
        if broken(Rule::R15) {
            return;
        }
        self.queue.retain(|queued| {
            let older = queued.from.iter().all(|from| from.connection < connection);
            queued.push.session != session || !older
        });
    }

    fn is_drained(&self) -> bool {
        self.queue.is_empty() && self.applying.is_empty() && self.log.is_empty()
    }
}

/// How long a lease lasts for its holder, from `since` on (P1).
pub(crate) fn holder_expiry(cx: &Context<'_>, since: Time) -> Time {
    if broken(Rule::R4) {
        cx.now + 3 * cx.config.lease()
    } else {
        since + cx.config.lease_of_holder()
    }
}

impl Replica {
    /// Becomes the primary, levelling first.
    pub(crate) fn start_lease(&mut self, cx: &mut Context<'_>, from: Caller, grant: GrantLease) {
        if let Err(failure) = self.check_version(grant.version) {
            cx.out.refuse(from, failure);
            return;
        }
        if self.damaged {
            let why = format!("chunk {} is damaged here", self.handle.short());
            cx.out.refuse(from, Failure::not_done(ErrorCode::ChecksumMismatch, why));
            return;
        }
        self.drop_lease(cx, "a newer lease was granted");
        self.followed = None;
        self.become_current(cx);
        let serial = grant.serial.max(self.serial).next();
        let length = if broken(Rule::R16) { self.length } else { grant.length.max(self.length) };
        let secondaries = grant.secondaries.into_iter().map(|at| Secondary {
            at,
            applied: SerialNumber::default(),
            outstanding: false,
            failed: false,
        });
        self.primary = Some(Box::new(Primary {
            lease: grant.lease,
            expires: holder_expiry(cx, self.raised_at),
            file: grant.file,
            index: grant.index,
            stage: Stage::Levelling(from),
            secondaries: secondaries.collect(),
            queue: VecDeque::new(),
            applying: Vec::new(),
            log: VecDeque::new(),
            end: length,
            writes_only: grant.writes_only || self.closed,
            closing: None,
            closers: Vec::new(),
            draining: None,
            used: true,
            told: Mark::default(),
        }));
        let forwarded = Forwarded { serial, offset: 0, size: length, ..Forwarded::default() };
        let level = Logged { forwarded, from: vec![], kind: Kind::Append, sync: false };
        self.apply_here(cx, vec![level]);
    }

    /// Whether there is something to number and apply.
    pub(crate) fn primary_has_work(&self) -> bool {
        self.primary.as_ref().is_some_and(|primary| match (primary.stage, primary.closing) {
            (Stage::Levelling(_), _) | (_, Some(Closing::Marking | Closing::Reported)) => false,
            (_, Some(Closing::Wanted)) => true,
            (_, None) => !primary.queue.is_empty(),
        })
    }

    /// Numbers what waits and applies it here first; the secondaries get it afterwards.
    pub(crate) fn start_batch(&mut self, cx: &mut Context<'_>) {
        let Some(primary) = self.primary.as_mut() else { return };
        if primary.closing == Some(Closing::Wanted) {
            self.start_closing(cx);
            return;
        }
        let (mut batch, mut size, mut serial) = (Vec::new(), 0, self.serial);
        while let Some(next) = primary.queue.pop_front() {
            let appends = next.kind == Kind::Append;
            if appends && (primary.closing.is_some() || self.closed) {
                primary.closers.extend(next.from);
                continue;
            }
            if appends && primary.end + next.size > cx.config.chunk_size {
                primary.closing = Some(Closing::Wanted);
                primary.closers.extend(next.from);
                continue;
            }
            if batch.len() == BATCH_COUNT_MAX || (size > 0 && size + next.size > BATCH_SIZE_MAX) {
                primary.queue.push_front(next);
                break;
            }
            let offset = match next.kind {
                Kind::Write { offset } => offset,
                Kind::Append => primary.end,
            };
            primary.end = primary.end.max(offset + next.size);
            size += next.size;
            serial = serial.next();
            batch.push(numbered(next, serial, offset));
        }
        if !batch.is_empty() {
            self.apply_here(cx, batch);
        } else if primary.closing == Some(Closing::Wanted) {
            self.start_closing(cx);
        } else {
            // Appends to a chunk that holds the mark already.
            self.answer_closers(cx);
        }
    }

    fn apply_here(&mut self, cx: &mut Context<'_>, batch: Vec<Logged>) {
        let Some(primary) = self.primary.as_mut() else { return };
        let job = ChunkJob::Apply {
            handle: self.handle,
            version: self.version,
            mutations: batch.iter().map(|logged| to_apply(&logged.forwarded)).collect(),
            acknowledged: self.acknowledged,
            acknowledged_serial: self.acknowledged_serial,
            sync: batch.iter().any(|logged| logged.sync),
        };
        primary.applying = batch;
        self.busy = Some(Busy::Primary);
        cx.out.disk(Purpose::Applied(self.handle), lane_of(self.handle), job);
    }

    /// The bytes of the change under way are stored on this server.
    pub(crate) fn on_applied(&mut self, cx: &mut Context<'_>, length: u64, serial: SerialNumber) {
        self.length = length;
        self.serial = serial;
        self.mutated_version = self.version;
        match self.busy.take() {
            Some(Busy::Primary) => {
                if let Some(primary) = self.primary.as_mut() {
                    primary.log.extend(std::mem::take(&mut primary.applying));
                }
                self.forward_all(cx);
            }
            Some(Busy::Secondary { from, close, acknowledged }) => {
                self.on_secondary_applied(cx, from, close, acknowledged);
            }
            other => self.busy = other,
        }
        self.pump(cx);
    }

    /// The disk did not take the batch. What it refused before changing anything goes back into
    /// the queue or to its caller; anything else ends the lease.
    pub(crate) fn on_apply_failed(&mut self, cx: &mut Context<'_>, error: &ChunkError) {
        if let ChunkError::Corrupt { .. } = error {
            self.damaged = true;
        }
        let unchanged = matches!(
            error,
            ChunkError::Disk(DiskError::NoSpace)
                | ChunkError::PushMissing { .. }
                | ChunkError::PushDiffers { .. }
        );
        match (self.busy.take(), unchanged) {
            (Some(Busy::Primary), true) => self.requeue_without(cx, error),
            (Some(Busy::Secondary { from, .. }), true) => {
                cx.out.refuse(from, failure_of(error));
            }
            (busy, _) => {
                self.busy = busy;
                self.on_change_failed(cx, &error.to_string());
                return;
            }
        }
        self.pump(cx);
    }

    /// Gives the batch's numbers back: nothing of it was applied.
    fn requeue_without(&mut self, cx: &mut Context<'_>, error: &ChunkError) {
        let length = self.length;
        let Some(primary) = self.primary.as_mut() else { return };
        let batch = std::mem::take(&mut primary.applying);
        if let Stage::Levelling(_) = primary.stage {
            self.drop_lease(cx, &error.to_string());
            return;
        }
        primary.end = length;
        for logged in batch.into_iter().rev() {
            let push = logged.forwarded.push.unwrap_or_default();
            let refused = match error {
                ChunkError::PushMissing { push: missing } => *missing == push,
                ChunkError::PushDiffers { push: differs } => *differs == push,
                _ => true,
            };
            let full = *error == DiskError::NoSpace.into() && logged.kind == Kind::Append;
            if full && !primary.writes_only {
                // The next chunk goes to servers that have room.
                primary.closing = Some(Closing::Wanted);
                primary.closers.extend(logged.from);
            } else if refused {
                logged.from.iter().for_each(|from| cx.out.refuse(*from, failure_of(error)));
            } else {
                primary.queue.push_front(Queued {
                    from: logged.from,
                    kind: logged.kind,
                    push,
                    size: logged.forwarded.size,
                    checksums: logged.forwarded.checksums,
                    sync: logged.sync,
                });
            }
        }
    }

    /// Ends the lease here. Whatever has no number yet was not done; the rest is unknown.
    pub(crate) fn drop_lease(&mut self, cx: &mut Context<'_>, why: &str) {
        let Some(primary) = self.primary.take() else { return };
        // A push is repeated under one lease only, so what was served under this one can go.
        self.repeats = DuplicateFilter::default();
        let line = |what: &str| format!("chunk {}: {why}; {what}", self.handle.short());
        let queued = primary.queue.iter().flat_map(|queued| queued.from.iter().copied());
        for from in queued.chain(primary.closers) {
            let failure = Failure::not_done(ErrorCode::NotPrimary, line("nothing was changed"));
            cx.out.refuse(from, failure);
        }
        for from in primary.applying.iter().chain(&primary.log).flat_map(|logged| &logged.from) {
            let failure = Failure::unknown(ErrorCode::NotPrimary, line("it may have happened"));
            cx.out.refuse(*from, failure);
        }
        if let Stage::Levelling(from) = primary.stage {
            let failure = Failure::not_done(ErrorCode::NotPrimary, line("no lease was taken"));
            cx.out.refuse(from, failure);
        }
        if let Some(from) = primary.draining {
            let answer = RevokeLeaseAnswer { replica: self.report() };
            cx.out.reply(from, Response::RevokeLease(answer));
        }
    }

    /// What time does to a lease: its end, a close that must be told again, news for idle
    /// secondaries.
    pub(crate) fn on_tick(&mut self, cx: &mut Context<'_>) {
        let Some(primary) = self.primary.as_ref() else { return };
        if !primary.is_live(cx.now) {
            self.drop_lease(cx, "the lease has run out");
            self.settle(cx);
            return;
        }
        self.tell_acknowledged(cx);
    }

    /// The master wants the lease back: stop, drain, answer.
    pub(crate) fn on_revoke(&mut self, cx: &mut Context<'_>, from: Caller, revoke: &RevokeLease) {
        match self.primary.as_mut() {
            Some(primary) if primary.lease == revoke.lease => {
                primary.draining = Some(from);
                self.finish_draining(cx);
            }
            _ => {
                let answer = RevokeLeaseAnswer { replica: self.report() };
                cx.out.reply(from, Response::RevokeLease(answer));
            }
        }
    }

    /// Gives the lease back once nothing is on its way any more.
    pub(crate) fn finish_draining(&mut self, cx: &mut Context<'_>) {
        let drained = self
            .primary
            .as_ref()
            .is_some_and(|primary| primary.draining.is_some() && primary.is_drained());
        if drained {
            self.drop_lease(cx, "the master took the lease back");
            self.settle(cx);
        }
    }

    pub(crate) fn on_probe(&self, cx: &mut Context<'_>, from: Caller, probe: &Probe) {
        let holds = self
            .primary
            .as_ref()
            .is_some_and(|primary| primary.lease == probe.lease && primary.is_live(cx.now));
        let answer = ProbeAnswer { replica: self.report(), holds };
        cx.out.reply(from, Response::Probe(answer));
    }

    /// A client's connection is gone: what it had queued is not done any more (R15).
    pub(crate) fn forget_connection(&mut self, connection: ConnectionId) {
        if let Some(primary) = self.primary.as_mut() {
            for queued in &mut primary.queue {
                queued.from.retain(|from| from.connection != connection);
            }
            primary.queue.retain(|queued| !queued.from.is_empty());
        }
    }

    /// The replicas are level: the lease begins.
    pub(crate) fn finish_levelling(&mut self, cx: &mut Context<'_>) {
        let length = self.length;
        let Some(primary) = self.primary.as_mut() else { return };
        if let (Stage::Levelling(from), true) = (primary.stage, primary.log.is_empty()) {
            primary.stage = Stage::Serving;
            primary.end = primary.end.max(length);
            let answer = GrantLeaseAnswer { acknowledged: self.acknowledged };
            cx.out.reply(from, Response::GrantLease(answer));
        }
    }
}

fn numbered(queued: Queued, serial: SerialNumber, offset: u64) -> Logged {
    Logged {
        forwarded: Forwarded {
            serial,
            offset,
            size: queued.size,
            push: Some(queued.push),
            checksums: queued.checksums,
            close: false,
        },
        from: queued.from,
        kind: queued.kind,
        sync: queued.sync,
    }
}

/// What a caller is told of a disk error.
pub(crate) fn failure_of(error: &ChunkError) -> Failure {
    let line = error.to_string();
    match error {
        ChunkError::Disk(DiskError::NoSpace) => Failure::not_done(ErrorCode::DiskFull, line),
        ChunkError::Corrupt { .. } => Failure::not_done(ErrorCode::ChecksumMismatch, line),
        ChunkError::PushMissing { .. } => Failure::not_done(ErrorCode::PushMissing, line),
        ChunkError::PushDiffers { .. } => Failure::refused(ErrorCode::Invalid, line),
        ChunkError::NoSuchChunk => Failure::not_done(ErrorCode::NoSuchChunk, line),
        ChunkError::NoDirectoryLeft | ChunkError::Disk(_) => Failure::unknown(ErrorCode::Io, line),
    }
}

/// Who waits for a push that is here already, if it is.
pub(crate) fn find_push(primary: &mut Primary, push: PushId) -> Option<&mut Vec<Caller>> {
    let on_way = primary.applying.iter_mut().chain(primary.log.iter_mut());
    let mut on_way = on_way.filter(|logged| logged.forwarded.push == Some(push));
    if let Some(logged) = on_way.next() {
        return Some(&mut logged.from);
    }
    let mut queued = primary.queue.iter_mut().filter(|queued| queued.push == push);
    queued.next().map(|queued| &mut queued.from)
}

/// The checksums of a mutation, for the one that has none.
pub(crate) fn no_checksums() -> BlockChecksums {
    BlockChecksums::default()
}
