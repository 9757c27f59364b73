//! What lies on a chunkserver's disks, by the names of the files and by nobody's word.

use cairn_env_sim::SimDisk;
use cairn_types::ChunkHandle;

/// A file of the store that belongs to one chunk.
#[derive(Clone, Debug)]
pub(crate) struct StoredFile {
    pub(crate) path: String,
    pub(crate) chunk: ChunkHandle,
    /// Not what stands beside them.
    pub(crate) holds_bytes: bool,
}

/// The bytes of all chunks on a disk, and what stands beside them, in order of their paths.
pub(crate) fn stored(disk: &SimDisk) -> Vec<StoredFile> {
    disk.paths().into_iter().filter_map(stored_file).collect()
}

fn stored_file(path: String) -> Option<StoredFile> {
    let name = path.strip_prefix("chunks/")?.rsplit('/').next()?;
    let (handle, kind) = name.split_once('.')?;
    let chunk = u64::from_str_radix(handle, 16).ok().map(ChunkHandle::new)?;
    let holds_bytes = kind == "chunk";
    (holds_bytes || kind == "meta").then_some(StoredFile { path, chunk, holds_bytes })
}

/// The files of clones on a disk: what is copied and has not joined yet.
pub(crate) fn cloned(disk: &SimDisk) -> Vec<String> {
    disk.paths().into_iter().filter(|path| path.starts_with("clones/")).collect()
}
