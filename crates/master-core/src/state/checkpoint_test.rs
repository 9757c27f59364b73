//! Checkpoints that were changed: a file that is not as it was written is none (format, K1), and
//! items that make no sense in spite of good checksums are refused.

use super::State;
use super::any_record_test::look_around;
use super::checkpoint::{Head, Item, LoadError, Loader};
use super::replay_test::{Drawer, TERM, check_tree, founding};
use cairn_format::{CheckpointHeader, CheckpointSum, scan_checkpoint};
use cairn_types::sample::{check_bytes, check_wire, crossed, damaged};
use cairn_types::wire::Message;
use cairn_types::{CellId, LogIndex, Random};
use proptest::prelude::{ProptestConfig, any, proptest};

/// A state with something of everything, and the source of what is to happen to it.
fn drawn(seed: u64) -> (State, Random) {
    let mut drawer = Drawer::new(seed);
    let mut state = State::default();
    for step in 1..120 {
        let record = founding().get(step - 1).cloned().unwrap_or_else(|| drawer.draw(&state));
        state.apply(LogIndex::new(step as u64), TERM, &record);
    }
    (state, drawer.random)
}

fn load(items: impl IntoIterator<Item = impl AsRef<[u8]>>) -> Result<State, LoadError> {
    let mut loader = Loader::default();
    for item in items {
        loader.take(item.as_ref())?;
    }
    loader.finish()
}

fn file_of(state: &State) -> Vec<u8> {
    let header = CheckpointHeader { cell: CellId::new(5), term: TERM, index: state.applied() };
    let mut file = header.encode();
    let mut sum = CheckpointSum::default();
    state.items().for_each(|item| sum.put_item(&item, &mut file));
    file.extend_from_slice(&sum.footer());
    file
}

/// The state in a file, if it is a checkpoint.
fn state_of(file: &[u8]) -> Option<State> {
    let (_, items) = scan_checkpoint(file).ok()?;
    load(items.into_iter().map(|range| &file[range])).ok()
}

/// `file` with two runs of bytes in each other's place.
fn swapped(file: &[u8], random: &mut Random) -> Vec<u8> {
    let size = 1 << random.below(9);
    let mut blocks: Vec<&[u8]> = file.chunks(size).collect();
    let mut place = || usize::try_from(random.below(blocks.len() as u64)).expect("a place");
    let (one, other) = (place(), place());
    blocks.swap(one, other);
    blocks.concat()
}

/// `file` with two of its items, checksums and all, in each other's place.
fn reordered(file: &[u8], random: &mut Random) -> Vec<u8> {
    let (_, ranges) = scan_checkpoint(file).expect("whole");
    let mut items: Vec<&[u8]> = ranges.iter().map(|r| &file[r.start - 8..r.end]).collect();
    let end = ranges.last().expect("the head at least").end;
    let mut place = || usize::try_from(random.below(items.len() as u64)).expect("a place");
    let (one, other) = (place(), place());
    items.swap(one, other);
    [&file[..64], &items.concat(), &file[end..]].concat()
}

/// Items, some of them damaged, crossed, lost, said twice or out of order; the head counts right.
fn made_odd(items: Vec<Vec<u8>>, random: &mut Random) -> Vec<Vec<u8>> {
    let mut odd = items;
    for _ in 0..=random.below(3) {
        let mut place = || usize::try_from(random.below(odd.len() as u64)).expect("a place");
        let (at, other) = (place(), place());
        match random.below(5) {
            0 => odd[at] = damaged(&odd[at], random),
            1 => odd[at] = crossed(&odd[at], &odd[other], random).unwrap_or_default(),
            2 => odd.swap(at, other),
            3 => odd.push(odd[at].clone()),
            _ => drop(odd.remove(at)),
        }
        if odd.is_empty() {
            return odd;
        }
    }
    if let Ok(Item::Head(head)) = Item::decode(&odd[0]) {
        odd[0] = Item::Head(counted(head, &odd)).to_bytes();
    }
    odd
}

fn counted(head: Head, items: &[Vec<u8>]) -> Head {
    let count =
        |tag: u8| items.iter().filter(|i| i.first() == Some(&(tag << 3 | 2))).count() as u64;
    Head {
        entry_count: count(2),
        chunk_count: count(3),
        kept_count: count(4),
        floor_count: count(5),
        idle_count: count(6),
        ..head
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(40))]

    #[test]
    fn a_checkpoint_cut_changed_or_shuffled_is_none_or_the_same(seed: u64) {
        let (state, mut random) = drawn(seed);
        let file = file_of(&state);
        assert_eq!(state_of(&file), Some(state.clone()));
        for _ in 0..6 {
            let cut = random.below(file.len() as u64) as usize;
            assert_eq!(state_of(&file[..cut]), None, "cut at {cut}");
            let mut flipped = file.clone();
            flipped[cut] ^= 1 << random.below(8);
            assert_eq!(state_of(&flipped), None, "flipped at {cut}");
            for odd in [
                damaged(&file, &mut random),
                swapped(&file, &mut random),
                reordered(&file, &mut random),
            ] {
                let loaded = state_of(&odd);
                assert!(loaded.is_none() || odd == file);
            }
        }
    }

    #[test]
    fn items_that_make_no_sense_are_refused_or_are_a_state_that_goes_on(seed: u64) {
        let (state, mut random) = drawn(seed);
        let items: Vec<Vec<u8>> = state.items().collect();
        for _ in 0..8 {
            let Ok(mut odd) = load(made_odd(items.clone(), &mut random)) else { continue };
            look_around(&odd);
            let mut drawer = Drawer::new(random.next_u64());
            for _ in 0..30 {
                check_tree(&odd);
                let record = drawer.draw(&odd);
                let Some(index) = odd.applied().get().checked_add(1) else { break };
                odd.apply(LogIndex::new(index), TERM, &record);
            }
        }
    }

    #[test]
    fn every_item_comes_back_and_no_damage_makes_it_panic(
        seed: u64, raw in proptest::collection::vec(any::<u8>(), 0..200),
    ) {
        let random = &mut Random::new(seed);
        let items = Item::sample_each(random);
        items.iter().for_each(|item| check_wire(item, random));
        check_bytes::<Item>(&raw);
        // Drawn items hardly ever make a state; they must not make a panic either.
        let _ = load(items.iter().map(Message::to_bytes));
    }
}
