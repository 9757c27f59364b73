//! What has to be undone of faults later, and when.

use crate::cell::DISK_CAPACITY;
use crate::simulation::Simulation;
use cairn_env_sim::NodeId;
use std::collections::BTreeMap;
use std::time::Duration;

/// Tokens of faults that end; below the workloads'.
const ENDINGS: u64 = 1_000;

/// What has to be undone later.
#[derive(Clone, Copy, Debug)]
pub(crate) enum FaultEnd {
    Restart(NodeId),
    /// The fuse has done its work by then, or is taken out.
    Defuse(NodeId),
    Heal(NodeId, NodeId),
    Quick(NodeId),
    QuickDisk(NodeId),
    Clean,
    Roomy(NodeId),
    /// The disk does nothing wrong any more.
    Sound(NodeId),
    /// What it did wrong before that has been told to its process, however slow it is.
    Told(NodeId),
    /// Files can be opened again.
    Descriptors(NodeId),
    /// The process is ended if its failed sync has not; then its machine may lose power.
    FailedSync(NodeId),
    /// What was held back arrives.
    Release,
    /// It reaches its peers again.
    Rejoin(NodeId),
    PowerLoss(NodeId),
    /// Empty directories take the places of those that it lost.
    NewDirectories(NodeId),
    /// It has its own disks again.
    OwnDisks(NodeId),
    /// Its copy is not taken for alive any more.
    Rested(NodeId),
    /// All that it has stored can be read again.
    Readable(NodeId),
    /// A master that was set back has its newer directory again.
    PutForward(NodeId),
}

/// All that has to be undone.
#[derive(Debug)]
pub(crate) struct FaultEndings {
    open: BTreeMap<u64, FaultEnd>,
    next: u64,
}

impl Default for FaultEndings {
    fn default() -> Self {
        Self { open: BTreeMap::new(), next: ENDINGS }
    }
}

impl FaultEndings {
    /// A fault ends within so many milliseconds.
    pub(crate) fn within(&mut self, sim: &mut Simulation, max_ms: u64, ending: FaultEnd) {
        let wait = Duration::from_millis(1 + sim.random().below(max_ms));
        self.after(sim, wait, ending);
    }

    /// A fault ends after that time.
    pub(crate) fn after(&mut self, sim: &mut Simulation, wait: Duration, ending: FaultEnd) {
        self.next += 1;
        self.open.insert(self.next, ending);
        sim.world.script(wait, self.next);
    }

    /// What a token ends.
    pub(crate) fn take(&mut self, token: u64) -> Option<FaultEnd> {
        self.open.remove(&token)
    }

    /// Whether a partition of this machine is to end.
    pub(crate) fn heals(&self, node: NodeId) -> bool {
        let is_its =
            |ending: &FaultEnd| matches!(ending, FaultEnd::Heal(a, b) if *a == node || *b == node);
        self.open.values().any(is_its)
    }

    /// Nothing ends by itself any more, but a rest: who is refused until then is missed for ever.
    pub(crate) fn clear(&mut self) {
        self.open.retain(|_, ending| matches!(ending, FaultEnd::Rested(_)));
    }
}

/// Disks have room again.
pub(crate) fn make_room(sim: &mut Simulation, node: NodeId) {
    sim.world.disks(node).iter().for_each(|disk| disk.set_capacity(DISK_CAPACITY));
}

/// A machine is as quick as it was, and has room.
pub(crate) fn set_at_ease(sim: &mut Simulation, node: NodeId) {
    sim.world.slow(node, 1);
    sim.world.slow_disk(node, 1);
    make_room(sim, node);
}

/// One of the faults that are counted of a machine is over.
pub(crate) fn one_less(faults: &mut BTreeMap<NodeId, u32>, node: NodeId) {
    if let Some(count) = faults.get_mut(&node) {
        *count -= 1;
        if *count == 0 {
            faults.remove(&node);
        }
    }
}

/// A running process is not killed by a fuse any more.
pub(crate) fn defuse(sim: &mut Simulation, node: NodeId) {
    if sim.world.is_alive(node) {
        sim.world.disks(node).iter().for_each(|disk| disk.arm_fuse(u64::MAX));
    }
}
