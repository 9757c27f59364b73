//! Which replicas of a chunk have to hold what was acknowledged, by the ledger: the simulator's own
//! oracle of what may be demanded of the cell.

use crate::ledger::{AcknowledgedMutation, ChunkLedger};
use crate::replica_ledger::ReplicaLedger;
use crate::stopped_nodes::StoppedNodes;
use cairn_env_sim::{NodeId, WorldTime};
use cairn_types::{ChunkVersion, PushId};

impl ChunkLedger {
    /// Nodes that the cell itself can take for good: intact, undoubted, at the logged version.
    pub(crate) fn known_good(&self) -> Vec<NodeId> {
        let Some((version, _)) = self.version() else { return Vec::new() };
        let good = |node: &NodeId| {
            let replica = &self.replicas[node];
            !replica.suspect && !replica.told_suspect && replica.version >= version
        };
        let mut all = self.intact();
        all.retain(good);
        all
    }

    /// Nodes whose disks hold everything that was acknowledged, undamaged. Not an old image that
    /// came back when the cell had gone on without what it holds (seed 238), nor one that came back
    /// when the cell had gone on with an old image alone; nor one that has what it has from
    /// another's levelling, or as its clone, where that one had lost it (seed 1387).
    pub(crate) fn intact(&self) -> Vec<NodeId> {
        let logged = self.version().map(|(version, _)| version);
        let came_back_late = |replica: &ReplicaLedger| {
            let is_stale = Some(replica.version) < logged;
            replica.turned_back.is_some() && is_stale || replica.version < self.went_on_at
        };
        let has = |replica: &ReplicaLedger, push: &PushId| {
            replica.applied.contains_key(push) && !replica.gone.contains(push)
        };
        let whole = |replica: &ReplicaLedger| {
            !came_back_late(replica)
                && !replica.absent
                && !replica.lost
                && !replica.flipped
                && self.acknowledged.iter().all(|done| has(replica, &done.push))
        };
        self.replicas.iter().filter(|(_, it)| whole(it)).map(|(node, _)| *node).collect()
    }

    /// A version is logged: of a set with an old image, which lacks what was acknowledged, when all
    /// who have that had been away for as long as it takes to die (seed 158 at b7fbed5a), or are
    /// doubted, before which the sound one comes (R28, seed 316).
    pub(crate) fn goes_on(&mut self, version: ChunkVersion, stopped: &StoppedNodes, at: WorldTime) {
        let is_old = |(node, it): (&NodeId, &ReplicaLedger)| {
            let lacks = |done: &AcknowledgedMutation| !it.applied.contains_key(&done.push);
            let is_of_set = it.version >= version && stopped.runs(*node);
            it.turned_back.is_some() && is_of_set && self.acknowledged.iter().any(lacks)
        };
        let is_passed_over = |node: &NodeId| {
            let replica = &self.replicas[node];
            replica.suspect || replica.told_suspect || stopped.is_dead(*node, at)
        };
        if self.replicas.iter().any(is_old) && self.intact().iter().all(is_passed_over) {
            self.went_on_at = version;
        }
    }

    /// Of those, the ones that the cell may use without a person: none that stood before a set was
    /// decided on which may have less (R28, streams' seed 2053).
    pub(crate) fn intact_within_reach(&self) -> Vec<NodeId> {
        let mut all = self.intact();
        all.retain(|node| self.replicas[node].version >= self.decided_at);
        all
    }

    /// Of those, the ones from whom readers are given a stream's bytes: where a set was decided on
    /// that has less (R41), or where faults have taken all that the set's disks had, nobody else:
    /// a person alone makes a set of one that was left out, by its name (R28, stream seed 549).
    pub(crate) fn intact_for_readers(&self) -> Vec<NodeId> {
        let logged = self.version().map(|(version, _)| version);
        let is_of_set = |node: &NodeId| Some(self.replicas[node].version) >= logged;
        let is_taken = |it: &ReplicaLedger| it.absent || it.flipped || it.lost;
        let set_is_taken = self.replicas.iter().all(|(node, it)| !is_of_set(node) || is_taken(it));
        let mut all = self.intact();
        all.retain(|node| !(self.decided || set_is_taken) || is_of_set(node));
        all
    }

    /// Whether one that stands at the logged version, or above, has a bundle of a stream for sure:
    /// readers are given it, now or later (R41).
    pub(crate) fn set_has(&self, bundle: &PushId) -> bool {
        let logged = self.version().map(|(version, _)| version);
        self.replicas.values().any(|it| {
            Some(it.version) >= logged
                && it.applied.contains_key(bundle)
                && !it.gone.contains(bundle)
                && !it.flipped
        })
    }

    /// Whether one of these had a push at that version, or above, before its disk was set back,
    /// which nobody else can know yet.
    pub(crate) fn had_untold<'a>(
        &self,
        untold: impl IntoIterator<Item = &'a NodeId>,
        push: &PushId,
        version: ChunkVersion,
    ) -> bool {
        let mut before = untold.into_iter().filter_map(|node| self.set_back.get(node));
        before.any(|it| {
            it.version >= version && it.applied.contains_key(push) && !it.gone.contains(push)
        })
    }

    /// Whether fewer than so many of these nodes' replicas are sure to hold all that was
    /// acknowledged: the rest are damaged, or may have lost bytes, or lack what another has.
    pub(crate) fn lacks_sure(&self, nodes: &[NodeId], least: usize) -> bool {
        let replica = |node: &NodeId| &self.replicas[node];
        let is_somewhere =
            |push: &PushId| nodes.iter().any(|node| replica(node).applied.contains_key(push));
        let lacks = |it: &ReplicaLedger| {
            let mut acknowledged = self.acknowledged.iter().map(|done| done.push);
            acknowledged.any(|push| !it.applied.contains_key(&push) && is_somewhere(&push))
        };
        let is_doubted = |it: &ReplicaLedger| it.suspect || it.told_suspect || it.flipped;
        let is_sure = |it: &&ReplicaLedger| !is_doubted(it) && !lacks(it);
        nodes.iter().map(replica).filter(is_sure).count() < least
    }

    /// Nodes whose disks hold, undamaged, everything that was told to be on all disks; but for
    /// those that the cell has gone on without, with an old image: a person has to bring them back.
    pub(crate) fn with_all_synced(&self) -> Vec<NodeId> {
        let has = |it: &ReplicaLedger, push| it.synced.contains(push) && !it.gone.contains(push);
        let whole = |it: &ReplicaLedger| {
            let gone_on_without = it.version < self.went_on_at;
            !it.flipped
                && !it.absent
                && !gone_on_without
                && self.told_synced.iter().all(|push| has(it, push))
        };
        self.replicas.iter().filter(|(_, it)| whole(it)).map(|(node, _)| *node).collect()
    }
}
