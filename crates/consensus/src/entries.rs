//! A record of the log as the library knows it, and as our own: the library's encoding of a change
//! of members meets neither disk nor net.
//!
//! ```text
//!   MembersChange ──► ConfChangeV2     one change: at once; several: a joint step; none: its end
//! ```

use bytes::Bytes;
use cairn_types::wire::Message;
use cairn_types::{LogIndex, MemberStanding, MembersChange, Term};
use raft::prelude::{ConfChangeSingle, ConfChangeType, ConfChangeV2, Entry, EntryType};

/// What the library knows an entry as.
pub(crate) fn to_entry(
    index: LogIndex,
    term: Term,
    data: Bytes,
    change: Option<&MembersChange>,
) -> Entry {
    let mut entry = Entry { index: index.get(), term: term.get(), data, ..Entry::default() };
    if let Some(change) = change {
        entry.set_entry_type(EntryType::EntryConfChangeV2);
        entry.context = change.to_bytes().into();
    }
    entry
}

/// How the members change by this entry, if they do. What does not read was never proposed.
pub(crate) fn change_of(entry: &Entry) -> Option<MembersChange> {
    let is_change = entry.get_entry_type() == EntryType::EntryConfChangeV2;
    is_change.then(|| MembersChange::decode(&entry.context).expect("it was encoded here"))
}

/// The record in it.
pub(crate) fn data_of(entry: &Entry) -> Bytes {
    // There the library's own words are.
    let is_record = entry.get_entry_type() == EntryType::EntryNormal;
    if is_record { entry.data.clone() } else { Bytes::new() }
}

/// The change in the library's words.
pub(crate) fn to_library_change(change: &MembersChange) -> ConfChangeV2 {
    let single = |it: &cairn_types::MemberChange| {
        let kind = match (it.goes, it.member.standing) {
            (true, _) => ConfChangeType::RemoveNode,
            (false, MemberStanding::Learner) => ConfChangeType::AddLearnerNode,
            (false, _) => ConfChangeType::AddNode,
        };
        let mut single = ConfChangeSingle::default();
        single.set_change_type(kind);
        single.node_id = it.member.id.get();
        single
    };
    let changes = change.changes.iter().map(single).collect::<Vec<_>>().into();
    ConfChangeV2 { changes, ..ConfChangeV2::default() }
}
