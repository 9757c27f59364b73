//! Mapped files: unsafe code, and why it is sound.
//!
//! - MP1: the bytes of a mapping do not change. Whoever maps promises so (`cairn_env::Mapping`):
//!   files of pages only grow, and only the process that holds the directory's lock writes them.
//! - MP2: the file has the bytes when it is mapped, and is not cut later, so no access lies beyond
//!   its end. A file that is shorter than the mapping would be is refused.
//!
//! Where the disk itself cannot be read, or somebody cuts the file against MP2, the kernel sends
//! SIGBUS, and that ends the process (`bus_errors`): nothing wrong is read, and nothing was
//! acknowledged that is not in the log.

use crate::bus_errors::{MappedName, WatchedRange};
use cairn_env::Mapping;
use memmap2::{Mmap, MmapOptions};
use std::fs::File;
use std::io::{Error, ErrorKind};
use std::ops::Range;
use std::sync::Arc;

/// A mapped file.
#[derive(Debug)]
pub(crate) struct OsMapping {
    /// None where nothing is mapped: the kernel maps no empty range. Watched until it is unmapped.
    map: Option<(WatchedRange, Mmap)>,
}

impl OsMapping {
    /// Maps the first `size` bytes of a file; what of them cannot be read is noted down.
    pub(crate) fn new(
        file: &File,
        size: u64,
        name: MappedName<'_>,
        note: Option<Arc<File>>,
    ) -> Result<Self, Error> {
        if file.metadata()?.len() < size {
            let reason = "the file ends before its mapping would";
            return Err(Error::new(ErrorKind::UnexpectedEof, reason));
        }
        let size = usize::try_from(size).map_err(Error::other)?;
        if size == 0 {
            return Ok(Self { map: None });
        }
        let mut options = MmapOptions::new();
        options.len(size);
        #[allow(unsafe_code, reason = "the kernel's mapping has no safe form")]
        // SAFETY: a mapping must not change while it is read, nor be cut: MP1 and MP2.
        let map = unsafe { options.map(file)? };
        let start = map.as_ptr() as usize;
        let watched = WatchedRange::new(start..start + size, name, note)?;
        Ok(Self { map: Some((watched, map)) })
    }
}

impl Mapping for OsMapping {
    fn bytes(&self, range: Range<usize>) -> Option<&[u8]> {
        self.map.as_ref().map_or(&[][..], |(_, map)| &map[..]).get(range)
    }
}
