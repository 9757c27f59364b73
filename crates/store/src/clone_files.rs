//! Clones: copies of chunks on their way here, each under a temporary name (R30).
//!
//! ```text
//!   begun ─► clones/<handle>.chunk grows, block by block ─► finished: .meta beside it, synced
//!                                   adopted: both get a replica's names, then a line says so
//! ```
//! - CF1: what lies here is no replica: no journal names it, no inventory tells of it, and the next
//!   start removes it.
//! - CF2: block checksums are in memory until a clone is finished; then they are on disk with a
//!   head, before anybody may take it for a replica. Its bytes go to disk as they come, but for the
//!   last few megabytes, so that to finish it takes no longer than a lease may be paused.
//! - CF3: a replica's names are durable before the journal's line that makes it one. Files that
//!   have such names and no line are thrown away at the next start.

use crate::chunk::Chunk;
use crate::chunk_files::{ChunkDirectory, directory, path};
use crate::gather::cut;
use crate::whole_files::{disk_error, sync_failure};
use bytes::Bytes;
use cairn_env::{ChunkError, Disk, DiskError, DiskFile, IoFailure, OpenMode};
use cairn_format::{ChunkHead, block_checksum_offset, encode_block_checksums};
use cairn_protocol::ReplicaReport;
use cairn_types::{BlockChecksums, ChunkHandle, Crc32c, crc32c, crc32c_append};
use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// The directory.
pub(crate) const CLONES_DIRECTORY: &str = "clones";
/// Bytes of a clone that may wait for the disk: while it is finished clients wait for it.
const UNSYNCED_MAX: u64 = 4 << 20;
/// The kinds of files that a clone may have.
const CLONE_KINDS: [&str; 2] = ["chunk", "meta"];

fn clone_path(handle: ChunkHandle, kind: &str) -> String {
    format!("{CLONES_DIRECTORY}/{:016x}.{kind}", handle.get())
}

/// One clone.
#[derive(Debug)]
struct CloneFiles {
    handle: ChunkHandle,
    data: Box<dyn DiskFile>,
    block_size: u32,
    length: u64,
    /// Bytes written since the last sync.
    unsynced: u64,
    /// One per block; the last may be partial.
    checksums: Vec<Crc32c>,
    /// As it is on disk, all of it; none while it is not.
    finished: Option<ChunkHead>,
    /// Its file shares its bytes with another chunk's.
    reflinked: bool,
}

/// The clones of one data directory.
#[derive(Debug)]
pub(crate) struct CloneDirectory {
    disk: Arc<dyn Disk>,
    clones: Mutex<BTreeMap<ChunkHandle, Arc<Mutex<CloneFiles>>>>,
    /// The file system has said that it cannot clone files.
    cannot_reflink: AtomicBool,
}

fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

fn remove_files(disk: &dyn Disk, handle: ChunkHandle) -> Result<(), DiskError> {
    for kind in CLONE_KINDS {
        match disk.remove(&clone_path(handle, kind)) {
            Ok(()) | Err(IoFailure::NotFound) => {}
            Err(failure) => return Err(disk_error(failure)),
        }
    }
    Ok(())
}

/// Whether a clone's file has that name; of what somebody else put there nothing is wanted.
fn is_clones(name: &str) -> bool {
    let (handle, kind) = name.split_once('.').unwrap_or((name, ""));
    CLONE_KINDS.contains(&kind) && u64::from_str_radix(handle, 16).is_ok()
}

impl CloneDirectory {
    /// Of a data directory that has just been opened: what the last life left is removed (CF1).
    pub(crate) fn open(disk: Arc<dyn Disk>) -> Result<Self, DiskError> {
        match disk.list(CLONES_DIRECTORY) {
            Ok(names) => {
                for name in names.into_iter().filter(|name| is_clones(name)) {
                    disk.remove(&format!("{CLONES_DIRECTORY}/{name}")).map_err(disk_error)?;
                }
            }
            Err(IoFailure::NotFound) => {}
            Err(failure) => return Err(disk_error(failure)),
        }
        Ok(Self { disk, clones: Mutex::default(), cannot_reflink: AtomicBool::new(false) })
    }

    fn get(&self, handle: ChunkHandle) -> Result<Arc<Mutex<CloneFiles>>, ChunkError> {
        locked(&self.clones).get(&handle).cloned().ok_or(ChunkError::NoSuchChunk)
    }

    /// Makes a clone where there is none, or an empty one in its place; gives its bytes, and the
    /// checksums of its blocks.
    pub(crate) fn begin(
        &self,
        handle: ChunkHandle,
        block_size: u32,
        anew: bool,
    ) -> Result<(u64, BlockChecksums), ChunkError> {
        if !anew && let Ok(clone) = self.get(handle) {
            let clone = locked(&clone);
            return Ok((clone.length, BlockChecksums(clone.checksums.clone())));
        }
        self.remove(handle)?;
        self.disk.make_dir(CLONES_DIRECTORY).map_err(disk_error)?;
        let data = self.disk.open(&clone_path(handle, "chunk"), OpenMode::Create);
        let (data, length) = (data.map_err(disk_error)?, 0);
        let (checksums, finished) = (Vec::new(), None);
        let (unsynced, reflinked) = (0, false);
        self.keep(CloneFiles {
            handle,
            data,
            block_size,
            length,
            unsynced,
            checksums,
            finished,
            reflinked,
        });
        Ok((0, BlockChecksums::default()))
    }

    fn keep(&self, clone: CloneFiles) {
        locked(&self.clones).insert(clone.handle, Arc::new(Mutex::new(clone)));
    }

    /// Whether it is worth trying.
    pub(crate) fn may_reflink(&self) -> bool {
        !self.cannot_reflink.load(Ordering::Relaxed)
    }

    /// Makes a clone whose file shares its bytes with the chunk file at `from`, of which the head
    /// and the checksums of all blocks say what it holds; whether the file system can.
    pub(crate) fn reflink(
        &self,
        handle: ChunkHandle,
        from: &str,
        (head, checksums): (&ChunkHead, BlockChecksums),
    ) -> Result<bool, ChunkError> {
        self.remove(handle)?;
        self.disk.make_dir(CLONES_DIRECTORY).map_err(disk_error)?;
        let to = clone_path(handle, "chunk");
        if !self.disk.clone_file(from, &to).map_err(disk_error)? {
            self.cannot_reflink.store(true, Ordering::Relaxed);
            return Ok(false);
        }
        let data = self.disk.open(&to, OpenMode::Write).map_err(disk_error)?;
        // Room may have been reserved for more.
        data.set_size(head.length).map_err(disk_error)?;
        let ChunkHead { block_size, length, .. } = *head;
        let (checksums, finished, reflinked) = (checksums.0, None, true);
        let unsynced = 0;
        self.keep(CloneFiles {
            handle,
            data,
            block_size,
            length,
            unsynced,
            checksums,
            finished,
            reflinked,
        });
        Ok(true)
    }

    /// Puts whole blocks in their place.
    pub(crate) fn install(
        &self,
        handle: ChunkHandle,
        offset: u64,
        checksums: &BlockChecksums,
        bytes: &[u8],
    ) -> Result<(), ChunkError> {
        locked(&*self.get(handle)?).install(offset, checksums, bytes)
    }

    /// Adds bytes at its end.
    pub(crate) fn add(&self, handle: ChunkHandle, bytes: &[u8]) -> Result<(), ChunkError> {
        locked(&*self.get(handle)?).add(bytes)
    }

    /// Adds a part of whole blocks of another server at its end, each verified.
    pub(crate) fn add_part(
        &self,
        handle: ChunkHandle,
        (offset, checksums, bytes): (u64, &BlockChecksums, &Bytes),
        range: (u64, u64),
    ) -> Result<(), ChunkError> {
        let clone = self.get(handle)?;
        let mut clone = locked(&clone);
        let is_block = offset.is_multiple_of(u64::from(clone.block_size));
        let differs = checksums.first_mismatch(offset, bytes, clone.block_size);
        if !is_block || differs.is_some() {
            return Err(ChunkError::FetchedDiffers { offset: differs.unwrap_or(offset) });
        }
        clone.add(&cut((offset, bytes), range)?)
    }

    /// Brings it to disk as a replica that stands so.
    pub(crate) fn finish(
        &self,
        handle: ChunkHandle,
        stands: &ReplicaReport,
    ) -> Result<(), ChunkError> {
        locked(&*self.get(handle)?).finish(self.disk.as_ref(), stands)
    }

    /// Removes it, if it is there.
    pub(crate) fn remove(&self, handle: ChunkHandle) -> Result<(), ChunkError> {
        locked(&self.clones).remove(&handle);
        Ok(remove_files(self.disk.as_ref(), handle)?)
    }

    /// Gives a finished clone a replica's names, durably (CF3).
    pub(crate) fn adopt(
        &self,
        handle: ChunkHandle,
        chunks: &ChunkDirectory,
    ) -> Result<Chunk, ChunkError> {
        let clone = self.get(handle)?;
        let finished = locked(&clone).finished.ok_or(ChunkError::NoSuchChunk)?;
        chunks.close(handle);
        self.disk.make_dir(&directory(handle)).map_err(disk_error)?;
        for kind in CLONE_KINDS {
            let (from, to) = (clone_path(handle, kind), path(handle, kind));
            self.disk.rename(&from, &to).map_err(disk_error)?;
        }
        locked(&self.clones).remove(&handle);
        // Nothing of an earlier chunk of this name may be left.
        match self.disk.remove(&path(handle, "redo")) {
            Ok(()) | Err(IoFailure::NotFound) => {}
            Err(failure) => return Err(disk_error(failure).into()),
        }
        chunks.sync_names(handle)?;
        Ok(Chunk {
            head: finished,
            slot: 0,
            synced_slot: Some(0),
            names_synced: true,
            ..Chunk::empty(handle, finished.block_size)
        })
    }
}

impl CloneFiles {
    fn install(
        &mut self,
        offset: u64,
        checksums: &BlockChecksums,
        bytes: &[u8],
    ) -> Result<(), ChunkError> {
        let block_size = u64::from(self.block_size);
        let differs = checksums.first_mismatch(offset, bytes, self.block_size);
        let is_block = offset.is_multiple_of(block_size) && offset <= self.length;
        if !is_block || differs.is_some() {
            return Err(ChunkError::FetchedDiffers { offset: differs.unwrap_or(offset) });
        }
        self.finished = None;
        self.data.write_at(bytes, offset).map_err(disk_error)?;
        let first = usize::try_from(offset / block_size).expect("a block of a chunk");
        let known = self.checksums.len().max(first + checksums.0.len());
        self.checksums.resize(known, 0);
        self.checksums[first..first + checksums.0.len()].copy_from_slice(&checksums.0);
        self.length = self.length.max(offset + bytes.len() as u64);
        self.written(bytes.len())
    }

    /// Adds bytes at its end, wherever that lies in a block.
    fn add(&mut self, bytes: &[u8]) -> Result<(), ChunkError> {
        self.finished = None;
        self.data.write_at(bytes, self.length).map_err(disk_error)?;
        let block_size = self.block_size as usize;
        let within = self.length % u64::from(self.block_size);
        let lead = usize::try_from(within).expect("less than a block");
        let first = if lead == 0 { 0 } else { bytes.len().min(block_size - lead) };
        let (tail, blocks) = bytes.split_at(first);
        if let Some(last) = self.checksums.last_mut().filter(|_| lead > 0) {
            *last = crc32c_append(*last, tail);
        }
        self.checksums.extend(blocks.chunks(block_size).map(crc32c));
        self.length += bytes.len() as u64;
        let count = self.length.div_ceil(u64::from(self.block_size));
        assert_eq!(self.checksums.len() as u64, count, "a checksum for each block");
        self.written(bytes.len())
    }

    /// So many bytes are with the system, and go to disk as they come (CF2).
    fn written(&mut self, size: usize) -> Result<(), ChunkError> {
        self.unsynced += size as u64;
        if self.unsynced >= UNSYNCED_MAX {
            self.data.sync().map_err(sync_failure)?;
            self.unsynced = 0;
        }
        Ok(())
    }

    fn finish(&mut self, disk: &dyn Disk, stands: &ReplicaReport) -> Result<(), ChunkError> {
        if stands.length != self.length {
            return Err(ChunkError::FetchedDiffers { offset: stands.length.min(self.length) });
        }
        let mut head = ChunkHead {
            sequence: 1,
            mutated_version: stands.mutated_version,
            serial: stands.serial,
            length: self.length,
            acknowledged: stands.acknowledged,
            acknowledged_serial: stands.acknowledged_serial,
            reflinked: self.reflinked,
            ..ChunkHead::empty(self.handle, self.block_size)
        };
        if head.tail_size() > 0 {
            head.tail_checksum = self.checksums.last().copied().unwrap_or_default();
        }
        let whole = usize::try_from(head.whole_blocks()).expect("blocks of a chunk");
        let sums = encode_block_checksums(self.handle, 0, &self.checksums[..whole]);
        let meta = disk.open(&clone_path(self.handle, "meta"), OpenMode::Create);
        let meta = meta.map_err(disk_error)?;
        meta.set_size(0).map_err(disk_error)?;
        meta.write_at(&head.encode(), 0).map_err(disk_error)?;
        meta.write_at(&sums, block_checksum_offset(0)).map_err(disk_error)?;
        self.data.sync().map_err(sync_failure)?;
        meta.sync().map_err(sync_failure)?;
        self.finished = Some(head);
        Ok(())
    }
}
