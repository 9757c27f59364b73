//! What people are told of repair: which chunks lack replicas, and what is being copied.

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
    }
}
