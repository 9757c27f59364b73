//! What tasks look up at the masters and the client then keeps: the cell's settings, locations,
//! grants.

use crate::ids::TaskId;
use crate::settings::LOCATE_COUNT;
use cairn_protocol::{CellInfo, EXTENTS_MAX, Lease, LeasePurpose, Locate, ReadExtents, Request};
use cairn_types::{ChunkIndex, ChunkVersion, EntryId, ServerId, Time};

/// Extents asked for at once.
const EXTENTS_COUNT: u32 = 1024;
/// An answer about extents is likely to be one about so many bytes; who finds it is not asks again.
const AHEAD_SIZE: u64 = 16 << 20;

const _: () = assert!(EXTENTS_COUNT as usize <= EXTENTS_MAX);

/// What is to be known.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Lookup {
    /// The cell and its settings.
    Cell,
    /// Where a chunk and those after it lie.
    Location { file: EntryId, index: ChunkIndex },
    /// The extents of a stream from `offset` on, and where their chunks lie.
    Extents { file: EntryId, offset: u64 },
    /// Who orders a chunk's mutations; `failed`: a primary that did not do, and under which
    /// version.
    Grant {
        file: EntryId,
        index: ChunkIndex,
        purpose: LeasePurpose,
        failed: Option<(ServerId, ChunkVersion)>,
    },
}

/// A task's wish to look something up.
#[derive(Debug)]
pub(crate) struct LookupRequest {
    pub(crate) lookup: Lookup,
    /// Only the answer to a question with a higher number will do.
    pub(crate) newer_than: u64,
    /// Who waits for it; nobody where it is fetched ahead, or waited for by whole operations.
    pub(crate) waiter: Option<TaskId>,
    pub(crate) deadline: Time,
}

impl Lookup {
    pub(crate) fn request(&self) -> Request {
        match *self {
            Self::Cell => CellInfo {}.into(),
            Self::Location { file, index } => {
                Locate { file, first: index, count: LOCATE_COUNT, ..Locate::default() }.into()
            }
            Self::Extents { file, offset } => {
                ReadExtents { file, offset, limit: EXTENTS_COUNT, ..Default::default() }.into()
            }
            Self::Grant { file, index, purpose, failed } => {
                let (failed, failed_version) = failed.unwrap_or_default();
                Lease { file, index, purpose, failed, failed_version }.into()
            }
        }
    }

    /// Whether the answer to this question also answers `other`.
    pub(crate) fn covers(&self, other: &Self) -> bool {
        match (self, other) {
            (Self::Location { file, index: first }, Self::Location { file: other_file, index }) => {
                let reach = first.get().saturating_add(u64::from(LOCATE_COUNT));
                file == other_file && (first.get()..reach).contains(&index.get())
            }
            (Self::Extents { file, offset: first }, Self::Extents { file: other_file, offset }) => {
                file == other_file && (*first..first.saturating_add(AHEAD_SIZE)).contains(offset)
            }
            _ => self == other,
        }
    }
}
