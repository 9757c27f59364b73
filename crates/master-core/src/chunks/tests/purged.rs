//! Chunks of purged files go from the servers; what the log has not had, or may not have had, stays
//! for a person (R3, R33).

use super::super::test_world::{FILE, World, report, server};
use crate::applied::Applied;
use crate::record::{Begin, HideEntry, LetGo, OpenChunk, Purge};
use crate::state::ROOT;
use cairn_protocol::{
    ErrorCode, Heartbeat, Join, LetGoOfLost, ListLost, ReplicaReport, ServedReign,
};
use cairn_types::{
    CellId, ChunkHandle, ChunkIndex, ChunkVersion, Incarnation, MutationName, MutationNumber,
    ReignId, ReplicaAt, SerialNumber, SessionId, Term,
};

fn of(term: u64, counter: u64) -> ChunkHandle {
    ChunkHandle::of(Term::new(term), counter)
}

/// A replica with a byte on it.
fn written(handle: ChunkHandle) -> ReplicaReport {
    let (version, serial) = (ChunkVersion::of(handle.term(), 900), SerialNumber::new(1));
    ReplicaReport {
        handle,
        version,
        mutated_version: version,
        serial,
        length: 1,
        ..Default::default()
    }
}

impl World {
    /// The file is deleted and purged, in slices of `count`; the chunks that went.
    fn purge_file(&mut self, count: u32, floor: ChunkHandle) -> Vec<ChunkHandle> {
        let (session, number) = (SessionId::new(5), MutationNumber::new(self.millis));
        self.apply(HideEntry {
            mutation: MutationName { session, number },
            entry: FILE,
            parent: ROOT,
            name: "f".to_owned(),
            ..HideEntry::default()
        });
        let mut gone = Vec::new();
        loop {
            match self.apply(Purge { entry: FILE, count, floor, ..Purge::default() }) {
                Applied::EntryPurged(purged) => {
                    gone.extend(&purged.chunks);
                    self.chunks.forget_chunks(&purged.chunks);
                    if purged.whole {
                        return gone;
                    }
                }
                other => panic!("{other:?}"),
            }
        }
    }

    fn open(&mut self, index: u64, handle: ChunkHandle, floor: ChunkHandle) {
        let (index, version) = (ChunkIndex::new(index), ChunkVersion::of(handle.term(), 900));
        let open = OpenChunk { file: FILE, index, handle, version, floor, ..OpenChunk::default() };
        assert!(matches!(self.apply(open), Applied::ChunkOpened(_)));
    }

    /// What a server that holds these is told to throw away.
    fn garbage(&mut self, id: u64, held: Vec<ReplicaReport>) -> Vec<ChunkHandle> {
        let answer = self.beat(id, held, vec![]);
        answer.garbage.iter().map(|garbage| garbage.handle).collect()
    }
}

#[test]
fn replicas_of_a_purged_file_go_with_the_next_word_about_them() {
    let mut world = World::new(3);
    let grant = world.first_chunk();
    let handle = grant.handle;
    let held = ReplicaReport { length: 5, serial: SerialNumber::new(1), ..report(&grant) };
    assert_eq!(world.garbage(1, vec![held.clone()]), []);
    assert_eq!(world.purge_file(9, ChunkHandle::default()), [handle]);
    assert_eq!(world.garbage(1, vec![held.clone()]), [handle]);
    // A master that starts knows as much from the log.
    let mut world = world.restarted(2);
    world.join(2, vec![held.clone()], vec![]);
    assert_eq!(world.garbage(2, vec![held]), [handle]);
    let unknown = world.with(|chunks, _| chunks.fleet.unknown_count());
    assert_eq!(unknown, 0, "what is purged is not lost");
}

#[test]
fn a_chunk_that_a_later_log_opened_below_one_of_this_is_kept() {
    // 100 is logged and the backup is taken; then 99, which was in the making, is logged, written.
    let mut world = World::new(3);
    world.open(0, of(1, 100), of(1, 99));
    world.purge_file(9, of(1, 99));
    let mut world = world.restarted(2);
    world.join(1, vec![], vec![]);
    let held = [98, 99, 100, 101].map(|counter| written(of(1, counter)));
    assert_eq!(world.garbage(1, held.to_vec()), [of(1, 98), of(1, 100)], "R3");
    let lost = world.with(|chunks, _| chunks.fleet.unknown_count());
    assert_eq!(lost, 2);
    // A person lets go of one of them.
    let told = world.chunks.lost_after(&ListLost { limit: 1, ..ListLost::default() });
    assert_eq!((told.chunks[0].handle, told.chunks[0].length), (of(1, 99), 1));
    assert_eq!(told.chunks[0].servers[0].server, server(1));
    let rest = ListLost { after: told.resume.expect("there is more"), limit: 9 };
    let rest = world.chunks.lost_after(&rest);
    assert_eq!((rest.chunks[0].handle, rest.resume), (of(1, 101), None));
    world.request(5, LetGoOfLost { handle: of(1, 99) });
    world.commit();
    assert!(world.reply(5).is_some_and(|reply| reply.is_ok()));
    world.request(5, LetGoOfLost { handle: of(1, 100) });
    assert_eq!(world.code(5), Some(ErrorCode::NotFound), "purged, not lost");
    assert_eq!(world.garbage(1, held.to_vec()), [of(1, 98), of(1, 99), of(1, 100)]);
    let lost = world.with(|chunks, _| chunks.fleet.unknown_count());
    assert_eq!(lost, 1);
}

#[test]
fn slices_take_a_file_from_its_end_to_its_name_and_remember_each_chunk() {
    let mut world = World::new(1);
    let all = [10, 11, 12, 13, 14].map(|counter| of(1, counter));
    for (index, handle) in all.into_iter().enumerate() {
        world.open(index as u64, handle, of(1, 10));
    }
    assert_eq!(world.purge_file(2, of(1, 12)), [all[1], all[2], all[3], all[4], all[0]]);
    assert_eq!((world.state.chunk_count(), world.state.file_count()), (0, 0));
    assert_eq!(world.state.hidden_count(), 0);
    assert!(all.iter().all(|handle| world.state.is_purged(*handle)));
    assert!(!world.state.is_purged(of(1, 15)));
    assert!(!world.state.is_purged(of(2, 1)), "no such term was here");
}

#[test]
fn the_purged_of_a_term_that_is_not_remembered_are_kept() {
    let mut world = World::new(1);
    world.open(0, of(1, 10), of(1, 10));
    world.purge_file(9, of(1, 20));
    assert!(world.state.is_purged(of(1, 15)));
    for term in 2..1500 {
        world.apply(Begin { term: Term::new(term), ..Begin::default() });
    }
    assert!(!world.state.is_purged(of(1, 15)), "whose term it was is forgotten");
}

#[test]
fn a_server_whose_past_nobody_can_tell_keeps_what_it_had_then() {
    let mut world = World::new(1);
    world.open(0, of(1, 10), of(1, 10));
    world.purge_file(9, of(1, 20));
    let held = vec![written(of(1, 10)), written(of(1, 12))];
    let mut world = world.restarted(2);
    world.apply(Begin { term: Term::new(2), reign: ReignId::new(7), ..Begin::default() });
    // It has served a build that told of no reigns.
    let at = ReplicaAt { server: server(8), ..ReplicaAt::default() };
    let join = Join { at, cell: CellId::new(5), ..Join::default() };
    world.request(5, join.clone());
    world.commit();
    assert_eq!(world.state.known_servers().since(server(8)), Some(Term::new(2)));
    let told = world.beat_as(8, 0, held.clone(), vec![]);
    assert_eq!(told.garbage, [], "R3");
    // That it has served this one since says nothing of what it had before.
    let (term, reign) = (Term::new(2), ReignId::new(7));
    let served = ServedReign { term, reign, ..ServedReign::default() };
    world.request(5, Join { served, ..join.clone() });
    world.commit();
    assert_eq!(world.beat_as(8, 0, held.clone(), vec![]).garbage, [], "R3");
    // A person's word is enough.
    world.apply(LetGo { handle: of(1, 12), ..LetGo::default() });
    let told = world.beat_as(8, 0, held, vec![]).garbage;
    assert_eq!(told.iter().map(|garbage| garbage.handle).collect::<Vec<_>>(), [of(1, 12)]);
    // An empty one has nothing of anybody's.
    let at = ReplicaAt { server: server(9), ..ReplicaAt::default() };
    world.request(5, Join { at, cell: CellId::default(), ..join });
    world.commit();
    assert_eq!(world.state.known_servers().since(server(9)), Some(Term::default()));
}

#[test]
fn a_lost_chunk_that_its_server_has_no_more_is_counted_no_more() {
    let mut world = World::new(1);
    let handle = of(1, 77);
    world.numbers.gave_out(written(handle).version);
    assert_eq!(world.garbage(1, vec![written(handle)]), [], "the log has never known it");
    assert_eq!(world.chunks.fleet.unknown_count(), 1);
    let (server, incarnation) = (server(1), Incarnation::new(10));
    world.request(5, Heartbeat { server, incarnation, lost: vec![handle], ..Heartbeat::default() });
    assert_eq!(world.chunks.fleet.unknown_count(), 0, "nobody has it");
}

#[test]
fn a_copy_of_the_masters_directory_of_this_very_term_is_known_by_what_servers_were_told() {
    let mut world = World::new(2);
    let copy = world.state.clone();
    let served = |world: &mut World| {
        let log = world.beat(1, vec![], vec![]).log;
        ServedReign { term: Term::new(1), log, ..ServedReign::default() }
    };
    let before = served(&mut world);
    assert_eq!(before.log, world.state.applied());
    // The copy is made; then the file is deleted, say, and brought back.
    world.apply(LetGo { handle: of(1, 9_999), ..LetGo::default() });
    let after = served(&mut world);
    assert!(after.log > before.log);
    let mut restored = World::of_term(copy, 2);
    restored.begin(2);
    let cell = restored.state.cell();
    let at = ReplicaAt { server: server(1), ..ReplicaAt::default() };
    let join = |served| Join { at: at.clone(), cell, served, ..Join::default() };
    restored.request(5, join(after));
    let refused = restored.reply(5).expect("answered").expect_err("it knows more than the log");
    assert_eq!(refused.code, ErrorCode::NotPrimaryMaster);
    assert!(refused.message.contains("--recover-past 2"), "{}", refused.message);
    restored.request(6, join(before));
    assert!(restored.reply(6).expect("answered").is_ok(), "all that it was told of is here");
    // The newer one has all of it, and so has whoever goes on from it.
    let mut newer = world.restarted(2);
    newer.request(7, join(after));
    assert!(newer.reply(7).expect("answered").is_ok());
    // A person has said that what the copy lacks is lost.
    let begin = Begin { term: Term::new(3), new_history: true, ..Begin::default() };
    restored.apply(begin);
    restored.request(8, join(after));
    assert!(restored.reply(8).expect("answered").is_ok());
}
