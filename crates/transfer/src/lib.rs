//! Whole files and trees into a cell and out of it: what the command line and gateways share.
//!
//! ```text
//!   LocalTree ─► upload, upload_group ─► cell ─► CellWalk ─► download ─► LocalTarget, any sink
//!                 ▲ any ByteSource       └─► shared_copy ─► the same cell
//! ```
//! Knows the client library and local files. Never knows how a failure is told, or how far things
//! have come: errors are typed, and progress is handed out as counts of bytes.

mod byte_source;
mod cell_walk;
mod download;
mod local_target;
mod local_tree;
mod partial_files;
mod partial_name;
mod salvage;
mod shared_copy;
mod upload;
mod upload_group;

pub use byte_source::{ByteSource, CellSource, LocalSource, PIECE_SIZE, Progress};
pub use cell_walk::{Below, CellWalk};
pub use download::{DownloadError, RecordForm, download};
pub use local_target::{LocalTarget, LocalTargetError};
pub use local_tree::{LocalEntry, LocalProblem, LocalTree};
pub use partial_files::PartialFiles;
pub use partial_name::without_partial_name;
pub use salvage::salvage;
pub use shared_copy::{SharedCopy, copy_shared};
pub use upload::{UploadError, UploadOptions, upload};
pub use upload_group::{LocalUpload, groups, upload_group};
