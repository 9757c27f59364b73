//! What people are told of repair: which chunks lack replicas, and what is being copied.

use cairn_types::{ChunkHandle, ReplicaAt};

cairn_types::code! {
    /// Why a chunk needs another replica, the worst first.
    #[derive(Default)]
    pub enum CopyNeed {
        /// It has fewer good ones than its goal.
        #[default]
        Lack = 1,
        /// It has them, and some of them are on servers that are to be emptied.
        Drain = 2,
        /// It has them, and all stand in one rack while another has room.
        Rack = 3,
    }
}

cairn_types::message! {
    /// Chunks that stand alike below their goal.
    #[derive(Copy)]
    pub struct BelowGoalCount {
        /// Good replicas that each has: up to date, not known to have lost or bent anything, on a
        /// server that is not dead.
        1 => good: u32,
        2 => goal: u32,
        /// Of deleted files.
        3 => deleted: bool,
        4 => count: u64,
        45 => need: CopyNeed,
    }
}

cairn_types::message! {
    /// A clone that is being made.
    pub struct CloneStatus {
        1 => handle: ChunkHandle,
        /// The file's path, a hidden one for a deleted file.
        2 => path: String,
        3 => source: ReplicaAt,
        4 => receiver: ReplicaAt,
        /// Bytes, as its receiver's heartbeats tell.
        5 => copied: u64,
        6 => total: u64,
        7 => age_ms: u64,
        /// It is copied, and joins the chunk's replicas.
        8 => joins: bool,
    }
}

cairn_types::message! {
    /// What is being done about chunks that lack replicas.
    pub struct RepairStatus { }
}
cairn_types::message! {
    /// As the master knows it now.
    pub struct RepairStatusAnswer {
        /// Chunks below their goal, the most urgent first. Those of which a server is merely silent
        /// are not among them.
        1 => below_goal: Vec<BelowGoalCount>,
        2 => clone_count: u64,
        /// The first of them, in order of handles.
        3 => clones: Vec<CloneStatus>,
    }
}
