//! Larger edits of a run: one group built anew, the others' bodies moved as they are.
//!
//! Needed where an edit changes a reference: the first key of a group, or of the run, to which all
//! heads refer. Reading a queue from its front and writing it at its end are made of such edits.

use crate::entries::Entries;
use crate::parts::Parts;
use crate::run::{Group, Run};
use crate::run_builder::{RunBuilder, Shared};
use crate::run_edit::GROUP_COUNT_MAX;
use crate::varint::put_size;

/// An edit of a group's entries.
#[derive(Clone, Copy, Debug)]
pub(crate) enum GroupEdit<'a> {
    /// A new entry before the one at an index.
    Insert(usize, &'a [u8], &'a [u8]),
    /// The first entry goes.
    RemoveFirst,
}

/// The run with the group at `index` edited. Nothing where the bytes are no run, or where no entry
/// would be left.
pub(crate) fn regroup(bytes: &[u8], index: usize, edit: GroupEdit<'_>) -> Option<Vec<u8>> {
    let run = Run::new(bytes);
    let mut groups = run.groups()?;
    let mut builder = RunBuilder::default();
    let mut first_key = None;
    let mut key = Vec::new();
    for at in 0..groups.left {
        let group = groups.take()?;
        let parts = match first_key {
            Some(first_key) => group.key(first_key)?,
            None => Parts::whole(first_key.insert(group.middle)),
        };
        key.clear();
        parts.append_to(&mut key);
        if at == index {
            push_edited(&mut builder, &edited(&run, &group, &key, edit)?);
        } else {
            builder.push_group(&key, bytes.get(group.body..group.body_end)?);
        }
    }
    (!builder.is_empty()).then(|| builder.finish())
}

/// The entries of a group after the edit.
fn edited(
    run: &Run<'_>,
    group: &Group<'_>,
    first_key: &[u8],
    edit: GroupEdit<'_>,
) -> Option<Entries> {
    let mut entries = Entries::default();
    entries.append_group(run, group, first_key)?;
    match edit {
        GroupEdit::Insert(at, key, value) => entries.insert(at, key, value),
        GroupEdit::RemoveFirst => entries.splice(0..1, &Entries::default()),
    }
    Some(entries)
}

/// Pushes entries as one group, or as two halves where they are too many.
fn push_edited(builder: &mut RunBuilder, entries: &Entries) {
    let count = entries.count();
    let cut = if count > GROUP_COUNT_MAX { count / 2 } else { count };
    for range in [0..cut, cut..count] {
        let mut body = Vec::new();
        for index in range.clone() {
            let (key, value) = entries.get(index);
            if index == range.start {
                put_size(&mut body, value.len());
                body.extend_from_slice(value);
            } else {
                Shared::of(entries.key(range.start), key).put_entry(key, value, &mut body);
            }
        }
        if !range.is_empty() {
            builder.push_group(entries.key(range.start), &body);
        }
    }
}
