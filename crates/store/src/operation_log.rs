//! The operation log of a master on its disk (GFS §2.6.3).
//!
//! ```text
//!   log/0000000000000001.log   …02.log   …03.log      segments, preallocated, consecutive
//!                                       end ▲   ▲ filled
//!                                           │   └ up to here zeros were written, not just reserved
//!                                           └ the next record goes here
//! ```
//! - L1: [`append`](OperationLog::append) returns once all of it is durable; one flush a call.
//! - L2: a record whose index is at or below an earlier one's takes the place of that one and of
//!   all after it.
//! - L3: a *mark* (index zero) has no place in the order; the newest one is kept, and carried over
//!   into each new segment before any record, so that removing old segments never removes it. One
//!   of the last two segments has it: what was begun by a process killed before it was carried over
//!   is begun anew. One that never had anybody beside it writes none.
//! - L4: after a failed flush the log is of no more use: what is on disk is not known.
//! - L5: the room of the next segment is taken as soon as the one before is begun. A full disk is
//!   known while a whole segment is left, and room that cannot be had is not held by halves.
//!   An append that finds none left says [`DiskError::NoSpace`] and may be tried again: what of it
//!   is in the log then takes its own place (L2).
//! - L6: where the log cannot be read is not where it ends: it is opened only when all of it that
//!   is needed was read. What cannot be read now may be acknowledged, and be read later.
//!
//! Recovery is `log_recovery`'s.

use crate::log_spare::{SpareSegment, no_room};
use crate::whole_files::{disk_error, sync_failure};
use bytes::Bytes;
use cairn_env::{Disk, DiskError, DiskFile, IoFailure};
use cairn_format::{
    SEGMENT_HEADER_SIZE, SegmentHeader, log_record_size, put_log_record, segment_seed,
};
use cairn_types::{CellId, LogIndex};
use std::sync::Arc;

/// The directory of the segments.
pub(crate) const LOG_DIRECTORY: &str = "log";
/// Bytes of a segment on a real disk.
pub const SEGMENT_SIZE_STANDARD: u64 = 16 << 20;
/// So much of a segment is filled with zeros ahead of the records, each time that they come to the
/// end of what is filled: half a MiB of a standard one. A flush of blocks that were reserved and
/// never written takes twice as long, because the file system has to note that they now are
/// (docs/decisions/2026-11-22-what-a-change-costs.md).
const FILL_SHARE: u64 = 32;

/// The log, open for appending.
#[derive(Debug)]
pub struct OperationLog {
    pub(crate) disk: Arc<dyn Disk>,
    pub(crate) cell: CellId,
    pub(crate) segment_size: u64,
    /// Segments before the current one: number, and the highest index in it or before it.
    pub(crate) closed: Vec<(u64, LogIndex)>,
    pub(crate) current: OpenSegment,
    /// The next one's room; none where the disk has none (L5).
    pub(crate) spare: Option<SpareSegment>,
    pub(crate) mark: Option<Bytes>,
    pub(crate) failed: Option<DiskError>,
}

/// The segment that is written to.
#[derive(Debug)]
pub(crate) struct OpenSegment {
    pub(crate) number: u64,
    pub(crate) file: Box<dyn DiskFile>,
    /// Where the next record goes; all before it is durable.
    pub(crate) end: u64,
    /// Where the bytes end that were written, be it as zeros.
    pub(crate) filled: u64,
    /// Bytes preallocated.
    pub(crate) size: u64,
    /// The highest index in it or before it.
    pub(crate) last: LogIndex,
}

/// Where a segment lies.
pub(crate) fn segment_path(number: u64) -> String {
    format!("{LOG_DIRECTORY}/{number:016x}.log")
}

impl OpenSegment {
    /// Makes a segment of the room that was taken for it, durably.
    pub(crate) fn begin(
        disk: &dyn Disk,
        header: &SegmentHeader,
        spare: SpareSegment,
    ) -> Result<Self, DiskError> {
        let (file, size) = spare.become_segment(disk, header)?;
        let end = SEGMENT_HEADER_SIZE as u64;
        Ok(Self { number: header.number, file, end, filled: end, size, last: header.after })
    }

    /// Writes records behind the end and flushes them.
    fn write(&mut self, mut records: Vec<u8>) -> Result<(), DiskError> {
        if records.is_empty() {
            return Ok(());
        }
        let end = self.end + records.len() as u64;
        assert!(end <= self.size, "a segment has room for what is written to it");
        if end > self.filled {
            self.filled = self.size.min(end + self.size / FILL_SHARE);
            records.resize(usize::try_from(self.filled - self.end).expect("in memory"), 0);
        }
        self.file.write_at(&records, self.end).map_err(disk_error)?;
        self.file.sync().map_err(sync_failure)?;
        self.end = end;
        Ok(())
    }
}

/// Where a segment's room turns out to be none after all, what is on disk is not known (L4).
fn midway(error: DiskError) -> DiskError {
    if error == DiskError::NoSpace { DiskError::NoSpaceMidway } else { error }
}

impl OperationLog {
    /// Appends records and flushes them, once for all (L1, L2). Index zero is a mark (L3).
    ///
    /// # Errors
    /// [`DiskError::NoSpace`]: there is no room for all of them now (L5). Any other: some of them
    /// may be in the log, and it takes no more (L4): each later append gets the first one's error.
    pub fn append(&mut self, records: &[(LogIndex, Bytes)]) -> Result<(), DiskError> {
        if let Some(first) = &self.failed {
            return Err(first.clone());
        }
        let written = self.write_all(records);
        self.failed = written.as_ref().err().filter(|error| **error != DiskError::NoSpace).cloned();
        written
    }

    fn write_all(&mut self, records: &[(LogIndex, Bytes)]) -> Result<(), DiskError> {
        let mut batch = Vec::new();
        for (index, record) in records {
            let size = log_record_size(record.len()) as u64;
            if self.current.end + batch.len() as u64 + size > self.current.size {
                self.write(std::mem::take(&mut batch))?;
                self.begin_segment(size)?;
            }
            self.put(*index, record, &mut batch);
        }
        self.write(batch)
    }

    fn write(&mut self, records: Vec<u8>) -> Result<(), DiskError> {
        self.current.write(records).map_err(midway)
    }

    fn put(&mut self, index: LogIndex, record: &Bytes, batch: &mut Vec<u8>) {
        let seed = segment_seed(self.cell, self.current.number);
        put_log_record(seed, self.current.end, index, record, batch);
        if index == LogIndex::default() {
            self.mark = Some(record.clone());
        }
        self.current.last = self.current.last.max(index);
    }

    fn begin_segment(&mut self, record_size: u64) -> Result<(), DiskError> {
        let header = SegmentHeader {
            cell: self.cell,
            number: self.current.number + 1,
            previous_end: self.current.end,
            after: self.current.last,
        };
        let mark_size = self.mark.as_ref().map_or(0, |mark| log_record_size(mark.len()) as u64);
        let needed = SEGMENT_HEADER_SIZE as u64 + mark_size + record_size;
        let size = needed.max(self.segment_size);
        if self.spare.as_ref().is_none_or(|spare| spare.size() < size) {
            self.spare = None;
            self.spare = Some(SpareSegment::take(self.disk.as_ref(), size)?);
        }
        let spare = self.spare.take().expect("taken above, where there was none");
        // Without descriptors for its directory: nothing is in it yet, the next try makes it anew.
        let next = OpenSegment::begin(self.disk.as_ref(), &header, spare)
            .map_err(|error| no_room(midway(error)))?;
        let before = std::mem::replace(&mut self.current, next);
        self.closed.push((before.number, before.last));
        if let Some(mark) = self.mark.clone() {
            let mut batch = Vec::new();
            self.put(LogIndex::default(), &mark, &mut batch);
            self.write(batch)?;
        }
        self.take_room()?;
        Ok(())
    }

    /// Whether the next segment has its room (L5).
    #[must_use]
    pub fn has_room(&self) -> bool {
        self.spare.is_some()
    }

    /// Takes the room of the next segment, where that is still to be done; whether it has it now.
    ///
    /// # Errors
    /// [`DiskError`]; a full disk is none.
    pub fn take_room(&mut self) -> Result<bool, DiskError> {
        if self.spare.is_none() {
            self.spare = match SpareSegment::take(self.disk.as_ref(), self.segment_size) {
                Err(DiskError::NoSpace) => None,
                taken => Some(taken?),
            };
        }
        Ok(self.has_room())
    }

    /// Bytes of its segments, as far as they were written to.
    #[must_use]
    pub fn size(&self) -> u64 {
        self.closed.len() as u64 * self.segment_size + self.current.end
    }

    /// Takes out the segments of which no record is needed from `index` on, to be removed: appends
    /// go on meanwhile, for each removal waits for the disk.
    ///
    /// # Errors
    /// Of a log that takes no more (L4) nothing goes: the mark may not have come into the last
    /// segment (L3).
    pub fn take_before(&mut self, index: LogIndex) -> Result<OldSegments, DiskError> {
        if let Some(first) = &self.failed {
            return Err(first.clone());
        }
        let removable = self.closed.iter().take_while(|(_, last)| *last < index).count();
        let left = self.closed.drain(..removable).collect();
        Ok(OldSegments { disk: Arc::clone(&self.disk), left })
    }

    /// Those that could not be removed are the log's again.
    pub fn give_back(&mut self, OldSegments { left, .. }: OldSegments) {
        self.closed.splice(..0, left);
    }

    /// Removes what somebody left who was ended while a directory was made, before it was anyone's.
    ///
    /// # Errors
    /// [`DiskError`].
    pub fn remove_unowned(disk: &dyn Disk) -> Result<(), DiskError> {
        let left = match disk.list(LOG_DIRECTORY) {
            Err(IoFailure::NotFound) => return Ok(()),
            left => left.map_err(disk_error)?,
        };
        for name in left {
            disk.remove(&format!("{LOG_DIRECTORY}/{name}")).map_err(disk_error)?;
        }
        disk.sync_dir(LOG_DIRECTORY).map_err(sync_failure)
    }

    /// Whether it goes back to the first record ever.
    #[must_use]
    pub fn reaches_the_beginning(&self) -> bool {
        self.closed.first().map_or(self.current.number, |(number, _)| *number) == 1
    }

    /// How many segments there are.
    #[must_use]
    pub fn segment_count(&self) -> usize {
        self.closed.len() + 1
    }
}

/// Segments that were taken out of a log, front to back.
#[derive(Debug)]
pub struct OldSegments {
    disk: Arc<dyn Disk>,
    left: Vec<(u64, LogIndex)>,
}

impl OldSegments {
    /// Removes them; how many.
    ///
    /// # Errors
    /// [`DiskError`]: those that are left are to be given back to the log.
    pub fn remove(&mut self) -> Result<usize, DiskError> {
        let count = self.left.len();
        while let Some((number, _)) = self.left.first() {
            match self.disk.remove(&segment_path(*number)) {
                // Its name may come back until the directory is synced.
                Ok(()) | Err(IoFailure::NotFound) => {}
                Err(failure) => return Err(disk_error(failure)),
            }
            // One by one, front to back: a power loss must not bring back one that is not next to
            // those that are left.
            self.disk.sync_dir(LOG_DIRECTORY).map_err(sync_failure)?;
            self.left.remove(0);
        }
        Ok(count)
    }
}
