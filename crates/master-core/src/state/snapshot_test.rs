//! A snapshot beside everything else that happens to files and chunks: each file has the chunks
//! that it should have, whatever becomes of those that it shares them with.

use super::any_record_test::check_chunks;
use super::replay_test::{Drawer, TERM, founding};
use super::{HIDDEN_ROOT, ROOT, State};
use crate::applied::Applied;
use crate::record::{
    AddFile, Begin, ChangePolicy, CopiedEntry, CopyEntries, CopyOnWrite, HideEntry, OpenChunk,
    Purge, RaiseLevel, Record, SnapshotTree,
};
use cairn_types::{
    ChunkHandle, ChunkIndex, ChunkVersion, EntryId, EntryKind, LogIndex, MutationName,
    MutationNumber, PolicyParts,
};
use std::collections::{BTreeMap, BTreeSet};

/// Which chunk each file has where, as the records say it, told without any table.
#[derive(Debug, Default)]
struct Oracle {
    files: BTreeMap<EntryId, BTreeMap<u64, ChunkHandle>>,
    /// How often a chunk stayed because another file had it.
    outlived: u64,
    gone: BTreeSet<ChunkHandle>,
}

impl Oracle {
    fn note(&mut self, record: &Record, applied: &Applied) {
        match (record, applied) {
            (Record::OpenChunk(open), Applied::ChunkOpened(opened)) => {
                self.files.entry(open.file).or_default().insert(open.index.get(), opened.handle);
            }
            (Record::CopyOnWrite(own), Applied::ChunkOpened(_)) => {
                let file = self.files.entry(own.file).or_default();
                assert_eq!(file.insert(own.index.get(), own.handle), Some(own.shared));
            }
            (Record::CopyEntries(copies), Applied::Changed(_)) => {
                for entry in &copies.entries {
                    let source = self.files.get(&entry.source).cloned().unwrap_or_default();
                    let range = entry.first.get()..entry.first.get() + entry.count;
                    let copied = source.into_iter().filter(|(at, _)| range.contains(at));
                    self.files.entry(entry.id).or_default().extend(copied);
                }
            }
            (Record::Purge(_), Applied::EntryPurged(purged)) => {
                self.gone.extend(&purged.chunks);
            }
            _ => {}
        }
    }

    /// Whoever is not deleted has all that it had.
    fn check(&mut self, state: &State, purges: bool) {
        for (id, entry) in state.names.entries() {
            if entry.kind != EntryKind::File {
                continue;
            }
            let has = state.chunks_of(id, ChunkIndex::default());
            let has: BTreeMap<u64, ChunkHandle> =
                has.map(|(index, handle)| (index.get(), handle)).collect();
            if state.is_hidden(id) {
                // Some of it may have been purged, and the rest may be copied yet.
                if purges {
                    self.files.insert(id, has);
                }
                continue;
            }
            assert_eq!(has, self.files.get(&id).cloned().unwrap_or_default(), "{id:?}");
            for handle in has.values() {
                assert!(state.chunk(*handle).is_some(), "{handle:?} of {id:?} has a record");
                assert!(!self.gone.contains(handle), "{handle:?} of {id:?} was purged");
                assert!(!state.is_purged(*handle), "a server may keep {handle:?} of {id:?}");
            }
        }
        let owners = state.chunks().filter(|(handle, chunk)| {
            state.sharing().is_shared(*handle) && state.is_hidden(chunk.file)
        });
        self.outlived += owners.count() as u64;
    }
}

/// A cell with the file `f`, which has one chunk, of which a snapshot has begun.
fn half_made() -> (State, ChunkHandle, EntryId) {
    half_made_at(1, 0)
}

/// The same at that level of records, of a file with so many replicas.
fn half_made_at(level: u32, replication: u32) -> (State, ChunkHandle, EntryId) {
    let (file, handle, top) =
        (EntryId::of(TERM, 11), ChunkHandle::of(TERM, 12), EntryId::of(TERM, 13));
    let mut state = State::default();
    let number = MutationNumber::new(1);
    let mutation = MutationName { number, ..MutationName::default() };
    let name = "f".to_owned();
    let add = AddFile { mutation, parent: ROOT, name, id: file, replication, ..Default::default() };
    let copied = CopiedEntry {
        source: file,
        id: top,
        parent: HIDDEN_ROOT,
        name: "g".to_owned(),
        count: 1,
        ..CopiedEntry::default()
    };
    let records: [Record; 4] = [
        RaiseLevel { level, ..RaiseLevel::default() }.into(),
        add.into(),
        OpenChunk { file, handle, ..OpenChunk::default() }.into(),
        CopyEntries { top, entries: vec![copied], ..CopyEntries::default() }.into(),
    ];
    for record in records {
        apply(&mut state, record);
    }
    assert!(state.sharing().is_shared(handle), "the copy has it");
    (state, handle, top)
}

fn apply(state: &mut State, record: impl Into<Record>) -> Applied {
    state.apply(state.applied().next(), TERM, &record.into())
}

fn last_of(top: EntryId) -> SnapshotTree {
    let (number, to_name) = (MutationNumber::new(2), "g".to_owned());
    let mutation = MutationName { number, ..MutationName::default() };
    SnapshotTree { mutation, top, entries: 1, to_parent: ROOT, to_name, ..Default::default() }
}

#[test]
fn what_is_half_made_in_a_term_is_given_up_and_purged_in_the_next() {
    let (mut state, handle, top) = half_made();
    assert_eq!(state.deleted().due(state.log_time()), None, "nobody purges what grows");
    apply(&mut state, Begin { term: TERM, ..Begin::default() });
    assert!(matches!(apply(&mut state, last_of(top)), Applied::Failed(_)), "R34");
    assert_eq!(state.deleted().due(state.log_time()), Some(top));
    let purge = Purge { entry: top, count: 10, ..Purge::default() };
    let Applied::EntryPurged(purged) = apply(&mut state, purge) else { panic!("purged") };
    assert!(purged.whole && purged.chunks.is_empty(), "{purged:?}");
    assert!(!state.sharing().is_shared(handle) && state.chunk(handle).is_some());
}

#[test]
fn a_snapshot_is_seen_when_all_of_it_is_there_and_not_before() {
    let (mut state, handle, top) = half_made();
    assert!(state.is_hidden(top));
    let few = SnapshotTree { entries: 2, ..last_of(top) };
    let number = MutationNumber::new(3);
    let few = SnapshotTree { mutation: MutationName { number, ..few.mutation }, ..few };
    assert!(matches!(apply(&mut state, few), Applied::Failed(_)), "a slice is missing");
    assert!(matches!(apply(&mut state, last_of(top)), Applied::SnapshotMade(_)));
    assert!(!state.is_hidden(top));
    assert_eq!(state.chunk_at(top, ChunkIndex::default()), Some(handle));
    apply(&mut state, Begin { term: TERM, ..Begin::default() });
    assert_eq!(state.child(ROOT, "g"), Some(top), "what is made stays");
}

#[test]
fn no_chunk_goes_that_a_file_has_and_each_file_keeps_its_own() {
    let (mut outlived, mut copied) = (0, 0);
    for seed in 0..90 {
        let (mut state, mut oracle) = (State::default(), Oracle::default());
        let mut drawer = Drawer::with_snapshots(seed);
        for step in 1..400 {
            let first = founding().get(step - 1).cloned();
            let record = first.unwrap_or_else(|| drawer.draw(&state));
            let applied = state.apply(LogIndex::new(step as u64), TERM, &record);
            oracle.note(&record, &applied);
            oracle.check(&state, matches!(record, Record::Purge(_)));
            check_chunks(&state);
            let own =
                matches!((&record, &applied), (Record::CopyOnWrite(_), Applied::ChunkOpened(_)));
            copied += u64::from(own);
        }
        outlived += oracle.outlived;
    }
    assert!(outlived > 100 && copied > 100, "chunks outlived {outlived}, copied {copied}");
}

/// A file with three replicas, and a copy of it that is to have so many.
fn copied_with(level: u32, replication: u32) -> (State, ChunkHandle, EntryId) {
    let (mut state, handle, top) = half_made_at(level, 3);
    assert!(matches!(apply(&mut state, last_of(top)), Applied::SnapshotMade(_)));
    let set = PolicyParts { replication: Some(replication), ..PolicyParts::default() };
    let mutation = MutationName { number: MutationNumber::new(3), ..MutationName::default() };
    let change = ChangePolicy { mutation, entry: top, set, ..ChangePolicy::default() };
    assert!(matches!(apply(&mut state, change), Applied::PolicyChanged(_)));
    let file = state.child(ROOT, "f").expect("it is there");
    assert_eq!(goal(&state, handle), 3, "the file asks for them");
    (state, handle, file)
}

fn goal(state: &State, handle: ChunkHandle) -> u32 {
    state.chunk(handle).expect("a file has it").goal
}

#[test]
fn a_chunk_that_is_left_to_others_has_as_many_replicas_as_these_ask_for() {
    for (level, replication, wanted) in [(3, 2, 2), (3, 3, 3), (2, 2, 3)] {
        let (mut state, handle, file) = copied_with(level, replication);
        let mutation = MutationName { number: MutationNumber::new(4), ..MutationName::default() };
        let name = "f".to_owned();
        let hide = HideEntry { mutation, entry: file, parent: ROOT, name, ..HideEntry::default() };
        assert!(matches!(apply(&mut state, hide), Applied::EntryHidden(_)));
        assert_eq!(goal(&state, handle), 3, "what is deleted may come back");
        let purge = Purge { entry: file, count: 10, ..Purge::default() };
        let Applied::EntryPurged(purged) = apply(&mut state, purge) else { panic!("purged") };
        assert!(purged.whole && purged.chunks.is_empty(), "{purged:?}");
        assert_eq!(goal(&state, handle), wanted, "at level {level}");
        assert_eq!(purged.lowered.contains(&handle), wanted < 3, "it is told (SD4)");
    }
}

#[test]
fn a_file_that_gets_a_chunk_of_its_own_leaves_the_other_with_what_its_files_ask_for() {
    let (mut state, shared, file) = copied_with(3, 2);
    let own = CopyOnWrite {
        file,
        shared,
        shared_version: ChunkVersion::of(TERM, 20),
        shared_set_size: 3,
        handle: ChunkHandle::of(TERM, 21),
        version: ChunkVersion::of(TERM, 22),
        set_size: 3,
        ..CopyOnWrite::default()
    };
    let handle = own.handle;
    let applied = apply(&mut state, own);
    assert!(matches!(applied, Applied::ChunkOpened(_)), "{applied:?}");
    assert_eq!((goal(&state, handle), goal(&state, shared)), (3, 2));
}
