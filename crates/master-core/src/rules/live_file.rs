//! Files that may be changed: there, and not on their way out (R20).

use crate::state::State;
use cairn_protocol::{ErrorCode, Failure};
use cairn_types::planted::{Rule, broken};
use cairn_types::{EntryId, EntryKind};

/// Whether it is a file that is there and not hidden (R20).
pub(crate) fn is_live_file(state: &State, file: EntryId) -> bool {
    let there = state.entry(file).is_some_and(|entry| entry.kind == EntryKind::File);
    there && (!state.is_hidden(file) || broken(Rule::R20))
}

/// What everyone is told who wants something of a file that is gone.
pub(crate) fn no_file(file: EntryId) -> Failure {
    let line = format!("file {}: no such file, or it is deleted", file.short());
    Failure::refused(ErrorCode::NotFound, line)
}
