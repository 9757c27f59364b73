//! Which of the files that are charged further than they are long are looked at next: all of them
//! in turn, some with each tick, so that a master finds what those before it left (R36).

use crate::outbox::MasterOutbox;
use crate::rules::charging::settled;
use crate::view::View;
use cairn_types::EntryId;

/// Files that are looked at with each tick: a millisecond.
const LOOKED_AT_MAX: usize = 512;

/// Behind which file it goes on.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Settling(EntryId);

impl Settling {
    /// Has those of the next files settled that nobody writes any more; where it goes on then.
    pub(super) fn go_on(self, view: &View<'_>, out: &mut MasterOutbox) -> Self {
        let some: Vec<EntryId> =
            view.state.subtrees().charged_after(self.0).take(LOOKED_AT_MAX).collect();
        assert!(some.is_sorted(), "they are looked at in turn");
        for record in some.iter().filter_map(|file| settled(view, *file)) {
            out.propose(record);
        }
        // All anew from the start.
        let last = some.last().copied().filter(|_| some.len() == LOOKED_AT_MAX);
        Self(last.unwrap_or_default())
    }
}
