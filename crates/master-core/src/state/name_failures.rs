//! Why a path leads nowhere, as people are told.

use cairn_protocol::{ErrorCode, Failure};
use cairn_types::{CellPath, EntryKind};

/// Why the way along `path` ends after so many of its bytes, at what is of that kind.
pub(super) fn missing(kind: EntryKind, walked: usize, path: &CellPath) -> Failure {
    if kind == EntryKind::File {
        let file = &path.as_str()[..walked];
        let line = format!("{path}: {file} is a file and holds no names");
        return Failure::refused(ErrorCode::NotADirectory, line);
    }
    not_found(path)
}

/// No such name.
pub(super) fn not_found(path: &CellPath) -> Failure {
    Failure::refused(ErrorCode::NotFound, format!("{path}: no such file or directory"))
}
