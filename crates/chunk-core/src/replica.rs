//! One replica: what is stored, the role it has in a lease, and the queue of what changes either.
//!
//! ```text
//!   Raise, GrantLease, Forward ──► waiting ──┐
//!                                            ├──► one at a time: journal or apply ──► answer
//!   Write, Append (primary) ─────► queue ────┘
//! ```
//! - X1: at most one change is under way, so what a raise reports is what is stored.
//! - X2: a raise refuses the old version from the moment it is taken up, and is answered only
//!   once it is durable (R7).
//! - X3: a raise does not wait for bytes of an older version: catching up ends where one comes.
//! - X4: whatever a role wants done to the bytes goes through the change under way; a change may
//!   outlive the lease that it was made for.

use crate::catch_up::{CatchUp, CatchUpProgress};
use crate::extending::{ExtendUnderWay, check_extend};
use crate::outbox::{DiskPurpose, Outbox, ReplicaJob, failure_of};
use crate::primary::{LeaseEnd, Primary, PrimaryChange, check_grant};
use crate::replica_change::{AfterFailure, ChangeUnderWay, WaitingChange};
use crate::replica_context::ReplicaContext;
use crate::replica_role::ReplicaRole;
use crate::secondary::{Secondary, SecondaryBatch, check_form, check_order, not_followed};
use crate::stored_replica::StoredReplica;
use bytes::Bytes;
use cairn_env::{Caller, ChunkDone, ChunkError, ChunkJob, ChunkResult, ConnectionId};
use cairn_protocol::{
    Acknowledged, AcknowledgedAnswer, Append, ErrorCode, Extend, Failure, FetchAnswer, Forward,
    GrantLease, HeldLease, Probe, ProbeAnswer, Raise, RaiseAnswer, Response, RevokeLease,
    RevokeLeaseAnswer, SyncChunk, Write,
};
use cairn_types::planted::{Rule, broken};
use cairn_types::{BlockChecksums, ChunkVersion, LeaseId, SerialNumber, Time};
use std::collections::VecDeque;

#[derive(Debug, Default)]
pub(crate) struct Replica {
    stored: StoredReplica,
    role: ReplicaRole,
    change: Option<ChangeUnderWay>,
    waiting: VecDeque<(Caller, WaitingChange)>,
    /// When the raise to the present version was answered; the lease counts from then (R4).
    raised_at: Time,
}

impl Replica {
    pub(crate) fn of(stored: StoredReplica) -> Self {
        Self { stored, ..Self::default() }
    }

    pub(crate) fn stored(&self) -> &StoredReplica {
        &self.stored
    }

    pub(crate) fn role(&self) -> &ReplicaRole {
        &self.role
    }

    /// Whether it can go: nothing is under way, and it orders nothing (R33).
    pub(crate) fn can_go(&self) -> bool {
        self.change.is_none() && self.role.primary().is_none()
    }

    // Changes: one at a time (X1).

    /// Takes a change into the queue.
    pub(crate) fn enqueue(
        &mut self,
        cx: &mut ReplicaContext<'_>,
        from: Caller,
        waiting: WaitingChange,
    ) {
        self.waiting.push_back((from, waiting));
        self.give_way_to_raise(cx);
        self.pump(cx);
    }

    /// Starts the next change if none is under way.
    fn pump(&mut self, cx: &mut ReplicaContext<'_>) {
        while self.change.is_none() {
            match self.waiting.pop_front() {
                Some((from, WaitingChange::Raise(raise))) => self.start_raise(cx, from, &raise),
                Some((from, WaitingChange::Grant(grant))) => self.start_lease(cx, from, *grant),
                Some((from, WaitingChange::Forward(it))) => self.start_forward(cx, from, &it),
                Some((from, WaitingChange::Extend(it))) => self.start_extend(cx, from, it),
                None => {
                    let primary = self.role.primary_mut();
                    let next = primary.and_then(|it| it.start_next(&self.stored, cx));
                    let Some(change) = next else { return };
                    self.begin(ChangeUnderWay::Primary(change));
                }
            }
        }
    }

    fn begin(&mut self, change: ChangeUnderWay) {
        assert!(self.change.is_none(), "two changes at once (X1): {change:?}, {:?}", self.change);
        self.change = Some(change);
    }

    fn start_raise(&mut self, cx: &mut ReplicaContext<'_>, from: Caller, raise: &Raise) {
        if let Err(failure) = self.stored.check_raise(raise) {
            cx.out.refuse(from, failure);
            return;
        }
        // A lease survives the raise that shrinks its set, unless that closes the chunk; and no
        // other, which may be for another's lease.
        let shrinking = raise.keeps_lease && self.role.primary().is_some_and(Primary::is_shrinking);
        let closes = raise.close && !self.stored.is_closed();
        // From here on the old version is refused everywhere (X2).
        self.stored.rise(raise);
        if !shrinking || closes {
            self.end_lease(cx, "the master raised the chunk's version");
        }
        self.begin(ChangeUnderWay::Raise { from, raise: raise.clone() });
        if self.stored.is_ready_to_rise(cx.out, raise) {
            self.journal_raise(cx);
        }
    }

    /// The disk has said how it stands, or has not: a raise may wait for that.
    pub(crate) fn on_stood(
        &mut self,
        cx: &mut ReplicaContext<'_>,
        result: ChunkResult,
    ) -> AfterFailure {
        let is_raised = matches!(self.change, Some(ChangeUnderWay::Raise { .. }));
        match self.stored.on_stood(result) {
            Ok(true) => self.journal_raise(cx),
            Err(error) if is_raised => return self.on_change_failed(cx, &error.to_string()),
            Ok(false) | Err(_) => {}
        }
        AfterFailure::Kept
    }

    /// The raise under way, whose bytes are on disk where they had to be, becomes durable.
    pub(crate) fn journal_raise(&mut self, cx: &mut ReplicaContext<'_>) {
        let Some(ChangeUnderWay::Raise { raise, .. }) = &self.change else {
            // The sync was for a raise of a replica that stood here before this one.
            return;
        };
        if broken(Rule::R7) {
            cx.out.server_job(DiskPurpose::Nobody, ChunkJob::Journal(vec![]));
            self.on_journal(cx, self.stored.version(), &Ok(ChunkDone::Journaled));
            return;
        }
        self.stored.journal_raise(cx.out, raise);
    }

    /// Becomes the primary, levelling first (R16).
    fn start_lease(&mut self, cx: &mut ReplicaContext<'_>, from: Caller, grant: GrantLease) {
        if let Err(failure) = check_grant(&self.stored, cx.config, &grant) {
            cx.out.refuse(from, failure);
            return;
        }
        self.end_lease(cx, "a newer lease was granted");
        match &grant.source {
            Some(source) => {
                let started = CatchUp::start(&self.stored, cx, source);
                self.catch_up_first(cx, started, from, WaitingChange::Grant(Box::new(grant)));
            }
            None => self.take_lease(cx, from, grant),
        }
    }

    /// The same, nobody having gone further.
    fn take_lease(&mut self, cx: &mut ReplicaContext<'_>, from: Caller, grant: GrantLease) {
        // A block may have been found bad meanwhile.
        if let Err(failure) = check_grant(&self.stored, cx.config, &grant) {
            cx.out.refuse(from, failure);
            return;
        }
        self.stored.become_current(cx.out);
        let expires = cx.holder_expiry(self.raised_at);
        let (primary, levelling) = Primary::start(&self.stored, cx, from, grant, expires);
        assert!(self.role.primary().is_none(), "two leases at once");
        self.role = ReplicaRole::Primary(Box::new(primary));
        self.begin(ChangeUnderWay::Primary(levelling));
    }

    /// Makes what a stream's producer pushed the chunk's end.
    fn start_extend(&mut self, cx: &mut ReplicaContext<'_>, from: Caller, extend: Extend) {
        match check_extend(&self.stored, &self.role, cx.config, &extend) {
            Ok(()) => {
                let started = ExtendUnderWay::start(&self.stored, cx.out, from, extend);
                self.begin(ChangeUnderWay::Extend(started));
            }
            Err(failure) => cx.out.refuse(from, failure),
        }
    }

    /// Applies what the primary forwards.
    fn start_forward(&mut self, cx: &mut ReplicaContext<'_>, from: Caller, forward: &Forward) {
        if let Err(failure) = self.check_forward(cx, forward) {
            cx.out.refuse(from, failure);
            return;
        }
        match &forward.level {
            Some(source) => {
                self.end_lease(cx, "another replica is the primary now");
                let started = CatchUp::start(&self.stored, cx, source);
                self.catch_up_first(cx, started, from, WaitingChange::Forward(forward.clone()));
            }
            None => self.apply_forwarded(cx, from, forward),
        }
    }

    fn apply_forwarded(&mut self, cx: &mut ReplicaContext<'_>, from: Caller, forward: &Forward) {
        if forward.level.is_some() {
            self.role = ReplicaRole::Secondary(Secondary::following(forward.lease));
            self.stored.become_current(cx.out);
        }
        if let Some(batch) = SecondaryBatch::start(&mut self.stored, cx.out, from, forward) {
            self.begin(ChangeUnderWay::Secondary(batch));
        }
    }

    /// Catches up, if that is needed, before it goes on.
    fn catch_up_first(
        &mut self,
        cx: &mut ReplicaContext<'_>,
        started: Result<Option<CatchUp>, Failure>,
        from: Caller,
        then: WaitingChange,
    ) {
        match started {
            Ok(Some(catch_up)) => {
                let (catch_up, then) = (Box::new(catch_up), Box::new(then));
                self.begin(ChangeUnderWay::CatchingUp { catch_up, from, then });
            }
            Ok(None) => self.go_on_level(cx, from, then),
            Err(failure) => cx.out.refuse(from, failure),
        }
    }

    /// It stands as the source does.
    fn go_on_level(&mut self, cx: &mut ReplicaContext<'_>, from: Caller, then: WaitingChange) {
        match then {
            WaitingChange::Grant(grant) => self.take_lease(cx, from, *grant),
            WaitingChange::Forward(forward) => self.apply_forwarded(cx, from, &forward),
            WaitingChange::Raise(_) | WaitingChange::Extend(_) => {
                unreachable!("it needs nobody's bytes")
            }
        }
    }

    /// Lets a catch-up go on, if one is under way, and then whatever became possible.
    fn as_catching_up(
        &mut self,
        cx: &mut ReplicaContext<'_>,
        go_on: impl FnOnce(
            &mut CatchUp,
            &StoredReplica,
            &mut ReplicaContext<'_>,
        ) -> Result<CatchUpProgress, Failure>,
    ) {
        match self.change.take() {
            Some(ChangeUnderWay::CatchingUp { mut catch_up, from, then }) => {
                match go_on(&mut catch_up, &self.stored, cx) {
                    Ok(CatchUpProgress::UnderWay) => {
                        self.begin(ChangeUnderWay::CatchingUp { catch_up, from, then });
                    }
                    Ok(CatchUpProgress::Done) => self.go_on_level(cx, from, *then),
                    Err(failure) => cx.out.refuse(from, failure),
                }
            }
            other => self.change = other,
        }
        self.give_way_to_raise(cx);
        self.pump(cx);
    }

    pub(crate) fn on_checksums(&mut self, cx: &mut ReplicaContext<'_>, own: (u64, BlockChecksums)) {
        self.as_catching_up(cx, |it, stored, cx| Ok(it.on_checksums(stored, cx, own)));
    }

    /// The source's answer to a question that was asked at that version.
    pub(crate) fn on_fetched(
        &mut self,
        cx: &mut ReplicaContext<'_>,
        version: ChunkVersion,
        blocks: Result<(FetchAnswer, Bytes), Failure>,
    ) {
        let asked = match &self.change {
            Some(ChangeUnderWay::CatchingUp { catch_up, .. }) => catch_up.is_at(version),
            _ => false,
        };
        if asked {
            self.as_catching_up(cx, |it, stored, cx| it.on_fetched(stored, cx, blocks));
        }
    }

    /// Whoever raises does not wait for bytes of an older version (X3).
    fn give_way_to_raise(&mut self, cx: &mut ReplicaContext<'_>) {
        let is_raise = |(_, it): &(Caller, WaitingChange)| matches!(it, WaitingChange::Raise(_));
        if let Some(ChangeUnderWay::CatchingUp { catch_up, from, .. }) = &self.change
            && catch_up.is_asking()
            && self.waiting.iter().any(is_raise)
        {
            let why = "the chunk's version is raised before all bytes were fetched";
            cx.out.refuse(*from, Failure::not_done(ErrorCode::StaleVersion, why));
            self.change = None;
        }
    }

    fn check_forward(&self, cx: &ReplicaContext<'_>, forward: &Forward) -> Result<(), Failure> {
        self.stored.check_version(forward.version)?;
        let follows = forward.level.is_some() || self.role.follows(forward.lease);
        if !follows && !broken(Rule::R12) {
            return Err(not_followed(&self.stored));
        }
        check_form(forward, cx.config.chunk_size)?;
        check_order(&self.stored, forward)
    }

    /// The bytes of the change under way are stored on this server.
    pub(crate) fn on_applied(
        &mut self,
        cx: &mut ReplicaContext<'_>,
        length: u64,
        serial: SerialNumber,
    ) {
        match self.change.take() {
            Some(ChangeUnderWay::Primary(PrimaryChange::Batch)) => {
                self.stored.changed(length, serial);
                self.as_primary(cx, Primary::on_applied);
            }
            Some(ChangeUnderWay::Secondary(batch)) => {
                self.stored.changed(length, serial);
                let rest = batch.on_applied(&mut self.stored, cx.out);
                self.change = rest.map(ChangeUnderWay::Secondary);
            }
            Some(ChangeUnderWay::Extend(extend)) => {
                self.stored.extended(length, serial);
                extend.answer(&self.stored, cx);
            }
            Some(it @ ChangeUnderWay::CatchingUp { .. }) => {
                self.stored.changed(length, serial);
                self.change = Some(it);
                self.as_catching_up(cx, |it, stored, cx| Ok(it.on_installed(stored, cx)));
            }
            // It was the change of a replica that stood here before this one.
            other => self.change = other,
        }
        self.pump(cx);
    }

    /// The journal holds what the change under way wanted it to hold, or has refused it.
    pub(crate) fn on_journal(
        &mut self,
        cx: &mut ReplicaContext<'_>,
        version: ChunkVersion,
        result: &ChunkResult,
    ) -> AfterFailure {
        match result {
            // The line was of a replica that stood here before this one.
            _ if version != self.stored.version() => return AfterFailure::Kept,
            Err(error) => return self.on_change_failed(cx, &error.to_string()),
            Ok(_) => {}
        }
        match self.change.take() {
            Some(ChangeUnderWay::Raise { from, raise }) => {
                self.raised_at = cx.now;
                self.stored.tell_raised(cx.out, &raise);
                if raise.close {
                    self.stored.close(cx.out);
                }
                self.stored.learn_committed(cx.out, raise.committed);
                let answer = RaiseAnswer { replica: self.stored.report() };
                cx.out.reply(from, Response::Raise(answer));
            }
            Some(ChangeUnderWay::Primary(PrimaryChange::CloseMark)) => {
                self.stored.close(cx.out);
                self.as_primary(cx, Primary::on_own_close_mark);
            }
            Some(ChangeUnderWay::Secondary(batch)) => {
                batch.on_close_mark(&mut self.stored, cx.out);
            }
            other => self.change = other,
        }
        self.pump(cx);
        AfterFailure::Kept
    }

    /// The disk did not take the bytes. What it refused before changing anything is answered, or
    /// tried again; anything else ends the lease.
    pub(crate) fn on_apply_failed(&mut self, cx: &mut ReplicaContext<'_>, error: &ChunkError) {
        self.stored.learn_of(error);
        let unchanged = error.changed_nothing();
        match self.change.take() {
            Some(ChangeUnderWay::Primary(PrimaryChange::Batch)) if unchanged => {
                self.as_primary(cx, |primary, stored, cx| {
                    primary.on_refused(stored, cx.out, error)
                });
                self.pump(cx);
            }
            Some(change) if change.is_just_refused(unchanged) => {
                change.refuse(cx.out, failure_of(error));
                self.pump(cx);
            }
            change => {
                self.stored.fail_half_way(cx.out);
                self.change = change;
                self.on_change_failed(cx, &error.to_string());
            }
        }
    }

    /// The disk refused; what was under way is answered as a failure.
    pub(crate) fn on_change_failed(
        &mut self,
        cx: &mut ReplicaContext<'_>,
        why: &str,
    ) -> AfterFailure {
        let failure = Failure::unknown(ErrorCode::Io, why);
        let mut after = AfterFailure::Kept;
        match self.change.take() {
            Some(ChangeUnderWay::Raise { from, raise }) => {
                if raise.create || raise.adopt {
                    after = AfterFailure::NeverWas;
                }
                cx.out.refuse(from, failure);
            }
            Some(ChangeUnderWay::Primary(_)) => self.end_lease(cx, why),
            Some(change) => change.refuse(cx.out, failure),
            None => {}
        }
        self.pump(cx);
        after
    }

    /// The replica goes: whoever waits for it is told.
    pub(crate) fn abandon(&mut self, cx: &mut ReplicaContext<'_>, why: &str) {
        self.end_lease(cx, why);
        let line = format!("chunk {}: {why}", self.stored.handle().short());
        let failure = Failure::unknown(ErrorCode::NoSuchChunk, line);
        if let Some(change) = self.change.take() {
            change.refuse(cx.out, failure.clone());
        }
        for (from, _) in std::mem::take(&mut self.waiting) {
            cx.out.refuse(from, failure.clone());
        }
    }

    // The lease.

    /// Lets the primary go on, if the lease is still held that the change was made for (X4).
    fn as_primary(
        &mut self,
        cx: &mut ReplicaContext<'_>,
        go_on: impl FnOnce(
            &mut Primary,
            &mut StoredReplica,
            &mut ReplicaContext<'_>,
        ) -> Result<(), LeaseEnd>,
    ) {
        let Some(primary) = self.role.primary_mut() else { return };
        if let Err(end) = go_on(primary, &mut self.stored, cx) {
            if end.settle {
                self.role.end_lease(&self.stored, cx.out, &end.why);
                self.stored.settle(cx.out);
            } else {
                self.end_lease(cx, &end.why);
            }
        }
    }

    /// The same, for what came of something that was asked for that lease; then whatever became
    /// possible.
    pub(crate) fn as_primary_of(
        &mut self,
        cx: &mut ReplicaContext<'_>,
        lease: LeaseId,
        go_on: impl FnOnce(
            &mut Primary,
            &mut StoredReplica,
            &mut ReplicaContext<'_>,
        ) -> Result<(), LeaseEnd>,
    ) {
        // Of a lease that is over: who waited for it was told at its end.
        if self.role.primary_of(lease).is_some() {
            self.as_primary(cx, go_on);
            self.pump(cx);
        }
    }

    fn end_lease(&mut self, cx: &mut ReplicaContext<'_>, why: &str) {
        self.role.lose_lease(&self.stored, cx, why);
    }

    pub(crate) fn on_tick(&mut self, cx: &mut ReplicaContext<'_>) {
        self.as_primary(cx, |primary, stored, cx| primary.on_tick(stored, cx));
    }

    pub(crate) fn held_lease(&mut self, now: Time, clear: bool) -> Option<HeldLease> {
        self.role.held_lease(&self.stored, now, clear)
    }

    /// The master's word that these leases go on until then; what has run out stays so (R21).
    pub(crate) fn extend_lease(&mut self, extended: &[LeaseId], now: Time, until: Time) {
        let primary = self.role.primary_mut().filter(|primary| primary.is_live(now));
        if let Some(primary) = primary.filter(|primary| extended.contains(&primary.lease())) {
            primary.extend(until);
        }
    }

    pub(crate) fn on_revoke(
        &mut self,
        cx: &mut ReplicaContext<'_>,
        from: Caller,
        revoke: &RevokeLease,
    ) {
        if self.role.primary_of(revoke.lease).is_some() {
            self.as_primary(cx, |primary, stored, cx| primary.on_revoke(stored, cx.out, from));
            return;
        }
        let answer = RevokeLeaseAnswer { replica: self.stored.report() };
        cx.out.reply(from, Response::RevokeLease(answer));
    }

    pub(crate) fn on_probe(&mut self, cx: &mut ReplicaContext<'_>, from: Caller, probe: &Probe) {
        let holds = self.role.live_primary_of(probe.lease, cx.now).is_some();
        let answer = ProbeAnswer { replica: self.stored.report(), holds };
        cx.out.reply(from, Response::Probe(answer));
    }

    pub(crate) fn forget_connection(&mut self, connection: ConnectionId) {
        self.role.forget_connection(connection);
    }

    // Clients.

    pub(crate) fn on_write(&mut self, cx: &mut ReplicaContext<'_>, from: Caller, write: Write) {
        let taken = self.role.take_write(&self.stored, cx, from, write);
        self.after_taking(cx, from, taken);
    }

    pub(crate) fn on_append(&mut self, cx: &mut ReplicaContext<'_>, from: Caller, append: Append) {
        let taken = self.role.take_append(&self.stored, cx, from, append);
        self.after_taking(cx, from, taken);
    }

    fn after_taking(
        &mut self,
        cx: &mut ReplicaContext<'_>,
        from: Caller,
        taken: Result<(), Failure>,
    ) {
        match taken {
            Ok(()) => self.pump(cx),
            Err(failure) => cx.out.refuse(from, failure),
        }
    }

    /// Someone doubts a block: it is verified behind the mutations that are under way (R31).
    pub(crate) fn verify(&mut self, cx: &mut ReplicaContext<'_>, offset: u64) {
        if broken(Rule::R31) {
            self.stored.find_bad_block(cx.out);
            return;
        }
        let handle = self.stored.handle();
        cx.out.replica_job(handle, ReplicaJob::Verify, ChunkJob::Verify { handle, offset });
    }

    pub(crate) fn on_verified(&mut self, out: &mut Outbox, good: bool) {
        if !good {
            self.stored.find_bad_block(out);
        }
    }

    /// For what its disk or its master said of it.
    pub(crate) fn stored_mut(&mut self) -> &mut StoredReplica {
        &mut self.stored
    }

    // Syncs.

    pub(crate) fn on_sync(&mut self, cx: &mut ReplicaContext<'_>, from: Caller, sync: &SyncChunk) {
        if let Err(failure) = self.role.start_sync(&self.stored, cx, from, sync) {
            cx.out.refuse(from, failure);
        }
    }

    /// The primary's word on how far its chunk is acknowledged (R17).
    pub(crate) fn on_acknowledged(
        &mut self,
        cx: &mut ReplicaContext<'_>,
        from: Caller,
        notice: &Acknowledged,
    ) {
        self.role.on_acknowledged(&mut self.stored, cx.out, notice);
        cx.out.reply(from, Response::Acknowledged(AcknowledgedAnswer {}));
    }
}
