//! What changes a replica: what waits, and what is under way (one at a time: X1).

use crate::catch_up::CatchUp;
use crate::extending::ExtendUnderWay;
use crate::outbox::Outbox;
use crate::primary::PrimaryChange;
use crate::secondary::SecondaryBatch;
use cairn_env::Caller;
use cairn_protocol::{Extend, Failure, Forward, GrantLease, Raise};

/// A change that waits for the one under way.
#[derive(Debug)]
pub(crate) enum WaitingChange {
    Raise(Raise),
    Grant(Box<GrantLease>),
    Forward(Forward),
    Extend(Extend),
}

/// The change under way.
#[derive(Debug)]
pub(crate) enum ChangeUnderWay {
    /// A raise becomes durable.
    Raise { from: Caller, raise: Raise },
    /// What the holder of the lease asked of its own disk.
    Primary(PrimaryChange),
    /// What the primary forwarded.
    Secondary(SecondaryBatch),
    /// What a stream's producer has put at the chunk's end.
    Extend(ExtendUnderWay),
    /// The bytes of one that has gone further, before a lease is taken, or a levelling.
    CatchingUp { catch_up: Box<CatchUp>, from: Caller, then: Box<WaitingChange> },
}

/// What is left of a replica whose change the disk refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum AfterFailure {
    /// The replica, as it was.
    Kept,
    /// Nothing: it was to be created.
    NeverWas,
}

impl ChangeUnderWay {
    /// Whether nothing but an answer comes of it where the disk did not take the bytes, and changed
    /// nothing, or not.
    pub(crate) fn is_just_refused(&self, unchanged: bool) -> bool {
        match self {
            Self::Secondary(_) => unchanged,
            // No lease hangs on it, and the disk says itself what it is that failed.
            Self::Extend(_) => true,
            Self::Raise { .. } | Self::CatchingUp { .. } | Self::Primary(_) => false,
        }
    }

    /// Tells whoever waits for it that it came to nothing. For the primary's nobody does: who
    /// waits there is told at the end of the lease.
    pub(crate) fn refuse(self, out: &mut Outbox, failure: Failure) {
        match self {
            Self::Raise { from, .. } | Self::CatchingUp { from, .. } => out.refuse(from, failure),
            Self::Secondary(batch) => batch.refuse(out, failure),
            Self::Extend(extend) => extend.refuse(out, failure),
            Self::Primary(_) => {}
        }
    }
}
