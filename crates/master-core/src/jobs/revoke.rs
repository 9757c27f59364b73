//! Leases are taken back: of what is deleted (R20), and so that a set can be changed.

use crate::leases::{GrantedLease, LeaseStatus};
use crate::rules::live_file::is_live_file;
use crate::view::View;
use cairn_protocol::RevokeLease;
use cairn_types::{ChunkHandle, ChunkIndex, EntryId, EntryKind, ReplicaAt};

/// A lease to be asked back of its holder.
pub(crate) type Revocation = (ReplicaAt, RevokeLease);

/// A lease is asked back so that its chunk's set can be changed.
pub(crate) fn asked_back(view: &View<'_>, handle: ChunkHandle, lease: &GrantedLease) -> Revocation {
    assert_eq!(lease.status, LeaseStatus::Serving, "no other holder has anything to give back");
    let revoke = RevokeLease { term: view.term.number, handle, lease: lease.id };
    (lease.holder.clone(), revoke)
}

/// An entry was hidden: the leases that serve below it.
pub(crate) fn leases_below(view: &View<'_>, entry: EntryId) -> Vec<Revocation> {
    let serving = |handle| {
        let lease = view.leases.get(handle)?;
        let revoke = RevokeLease { term: view.term.number, handle, lease: lease.id };
        (lease.status == LeaseStatus::Serving).then(|| (lease.holder.clone(), revoke))
    };
    let revoked: Vec<Revocation> = handles_below(view, entry).filter_map(serving).collect();
    assert!(revoked.is_empty() || !is_live_file(view.state, entry), "of what is hidden (R20)");
    revoked
}

/// The chunks of a hidden file; of a hidden directory, those of its files that have leases.
fn handles_below<'a>(
    view: &View<'a>,
    entry: EntryId,
) -> Box<dyn Iterator<Item = ChunkHandle> + 'a> {
    // Of most files nothing is leased, and nothing is to be found out then.
    let nothing = || Box::new(std::iter::empty());
    if view.leases.is_empty() {
        return nothing();
    }
    let state = view.state;
    let record = state.entry(entry);
    let file = record.filter(|record| record.kind == EntryKind::File);
    if file.is_some_and(|file| file.chunk_count == 0) || is_live_file(state, entry) {
        // Without chunks; or restored since, or R20 is broken on purpose.
        return nothing();
    }
    if file.is_some() {
        return Box::new(state.chunks_of(entry, ChunkIndex::default()).map(|(_, at)| at));
    }
    Box::new(view.leases.iter().map(|(handle, _)| handle).filter(|handle| {
        let file = state.chunk(*handle).map(|chunk| chunk.file);
        file.is_some_and(|file| !is_live_file(state, file))
    }))
}
