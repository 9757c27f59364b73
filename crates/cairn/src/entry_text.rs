//! Entries of a cell as lines and as JSON.

use crate::local_users::NameList;
use crate::modes::mode_text;
use crate::output::{size_text, time_text};
use cairn_types::{Attributes, Content, Entry, EntryKind, Layout};
use clap::ValueEnum;
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
    layout: Option<&'static str>,
    modified_ms: u64,
    owner: u32,
    group: u32,
    mode: String,
}

impl EntryJson {
    /// The entry that `path` stands for.
    pub(crate) fn new(path: impl Into<String>, entry: &Entry) -> Self {
        let file = entry.kind == EntryKind::File;
        let attributes = entry.attributes();
        Self {
            path: path.into(),
            kind: if file { "file" } else { "directory" },
            content: file.then(|| content_text(entry.content)),
            id: entry.id.short(),
            length: entry.length,
            chunk_count: entry.chunk_count,
            replication: entry.replication,
            synced: entry.synced,
            layout: file.then(|| layout_text(entry.layout)),
            modified_ms: entry.modified.as_millis(),
            owner: attributes.owner,
            group: attributes.group,
            mode: format!("{:04o}", attributes.mode),
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

/// `chunks` or `stream`.
pub(crate) fn layout_text(layout: Layout) -> &'static str {
    match layout {
        Layout::Chunks => "chunks",
        Layout::Stream => "stream",
    }
}

/// How many servers have to hold what is committed of a stream.
pub(crate) fn commit_replicas_text(said: u32) -> String {
    if said == 0 { "2, or all of fewer".to_owned() } else { said.to_string() }
}

/// A layout on the command line.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum LayoutName {
    /// Bytes at any place, records at least once.
    Chunks,
    /// By producers: each record is in it exactly once.
    Stream,
}

impl LayoutName {
    /// What is meant.
    pub(crate) fn layout(self) -> Layout {
        match self {
            Self::Chunks => Layout::Chunks,
            Self::Stream => Layout::Stream,
        }
    }
}

/// `d` directory, `s` stream, `r` file of records, `-` file of bytes.
fn letter(entry: &Entry) -> &'static str {
    if entry.layout == Layout::Stream {
        return "s";
    }
    match (entry.kind, entry.content) {
        (EntryKind::Directory, _) => "d",
        (EntryKind::File, Content::Records) => "r",
        (EntryKind::File, Content::Bytes) => "-",
    }
}

/// Where the columns of a long line stand at the right.
pub(crate) const LONG_COLUMNS: &[bool] = &[false, true, false, false, true, false, false];

/// How a long line shows what it shows.
#[derive(Clone, Copy, Debug)]
pub(crate) struct LongForm {
    /// Sizes for people.
    pub(crate) human: bool,
    /// Users and groups by number.
    pub(crate) numeric: bool,
}

/// Whose it is: owner and group, as this machine calls them or by number.
pub(crate) fn owner_texts(entry: &Entry, numeric: bool) -> [String; 2] {
    let Attributes { owner, group, .. } = entry.attributes();
    if numeric {
        return [owner.to_string(), group.to_string()];
    }
    [NameList::Users.name(owner), NameList::Groups.name(group)]
}

/// Kind and mode, replication level, owner, group, length, time, name.
pub(crate) fn long_cells(entry: &Entry, name: String, form: LongForm) -> [String; 7] {
    let file = entry.kind == EntryKind::File;
    let LongForm { human, numeric } = form;
    let [owner, group] = owner_texts(entry, numeric);
    [
        format!("{}{}", letter(entry), mode_text(entry.attributes().mode)),
        if file { entry.replication.to_string() } else { "-".to_owned() },
        owner,
        group,
        if file { size_text(entry.length, human) } else { "-".to_owned() },
        time_text(entry.modified),
        name,
    ]
}
