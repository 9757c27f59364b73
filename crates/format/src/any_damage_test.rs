//! What must hold of every format: what is drawn comes back as it went, and what was cut or
//! changed anywhere is refused, or was not changed where it counts. Never a panic.

use crate::stream::{put_record, record_size, scan, scan_front};
use crate::{
    CheckpointRoot, ChunkHead, Corruption, FormatError, Identity, IdentityKind, JournalLine,
    PageFileHeader, RedoEntry, ReplicaLine, SEGMENT_HEADER_SIZE, ScrubPosition, SegmentHeader,
    SegmentScan, decode_journal_header, encode_journal_header, put_log_record, redo_seed,
    scan_segment, segment_seed,
};
use bytes::Bytes;
use cairn_types::sample::{Sample, damaged};
use cairn_types::{
    CellId, ChunkHandle, ChunkVersion, Crc32c, LogIndex, Random, SerialNumber, Term,
};
use proptest::prelude::{ProptestConfig, proptest};
use std::fmt::Debug;

fn draw<T: Sample>(random: &mut Random) -> T {
    T::sample(random)
}

fn head(random: &mut Random) -> ChunkHead {
    ChunkHead {
        sequence: draw(random),
        handle: draw(random),
        block_size: 1 << random.below(32),
        mutated_version: draw(random),
        serial: draw::<SerialNumber>(random),
        length: draw(random),
        acknowledged: draw(random),
        acknowledged_serial: draw(random),
        tail_checksum: draw(random),
        reflinked: random.chance(500),
    }
}

/// One line of each kind.
fn lines(random: &mut Random) -> Vec<JournalLine> {
    let (handle, version) = (draw::<ChunkHandle>(random), draw::<ChunkVersion>(random));
    let (create, close) = (draw(random), draw(random));
    vec![
        JournalLine::Raise { handle, version, create, close },
        JournalLine::Term(draw(random)),
        JournalLine::Dirty(handle),
        JournalLine::Clean { handle, sequence: draw(random) },
        JournalLine::Cleared(handle),
        JournalLine::Gone(handle),
        JournalLine::Damaged(handle),
        JournalLine::Scrubbed(ScrubPosition { began_ms: draw(random), handle }),
        JournalLine::Stood(ReplicaLine {
            handle,
            version,
            clean_sequence: draw(random),
            closed: draw(random),
            dirty: draw(random),
            damaged: draw(random),
            suspect: draw(random),
        }),
        JournalLine::Begun { page_cache: draw(random), handle, version },
    ]
}

/// Writes of one piece each, as a journal gives them back.
fn redo_entry(random: &mut Random) -> RedoEntry {
    let writes = (0..random.below(4)).map(|_| (draw(random), vec![draw::<Bytes>(random)]));
    let writes = writes.collect();
    let checksums = (0..random.below(4)).map(|_| (draw(random), draw::<Crc32c>(random)));
    let checksums = checksums.collect();
    RedoEntry { head: head(random), writes, checksums }
}

/// A block with its own checksum: whole, or nothing is read of it.
fn check_sealed<T: PartialEq + Debug>(
    value: &T,
    raw: &[u8],
    decode: impl Fn(&[u8]) -> Result<T, FormatError>,
    random: &mut Random,
) {
    assert_eq!(decode(raw).as_ref(), Ok(value));
    for _ in 0..8 {
        let cut = usize::try_from(random.below(raw.len() as u64)).expect("a place");
        assert_eq!(decode(&raw[..cut]), Err(FormatError::Truncated));
        let changed = damaged(raw, random);
        assert!(
            decode(&changed).is_err() || changed.starts_with(raw),
            "{changed:x?} for {value:?}"
        );
    }
}

/// Bytes whose checksum stands elsewhere: what is read of them all the same can be told again.
fn check_payload<T: PartialEq + Debug>(
    value: &T,
    encode: impl Fn(&T) -> Vec<u8>,
    decode: impl Fn(&[u8]) -> Result<T, FormatError>,
    random: &mut Random,
) {
    let raw = encode(value);
    assert_eq!(decode(&raw).as_ref(), Ok(value));
    for size in 0..raw.len() {
        assert!(decode(&raw[..size]).is_err(), "cut at {size}: {value:?}");
    }
    for _ in 0..16 {
        let changed = damaged(&raw, random);
        let Ok(other) = decode(&changed) else { continue };
        let again = encode(&other);
        assert!(again.len() <= changed.len(), "more came out of {changed:x?} than went in");
        assert_eq!(decode(&again), Ok(other));
    }
}

/// Payloads that are never empty.
fn payloads(random: &mut Random) -> Vec<Bytes> {
    let payload = |random: &mut Random| [&[1][..], &draw::<Bytes>(random)].concat().into();
    (0..=random.below(6)).map(|_| payload(random)).collect()
}

/// A stream that was flushed now and then; where each record starts, and what it says is synced.
fn stream_of(items: &[Bytes], random: &mut Random) -> (Vec<u8>, Vec<(usize, usize)>) {
    let (mut file, mut places, mut synced) = (Vec::new(), Vec::new(), 0);
    for item in items {
        if random.chance(500) {
            synced = file.len();
        }
        places.push((file.len(), synced));
        put_record(7, synced as u64, &[item], &mut file);
    }
    (file, places)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn sealed_blocks_come_back_whole_or_not_at_all(seed: u64) {
        let random = &mut Random::new(seed);
        let slot = head(random);
        check_sealed(&slot, &slot.encode(), ChunkHead::decode, random);
        for kind in [IdentityKind::Chunkserver, IdentityKind::Master] {
            let identity = Identity {
                kind,
                cell: draw(random),
                id: draw(random),
                begun: random.chance(500),
            };
            check_sealed(&identity, &identity.encode(), Identity::decode, random);
        }
        let generation = draw(random);
        let raw = encode_journal_header(generation);
        let generation_of = |raw: &[u8]| decode_journal_header(raw).map(|header| header.generation);
        check_sealed(&generation, &raw, generation_of, random);
        let (number, previous_end) = (draw(random), draw(random));
        let cell: CellId = draw(random);
        let segment = SegmentHeader { cell, number, previous_end, after: draw(random) };
        check_sealed(&segment, &segment.encode(), SegmentHeader::decode, random);
        let pages = PageFileHeader { cell, number };
        check_sealed(&pages, &pages.encode(), PageFileHeader::decode, random);
    }

    #[test]
    fn journal_lines_and_redo_entries_come_back_and_no_damage_makes_them_panic(seed: u64) {
        let random = &mut Random::new(seed);
        for line in lines(random) {
            let encode = |line: &JournalLine| {
                let mut raw = Vec::new();
                line.encode(&mut raw);
                raw
            };
            check_payload(&line, encode, JournalLine::decode, random);
        }
        let encode = |entry: &RedoEntry| {
            let mut raw = Vec::new();
            entry.encode(&mut raw);
            raw
        };
        check_payload(&redo_entry(random), encode, RedoEntry::decode, random);
    }

    #[test]
    fn a_stream_with_one_flipped_bit_is_torn_or_corrupt_as_its_flushes_say(seed: u64) {
        let random = &mut Random::new(seed);
        let items = payloads(random);
        let (mut file, places) = stream_of(&items, random);
        let at = usize::try_from(random.below(file.len() as u64)).expect("a place");
        file[at] ^= 1 << random.below(8);
        let hit = places.partition_point(|(start, _)| *start <= at) - 1;
        let start = places[hit].0;
        if at >= start + 16 + items[hit].len() {
            // Padding: nothing is lost.
            assert_eq!(scan(&file, 0, 7).map(|found| found.payloads.len()), Ok(items.len()));
        } else if places[hit..].iter().any(|(_, synced)| *synced > start) {
            assert_eq!(scan(&file, 0, 7), Err(Corruption { offset: start }), "S2");
        } else {
            let found = scan(&file, 0, 7).expect("a torn tail");
            assert_eq!((found.payloads.len(), found.end), (hit, start));
        }
    }

    #[test]
    fn of_a_damaged_stream_nothing_is_read_but_the_records_before_the_damage(seed: u64) {
        let random = &mut Random::new(seed);
        let items = payloads(random);
        let (file, _) = stream_of(&items, random);
        let changed = damaged(&file, random);
        let same = file.iter().zip(&changed).take_while(|(a, b)| a == b).count();
        let ends = items.iter().scan(0, |end, item| {
            let payload_end = *end + 16 + item.len();
            *end += record_size(item.len());
            Some(payload_end)
        });
        let before = ends.filter(|end| *end <= same).count();
        for found in [scan(&changed, 0, 7).ok(), Some(scan_front(&changed, 0, 7))] {
            let Some(found) = found else { continue };
            let read: Vec<&[u8]> = found.payloads.iter().map(|r| &changed[r.clone()]).collect();
            assert!(read.len() >= before, "{before} records are before the damage");
            assert!(items.iter().zip(&read).all(|(item, read)| item == read));
            assert!(read.len() <= items.len());
        }
    }

    #[test]
    fn a_log_segment_of_anything_comes_back_and_no_damage_makes_it_panic(seed: u64) {
        let random = &mut Random::new(seed);
        let header = SegmentHeader {
            cell: draw(random), number: draw(random), previous_end: 0, after: draw(random),
        };
        let sum = segment_seed(header.cell, header.number);
        let records: Vec<(LogIndex, Bytes)> = Vec::from_iter(
            payloads(random).into_iter().map(|payload| (draw(random), payload.slice(1..))),
        );
        let mut file = header.encode();
        for (index, record) in &records {
            put_log_record(sum, SEGMENT_HEADER_SIZE as u64, *index, record, &mut file);
        }
        let SegmentScan { records: found, end, .. } = scan_segment(&file, sum).expect("sound");
        let found = found.into_iter().map(|r| (r.index, Bytes::copy_from_slice(&file[r.range])));
        assert_eq!((found.collect::<Vec<_>>(), end), (records, file.len()));
        let none = SegmentScan { end: SEGMENT_HEADER_SIZE, ..SegmentScan::default() };
        assert_eq!(scan_segment(&file, sum ^ 1), Ok(none));
        for _ in 0..8 {
            let changed = damaged(&file, random);
            let _ = (SegmentHeader::decode(&changed), scan_segment(&changed, sum));
        }
    }

    #[test]
    fn a_damaged_redo_journal_gives_entries_that_were_put_and_no_other(seed: u64) {
        let random = &mut Random::new(seed);
        let sum = redo_seed(draw(random));
        let entries: Vec<RedoEntry> = (0..4).map(|_| redo_entry(random)).collect();
        let mut file = Vec::new();
        for entry in &entries {
            let mut payload = Vec::new();
            entry.encode(&mut payload);
            put_record(sum, file.len() as u64, &[&payload], &mut file);
        }
        for _ in 0..8 {
            let changed = damaged(&file, random);
            let found = scan_front(&changed, 0, sum).payloads;
            for (range, entry) in found.into_iter().zip(&entries) {
                assert_eq!(RedoEntry::decode(&changed[range]).as_ref(), Ok(entry));
            }
        }
    }

    #[test]
    fn a_damaged_checkpoint_is_none(seed: u64) {
        let random = &mut Random::new(seed);
        let (page_file, page_file_size) = (draw(random), draw(random));
        let root = CheckpointRoot {
            cell: draw(random),
            term: draw::<Term>(random),
            index: draw(random),
            page_file,
            page_file_begun: draw(random),
            page_file_size,
            live_bytes: draw(random),
            root: payloads(random).concat(),
        };
        let file = root.encode();
        assert_eq!(CheckpointRoot::decode(&file), Ok(root));
        for _ in 0..16 {
            let changed = damaged(&file, random);
            assert!(changed == file || CheckpointRoot::decode(&changed).is_err(), "{changed:x?}");
        }
    }
}
