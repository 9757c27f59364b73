//! Whole files: read at once, or replaced so that a crash leaves the old one or the new one.

use cairn_env::{Disk, DiskError, DiskFile, IoFailure, OpenMode, SyncError};

/// What a disk said, as the answer to a job. A failed sync is never this: see [`sync_failure`].
#[must_use]
pub(crate) fn disk_error(failure: IoFailure) -> DiskError {
    failure.into()
}

/// A failed sync: nothing unsynced may be believed any more (D2, R27).
#[must_use]
pub(crate) fn sync_failure(error: SyncError) -> DiskError {
    error.into()
}

/// No file that is read whole is near so large, but for a journal. What says that it is (a hole in
/// it costs nobody anything) is refused before it takes memory.
const FILE_SIZE_MAX: u64 = 1 << 30;
/// What systems say of such a file.
const EFBIG: i32 = 27;
/// What is written anew at once.
const PIECE_SIZE: usize = 1 << 20;

/// Reads all of an open file.
pub(crate) fn read_all(file: &dyn DiskFile) -> Result<Vec<u8>, IoFailure> {
    read_all_within(file, FILE_SIZE_MAX)
}

/// The same of one that may be of this size.
fn read_all_within(file: &dyn DiskFile, size_max: u64) -> Result<Vec<u8>, IoFailure> {
    let size = file.size()?;
    if size > size_max {
        return Err(IoFailure::System(EFBIG));
    }
    let size = usize::try_from(size).expect("compared above");
    let mut bytes = vec![0; size];
    let read = file.read_at(&mut bytes, 0)?;
    bytes.truncate(read);
    Ok(bytes)
}

/// Writes what a file has once more, where it stands: whatever ends that, it has the same bytes.
pub(crate) fn write_anew(file: &dyn DiskFile) -> Result<(), IoFailure> {
    let (size, mut piece) = (file.size()?, vec![0; PIECE_SIZE]);
    let mut at = 0;
    while at < size {
        let read = file.read_at(&mut piece, at)?;
        if read == 0 {
            return Err(IoFailure::TooShort);
        }
        file.write_at(&piece[..read], at)?;
        at += read as u64;
    }
    Ok(())
}

/// Reads a file, or nothing where it is missing.
pub(crate) fn read_file(disk: &dyn Disk, path: &str) -> Result<Option<Vec<u8>>, IoFailure> {
    read_file_within(disk, path, FILE_SIZE_MAX)
}

/// The same of one that may be of this size.
pub(crate) fn read_file_within(
    disk: &dyn Disk,
    path: &str,
    size_max: u64,
) -> Result<Option<Vec<u8>>, IoFailure> {
    match disk.open(path, OpenMode::Read) {
        Ok(file) => read_all_within(file.as_ref(), size_max).map(Some),
        Err(IoFailure::NotFound) => Ok(None),
        Err(failure) => Err(failure),
    }
}

/// Puts a file with these bytes in the place of `path`, durably; gives it open.
pub(crate) fn replace_file(
    disk: &dyn Disk,
    path: &str,
    bytes: &[u8],
) -> Result<Box<dyn DiskFile>, DiskError> {
    let file = write_draft(disk, path, bytes)?;
    put_draft_in_place(disk, path)?;
    Ok(file)
}

/// Writes these bytes, durably, where they stand in nobody's place yet.
pub(crate) fn write_draft(
    disk: &dyn Disk,
    path: &str,
    bytes: &[u8],
) -> Result<Box<dyn DiskFile>, DiskError> {
    let file = disk.open(&draft_of(path), OpenMode::Create).map_err(disk_error)?;
    file.set_size(0).map_err(disk_error)?;
    if let Err(failure) = file.write_at(bytes, 0) {
        // On a full disk a half-written draft takes room that others need.
        file.set_size(0).map_err(disk_error)?;
        return Err(disk_error(failure));
    }
    file.sync().map_err(sync_failure)?;
    Ok(file)
}

/// Gives what was drafted for `path` that name, durably. After an error either file may have it.
pub(crate) fn put_draft_in_place(disk: &dyn Disk, path: &str) -> Result<(), DiskError> {
    disk.rename(&draft_of(path), path).map_err(disk_error)?;
    disk.sync_dir(directory_of(path)).map_err(sync_failure)
}

fn draft_of(path: &str) -> String {
    format!("{path}.draft")
}

/// The directory part of a path; empty for the disk's own directory.
#[must_use]
pub(crate) fn directory_of(path: &str) -> &str {
    path.rsplit_once('/').map_or("", |(directory, _)| directory)
}
