//! Quotas: how many names and bytes may lie below a directory, and how many do (R36).
//!
//! ```text
//!   quotas  directory id ─► its limits, and what counts against them
//!   hot     the same, of those in which something has changed lately
//!
//!   /home has 1000 names ──► /home/anna has 100 ──► a file made there counts in both
//! ```
//! - QU1: what counts is exact at each record: a change below a quota is added to it at once, and
//!   waits for nothing (totals.rs).
//! - QU2: where no directory has a quota, nothing is looked up.
//! - QU3: what is there stays: a quota that is set below what counts refuses more, and takes
//!   nothing away.
//! - QU4: of a row that is hot the tree has an older one; which ones are makes no state another.

use super::map::{DamageMark, Map};
use super::packing::{Packed, put_number};
use super::quota_cache::QuotaCache;
use super::totals::{PendingTotals, SubtreeSum};
use cairn_types::EntryId;
use std::collections::BTreeMap;
use std::sync::Arc;

/// Rows that are hot at most: then all go into the tree together.
const HOT_MAX: usize = 256;

const NAMES: u8 = 1;
const BYTES: u8 = 2;

/// The limits of a directory.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct QuotaLimits {
    /// Files and directories below it; none: as many as there is room for.
    pub names: Option<u64>,
    /// Bytes that these are charged.
    pub bytes: Option<u64>,
}

impl QuotaLimits {
    /// Whether anything is limited.
    #[must_use]
    pub fn any(&self) -> bool {
        self.names.is_some() || self.bytes.is_some()
    }
}

/// A quota, and what counts against it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Quota {
    /// What may lie below.
    pub limits: QuotaLimits,
    /// Names that count.
    pub names: u64,
    /// Bytes that count.
    pub bytes: u64,
}

/// A quota as it is kept: sums that may pass what a number can say.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct QuotaRow {
    limits: QuotaLimits,
    used: SubtreeSum,
}

impl QuotaRow {
    fn pack(&self) -> Vec<u8> {
        let mut out = Vec::with_capacity(32);
        let flag = |is_set: bool, flag: u8| if is_set { flag } else { 0 };
        let QuotaLimits { names, bytes } = self.limits;
        out.push(flag(names.is_some(), NAMES) | flag(bytes.is_some(), BYTES));
        names.into_iter().chain(bytes).for_each(|limit| put_number(&mut out, limit));
        self.used.pack(&mut out);
        out
    }

    fn unpack(packed: &[u8]) -> Option<Self> {
        let mut packed = Packed(packed);
        let flags = packed.byte().filter(|flags| flags & !(NAMES | BYTES) == 0)?;
        let mut limit = |flag: u8| match flags & flag {
            0 => Some(None),
            _ => packed.number().map(Some),
        };
        let limits = QuotaLimits { names: limit(NAMES)?, bytes: limit(BYTES)? };
        let used = SubtreeSum::unpack(&mut packed)?;
        packed.end(Self { limits, used })
    }
}

/// Who would have more than its quota allows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Exceeded {
    pub(super) directory: EntryId,
    pub(super) what: &'static str,
    pub(super) limit: u64,
    pub(super) used: u64,
    pub(super) wanted: u64,
}

/// All quotas.
#[derive(Clone, Debug)]
pub(super) struct QuotaTable {
    quotas: Map,
    hot: BTreeMap<EntryId, QuotaRow>,
    cache: QuotaCache,
}

impl QuotaTable {
    pub(super) fn new(mark: &DamageMark) -> Self {
        Self::of(Map::new(mark))
    }

    /// From what an image has.
    pub(super) fn of(quotas: Map) -> Self {
        Self { quotas, hot: BTreeMap::new(), cache: QuotaCache::default() }
    }

    pub(super) fn map(&self) -> &Map {
        &self.quotas
    }

    pub(super) fn map_mut(&mut self) -> &mut Map {
        &mut self.quotas
    }

    /// Whether no directory has one (QU2).
    pub(super) fn is_empty(&self) -> bool {
        self.quotas.len() == 0
    }

    fn row(&self, directory: EntryId) -> Option<QuotaRow> {
        if self.is_empty() {
            return None;
        }
        let hot = self.hot.get(&directory).copied();
        hot.or_else(|| self.quotas.get(&key(directory), QuotaRow::unpack))
    }

    /// The rows that are hot, for an image.
    pub(super) fn hot(&self) -> Vec<PendingTotals> {
        let packed = self.hot.iter().map(|(id, row)| (*id, row.pack().into()));
        packed.map(|(directory, packed)| PendingTotals { directory, packed }).collect()
    }

    /// What an image says that was hot; whether that makes sense.
    pub(super) fn take_up_hot(&mut self, hot: &[PendingTotals]) -> bool {
        hot.iter().all(|PendingTotals { directory, packed }| {
            let row = QuotaRow::unpack(packed);
            row.is_some_and(|row| self.hot.insert(*directory, row).is_none())
        })
    }

    /// All rows go into the tree.
    pub(super) fn cool(&mut self) {
        for (directory, row) in std::mem::take(&mut self.hot) {
            self.quotas.set(&key(directory), &row.pack());
        }
    }

    /// The quota of a directory.
    pub(super) fn get(&self, directory: EntryId) -> Option<Quota> {
        let QuotaRow { limits, used } = self.row(directory)?;
        Some(Quota { limits, names: used.names(), bytes: used.charged() })
    }

    /// The directories behind an id that have one, by id.
    pub(super) fn after(&self, id: EntryId) -> impl Iterator<Item = EntryId> + use<'_> {
        let mut walk = self.quotas.walk(&key(id));
        let all = std::iter::from_fn(move || {
            walk.unpack(|key, _| {
                let mut key = Packed(key);
                let id = EntryId::new(key.key()?);
                key.end(Some(id))
            })
        });
        all.skip_while(move |found| *found <= id)
    }

    /// Which directories on the way up from one have quotas; `way_up` is looked at where that is
    /// not known.
    pub(super) fn above(
        &self,
        directory: EntryId,
        way_up: impl Iterator<Item = EntryId>,
    ) -> Arc<[EntryId]> {
        if let Some(known) = self.cache.get(directory) {
            return known;
        }
        let above: Arc<[EntryId]> = way_up.filter(|id| self.row(*id).is_some()).collect();
        self.cache.remember(directory, Arc::clone(&above));
        above
    }

    /// Ways up lead elsewhere from now on.
    pub(super) fn forget_ways(&mut self) {
        self.cache.forget();
    }

    /// From now on a directory has this quota; what lies below it counts.
    pub(super) fn set(&mut self, directory: EntryId, limits: QuotaLimits, used: SubtreeSum) {
        self.cache.forget();
        self.hot.remove(&directory);
        if limits.any() {
            self.quotas.set(&key(directory), &QuotaRow { limits, used }.pack());
        } else {
            self.quotas.remove(&key(directory));
        }
    }

    /// A directory is gone.
    pub(super) fn forget(&mut self, directory: EntryId) {
        if self.row(directory).is_some() {
            self.set(directory, QuotaLimits::default(), SubtreeSum::default());
        }
    }

    /// What lies below a directory that has one has changed (QU1).
    pub(super) fn add(&mut self, directory: EntryId, change: SubtreeSum) {
        let Some(mut row) = self.row(directory) else { return };
        assert!(row.limits.any(), "a quota limits something");
        row.used += change;
        self.hot.insert(directory, row);
        if self.hot.len() > HOT_MAX {
            self.cool();
        }
        assert!(self.hot.len() <= HOT_MAX, "what is hot is bounded");
    }

    /// Whether so much more may lie below a directory.
    pub(super) fn check(&self, directory: EntryId, more: SubtreeSum) -> Result<(), Exceeded> {
        let Some(QuotaRow { limits, used }) = self.row(directory) else { return Ok(()) };
        let of = |what, limit: Option<u64>, used: u64, wanted: u64| match limit {
            Some(limit) if wanted > 0 && used.saturating_add(wanted) > limit => {
                Err(Exceeded { directory, what, limit, used, wanted })
            }
            _ => Ok(()),
        };
        of("names", limits.names, used.names(), more.names())?;
        of("bytes", limits.bytes, used.charged(), more.charged())
    }
}

fn key(id: EntryId) -> [u8; 8] {
    id.get().to_be_bytes()
}

#[cfg(test)]
mod tests {
    use super::{DamageMark, QuotaLimits, QuotaRow, QuotaTable, SubtreeSum};
    use cairn_types::EntryId;
    use proptest::prelude::{any, proptest};

    const HOME: EntryId = EntryId::new(7);

    fn sum(files: i64, bytes: i128) -> SubtreeSum {
        SubtreeSum { files, bytes, ..SubtreeSum::default() }
    }

    #[test]
    fn a_limit_is_reached_by_what_is_wanted_and_not_by_what_is_there() {
        let mut table = QuotaTable::new(&DamageMark::default());
        assert_eq!(table.check(HOME, sum(i64::MAX, i128::MAX)), Ok(()));
        let limits = QuotaLimits { names: Some(3), bytes: Some(100) };
        table.set(HOME, limits, sum(2, 120));
        assert_eq!(table.check(HOME, sum(1, 0)), Ok(()), "of what is beyond, nothing is wanted");
        let refused = table.check(HOME, sum(2, 0)).expect_err("three are allowed");
        assert_eq!((refused.what, refused.limit, refused.used), ("names", 3, 2));
        let refused = table.check(HOME, sum(0, 1)).expect_err("a hundred are allowed");
        assert_eq!((refused.what, refused.limit, refused.used), ("bytes", 100, 120));
        table.add(HOME, sum(-2, -40));
        assert_eq!(table.check(HOME, sum(3, 20)), Ok(()));
        assert!(table.check(HOME, sum(3, 21)).is_err());
        table.forget(HOME);
        assert!(table.is_empty());
    }

    proptest! {
        #[test]
        fn a_quota_comes_back_and_no_bytes_make_it_panic(
            limits: (Option<u64>, Option<u64>), files: i64, bytes: i128,
            raw in proptest::collection::vec(any::<u8>(), 0..60),
        ) {
            let limits = QuotaLimits { names: limits.0, bytes: limits.1 };
            let row = QuotaRow { limits, used: sum(files, bytes) };
            assert_eq!(QuotaRow::unpack(&row.pack()), Some(row));
            let _ = QuotaRow::unpack(&raw);
        }
    }
}
