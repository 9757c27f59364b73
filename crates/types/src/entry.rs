//! What a name in the namespace stands for, as clients see it.

use crate::{Attributes, EntryId, WallTime};

crate::code! {
    /// File or directory.
    #[derive(Default)]
    pub enum EntryKind {
        /// A file: chunks in order.
        #[default]
        File = 1,
        /// A directory: names.
        Directory = 2,
    }
}

crate::code! {
    /// What a file holds; a file knows it (design §11).
    #[derive(Default)]
    pub enum Content {
        /// Bytes as written.
        #[default]
        Bytes = 1,
        /// Records framed by the record library.
        Records = 2,
    }
}

crate::code! {
    /// How a file is written (R38); it is so from its beginning on.
    #[derive(Default)]
    pub enum Layout {
        /// By whoever has a chunk's lease: bytes at any place, or records at least once.
        #[default]
        Chunks = 1,
        /// By producers: each record is in it exactly once.
        Stream = 2,
    }
}

crate::message! {
    /// One entry of a directory. `length` is the recorded one, in bytes; a file whose last chunk
    /// is leased may be longer, and its primary knows.
    pub struct Entry {
        1 => id: EntryId,
        2 => kind: EntryKind,
        3 => content: Content,
        4 => name: String,
        5 => length: u64,
        6 => chunk_count: u64,
        7 => replication: u32,
        8 => modified: WallTime,
        9 => synced: bool,
        /// None where they are the usual ones of its kind.
        10 => attributes: Option<Box<Attributes>>,
        11 => layout: Layout,
    }
}

impl Entry {
    /// Whose it is, and who may do what with it.
    #[must_use]
    pub fn attributes(&self) -> Attributes {
        self.attributes.as_deref().copied().unwrap_or_else(|| Attributes::usual(self.kind))
    }
}
