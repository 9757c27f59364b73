//! The primary's part: holding a lease, giving serial numbers, acknowledging (GFS §3.1).
//!
//! ```text
//!    GrantLease ──► Levelling ──► Serving ◄──► Shrinking (a secondary failed: R14)
//!                                    │
//!        raise, expiry, revoke ──────┴──► ended: unanswered mutations are *unknown*
//! ```
//! - PR1: the holder's lease ends before the master's does: it counts from when it answered the
//!   raise, and by a clock that may run slow (R4).
//! - PR2: the first act of a lease is to level the replicas: to the bytes of the one that has gone
//!   furthest, and to the longest length among them (R16).
//! - PR3: nothing is acknowledged after the lease's end, nor before every replica of the set has
//!   applied it (R14).
//!
//! Writes come in by `write.rs`, appends by `record_append.rs`.

use crate::closing::ChunkClose;
use crate::draining::Draining;
use crate::duplicate_filter::DuplicateFilter;
use crate::mutation_pipeline::MutationPipeline;
use crate::outbox::{Outbox, ReplicaCall};
use crate::primary_mutation::{PrimaryMutation, answer};
use crate::replica_context::ReplicaContext;
use crate::secondaries::Secondaries;
use crate::stored_replica::StoredReplica;
use crate::sync::SyncRounds;
use cairn_env::{Caller, ChunkError, ConnectionId};
use cairn_protocol::{
    ErrorCode, Failure, GrantLease, GrantLeaseAnswer, HeldLease, LevelSource, Response,
    SecondaryFailed, SecondaryFailedAnswer, SyncChunk,
};
use cairn_types::planted::{Rule, broken};
use cairn_types::{CellConfig, ChunkVersion, LeaseId, SerialNumber, ServerId, Time};

/// What the lease is about right now.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum LeasePhase {
    /// The replicas are brought to one length; the master waits for it.
    Levelling(Caller),
    /// Mutations flow.
    Serving,
    /// The master was asked for a set without those that failed.
    Shrinking,
}

/// The lease has come to its end.
#[derive(Debug)]
pub(crate) struct LeaseEnd {
    pub(crate) why: String,
    /// Nothing is in doubt: what is acknowledged may be written into the head.
    pub(crate) settle: bool,
}

impl LeaseEnd {
    pub(crate) fn because(why: impl Into<String>) -> Self {
        Self { why: why.into(), settle: false }
    }

    pub(crate) fn settled(why: impl Into<String>) -> Self {
        Self { why: why.into(), settle: true }
    }
}

/// What a primary changes on its own disk next.
#[derive(Clone, Copy, Debug)]
pub(crate) enum PrimaryChange {
    /// The bytes of a batch, or of the levelling.
    Batch,
    /// The close mark.
    CloseMark,
}

#[derive(Debug)]
pub(crate) struct Primary {
    lease: LeaseId,
    expires: Time,
    phase: LeasePhase,
    /// How this replica stood when the lease began: what the others are levelled to (PR2).
    source: LevelSource,
    secondaries: Secondaries,
    pipeline: MutationPipeline,
    close: ChunkClose,
    /// A push is repeated under one lease only, so what was served under it goes with it.
    served: DuplicateFilter,
    syncs: SyncRounds,
    writes_only: bool,
    /// The master waits for the lease to be given back.
    draining: Draining,
    /// Mutations came since the last heartbeat.
    used: bool,
}

impl Primary {
    /// Takes a lease that lasts until `expires`; levels first (PR2).
    pub(crate) fn start(
        stored: &StoredReplica,
        cx: &mut ReplicaContext<'_>,
        from: Caller,
        grant: GrantLease,
        expires: Time,
    ) -> (Self, PrimaryChange) {
        assert!(!stored.is_suspect() && !stored.is_damaged(), "a primary's bytes are in doubt");
        // No fresh number: who levels and fails has gone no further for it than the others. But
        // one, where nothing was ever applied: what all have applied is counted by it.
        let serial = grant.serial.max(stored.serial()).max(SerialNumber::new(1));
        // Who has caught up stands as the one that it caught up with.
        let own = stored.as_source(cx.me.clone());
        let source = match grant.source {
            Some(source) => {
                let LevelSource { mutated_version, serial, .. } = *source;
                LevelSource { mutated_version, serial, ..own }
            }
            None => own,
        };
        let longest = grant.length.max(stored.length());
        let length = if broken(Rule::R16) { stored.length() } else { longest };
        let primary = Self {
            lease: grant.lease,
            expires,
            phase: LeasePhase::Levelling(from),
            source,
            secondaries: Secondaries::of(grant.secondaries),
            pipeline: MutationPipeline::opened_by(PrimaryMutation::levelling(serial, length)),
            close: ChunkClose::open(grant.file, grant.index),
            served: DuplicateFilter::default(),
            syncs: SyncRounds::default(),
            writes_only: grant.writes_only || stored.is_closed(),
            draining: Draining::default(),
            used: true,
        };
        primary.apply(stored, cx.out);
        (primary, PrimaryChange::Batch)
    }

    pub(crate) fn lease(&self) -> LeaseId {
        self.lease
    }

    pub(crate) fn is_live(&self, now: Time) -> bool {
        now < self.expires
    }

    /// Whether it has levelled: from then on it alone knows what is acknowledged (R16, R17).
    pub(crate) fn has_levelled(&self) -> bool {
        !matches!(self.phase, LeasePhase::Levelling(_))
    }

    /// Whether the master waits for the lease to be given back.
    pub(crate) fn is_asked_back(&self) -> bool {
        self.draining.is_asked_for()
    }

    fn is_serving(&self) -> bool {
        self.phase == LeasePhase::Serving
    }

    /// Whether the master was asked for a smaller set: a raise is expected, and the lease
    /// survives it.
    pub(crate) fn is_shrinking(&self) -> bool {
        self.phase == LeasePhase::Shrinking
    }

    /// Whether the close mark is on its way and may yet come to nothing.
    pub(crate) fn is_marking(&self) -> bool {
        self.close.is_marking()
    }

    /// Whether appends are ordered under this lease. While a close is on its way they are: they
    /// hear of it as soon as there is a chunk to go on in.
    pub(crate) fn takes_appends(&self, closed: bool) -> bool {
        let was_closed_before = closed && self.close.is_open();
        !self.writes_only && !was_closed_before
    }

    /// The lease as a heartbeat reports it; `clear`: mutations are counted anew from here on.
    pub(crate) fn held(&mut self, stored: &StoredReplica, clear: bool) -> HeldLease {
        let in_use = self.used || !self.pipeline.all_acknowledged();
        // What is asked back ends here, whether the master hears that or not.
        let wanted = in_use && !self.draining.is_asked_for();
        self.used &= !clear;
        HeldLease {
            handle: stored.handle(),
            version: stored.version(),
            lease: self.lease,
            acknowledged: stored.acknowledged().length,
            wanted,
        }
    }

    /// The master's word that the lease goes on; it never ends sooner for that (PR1).
    pub(crate) fn extend(&mut self, until: Time) {
        self.expires = self.expires.max(until);
    }

    /// Whether this server may order mutations under that version and lease now (R12).
    pub(crate) fn check_holder(
        &self,
        stored: &StoredReplica,
        now: Time,
        (version, lease): (ChunkVersion, LeaseId),
    ) -> Result<(), Failure> {
        // The set is being shrunk: what clients know is about to be over, and the lease is not.
        if !self.is_shrinking() {
            stored.check_version(version)?;
        }
        if self.lease != lease || !self.is_live(now) {
            return Err(not_holder(stored));
        }
        if self.draining.is_asked_for() {
            let why = format!("chunk {}: the lease is being given back", stored.handle().short());
            return Err(Failure::not_done(ErrorCode::NotPrimary, why));
        }
        Ok(())
    }

    /// Takes a mutation into the queue, once for each push (R15).
    pub(crate) fn take(
        &mut self,
        out: &mut Outbox,
        from: Caller,
        mutation: PrimaryMutation,
    ) -> Result<(), Failure> {
        let push = mutation.push().expect("a client's mutation names its bytes");
        if !self.served.may_speak(push.session, from.connection) && !broken(Rule::R15) {
            let why = "this client session speaks by a newer connection";
            return Err(Failure::not_done(ErrorCode::Busy, why));
        }
        if let Some(served) = self.served.answer(push)
            && !broken(Rule::R15)
        {
            answer(out, from, mutation.kind, served);
            return Ok(());
        }
        self.used = true;
        if !broken(Rule::R15) {
            self.pipeline.forget_older(push.session, from.connection);
            if let Some(waiting) = self.pipeline.waiting_for(push) {
                waiting.push(from);
                return Ok(());
            }
        }
        self.pipeline.enqueue(mutation);
        Ok(())
    }

    pub(crate) fn forget_connection(&mut self, connection: ConnectionId) {
        self.pipeline.forget_connection(connection);
    }

    /// Starts what this server changes next; the secondaries get it afterwards. None: there is
    /// nothing to do.
    pub(crate) fn start_next(
        &mut self,
        stored: &StoredReplica,
        cx: &mut ReplicaContext<'_>,
    ) -> Option<PrimaryChange> {
        // While the set shrinks, nothing: the version that this replica was raised to may never be
        // logged, and nothing is changed under one that is not (R8).
        if !self.has_levelled() || self.is_shrinking() || self.close.is_last() {
            return None;
        }
        if self.close.is_open() {
            if !self.pipeline.has_queued() {
                return None;
            }
            let (last, size, closed) = (stored.serial(), cx.config.chunk_size, stored.is_closed());
            let batch = self.pipeline.next_batch(last, size, &mut self.close, closed);
            if !batch.is_empty() {
                self.apply(stored, cx.out);
                return Some(PrimaryChange::Batch);
            }
        }
        if self.close.is_wanted() {
            self.close.start_marking(stored, cx.out);
            return Some(PrimaryChange::CloseMark);
        }
        // All that was queued were appends to a chunk that holds the mark already.
        self.close.answer_turned_away(stored.handle(), cx.out);
        None
    }

    fn apply(&self, stored: &StoredReplica, out: &mut Outbox) {
        let batch = self.pipeline.applying();
        let sync = batch.iter().any(|mutation| mutation.sync);
        stored.apply(out, batch.iter().map(|mutation| &mutation.forwarded), sync);
    }

    /// The batch is stored on this server.
    pub(crate) fn on_applied(
        &mut self,
        stored: &mut StoredReplica,
        cx: &mut ReplicaContext<'_>,
    ) -> Result<(), LeaseEnd> {
        self.pipeline.batch_applied();
        self.acknowledge_and_forward(stored, cx)
    }

    /// This server's disk refused the batch before it changed anything.
    pub(crate) fn on_refused(
        &mut self,
        stored: &StoredReplica,
        out: &mut Outbox,
        error: &ChunkError,
    ) -> Result<(), LeaseEnd> {
        if !self.has_levelled() {
            return Err(LeaseEnd::because(error.to_string()));
        }
        let close = (!self.writes_only).then_some(&mut self.close);
        self.pipeline.give_back(out, error, stored.length(), close);
        Ok(())
    }

    /// This replica holds the close mark; now the secondaries.
    pub(crate) fn on_own_close_mark(
        &mut self,
        stored: &mut StoredReplica,
        cx: &mut ReplicaContext<'_>,
    ) -> Result<(), LeaseEnd> {
        assert!(stored.is_closed(), "this replica holds the mark first");
        if broken(Rule::R18) {
            self.close.report(stored, self.lease, cx);
            return Ok(());
        }
        let mark = self.pipeline.close_mark(stored.serial());
        self.pipeline.push_unacknowledged(mark);
        self.acknowledge_and_forward(stored, cx)
    }

    /// Acknowledges what no replica lacks, and sends each secondary what it lacks, so that a
    /// batch carries the newest mark.
    fn acknowledge_and_forward(
        &mut self,
        stored: &mut StoredReplica,
        cx: &mut ReplicaContext<'_>,
    ) -> Result<(), LeaseEnd> {
        self.acknowledge(stored, cx)?;
        if !self.is_shrinking() && !self.secondaries.has_failed() {
            let level = (!self.has_levelled()).then_some(&self.source);
            let unacknowledged = self.pipeline.unacknowledged();
            self.secondaries.forward(cx, stored, self.lease, unacknowledged, level);
        }
        Ok(())
    }

    /// Answers every mutation, in order, that all replicas have applied (PR3).
    fn acknowledge(
        &mut self,
        stored: &mut StoredReplica,
        cx: &mut ReplicaContext<'_>,
    ) -> Result<(), LeaseEnd> {
        if !self.is_live(cx.now) {
            return Err(LeaseEnd::because("the lease has run out"));
        }
        let lowest = self.secondaries.lowest_applied();
        let mut mark_is_everywhere = false;
        while let Some(done) = self.pipeline.take_applied_up_to(lowest) {
            let is_mark = done.forwarded.close;
            mark_is_everywhere |= is_mark;
            stored.acknowledge(done.end(), (!is_mark).then_some(done.serial()));
            let Some(push) = done.push() else {
                assert!(done.waiting.is_empty(), "a client waits for {done:?}");
                continue;
            };
            assert!(self.has_levelled(), "{done:?} is acknowledged before the replicas are level");
            self.served.remember(push, done.served());
            for from in &done.waiting {
                answer(cx.out, *from, done.kind, done.served());
            }
        }
        if mark_is_everywhere {
            self.close.report(stored, self.lease, cx);
        }
        self.finish_levelling(stored, cx.out);
        self.finish_draining()
    }

    /// The replicas are level: the lease begins.
    fn finish_levelling(&mut self, stored: &StoredReplica, out: &mut Outbox) {
        if let (LeasePhase::Levelling(from), true) = (self.phase, self.pipeline.all_acknowledged())
        {
            self.phase = LeasePhase::Serving;
            self.pipeline.go_on_behind(stored.length());
            out.debug(|| stored.told_lease("lease taken", self.lease));
            let answer = GrantLeaseAnswer { acknowledged: stored.acknowledged().length };
            out.reply(from, Response::GrantLease(answer));
        }
    }

    /// A secondary has, or has not, applied what was sent to it under that version.
    pub(crate) fn on_forwarded(
        &mut self,
        stored: &mut StoredReplica,
        cx: &mut ReplicaContext<'_>,
        sent_under: ChunkVersion,
        server: ServerId,
        result: Result<SerialNumber, Failure>,
    ) -> Result<(), LeaseEnd> {
        let version = stored.version();
        let applied = result.as_ref().ok().copied();
        if !self.secondaries.answered(server, applied, sent_under == version) {
            // It was left out since: nobody counts on it any more.
            return Ok(());
        }
        match (result, self.phase) {
            (Ok(_), _) => {}
            // The set is being changed, or was: the old version is refused for a good reason.
            (Err(failure), LeasePhase::Shrinking) if failure.code == ErrorCode::StaleVersion => {}
            (Err(_), LeasePhase::Serving) if sent_under < version => {}
            (Err(failure), LeasePhase::Serving)
                if failure.code == ErrorCode::PushMissing
                    && self.secondaries.awaits_data(cx, server) => {}
            (Err(failure), LeasePhase::Levelling(from)) => {
                // The master is told who failed, and not once more that the lease ended.
                self.phase = LeasePhase::Serving;
                let mut told = Failure::not_done(ErrorCode::ReplicaFailed, failure.message);
                told.server = server;
                cx.out.refuse(from, told);
                return Err(LeaseEnd::because("a replica could not be levelled"));
            }
            (Err(_), _) => self.secondaries.fail(server),
        }
        self.ask_to_shrink(stored, cx);
        self.acknowledge_and_forward(stored, cx)
    }

    /// A client wants all that is acknowledged to be on disk, everywhere.
    pub(crate) fn on_sync(
        &mut self,
        stored: &StoredReplica,
        cx: &mut ReplicaContext<'_>,
        from: Caller,
        sync: &SyncChunk,
    ) -> Result<(), Failure> {
        if self.lease != sync.lease || !self.is_live(cx.now) {
            return Err(not_holder(stored));
        }
        self.used = true;
        self.syncs.start(stored, &self.secondaries, cx, from, sync);
        Ok(())
    }

    /// This replica, or that secondary, has its part of a round on disk, or has not.
    pub(crate) fn on_synced(
        &mut self,
        stored: &StoredReplica,
        cx: &mut ReplicaContext<'_>,
        round: u64,
        secondary: Option<ServerId>,
        result: Result<(), Failure>,
    ) {
        // Who stands at another version was asked too late, and is not at fault.
        let at_fault = result.as_ref().is_err_and(|it| it.code != ErrorCode::StaleVersion);
        if let Some(server) = secondary
            && at_fault
            && self.is_serving()
            && self.syncs.is_open(round)
        {
            self.secondaries.fail(server);
            self.ask_to_shrink(stored, cx);
        }
        self.syncs.on_synced(round, result, cx.me.server, cx.out);
    }

    /// Secondaries that cannot apply, or cannot sync: the set has to go on without them (R14). The
    /// master is asked once nobody is waited for any more: a primary that is cut off loses all of
    /// them, and must not go on with the one whose failure it notices last.
    fn ask_to_shrink(&mut self, stored: &StoredReplica, cx: &mut ReplicaContext<'_>) {
        let gathered = self.secondaries.has_failed() && !self.secondaries.is_waited_for();
        if !gathered || !self.is_serving() {
            // Or the master was asked already: who is left is tried again then.
            return;
        }
        self.phase = LeasePhase::Shrinking;
        let failed = self.secondaries.failed();
        assert!(!failed.is_empty(), "the set shrinks by nobody");
        let (handle, version, lease) = (stored.handle(), stored.version(), self.lease);
        let request = SecondaryFailed { handle, version, lease, failed };
        let deadline = cx.raise_deadline();
        cx.call_master(handle, ReplicaCall::Shrink { lease }, request, deadline);
    }

    /// The master's word on the smaller set. Without it the lease ends: whoever waits asks again.
    pub(crate) fn on_shrunk(
        &mut self,
        stored: &mut StoredReplica,
        cx: &mut ReplicaContext<'_>,
        result: Result<SecondaryFailedAnswer, Failure>,
    ) -> Result<(), LeaseEnd> {
        if !self.is_shrinking() {
            // The answer to an earlier holding of a lease that was granted twice.
            return Ok(());
        }
        let answer = result.map_err(|failure| LeaseEnd::because(failure.message))?;
        if answer.version != stored.version() {
            return Err(LeaseEnd::because("the set was changed by another raise"));
        }
        self.secondaries.keep(&answer.secondaries).map_err(LeaseEnd::because)?;
        self.phase = LeasePhase::Serving;
        self.acknowledge_and_forward(stored, cx)
    }

    /// The master has logged the close, or could not be asked. Either way this lease has done its
    /// work: appends go on in the next chunk, and writes ask for a lease of their own.
    pub(crate) fn on_close_logged(&mut self, stored: &StoredReplica, out: &mut Outbox) -> LeaseEnd {
        self.close.answer_turned_away(stored.handle(), out);
        LeaseEnd::settled("the chunk is closed")
    }

    /// What time does to a lease: its end, and news for idle secondaries.
    pub(crate) fn on_tick(
        &mut self,
        stored: &mut StoredReplica,
        cx: &mut ReplicaContext<'_>,
    ) -> Result<(), LeaseEnd> {
        if !self.is_live(cx.now) {
            return Err(LeaseEnd::settled("the lease has run out"));
        }
        if self.is_serving() && self.secondaries.is_to_be_asked_again(cx.now) {
            self.acknowledge_and_forward(stored, cx)?;
        }
        let idle = self.is_serving() && self.pipeline.all_acknowledged();
        if idle && self.secondaries.tell_acknowledged(cx, stored, self.lease) {
            stored.settle(cx.out);
        }
        Ok(())
    }

    /// A secondary has heard the mark, or has not.
    pub(crate) fn on_told(&mut self, cx: &ReplicaContext<'_>, server: ServerId, heard: bool) {
        self.secondaries.told(cx, server, heard);
    }

    /// The master wants the lease back: stop, drain, answer.
    pub(crate) fn on_revoke(
        &mut self,
        stored: &StoredReplica,
        out: &mut Outbox,
        from: Caller,
    ) -> Result<(), LeaseEnd> {
        self.draining.ask(stored, out, from);
        self.finish_draining()
    }

    /// Gives the lease back once nothing is on its way any more.
    fn finish_draining(&self) -> Result<(), LeaseEnd> {
        if self.draining.is_asked_for() && self.pipeline.is_drained() {
            return Err(LeaseEnd::settled("the master took the lease back"));
        }
        Ok(())
    }

    /// The lease is over here. Whatever has no number yet was not done; the rest is unknown.
    pub(crate) fn end(self, stored: &StoredReplica, out: &mut Outbox, why: &str) {
        let line = |what: &str| format!("chunk {}: {why}; {what}", stored.handle().short());
        let (queued, ordered) = self.pipeline.into_waiting();
        for from in queued.into_iter().chain(self.close.into_turned_away()) {
            let failure = Failure::not_done(ErrorCode::NotPrimary, line("nothing was changed"));
            out.refuse(from, failure);
        }
        for from in ordered {
            let failure = Failure::unknown(ErrorCode::NotPrimary, line("it may have happened"));
            out.refuse(from, failure);
        }
        for from in self.syncs.into_waiting() {
            let failure = Failure::not_done(ErrorCode::NotPrimary, line("nothing is known"));
            out.refuse(from, failure);
        }
        if let LeasePhase::Levelling(from) = self.phase {
            let failure = Failure::not_done(ErrorCode::NotPrimary, line("no lease was taken"));
            out.refuse(from, failure);
        }
        self.draining.answer(stored, out);
    }
}

/// Whether this replica may take the lease that the master grants.
pub(crate) fn check_grant(
    stored: &StoredReplica,
    config: &CellConfig,
    grant: &GrantLease,
) -> Result<(), Failure> {
    stored.check_version(grant.version)?;
    let short = stored.handle().short();
    if stored.is_damaged() {
        let why = format!("chunk {short} is damaged here");
        return Err(Failure::not_done(ErrorCode::ChecksumMismatch, why));
    }
    let last = grant.source.as_ref().map_or(grant.serial, |it| it.serial.max(grant.serial));
    if grant.length > config.chunk_size || !last.leaves_room() {
        let why = format!("chunk {short} cannot be levelled to {} bytes, {last}", grant.length);
        return Err(Failure::refused(ErrorCode::Invalid, why));
    }
    Ok(())
}

/// What one is told who takes this server for a chunk's primary.
pub(crate) fn not_holder(stored: &StoredReplica) -> Failure {
    let why = format!("chunk {}: this server does not hold that lease", stored.handle().short());
    Failure::not_done(ErrorCode::NotPrimary, why)
}
