//! A secondary's part: apply what the primary forwards, in its order, once (GFS §3.1).
//!
//! ```text
//!   Forward ──► checked ──► bytes applied ──► close mark journaled ──► answered
//!                              (if any)           (if any: R18)
//! ```
//! - S1: serial number n is applied only after n − 1; what was applied before is not applied
//!   again, so a primary may send a batch twice (R13).
//! - S2: the levelling that opens a lease sets the order anew (R16).

use crate::outbox::{Outbox, ReplicaJob};
use crate::stored_replica::{AcknowledgedMark, StoredReplica};
use cairn_env::Caller;
use cairn_protocol::{
    Acknowledged, ErrorCode, Failure, Forward, ForwardAnswer, Forwarded, Response,
};
use cairn_types::planted::{Rule, broken};
use cairn_types::{LeaseId, SerialNumber};

/// A replica that follows a lease.
#[derive(Debug)]
pub(crate) struct Secondary {
    lease: LeaseId,
}

impl Secondary {
    pub(crate) fn following(lease: LeaseId) -> Self {
        Self { lease }
    }

    pub(crate) fn follows(&self, lease: LeaseId) -> bool {
        self.lease == lease
    }

    /// The primary wants what is here on disk, and relies on it from then on (Y1).
    pub(crate) fn on_sync(
        &self,
        stored: &StoredReplica,
        out: &mut Outbox,
        from: Caller,
        lease: LeaseId,
    ) -> Result<(), Failure> {
        if !self.follows(lease) {
            return Err(not_followed(stored));
        }
        assert!(!stored.is_suspect(), "who follows a lease was levelled by its primary");
        stored.sync(out, ReplicaJob::SyncForPrimary { to: from });
        Ok(())
    }

    /// The primary's word, when it has nothing else to say (R17).
    pub(crate) fn on_acknowledged(
        &self,
        stored: &mut StoredReplica,
        out: &mut Outbox,
        notice: &Acknowledged,
    ) {
        let known = stored.check_version(notice.version).is_ok() && self.follows(notice.lease);
        let (length, serial) = (notice.acknowledged, notice.acknowledged_serial);
        if known && stored.learn_acknowledged(AcknowledgedMark { length, serial }) {
            stored.settle(out);
        }
    }
}

/// What a primary is told whose lease this replica does not follow.
pub(crate) fn not_followed(stored: &StoredReplica) -> Failure {
    let why = format!("chunk {}: another lease is followed here", stored.handle().short());
    Failure::not_done(ErrorCode::NotPrimary, why)
}

/// Whether the mutations are in order and lie within a chunk, the close mark behind all of them,
/// and numbers are left behind theirs.
pub(crate) fn check_form(forward: &Forward, chunk_size: u64) -> Result<(), Failure> {
    let in_chunk =
        |it: &Forwarded| it.offset.checked_add(it.size).is_some_and(|end| end <= chunk_size);
    // What a levelling jumps to, every later mutation counts on from.
    let leaves_room = |it: &Forwarded| it.serial.leaves_room();
    let is_right = |it: &Forwarded| in_chunk(it) && leaves_room(it);
    let in_order = |two: &[Forwarded]| two[0].serial < two[1].serial && !two[0].close;
    if forward.mutations.iter().all(is_right) && forward.mutations.windows(2).all(in_order) {
        return Ok(());
    }
    let why = "a forward out of order, past its chunk's or numbers' end, or past its close mark";
    Err(Failure::refused(ErrorCode::Invalid, why))
}

/// Whether these mutations follow what this replica has applied (S1, S2).
pub(crate) fn check_order(stored: &StoredReplica, forward: &Forward) -> Result<(), Failure> {
    let mut last = stored.serial();
    for mutation in &forward.mutations {
        if mutation.serial <= last {
            continue;
        }
        let follows = mutation.serial.get() == last.get() + 1;
        if !follows && forward.level.is_none() && !broken(Rule::R13) {
            return Err(Failure::not_done(
                ErrorCode::OutOfOrder,
                format!("serial number {} does not follow {last}", mutation.serial),
            ));
        }
        last = mutation.serial;
    }
    Ok(())
}

/// What a primary forwarded, while it becomes part of this replica.
#[derive(Debug)]
pub(crate) struct SecondaryBatch {
    from: Caller,
    /// The close mark's serial number, if the batch ends with it.
    close: Option<SerialNumber>,
    acknowledged: AcknowledgedMark,
}

impl SecondaryBatch {
    /// Starts to apply what is new of it. None: nothing was, and it is answered.
    pub(crate) fn start(
        stored: &mut StoredReplica,
        out: &mut Outbox,
        from: Caller,
        forward: &Forward,
    ) -> Option<Self> {
        let applied = stored.serial();
        let levels = forward.level.is_some();
        let fresh = forward.mutations.iter().filter(|it| levels || it.serial > applied);
        let (marks, bytes): (Vec<&Forwarded>, Vec<&Forwarded>) = fresh.partition(|it| it.close);
        let close = marks.first().map(|mark| mark.serial);
        let is_behind = |mark| bytes.iter().all(|it| it.serial < mark);
        assert!(close.is_none_or(is_behind), "bytes behind the close mark (R18)");
        let (length, serial) = (forward.acknowledged, forward.acknowledged_serial);
        let batch = Self { from, close, acknowledged: AcknowledgedMark { length, serial } };
        if !bytes.is_empty() {
            stored.learn_acknowledged(batch.acknowledged);
            stored.apply(out, bytes.into_iter(), forward.sync);
            return Some(batch);
        }
        batch.on_applied(stored, out)
    }

    /// Its bytes are stored; the close mark comes after them. None: all of it is done.
    pub(crate) fn on_applied(self, stored: &mut StoredReplica, out: &mut Outbox) -> Option<Self> {
        if self.close.is_some() {
            stored.journal(out, false, true);
            return Some(self);
        }
        self.answer(stored, out);
        None
    }

    /// Its close mark is durable, and with it all of it.
    pub(crate) fn on_close_mark(self, stored: &mut StoredReplica, out: &mut Outbox) {
        assert!(self.close.is_some(), "a mark that nobody forwarded");
        stored.close(out);
        self.answer(stored, out);
    }

    /// The close mark stands in the journal and not in the head, so it moves no serial number
    /// there: what a restart would forget must not be reported before it.
    fn answer(self, stored: &mut StoredReplica, out: &mut Outbox) {
        stored.learn_acknowledged(self.acknowledged);
        let serial = self.close.unwrap_or(stored.serial());
        out.reply(self.from, Response::Forward(ForwardAnswer { serial }));
    }

    pub(crate) fn refuse(self, out: &mut Outbox, failure: Failure) {
        out.refuse(self.from, failure);
    }
}
