//! Reading records: each once, in the order in which they stand (§2.7.2).

use crate::error::Error;
use crate::link::{PendingAnswer, wait};
use crate::open_file::OpenFile;
use crate::reader::{REST_MAX, REST_MIN};
use cairn_client_core::{Operation, ReadSpec, RecordCursor};
use cairn_format::Record;
use cairn_types::Layout;
use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Duration;

/// Reads under way at once, where all of them are wanted.
const READ_AHEAD: usize = 4;

/// A stream of records. Made by [`File::records`](crate::File::records) and
/// [`File::records_follow`](crate::File::records_follow).
#[derive(Debug)]
pub struct RecordReader {
    file: Arc<OpenFile>,
    cursor: RecordCursor,
    under_way: VecDeque<(ReadSpec, PendingAnswer)>,
    ready: VecDeque<Record>,
    follow: bool,
    /// Records that begin here or behind are not delivered.
    until: u64,
    /// Nothing is read from there on: records end there.
    bound: u64,
    read_ahead: usize,
    rest: Duration,
}

impl RecordReader {
    pub(crate) fn new(file: Arc<OpenFile>, offset: u64, follow: bool) -> Self {
        let is_stream = file.entry.layout == Layout::Stream;
        Self {
            file,
            cursor: if is_stream {
                RecordCursor::of_stream(offset)
            } else {
                RecordCursor::new(offset)
            },
            under_way: VecDeque::new(),
            ready: VecDeque::new(),
            follow,
            until: u64::MAX,
            bound: u64::MAX,
            read_ahead: READ_AHEAD,
            rest: REST_MIN,
        }
    }

    /// Ends before the first record that does not begin before `end`.
    pub(crate) fn until(self, end: u64) -> Self {
        Self { until: end, ..self }
    }

    /// Reads nothing from `bound` on, where a record ends: what cannot be read there is no failure.
    pub(crate) fn no_further_than(self, bound: u64) -> Self {
        Self { bound, ..self }
    }

    /// Reads no more than it needs: for who wants a record or two.
    pub(crate) fn one_read_ahead(self) -> Self {
        Self { read_ahead: 1, ..self }
    }

    /// From now on it ends at the end of the file, and waits for no more.
    pub fn follow_no_more(&mut self) {
        self.follow = false;
    }

    /// The next record that this reader has not had; nothing at the end of the file, unless it
    /// follows.
    ///
    /// # Errors
    /// As [`File::read_at`](crate::File::read_at); it can be asked again.
    pub async fn next(&mut self) -> Result<Option<Record>, Error> {
        loop {
            if let Some(record) = self.ready.pop_front() {
                let is_over = record.offset >= self.until;
                return Ok(Some(record).filter(|_| !is_over));
            }
            if self.cursor.consumed() >= self.until {
                return Ok(None);
            }
            if self.read_on().await? && !self.follow {
                let last = self.ready.pop_front();
                return Ok(last.filter(|record| record.offset < self.until));
            }
        }
    }

    /// An offset from which another reader would miss nothing that this one has not had.
    #[must_use]
    pub fn consumed(&self) -> u64 {
        self.ready.front().map_or_else(|| self.cursor.consumed(), |record| record.offset)
    }

    /// Takes in the next read; true at the end of the file.
    async fn read_on(&mut self) -> Result<bool, Error> {
        self.send_reads();
        let Some((read, answer)) = self.under_way.pop_front() else {
            // All up to its bound is read.
            return Ok(true);
        };
        let output = wait(answer).await.inspect_err(|_| self.under_way.clear())?;
        let (pieces, end) = self.file.take_read(output)?;
        let mut records = Vec::new();
        let taken = self.cursor.take(read, &pieces, &mut records);
        if !records.is_empty() {
            self.rest = REST_MIN;
        }
        self.ready.extend(records);
        if !taken || end {
            self.under_way.clear();
        }
        let at_end = taken && end;
        if at_end && self.follow && self.ready.is_empty() {
            let end = self.cursor.next_read().offset;
            self.file.wait_for_more(end, self.rest).await?;
            self.rest = (self.rest * 2).min(REST_MAX);
        }
        Ok(at_end)
    }

    fn send_reads(&mut self) {
        let mut next = self.cursor.next_read();
        if let Some((last, _)) = self.under_way.back() {
            next.offset = last.offset.saturating_add(last.size);
        }
        let ahead = if next.fresh { 1 } else { self.read_ahead };
        while self.under_way.len() < ahead && next.offset < self.bound {
            let ReadSpec { offset, size, fresh } = next;
            let size = size.min(self.bound - offset);
            let file = self.file.entry.id;
            let read = Operation::Read { file, offset, size, fresh };
            let sent = ReadSpec { size, ..next };
            self.under_way.push_back((sent, self.file.link.begin(read)));
            next.offset = offset.saturating_add(size);
        }
    }
}
