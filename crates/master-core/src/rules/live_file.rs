//! Files that may be changed: there, and not on their way out (R20).

use crate::state::{EntryRecord, State};
use cairn_protocol::{ErrorCode, Failure};
use cairn_types::planted::{Rule, broken};
use cairn_types::{EntryId, EntryKind};

/// A file that is there and not hidden (R20).
pub(crate) fn live_file(state: &State, file: EntryId) -> Option<EntryRecord> {
    let entry = state.entry(file).filter(|entry| entry.kind == EntryKind::File)?;
    (!state.is_hidden(file) || broken(Rule::R20)).then_some(entry)
}

/// Whether it is one.
pub(crate) fn is_live_file(state: &State, file: EntryId) -> bool {
    live_file(state, file).is_some()
}

/// What everyone is told who wants something of a file that is gone.
pub(crate) fn no_file(file: EntryId) -> Failure {
    let line = format!("file {}: no such file, or it is deleted", file.short());
    Failure::refused(ErrorCode::NotFound, line)
}
