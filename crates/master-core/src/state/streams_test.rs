//! What is in a stream, after histories of fitting and odd records: each number once, in order, and
//! extents without a gap (R38, R39, OE1).

use super::{Extent, HIDDEN_ROOT, ROOT, State};
use crate::applied::Applied;
use crate::reads;
use crate::record::{
    AddFile, CopiedEntry, CopyEntries, HEIR_LEVEL, HideEntry, LOST_LEVEL, Purge, RaiseLevel,
    Record, SetVersion, SnapshotTree,
};
use crate::stream_records::{
    AbandonChunk, AllocateChunk, CloseProducerRecord, CommitBundlesRecord, CommittedBundle,
    CopyStream, ForgetProducerRecord, OpenProducerRecord, ReplaceRange, ReplacedRange, SealChunk,
    SkipLostTail,
};
use bytes::Bytes;
use cairn_pagetree::{FileId, TreeUsage};
use cairn_protocol::{
    BUNDLES_MAX, CommitOutcome, CountShared, ErrorCode, LostTail, SharedPart, SharedSum,
};
use cairn_types::{
    ChunkHandle, ChunkIndex, ChunkVersion, EntryId, Epoch, Layout, MutationName, MutationNumber,
    ProducerId, Random, RecordNumber, SerialNumber, SessionId, Term, WallTime,
};
use proptest::prelude::{ProptestConfig, any, proptest};
use std::collections::BTreeMap;
use std::sync::Arc;

const TERM: Term = Term::new(1);
const FILE: EntryId = EntryId::new(1 << 40 | 7);
const CHUNK_SIZE: u64 = 1 << 16;

/// A cell with one stream, and numbers for what comes.
struct World {
    state: State,
    counter: u64,
    time: u64,
}

impl World {
    fn new() -> Self {
        let mut world = Self { state: State::default(), counter: 100, time: 1 };
        world.state.config.chunk_size = CHUNK_SIZE;
        world.state.config.cursors_kept_ms = 86_400_000;
        world.apply(RaiseLevel { level: 3, ..RaiseLevel::default() });
        let name = "s".to_owned();
        let mutation = world.mutation();
        let (layout, replication) = (Layout::Stream, 3);
        let add = AddFile {
            mutation,
            parent: ROOT,
            name,
            id: FILE,
            layout,
            replication,
            ..Default::default()
        };
        world.apply(add);
        world
    }

    fn apply(&mut self, record: impl Into<Record>) -> Applied {
        self.state.apply(self.state.applied().next(), TERM, &record.into())
    }

    fn fresh(&mut self) -> u64 {
        self.counter += 1;
        self.counter
    }

    fn time(&mut self) -> WallTime {
        self.time += 1;
        WallTime::from_millis(self.time)
    }

    fn mutation(&mut self) -> MutationName {
        let number = MutationNumber::new(self.fresh());
        MutationName { session: SessionId::new(9), number }
    }

    fn open(&mut self, name: &str) -> (ProducerId, Epoch) {
        self.open_in(TERM, name)
    }

    fn open_in(&mut self, term: Term, name: &str) -> (ProducerId, Epoch) {
        let (producer, epoch) = (self.fresh(), self.fresh());
        let opened = OpenProducerRecord {
            time: self.time(),
            mutation: self.mutation(),
            file: FILE,
            name: name.to_owned(),
            producer: ProducerId::of(TERM, producer),
            epoch: Epoch::of(term, epoch),
            takes_over: Epoch::default(),
        };
        match self.apply(opened) {
            Applied::ProducerOpened(opened) => (opened.producer, opened.epoch),
            other => panic!("{other:?}"),
        }
    }

    fn allocate(&mut self, (producer, epoch): (ProducerId, Epoch)) -> Option<ChunkHandle> {
        let handle = ChunkHandle::of(TERM, self.fresh());
        let count = self.state.entry(FILE).map_or(0, |entry| entry.chunk_count);
        let made = AllocateChunk {
            time: self.time(),
            file: FILE,
            index: ChunkIndex::new(count),
            handle,
            version: ChunkVersion::of(TERM, self.counter),
            set_size: 3,
            floor: ChunkHandle::default(),
            producer,
            epoch,
        };
        matches!(self.apply(made), Applied::Changed(_)).then_some(handle)
    }

    /// The bundle that fits a chunk, of the producer's next numbers.
    fn fitting(
        &self,
        id: ProducerId,
        handle: ChunkHandle,
        (count, size): (u64, u64),
    ) -> CommittedBundle {
        let streams = self.state.streams();
        let row = streams.open_chunk(handle);
        CommittedBundle {
            first: streams.producer(FILE, id).map(|it| it.number).unwrap_or_default().next(),
            count,
            handle,
            offset: row.map_or(0, |row| row.length),
            size,
            serial: row.map_or(SerialNumber::default(), |row| row.serial).next(),
            cursor: None,
            replaces: None,
        }
    }

    fn commit(
        &mut self,
        (producer, epoch): (ProducerId, Epoch),
        bundles: Vec<CommittedBundle>,
    ) -> Result<(Vec<(CommitOutcome, u64)>, u64), ErrorCode> {
        let time = self.time();
        match self.apply(CommitBundlesRecord { time, file: FILE, producer, epoch, bundles }) {
            Applied::BundlesCommitted(it) => {
                let bundles = it.bundles.iter().map(|it| (it.outcome, it.offset)).collect();
                Ok((bundles, it.number.get()))
            }
            Applied::Failed(failure) => Err(failure.code),
            other => panic!("{other:?}"),
        }
    }

    fn seal(&mut self, handle: ChunkHandle, serial: u64) -> Applied {
        let version = ChunkVersion::of(TERM, self.fresh());
        let serial = Some(SerialNumber::new(serial));
        let time = self.time();
        self.apply(SealChunk { time, handle, version, set_size: 3, serial, ..SealChunk::default() })
    }

    /// A snapshot of the stream, and how many slices it took beside the last.
    fn copy(&mut self, name: &str) -> (EntryId, usize) {
        let top = EntryId::of(TERM, self.fresh());
        let count = self.state.entry(FILE).expect("it is there").chunk_count;
        let copied = CopiedEntry {
            source: FILE,
            id: top,
            parent: HIDDEN_ROOT,
            name: name.to_owned(),
            count,
            ..CopiedEntry::default()
        };
        self.apply(CopyEntries { top, entries: vec![copied], ..CopyEntries::default() });
        let mut slice =
            CopyStream { top, source: FILE, id: top, count: 4, ..CopyStream::default() };
        let slices = (1..)
            .take_while(|_| match self.apply(slice.clone()) {
                Applied::StreamCopied(it) => {
                    (slice.from, slice.after) = (it.from, it.after);
                    !it.whole
                }
                other => panic!("{other:?}"),
            })
            .count();
        let (mutation, to_name) = (self.mutation(), name.to_owned());
        let last = SnapshotTree {
            mutation,
            top,
            entries: 1,
            to_parent: ROOT,
            to_name,
            ..Default::default()
        };
        assert!(matches!(self.apply(last), Applied::SnapshotMade(_)));
        (top, slices)
    }

    /// A file is deleted, and goes at once.
    fn purge(&mut self, entry: EntryId, name: &str) {
        let (mutation, name) = (self.mutation(), name.to_owned());
        self.apply(HideEntry { mutation, entry, parent: ROOT, name, ..Default::default() });
        self.apply(Purge { entry, count: 4096, ..Purge::default() });
        assert!(self.state.entry(entry).is_none());
    }

    /// The extents tile the file (OE1), and each is in a chunk that is there.
    fn check(&self) {
        let entry = self.state.entry(FILE).expect("it is there");
        let mut at = 0;
        for extent in self.state.streams().extents_from(FILE, 0) {
            assert_eq!(extent.offset(), at, "no gap");
            assert!(self.state.chunk_at(FILE, extent.index).is_some(), "its chunk is there");
            assert!(extent.chunk_offset + extent.size <= CHUNK_SIZE);
            at = extent.end;
        }
        assert_eq!(at, entry.length);
        let lost = self.state.lost();
        for handle in lost.handles() {
            let row = lost.get(handle).expect("it is there");
            assert!(!row.is_hole && row.held < row.committed && self.state.chunk(handle).is_some());
        }
        for (handle, row) in self.state.streams().open_after(ChunkHandle::default()) {
            let chunk = self.state.chunk(handle).expect("OE2");
            assert!(!chunk.closed && chunk.file == row.file);
        }
        for index in (0..entry.chunk_count).map(ChunkIndex::new) {
            let Some(handle) = self.state.chunk_at(FILE, index) else { continue };
            let chunk = self.state.chunk(handle).expect("its record is there");
            assert!(
                chunk.closed || self.state.streams().open_chunk(handle).is_some(),
                "what is not closed is to be sealed some day (R42, PU4)"
            );
        }
    }
}

#[test]
fn a_bundle_is_committed_once_in_order_and_only_where_it_fits() {
    let mut world = World::new();
    let a = world.open("a");
    let chunk = world.allocate(a).expect("made");
    let first = world.fitting(a.0, chunk, (3, 100));
    let committed = |offset| (CommitOutcome::Committed, offset);
    assert_eq!(world.commit(a, vec![first.clone()]), Ok((vec![committed(0)], 3)));
    // A repeat is answered as the first time, another content of its numbers is refused (R39).
    assert_eq!(world.commit(a, vec![first.clone()]), Ok((vec![committed(0)], 3)));
    let other = CommittedBundle { count: 2, ..first.clone() };
    assert_eq!(world.commit(a, vec![other]), Err(ErrorCode::Invalid));
    let fits = world.fitting(a.0, chunk, (1, 50));
    let late = CommittedBundle { first: RecordNumber::new(5), ..fits.clone() };
    assert_eq!(world.commit(a, vec![late]), Ok((vec![(CommitOutcome::NotNext, 0)], 3)));
    for lost in [
        CommittedBundle { offset: 99, ..fits.clone() },
        CommittedBundle { serial: SerialNumber::new(3), ..fits.clone() },
        CommittedBundle { handle: ChunkHandle::of(TERM, 1), ..fits.clone() },
    ] {
        assert_eq!(world.commit(a, vec![lost]), Ok((vec![(CommitOutcome::ChunkLost, 0)], 3)));
    }
    let long = CommittedBundle { size: CHUNK_SIZE, ..fits.clone() };
    assert_eq!(world.commit(a, vec![long]), Err(ErrorCode::Invalid));
    // Two of one request, the second of which does not fit: the first stands (OM1).
    let after = CommittedBundle { first: RecordNumber::new(6), offset: 1, ..fits.clone() };
    let both = world.commit(a, vec![fits, after]);
    assert_eq!(both, Ok((vec![committed(100), (CommitOutcome::NotNext, 0)], 4)));
    world.check();
}

#[test]
fn an_epoch_that_is_over_is_told_what_it_had_committed_and_nothing_of_its_successors() {
    let mut world = World::new();
    let old = world.open("a");
    let chunk = world.allocate(old).expect("made");
    let one = world.fitting(old.0, chunk, (1, 10));
    world.commit(old, vec![one]).expect("committed");
    let lost = world.fitting(old.0, chunk, (1, 10));
    let new = world.open("a");
    assert_eq!(old.0, new.0, "the same producer");
    let mine = world.allocate(new).expect("made");
    let two = world.fitting(new.0, mine, (1, 20));
    assert_eq!(two.first, lost.first, "the successor uses its number");
    world.commit(new, vec![two]).expect("committed");
    // R38: it is not told that its record stands.
    assert_eq!(world.commit(old, vec![lost]), Ok((vec![(CommitOutcome::Fenced, 0)], 1)));
    assert!(world.allocate(old).is_none(), "no chunk for a zombie");
    world.check();
    let close =
        CloseProducerRecord { file: FILE, producer: new.0, epoch: new.1, ..Default::default() };
    world.apply(close);
    let more = world.fitting(new.0, mine, (1, 20));
    assert_eq!(world.commit(new, vec![more]), Ok((vec![(CommitOutcome::Fenced, 0)], 2)));
}

#[test]
fn outcomes_of_the_last_bundles_are_kept_and_older_ones_are_done_before() {
    let mut world = World::new();
    let a = world.open("a");
    let chunk = world.allocate(a).expect("made");
    let all: Vec<CommittedBundle> = (0..BUNDLES_MAX + 3)
        .map(|_| {
            let bundle = world.fitting(a.0, chunk, (2, 8));
            world.commit(a, vec![bundle.clone()]).expect("committed");
            bundle
        })
        .collect();
    let number = 2 * all.len() as u64;
    for (at, bundle) in all.iter().enumerate() {
        let answer = match at {
            0..3 => (CommitOutcome::DoneBefore, 0),
            _ => (CommitOutcome::Committed, 8 * at as u64),
        };
        assert_eq!(world.commit(a, vec![bundle.clone()]), Ok((vec![answer], number)), "{at}");
    }
    assert_eq!(world.state.streams().extents_from(FILE, 0).count(), 1, "one run, one extent");
}

#[test]
fn a_sealed_chunk_takes_nothing_and_is_sealed_with_all_that_is_committed() {
    let mut world = World::new();
    let a = world.open("a");
    let (chunk, empty) = (world.allocate(a).expect("made"), world.allocate(a).expect("made"));
    for _ in 0..2 {
        let bundle = world.fitting(a.0, chunk, (1, 10));
        world.commit(a, vec![bundle]).expect("committed");
    }
    // Whoever was raised lacks the second (OM3).
    assert!(matches!(world.seal(chunk, 1), Applied::Failed(it) if it.code == ErrorCode::Busy));
    let next = world.fitting(a.0, chunk, (1, 10));
    assert!(matches!(world.seal(chunk, 2), Applied::Changed(_)));
    assert_eq!(world.commit(a, vec![next]), Ok((vec![(CommitOutcome::ChunkLost, 0)], 2)));
    assert!(world.state.chunk(chunk).expect("there").closed);
    assert_eq!(world.state.entry(FILE).expect("there").length, 20, "no longer than committed");
    let some = AbandonChunk { handle: chunk, ..AbandonChunk::default() };
    assert!(matches!(world.apply(some), Applied::Failed(_)), "nobody writes it");
    let none = AbandonChunk { handle: empty, ..AbandonChunk::default() };
    let late = world.fitting(a.0, empty, (1, 10));
    assert!(matches!(world.apply(none), Applied::ChunkAbandoned(_)));
    assert!(world.state.chunk(empty).is_none() && world.state.is_purged(empty), "garbage (R42)");
    assert_eq!(world.commit(a, vec![late]), Ok((vec![(CommitOutcome::ChunkLost, 0)], 2)));
    world.check();
}

#[test]
fn what_a_chunk_has_lost_is_noted_until_a_server_brings_it_back_and_a_person_may_make_a_hole_of_it()
{
    let mut world = World::new();
    let a = world.open("a");
    let chunk = world.allocate(a).expect("made");
    for _ in 0..3 {
        let bundle = world.fitting(a.0, chunk, (1, 10));
        world.commit(a, vec![bundle]).expect("committed");
    }
    let at = |number| ChunkVersion::of(TERM, number);
    let sealed =
        SealChunk { handle: chunk, version: at(901), held: Some(10), ..Default::default() };
    // Not before all members can apply it.
    assert!(matches!(world.apply(sealed), Applied::Failed(it) if it.code == ErrorCode::Busy));
    world.apply(RaiseLevel { level: LOST_LEVEL, ..RaiseLevel::default() });
    let skip = SkipLostTail { file: FILE, handle: chunk, ..SkipLostTail::default() };
    assert!(matches!(world.apply(skip), Applied::Failed(it) if it.code == ErrorCode::NotFound));
    assert!(matches!(world.apply(sealed), Applied::Changed(_)));
    let lost = |held, is_hole| Some(LostTail { handle: chunk, held, committed: 30, is_hole });
    let told = |world: &World| (world.state.lost().get(chunk), world.state.lost().count());
    assert_eq!(told(&world), (lost(10, false), 1));
    // A set of which all have more; one that says nothing of it changes nothing.
    let set = |number, held| SetVersion {
        handle: chunk,
        version: at(number),
        held,
        ..Default::default()
    };
    world.apply(set(902, None));
    assert_eq!(told(&world), (lost(10, false), 1));
    world.apply(set(903, Some(20)));
    assert_eq!(told(&world), (lost(20, false), 1));
    let elsewhere = SkipLostTail { file: EntryId::new(77), ..skip };
    assert!(matches!(world.apply(elsewhere), Applied::Failed(_)), "it is no chunk of that");
    for _ in 0..2 {
        assert!(matches!(world.apply(skip), Applied::Changed(_)), "it may come twice");
        assert_eq!(told(&world), (lost(20, true), 0), "a person knows");
    }
    world.apply(set(904, Some(25)));
    assert_eq!(told(&world), (lost(25, true), 0));
    world.apply(set(914, Some(10)));
    assert_eq!(told(&world), (lost(10, false), 1), "a person has not seen that");
    world.apply(set(915, Some(30)));
    assert_eq!(told(&world), (None, 0), "all of it is back");
    world.apply(set(916, Some(20)));
    assert_eq!(told(&world), (None, 0), "nothing says how much was committed");
    world.apply(SetVersion { committed: Some(30), ..set(917, Some(20)) });
    assert_eq!(told(&world), (lost(20, false), 1), "it was closed when it lost that");
}

#[test]
fn what_a_chunk_has_lost_goes_with_it() {
    let mut world = World::new();
    world.apply(RaiseLevel { level: LOST_LEVEL, ..RaiseLevel::default() });
    let a = world.open("a");
    for is_hole in [false, true] {
        let chunk = world.allocate(a).expect("made");
        let bundle = world.fitting(a.0, chunk, (1, 10));
        world.commit(a, vec![bundle]).expect("committed");
        let version = ChunkVersion::of(TERM, 901);
        let held = Some(0);
        world.apply(SealChunk { handle: chunk, version, held, ..Default::default() });
        if is_hole {
            let (file, handle) = (FILE, chunk);
            world.apply(SkipLostTail { file, handle, ..SkipLostTail::default() });
        }
    }
    let rows = |world: &World| world.state.chunks.lost().maps().map(|map| map.len());
    assert_eq!(rows(&world), [1, 1]);
    let (mutation, name) = (world.mutation(), "s".to_owned());
    world.apply(HideEntry { mutation, entry: FILE, parent: ROOT, name, ..Default::default() });
    while !matches!(
        world.apply(Purge { entry: FILE, count: 4, ..Purge::default() }),
        Applied::EntryPurged(purged) if purged.whole
    ) {}
    assert_eq!(rows(&world), [0, 0], "CT2");
}

#[test]
fn a_cursor_belongs_to_its_number_and_a_forgotten_producer_begins_anew() {
    let mut world = World::new();
    let a = world.open("a");
    let chunk = world.allocate(a).expect("made");
    let bundle = world.fitting(a.0, chunk, (4, 10));
    let text = Bytes::from_static(b"line 4");
    let with = CommittedBundle { cursor: Some(text.clone()), ..bundle };
    world.commit(a, vec![with]).expect("committed");
    let without = world.fitting(a.0, chunk, (1, 10));
    world.commit(a, vec![without]).expect("committed");
    let cursor = world.state.streams().cursor(FILE, a.0).expect("kept");
    assert_eq!((cursor.number.get(), cursor.text), (4, text));
    let mutation = world.mutation();
    let name = "a".to_owned();
    world.apply(ForgetProducerRecord { mutation, file: FILE, name, ..Default::default() });
    assert_eq!(world.state.streams().producers_after(FILE, "").count(), 0);
    let again = world.open("a");
    assert_ne!(again.0, a.0);
    let producer = world.state.streams().producer(FILE, again.0).expect("there");
    assert_eq!(producer.number, RecordNumber::default());
    assert_eq!(world.state.streams().cursor(FILE, again.0), None);
}

#[test]
fn a_stream_that_is_purged_leaves_nothing() {
    let mut world = World::new();
    for name in ["a", "b", "c"] {
        let producer = world.open(name);
        for _ in 0..3 {
            let chunk = world.allocate(producer).expect("made");
            let bundle = world.fitting(producer.0, chunk, (1, 10));
            let with = CommittedBundle { cursor: Some(Bytes::from_static(b"c")), ..bundle };
            world.commit(producer, vec![with]).expect("committed");
        }
    }
    let (mutation, name) = (world.mutation(), "s".to_owned());
    world.apply(HideEntry { mutation, entry: FILE, parent: ROOT, name, ..Default::default() });
    let purge = Purge { entry: FILE, count: 4, ..Purge::default() };
    let mut slices = 0;
    loop {
        slices += 1;
        match world.apply(purge.clone()) {
            Applied::EntryPurged(purged) if purged.whole => break,
            Applied::EntryPurged(_) => {
                assert!(slices < 50);
                let length = world.state.entry(FILE).map(|entry| entry.length);
                assert_eq!(length, Some(0), "no bytes whose extents are gone");
            }
            other => panic!("{other:?}"),
        }
    }
    assert!(slices > 3, "slice by slice");
    assert!(world.state.streams().maps().iter().all(|map| map.len() == 0));
}

#[test]
fn a_snapshot_of_a_stream_has_its_bytes_and_its_producers_and_goes_its_own_way() {
    let mut world = World::new();
    for name in ["a", "b", "c"] {
        let producer = world.open(name);
        for _ in 0..2 {
            let chunk = world.allocate(producer).expect("made");
            let bundle = world.fitting(producer.0, chunk, (1, 10));
            let with = CommittedBundle { cursor: Some(Bytes::from_static(b"c")), ..bundle };
            world.commit(producer, vec![with]).expect("committed");
        }
    }
    let before: Vec<Extent> = world.state.streams().extents_from(FILE, 0).collect();
    let (top, slices) = world.copy("t");
    assert_eq!(slices, 2, "nine rows, four at a time, and the last finds none");
    let streams = world.state.streams();
    assert_eq!(streams.extents_from(top, 0).collect::<Vec<_>>(), before);
    let names: Vec<(String, ProducerId)> = streams.producers_after(top, "").collect();
    assert_eq!(names, streams.producers_after(FILE, "").collect::<Vec<_>>());
    for (_, id) in names {
        let producer = streams.producer(top, id).expect("there");
        assert!(producer.closed && producer.chunks.is_empty() && producer.number.get() == 2);
        assert_eq!(streams.cursor(top, id), streams.cursor(FILE, id));
    }
    // Which of its bytes others have, too, is told by its extents, and not by their order.
    let later = world.open("later");
    let chunk = world.allocate(later).expect("made");
    let bundle = world.fitting(later.0, chunk, (1, 7));
    world.commit(later, vec![bundle]).expect("committed");
    let part = |file| SharedPart { file, ..SharedPart::default() };
    let asked = CountShared { files: vec![part(FILE), part(top)] };
    let counted = reads::shared(&world.state, &asked).expect("told");
    let all = SharedSum { shared: 60, next: None };
    assert_eq!(counted.files, [all, all]);
    // The source goes, and what the copy has stays.
    world.purge(FILE, "s");
    let streams = world.state.streams();
    for extent in streams.extents_from(top, 0) {
        let handle = world.state.chunk_at(top, extent.index).expect("its own");
        assert!(world.state.chunk(handle).is_some());
    }
    assert_eq!(streams.extents_from(top, 0).collect::<Vec<_>>(), before);
}

#[test]
fn a_copy_that_goes_leaves_what_its_source_writes_to_its_producer() {
    let mut world = World::new();
    world.apply(RaiseLevel { level: HEIR_LEVEL, ..RaiseLevel::default() });
    let by = world.open("a");
    let chunk = world.allocate(by).expect("made");
    let bundle = world.fitting(by.0, chunk, (1, 10));
    world.commit(by, vec![bundle]).expect("committed");
    let before = world.state.streams().open_chunk(chunk);
    let (copy, _) = world.copy("t");
    world.purge(copy, "t");
    assert_eq!(world.state.streams().open_chunk(chunk), before);
    world.check();
    let bundle = world.fitting(by.0, chunk, (1, 20));
    let committed = world.commit(by, vec![bundle]).expect("committed");
    assert_eq!(committed.0, [(CommitOutcome::Committed, 10)]);
    assert!(matches!(world.seal(chunk, 2), Applied::Changed(_)));
    world.check();
}

#[test]
fn what_a_stream_wrote_that_goes_is_sealed_for_its_copy() {
    let mut world = World::new();
    world.apply(RaiseLevel { level: HEIR_LEVEL, ..RaiseLevel::default() });
    let by = world.open("a");
    let (written, empty) = (world.allocate(by).expect("made"), world.allocate(by).expect("made"));
    let bundle = world.fitting(by.0, written, (1, 10));
    world.commit(by, vec![bundle]).expect("committed");
    let (copy, _) = world.copy("t");
    // Of this the copy has nothing.
    let bundle = world.fitting(by.0, written, (1, 20));
    world.commit(by, vec![bundle]).expect("committed");
    world.purge(FILE, "s");
    for handle in [written, empty] {
        let row = world.state.streams().open_chunk(handle).expect("to be sealed, or abandoned");
        assert!(row.file == copy && row.producer.is_none(), "nobody writes it");
    }
    assert!(matches!(world.seal(written, 2), Applied::Changed(_)));
    assert!(world.state.chunk(written).expect("the copy's").closed);
    let settled = world.state.streams().settled();
    let place = world.state.chunk(written).expect("the copy's").index;
    assert!(settled.is_pending(copy) && settled.left(copy, place) == Some(10));
    let abandon = AbandonChunk { handle: empty, ..AbandonChunk::default() };
    assert!(matches!(world.apply(abandon), Applied::ChunkAbandoned(_)));
    assert!(world.state.chunk(empty).is_none() && world.extents(copy) == [(0, 10)]);
    assert_eq!(world.state.streams().open_after(ChunkHandle::default()).count(), 0);
}

#[test]
fn an_empty_chunk_that_its_producer_left_leaves_a_copy_next() {
    let mut world = World::new();
    world.apply(RaiseLevel { level: HEIR_LEVEL, ..RaiseLevel::default() });
    let by = world.open("a");
    let chunk = world.allocate(by).expect("made");
    let (copy, _) = world.copy("t");
    let abandon = AbandonChunk { handle: chunk, ..AbandonChunk::default() };
    assert!(matches!(world.apply(abandon), Applied::Changed(_)));
    assert_eq!(world.state.chunk_at(FILE, ChunkIndex::new(0)), None);
    assert_eq!(world.state.streams().producer(FILE, by.0).expect("there").chunks, []);
    let late = world.fitting(by.0, chunk, (1, 10));
    let late = world.commit(by, vec![late]).expect("answered");
    assert_eq!(late.0, [(CommitOutcome::ChunkLost, 0)]);
    assert!(matches!(world.apply(abandon), Applied::ChunkAbandoned(_)));
    assert_eq!(world.state.chunk_at(copy, ChunkIndex::new(0)), None);
    assert!(world.state.chunk(chunk).is_none());
}

/// A history by chance; what it had acknowledged by producer.
fn live_through(seed: u64) -> World {
    let (mut world, mut random) = (World::new(), Random::new(seed));
    let level = if random.chance(800) { LOST_LEVEL } else { LOST_LEVEL - 1 };
    world.apply(RaiseLevel { level, ..RaiseLevel::default() });
    let mut epochs: Vec<(&str, (ProducerId, Epoch))> = Vec::new();
    let mut chunks: Vec<ChunkHandle> = Vec::new();
    let mut sent: Vec<((ProducerId, Epoch), CommittedBundle)> = Vec::new();
    let mut offsets: BTreeMap<(ProducerId, RecordNumber), u64> = BTreeMap::new();
    for _ in 0..120 {
        let name = *random.pick(&["a", "b", "c"]).expect("one");
        let by = random.pick(&epochs).copied();
        match (random.below(12), by) {
            (0, _) | (_, None) => epochs.push((name, world.open(name))),
            (1 | 2, Some((_, by))) => chunks.extend(world.allocate(by)),
            (3, Some((_, (producer, epoch)))) if random.chance(300) => {
                let time = world.time();
                world.apply(CloseProducerRecord { time, file: FILE, producer, epoch });
            }
            (4, _) if !chunks.is_empty() => {
                let handle = *random.pick(&chunks).expect("one");
                world.seal_somehow(&mut random, handle);
            }
            (8, _) if !chunks.is_empty() => {
                let handle = *random.pick(&chunks).expect("one");
                world.change_lost(&mut random, handle);
            }
            (9, _) if level >= HEIR_LEVEL && random.chance(300) => {
                let (copy, _) = world.copy("t");
                world.purge(copy, "t");
            }
            (5, _) if !chunks.is_empty() => {
                let handle = *random.pick(&chunks).expect("one");
                world.apply(AbandonChunk { handle, ..AbandonChunk::default() });
            }
            (7, _) if world.state.entry(FILE).is_some_and(|it| it.length > 0) => {
                // Anywhere, as an exclusive holder's; where some of it is written, nothing is done.
                let length = world.state.entry(FILE).expect("there").length;
                let offset = random.below(length);
                let size = 1 + random.below(length - offset);
                let record = world.named(FILE, (offset, size));
                world.replace(record);
            }
            (6, _) if !sent.is_empty() => {
                // A copy that was long under way.
                let (by, bundle) = random.pick(&sent).expect("one").clone();
                let key = (by.0, bundle.first);
                if let Ok((bundles, _)) = world.commit(by, vec![bundle])
                    && let (CommitOutcome::Committed, offset) = bundles[0]
                {
                    assert_eq!(*offsets.entry(key).or_insert(offset), offset, "told alike");
                }
            }
            (_, Some((_, by))) if !chunks.is_empty() => {
                let handle = *random.pick(&chunks).expect("one");
                let bundle =
                    world.fitting(by.0, handle, (1 + random.below(3), 1 + random.below(900)));
                sent.push((by, bundle.clone()));
                let (key, before) = ((by.0, bundle.first), world.state.entry(FILE));
                let before = before.expect("there").length;
                if let Ok((bundles, _)) = world.commit(by, vec![bundle])
                    && let (CommitOutcome::Committed, offset) = bundles[0]
                {
                    assert_eq!(offset, before, "at the end");
                    assert_eq!(offsets.insert(key, offset), None, "once");
                }
            }
            _ => {}
        }
        world.check();
    }
    world
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn whatever_comes_in_whatever_order_each_number_is_in_the_stream_once(seed in any::<u64>()) {
        let world = live_through(seed);
        let (mut bytes, file) = (Vec::new(), FileId::fresh());
        let image = world.state.write_image(file, &mut bytes).expect("written");
        let opened = State::open_image(Arc::new(bytes), file, &image.root).expect("whole");
        assert!(opened.streams == world.state.streams, "a checkpoint has all of it");
        assert!(opened.chunks == world.state.chunks, "and of what was lost");
    }
}

impl World {
    /// By those that have all of it, or not; or a set that was decided on has less, perhaps.
    fn seal_somehow(&mut self, random: &mut Random, handle: ChunkHandle) {
        let row = self.state.streams().open_chunk(handle);
        if !random.chance(300) {
            let serial = row.map_or(0, |row| row.serial.get()) + random.below(2);
            self.seal(handle, serial.saturating_sub(random.below(2)));
            return;
        }
        let length = row.map_or(0, |row| row.length);
        let (held, version) = (Some(random.below(length + 2)), self.fresh());
        let version = ChunkVersion::of(TERM, version);
        self.apply(SealChunk { handle, version, held, ..SealChunk::default() });
    }

    /// A hole, or another set, which has more or less.
    fn change_lost(&mut self, random: &mut Random, handle: ChunkHandle) {
        if random.chance(400) {
            self.apply(SkipLostTail { file: FILE, handle, ..SkipLostTail::default() });
            return;
        }
        let version = ChunkVersion::of(TERM, self.fresh());
        let some = |random: &mut Random| random.chance(500).then(|| random.below(2000));
        let (held, committed) = (some(random), some(random));
        self.apply(SetVersion { handle, version, held, committed, ..SetVersion::default() });
    }

    /// Commits bundles of these sizes, each by one of some producers in its own chunk; seals all.
    fn interleaved(&mut self, names: &[&str], sizes: &[u64]) -> Vec<ChunkHandle> {
        let producers: Vec<_> = names.iter().map(|name| self.open(name)).collect();
        let chunks: Vec<ChunkHandle> =
            producers.iter().map(|it| self.allocate(*it).expect("made")).collect();
        for (at, size) in sizes.iter().enumerate() {
            let at = at % names.len();
            let bundle = self.fitting(producers[at].0, chunks[at], (1, *size));
            self.commit(producers[at], vec![bundle]).expect("committed");
        }
        for chunk in &chunks {
            let serial = self.state.streams().open_chunk(*chunk).map_or(0, |row| row.serial.get());
            assert!(matches!(self.seal(*chunk, serial), Applied::Changed(_)));
        }
        chunks
    }

    /// What stands in a range, as a record names it.
    fn named(&self, file: EntryId, (offset, size): (u64, u64)) -> ReplaceRange {
        let mut replaced = Vec::new();
        for extent in self.state.streams().extents_from(file, offset) {
            let (from, to) = (extent.offset().max(offset), extent.end.min(offset + size));
            if from >= to {
                break;
            }
            let handle = self.state.chunk_at(file, extent.index).expect("there");
            let at = extent.chunk_offset + (from - extent.offset());
            replaced.push(ReplacedRange { handle, offset: at, size: to - from });
        }
        ReplaceRange { file, offset, replaced, set_size: 3, ..ReplaceRange::default() }
    }

    /// Puts a fresh chunk in the place of a range.
    fn replace(&mut self, record: ReplaceRange) -> Applied {
        let handle = ChunkHandle::of(TERM, self.fresh());
        let version = ChunkVersion::of(TERM, self.fresh());
        let count = self.state.entry(record.file).map_or(0, |entry| entry.chunk_count);
        let (time, index) = (self.time(), ChunkIndex::new(count));
        let floor = handle;
        self.apply(ReplaceRange { time, handle, version, index, floor, ..record })
    }

    fn extents(&self, file: EntryId) -> Vec<(u64, u64)> {
        let all = self.state.streams().extents_from(file, 0);
        all.map(|it| (it.offset(), it.size)).collect()
    }
}

#[test]
fn a_chunk_in_the_place_of_a_range_leaves_offsets_as_they_are_and_frees_what_nobody_needs() {
    let mut world = World::new();
    let chunks = world.interleaved(&["a", "b"], &[10, 20, 30, 40, 50]);
    assert_eq!(world.extents(FILE), [(0, 10), (10, 20), (30, 30), (60, 40), (100, 50)]);
    // The first three: of both chunks something is left.
    let first = world.named(FILE, (0, 60));
    let settled_to = Some(60);
    let Applied::RangeReplaced(done) = world.replace(ReplaceRange { settled_to, ..first }) else {
        panic!("it fits")
    };
    assert_eq!((done.chunks, done.places), (vec![], vec![]));
    assert_eq!(world.extents(FILE), [(0, 60), (60, 40), (100, 50)]);
    assert_eq!(world.state.streams().settled().settled_to(FILE), 60);
    world.check();
    // A part of an extent: the rest stands where it stood, in the chunk and in the file.
    let part = world.named(FILE, (110, 20));
    assert!(matches!(world.replace(part), Applied::RangeReplaced(_)));
    assert_eq!(world.extents(FILE), [(0, 60), (60, 40), (100, 10), (110, 20), (130, 20)]);
    world.check();
    let rest = world.named(FILE, (60, 50));
    let Applied::RangeReplaced(done) = world.replace(rest) else { panic!("it fits") };
    assert_eq!(done.chunks, [chunks[1]], "the second has nothing more (RG2)");
    assert!(world.state.chunk(chunks[1]).is_none() && world.state.is_purged(chunks[1]));
    assert!(world.state.chunk(chunks[0]).is_some());
    let last = world.named(FILE, (130, 20));
    let Applied::RangeReplaced(done) = world.replace(last) else { panic!("it fits") };
    assert_eq!((done.chunks, done.places), (vec![chunks[0]], vec![ChunkIndex::new(0)]));
    assert_eq!(world.state.chunk_at(FILE, ChunkIndex::new(0)), None);
    assert_eq!(world.state.entry(FILE).expect("there").length, 150);
    world.check();
}

#[test]
fn no_chunk_of_a_stream_is_called_by_the_handle_of_none() {
    let mut world = World::new();
    world.interleaved(&["a", "b"], &[10, 20, 30]);
    let first = world.named(FILE, (0, 30));
    let (producer, epoch) = world.open("c");
    let index = ChunkIndex::new(world.state.entry(FILE).expect("there").chunk_count);
    let replaced = ReplaceRange { index, ..first.clone() };
    let made = AllocateChunk { file: FILE, index, producer, epoch, ..AllocateChunk::default() };
    for applied in [world.apply(replaced), world.apply(made)] {
        assert!(matches!(applied, Applied::Failed(_)), "{applied:?}");
        assert!(!world.state.chunks.contains(ChunkHandle::default()));
    }
    // It was the handle that was refused.
    assert!(matches!(world.replace(first), Applied::RangeReplaced(_)));
    assert!(world.allocate((producer, epoch)).is_some());
}

#[test]
fn what_stands_otherwise_than_it_was_copied_is_not_replaced() {
    let mut world = World::new();
    world.interleaved(&["a", "b"], &[10, 20, 30]);
    let late = world.named(FILE, (10, 50));
    let first = world.named(FILE, (0, 30));
    let refused = |world: &mut World, record: ReplaceRange| {
        let before = world.extents(FILE);
        let Applied::Failed(failure) = world.replace(record) else { panic!("it does not fit") };
        assert_eq!(world.extents(FILE), before, "nothing is changed");
        world.check();
        failure.code
    };
    for odd in [
        ReplaceRange { offset: 1, ..first.clone() },
        ReplaceRange { offset: 60, ..first.clone() },
        ReplaceRange { offset: u64::MAX, ..first.clone() },
        ReplaceRange { replaced: vec![], ..first.clone() },
        ReplaceRange { file: ROOT, ..first.clone() },
        ReplaceRange { replaced: first.replaced.iter().rev().copied().collect(), ..first.clone() },
    ] {
        refused(&mut world, odd);
    }
    assert!(matches!(world.replace(first), Applied::RangeReplaced(_)));
    // Another chunk has some of it by now.
    assert_eq!(refused(&mut world, late), ErrorCode::Busy);
    // What is written may be longer any time (RG3).
    let by = world.open("c");
    let chunk = world.allocate(by).expect("made");
    let bundle = world.fitting(by.0, chunk, (1, 5));
    world.commit(by, vec![bundle]).expect("committed");
    let open = world.named(FILE, (60, 5));
    assert_eq!(refused(&mut world, open), ErrorCode::Busy);
    // Nor is anything of a file that is deleted.
    let rest = world.named(FILE, (30, 30));
    let (mutation, name) = (world.mutation(), "s".to_owned());
    world.apply(HideEntry { mutation, entry: FILE, parent: ROOT, name, ..Default::default() });
    assert_eq!(refused(&mut world, rest), ErrorCode::NotFound);
}

#[test]
fn a_copy_keeps_its_chunks_until_it_is_settled_itself_or_goes() {
    let mut world = World::new();
    let chunks = world.interleaved(&["a", "b"], &[10, 20, 30]);
    let top = EntryId::of(TERM, world.fresh());
    let copied = CopiedEntry {
        source: FILE,
        id: top,
        parent: HIDDEN_ROOT,
        name: "t".to_owned(),
        count: 2,
        ..CopiedEntry::default()
    };
    world.apply(CopyEntries { top, entries: vec![copied], ..CopyEntries::default() });
    let slice = CopyStream { top, source: FILE, id: top, count: 4096, ..CopyStream::default() };
    assert!(matches!(world.apply(slice), Applied::StreamCopied(it) if it.whole));
    let (mutation, to_name) = (world.mutation(), "t".to_owned());
    let last =
        SnapshotTree { mutation, top, entries: 1, to_parent: ROOT, to_name, ..Default::default() };
    assert!(matches!(world.apply(last), Applied::SnapshotMade(_)));
    assert!(world.state.streams().settled().is_pending(top), "it is settled, too");
    let source = world.named(FILE, (0, 60));
    let Applied::RangeReplaced(done) = world.replace(source) else { panic!("it fits") };
    assert_eq!((done.chunks.len(), done.places.len()), (0, 2), "the copy has them");
    assert!(chunks.iter().all(|it| world.state.chunk(*it).is_some()));
    assert_eq!(world.extents(top), [(0, 10), (10, 20), (30, 30)]);
    let copy = world.named(top, (0, 60));
    let Applied::RangeReplaced(done) = world.replace(copy) else { panic!("it fits") };
    assert_eq!(done.chunks, chunks, "nobody has them any more");
    assert_eq!((world.extents(FILE), world.extents(top)), (vec![(0, 60)], vec![(0, 60)]));
    world.check();
    // The table has nothing of a file that is gone.
    for (file, name) in [(FILE, "s"), (top, "t")] {
        let (mutation, name) = (world.mutation(), name.to_owned());
        world.apply(HideEntry { mutation, entry: file, parent: ROOT, name, ..Default::default() });
        let purge = Purge { entry: file, count: 4096, ..Purge::default() };
        assert!(matches!(world.apply(purge), Applied::EntryPurged(it) if it.whole));
    }
    assert!(world.state.streams().maps().iter().all(|map| map.len() == 0));
}

#[test]
fn a_settled_terabyte_in_bundles_of_64_kib_takes_the_master_at_most_two_megabytes() {
    const MIB: u64 = 1 << 20;
    let mut world = World::new();
    world.state.config.chunk_size = 64 * MIB;
    // As settling leaves it: the windows, whole chunks, are the bytes of a thousand bundles each;
    // what was there before them is gone.
    let windows = (1u64 << 40) / (64 * MIB);
    let by = world.open("a");
    for _ in 0..windows {
        let chunk = world.allocate(by).expect("made");
        let length = world.state.entry(FILE).expect("there").length;
        let bundle = world.fitting(by.0, chunk, (1024, 64 * MIB));
        world.commit(by, vec![bundle]).expect("committed");
        world.seal(chunk, 1);
        let window = world.named(FILE, (length, 64 * MIB));
        assert!(matches!(world.replace(window), Applied::RangeReplaced(_)));
    }
    assert_eq!(world.state.streams().extents_from(FILE, 0).count() as u64, windows);
    let usage = world.state.usage();
    let size = |it: &TreeUsage| it.memory_bytes();
    let all: u64 = usage.iter().map(|(_, _, usage)| size(usage)).sum();
    let extents = usage.iter().find(|(name, ..)| *name == "extents").expect("a tree");
    let each = size(&extents.2) / extents.1;
    println!("{windows} chunks: {all} bytes in all, {each} for an extent: {usage:?}");
    assert!(all <= 2 * MIB, "{all} bytes: {usage:?}");
    assert!(each <= 20, "{each} bytes for an extent");
}

impl World {
    /// Opens the stream exclusively, having seen that other opening.
    fn exclusively(&mut self, takes_over: Epoch) -> Result<(ProducerId, Epoch), ErrorCode> {
        let (producer, epoch) = (self.fresh(), self.fresh());
        let open = OpenProducerRecord {
            time: self.time(),
            mutation: self.mutation(),
            file: FILE,
            name: String::new(),
            producer: ProducerId::of(TERM, producer),
            epoch: Epoch::of(TERM, epoch),
            takes_over,
        };
        match self.apply(open) {
            Applied::ProducerOpened(opened) => Ok((opened.producer, opened.epoch)),
            Applied::Failed(failure) => Err(failure.code),
            other => panic!("{other:?}"),
        }
    }

    /// What comes of one bundle: how it ended, and which chunks are gone by it.
    fn put(
        &mut self,
        (producer, epoch): (ProducerId, Epoch),
        bundle: CommittedBundle,
    ) -> Result<(CommitOutcome, Vec<ChunkHandle>), ErrorCode> {
        let (time, file, bundles) = (self.time(), FILE, vec![bundle]);
        match self.apply(CommitBundlesRecord { time, file, producer, epoch, bundles }) {
            Applied::BundlesCommitted(done) => Ok((done.bundles[0].outcome, done.gone)),
            Applied::Failed(failure) => Err(failure.code),
            other => panic!("{other:?}"),
        }
    }
}

#[test]
fn who_has_a_stream_exclusively_alone_commits_and_what_is_replaced_whole_lets_go_of_its_chunk() {
    let (mut world, done) = (World::new(), CommitOutcome::Committed);
    let writer = world.open("p");
    let chunk = world.allocate(writer).expect("a chunk");
    let first = world.fitting(writer.0, chunk, (1, 100));
    assert_eq!(world.put(writer, first), Ok((done, vec![])));
    let holder = world.exclusively(Epoch::default()).expect("nobody has it");
    let waits = world.fitting(writer.0, chunk, (1, 10));
    assert_eq!(world.put(writer, waits.clone()), Err(ErrorCode::StreamLocked));
    assert_eq!(world.exclusively(Epoch::default()), Err(ErrorCode::StreamLocked), "R46");
    let own = world.allocate(holder).expect("a chunk");
    let replace = |world: &World, at: u64, size: u64| CommittedBundle {
        replaces: Some(at),
        ..world.fitting(holder.0, own, (1, size))
    };
    let appends = world.fitting(holder.0, own, (1, 10));
    assert_eq!(world.put(holder, appends), Err(ErrorCode::Invalid), "it replaces only");
    let past = replace(&world, 95, 10);
    assert_eq!(world.put(holder, past), Err(ErrorCode::Invalid), "past the end");
    let part = replace(&world, 20, 30);
    assert_eq!(world.put(holder, part.clone()), Ok((done, vec![])));
    assert_eq!(world.put(holder, part), Ok((done, vec![])), "a repeat (R38)");
    assert_eq!(world.state.streams().extents_from(FILE, 0).count(), 3);
    let rest = replace(&world, 0, 100);
    assert_eq!(world.put(holder, rest), Ok((done, vec![chunk])));
    assert!(world.state.chunk(chunk).is_none(), "no extent names it");
    assert_eq!(world.state.streams().extents_from(FILE, 0).count(), 1);
    assert_eq!(world.state.entry(FILE).map(|file| file.length), Some(100));
    assert_eq!(world.state.streams().replaced(FILE).get(), 2);
    let late = replace(&world, 0, 10);
    let next = world.exclusively(holder.1).expect("its lease was over");
    assert_eq!(world.put(holder, late), Ok((CommitOutcome::Fenced, vec![])), "R46");
    let (file, time) = (FILE, world.time());
    world.apply(CloseProducerRecord { time, file, producer: next.0, epoch: next.1 });
    assert_eq!(world.put(writer, waits), Ok((CommitOutcome::ChunkLost, vec![])), "it may go on");
    let other = world.allocate(writer).expect("a chunk");
    let again = world.fitting(writer.0, other, (1, 10));
    assert_eq!(world.put(writer, again), Ok((done, vec![])));
    assert_eq!(world.state.entry(FILE).map(|file| file.length), Some(110));
}

/// How a producer has come to its end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum ProducerEnd {
    Closed,
    /// It was killed, and nothing came of it for long.
    Silent,
    /// The same, after so many openings in as many terms, in each of which it committed something.
    Reopened(u64),
}

impl World {
    /// A producer that has committed some bundles, and is done; its chunks are sealed.
    fn done_producer(&mut self, name: &str, cursor: Option<&Bytes>, end: ProducerEnd) {
        let openings = if let ProducerEnd::Reopened(count) = end { count } else { 1 };
        for nth in 1..=openings {
            let opened = self.open_in(Term::new(nth), name);
            let chunk = self.allocate(opened).expect("made");
            let bundle = self.fitting(opened.0, chunk, (1_000_000, 8));
            let with = CommittedBundle { cursor: cursor.cloned(), ..bundle };
            self.commit(opened, vec![with]).expect("committed");
            assert_eq!(self.outcomes_of(opened.0), 1, "a repeat is answered as the first time");
            match end {
                ProducerEnd::Closed => self.close(opened),
                ProducerEnd::Silent | ProducerEnd::Reopened(_) => self.time += 600_001,
            }
            assert!(matches!(self.seal(chunk, 1), Applied::Changed(_)));
        }
    }

    fn close(&mut self, (producer, epoch): (ProducerId, Epoch)) {
        let time = self.time();
        let closed = self.apply(CloseProducerRecord { time, file: FILE, producer, epoch });
        assert!(matches!(closed, Applied::Changed(_)), "{closed:?}");
    }

    fn outcomes_of(&self, id: ProducerId) -> u64 {
        self.state.streams().producer(FILE, id).expect("it is there").outcomes
    }
}

#[test]
fn a_producer_that_is_done_takes_64_bytes_at_most_beside_its_name_and_cursor() {
    const COUNT: u64 = 10_000;
    let cursor = Bytes::from_static(b"offset 123456789");
    let ends = [
        (ProducerEnd::Closed, None),
        (ProducerEnd::Silent, Some(&cursor)),
        (ProducerEnd::Reopened(5), Some(&cursor)),
    ];
    for (end, cursor) in ends {
        let mut world = World::new();
        // As a wall clock stands.
        world.time = 1_795_000_000_000;
        (0..COUNT).for_each(|nth| world.done_producer(&format!("host-{nth:05}"), cursor, end));
        let [producers, names, _, kept, open, _] = world.state.streams().maps();
        assert_eq!((producers.len(), names.len(), open.len()), (COUNT, COUNT, 0));
        assert_eq!(kept.len(), cursor.map_or(0, |_| COUNT), "cursors, and no outcomes");
        // Names are counted too, as pages have them.
        let usage = [producers, names, kept].map(|map| map.tree().usage());
        let bytes: u64 = usage.iter().map(|it| it.leaf_bytes + it.inner_bytes).sum();
        let cursors = cursor.map_or(0, Bytes::len) as u64 * COUNT;
        let each = (bytes - cursors).div_ceil(COUNT);
        println!("{end:?}: {each} bytes a producer");
        assert!(each <= 64, "{end:?}: {each} bytes a producer, {usage:?}");
    }
}

#[test]
fn a_cursor_goes_at_the_first_opening_that_is_later_than_the_setting_says() {
    for (kept_ms, is_kept) in [(1_000, false), (2_000, true)] {
        let mut world = World::new();
        world.state.config.cursors_kept_ms = kept_ms;
        let a = world.open("a");
        let chunk = world.allocate(a).expect("made");
        let bundle = world.fitting(a.0, chunk, (4, 10));
        let with = CommittedBundle { cursor: Some(Bytes::from_static(b"line 4")), ..bundle };
        world.commit(a, vec![with]).expect("committed");
        world.time += 1_500;
        assert!(world.state.streams().cursor(FILE, a.0).is_some(), "nobody has opened it");
        world.open("a");
        assert_eq!(world.state.streams().cursor(FILE, a.0).is_some(), is_kept, "{kept_ms}");
        let number = world.state.streams().producer(FILE, a.0).expect("there").number;
        assert_eq!(number.get(), 4, "numbers stay (R47)");
    }
}

#[test]
fn outcomes_go_with_the_epoch_and_a_repeat_is_answered_done_before_or_fenced() {
    let mut world = World::new();
    let old = world.open("a");
    let chunk = world.allocate(old).expect("made");
    let bundle = world.fitting(old.0, chunk, (2, 8));
    world.commit(old, vec![bundle.clone()]).expect("committed");
    let new = world.open("a");
    assert_eq!(world.outcomes_of(old.0), 0);
    let repeated = world.commit(old, vec![bundle.clone()]);
    assert_eq!(repeated, Ok((vec![(CommitOutcome::Fenced, 0)], 2)));
    let mine = world.allocate(new).expect("made");
    let next = world.fitting(new.0, mine, (1, 8));
    world.commit(new, vec![next.clone()]).expect("committed");
    world.close(new);
    assert_eq!(world.outcomes_of(new.0), 0);
    let repeated = world.commit(new, vec![next]);
    assert_eq!(repeated, Ok((vec![(CommitOutcome::DoneBefore, 0)], 3)));
    // What was never committed is fenced, and a number stands for one content still (R39).
    let more = world.fitting(new.0, mine, (1, 8));
    assert_eq!(world.commit(new, vec![more.clone()]), Ok((vec![(CommitOutcome::Fenced, 0)], 3)));
    let other = CommittedBundle { first: RecordNumber::new(3), count: 2, ..more };
    assert_eq!(world.commit(new, vec![other]), Err(ErrorCode::Invalid));
}

#[test]
fn outcomes_outlast_the_seal_of_a_chunk_whose_producer_was_heard_of_lately() {
    let mut world = World::new();
    let a = world.open("a");
    let chunks = [world.allocate(a).expect("made"), world.allocate(a).expect("made")];
    let bundles = chunks.map(|chunk| {
        let bundle = world.fitting(a.0, chunk, (2, 8));
        world.commit(a, vec![bundle.clone()]).expect("committed");
        bundle
    });
    // A server died: its chunk is left, and the answer to the last commit comes late.
    world.seal(chunks[0], 1);
    assert_eq!(world.outcomes_of(a.0), 2);
    let repeated = world.commit(a, vec![bundles[0].clone()]);
    assert_eq!(repeated, Ok((vec![(CommitOutcome::Committed, 0)], 4)));
    world.time += 600_001;
    world.seal(chunks[1], 1);
    assert_eq!(world.outcomes_of(a.0), 0, "silent, and nothing of it is written");
    let repeated = world.commit(a, vec![bundles[1].clone()]);
    assert_eq!(repeated, Ok((vec![(CommitOutcome::DoneBefore, 0)], 4)));
}
