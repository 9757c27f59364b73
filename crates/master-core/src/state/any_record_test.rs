//! R23 for every record that decodes: it is applied or it changes nothing, and never a panic.
//!
//! ```text
//!   fits (replay_test) ─┬─ as it is · damaged · crossed with an earlier one of its kind
//!   anything (sample) ──┘
//! ```

use super::replay_test::{Drawer, TERM, check_policies, check_tree, founding, reloaded};
use super::totals_test::check_totals;
use super::{ROOT, State};
use crate::applied::Applied;
use crate::record::{AddDirectories, AddFile, CopyOnWrite, NewDirectory, OpenChunk, Record};
use cairn_types::sample::{Sample, crossed, damaged};
use cairn_types::wire::Message;
use cairn_types::{ChunkHandle, ChunkIndex, EntryId, LogIndex, MutationName, MutationNumber};
use proptest::prelude::{ProptestConfig, proptest};

/// A record that decodes, whether it fits or not; `earlier` are records of before.
fn any_record(drawer: &mut Drawer, state: &State, earlier: &[Record]) -> Record {
    let fitting = drawer.draw(state);
    let random = &mut drawer.random;
    let raw = match random.below(4) {
        0 => return fitting,
        1 => return Record::sample(random),
        2 => Some(damaged(&fitting.to_bytes(), random)),
        _ => random
            .pick(earlier)
            .cloned()
            .and_then(|other| crossed(&fitting.to_bytes(), &other.to_bytes(), random)),
    };
    raw.and_then(|raw| Record::decode(&raw).ok()).unwrap_or(fitting)
}

/// Both tables of chunks name each other (chunk_table.rs, CT1).
pub(super) fn check_chunks(state: &State) {
    for (handle, chunk) in state.chunks() {
        for file in state.sharing().files_of(handle, &chunk) {
            assert_eq!(state.chunk_at(file, chunk.index), Some(handle), "of {file:?}");
        }
    }
    let places: usize = state
        .names
        .entries()
        .map(|(file, _)| state.chunks_of(file, ChunkIndex::default()).count())
        .sum();
    let wanted = state.chunk_count() + state.shared.map().len();
    assert_eq!(places as u64, wanted, "each chunk is of files that there are");
}

/// Asks everything that can be asked.
pub(super) fn look_around(state: &State) {
    for (id, _) in state.names.entries() {
        let path = state.path_of(id).expect("of an entry");
        assert!(path.starts_with('/'));
        let _ = (state.is_hidden(id), state.describe(id, ""), state.last_chunk(id));
    }
    let _ = (state.file_count(), state.directory_count(), state.hidden_count());
}

/// Numbers of kinds of records are below.
pub(super) const KINDS: usize = 96;

/// Of each kind of record, how many odd ones changed something, and how many were refused.
struct Counts {
    changed: [u64; KINDS],
    refused: [u64; KINDS],
}

impl Default for Counts {
    fn default() -> Self {
        Self { changed: [0; KINDS], refused: [0; KINDS] }
    }
}

/// The number of its kind: the field that it is, a varint behind which stand three bits.
pub(super) fn kind_of(record: &Record) -> usize {
    let key = record.to_bytes().iter().take(2).fold((0, 0, true), |(key, shift, more), byte| {
        let bits = if more { usize::from(byte & 127) << shift } else { 0 };
        (key | bits, shift + 7, more && *byte >= 128)
    });
    key.0 >> 3
}

/// A history of fitting and odd records, all of it checked.
fn live_through(seed: u64, founded: bool, counts: &mut Counts) -> State {
    let mut drawer = Drawer::with_snapshots(seed);
    let mut state = State::default();
    let mut earlier: Vec<Record> = Vec::new();
    for step in 1..150 {
        let first = founding().get(step - 1).filter(|_| founded).cloned();
        let record = first.unwrap_or_else(|| any_record(&mut drawer, &state, &earlier));
        let kind = kind_of(&record);
        let before = state.clone();
        let outcome = state.apply(LogIndex::new(step as u64), TERM, &record);
        if let Applied::Failed(_) = outcome {
            assert_eq!(before.names, state.names, "changed by {record:?}");
            assert_eq!(before.chunks, state.chunks, "changed by {record:?}");
            assert_eq!(before.policies, state.policies, "changed by {record:?}");
            assert_eq!(before.shared, state.shared, "changed by {record:?}");
            assert_eq!(before.streams, state.streams, "changed by {record:?}");
            counts.refused[kind] += 1;
        } else {
            counts.changed[kind] += 1;
        }
        check_tree(&state);
        check_chunks(&state);
        check_policies(&state);
        check_totals(&state);
        earlier.push(record);
    }
    state
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(100))]

    #[test]
    fn any_record_is_applied_or_changes_nothing_and_a_checkpoint_keeps_what_came_of_it(
        seed: u64, founded: bool,
    ) {
        let state = live_through(seed, founded, &mut Counts::default());
        look_around(&state);
        assert_eq!(reloaded(&state), state);
    }
}

#[test]
fn odd_records_meet_what_is_there() {
    let mut counts = Counts::default();
    for seed in 0..48 {
        live_through(seed, true, &mut counts);
    }
    assert!(counts.changed[1..=10].iter().all(|count| *count >= 10), "{:?}", counts.changed);
    assert!(counts.refused[2..=11].iter().all(|count| *count >= 10), "{:?}", counts.refused);
}

/// A cell with the file `f`, which has one chunk; and that chunk.
fn one_chunk() -> (State, EntryId, ChunkHandle) {
    let (file, handle) = (EntryId::of(TERM, 11), ChunkHandle::of(TERM, 12));
    let mut state = State::default();
    let add = AddFile { parent: ROOT, name: "f".to_owned(), id: file, ..Default::default() };
    apply_next(&mut state, add);
    apply_next(&mut state, OpenChunk { file, handle, ..Default::default() });
    (state, file, handle)
}

fn apply_next(state: &mut State, record: impl Into<Record>) -> Applied {
    let (index, mut record) = (state.applied().next(), record.into());
    // Each is a mutation of its own.
    let number = MutationNumber::new(index.get());
    let mutation = MutationName { number, ..MutationName::default() };
    match &mut record {
        Record::AddFile(add) => add.mutation = mutation,
        Record::AddDirectories(add) => add.mutation = mutation,
        _ => {}
    }
    state.apply(index, TERM, &record)
}

#[test]
fn a_chunk_that_cannot_be_opened_closes_none_either() {
    let (mut state, file, handle) = one_chunk();
    let index = ChunkIndex::new(1);
    let open = OpenChunk { file, index, handle, closes: Some(handle), ..Default::default() };
    assert!(matches!(apply_next(&mut state, open), Applied::Failed(_)));
    assert!(!state.chunk(handle).expect("there").closed);
}

/// A chunk that a record makes, and the same record of one that is called by the handle of none.
/// Those of streams are in `streams_test.rs`.
fn with_no_handle(record: &Record) -> Option<(ChunkHandle, Record)> {
    let handle = ChunkHandle::default();
    Some(match record.clone() {
        Record::OpenChunk(open) => (open.handle, OpenChunk { handle, ..open }.into()),
        Record::CopyOnWrite(own) => (own.handle, CopyOnWrite { handle, ..own }.into()),
        _ => return None,
    })
}

#[test]
fn no_chunk_of_a_file_is_called_by_the_handle_of_none() {
    let mut refused = [0; KINDS];
    for seed in 0..48 {
        let (mut drawer, mut state) = (Drawer::with_snapshots(seed), State::default());
        for step in 1..150 {
            let first = founding().get(step - 1).cloned();
            let record = first.unwrap_or_else(|| drawer.draw(&state));
            let (index, before) = (LogIndex::new(step as u64), state.clone());
            state.apply(index, TERM, &record);
            let Some((handle, odd)) = with_no_handle(&record) else { continue };
            if before.chunks.contains(handle) || !state.chunks.contains(handle) {
                continue;
            }
            // As it is it makes its chunk: it is the handle that is refused.
            let mut state = before;
            let applied = state.apply(index, TERM, &odd);
            assert!(matches!(applied, Applied::Failed(_)), "{odd:?}, {applied:?}");
            assert!(!state.chunks.contains(ChunkHandle::default()));
            refused[kind_of(&odd)] += 1;
        }
    }
    let kinds = refused.iter().filter(|count| **count >= 10).count();
    assert_eq!(kinds, 2, "each kind of record that makes a file's chunk: {refused:?}");
}

#[test]
fn one_id_is_given_to_one_directory_of_a_record() {
    let (mut state, ..) = one_chunk();
    let id = EntryId::of(TERM, 20);
    let directories = ["a", "b"].map(|name| NewDirectory { id, name: name.to_owned() }).to_vec();
    let add = AddDirectories { parent: ROOT, directories, ..Default::default() };
    assert!(matches!(apply_next(&mut state, add), Applied::Failed(_)));
    check_tree(&state);
}

#[test]
fn what_no_path_can_name_is_not_made() {
    for name in ["", "a/b", "..", "nul\0"] {
        let (mut state, ..) = one_chunk();
        let (name, id) = (name.to_owned(), EntryId::of(TERM, 20));
        let file = AddFile { parent: ROOT, name: name.clone(), id, ..Default::default() };
        assert!(matches!(apply_next(&mut state, file), Applied::Failed(_)), "{name:?}");
        let directories = vec![NewDirectory { id, name }];
        let add = AddDirectories { parent: ROOT, directories, ..Default::default() };
        assert!(matches!(apply_next(&mut state, add), Applied::Failed(_)));
        assert_eq!(state.entry(id), None);
    }
}
