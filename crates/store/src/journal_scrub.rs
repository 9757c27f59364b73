//! Looking at the journal of a data directory before a start has to: rot in it makes every replica
//! beside it suspect then (version_journal.rs, VJ4), and until then nobody else reads it.
//!
//! - JS1: what is durable of a journal stands still until another one takes the name: lines are
//!   added behind it. So it is read, part by part, while others append.
//! - JS2: one that is not as it was written, or cannot be read, is told of, and written anew from
//!   memory, durably, before it goes. Where that cannot be, it takes no line until it can (VJ3).
//! - JS3: it is read as any file, so that what rots under a page in memory is found once that page
//!   is gone.

use crate::chunk_store::{ChunkStore, locked};
use crate::reading::READS_MAX;
use crate::version_journal::JOURNAL_PATH;
use crate::whole_files::disk_error;
use cairn_env::{ChunkError, DiskError, DiskFile, IoFailure, LogEvent, OpenMode};
use cairn_format::{JOURNAL_HEADER_SIZE, decode_journal_header, journal_seed, stream};

/// Bytes verified at once. No line is near so long.
const PART_SIZE: u64 = 256 << 10;

/// Where a part of a journal begins: its generation, and an offset.
pub(crate) type JournalPlace = (u64, u64);

/// What came of looking at a part.
#[derive(Debug, Default)]
pub(crate) struct JournalLook {
    /// Bytes that were read.
    pub(crate) size: u64,
    /// Where the next part begins; none: it is over.
    pub(crate) next: Option<JournalPlace>,
    /// What a person should know.
    pub(crate) told: Option<LogEvent>,
}

/// What a part of a journal is.
enum PartVerdict {
    /// As it was written; the next one begins there.
    Good { next: u64 },
    /// From there on it is not, or cannot be read.
    Bad { at: u64 },
}

impl ChunkStore {
    /// Verifies a part of the journal, from the beginning where `from` is zero.
    ///
    /// # Errors
    /// [`ChunkError`] where it cannot be said, or the directory is of no more use.
    pub(crate) fn scrub_journal(&self, from: JournalPlace) -> Result<JournalLook, ChunkError> {
        self.guarded(|| {
            let disk = self.directory.disk.as_ref();
            let journal = locked(&self.journal);
            let (generation, offset) = from;
            let Some((current, durable)) = journal.durable() else {
                // It is written anew with its next line.
                return Ok(JournalLook::default());
            };
            if offset > 0 && generation != current {
                // So it was just now.
                return Ok(JournalLook::default());
            }
            let opened = disk.open(JOURNAL_PATH, OpenMode::Read);
            drop(journal);
            let part = match opened {
                Ok(file) => verify(file.as_ref(), (current, offset), durable),
                Err(failure) => Err(failure),
            };
            let size = PART_SIZE.min(durable - offset);
            match part {
                Ok(PartVerdict::Good { next }) => {
                    let next = (next < durable).then_some((current, next));
                    Ok(JournalLook { size, next, told: None })
                }
                Ok(PartVerdict::Bad { at }) => {
                    Ok(JournalLook { size, next: None, told: self.replace_journal(current, at)? })
                }
                // Some file systems call a broken file by other numbers than EIO.
                Err(IoFailure::Device | IoFailure::System(_)) => {
                    let told = self.replace_journal(current, offset)?;
                    Ok(JournalLook { size, next: None, told })
                }
                // Where its name is gone the directory is given up, which each heartbeat looks for.
                Err(failure) => Err(disk_error(failure).into()),
            }
        })
    }

    /// Writes a journal that is damaged anew, unless that has been done since (JS2).
    fn replace_journal(&self, generation: u64, at: u64) -> Result<Option<LogEvent>, DiskError> {
        let mut journal = locked(&self.journal);
        if journal.durable().is_none_or(|(current, _)| current != generation) {
            return Ok(None);
        }
        let written = journal.begin_anew_or_refuse();
        let what = match &written {
            Ok(()) if journal.is_begun() => "a journal is damaged: it is written anew",
            // VJ5 among them.
            Ok(()) | Err(_) => {
                "a journal is damaged: it takes no change until it can be written anew"
            }
        };
        let event = LogEvent::error(what).with("directory", self.directory.disk.describe());
        let event = event.with_number("offset", at);
        match written {
            Ok(()) => Ok(Some(event)),
            Err(error @ DiskError::SyncFailed(_)) => Err(error),
            Err(error) => Ok(Some(event.with("why", error))),
        }
    }
}

/// Looks at the lines of a part, and at the header where it is the first one.
fn verify(
    file: &dyn DiskFile,
    (generation, offset): JournalPlace,
    durable: u64,
) -> Result<PartVerdict, IoFailure> {
    let size = PART_SIZE.min(durable - offset);
    let mut bytes = vec![0; usize::try_from(size).expect("a part is small")];
    let read = read_often(file, &mut bytes, offset)?;
    bytes.truncate(read);
    let start = if offset == 0 { JOURNAL_HEADER_SIZE } else { 0 };
    if offset == 0 && !decode_journal_header(&bytes).is_ok_and(|it| it.generation == generation) {
        return Ok(PartVerdict::Bad { at: 0 });
    }
    let end = stream::scan_front(&bytes, start, journal_seed(generation)).end;
    let next = offset + end as u64;
    // The last line of a part may go on in the next one.
    let is_cut = end > start && offset + size < durable;
    let is_good = next == durable || is_cut;
    Ok(if is_good { PartVerdict::Good { next } } else { PartVerdict::Bad { at: next } })
}

fn read_often(file: &dyn DiskFile, bytes: &mut [u8], offset: u64) -> Result<usize, IoFailure> {
    let mut reads = 1;
    loop {
        match file.read_at(bytes, offset) {
            Err(IoFailure::Device) if reads < READS_MAX => reads += 1,
            read => return read,
        }
    }
}
