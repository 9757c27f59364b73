//! Larger edits of a run: one group built anew, the others' bodies moved as they are.
//!
//! Needed where an edit changes references: a group that got too large falls in two, or loses a
//! reference that is no entry; or a group goes, perhaps with the run's first key, to which all
//! heads refer.

use crate::entries::EntryList;
use crate::parts::KeyParts;
use crate::run::{EntryRun, RunGroups};
use crate::run_builder::{RunBuilder, SharedEnds, put_first};
use crate::run_edit::GROUP_COUNT_MAX;
use std::cmp::Ordering;

/// An edit of a group's entries.
#[derive(Clone, Copy, Debug)]
pub(crate) enum GroupEdit<'a> {
    /// A new entry, a key and its value.
    Insert(&'a [u8], &'a [u8]),
    /// New entries, which come between two neighbours of the group, or behind its last.
    InsertAll(&'a EntryList),
    /// The group goes.
    Drop,
}

/// The run with the group at `index` edited. Nothing where the bytes are no run, or where no entry
/// would be left, or where not all that come together come there.
pub(crate) fn regroup(bytes: &[u8], index: usize, edit: GroupEdit<'_>) -> Option<Vec<u8>> {
    let run = EntryRun::new(bytes);
    let mut groups = run.groups()?;
    let mut builder = RunBuilder::default();
    let mut first_key = None;
    let mut key = Vec::new();
    for at in 0..groups.left {
        let group = groups.take()?;
        let parts = match first_key {
            Some(first_key) => group.key(first_key)?,
            None => KeyParts::whole(first_key.insert(group.middle)),
        };
        key.clear();
        parts.append_to(&mut key);
        match edit {
            GroupEdit::Insert(new, value) if at == index => {
                let mut entries = EntryList::default();
                entries.append_group(&run, &group, &key)?;
                let place = entries.search(new).err()?;
                entries.insert(place, new, value);
                push_edited(&mut builder, &entries);
            }
            GroupEdit::InsertAll(new) if at == index => {
                let mut entries = EntryList::default();
                entries.append_group(&run, &group, &key)?;
                let (first, last) = (new.key(0), new.key(new.count() - 1));
                let place = entries.search(first).err()?;
                let is_there = place > 0 && entries.search(last).err()? == place;
                if !is_there || !ends_before(groups, first_key?, last)? {
                    return None;
                }
                entries.splice(place..place, new);
                for index in 0..entries.count() {
                    let (key, value) = entries.get(index);
                    builder.push(key, value);
                }
            }
            GroupEdit::Drop if at == index => {}
            _ => builder.push_group(&key, bytes.get(group.body..group.body_end)?),
        }
    }
    (!builder.is_empty()).then(|| builder.finish())
}

/// Whether a key lies below the first of the groups that are left.
fn ends_before(mut groups: RunGroups<'_>, first_key: &[u8], key: &[u8]) -> Option<bool> {
    if groups.left == 0 {
        return Some(true);
    }
    Some(groups.take()?.key(first_key)?.order_of(key) == Ordering::Less)
}

/// Pushes entries as one group, or as two halves where they are too many.
fn push_edited(builder: &mut RunBuilder, entries: &EntryList) {
    let count = entries.count();
    let cut = if count > GROUP_COUNT_MAX { count / 2 } else { count };
    for range in [0..cut, cut..count] {
        let mut body = Vec::new();
        for index in range.clone() {
            let (key, value) = entries.get(index);
            if index == range.start {
                put_first(value, &mut body);
            } else {
                SharedEnds::of(entries.key(range.start), key).put_entry(key, value, &mut body);
            }
        }
        if !range.is_empty() {
            builder.push_group(entries.key(range.start), &body);
        }
    }
}
