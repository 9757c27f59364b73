//! What producers are told before anything is in the log.

use super::cell::Cell;
use cairn_protocol::{
    Bundle, CommitBundles, CommitBundlesAnswer, CommitOutcome, Create, ErrorCode, OpenProducer,
    OpenProducerAnswer, Response,
};
use cairn_types::{ChunkHandle, EntryId, Layout, RecordNumber, Term};

/// At the record level that streams need.
fn cell_with_streams() -> Cell {
    let mut cell = Cell::new();
    let mut effects = Vec::new();
    cell.core.raise_level(cell.now(), 2, &mut effects);
    cell.collect(effects);
    cell.commit();
    cell
}

fn stream(cell: &mut Cell) -> EntryId {
    let create = Create { layout: Some(Layout::Stream), ..cell.create("/s") };
    let Ok(Response::Create(made)) = cell.ask(create) else { panic!("creates") };
    made.entry.id
}

fn producer(cell: &mut Cell, file: EntryId) -> OpenProducerAnswer {
    let (mutation, name) = (cell.mutation(), "p".to_owned());
    let opened = cell.ask(OpenProducer { mutation, file, name, ..OpenProducer::default() });
    let Ok(Response::OpenProducer(opened)) = opened else { panic!("{opened:?}") };
    opened
}

#[test]
fn no_chunk_is_called_lost_while_an_earlier_commit_is_on_its_way_into_the_log() {
    let mut cell = cell_with_streams();
    let file = stream(&mut cell);
    let OpenProducerAnswer { producer, epoch, .. } = producer(&mut cell, file);
    let commit = |first: u64| {
        let first = RecordNumber::new(first);
        let handle = ChunkHandle::of(Term::new(1), 77);
        let bundle = Bundle { first, count: 1, handle, size: 1, ..Bundle::default() };
        CommitBundles { file, producer, epoch, bundles: vec![bundle] }
    };
    // Nobody need hold what is committed already, so that this one is proposed whatever it says.
    let earlier = cell.send(commit(0));
    let again = cell.send(commit(1));
    let told = cell.answer(again).expect("at once").as_ref().expect_err("nothing is known yet");
    assert_eq!(told.code, ErrorCode::Busy);
    cell.commit();
    assert!(cell.answer(earlier).is_some());
    let lost = cell.ask(commit(1));
    let Ok(Response::CommitBundles(CommitBundlesAnswer { bundles, .. })) = lost else {
        panic!("{lost:?}")
    };
    assert_eq!(bundles.first().map(|it| it.outcome), Some(CommitOutcome::ChunkLost));
}

/// One such commit of whoever has a stream exclusively would leave no number for those after it.
#[test]
fn more_records_than_a_bundle_has_bytes_are_refused_before_they_are_logged() {
    let mut cell = cell_with_streams();
    let file = stream(&mut cell);
    let OpenProducerAnswer { producer, epoch, .. } = producer(&mut cell, file);
    let handle = ChunkHandle::of(Term::new(1), 77);
    let first = RecordNumber::new(0);
    let bundle = Bundle { first, count: u64::MAX, handle, size: 9, ..Bundle::default() };
    let asked = cell.send(CommitBundles { file, producer, epoch, bundles: vec![bundle] });
    let refused = cell.answer(asked).expect("at once").as_ref().expect_err("nobody has so many");
    assert_eq!(refused.code, ErrorCode::Invalid);
}
