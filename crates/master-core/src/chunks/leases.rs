//! Leases: which replica of a chunk may order its mutations, and until when (GFS §3.1).
//!
//! ```text
//!              GrantLease sent        answered            run out, given back, or the holder
//!   (raised) ────────────────► sent ───────────► serving ─────── took a later raise ──────► gone
//!                               │                  │  ▲ extended in heartbeats
//!                               └─ unknown ────────┴──┴─► doubted: answers nobody, is not
//!                                                         extended, runs out by itself
//! ```
//! - G1: a chunk has at most one lease that may be live; a lease whose fate is unknown counts as
//!   live until its time is over.
//! - G2: the master counts from when it sends the grant or the extension's answer, the holder from
//!   earlier: the holder stops first (R4).
//! - G3: an extension revives nothing, and names lease and version (R21).
//!
//! Knows handles, servers and the time it is handed; never sees a path.

use cairn_types::{ChunkHandle, ChunkVersion, Incarnation, LeaseId, ReplicaAt, ServerId, Time};
use std::collections::BTreeMap;

/// How far a lease can be relied upon.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum LeaseStatus {
    /// The grant is on its way, or its answer was lost.
    Sent,
    /// The holder said that it serves.
    Serving,
    /// Somebody has reason to think that it does not serve; it runs out by itself.
    Doubted,
    /// The holder certainly no longer acts under it.
    Over,
}

/// One lease.
#[derive(Clone, Debug)]
pub(super) struct Lease {
    pub(super) id: LeaseId,
    pub(super) version: ChunkVersion,
    pub(super) holder: ReplicaAt,
    pub(super) incarnation: Incarnation,
    /// None where it was taken over from an earlier term and the set is not known yet.
    pub(super) secondaries: Option<Vec<ReplicaAt>>,
    pub(super) granted: Time,
    pub(super) until: Time,
    pub(super) status: LeaseStatus,
    /// The holder has said at some time that it serves: no grant is on its way any more.
    pub(super) confirmed: bool,
    /// The holder may acknowledge appends under it.
    pub(super) takes_appends: bool,
    /// Granted by an earlier term.
    pub(super) adopted: bool,
    /// Bytes of the chunk, as last told by the holder.
    pub(super) acknowledged: u64,
}

impl Lease {
    /// Whether the holder may still act under it (G1).
    pub(super) fn may_live(&self, now: Time) -> bool {
        now < self.until && self.status != LeaseStatus::Over
    }

    /// Whether a client may be sent to the holder.
    pub(super) fn serves(&self, now: Time) -> bool {
        now < self.until && self.status == LeaseStatus::Serving
    }
}

/// All leases that may be live.
#[derive(Debug, Default)]
pub(super) struct Leases {
    leases: BTreeMap<ChunkHandle, Lease>,
    /// How many each server holds: asked for at every grant.
    counts: BTreeMap<ServerId, u64>,
}

impl Leases {
    pub(super) fn get(&self, handle: ChunkHandle) -> Option<&Lease> {
        self.leases.get(&handle)
    }

    pub(super) fn get_mut(&mut self, handle: ChunkHandle) -> Option<&mut Lease> {
        self.leases.get_mut(&handle)
    }

    pub(super) fn is_empty(&self) -> bool {
        self.leases.is_empty()
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = (ChunkHandle, &Lease)> {
        self.leases.iter().map(|(handle, lease)| (*handle, lease))
    }

    /// The lease that clients may be sent to.
    pub(super) fn serving(&self, handle: ChunkHandle, now: Time) -> Option<&Lease> {
        self.get(handle).filter(|lease| lease.serves(now))
    }

    /// The lease that may be live, served or not (G1).
    pub(super) fn possible(&self, handle: ChunkHandle, now: Time) -> Option<&Lease> {
        self.get(handle).filter(|lease| lease.may_live(now))
    }

    pub(super) fn insert(&mut self, handle: ChunkHandle, lease: Lease) {
        self.remove(handle);
        *self.counts.entry(lease.holder.server).or_default() += 1;
        self.leases.insert(handle, lease);
    }

    pub(super) fn remove(&mut self, handle: ChunkHandle) -> Option<Lease> {
        let lease = self.leases.remove(&handle)?;
        if let Some(count) = self.counts.get_mut(&lease.holder.server) {
            *count -= 1;
        }
        Some(lease)
    }

    /// The holder says that it serves.
    pub(super) fn confirm(&mut self, handle: ChunkHandle, id: LeaseId) {
        self.set_status(handle, id, LeaseStatus::Serving);
        if let Some(lease) = self.leases.get_mut(&handle)
            && lease.id == id
        {
            lease.confirmed = true;
        }
    }

    /// Changes how far the lease is relied upon; one that is over stays so.
    pub(super) fn set_status(&mut self, handle: ChunkHandle, id: LeaseId, status: LeaseStatus) {
        if let Some(lease) = self.leases.get_mut(&handle)
            && lease.id == id
            && lease.status != LeaseStatus::Over
        {
            lease.status = status;
        }
    }

    /// `server` took a raise of this chunk: whatever lease it held ended with that (R7).
    pub(super) fn raised_at(&mut self, handle: ChunkHandle, server: ServerId) {
        if let Some(lease) = self.leases.get_mut(&handle)
            && lease.holder.server == server
        {
            lease.status = LeaseStatus::Over;
        }
    }

    /// Takes out the leases whose time is over.
    pub(super) fn expire(&mut self, now: Time) -> Vec<(ChunkHandle, Lease)> {
        let over = |lease: &Lease| now >= lease.until;
        let expired: Vec<ChunkHandle> =
            self.leases.iter().filter(|(_, lease)| over(lease)).map(|(h, _)| *h).collect();
        expired.into_iter().filter_map(|h| self.remove(h).map(|lease| (h, lease))).collect()
    }

    pub(super) fn count_of(&self, server: ServerId) -> u64 {
        self.counts.get(&server).copied().unwrap_or_default()
    }
}
