//! Where a server's diagnostic log goes, and how much of it is kept (GFS §5.3).

use cairn_format::RPC_LOG_DIRECTORY;
use std::path::{Path, PathBuf};

/// Bytes of files that are kept, where nobody says otherwise.
pub const RPC_LOG_SIZE_STANDARD: u64 = 256 << 20;
/// The fewest bytes that make sense: some files, of some batches each.
pub const RPC_LOG_SIZE_MIN: u64 = 1 << 20;

/// How to write a diagnostic log.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RpcLogOptions {
    /// The log's own directory; it is made where only the last part of its path is missing.
    pub directory: PathBuf,
    /// Bytes that all its files together may have.
    pub size_max: u64,
}

impl RpcLogOptions {
    /// The log of the server with this data directory.
    #[must_use]
    pub fn within(data: &Path, size_max: u64) -> Self {
        Self { directory: data.join(RPC_LOG_DIRECTORY), size_max: size_max.max(RPC_LOG_SIZE_MIN) }
    }

    /// Bytes of one file: the oldest file goes as a whole, so that it is a small part of all.
    pub(crate) fn file_size(&self) -> u64 {
        self.size_max / 8
    }
}
