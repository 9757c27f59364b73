//! Small edits of a run in place: one entry in, out or changed, the others' bytes only moved.
//!
//! The first key of a group stays as a reference when it is taken out (U4). An edit that takes the
//! only entry of a group, and one that would make a group too large, edits the groups. A key below
//! all others, and what does not fit, answers [`Edit::Rebuild`] and leaves the run as it was.

use crate::entries::EntryList;
use crate::run::{BODY_SIZE_SIZE, EntryRun, GROUP_COUNT, GroupFirst, RunEntry};
use crate::run_builder::{SharedEnds, put_first};
use crate::run_regroup::{GroupEdit, regroup};
use crate::varint::put_size;
use std::cmp::Ordering;
use std::ops::Range;

/// Entries that a group may come to have by edits.
pub(crate) const GROUP_COUNT_MAX: usize = 2 * GROUP_COUNT;
/// Room that a run which outgrew its memory gets beyond what it needs now. More would cost
/// memory for each page, less a new allocation for each insert.
const SLACK_SIZE: usize = 32;
/// What a body begins with where the group's first key is a reference alone.
const NO_VALUE: &[u8] = &[0];

/// How an edit went.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Edit {
    /// Done, and the run has an entry more.
    Added,
    /// Done, and an entry has another value.
    Replaced,
    /// Done, and the run has an entry less.
    Removed,
    /// Not done: take the entries out, edit them, build runs anew.
    Rebuild,
}

/// Sets the value of `key`. Nothing where the bytes are no run with entries.
pub(crate) fn insert(run: &mut Vec<u8>, key: &[u8], value: &[u8], size_max: usize) -> Option<Edit> {
    let view = EntryRun::new(run);
    let spot = view.seek(key)?;
    let mut entry = Vec::with_capacity(key.len() + value.len() + 16);
    let (edit, replaced) = match spot.found {
        Some(old) => {
            if spot.index == 0 {
                put_first(value, &mut entry);
            } else {
                put_changed(&old, value, &mut entry);
            }
            (Edit::Replaced, spot.at..old.end)
        }
        None if spot.index == 0 && spot.reference.order_of(key) == Ordering::Equal => {
            put_first(value, &mut entry);
            let GroupFirst { end, .. } = view.first(&spot.group)?;
            (Edit::Added, spot.at..end)
        }
        // Groups that grew at the front would fall apart differently when the leaf is split.
        None if spot.index == 0 => return Some(Edit::Rebuild),
        None if view.count_from(&spot.group, spot.at)? + spot.index >= GROUP_COUNT_MAX => {
            let edit = GroupEdit::Insert(key, value);
            let edited = regroup(run, spot.group_index, edit)?;
            return Some(replaced_by(run, edited, size_max, Edit::Added));
        }
        None => {
            let front = spot.reference.shared_front(key);
            let rest = key.len().min(spot.reference.size()) - front;
            let back = spot.reference.shared_back(key, rest);
            SharedEnds { front, back }.put_entry(key, value, &mut entry);
            (Edit::Added, spot.at..spot.at)
        }
    };
    if run.len() - replaced.len() + entry.len() > size_max {
        return Some(Edit::Rebuild);
    }
    let size_at = spot.group.size_at;
    splice(run, size_at, replaced, &entry)?;
    Some(edit)
}

/// The run with entries that ascend and all come between two neighbours, or behind all: the bytes
/// of other groups are only moved. Nothing where they do not, or do not fit.
pub(crate) fn inserted_between(run: &[u8], new: &EntryList, size_max: usize) -> Option<Vec<u8>> {
    let spot = EntryRun::new(run).seek(new.key(0))?;
    let edited = regroup(run, spot.group_index, GroupEdit::InsertAll(new))?;
    (edited.len() <= size_max).then_some(edited)
}

/// Takes out `key`, which the run has. Nothing where it does not, or is malformed.
pub(crate) fn remove(run: &mut Vec<u8>, key: &[u8], size_max: usize) -> Option<Edit> {
    let view = EntryRun::new(run);
    let spot = view.seek(key)?;
    let (group, removed) = (spot.group, spot.at..spot.found?.end);
    let GroupFirst { value, end } = view.first(&group)?;
    let is_first = spot.index == 0;
    let is_only =
        removed.end == group.body_end && (is_first || (value.is_none() && removed.start == end));
    if is_only {
        let Some(edited) = regroup(run, spot.group_index, GroupEdit::Drop) else {
            return Some(Edit::Rebuild);
        };
        return Some(replaced_by(run, edited, size_max, Edit::Removed));
    }
    splice(run, group.size_at, removed, if is_first { NO_VALUE } else { &[] })?;
    Some(Edit::Removed)
}

/// Puts the edited run in the place of the old one, unless it is too large.
fn replaced_by(run: &mut Vec<u8>, edited: Vec<u8>, size_max: usize, edit: Edit) -> Edit {
    if edited.len() > size_max {
        return Edit::Rebuild;
    }
    *run = edited;
    edit
}

/// Appends the entry with another value.
fn put_changed(old: &RunEntry<'_>, value: &[u8], out: &mut Vec<u8>) {
    for size in [old.front, old.back, old.middle.len(), value.len()] {
        put_size(out, size);
    }
    out.extend_from_slice(old.middle);
    out.extend_from_slice(value);
}

/// Replaces bytes of the body whose size stands at `size_at`.
fn splice(run: &mut Vec<u8>, size_at: usize, range: Range<usize>, bytes: &[u8]) -> Option<()> {
    let old_size = run.len();
    let new_size = old_size - range.len() + bytes.len();
    if new_size > run.capacity() {
        run.reserve_exact(new_size + SLACK_SIZE - old_size);
    }
    if new_size > old_size {
        run.resize(new_size, 0);
    }
    run.copy_within(range.end..old_size, range.start + bytes.len());
    run.truncate(new_size);
    run[range.start..range.start + bytes.len()].copy_from_slice(bytes);
    let added = u32::try_from(bytes.len()).ok()?.wrapping_sub(u32::try_from(range.len()).ok()?);
    let size: &mut [u8; BODY_SIZE_SIZE] = run.get_mut(size_at..)?.first_chunk_mut()?;
    *size = u32::from_le_bytes(*size).wrapping_add(added).to_le_bytes();
    Some(())
}
