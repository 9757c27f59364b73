//! Policies: how files are kept, by directory and by file (design §4).

use cairn_types::{CellPath, EntryKind, MutationName, Policy, PolicyPartNames, PolicyParts};

cairn_types::code! {
    /// Who says a part of a policy.
    #[derive(Default)]
    pub enum PolicySource {
        /// The cell's settings.
        #[default]
        Cell = 1,
        /// A directory above.
        Above = 2,
        /// The file or directory itself.
        Itself = 3,
        /// Nobody now: a file got it when it was made.
        Made = 4,
    }
}
cairn_types::message! {
    /// Where a part of a policy comes from; `path` is that of the directory above.
    pub struct PolicyOrigin { 1 => source: PolicySource, 2 => path: String }
}

cairn_types::message! {
    /// What holds for a path.
    pub struct GetPolicy { 1 => path: CellPath }
}
cairn_types::message! {
    /// What holds for a file, or for what is made in a directory, and where each part comes from.
    pub struct GetPolicyAnswer {
        1 => kind: EntryKind,
        2 => policy: Policy,
        /// What it says itself.
        3 => own: PolicyParts,
        4 => replication: Box<PolicyOrigin>,
        5 => keep_deleted: Box<PolicyOrigin>,
        6 => durability: Box<PolicyOrigin>,
        7 => layout: Box<PolicyOrigin>,
        8 => commit_replicas: Box<PolicyOrigin>,
    }
}

cairn_types::message! {
    /// Has a file or directory say something else.
    pub struct SetPolicy {
        1 => mutation: MutationName,
        2 => path: CellPath,
        3 => set: PolicyParts,
        /// Parts that it says no more.
        4 => inherit: PolicyPartNames,
        /// What exists below gets what it would get, were it made now: of the parts that are set
        /// or inherited here, or where there are none of all.
        5 => apply: bool,
    }
}
cairn_types::message! {
    /// It is logged; `job` is what is left to do for it, empty where nothing is.
    pub struct SetPolicyAnswer { 1 => job: String }
}
