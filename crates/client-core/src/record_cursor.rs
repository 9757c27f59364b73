//! A reader's way through a file of records: what to read next, which records that gives, what to
//! doubt (GFS §2.7.2; R19, R37).
//!
//! ```text
//!   next_read ──► ReadAt ──► take ──► records, each once
//!       ▲                     │ wants to skip bytes that came by a cached location
//!       └── the same again, fresh ◄┘
//! ```
//! - RC1: bytes that are no record are skipped only when they were read at a version that the
//!   master gave out after the first try (R19); a replica left behind may hold anything there.
//!
//! Pure: whoever drives it does the reading, one read after another or several ahead.

use bytes::Bytes;
use cairn_format::{Record, RecordScanner, RecordWindow, Scanned};
use cairn_types::planted::{Rule, broken};

/// Bytes that one read asks for.
const READ_SIZE: u64 = 1 << 20;

/// A read to be done.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ReadSpec {
    /// From where.
    pub offset: u64,
    /// How many bytes.
    pub size: u64,
    /// Trust no cached location.
    pub fresh: bool,
}

/// Where one reader is.
#[derive(Debug)]
pub struct RecordCursor {
    scanner: RecordScanner,
    window: RecordWindow,
    /// Offset behind the last byte taken.
    position: u64,
    /// Reads are fresh from here on, until a record is found.
    fresh: bool,
    /// Records may stand there twice, and are delivered once.
    repeats: bool,
}

impl RecordCursor {
    /// Starts at `offset`, which need not be the start of a record.
    #[must_use]
    pub fn new(offset: u64) -> Self {
        Self {
            scanner: RecordScanner::new(offset),
            window: RecordWindow::default(),
            position: offset,
            fresh: false,
            repeats: true,
        }
    }

    /// The same of a stream: each record stands there once (R38), so each is delivered; a producer
    /// that was forgotten begins anew with the numbers that it had (R47).
    #[must_use]
    pub fn of_stream(offset: u64) -> Self {
        Self { repeats: false, ..Self::new(offset) }
    }

    /// What to read next. Reads ahead of it are at `offset + size` and so on, as long as
    /// [`take`](Self::take) accepts them.
    #[must_use]
    pub fn next_read(&self) -> ReadSpec {
        ReadSpec { offset: self.position, size: READ_SIZE, fresh: self.fresh }
    }

    /// Takes what a read gave; the new records go to `out`, duplicates left out. False: the bytes
    /// were not the ones wanted next, or are doubted; drop what was read ahead and ask for
    /// [`next_read`](Self::next_read).
    pub fn take(&mut self, read: ReadSpec, pieces: &[Bytes], out: &mut Vec<Record>) -> bool {
        if read.offset != self.position || (self.fresh && !read.fresh) {
            return false;
        }
        for piece in pieces {
            self.scanner.push(piece);
            self.position += piece.len() as u64;
        }
        while let Some(item) = self.scanner.next() {
            match item {
                Scanned::Record(record) => {
                    self.fresh = false;
                    let mut is_new = || self.window.first_time(record.producer, record.number);
                    if !self.repeats || is_new() {
                        out.push(record);
                    }
                }
                Scanned::Skipped(range) if !read.fresh && !broken(Rule::R19) => {
                    self.scanner = RecordScanner::new(range.offset);
                    self.position = range.offset;
                    self.fresh = true;
                    return false;
                }
                // Padding, or what a failed append left (RC1).
                Scanned::Skipped(_) => {}
            }
        }
        assert!(self.consumed() <= self.position, "no more is consumed than was read");
        true
    }

    /// Up to where everything was delivered or skipped: a reader that starts again here misses
    /// nothing.
    #[must_use]
    pub fn consumed(&self) -> u64 {
        self.scanner.consumed()
    }
}

#[cfg(test)]
mod tests {
    use super::{READ_SIZE, ReadSpec, RecordCursor};
    use bytes::Bytes;
    use cairn_format::{RecordSource, encode_record};
    use std::slice::from_ref;

    fn framed(number: u64) -> Vec<u8> {
        let mut out = Vec::new();
        encode_record(RecordSource::new(1), number, b"payload", &mut out);
        out
    }

    #[test]
    fn what_is_to_be_skipped_is_read_again_at_a_fresh_version_and_may_turn_out_a_record() {
        let (first, second) = (framed(1), framed(2));
        let stale = Bytes::from([&first[..], &[0; 60]].concat());
        let good = Bytes::from(second);
        let mut cursor = RecordCursor::new(0);
        let mut out = Vec::new();
        let read = cursor.next_read();
        assert_eq!(read, ReadSpec { offset: 0, size: READ_SIZE, fresh: false });
        assert!(!cursor.take(read, &[stale], &mut out));
        let again = cursor.next_read();
        let behind = first.len() as u64;
        assert_eq!(again, ReadSpec { offset: behind, size: READ_SIZE, fresh: true });
        assert!(!cursor.take(read, &[Bytes::new()], &mut out), "a read ahead of the doubted bytes");
        assert!(cursor.take(again, &[good], &mut out));
        assert_eq!(out.iter().map(|record| record.number).collect::<Vec<_>>(), [1, 2]);
        assert!(!cursor.next_read().fresh, "a record was found: trust again");
    }

    #[test]
    fn of_a_stream_each_record_is_delivered_whatever_numbers_there_were_before() {
        let bytes = Bytes::from([framed(1), framed(2), framed(1)].concat());
        for (mut cursor, count) in [(RecordCursor::new(0), 2), (RecordCursor::of_stream(0), 3)] {
            let mut out = Vec::new();
            assert!(cursor.take(cursor.next_read(), from_ref(&bytes), &mut out));
            assert_eq!(out.len(), count);
        }
    }

    #[test]
    fn padding_read_at_a_fresh_version_is_skipped_and_duplicates_are_left_out() {
        let bytes = Bytes::from([&[0; 30][..], &framed(5), &framed(5), &[0; 9]].concat());
        let mut cursor = RecordCursor::new(0);
        let mut out = Vec::new();
        assert!(!cursor.take(cursor.next_read(), from_ref(&bytes), &mut out));
        let fresh = cursor.next_read();
        assert!(fresh.fresh && cursor.take(fresh, from_ref(&bytes), &mut out));
        assert_eq!(out.len(), 1);
        assert_eq!(cursor.consumed(), bytes.len() as u64);
    }
}
