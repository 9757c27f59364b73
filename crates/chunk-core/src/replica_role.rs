//! The part that a replica has in its chunk's lease.
//!
//! ```text
//!   Idle ──grant──► Primary ──end of its lease──► Idle ──another's levelling──► Secondary
//! ```

use crate::outbox::Outbox;
use crate::primary::{Primary, not_holder};
use crate::record_append::check_append;
use crate::replica_context::ReplicaContext;
use crate::secondary::Secondary;
use crate::stored_replica::StoredReplica;
use crate::write::check_write;
use cairn_env::{Caller, ConnectionId, Effect, LogEvent};
use cairn_protocol::{Acknowledged, Append, Failure, HeldLease, SyncChunk, Write};
use cairn_types::{ChunkVersion, LeaseId, Time};

#[derive(Debug, Default)]
pub(crate) enum ReplicaRole {
    /// None: nobody has levelled it since it started, or its own lease is over.
    #[default]
    Idle,
    /// It applies what another replica orders.
    Secondary(Secondary),
    /// It orders. Boxed, because few of a server's replicas do.
    Primary(Box<Primary>),
}

impl ReplicaRole {
    pub(crate) fn is_idle(&self) -> bool {
        matches!(self, Self::Idle)
    }

    pub(crate) fn primary(&self) -> Option<&Primary> {
        match self {
            Self::Primary(primary) => Some(primary),
            Self::Idle | Self::Secondary(_) => None,
        }
    }

    pub(crate) fn primary_mut(&mut self) -> Option<&mut Primary> {
        match self {
            Self::Primary(primary) => Some(primary),
            Self::Idle | Self::Secondary(_) => None,
        }
    }

    /// The same, if it holds that lease.
    pub(crate) fn primary_of(&mut self, lease: LeaseId) -> Option<&mut Primary> {
        self.primary_mut().filter(|primary| primary.lease() == lease)
    }

    /// The same, if the lease has not run out.
    pub(crate) fn live_primary_of(&mut self, lease: LeaseId, now: Time) -> Option<&mut Primary> {
        self.primary_of(lease).filter(|primary| primary.is_live(now))
    }

    /// Whether it applies what that lease's holder orders.
    pub(crate) fn follows(&self, lease: LeaseId) -> bool {
        match self {
            Self::Secondary(secondary) => secondary.follows(lease),
            Self::Idle | Self::Primary(_) => false,
        }
    }

    /// A lease that is held ends before its time: a person is told.
    pub(crate) fn lose_lease(
        &mut self,
        stored: &StoredReplica,
        cx: &mut ReplicaContext<'_>,
        why: &str,
    ) {
        if self.primary().is_some_and(|primary| primary.is_live(cx.now)) {
            let event = stored.told(LogEvent::warn("lease lost")).with("why", why);
            cx.out.push(Effect::Log(event));
            self.become_idle(stored, cx.out, why);
        } else {
            self.end_lease(stored, cx.out, why);
        }
    }

    /// Ends the lease that it holds, if it holds one.
    pub(crate) fn end_lease(&mut self, stored: &StoredReplica, out: &mut Outbox, why: &str) {
        if let Some(primary) = self.primary() {
            let (asked_back, lease) = (primary.is_asked_back(), primary.lease());
            let name = if asked_back { "lease given back" } else { "lease ended" };
            out.debug(|| stored.told_lease(name, lease).with("why", why));
        }
        self.become_idle(stored, out, why);
    }

    fn become_idle(&mut self, stored: &StoredReplica, out: &mut Outbox, why: &str) {
        match std::mem::take(self) {
            Self::Primary(primary) => primary.end(stored, out, why),
            other => *self = other,
        }
    }

    /// The lease that it holds, if it is live, as a heartbeat reports it.
    pub(crate) fn held_lease(
        &mut self,
        stored: &StoredReplica,
        now: Time,
        clear: bool,
    ) -> Option<HeldLease> {
        let live = self.primary_mut().filter(|primary| primary.is_live(now));
        live.map(|primary| primary.held(stored, clear))
    }

    /// A client's write; whatever became possible is the caller's to start.
    pub(crate) fn take_write(
        &mut self,
        stored: &StoredReplica,
        cx: &mut ReplicaContext<'_>,
        from: Caller,
        write: Write,
    ) -> Result<(), Failure> {
        check_write(&write, cx.config)?;
        match self {
            Self::Primary(primary) => primary.on_write(stored, cx, from, write),
            Self::Idle | Self::Secondary(_) => Err(refusal(stored, write.version)),
        }
    }

    /// A client's append; whatever became possible is the caller's to start.
    pub(crate) fn take_append(
        &mut self,
        stored: &StoredReplica,
        cx: &mut ReplicaContext<'_>,
        from: Caller,
        append: Append,
    ) -> Result<(), Failure> {
        check_append(&append, cx.config)?;
        match self {
            Self::Primary(primary) => primary.on_append(stored, cx, from, append),
            Self::Idle | Self::Secondary(_) => Err(refusal(stored, append.version)),
        }
    }

    /// What is stored is to be brought to disk: a client asks the primary, and that one the others.
    pub(crate) fn start_sync(
        &mut self,
        stored: &StoredReplica,
        cx: &mut ReplicaContext<'_>,
        from: Caller,
        sync: &SyncChunk,
    ) -> Result<(), Failure> {
        stored.check_version(sync.version)?;
        match self {
            Self::Secondary(secondary) if sync.from_primary => {
                secondary.on_sync(stored, cx.out, from, sync.lease)
            }
            Self::Primary(primary) if !sync.from_primary => primary.on_sync(stored, cx, from, sync),
            _ => Err(not_holder(stored)),
        }
    }

    /// A client's connection is gone.
    pub(crate) fn forget_connection(&mut self, connection: ConnectionId) {
        // Only a primary keeps what clients asked for.
        if let Self::Primary(primary) = self {
            primary.forget_connection(connection);
        }
    }

    /// The primary's word on how far its chunk is acknowledged (R17).
    pub(crate) fn on_acknowledged(
        &self,
        stored: &mut StoredReplica,
        out: &mut Outbox,
        notice: &Acknowledged,
    ) {
        // Who follows no lease hears it from the next primary.
        if let Self::Secondary(secondary) = self {
            secondary.on_acknowledged(stored, out, notice);
        }
    }
}

/// Why a replica that is not the primary orders nothing (R12).
fn refusal(stored: &StoredReplica, version: ChunkVersion) -> Failure {
    stored.check_version(version).err().unwrap_or_else(|| not_holder(stored))
}
