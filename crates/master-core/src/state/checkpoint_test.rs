//! Checkpoints that were changed: pages that are not as they were written are refused, and so are
//! items that make no sense in spite of good checksums.

use super::State;
use super::any_record_test::look_around;
use super::checkpoint::{Head, Item, LoadError, Loader};
use super::replay_test::{Drawer, TERM, check_tree, founding};
use cairn_pagetree::FileId;
use cairn_types::sample::{check_bytes, check_wire, crossed, damaged};
use cairn_types::wire::Message;
use cairn_types::{LogIndex, Random};
use proptest::prelude::{ProptestConfig, any, proptest};
use std::sync::Arc;

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

/// The state in pages, if they are those of an image.
fn state_of(pages: &[u8], root: &[u8]) -> Option<State> {
    State::open_image(Arc::new(pages.to_vec()), FileId::fresh(), root).ok()
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
    fn an_image_cut_or_changed_is_none_or_the_same(seed: u64) {
        let (state, mut random) = drawn(seed);
        let mut pages = Vec::new();
        let root = state.write_image(FileId::fresh(), &mut pages).expect("memory takes it");
        assert_eq!(state_of(&pages, &root), Some(state.clone()));
        for _ in 0..6 {
            let cut = random.below(pages.len() as u64) as usize;
            assert_eq!(state_of(&pages[..cut], &root), None, "cut at {cut}");
            let mut flipped = pages.clone();
            flipped[cut] ^= 1 << random.below(8);
            assert_eq!(state_of(&flipped, &root), None, "flipped at {cut}");
            let odd = damaged(&pages, &mut random);
            let loaded = state_of(&odd, &root);
            assert!(loaded.is_none() || loaded == Some(state.clone()));
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
