//! R23 for every record that decodes: it is applied or it changes nothing, and never a panic.
//!
//! ```text
//!   fits (replay_test) ─┬─ as it is · damaged · crossed with an earlier one of its kind
//!   anything (sample) ──┘
//! ```

use super::State;
use super::replay_test::{Drawer, TERM, check_tree, founding, reloaded};
use crate::outcome::Outcome;
use crate::record::Record;
use cairn_types::sample::{Sample, crossed, damaged};
use cairn_types::wire::Message;
use cairn_types::{ChunkIndex, LogIndex};
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

/// Both tables of chunks name each other (chunk_table.rs, C1).
fn check_chunks(state: &State) {
    for (handle, chunk) in state.chunks() {
        assert_eq!(state.chunk_at(chunk.file, chunk.index), Some(handle));
    }
    let places: usize = state
        .names
        .entries()
        .map(|(file, _)| state.chunks_of(file, ChunkIndex::default()).count())
        .sum();
    assert_eq!(places as u64, state.chunk_count(), "each chunk is of a file that there is");
}

/// Asks everything that can be asked.
fn look_around(state: &State) {
    for (id, _) in state.names.entries() {
        let path = state.path_of(id).expect("of an entry");
        assert!(path.starts_with('/'));
        let _ = (state.is_hidden(id), state.describe(id), state.last_chunk(id));
    }
    let _ = (state.file_count(), state.directory_count(), state.hidden_count());
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(40))]

    #[test]
    fn any_record_is_applied_or_changes_nothing_and_a_checkpoint_keeps_what_came_of_it(
        seed: u64, founded: bool,
    ) {
        let mut drawer = Drawer::new(seed);
        let mut state = State::default();
        let mut earlier: Vec<Record> = Vec::new();
        for step in 1..150 {
            let first = founding().get(step - 1).filter(|_| founded).cloned();
            let record = first.unwrap_or_else(|| any_record(&mut drawer, &state, &earlier));
            let before = state.clone();
            let outcome = state.apply(LogIndex::new(step as u64), TERM, &record);
            if let Outcome::Failed(_) = outcome {
                assert_eq!(before.names, state.names, "changed by {record:?}");
                assert_eq!(before.chunks, state.chunks, "changed by {record:?}");
            }
            check_tree(&state);
            check_chunks(&state);
            earlier.push(record);
        }
        look_around(&state);
        let loaded = reloaded(&state);
        assert_eq!(loaded.outcomes, state.outcomes);
        assert_eq!(loaded, state);
    }
}
