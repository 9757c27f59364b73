//! What keeps chunks on a server that is to be emptied: of those that cannot leave it as the cell
//! is, whether nobody can take them or nothing can be copied.
//!
//! - UN1: what one look passes is bounded, however many chunks lack replicas; of more, the rest is
//!   taken to be as these are.
//! - UN2: while one of a server's chunks gets on, or may as soon as it is its turn, nothing keeps
//!   it: the others are looked at when that one is gone.

use super::Repair;
use super::survey::Survey;
use crate::rules::lacking::{Urgency, is_left_suspect};
use crate::rules::not_copied::{NotCopied, why_not_copied};
use crate::rules::placement::CopyTakers;
use crate::view::View;
use cairn_types::{ChunkHandle, EntryId, ServerId};

/// Chunks that a look at a drain passes, of each need where they are ordered by it: a few
/// milliseconds (UN1).
pub(crate) const LOOKED_AT_MAX: usize = 4096;

/// What keeps a server from being emptied.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum KeptBy {
    /// Each server with room has a replica of what is left already.
    NoTaker,
    /// So many of its chunks have no good replica anywhere that a copy could be made of, and join.
    NoSource(u64),
    /// So many are of deleted files, and all replicas may have lost bytes: nothing is done about
    /// them before they are purged or brought back (R20).
    DeletedSuspects(u64),
}

impl Repair {
    /// What keeps a server that is to be emptied from that; none: it gets on, or holds nothing.
    pub(crate) fn keeps_on(&self, view: &View<'_>, server: ServerId) -> Option<KeptBy> {
        // Nobody knows yet who has what.
        if view.fleet.servers().is_gathering(view.now.time) {
            return None;
        }
        let (takers, mut no_source, mut no_taker) = (CopyTakers::of(view), 0, false);
        for handle in looked_at(&self.survey) {
            if view.fleet.locations().get(handle, server).is_none() {
                continue;
            }
            // It was purged since it was listed: it goes.
            let chunk = view.state.chunk(handle)?;
            match why_not_copied(view, (handle, &chunk), &takers) {
                Some(NotCopied::NoGood | NotCopied::Undecided | NotCopied::DeletedSuspect) => {
                    no_source += 1;
                }
                Some(NotCopied::NoTaker) if !self.survey.surplus().contains(handle) => {
                    no_taker = true;
                }
                // UN2
                Some(NotCopied::NoTaker) | None => return None,
            }
        }
        assert!(no_source <= 2 * LOOKED_AT_MAX as u64, "one look is bounded (UN1)");
        if no_taker {
            return Some(KeptBy::NoTaker);
        }
        let no_source = (no_source > 0).then_some(KeptBy::NoSource(no_source));
        no_source.or_else(|| self.deleted_suspects(view, server))
    }

    /// What is listed nowhere, for nothing is to be done about it.
    fn deleted_suspects(&self, view: &View<'_>, server: ServerId) -> Option<KeptBy> {
        view.state.deleted().after(EntryId::default()).next()?;
        let held = |handle| view.fleet.locations().get(handle, server).is_some();
        let mut surplus = self.survey.surplus().from(ChunkHandle::default()).take(LOOKED_AT_MAX);
        // UN2
        if surplus.any(held) {
            return None;
        }
        let some = view.state.chunks_after(ChunkHandle::default()).take(LOOKED_AT_MAX);
        let left =
            some.filter(|(handle, chunk)| held(*handle) && is_left_suspect(view, *handle, chunk));
        let count = left.count() as u64;
        assert!(count <= LOOKED_AT_MAX as u64, "one look is bounded (UN1)");
        (count > 0).then_some(KeptBy::DeletedSuspects(count))
    }
}

/// Chunks that lack replicas, and those that lack them only elsewhere than on servers to be
/// emptied; as many of each as are looked at (UN1).
fn looked_at(survey: &Survey) -> impl Iterator<Item = ChunkHandle> {
    let index = survey.index();
    let lacking = index.from((Urgency::default(), ChunkHandle::default())).take(LOOKED_AT_MAX);
    let drained = (Urgency::first_to_be_drained(), ChunkHandle::default());
    let first = lacking.filter(move |it| it.0 < drained.0);
    first.chain(index.from(drained).take(LOOKED_AT_MAX)).map(|(_, handle)| handle)
}
