//! Finds records in the bytes of a file, starting anywhere: skips padding, garbage and fragments
//! (GFS §2.7.2).
//!
//! ```text
//!   bytes in order ──► push ──► [ kept: from the last marker on ] ──► next ──► record, or skipped
//! ```
//! - C1: what is yielded covers the stream without gap or overlap: each byte lies in one record or
//!   in one skipped range.
//! - C2: of a frame cut short nothing is believed; it is skipped once the next marker shows that
//!   no more of it will come.
//!
//! Duplicates are not its business; see `record_window`.

use crate::record::{Frame, MARKER, RecordSource, judge_frame};
use bytes::{Buf, Bytes, BytesMut};
use cairn_types::ByteRange;
use memchr::memchr;

/// A record and where it stands.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Record {
    /// Where its frame starts in the file.
    pub offset: u64,
    /// Bytes of the frame.
    pub size: u64,
    /// Who wrote it.
    pub producer: RecordSource,
    /// Its number among that producer's.
    pub number: u64,
    /// What the application wrote.
    pub payload: Bytes,
}

/// What comes next in a file of records.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Scanned {
    /// A whole, good record.
    Record(Record),
    /// Bytes that are none: padding, garbage, a fragment.
    Skipped(ByteRange),
}

/// The incremental reader.
#[derive(Debug, Default)]
pub struct RecordScanner {
    /// Offset of the first kept byte.
    offset: u64,
    kept: BytesMut,
    /// No marker starts in `kept[1..searched]`.
    searched: usize,
    /// Raw bytes without which another look at the frame is of no use.
    needed: usize,
}

impl RecordScanner {
    /// Starts at `offset` of the file, which need not be the start of a record.
    #[must_use]
    pub fn new(offset: u64) -> Self {
        Self { offset, ..Self::default() }
    }

    /// Takes the bytes that follow those of the last call.
    pub fn push(&mut self, bytes: &[u8]) {
        self.kept.extend_from_slice(bytes);
    }

    /// Up to where all is yielded: a reader that starts again here misses nothing.
    #[must_use]
    pub fn consumed(&self) -> u64 {
        self.offset
    }

    /// Bytes kept until more arrive.
    #[must_use]
    pub fn pending(&self) -> usize {
        self.kept.len()
    }

    /// The next record or skipped range; nothing until more bytes are pushed.
    #[expect(clippy::should_implement_trait, reason = "nothing is no end here: more may be pushed")]
    pub fn next(&mut self) -> Option<Scanned> {
        if !self.kept.starts_with(&MARKER) {
            let skip = find_marker(&self.kept, 0);
            return self.skip(skip);
        }
        let next_marker = self.next_marker();
        let end = next_marker.unwrap_or(self.kept.len());
        if next_marker.is_none() && self.kept.len() < self.needed {
            return None;
        }
        match judge_frame(&self.kept[..end]) {
            Frame::Whole { size, producer, number, payload } => {
                let offset = self.offset;
                self.take(size);
                let size = size as u64;
                Some(Scanned::Record(Record { offset, size, producer, number, payload }))
            }
            Frame::Short { needed } if next_marker.is_none() => {
                self.needed = needed;
                None
            }
            // C2; the search has found already where to go on.
            Frame::Short { .. } | Frame::Bad => match next_marker {
                Some(at) => self.skip(at),
                None => self.skip(self.searched),
            },
        }
    }

    /// The first marker behind the one at the start; each byte is searched once.
    fn next_marker(&mut self) -> Option<usize> {
        let at = find_marker(&self.kept, self.searched.max(1));
        self.searched = at;
        self.kept[at..].starts_with(&MARKER).then_some(at)
    }

    fn skip(&mut self, size: usize) -> Option<Scanned> {
        if size == 0 {
            return None;
        }
        let skipped = ByteRange { offset: self.offset, size: size as u64 };
        self.take(size);
        Some(Scanned::Skipped(skipped))
    }

    fn take(&mut self, size: usize) {
        self.kept.advance(size);
        self.offset += size as u64;
        self.searched = 0;
        self.needed = 0;
    }
}

/// Where, from `from` on, a marker starts, or may start once more bytes come; the end at worst.
fn find_marker(bytes: &[u8], from: usize) -> usize {
    let mut at = from;
    while let Some(step) = memchr(MARKER[0], &bytes[at.min(bytes.len())..]) {
        at += step;
        let there = &bytes[at..bytes.len().min(at + MARKER.len())];
        if MARKER.starts_with(there) {
            return at;
        }
        at += 1;
    }
    bytes.len()
}

#[cfg(test)]
mod tests {
    use super::{Record, RecordScanner, Scanned};
    use crate::record::{MARKER, RecordSource, encode_record};
    use crate::record_window::RecordWindow;
    use proptest::prelude::{
        Just, Strategy, any, prop_assert, prop_assert_eq, prop_oneof, proptest,
    };

    fn framed(number: u64, payload: &[u8]) -> Vec<u8> {
        let mut out = Vec::new();
        encode_record(RecordSource::new(1), number, payload, &mut out);
        out
    }

    fn scan(scanner: &mut RecordScanner) -> (Vec<Record>, u64) {
        let (mut records, mut skipped) = (Vec::new(), 0);
        while let Some(item) = scanner.next() {
            match item {
                Scanned::Record(record) => records.push(record),
                Scanned::Skipped(range) => skipped += range.size,
            }
        }
        (records, skipped)
    }

    #[test]
    fn padding_garbage_and_a_fragment_are_skipped_and_what_follows_is_found() {
        let fragment = &framed(1, &[7; 100])[..60];
        let whole = framed(2, b"whole");
        let stream = [&[0; 10], fragment, &whole, &[0; 5], &framed(3, b"")].concat();
        let mut scanner = RecordScanner::new(1000);
        scanner.push(&stream);
        let (records, skipped) = scan(&mut scanner);
        let found: Vec<_> = records.iter().map(|r| (r.offset, r.number, &r.payload[..])).collect();
        let third = 1000 + 10 + 60 + whole.len() as u64 + 5;
        assert_eq!(found, [(1070, 2, &b"whole"[..]), (third, 3, &b""[..])]);
        assert_eq!(skipped, 75);
        assert_eq!(scanner.consumed(), 1000 + stream.len() as u64);
    }

    #[test]
    fn a_frame_is_delivered_once_its_last_byte_is_there_and_not_before() {
        let raw = framed(4, &[9; 50]);
        let mut scanner = RecordScanner::default();
        for byte in &raw[..raw.len() - 1] {
            scanner.push(&[*byte]);
            assert_eq!(scanner.next(), None);
        }
        assert_eq!((scanner.consumed(), scanner.pending()), (0, raw.len() - 1));
        scanner.push(&raw[raw.len() - 1..]);
        assert!(matches!(scanner.next(), Some(Scanned::Record(record)) if record.number == 4));
        assert_eq!(scanner.pending(), 0);
    }

    /// The number of records that were torn; chance may complete one with what follows it.
    const TORN: u64 = u64::MAX;

    /// Pieces of a stream: whole records, and all that stands between them in real files.
    fn piece() -> impl Strategy<Value = (bool, Vec<u8>)> {
        let byte = prop_oneof![any::<u8>(), proptest::sample::select(MARKER.to_vec()), Just(0)];
        let payload = proptest::collection::vec(byte, 0..80);
        prop_oneof![
            payload.clone().prop_map(|payload| (true, payload)),
            payload.clone().prop_map(|garbage| (false, garbage)),
            (0usize..60).prop_map(|size| (false, vec![0; size])),
            (payload, 0usize..124).prop_map(|(payload, cut)| {
                let raw = framed(TORN, &payload);
                (false, raw[..cut.min(raw.len() - 1)].to_vec())
            }),
        ]
    }

    proptest! {
        #[test]
        fn any_mixture_delivers_each_whole_record_once(
            pieces in proptest::collection::vec((piece(), 1usize..3), 0..12),
            step in 1usize..300,
        ) {
            let (mut stream, mut expected) = (Vec::new(), Vec::new());
            for (number, ((is_record, bytes), copies)) in pieces.into_iter().enumerate() {
                if is_record {
                    // The same record twice: a retried append.
                    let raw = framed(number as u64, &bytes);
                    (0..copies).for_each(|_| stream.extend_from_slice(&raw));
                    expected.push((number as u64, bytes));
                } else {
                    stream.extend_from_slice(&bytes);
                }
            }
            let (mut scanner, mut window) = (RecordScanner::default(), RecordWindow::default());
            let (mut delivered, mut covered) = (Vec::new(), 0);
            for part in stream.chunks(step) {
                scanner.push(part);
                while let Some(item) = scanner.next() {
                    let range = match &item {
                        Scanned::Record(record) => (record.offset, record.size),
                        Scanned::Skipped(range) => (range.offset, range.size),
                    };
                    prop_assert_eq!(range.0, covered, "C1");
                    covered += range.1;
                    if let Scanned::Record(record) = item
                        && record.number != TORN
                        && window.first_time(record.producer, record.number)
                    {
                        delivered.push((record.number, record.payload.to_vec()));
                    }
                }
            }
            prop_assert_eq!(delivered, expected);
            prop_assert_eq!(scanner.consumed(), covered);
            prop_assert_eq!(scanner.pending() as u64 + covered, stream.len() as u64);
        }

        #[test]
        fn no_bytes_make_the_scanner_panic_or_run_for_ever(
            bytes in proptest::collection::vec(any::<u8>(), 0..400),
        ) {
            let mut scanner = RecordScanner::default();
            let mut stream = MARKER.to_vec();
            stream.extend_from_slice(&bytes);
            scanner.push(&stream);
            let mut steps = 0;
            while scanner.next().is_some() {
                steps += 1;
                prop_assert!(steps <= stream.len());
            }
        }
    }
}
