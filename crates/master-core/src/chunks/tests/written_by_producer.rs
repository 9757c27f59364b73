//! A chunk that a producer writes, of which replicas have lost some, or were never sent it (R41).

use super::super::test_world::{STREAM, chunk_of, lease, written_by};
use super::{World, server};
use crate::fleet::PersonsWord;
use crate::record::{LOST_LEVEL, RaiseLevel, Record};
use crate::rules::chosen_replica::recover;
use crate::rules::condition::condition;
use crate::rules::decided_set::{SetDecision, decide};
use crate::rules::{lost_bytes, reading};
use crate::scheduler::WrittenChunks;
use crate::stream_records::SealChunk;
use cairn_protocol::{Lease, LeasePurpose, Recover, ReplicaReport};
use cairn_types::{ChunkHandle, ChunkVersion, SerialNumber, ServerId, Term};

const SIZE: u64 = 10;

fn handle() -> ChunkHandle {
    chunk_of(1).0
}

/// A stream with one chunk on three servers, of which so many bundles are committed.
fn stream(world: &mut World, bundles: u64) {
    written_by(world, 1, (bundles, SIZE));
}

fn told(serial: u64, (closed, suspect): (bool, bool)) -> ReplicaReport {
    let (serial, length) = (SerialNumber::new(serial), SIZE * serial);
    let (handle, version) = chunk_of(1);
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
fn whoever_wants_its_replicas_levelled_waits_for_the_seal() {
    let mut world = World::new(3);
    stream(&mut world, 3);
    let mut world = world.restarted(2);
    // The one that has the last bundle is away: the others would be a set without it.
    for (at, serial) in [(1, 2), (2, 2), (3, 3)] {
        world.join(at, vec![told(serial, (false, false))], vec![]);
    }
    world.pass(600_000, &[1, 2]);
    world.request(5, Lease { file: STREAM, ..lease(LeasePurpose::Level, 0) });
    world.pass(60_000, &[1, 2]);
    assert!(world.raises().is_empty() && world.commit().is_empty(), "R41");
    assert_eq!(world.reply(5).and_then(Result::ok), None);
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
    let lost = world.state.lost().get(handle()).expect("it is noted");
    assert_eq!((lost.held, lost.committed, lost.is_hole), (2 * SIZE, 3 * SIZE, false));
    assert!(world.state.chunk(handle()).expect("there").closed, "it is done");
}

/// R42: it would be open for ever, never repaired, and the end of all settling behind it.
#[test]
fn the_one_that_is_left_with_all_that_is_committed_is_sealed_alone_and_copied() {
    let mut world = World::new(3);
    stream(&mut world, 3);
    let mut world = world.restarted(2);
    for at in 1..=3 {
        world.join(at, vec![told(3, (false, false))], vec![]);
    }
    world.pass(6000, &[1, 2, 3]);
    // Nobody is given up for being silent.
    world.pass(1500, &[1]);
    assert!(seal(&mut world), "it gets the mark all the same (SL3)");
    for (id, _, raise) in world.raises() {
        world.accept(id, &raise, told(3, (true, false)));
    }
    assert!(world.commit().is_empty(), "two are waited for");
    world.pass(60_000, &[1]);
    assert_eq!(decided(&world), SetDecision::NotNeeded, "nothing of it is in doubt");
    assert!(seal(&mut world));
    for (id, to, raise) in world.raises() {
        assert_eq!(to, 1);
        world.accept(id, &raise, told(3, (true, false)));
    }
    let records = world.commit();
    let [Record::SealChunk(sealed)] = &records[..] else { panic!("{records:?}") };
    assert_eq!((sealed.set_size, sealed.serial), (1, Some(SerialNumber::new(3))));
    world.join(4, vec![], vec![]);
    world.pass(1000, &[1, 4]);
    assert_eq!(world.orders().len(), 1, "it is copied to whoever can take it");
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
    // Two sound ones that lack it with one that is gone for good are a set that nobody wants.
    let mut world = World::new(3);
    stream(&mut world, 3);
    let mut world = world.restarted(2);
    for at in [1, 2] {
        world.join(at, vec![told(1, (true, false))], vec![]);
    }
    world.pass(600_000, &[1, 2]);
    assert_eq!(decided(&world), SetDecision::NotNeeded);
    let wish = Recover { subject: handle().short(), ..Recover::default() };
    let (answer, words) = world.with(|chunks, step| {
        recover(&chunks.view(step.now, step.state), &wish).expect("a person may")
    });
    assert_eq!((answer.chosen.len(), words.len()), (1, 1));
    let (at, word) = words[0];
    let now = world.moment().time;
    world.with(|chunks, _| chunks.fleet.choose(now, at, word));
    assert_eq!(decided(&world), SetDecision::Set(vec![word.server]), "DS5");
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

#[test]
fn who_began_a_life_and_is_found_damaged_has_no_more_than_those_as_long_as_it() {
    let life = |length: u64| ReplicaReport {
        serial: SerialNumber::new(1 << 40),
        length,
        ..told(3, (true, false))
    };
    // It was to level the others after a power failure of all three, and could not be read.
    let all_have = |first: ReplicaReport| {
        let mut world = World::new(3);
        stream(&mut world, 3);
        let mut world = world.restarted(2);
        world.join(1, vec![first], vec![]);
        for at in [2, 3] {
            world.join(at, vec![told(3, (true, true))], vec![]);
        }
        world.with(|chunks, _| chunks.fleet.mark_damaged(handle(), server(1)));
        world.pass(60_000, &[1, 2, 3]);
        let view = world.chunks.view(world.moment(), &world.state);
        let told = condition(&view, handle(), &world.state.chunk(handle()).expect("there"));
        let is_stale = told.is_some_and(|it| it.stale);
        (decided(&world), reading::locations(&view, handle()).replicas.len(), is_stale)
    };
    let the_others = SetDecision::Set(vec![server(2), server(3)]);
    assert_eq!(all_have(life(3 * SIZE)), (the_others, 3, false), "readers find good blocks");
    let for_person = (SetDecision::LeftToPerson(server(1)), 1, true);
    assert_eq!(all_have(life(3 * SIZE + 1)), for_person, "what is longer may hold more");
    let open = ReplicaReport { closed: false, ..life(3 * SIZE) };
    assert_eq!(all_have(open), for_person, "SB1: it may be told late");
}

#[test]
fn what_one_of_a_sealed_set_has_beyond_what_is_committed_puts_nobody_behind() {
    let sealed_by = |serials: [u64; 3], held: Option<u64>| {
        let mut world = World::new(3);
        stream(&mut world, 3);
        world.apply(RaiseLevel { level: LOST_LEVEL, ..RaiseLevel::default() });
        let (handle, version) = (handle(), ChunkVersion::of(Term::new(1), 90));
        let serial = held.is_none().then_some(SerialNumber::new(3));
        world.apply(SealChunk {
            handle,
            version,
            set_size: 3,
            serial,
            held,
            ..SealChunk::default()
        });
        let mut world = world.restarted(2);
        for (at, serial) in (1..).zip(serials) {
            let report = ReplicaReport { version, ..told(serial, (true, false)) };
            world.join(at, vec![report], vec![]);
        }
        world.pass(60_000, &[1, 2, 3]);
        world
    };
    // The first was sent a bundle that the others were not, and the producer left the chunk.
    let mut world = sealed_by([4, 3, 3], None);
    let named = |world: &World| {
        let view = world.chunks.view(world.moment(), &world.state);
        reading::locations(&view, handle()).replicas.len()
    };
    assert_eq!(named(&world), 3, "SB2: each has what is committed");
    // It rots, and another dies: the third is whole, and nobody has to be asked.
    world.with(|chunks, _| chunks.fleet.mark_damaged(handle(), server(1)));
    world.pass(600_000, &[1, 2]);
    assert_eq!(decided(&world), SetDecision::Set(vec![server(2)]));
    // Where the log knows of a loss, who has more has more of what was committed.
    let world = sealed_by([3, 2, 2], Some(2 * SIZE));
    assert_eq!(named(&world), 1);
}

#[test]
fn what_a_person_goes_on_without_is_lost_though_the_chunk_was_closed_whole() {
    let mut world = World::new(3);
    stream(&mut world, 3);
    let version = ChunkVersion::of(Term::new(1), 90);
    let seal = SealChunk { handle: handle(), version, set_size: 3, ..SealChunk::default() };
    world.apply(seal);
    let mut world = world.restarted(2);
    // Images of before: nobody has what is logged.
    for at in [1, 2, 3] {
        world.join(at, vec![told(at.min(2), (false, false))], vec![]);
    }
    world.pass(600_000, &[1, 2, 3]);
    let word = PersonsWord { server: server(3), insists: true };
    let now = world.moment().time;
    world.with(|chunks, _| chunks.fleet.choose(now, handle(), word));
    assert_eq!(decided(&world), SetDecision::Set(vec![server(3)]));
    let chunk = world.state.chunk(handle()).expect("there");
    let held = |set: &[(ServerId, u64)]| {
        let view = world.chunks.view(world.moment(), &world.state);
        lost_bytes::held(&view, (handle(), &chunk), set)
    };
    assert_eq!(held(&[(server(3), 2 * SIZE)]), Some((2 * SIZE, 3 * SIZE)));
    assert_eq!(held(&[(server(3), 3 * SIZE)]), None, "it has all of it");
    assert_eq!(held(&[(server(1), SIZE), (server(2), SIZE)]), None, "nobody decided on these");
}
