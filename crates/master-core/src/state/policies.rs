//! Policies: what directories and files say of how files are kept, and who inherits what
//! (design §4).
//!
//! ```text
//!   policies   entry id → the parts that it says itself
//!   jobs       what is being brought to what a policy says (policy_job.rs)
//!
//!   /a says 2 replicas ──► /a/b says nothing ──► /a/b/f, made now, has 2
//! ```
//! - PO1: who says nothing takes no room; what an entry says goes with it.
//! - PO2: a part that a directory does not say it inherits from the nearest above it that does;
//!   where none does, the cell's settings hold.
//! - PO3: a file has its level and its durability itself (`entry_record.rs`): they are inherited
//!   once, when it is made. How long it is kept when it is deleted is looked up then.
//! - PO4: where nobody says anything, nothing is looked up.

use super::map::{DamageMark, Map};
use super::names::NameTree;
use super::packing::{Packed, put_number};
use super::policy_cache::PolicyCache;
use super::policy_job::PolicyJob;
use cairn_types::{CellConfig, EntryId, JobId, Layout, Policy, PolicyParts};
use std::collections::BTreeMap;

const REPLICATION: u8 = 1;
const KEEP_DELETED: u8 = 2;
const DURABILITY: u8 = 4;
const SYNCED: u8 = 8;
/// From record level 2 on.
const LAYOUT: u8 = 16;
const STREAM: u8 = 32;
/// From record level 3 on.
const COMMIT_REPLICAS: u8 = 64;

/// What is said, and what is being done about it.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct PolicyTable {
    said: Map,
    cache: PolicyCache,
    jobs: BTreeMap<JobId, PolicyJob>,
}

impl PolicyTable {
    pub(super) fn new(mark: &DamageMark) -> Self {
        Self::of(Map::new(mark), Vec::new())
    }

    /// From what an image has.
    pub(super) fn of(said: Map, jobs: Vec<PolicyJob>) -> Self {
        let jobs = jobs.into_iter().map(|job| (job.id, job)).collect();
        Self { said, cache: PolicyCache::default(), jobs }
    }

    pub(super) fn map(&self) -> &Map {
        &self.said
    }

    pub(super) fn map_mut(&mut self) -> &mut Map {
        &mut self.said
    }

    pub(super) fn jobs(&self) -> &BTreeMap<JobId, PolicyJob> {
        &self.jobs
    }

    pub(super) fn jobs_mut(&mut self) -> &mut BTreeMap<JobId, PolicyJob> {
        &mut self.jobs
    }

    /// What an entry says itself.
    pub(super) fn said(&self, id: EntryId) -> PolicyParts {
        // PO4
        if self.said.len() == 0 {
            return PolicyParts::default();
        }
        self.said.get(&key(id), unpack).unwrap_or_default()
    }

    /// From now on it says this.
    pub(super) fn say(&mut self, id: EntryId, parts: PolicyParts) {
        self.cache.forget();
        if parts.names().any() {
            self.said.set(&key(id), &pack(parts));
        } else {
            self.said.remove(&key(id));
        }
    }

    /// An entry is gone (PO1).
    pub(super) fn forget(&mut self, id: EntryId) {
        if self.said(id).names().any() {
            self.say(id, PolicyParts::default());
        }
    }

    /// The parts that are said for names in a directory (PO2).
    fn inherited(&self, names: &NameTree, directory: EntryId) -> PolicyParts {
        // PO4
        if self.said.len() == 0 {
            return PolicyParts::default();
        }
        let moves = names.moves();
        if let Some(known) = self.cache.get(directory, moves) {
            return known;
        }
        let way_up = names.way_up(directory).map(|(id, ..)| self.said(id));
        let parts = way_up.fold(PolicyParts::default(), PolicyParts::or);
        self.cache.remember(directory, moves, parts);
        parts
    }
}

/// What is asked about policies: of the names as they stand.
#[derive(Clone, Copy, Debug)]
pub struct Policies<'a> {
    pub(super) table: &'a PolicyTable,
    pub(super) names: &'a NameTree,
    pub(super) config: &'a CellConfig,
}

impl<'a> Policies<'a> {
    /// What an entry says itself.
    #[must_use]
    pub fn said(&self, id: EntryId) -> PolicyParts {
        self.table.said(id)
    }

    /// What holds for names in a directory that say nothing themselves (PO2).
    #[must_use]
    pub fn in_directory(&self, directory: EntryId) -> Policy {
        self.table.inherited(self.names, directory).over(of_cell(self.config))
    }

    /// How long an entry of a directory is kept when it is deleted, or gives way to another.
    pub fn keep_deleted_ms(
        &self,
        directory: EntryId,
        entry: impl FnOnce() -> Option<EntryId>,
    ) -> u64 {
        // PO4
        if self.table.said.len() == 0 {
            return self.config.keep_deleted_ms;
        }
        let said = entry().and_then(|id| self.said(id).keep_deleted_ms);
        said.unwrap_or_else(|| self.in_directory(directory).keep_deleted_ms)
    }

    /// The way up from a directory, as far as anybody on it says something: who, and what.
    pub fn sayers(
        &self,
        directory: EntryId,
    ) -> impl Iterator<Item = (EntryId, PolicyParts)> + use<'a> {
        let table = self.table;
        let way_up = self.names.way_up(directory).map(|(id, ..)| (id, table.said(id)));
        way_up.filter(|(_, parts)| parts.names().any())
    }

    /// What is being brought to what a policy says, by age.
    pub fn jobs(&self) -> impl Iterator<Item = &'a PolicyJob> + use<'a> {
        self.table.jobs.values()
    }

    /// One of these.
    #[must_use]
    pub fn job(&self, id: JobId) -> Option<&'a PolicyJob> {
        self.table.jobs.get(&id)
    }

    /// The one behind it, or else the first of all.
    #[must_use]
    pub fn job_behind(&self, id: JobId) -> Option<&'a PolicyJob> {
        let mut behind = self.table.jobs.range(id.next()..);
        behind.next().or_else(|| self.table.jobs.first_key_value()).map(|(_, job)| job)
    }
}

/// What holds where nobody says otherwise.
pub(super) fn of_cell(config: &CellConfig) -> Policy {
    Policy {
        replication: config.replication,
        keep_deleted_ms: config.keep_deleted_ms,
        synced: false,
        layout: Layout::default(),
        commit_replicas: 0,
    }
}

fn key(id: EntryId) -> [u8; 8] {
    id.get().to_be_bytes()
}

fn pack(parts: PolicyParts) -> Vec<u8> {
    let flag = |is_set: bool, flag: u8| if is_set { flag } else { 0 };
    let mut out = vec![
        flag(parts.replication.is_some(), REPLICATION)
            | flag(parts.keep_deleted_ms.is_some(), KEEP_DELETED)
            | flag(parts.synced.is_some(), DURABILITY)
            | flag(parts.synced == Some(true), SYNCED)
            | flag(parts.layout.is_some(), LAYOUT)
            | flag(parts.layout == Some(Layout::Stream), STREAM)
            | flag(parts.commit_replicas.is_some(), COMMIT_REPLICAS),
    ];
    if let Some(replication) = parts.replication {
        put_number(&mut out, u64::from(replication));
    }
    if let Some(keep_deleted_ms) = parts.keep_deleted_ms {
        put_number(&mut out, keep_deleted_ms);
    }
    if let Some(commit_replicas) = parts.commit_replicas {
        put_number(&mut out, u64::from(commit_replicas));
    }
    out
}

fn unpack(packed: &[u8]) -> Option<PolicyParts> {
    let mut packed = Packed(packed);
    let flags = packed.byte()?;
    let mut parts = PolicyParts::default();
    if flags & REPLICATION != 0 {
        parts.replication = Some(packed.small()?);
    }
    if flags & KEEP_DELETED != 0 {
        parts.keep_deleted_ms = Some(packed.number()?);
    }
    if flags & COMMIT_REPLICAS != 0 {
        parts.commit_replicas = Some(packed.small()?);
    }
    parts.synced = (flags & DURABILITY != 0).then_some(flags & SYNCED != 0);
    let layout = if flags & STREAM == 0 { Layout::Chunks } else { Layout::Stream };
    parts.layout = (flags & LAYOUT != 0).then_some(layout);
    packed.end(parts)
}

#[cfg(test)]
mod tests {
    use super::{pack, unpack};
    use cairn_types::{Layout, PolicyParts};
    use proptest::prelude::{any, proptest};

    proptest! {
        #[test]
        fn what_is_said_comes_back_and_no_bytes_make_it_panic(
            replication: Option<u32>, keep_deleted_ms: Option<u64>, synced: Option<bool>,
            layout: Option<bool>, commit_replicas: Option<u32>,
            raw in proptest::collection::vec(any::<u8>(), 0..20),
        ) {
            let layout = layout.map(|it| if it { Layout::Stream } else { Layout::Chunks });
            let parts =
                PolicyParts { replication, keep_deleted_ms, synced, layout, commit_replicas };
            assert_eq!(unpack(&pack(parts)), Some(parts));
            let _ = unpack(&raw);
        }
    }

    #[test]
    fn a_level_alone_takes_two_bytes() {
        let parts = PolicyParts { replication: Some(2), ..PolicyParts::default() };
        assert_eq!(pack(parts).len(), 2);
    }
}
