//! An append to a chunk that was written so far, while a server is late with its heartbeat: in a
//! file of bytes it waits for it, in one of records it goes on in the next chunk. So it does where
//! the chunk stands on one server alone.

use super::{FILE, World, lease, members, mutation};
use crate::record::{AddFile, OpenChunk};
use crate::state::ROOT;
use cairn_protocol::{LeasePurpose, ReplicaReport};
use cairn_types::{ChunkHandle, ChunkIndex, ChunkVersion, Content, EntryId, Term};

const RECORDS: EntryId = EntryId::new(78);

/// A chunk that was written, on three servers of which one is silent; the rest is alive.
fn written(world: &mut World, file: EntryId) -> (u64, Vec<u64>) {
    world.request(1, cairn_protocol::Lease { file, ..lease(LeasePurpose::Write, 0) });
    world.accept_raises(&[]);
    world.commit();
    let first = world.accept_grant();
    assert!(first.writes_only);
    let all = members(&world.granted(1));
    let (late, alive) = (all[0], all[1..].to_vec());
    world.pass(1250, &alive);
    (late, alive)
}

#[test]
fn in_a_file_of_bytes_it_waits_for_the_late_one() {
    let mut world = World::new(3);
    let (late, alive) = written(&mut world, FILE);
    world.request(2, lease(LeasePurpose::Append, 0));
    assert_eq!(world.raises(), vec![], "no next chunk: this one would end in zeros");
    world.pass(250, &[alive[0], alive[1], late]);
    assert_eq!(world.accept_raises(&[]).len(), 3);
    world.commit();
    world.accept_grant();
    assert_eq!(world.granted(2).index, ChunkIndex::new(0));
}

#[test]
fn in_a_file_of_bytes_it_does_not_wait_for_long() {
    let mut world = World::new(3);
    let (_, alive) = written(&mut world, FILE);
    world.request(2, lease(LeasePurpose::Append, 0));
    world.pass(750, &alive);
    assert!(!world.raises().is_empty(), "it goes on in the next chunk");
}

fn with_records() -> World {
    let mut world = World::new(3);
    let (name, content) = ("records".to_owned(), Content::Records);
    let (mutation, id) = (mutation(2), RECORDS);
    let file = AddFile { mutation, parent: ROOT, name, id, replication: 3, ..AddFile::default() };
    world.apply(AddFile { content, ..file });
    world
}

#[test]
fn in_a_file_of_records_what_stands_on_one_alone_is_not_appended_to() {
    for (set_size, creates) in [(1, true), (2, false)] {
        let mut world = with_records();
        let (handle, version) =
            (ChunkHandle::of(Term::new(1), 500), ChunkVersion::of(Term::new(1), 1));
        let open = OpenChunk { file: RECORDS, handle, version, set_size, ..OpenChunk::default() };
        world.apply(open);
        for id in 1..=u64::from(set_size) {
            let replica = ReplicaReport { handle, version, ..ReplicaReport::default() };
            world.join(id, vec![replica], vec![]);
        }
        world.pass(5000, &[1, 2, 3]);
        let append = cairn_protocol::Lease { file: RECORDS, ..lease(LeasePurpose::Append, 0) };
        world.request(2, append);
        let raises = world.raises();
        assert_eq!(raises.len(), if creates { 3 } else { 2 }, "{raises:?}");
        assert!(raises.iter().all(|(_, _, raise)| raise.create == creates), "{raises:?}");
    }
}

#[test]
fn in_a_file_of_records_it_goes_on_at_once() {
    let mut world = with_records();
    written(&mut world, RECORDS);
    let append = cairn_protocol::Lease { file: RECORDS, ..lease(LeasePurpose::Append, 0) };
    world.request(2, append);
    assert!(!world.raises().is_empty(), "nobody reads the zeros");
}
