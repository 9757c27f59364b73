//! Snapshots among other requests: what waits for them, what they refuse, and what a retry gets.

use super::cell::{Cell, path};
use cairn_master_core::record::{OpenChunk, SetLength};
use cairn_master_core::state::HIDDEN_ROOT;
use cairn_master_core::{MasterCore, Record};
use cairn_protocol::{CountShared, ErrorCode, Outcome, Response, SharedPart, Snapshot};
use cairn_types::{CellConfig, ChunkHandle, ChunkIndex, EntryId, PATH_SIZE_MAX, Term};

/// A cell whose masters can all apply what comes of a snapshot, with the directory `/d`.
fn cell() -> Cell {
    let mut cell = Cell::new();
    let mut effects = Vec::new();
    cell.core.raise_level(cell.now(), 1, &mut effects);
    cell.collect(effects);
    cell.commit();
    let make = cell.make("/d", false);
    cell.ask(make).expect("makes");
    cell
}

/// More names in a directory than a few slices of a snapshot have.
fn fill(cell: &mut Cell, directory: &str) {
    for number in 0..2500 {
        let create = cell.create(&format!("{directory}/{number}"));
        cell.send(create);
    }
    cell.commit();
}

fn snapshot(cell: &mut Cell, from: &str, to: &str) -> Snapshot {
    Snapshot { mutation: cell.mutation(), from: path(from), to: path(to), anew: None }
}

#[test]
fn whoever_creates_below_a_tree_that_is_snapshotted_waits_and_is_not_in_it() {
    let mut cell = cell();
    let first = cell.create("/d/first");
    cell.ask(first).expect("creates");
    let wish = snapshot(&mut cell, "/d", "/s");
    let taken = cell.send(wish.clone());
    let (below, beside) = (cell.create("/d/late"), cell.create("/beside"));
    let (below, beside) = (cell.send(below), cell.send(beside));
    let is_slice = |(_, record): &(_, Record)| matches!(record, Record::CopyEntries(_));
    assert!(is_slice(&cell.proposed[0]) && cell.proposed.len() == 2, "R35: {:?}", cell.proposed);
    cell.commit_first();
    assert!(!cell.exists_now("/s"), "not before all of it is there");
    cell.commit();
    let Some(Ok(Response::Snapshot(answer))) = cell.answer(taken) else { panic!("taken") };
    assert_eq!(answer.entries, 2);
    assert!([below, beside].iter().all(|asked| cell.answer(*asked).is_some_and(Result::is_ok)));
    assert!(cell.exists("/s/first") && !cell.exists("/s/late") && cell.exists("/d/late"));
    let again = cell.ask(wish);
    assert_eq!(Some(&again), cell.answer(taken), "R24");
}

#[test]
fn a_snapshot_below_its_own_source_ends() {
    let mut cell = cell();
    for (from, to) in [("/d", "/d/old"), ("/d", "/d/older"), ("/", "/d/all")] {
        let wish = snapshot(&mut cell, from, to);
        cell.ask(wish).expect("taken");
    }
    assert!(cell.exists("/d/older/old") && cell.exists("/d/all/d/older/old"));
    assert!(!cell.exists("/d/old/old") && !cell.exists("/d/all/d/all"));
}

#[test]
fn what_makes_no_sense_is_refused_and_what_not_all_masters_know_waits() {
    let mut cell = cell();
    let mut code = |from: &str, to: &str| {
        let wish = snapshot(&mut cell, from, to);
        cell.code(wish)
    };
    assert_eq!(code("/none", "/s"), Some(ErrorCode::NotFound));
    assert_eq!(code("/d", "/d"), Some(ErrorCode::AlreadyExists));
    assert_eq!(code("/d", "/none/s"), Some(ErrorCode::NotFound));
    assert_eq!(code("/d", "/"), Some(ErrorCode::AlreadyExists));
    assert_eq!(code("/.deleted", "/s"), Some(ErrorCode::Invalid));
    assert_eq!(code("/d", "/.deleted/s"), Some(ErrorCode::Invalid));
    let mut old = Cell::new();
    let wish = snapshot(&mut old, "/", "/s");
    assert_eq!(old.code(wish), Some(ErrorCode::Busy), "the record level");
}

#[test]
fn a_tree_of_many_names_comes_in_slices_and_a_path_that_grows_too_long_undoes_all() {
    let mut cell = cell();
    fill(&mut cell, "/d");
    let wish = snapshot(&mut cell, "/d", "/s");
    let taken = cell.send(wish);
    let (mut slices, mut most) = (0, 0);
    while !cell.proposed.is_empty() {
        let Record::CopyEntries(slice) = &cell.proposed[0].1 else { break };
        assert!(slice.entries.len() <= 48, "a slice is small (SW2)");
        most = most.max(cell.proposed.len());
        let before = cell.proposed.len();
        slices += 1;
        cell.commit_first();
        assert!(cell.proposed.len() <= before + 1, "one is applied, and two are begun");
    }
    assert_eq!(most, 5, "few are on their way (SW2), and not one at a time");
    assert!(slices > 2500 / 48, "{slices} slices");
    cell.commit();
    let Some(Ok(Response::Snapshot(answer))) = cell.answer(taken) else { panic!("taken") };
    assert_eq!(answer.entries, 2501);
    assert!(cell.exists("/s/0") && cell.exists("/s/2499"));

    // All of it goes in the end, however much was copied.
    let mut deep = "/s/deep".to_owned();
    while deep.len() + 201 <= PATH_SIZE_MAX {
        deep = format!("{deep}/{}", "x".repeat(200));
    }
    let make = cell.make(&deep, true);
    cell.ask(make).expect("makes");
    let long = format!("/d/{}", "y".repeat(250));
    let wish = snapshot(&mut cell, "/s", &long);
    let before = cell.core.state().file_count();
    assert_eq!(cell.code(wish), Some(ErrorCode::Invalid));
    assert!(!cell.exists(&long));
    cell.pass(10_000);
    assert_eq!(cell.core.state().file_count(), before, "what was copied is purged");
}

#[test]
fn whoever_waits_for_a_snapshot_waits_for_one_and_not_for_long() {
    let mut cell = cell();
    fill(&mut cell, "/d");
    let before = cell.core.state().file_count();
    let wish = snapshot(&mut cell, "/d", "/s");
    let taken = cell.send(wish);
    let other = snapshot(&mut cell, "/d", "/t");
    let other = cell.send(other);
    let refused = cell.answer(other).cloned().expect("at once").expect_err("another is taken");
    assert_eq!((refused.code, refused.outcome), (ErrorCode::Busy, Outcome::NotDone));
    let create = cell.create("/d/late");
    let create = cell.send(create);
    cell.stand_still(CellConfig::tiny().dead_ms + 1);
    cell.commit();
    let refused = cell.answer(taken).cloned().expect("answered").expect_err("it takes too long");
    assert_eq!(refused.code, ErrorCode::Invalid, "{refused}");
    assert!(cell.answer(create).is_some_and(Result::is_ok) && !cell.exists("/s"));
    cell.pass(10_000);
    assert_eq!(cell.core.state().file_count(), before + 1, "what was copied is purged");
    let wish = snapshot(&mut cell, "/d", "/s");
    cell.ask(wish).expect("taken");
}

#[test]
fn directories_that_are_there_are_made_again_above_a_tree_that_is_snapshotted() {
    let mut cell = cell();
    let make = cell.make("/d/deep", false);
    cell.ask(make).expect("makes");
    fill(&mut cell, "/d/deep");
    let wish = snapshot(&mut cell, "/d/deep", "/s");
    let taken = cell.send(wish);
    let make = cell.make("/d", true);
    let (below, create) = (cell.create("/d/deep/late"), cell.create("/d/beside"));
    let others = [cell.send(make), cell.send(create)];
    let below = cell.send(below);
    for _ in 0..20 {
        cell.commit_first();
    }
    assert!(!cell.exists_now("/s"), "it has some forty slices");
    assert!(others.iter().all(|it| cell.answer(*it).is_some_and(Result::is_ok)));
    assert!(cell.answer(below).is_none(), "R35");
    cell.commit();
    assert!([taken, below].iter().all(|it| cell.answer(*it).is_some_and(Result::is_ok)));
}

#[test]
fn holes_of_a_file_cost_a_snapshot_nothing() {
    let mut cell = cell();
    let create = cell.create("/d/sparse");
    let Ok(Response::Create(made)) = cell.ask(create) else { panic!("creates") };
    let (file, far) = (made.entry.id, 1 << 40);
    let indexes = [0, 5, 6, far, far + 200, far + 263];
    let mut state = cell.core.state().clone();
    for (number, index) in (500..).zip(indexes) {
        let (index, handle) = (ChunkIndex::new(index), ChunkHandle::of(Term::new(1), number));
        let open = OpenChunk { file, index, handle, set_size: 3, ..OpenChunk::default() };
        state.apply(state.applied().next(), Term::new(1), &open.into());
    }
    cell.index = state.applied().get();
    cell.core = MasterCore::new(state, Term::new(2), 7);
    cell.wakes.clear();
    cell.begin();
    cell.commit();
    cell.stand_still(CellConfig::tiny().longest_lease().as_millis() as u64);
    let wish = snapshot(&mut cell, "/d", "/s");
    let taken = cell.send(wish);
    let mut slices = 0;
    while let Some((_, Record::CopyEntries(_))) = cell.proposed.first() {
        slices += 1;
        assert!(slices <= indexes.len(), "{slices} slices (WK3)");
        cell.commit_first();
    }
    cell.commit();
    assert!(cell.answer(taken).is_some_and(Result::is_ok));
    let state = cell.core.state();
    let copy = state.resolve(&path("/s/sparse")).expect("copied");
    let places = |of| state.chunks_of(of, ChunkIndex::default()).collect::<Vec<_>>();
    assert_eq!(places(copy).len(), indexes.len());
    assert_eq!(places(copy), places(file), "the same chunks at the same places");
}

#[test]
fn what_grows_is_not_emptied_with_what_was_deleted() {
    let mut cell = cell();
    fill(&mut cell, "/d");
    let wish = snapshot(&mut cell, "/d", "/s");
    let taken = cell.send(wish);
    cell.commit_first();
    let (growing, ..) = cell.core.state().children(HIDDEN_ROOT, "").next().expect("it is hidden");
    let delete = cell.delete(&format!("/.deleted/{growing}"), true);
    let deleted = cell.send(delete);
    cell.commit();
    assert!(cell.answer(deleted).is_some_and(Result::is_err), "nobody deleted it");
    cell.pass(5_000);
    let Some(Ok(Response::Snapshot(answer))) = cell.answer(taken) else { panic!("taken") };
    assert_eq!(answer.entries, 2501);
    assert!(cell.exists("/s/0") && cell.exists("/s/2499"));
}

#[test]
fn one_question_looks_at_so_many_chunks_and_the_next_goes_on() {
    let mut cell = cell();
    let mut files = Vec::new();
    for at in 0..3 {
        let create = cell.create(&format!("/d/{at}"));
        let Ok(Response::Create(made)) = cell.ask(create) else { panic!("creates") };
        files.push(made.entry.id);
    }
    let (chunk_size, count) = (CellConfig::tiny().chunk_size, 2000);
    let mut state = cell.core.state().clone();
    for number in 0..3 * count {
        let (file, index) = (files[number as usize / 2000], ChunkIndex::new(number % count));
        let handle = ChunkHandle::of(Term::new(1), 10_000 + number);
        let open = OpenChunk { file, index, handle, set_size: 3, ..OpenChunk::default() };
        state.apply(state.applied().next(), Term::new(1), &open.into());
        let length = (index.get() + 1) * chunk_size;
        let set = SetLength { file, length, ..SetLength::default() };
        state.apply(state.applied().next(), Term::new(1), &set.into());
    }
    cell.index = state.applied().get();
    cell.core = MasterCore::new(state, Term::new(2), 7);
    cell.wakes.clear();
    cell.begin();
    cell.commit();
    let count_from = |cell: &mut Cell, parts: &[(EntryId, u64)]| {
        let part = |(file, first): &(EntryId, u64)| SharedPart {
            file: *file,
            first: ChunkIndex::new(*first),
        };
        let asked = cell.ask(CountShared { files: parts.iter().map(part).collect() });
        let Ok(Response::CountShared(answer)) = asked else { panic!("{asked:?}") };
        let told = answer.files.into_iter().map(|it| (it.shared / chunk_size, it.next));
        told.collect::<Vec<_>>()
    };
    let all = [(files[0], 0), (files[1], 0), (files[2], 0)];
    let nothing = count_from(&mut cell, &all);
    assert_eq!(nothing, [(0, None); 3], "where nothing is shared nothing is looked at");
    cell.stand_still(CellConfig::tiny().longest_lease().as_millis() as u64);
    let wish = snapshot(&mut cell, "/d", "/s");
    cell.ask(wish).expect("taken");
    // 4096 files and chunks in one turn.
    let first = count_from(&mut cell, &all);
    let next = Some(ChunkIndex::new(93));
    assert_eq!(first, [(count, None), (count, None), (93, next)]);
    assert_eq!(count_from(&mut cell, &[(files[2], 93)]), [(count - 93, None)]);
    let more = CountShared { files: vec![SharedPart::default(); 1001] };
    assert_eq!(cell.code(more), Some(ErrorCode::Invalid));
}

#[test]
fn while_leases_of_the_master_before_may_live_no_tree_is_frozen_for_nothing() {
    let mut cell = cell();
    let create = cell.create("/d/f");
    let Ok(Response::Create(made)) = cell.ask(create) else { panic!("creates") };
    let handle = ChunkHandle::of(Term::new(1), 77);
    let open = OpenChunk { file: made.entry.id, handle, set_size: 3, ..OpenChunk::default() };
    let mut state = cell.core.state().clone();
    state.apply(state.applied().next(), Term::new(1), &open.into());
    cell.core = MasterCore::new(state, Term::new(2), 7);
    cell.index += 1;
    cell.wakes.clear();
    cell.begin();
    cell.commit();
    let wish = snapshot(&mut cell, "/d", "/s");
    let refused = cell.ask(wish.clone()).expect_err("not now");
    assert_eq!((refused.code, refused.outcome), (ErrorCode::Busy, Outcome::NotDone));
    cell.stand_still(CellConfig::tiny().longest_lease().as_millis() as u64);
    cell.ask(wish).expect("the same request, for it was not answered for good");
}
