//! Whether bytes are a run, as a stored page must be before it is read.
//!
//! A checksum says that they are what was written; this says that what was written is a run, so
//! that readers of hostile bytes with a right checksum are safe too.

use crate::parts::{Parts, shared_front};
use crate::run::{Entry, GROUP_COUNT, Run};

/// The keys of a run as they are checked, one after the other.
#[derive(Default)]
struct Keys {
    reference: Vec<u8>,
    last: Vec<u8>,
    key: Vec<u8>,
    count: usize,
}

impl Keys {
    /// Takes the next entry; nothing where it is not as it must be (U1, U2).
    fn take(&mut self, base: &[u8], entry: &Entry<'_>) -> Option<()> {
        self.key.clear();
        Parts::within(base, entry.front, entry.middle, entry.back)?.append_to(&mut self.key);
        let ascends = self.count == 0 || self.key > self.last;
        if !ascends || shared_front(base, &self.key) != entry.front {
            return None;
        }
        std::mem::swap(&mut self.last, &mut self.key);
        self.count += 1;
        Some(())
    }
}

/// How many entries a run has; nothing where the bytes are none.
pub(crate) fn check(bytes: &[u8]) -> Option<usize> {
    let run = Run::new(bytes);
    let mut groups = run.groups()?;
    let bodies = groups.bodies();
    let mut keys = Keys::default();
    let mut first_key: &[u8] = &[];
    while groups.left > 0 {
        let group = groups.take()?;
        let first = run.first_entry(&group)?;
        keys.take(first_key, &first)?;
        keys.reference.clone_from(&keys.last);
        if keys.count == 1 {
            first_key = group.middle;
        }
        let reference = std::mem::take(&mut keys.reference);
        let mut at = first.end;
        while at < group.body_end {
            let entry = run.entry(at)?;
            keys.take(&reference, &entry)?;
            at = entry.end;
        }
        if at != group.body_end {
            return None;
        }
        keys.reference = reference;
    }
    groups.ended(bodies).then_some(keys.count)
}

/// Whether every group but the last has [`GROUP_COUNT`] entries, as `run::rank` needs.
pub(crate) fn groups_are_full(bytes: &[u8]) -> Option<bool> {
    let run = Run::new(bytes);
    let mut groups = run.groups()?;
    while groups.left > 0 {
        let group = groups.take()?;
        let count = 1 + run.count_from(&group, run.first_entry(&group)?.end)?;
        if count > GROUP_COUNT || (groups.left > 0 && count < GROUP_COUNT) {
            return Some(false);
        }
    }
    Some(true)
}
