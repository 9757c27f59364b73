//! A chunk that a producer writes, of which replicas have lost some, or were never sent it (R41).

use super::{World, server};
use crate::record::{AddFile, RaiseLevel, Record};
use crate::rules::decided_set::{SetDecision, decide};
use crate::scheduler::WrittenChunks;
use crate::state::ROOT;
use crate::stream_records::{
    AllocateChunk, CommitBundlesRecord, CommittedBundle, OpenProducerRecord,
};
use cairn_protocol::ReplicaReport;
use cairn_types::{
    ChunkHandle, ChunkVersion, EntryId, Epoch, Layout, MutationName, MutationNumber, ProducerId,
    RecordNumber, SerialNumber, SessionId, Term,
};

const STREAM: EntryId = EntryId::new(301);
const SIZE: u64 = 10;

fn handle() -> ChunkHandle {
    ChunkHandle::of(Term::new(1), 77)
}

fn version() -> ChunkVersion {
    ChunkVersion::of(Term::new(1), 78)
}

/// A stream with one chunk on three servers, of which so many bundles are committed.
fn stream(world: &mut World, bundles: u64) {
    let named =
        |number| MutationName { session: SessionId::new(9), number: MutationNumber::new(number) };
    let (producer, epoch) = (ProducerId::new(5), Epoch::new(6));
    world.apply(RaiseLevel { level: 9, ..RaiseLevel::default() });
    let (parent, name, layout) = (ROOT, "s".to_owned(), Layout::Stream);
    let (mutation, replication) = (named(1), 3);
    let base = AddFile::default();
    world.apply(AddFile { mutation, parent, name, id: STREAM, replication, layout, ..base });
    let (mutation, name, base) = (named(2), "p".to_owned(), OpenProducerRecord::default());
    world.apply(OpenProducerRecord { mutation, file: STREAM, name, producer, epoch, ..base });
    let (handle, version, base) = (handle(), version(), AllocateChunk::default());
    let (file, set_size) = (STREAM, 3);
    world.apply(AllocateChunk { file, handle, version, set_size, producer, epoch, ..base });
    for number in 1..=bundles {
        let bundle = CommittedBundle {
            first: RecordNumber::new(number),
            count: 1,
            handle,
            offset: SIZE * (number - 1),
            size: SIZE,
            serial: SerialNumber::new(number),
            ..CommittedBundle::default()
        };
        let (bundles, base) = (vec![bundle], CommitBundlesRecord::default());
        world.apply(CommitBundlesRecord { file: STREAM, producer, epoch, bundles, ..base });
    }
    let row = world.state.streams().open_chunk(handle).expect("it is written");
    assert_eq!(row.serial, SerialNumber::new(bundles));
}

fn told(serial: u64, (closed, suspect): (bool, bool)) -> ReplicaReport {
    let (serial, length) = (SerialNumber::new(serial), SIZE * serial);
    let (handle, version) = (handle(), version());
    ReplicaReport { handle, version, serial, length, closed, suspect, ..Default::default() }
}

fn seal(world: &mut World) -> bool {
    world.with(|chunks, step| {
        let (mut step, scheduler) = chunks.for_streams(step);
        WrittenChunks(scheduler).seal(&mut step, handle())
    })
}

fn decided(world: &World) -> SetDecision {
    let view = world.chunks.view(world.moment(), &world.state);
    decide(&view, handle(), &world.state.chunk(handle()).expect("there"))
}

#[test]
fn a_sound_replica_that_lacks_what_is_committed_comes_after_suspect_ones_that_have_it() {
    let mut world = World::new(3);
    stream(&mut world, 3);
    let mut world = world.restarted(2);
    world.join(1, vec![told(2, (false, false))], vec![]);
    world.join(2, vec![told(3, (true, true))], vec![]);
    world.join(3, vec![told(3, (true, true))], vec![]);
    assert!(matches!(decided(&world), SetDecision::At(_)), "{:?}", decided(&world));
    // What it told is old, for all that is known: it gets the mark, and tells once more.
    assert!(seal(&mut world));
    let raises = world.raises();
    assert_eq!(raises.iter().map(|(_, to, _)| *to).collect::<Vec<_>>(), [1], "SL3");
    for (id, _, raise) in raises {
        assert!(raise.close, "it takes nothing more");
        world.accept(id, &raise, told(2, (true, false)));
    }
    assert!(world.commit().is_empty(), "nobody has what is committed");
    world.pass(60_000, &[1, 2, 3]);
    assert_eq!(decided(&world), SetDecision::Set(vec![server(2), server(3)]));
    assert!(seal(&mut world));
    for (id, to, raise) in world.raises() {
        assert_ne!(to, 1);
        world.accept(id, &raise, told(3, (true, false)));
    }
    let records = world.commit();
    let [Record::SealChunk(sealed)] = &records[..] else { panic!("{records:?}") };
    assert_eq!(
        (sealed.set_size, sealed.serial),
        (2, Some(SerialNumber::new(3))),
        "nothing is lost"
    );
}

#[test]
fn what_nobody_has_who_is_left_counts_against_nobody() {
    let mut world = World::new(3);
    stream(&mut world, 3);
    let mut world = world.restarted(2);
    world.join(1, vec![told(2, (true, false))], vec![]);
    world.join(2, vec![told(1, (true, true))], vec![]);
    world.join(3, vec![told(1, (true, true))], vec![]);
    world.pass(60_000, &[1, 2, 3]);
    assert_eq!(decided(&world), SetDecision::Set(vec![server(1)]));
}

#[test]
fn what_a_whole_set_lost_is_lost_and_the_chunk_is_sealed_without_it() {
    let mut world = World::new(3);
    stream(&mut world, 3);
    let mut world = world.restarted(2);
    world.join(1, vec![told(2, (false, true))], vec![]);
    world.join(2, vec![told(1, (false, true))], vec![]);
    world.join(3, vec![told(2, (false, true))], vec![]);
    assert!(matches!(decided(&world), SetDecision::At(_)), "{:?}", decided(&world));
    world.pass(60_000, &[1, 2, 3]);
    assert_eq!(decided(&world), SetDecision::Set(vec![server(1), server(3)]), "DS7");
    assert!(seal(&mut world));
    for (id, to, raise) in world.raises() {
        assert_ne!(to, 2, "it has less");
        world.accept(id, &raise, told(2, (true, false)));
    }
    let records = world.commit();
    let [Record::SealChunk(sealed)] = &records[..] else { panic!("{records:?}") };
    assert_eq!((sealed.set_size, sealed.serial), (2, None), "what it lacks is lost (SL2)");
    assert!(world.state.chunk(handle()).expect("there").closed, "it is done");
}

#[test]
fn who_is_away_or_damaged_may_have_what_the_others_lack_and_only_a_person_goes_on_without() {
    // Two that have it all are dead: the third is told to take nothing more, and no more is done.
    let mut world = World::new(3);
    stream(&mut world, 3);
    let mut world = world.restarted(2);
    world.join(3, vec![told(1, (true, false))], vec![]);
    world.pass(600_000, &[3]);
    assert_eq!(decided(&world), SetDecision::NotNeeded);
    assert!(!seal(&mut world), "what is committed may still come");
    // All are here, and a start could not read one of them: nobody knows how far it had come.
    let mut world = World::new(3);
    stream(&mut world, 3);
    let mut world = world.restarted(2);
    for at in [1, 2] {
        world.join(at, vec![told(2, (false, true))], vec![]);
    }
    world.join(3, vec![told(0, (false, true))], vec![]);
    world.with(|chunks, _| chunks.fleet.mark_damaged(handle(), server(3)));
    world.pass(60_000, &[1, 2, 3]);
    assert_eq!(decided(&world), SetDecision::LeftToPerson(server(3)));
    assert!(!seal(&mut world));
}
