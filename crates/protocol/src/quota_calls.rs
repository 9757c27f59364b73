//! Quotas: how many names and bytes may lie below a directory, and how many do (R36, design §4).

use cairn_types::{CellPath, MutationName};

/// Quotas above a directory that are told at most.
pub const QUOTAS_TOLD_MAX: usize = 8;

cairn_types::message! {
    /// What lies below a directory, and what may.
    pub struct GetQuota { 1 => path: CellPath }
}
cairn_types::message! {
    /// What lies below a directory, itself not counted: asked of totals that are kept, however much
    /// it is.
    pub struct SubtreeTotals {
        1 => file_count: u64,
        2 => directory_count: u64,
        /// The recorded lengths of the files.
        3 => length: u64,
        /// The same, as often as each file has replicas.
        4 => stored: u64,
        /// What the files are charged: of what is being written, whole chunks.
        5 => charged: u64,
        /// Files and directories that were deleted and are not purged.
        6 => deleted_count: u64,
        /// What these are charged.
        7 => deleted_charged: u64,
    }
}
cairn_types::message! {
    /// The quota of a directory, and what counts against it: what was deleted counts until it is
    /// purged.
    pub struct QuotaUse {
        1 => path: String,
        /// None: names are not limited.
        2 => names_max: Option<u64>,
        /// None: bytes are not limited.
        3 => bytes_max: Option<u64>,
        4 => names: u64,
        5 => bytes: u64,
    }
}
cairn_types::message! {
    /// The quotas that what is made there counts in: that of the directory itself first, where it
    /// has one, then those of directories above, the nearest ones.
    pub struct GetQuotaAnswer { 1 => totals: SubtreeTotals, 2 => quotas: Vec<QuotaUse> }
}

cairn_types::message! {
    /// Gives a directory another quota.
    pub struct SetQuota {
        1 => mutation: MutationName,
        2 => path: CellPath,
        /// Files and directories that may lie below it; none: as before.
        3 => names: Option<u64>,
        /// Bytes that these may be charged; none: as before.
        4 => bytes: Option<u64>,
        /// The quota that it had is dropped.
        5 => clears: bool,
    }
}
cairn_types::message! {
    /// It is logged.
    pub struct SetQuotaAnswer { }
}
