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
//!   into each new segment, so that removing old segments never removes it. One of the last two
//!   segments has it: a process killed before it was carried over does so when it opens the log.
//! - L4: after a failed flush the log is of no more use: what is on disk is not known.
//!
//! Recovery is `log_recovery`'s.

use crate::whole_files::{disk_error, sync_failure};
use bytes::Bytes;
use cairn_env::{Disk, DiskError, DiskFile, OpenMode};
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
    /// Makes segment `number`, durably, room enough for one record of `record_size` in it.
    pub(crate) fn create(
        disk: &dyn Disk,
        header: &SegmentHeader,
        size: u64,
    ) -> Result<Self, DiskError> {
        let file = disk.open(&segment_path(header.number), OpenMode::Create).map_err(disk_error)?;
        file.set_size(0).map_err(disk_error)?;
        file.allocate(size).map_err(disk_error)?;
        file.write_at(&header.encode(), 0).map_err(disk_error)?;
        file.sync().map_err(sync_failure)?;
        disk.sync_dir(LOG_DIRECTORY).map_err(sync_failure)?;
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

impl OperationLog {
    /// Appends records and flushes them, once for all (L1, L2). Index zero is a mark (L3).
    ///
    /// # Errors
    /// [`DiskError`]: some of the records may be in the log, and the log takes no more (L4): each
    /// later append gets the first one's error.
    pub fn append(&mut self, records: &[(LogIndex, Bytes)]) -> Result<(), DiskError> {
        if let Some(first) = &self.failed {
            return Err(first.clone());
        }
        let written = self.write_all(records);
        self.failed = written.as_ref().err().cloned();
        written
    }

    fn write_all(&mut self, records: &[(LogIndex, Bytes)]) -> Result<(), DiskError> {
        let mut batch = Vec::new();
        for (index, record) in records {
            let size = log_record_size(record.len()) as u64;
            if self.current.end + batch.len() as u64 + size > self.current.size {
                self.current.write(std::mem::take(&mut batch))?;
                self.begin_segment(size)?;
            }
            self.put(*index, record, &mut batch);
        }
        self.current.write(batch)
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
        let next = OpenSegment::create(self.disk.as_ref(), &header, needed.max(self.segment_size))?;
        let before = std::mem::replace(&mut self.current, next);
        self.closed.push((before.number, before.last));
        if let Some(mark) = self.mark.clone() {
            let mut batch = Vec::new();
            self.put(LogIndex::default(), &mark, &mut batch);
            self.current.write(batch)?;
        }
        Ok(())
    }

    /// Removes the segments that hold nothing but records before `index`; says how many.
    ///
    /// # Errors
    /// [`DiskError`]; the log is as good as before.
    pub fn remove_before(&mut self, index: LogIndex) -> Result<usize, DiskError> {
        let removable = self.closed.iter().take_while(|(_, last)| *last < index).count();
        for (number, _) in self.closed.drain(..removable) {
            self.disk.remove(&segment_path(number)).map_err(disk_error)?;
            // One by one, front to back: a power loss must not bring back one that is not next to
            // those that are left.
            self.disk.sync_dir(LOG_DIRECTORY).map_err(sync_failure)?;
        }
        Ok(removable)
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
