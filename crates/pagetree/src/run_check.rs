//! Whether bytes are a run, as a stored page must be before it is read.
//!
//! A checksum says that they are what was written; this says that what was written is a run, so
//! that readers of hostile bytes with a right checksum are safe too.

use crate::parts::{KeyParts, shared_front};
use crate::run::{EntryRun, GROUP_COUNT, GroupFirst, RunEntry, RunGroup};

/// The keys of a run as they are checked, one after the other.
#[derive(Default)]
struct CheckedKeys {
    reference: Vec<u8>,
    last: Vec<u8>,
    key: Vec<u8>,
    /// Whether there was one.
    any: bool,
}

impl CheckedKeys {
    /// Takes the next key; nothing where it is not as it must be (U1, U2).
    fn take(&mut self, base: &[u8], front: usize, middle: &[u8], back: usize) -> Option<()> {
        self.key.clear();
        KeyParts::within(base, front, middle, back)?.append_to(&mut self.key);
        let ascends = !self.any || self.key > self.last;
        if !ascends || shared_front(base, &self.key) != front {
            return None;
        }
        std::mem::swap(&mut self.last, &mut self.key);
        self.any = true;
        Some(())
    }
}

/// How many entries a run has; nothing where the bytes are none.
pub(crate) fn check(bytes: &[u8]) -> Option<usize> {
    let run = EntryRun::new(bytes);
    let mut groups = run.groups()?;
    let bodies = groups.bodies();
    let mut keys = CheckedKeys::default();
    let mut first_key: &[u8] = &[];
    let mut total = 0;
    while groups.left > 0 {
        let group = groups.take()?;
        keys.take(first_key, group.front, group.middle, group.back)?;
        if total == 0 {
            first_key = group.middle;
        }
        total += check_group(&run, &group, &mut keys)?;
    }
    groups.ended(bodies).then_some(total)
}

/// How many entries a group has, at least one (U4); its first key was taken last.
fn check_group(run: &EntryRun<'_>, group: &RunGroup<'_>, keys: &mut CheckedKeys) -> Option<usize> {
    let GroupFirst { value, end: mut at } = run.first(group)?;
    let mut count = usize::from(value.is_some());
    let mut reference = std::mem::take(&mut keys.reference);
    reference.clone_from(&keys.last);
    while at < group.body_end {
        let RunEntry { front, back, middle, end, .. } = run.entry(at)?;
        keys.take(&reference, front, middle, back)?;
        (at, count) = (end, count + 1);
    }
    keys.reference = reference;
    (at == group.body_end && count > 0).then_some(count)
}

/// Whether every group but the last has [`GROUP_COUNT`] entries, as `run::rank` needs.
pub(crate) fn groups_are_full(bytes: &[u8]) -> Option<bool> {
    let run = EntryRun::new(bytes);
    let mut groups = run.groups()?;
    while groups.left > 0 {
        let group = groups.take()?;
        let GroupFirst { value, end } = run.first(&group)?;
        let count = 1 + run.count_from(&group, end)?;
        if value.is_none() || count > GROUP_COUNT || (groups.left > 0 && count < GROUP_COUNT) {
            return Some(false);
        }
    }
    Some(true)
}
