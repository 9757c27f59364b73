//! Opening the operation log: what is in it, and where it goes on.
//!
//! ```text
//!   segments in order ── header fits? ── records up to where the next header says it ended ──►
//!   the last one: up to its torn tail, which is cut off before anything is appended
//! ```
//! - Of segments whose records the caller has all in a checkpoint, only the header is read.
//! - A segment that was begun and never written to is none: nothing in it was acknowledged.
//! - A segment that was removed may be back, where the sync of its removal failed and nobody could
//!   tell: those before a gap are none where a checkpoint has all that came before the segment
//!   behind the gap.
//! - Anything else that is missing or damaged is corruption: the master refuses to start, and says
//!   what to do. Starting without acknowledged records would be losing them in silence.

use crate::log_spare::SpareSegment;
use crate::names_anew::{give_back_name, make_name_anew};
use crate::operation_log::{LOG_DIRECTORY, OpenSegment, OperationLog, segment_path};
use crate::whole_files::{disk_error, read_all, sync_failure};
use bytes::Bytes;
use cairn_env::{Disk, DiskError, DiskFile, IoFailure, OpenMode};
use cairn_format::{
    Corruption, FormatError, SEGMENT_HEADER_SIZE, SegmentHeader, SegmentRecord, SegmentScan,
    scan_segment, segment_seed,
};
use cairn_types::planted::{Rule, broken};
use cairn_types::{CellId, LogIndex};
use std::collections::BTreeMap;
use std::sync::Arc;

/// Bytes that a disk reads or not.
const PAGE_SIZE: usize = 4096;

/// What an operation log held.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RecoveredLog {
    /// The records that stand, in order of index.
    pub records: Vec<(LogIndex, Bytes)>,
    /// The newest mark.
    pub mark: Option<Bytes>,
}

/// Why an operation log cannot be used.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum LogOpenError {
    /// The disk refused.
    #[error("operation log: {0}")]
    Disk(#[from] DiskError),
    /// Acknowledged records are damaged.
    #[error(
        "operation log: {file} is damaged at offset {offset} and not just cut short; records of \
         this master are lost. Copy the directory away, then restore a backup or let another \
         master of the group take over"
    )]
    Damaged {
        /// The segment.
        file: String,
        /// Where.
        offset: usize,
    },
    /// A segment's header cannot be read.
    #[error(
        "operation log: the header of {file}: {error}. Copy the directory away before anything else"
    )]
    Header {
        /// The segment.
        file: String,
        /// What is wrong with it.
        error: FormatError,
    },
    /// A segment of another cell, or under another number's name.
    #[error("operation log: {file} belongs elsewhere; was a file copied into this directory?")]
    Foreign {
        /// The segment.
        file: String,
    },
    /// A segment in the middle is not there.
    #[error("operation log: {file} is missing; put it back, or restore a backup")]
    Missing {
        /// The segment.
        file: String,
    },
}

/// A segment as read.
struct ReadSegment {
    number: u64,
    bytes: Bytes,
    records: Vec<SegmentRecord>,
    end: u64,
    /// What of it some record proves to have been durable (format::stream, S1).
    proven: u64,
    /// The highest index in it or before it.
    last: LogIndex,
}

/// Everything read, segment by segment.
struct LogContents {
    segments: Vec<ReadSegment>,
    /// A file at the end that was begun and never written to.
    unused: Option<u64>,
    /// Segments that are back though they were removed.
    back: Vec<u64>,
}

impl OperationLog {
    /// Opens the log, made where there is none; gives what was in it, and leaves out, where it
    /// can, records up to `covered`.
    ///
    /// The caller holds the directory's lock.
    ///
    /// # Errors
    /// [`LogOpenError`].
    pub fn open(
        disk: Arc<dyn Disk>,
        cell: CellId,
        segment_size: u64,
        covered: LogIndex,
    ) -> Result<(Self, RecoveredLog), LogOpenError> {
        unless_fixed(give_back_name(disk.as_ref(), LOG_DIRECTORY))?;
        disk.make_dir(LOG_DIRECTORY).map_err(disk_error)?;
        if disk.list(LOG_DIRECTORY).map_err(disk_error)?.is_empty() {
            // Who made it may have failed to sync its name: no later sync would save that (R27).
            unless_fixed(make_name_anew(disk.as_ref(), LOG_DIRECTORY))?;
        }
        disk.sync_dir("").map_err(sync_failure)?;
        let contents = read_contents(disk.as_ref(), cell, covered)?;
        // Made anew when it is needed: that its name was made durable is not known. One that is the
        // only one is at once, in its place: no log at all is taken for one that was lost.
        if let Some(number) = contents.unused.filter(|_| !contents.segments.is_empty()) {
            disk.remove(&segment_path(number)).map_err(disk_error)?;
            disk.sync_dir(LOG_DIRECTORY).map_err(sync_failure)?;
        }
        for number in &contents.back {
            disk.remove(&segment_path(*number)).map_err(disk_error)?;
            disk.sync_dir(LOG_DIRECTORY).map_err(sync_failure)?;
        }
        let recovered = recovered(&contents.segments);
        let mut closed: Vec<(u64, LogIndex)> =
            contents.segments.iter().map(|segment| (segment.number, segment.last)).collect();
        let current = match contents.segments.last() {
            Some(last) => {
                closed.pop();
                continue_segment(disk.as_ref(), last, segment_size)?
            }
            None => {
                let number = contents.unused.unwrap_or(1);
                let after = LogIndex::default();
                let header = SegmentHeader { cell, number, previous_end: 0, after };
                let room = SpareSegment::take(disk.as_ref(), segment_size)?;
                OpenSegment::begin(disk.as_ref(), &header, room)?
            }
        };
        let has_mark = contents.segments.last().is_none_or(ReadSegment::has_mark);
        let mark = recovered.mark.clone();
        let (spare, failed) = (None, None);
        let mut log = Self { disk, cell, segment_size, closed, current, spare, mark, failed };
        log.take_room()?;
        if let Some(mark) = log.mark.clone().filter(|_| !has_mark) {
            // Killed between beginning the segment and carrying the mark over (L3).
            log.append(&[(LogIndex::default(), mark)])?;
        }
        Ok((log, recovered))
    }

    /// Reads what is in it and changes nothing; leaves out, where it can, records up to `covered`.
    /// Where there is no log, nothing is in it.
    ///
    /// # Errors
    /// [`LogOpenError`].
    pub fn read(
        disk: &dyn Disk,
        cell: CellId,
        covered: LogIndex,
    ) -> Result<RecoveredLog, LogOpenError> {
        match disk.list(LOG_DIRECTORY) {
            Err(IoFailure::NotFound) => Ok(RecoveredLog::default()),
            _ => Ok(recovered(&read_contents(disk, cell, covered)?.segments)),
        }
    }

    /// Whether a directory has any of a log, readable or not.
    ///
    /// # Errors
    /// [`DiskError`].
    pub fn has_segments(disk: &dyn Disk) -> Result<bool, DiskError> {
        match segment_numbers(disk) {
            Err(DiskError::Io(IoFailure::NotFound)) => Ok(false),
            numbers => Ok(!numbers?.is_empty()),
        }
    }

    /// Whose log a directory has; none where it has none, or its first header does not read.
    ///
    /// # Errors
    /// [`DiskError`].
    pub fn cell_of(disk: &dyn Disk) -> Result<Option<CellId>, DiskError> {
        let numbers = match disk.list(LOG_DIRECTORY) {
            Err(IoFailure::NotFound) => return Ok(None),
            _ => segment_numbers(disk)?,
        };
        let Some(first) = numbers.first() else { return Ok(None) };
        let file = disk.open(&segment_path(*first), OpenMode::Read).map_err(disk_error)?;
        let mut bytes = [0; SEGMENT_HEADER_SIZE];
        let size = file.read_at(&mut bytes, 0).map_err(disk_error)?;
        Ok(SegmentHeader::decode(&bytes[..size]).ok().map(|header| header.cell))
    }
}

/// A name that a system does not move is a mount point, which needs no saving; and one that is not
/// given back was made anew by an older build, and is in use.
fn unless_fixed(moved: Result<(), DiskError>) -> Result<(), DiskError> {
    match moved {
        Err(DiskError::Io(IoFailure::System(_) | IoFailure::AlreadyExists)) => Ok(()),
        moved => moved,
    }
}

/// Opens the last segment for appending, its torn tail made zeros (format::stream, S3).
///
/// The room that it has is kept: on a full disk somebody else would take what was given away.
/// Where the flush of its last records failed, the page cache has them and takes them for clean,
/// and the disk does not: another flush would save nothing. So what no record proves to have been
/// durable is written once more.
fn continue_segment(
    disk: &dyn Disk,
    last: &ReadSegment,
    segment_size: u64,
) -> Result<OpenSegment, DiskError> {
    let file = disk.open(&segment_path(last.number), OpenMode::Write).map_err(disk_error)?;
    let end = last.end;
    let found = last.bytes.len() as u64;
    let unproven = usize::try_from(last.proven).expect("an offset within what was read");
    let records_end = usize::try_from(end).expect("an offset within what was read");
    let torn = last.bytes[records_end..].iter().rposition(|byte| *byte != 0).map_or(0, |at| at + 1);
    let mut bytes = last.bytes[unproven..records_end].to_vec();
    bytes.resize(bytes.len() + torn, 0);
    file.write_at(&bytes, last.proven).map_err(disk_error)?;
    let size = match file.allocate(segment_size.max(found)) {
        Err(IoFailure::NoSpace) => found,
        allocated => allocated.map(|()| segment_size.max(found)).map_err(disk_error)?,
    };
    file.sync().map_err(sync_failure)?;
    Ok(OpenSegment { number: last.number, file, end, filled: end, size, last: last.last })
}

/// The records that stand (L2), and the newest mark (L3).
fn recovered(segments: &[ReadSegment]) -> RecoveredLog {
    let mut standing = BTreeMap::new();
    let mut mark = None;
    for segment in segments {
        for record in &segment.records {
            let bytes = segment.bytes.slice(record.range.clone());
            if record.index == LogIndex::default() {
                mark = Some(bytes);
            } else {
                if standing.last_key_value().is_some_and(|(last, _)| *last >= record.index) {
                    drop(standing.split_off(&record.index));
                }
                standing.insert(record.index, bytes);
            }
        }
    }
    RecoveredLog { records: standing.into_iter().collect(), mark }
}

impl ReadSegment {
    fn has_mark(&self) -> bool {
        self.records.iter().any(|record| record.index == LogIndex::default())
    }
}

fn read_contents(
    disk: &dyn Disk,
    cell: CellId,
    covered: LogIndex,
) -> Result<LogContents, LogOpenError> {
    let mut numbers = segment_numbers(disk)?;
    let removed = removed_before(disk, cell, &numbers, covered)?;
    let back: Vec<u64> = numbers.drain(..removed).collect();
    let mut contents = LogContents { segments: Vec::new(), unused: None, back };
    let skipped = skipped_segments(disk, cell, &numbers, covered)?;
    for (position, number) in numbers.iter().copied().enumerate() {
        let file = segment_path(number);
        if let Some(before) = contents.segments.last()
            && before.number + 1 != number
        {
            return Err(LogOpenError::Missing { file: segment_path(before.number + 1) });
        }
        if let Some((header, next)) = skipped.get(position) {
            check_end_of_previous(&contents.segments, header)?;
            let (end, last) = (next.previous_end, next.after);
            let (bytes, records) = (Bytes::new(), Vec::new());
            contents.segments.push(ReadSegment { number, bytes, records, end, proven: end, last });
            continue;
        }
        let opened = disk.open(&file, OpenMode::Read).map_err(disk_error)?;
        let read = match read_all(opened.as_ref()) {
            // L6 broken: what cannot be read is taken for a torn tail.
            Err(IoFailure::Device) if broken(Rule::L6) => read_while_it_goes(opened.as_ref()),
            read => read,
        };
        let bytes = Bytes::from(read.map_err(disk_error)?);
        let scanned = scan_segment(&bytes, segment_seed(cell, number));
        let is_last = position + 1 == numbers.len();
        let is_unused = is_last && scanned.as_ref().is_ok_and(|found| found.records.is_empty());
        let header = match SegmentHeader::decode(&bytes) {
            Ok(header) => header,
            // Nothing is written behind a header that is not on disk.
            Err(_)
                if is_unused && bytes.iter().skip(SEGMENT_HEADER_SIZE).all(|byte| *byte == 0) =>
            {
                contents.unused = Some(number);
                break;
            }
            Err(error) => return Err(LogOpenError::Header { file, error }),
        };
        if header.cell != cell || header.number != number {
            return Err(LogOpenError::Foreign { file });
        }
        if is_unused {
            contents.unused = Some(number);
            break;
        }
        check_end_of_previous(&contents.segments, &header)?;
        let SegmentScan { records, end, proven } =
            scanned.map_err(|Corruption { offset }| LogOpenError::Damaged { file, offset })?;
        let highest = records.iter().map(|record| record.index).max().unwrap_or_default();
        let before = contents.segments.last().map_or(header.after, |before| before.last);
        let (end, last) = (end as u64, header.after.max(highest).max(before));
        contents.segments.push(ReadSegment { number, bytes, records, end, proven, last });
    }
    // L3: what has records has the mark before them, if there was any when it was begun. So there
    // may have been one in the gap only where nothing behind it has records.
    let has_records = contents.segments.iter().any(|segment| !segment.records.is_empty());
    match contents.back.last() {
        Some(last) if !has_records => Err(LogOpenError::Missing { file: segment_path(last + 1) }),
        _ => Ok(contents),
    }
}

/// What is in a file up to the first page that cannot be read, and zeros from there on.
fn read_while_it_goes(file: &dyn DiskFile) -> Result<Vec<u8>, IoFailure> {
    let size = usize::try_from(file.size()?).expect("a segment fits into memory");
    let mut bytes = vec![0; size];
    for (at, page) in bytes.chunks_mut(PAGE_SIZE).enumerate() {
        if file.read_at(page, (at * PAGE_SIZE) as u64).is_err() {
            break;
        }
    }
    Ok(bytes)
}

/// How many segments at the front were removed, and are back: a gap is behind them, and of what
/// came before the segment behind it `covered` has all.
fn removed_before(
    disk: &dyn Disk,
    cell: CellId,
    numbers: &[u64],
    covered: LogIndex,
) -> Result<usize, LogOpenError> {
    let Some(gap) = numbers.windows(2).rposition(|pair| pair[0] + 1 != pair[1]) else {
        return Ok(0);
    };
    let header = header_of(disk, cell, numbers[gap + 1])?;
    Ok(if header.is_some_and(|it| it.after <= covered) { gap + 1 } else { 0 })
}

/// A segment's header; none where it is not as it should be, which is told where it is read.
fn header_of(
    disk: &dyn Disk,
    cell: CellId,
    number: u64,
) -> Result<Option<SegmentHeader>, LogOpenError> {
    let file = disk.open(&segment_path(number), OpenMode::Read).map_err(disk_error)?;
    let mut bytes = [0; SEGMENT_HEADER_SIZE];
    let size = file.read_at(&mut bytes, 0).map_err(disk_error)?;
    let header = SegmentHeader::decode(&bytes[..size]).ok();
    Ok(header.filter(|header| header.cell == cell && header.number == number))
}

/// The headers of the segments at the front that hold nothing beyond `covered`, each with the one
/// after it, which tells. The last two are never among them: one of these has the mark (L3).
fn skipped_segments(
    disk: &dyn Disk,
    cell: CellId,
    numbers: &[u64],
    covered: LogIndex,
) -> Result<Vec<(SegmentHeader, SegmentHeader)>, LogOpenError> {
    let mut skipped = Vec::new();
    let mut before = None;
    for number in numbers.iter().take(numbers.len().saturating_sub(1)).copied() {
        let Some(header) = header_of(disk, cell, number)? else { break };
        if let Some(before) = before.replace(header) {
            if header.after > covered {
                break;
            }
            skipped.push((before, header));
        }
    }
    Ok(skipped)
}

/// All of the segment before was durable when this one was begun (format::log_segment, G1).
fn check_end_of_previous(
    before: &[ReadSegment],
    header: &SegmentHeader,
) -> Result<(), LogOpenError> {
    match before.last() {
        Some(previous) if previous.end < header.previous_end => {
            let file = segment_path(previous.number);
            let offset = usize::try_from(previous.end).unwrap_or(usize::MAX);
            Err(LogOpenError::Damaged { file, offset })
        }
        _ => Ok(()),
    }
}

fn segment_numbers(disk: &dyn Disk) -> Result<Vec<u64>, DiskError> {
    let names = disk.list(LOG_DIRECTORY).map_err(disk_error)?;
    let number = |name: &String| u64::from_str_radix(name.strip_suffix(".log")?, 16).ok();
    let mut numbers: Vec<u64> = names.iter().filter_map(number).collect();
    numbers.sort_unstable();
    Ok(numbers)
}
