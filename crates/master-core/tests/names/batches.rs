//! Batches: an answer for each entry, whatever becomes of the others.

use crate::cell::{Cell, path};
use cairn_protocol::{
    BATCH_COUNT_MAX, Batch, BatchEntry, BatchResult, ErrorCode, Failure, Open, Outcome, Response,
    Stat,
};

type Codes = Vec<Option<ErrorCode>>;

fn results(answer: &Result<Response, Failure>) -> &[BatchResult] {
    match answer {
        Ok(Response::Batch(answer)) => &answer.results,
        other => panic!("{other:?}"),
    }
}

/// The code of each failed entry.
fn codes(answer: &Result<Response, Failure>) -> Codes {
    let code = |result: &BatchResult| match result {
        BatchResult::Failed(failure) => Some(failure.code),
        _ => None,
    };
    results(answer).iter().map(code).collect()
}

fn stat(at: &str) -> BatchEntry {
    Stat { path: path(at) }.into()
}

impl Cell {
    fn creates(&mut self, paths: &[&str]) -> Batch {
        Batch { entries: paths.iter().map(|at| self.create(at).into()).collect() }
    }
}

#[test]
fn each_entry_has_a_result_of_its_own_in_the_order_of_the_entries() {
    let mut cell = Cell::new();
    let taken = cell.create("/taken");
    cell.ask(taken).expect("creates");
    let entries = vec![
        cell.make("/d", false).into(),
        cell.create("/taken").into(),
        stat("/taken"),
        cell.create("/f").into(),
        cell.delete("/none", false).into(),
        stat("/none"),
        Open { path: path("/taken"), ..Open::default() }.into(),
        Open { path: path("/"), ..Open::default() }.into(),
        cell.rename("/taken", "/moved", false).into(),
        cell.create("/").into(),
    ];
    let answer = cell.ask(Batch { entries });
    use ErrorCode::{AlreadyExists, IsADirectory, NotFound};
    let expected = [
        None,
        Some(AlreadyExists),
        None,
        None,
        Some(NotFound),
        Some(NotFound),
        None,
        Some(IsADirectory),
        None,
        Some(IsADirectory),
    ];
    assert_eq!(codes(&answer), expected);
    let results = results(&answer);
    assert!(matches!(&results[0], BatchResult::MakeDirectory(made) if made.entry.name == "d"));
    assert!(matches!(&results[2], BatchResult::Stat(looked) if looked.entry.name == "taken"));
    assert!(matches!(&results[6], BatchResult::Open(opened) if opened.entry.name == "taken"));
    assert!(matches!(&results[3], BatchResult::Create(made) if made.created));
    assert_eq!(cell.names("/", false), ["d", "f", "moved"]);
}

#[test]
fn a_batch_is_proposed_in_one_step_and_answered_when_its_last_entry_is_applied() {
    let mut cell = Cell::new();
    let batch = cell.creates(&["/a", "/b", "/c"]);
    let asked = cell.send(batch);
    assert_eq!(cell.proposed.len(), 3, "one flush serves them all");
    cell.commit_first();
    cell.commit_first();
    assert!(cell.answer(asked).is_none(), "R23");
    cell.commit_first();
    assert_eq!(codes(cell.answer(asked).expect("answered")), [None; 3]);
}

#[test]
fn what_is_only_asked_for_is_answered_at_once_and_so_is_a_batch_of_nothing() {
    let mut cell = Cell::new();
    let asked = cell.send(Batch { entries: vec![stat("/"), stat("/none")] });
    let answer = cell.answer(asked).expect("nothing to wait for");
    assert_eq!(codes(answer), [None, Some(ErrorCode::NotFound)]);
    let asked = cell.send(Batch::default());
    assert_eq!(codes(cell.answer(asked).expect("answered")), []);
}

#[test]
fn a_repeated_batch_is_answered_from_what_is_remembered_and_does_nothing_twice() {
    let mut cell = Cell::new();
    let batch = cell.creates(&["/a", "/b", "/none/c"]);
    let (first, second) = (cell.send(batch.clone()), cell.send(batch.clone()));
    assert_eq!(cell.proposed.len(), 3, "the second waits with the first (R24)");
    cell.commit();
    assert_eq!(cell.answer(first), cell.answer(second));
    assert_eq!(
        codes(cell.answer(first).expect("answered")),
        [None, None, Some(ErrorCode::NotFound)]
    );
    for at in ["/a", "/b"] {
        let delete = cell.delete(at, false);
        cell.ask(delete).expect("deletes");
    }
    let make = cell.make("/none", false);
    cell.ask(make).expect("makes");
    let late = cell.send(batch);
    assert_eq!(cell.proposed.len(), 0, "R24");
    let late = cell.answer(late).expect("answered at once");
    assert_eq!(codes(late), [None, None, Some(ErrorCode::NotFound)]);
    assert_eq!(cell.names("/", false), ["none"], "the retry made nothing anew");
}

#[test]
fn of_a_batch_that_was_done_in_part_only_the_rest_is_done() {
    let mut cell = Cell::new();
    let batch = cell.creates(&["/a", "/b", "/c"]);
    // The log lost all but the first record, and the caller its answer: as if only that had come.
    let first = Batch { entries: batch.entries[..1].to_vec() };
    cell.ask(first).expect("answered");
    let again = cell.send(batch);
    assert_eq!(cell.proposed.len(), 2, "R24");
    cell.commit();
    assert_eq!(codes(cell.answer(again).expect("answered")), [None; 3]);
    assert_eq!(cell.names("/", false), ["a", "b", "c"]);
}

#[test]
fn an_entry_that_is_older_than_what_is_remembered_is_unknown_and_the_others_are_not() {
    let mut cell = Cell::new();
    let old = cell.create("/old");
    cell.ask(old.clone()).expect("creates");
    cell.time += 700_000;
    let other = cell.create("/other");
    cell.ask(other).expect("creates");
    let entries = vec![old.into(), cell.create("/new").into()];
    let answer = cell.ask(Batch { entries });
    assert_eq!(codes(&answer), [Some(ErrorCode::TooOld), None]);
    assert!(matches!(&results(&answer)[0],
        BatchResult::Failed(failure) if failure.outcome == Outcome::Unknown));
}

#[test]
fn entries_that_conflict_wait_for_each_other_in_the_order_of_the_batch() {
    let mut cell = Cell::new();
    let entries = vec![
        cell.make("/d", false).into(),
        cell.create("/d/x").into(),
        cell.create("/e").into(),
        cell.delete("/d", true).into(),
    ];
    let asked = cell.send(Batch { entries });
    assert_eq!(cell.proposed.len(), 2, "R35");
    cell.commit();
    assert_eq!(codes(cell.answer(asked).expect("answered")), [None; 4]);
    assert_eq!(cell.names("/", false), ["e"]);
}

#[test]
fn an_oversized_batch_is_refused_whole_in_one_line() {
    let mut cell = Cell::new();
    let batch = cell.creates(&vec!["/a"; BATCH_COUNT_MAX + 1]);
    let asked = cell.send(batch);
    assert_eq!(cell.proposed.len(), 0);
    let failure = cell.answer(asked).cloned().expect("answered").expect_err("too large");
    assert_eq!((failure.code, failure.outcome), (ErrorCode::Invalid, Outcome::Refused));
    assert_eq!(failure.message, "a batch of 1025 operations; the limit is 1024");
}
