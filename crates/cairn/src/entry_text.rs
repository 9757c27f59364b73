//! Entries of a cell as lines and as JSON.

use crate::output::{size_text, time_text};
use cairn_types::{Content, Entry, EntryKind};
use serde::Serialize;

/// An entry as `--json` shows it. Lengths in bytes, times in milliseconds since 1970.
#[derive(Debug, Serialize)]
pub(crate) struct EntryJson {
    path: String,
    kind: &'static str,
    content: Option<&'static str>,
    id: String,
    length: u64,
    chunk_count: u64,
    replication: u32,
    synced: bool,
    modified_ms: u64,
}

impl EntryJson {
    /// The entry that `path` stands for.
    pub(crate) fn new(path: impl Into<String>, entry: &Entry) -> Self {
        let file = entry.kind == EntryKind::File;
        Self {
            path: path.into(),
            kind: if file { "file" } else { "directory" },
            content: file.then(|| content_text(entry.content)),
            id: entry.id.short(),
            length: entry.length,
            chunk_count: entry.chunk_count,
            replication: entry.replication,
            synced: entry.synced,
            modified_ms: entry.modified.as_millis(),
        }
    }
}

/// `bytes` or `records`.
pub(crate) fn content_text(content: Content) -> &'static str {
    match content {
        Content::Bytes => "bytes",
        Content::Records => "records",
    }
}

/// `d` directory, `r` file of records, `-` file of bytes.
fn letter(entry: &Entry) -> &'static str {
    match (entry.kind, entry.content) {
        (EntryKind::Directory, _) => "d",
        (EntryKind::File, Content::Records) => "r",
        (EntryKind::File, Content::Bytes) => "-",
    }
}

/// Where the columns of a long line stand at the right.
pub(crate) const LONG_COLUMNS: &[bool] = &[false, true, true, false, false];

/// Kind, replication level, length, time, name.
pub(crate) fn long_cells(entry: &Entry, name: String, human: bool) -> [String; 5] {
    let file = entry.kind == EntryKind::File;
    [
        letter(entry).to_owned(),
        if file { entry.replication.to_string() } else { "-".to_owned() },
        if file { size_text(entry.length, human) } else { "-".to_owned() },
        time_text(entry.modified),
        name,
    ]
}
