//! Which quotas a directory's names count against, as it was looked up lately, so that no creation
//! walks up to the root.
//!
//! - QC1: what is remembered is so: all of it is forgotten when a directory leaves its place or
//!   goes, and when any directory is given a quota, or loses it.

use cairn_types::{EntryId, crc32c};
use std::cell::RefCell;
use std::fmt;
use std::sync::Arc;

/// Directories that are remembered at most.
const SLOTS: usize = 1 << 12;

/// Which directories above one have quotas, itself first.
type Known = (EntryId, Arc<[EntryId]>);

/// A table in which each directory has one slot, which it may lose to another; of no slot before
/// the first is remembered.
#[derive(Default)]
pub(super) struct QuotaCache {
    slots: RefCell<Vec<Option<Known>>>,
}

fn slot_of(directory: EntryId) -> usize {
    crc32c(&directory.get().to_le_bytes()) as usize % SLOTS
}

impl QuotaCache {
    /// Which quotas a directory's names count against, if that is remembered.
    pub(super) fn get(&self, directory: EntryId) -> Option<Arc<[EntryId]>> {
        let slots = self.slots.borrow();
        let (known, above) = slots.get(slot_of(directory))?.as_ref()?;
        (*known == directory).then(|| Arc::clone(above))
    }

    pub(super) fn remember(&self, directory: EntryId, above: Arc<[EntryId]>) {
        let mut slots = self.slots.borrow_mut();
        if slots.is_empty() {
            slots.resize(SLOTS, None);
        }
        assert_eq!(slots.len(), SLOTS, "a directory has one slot");
        slots[slot_of(directory)] = Some((directory, above));
    }

    /// What was remembered may be so no more (QC1).
    pub(super) fn forget(&mut self) {
        self.slots.get_mut().clear();
    }
}

impl Clone for QuotaCache {
    /// A snapshot is asked for no quota, and a state that adopts an image finds them anew.
    fn clone(&self) -> Self {
        Self::default()
    }
}

impl PartialEq for QuotaCache {
    /// States are the same whatever each was asked for.
    fn eq(&self, _: &Self) -> bool {
        true
    }
}

impl fmt::Debug for QuotaCache {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "QuotaCache of {} slots", self.slots.borrow().len())
    }
}

#[cfg(test)]
mod tests {
    use super::QuotaCache;
    use cairn_types::EntryId;

    #[test]
    fn each_directory_has_its_own_quotas_or_none_until_something_changes() {
        let mut cache = QuotaCache::default();
        for number in 0..20_000 {
            assert_eq!(cache.get(EntryId::new(number)), None);
            cache.remember(EntryId::new(number), [EntryId::new(number / 2)].into());
        }
        let kept: Vec<u64> =
            (0..20_000).filter(|n| cache.get(EntryId::new(*n)).is_some()).collect();
        assert!(kept.len() > 2_000, "{}", kept.len());
        let right = |n: &u64| cache.get(EntryId::new(*n)) == Some([EntryId::new(n / 2)].into());
        assert!(kept.iter().all(right));
        cache.forget();
        assert!((0..20_000).all(|n| cache.get(EntryId::new(n)).is_none()));
    }
}
