//! Chunk files, operation log and checkpoints over a [`Disk`](cairn_env::Disk).
//!
//! ```text
//!   master       OperationLog   Checkpoints            identity, lock
//!   chunkserver  ChunkDisk ──► ChunkStore, one per data directory
//! ```
//! The same code runs on files and on the simulator's faulty disk. Knows no network, no clock.
//!
//! Its tests need that faulty disk, which stands a floor higher, so they are beside it:
//! `crates/env-sim/tests/`, one file for each part of the store.

mod append;
mod apply;
mod byte_changes;
mod checkpoint;
mod checkpoint_transfer;
mod chunk;
mod chunk_files;
mod chunk_service;
mod chunk_store;
mod chunk_store_open;
mod clone_files;
pub mod conformance;
mod data_directories;
mod extend;
mod failure_note;
mod gather;
mod identity_file;
mod journal_scrub;
mod local_copy;
mod log_recovery;
mod log_spare;
mod mutation;
mod names_anew;
mod opened_directories;
mod operation_log;
mod overwrite;
mod page_file;
mod push_shelf;
mod reading;
mod recovery;
mod redo_journal;
mod scrub;
mod trash;
mod version_journal;
mod whole_files;

pub use checkpoint::{
    CHECKPOINTS_KEPT, Checkpoints, FoundCheckpoint, ImageResult, PageFileLimits, WrittenCheckpoint,
    WrittenImage, cell_of_checkpoints, has_checkpoints,
};
pub use checkpoint_transfer::{keep_piece, read_pages, read_root_file};
pub use chunk_service::ChunkDisk;
pub use chunk_store::ChunkStore;
pub use chunk_store_open::{RecoveredChunks, StoreOpenError};
pub use data_directories::DirectoryState;
pub use identity_file::{IdentityError, read_identity, write_identity};
pub use log_recovery::{LogOpenError, RecoveredLog};
pub use mutation::{AcknowledgedMark, ReadyMutation};
pub use operation_log::{OldSegments, OperationLog, SEGMENT_SIZE_STANDARD};
pub use page_file::{MappedPages, PageWriter};
pub use version_journal::JournalOpenError;
