//! Leases: which replica of a chunk may order its mutations, and until when (GFS §3.1).
//!
//! ```text
//!              GrantLease sent        answered            run out, given back, or the holder
//!   (raised) ────────────────► sent ───────────► serving ─────── took a later raise ──────► gone
//!                               │                  │  ▲ extended in heartbeats
//!                               │                  │  ▲ asked back, and held still
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

use cairn_types::planted::{Rule, broken};
use cairn_types::{ChunkHandle, ChunkVersion, Incarnation, LeaseId, ReplicaAt, ServerId, Time};
use std::collections::{BTreeMap, BTreeSet};

/// How far a lease can be relied upon.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum LeaseStatus {
    /// The grant is on its way, or its answer was lost.
    Sent,
    /// The holder said that it serves.
    Serving,
    /// It was asked back: until the holder has answered, or says that it holds it still, nobody is
    /// sent there.
    AskedBack,
    /// Somebody has reason to think that it does not serve; it runs out by itself.
    Doubted,
    /// The holder certainly no longer acts under it.
    Over,
}

/// One lease.
#[derive(Clone, Debug)]
pub(crate) struct GrantedLease {
    pub(crate) id: LeaseId,
    pub(crate) version: ChunkVersion,
    pub(crate) holder: ReplicaAt,
    pub(crate) incarnation: Incarnation,
    /// None where it was taken over from an earlier term and the set is not known yet.
    pub(crate) secondaries: Option<Vec<ReplicaAt>>,
    pub(crate) granted: Time,
    pub(crate) until: Time,
    pub(crate) status: LeaseStatus,
    /// The holder has said at some time that it serves: no grant is on its way any more.
    pub(crate) confirmed: bool,
    /// The holder may acknowledge appends under it.
    pub(crate) takes_appends: bool,
    /// Granted by an earlier term.
    pub(crate) adopted: bool,
    /// Bytes of the chunk, as last told by the holder.
    pub(crate) acknowledged: u64,
}

impl GrantedLease {
    /// Whether the holder may still act under it (G1).
    pub(crate) fn may_live(&self, now: Time) -> bool {
        now < self.until && self.status != LeaseStatus::Over
    }

    /// Whether a client may be sent to the holder.
    pub(crate) fn serves(&self, now: Time) -> bool {
        now < self.until && self.status == LeaseStatus::Serving
    }
}

/// All leases that may be live.
#[derive(Debug, Default)]
pub(crate) struct Leases {
    leases: BTreeMap<ChunkHandle, GrantedLease>,
    /// How many each server holds: asked for at every grant.
    counts: BTreeMap<ServerId, u64>,
    /// Chunks that this term has fenced, so that no former holder acknowledges appends (R18); until
    /// their close is logged.
    fenced: BTreeSet<ChunkHandle>,
}

impl Leases {
    pub(crate) fn get(&self, handle: ChunkHandle) -> Option<&GrantedLease> {
        self.leases.get(&handle)
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.leases.is_empty()
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = (ChunkHandle, &GrantedLease)> {
        self.leases.iter().map(|(handle, lease)| (*handle, lease))
    }

    /// The lease that clients may be sent to.
    pub(crate) fn serving(&self, handle: ChunkHandle, now: Time) -> Option<&GrantedLease> {
        self.get(handle).filter(|lease| lease.serves(now))
    }

    /// The lease that may be live, served or not (G1).
    pub(crate) fn possible(&self, handle: ChunkHandle, now: Time) -> Option<&GrantedLease> {
        self.get(handle).filter(|lease| lease.may_live(now))
    }

    /// Whether a server is a secondary under the chunk's lease.
    pub(crate) fn has_secondary(&self, handle: ChunkHandle, server: ServerId) -> bool {
        let secondaries = self.get(handle).and_then(|lease| lease.secondaries.as_ref());
        secondaries.is_some_and(|all| all.iter().any(|at| at.server == server))
    }

    /// Takes a fresh lease up, in place of one that is over (G1); what was fenced before is so no
    /// more.
    pub(crate) fn insert(&mut self, handle: ChunkHandle, lease: GrantedLease) {
        if let Some(former) = self.remove(handle) {
            assert!(!former.may_live(lease.granted), "one lease that may be live (G1)");
        }
        self.fenced.remove(&handle);
        *self.counts.entry(lease.holder.server).or_default() += 1;
        self.leases.insert(handle, lease);
    }

    pub(crate) fn remove(&mut self, handle: ChunkHandle) -> Option<GrantedLease> {
        let lease = self.leases.remove(&handle)?;
        let count = self.counts.get_mut(&lease.holder.server).expect("each lease is counted");
        assert!(*count > 0, "each lease is counted");
        *count -= 1;
        Some(lease)
    }

    /// A replica of the chunk took a raise with the close mark: nobody acknowledges an append
    /// there any more, and whoever has the lease cannot serve (R18).
    pub(crate) fn fence(&mut self, handle: ChunkHandle) {
        self.fenced.insert(handle);
        if let Some(id) = self.get(handle).map(|lease| lease.id) {
            self.set_status(handle, id, LeaseStatus::Doubted);
        }
    }

    /// Forgets the fences of chunks that are none of these: nobody grants an append there any more,
    /// fenced or not.
    pub(crate) fn keep_fences(&mut self, of: impl Fn(ChunkHandle) -> bool) {
        self.fenced.retain(|handle| of(*handle));
    }

    pub(crate) fn is_fenced(&self, handle: ChunkHandle) -> bool {
        self.fenced.contains(&handle)
    }

    /// The lease of that id, if it is still there.
    fn of_id(&mut self, handle: ChunkHandle, id: LeaseId) -> Option<&mut GrantedLease> {
        self.leases.get_mut(&handle).filter(|lease| lease.id == id)
    }

    /// The holder says that it serves.
    pub(crate) fn confirm(&mut self, handle: ChunkHandle, id: LeaseId) {
        self.set_status(handle, id, LeaseStatus::Serving);
        if let Some(lease) = self.of_id(handle, id) {
            lease.confirmed = true;
        }
    }

    /// The holder has closed its chunk to appends, and gives the lease up when it is answered.
    pub(crate) fn give_up(&mut self, handle: ChunkHandle, id: LeaseId) {
        let Some(lease) = self.of_id(handle, id) else {
            unreachable!("only a lease that is there is given up");
        };
        lease.takes_appends = false;
        self.set_status(handle, id, LeaseStatus::Doubted);
    }

    /// The lease goes on with a smaller set, which is logged (R14).
    pub(crate) fn shrink(
        &mut self,
        handle: ChunkHandle,
        id: LeaseId,
        (version, secondaries): (ChunkVersion, Vec<ReplicaAt>),
    ) {
        // It may have run out while the smaller set was logged; then nothing goes on.
        if let Some(lease) = self.of_id(handle, id) {
            let above = version > lease.version || broken(Rule::R1);
            assert!(above, "a shrunk set has a version of its own (R7)");
            lease.version = version;
            lease.secondaries = Some(secondaries);
        }
    }

    /// The holder tells how much of the chunk is acknowledged.
    pub(crate) fn note_acknowledged(
        &mut self,
        handle: ChunkHandle,
        (id, holder): (LeaseId, ServerId),
        length: u64,
    ) {
        // What a server tells of another one's lease is not heard.
        if let Some(lease) = self.of_id(handle, id)
            && lease.holder.server == holder
        {
            lease.acknowledged = lease.acknowledged.max(length);
        }
    }

    /// The holder has not given it back, and says that it holds it: it serves on.
    pub(crate) fn serves_on(&mut self, handle: ChunkHandle, id: LeaseId) {
        let asked = |lease: &&mut GrantedLease| lease.status == LeaseStatus::AskedBack;
        if let Some(lease) = self.of_id(handle, id).filter(asked) {
            lease.status = LeaseStatus::Serving;
        }
    }

    /// Lets a lease that serves go on (G3).
    pub(crate) fn extend(&mut self, handle: ChunkHandle, now: Time, until: Time) {
        let lease = self.leases.get_mut(&handle).expect("only a lease that is there is extended");
        assert!(lease.serves(now), "an extension revives nothing (G3)");
        lease.until = until;
    }

    /// Changes how far the lease is relied upon; one that is over stays so.
    pub(crate) fn set_status(&mut self, handle: ChunkHandle, id: LeaseId, status: LeaseStatus) {
        if let Some(lease) = self.of_id(handle, id)
            && lease.status != LeaseStatus::Over
        {
            lease.status = status;
        }
    }

    fn of_server(&mut self, server: ServerId) -> impl Iterator<Item = &mut GrantedLease> {
        self.leases.values_mut().filter(move |lease| lease.holder.server == server)
    }

    /// Until when the last of a server's leases may live; none that may.
    pub(crate) fn held_until(&self, server: ServerId) -> Option<Time> {
        let held = self.leases.values().filter(|lease| lease.holder.server == server);
        held.filter(|lease| lease.status != LeaseStatus::Over).map(|lease| lease.until).max()
    }

    /// A server started anew: what it held before, it holds no more. But a grant that is on its way
    /// may have reached its new life, so nothing is certain until that has told what it holds.
    pub(crate) fn doubt_holder(&mut self, server: ServerId) {
        for lease in self.of_server(server).filter(|lease| lease.status != LeaseStatus::Over) {
            lease.status = LeaseStatus::Doubted;
        }
    }

    /// The holder of these leases certainly acts no more under those that are `over`.
    pub(crate) fn end_where(&mut self, server: ServerId, over: impl Fn(&GrantedLease) -> bool) {
        for lease in self.of_server(server).filter(|lease| over(lease)) {
            lease.status = LeaseStatus::Over;
        }
    }

    /// `server` took a raise of this chunk: whatever lease it held ended with that (R7).
    pub(crate) fn raised_at(&mut self, handle: ChunkHandle, server: ServerId) {
        if let Some(lease) = self.leases.get_mut(&handle)
            && lease.holder.server == server
        {
            lease.status = LeaseStatus::Over;
        }
    }

    /// Takes out the leases whose time is over.
    pub(crate) fn expire(&mut self, now: Time) -> Vec<(ChunkHandle, GrantedLease)> {
        let over = |lease: &GrantedLease| now >= lease.until;
        let expired: Vec<ChunkHandle> =
            self.leases.iter().filter(|(_, lease)| over(lease)).map(|(h, _)| *h).collect();
        expired.into_iter().filter_map(|h| self.remove(h).map(|lease| (h, lease))).collect()
    }

    pub(crate) fn count_of(&self, server: ServerId) -> u64 {
        self.counts.get(&server).copied().unwrap_or_default()
    }
}
