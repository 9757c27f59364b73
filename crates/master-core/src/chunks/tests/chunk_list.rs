//! Chunks as the master knows them, for programs: replicas, what is wrong, what is waited for.

use super::{FILE, World, members, report};
use crate::record::OpenChunk;
use cairn_protocol::{
    LOCATE_COUNT_MAX, ListChunks, ListedChunk, Locate, ReplicaReport, ServerState, WaitReason,
};
use cairn_types::{CellPath, ChunkHandle, ChunkIndex, ChunkVersion, SerialNumber, Term};

impl World {
    pub(super) fn listed(&self, under: Option<&str>) -> Vec<ListedChunk> {
        let view = self.chunks.view(self.moment(), &self.state);
        let under = under.map(|path| CellPath::parse(path).expect("a path"));
        let (mut all, mut after) = (Vec::new(), ChunkHandle::default());
        loop {
            let wish = ListChunks { under: under.clone(), after, limit: 1 };
            let answer = self.chunks.list_chunks(&view, &wish).expect("it is there");
            all.extend(answer.chunks);
            match answer.resume {
                Some(resume) => after = resume,
                None => return all,
            }
        }
    }
}

#[test]
fn a_chunk_is_told_with_its_replicas_who_is_missed_and_what_it_waits_for() {
    let mut world = World::new(3);
    let grant = world.first_chunk();
    world.pass(3000, &[1, 2, 3]);
    for id in 1..=3 {
        world.beat(id, vec![report(&grant)], vec![]);
    }
    let all = world.listed(None);
    assert_eq!(all.len(), 1);
    let chunk = &all[0];
    assert_eq!((chunk.handle, chunk.path.as_str(), chunk.goal), (grant.handle, "/f", 3));
    assert_eq!((chunk.good, chunk.waits, chunk.leased), (3, None, false));
    assert_eq!(world.state.chunk(chunk.handle).map(|it| it.file), Some(FILE));
    assert!(chunk.replicas.iter().all(|it| !it.stale && it.state == ServerState::Live));
    let gone = members(&grant)[2];
    let rest: Vec<u64> = (1..=3).filter(|id| *id != gone).collect();
    world.pass(5000, &rest);
    let chunk = world.listed(Some("/f")).remove(0);
    assert_eq!((chunk.good, chunk.replicas.len(), chunk.missing.len()), (2, 2, 1));
    assert_eq!(chunk.missing[0].heard_age_ms, 5000);
    assert_eq!(chunk.waits.map(|wait| wait.why), Some(WaitReason::NoServer));
    world.join(4, vec![], vec![]);
    world.pass(500, &[rest[0], rest[1], 4]);
    let chunk = world.listed(Some("/")).remove(0);
    let clone = chunk.clone.expect("it is copied to the fourth");
    assert_eq!((clone.receiver.server.get(), chunk.waits), (4, None));
}

/// A primary comes back at once and tells what was acknowledged; the others told of themselves
/// before that was, and have it, too.
#[test]
fn who_has_told_nothing_since_a_lease_ended_is_not_called_stale_for_what_its_primary_knows() {
    let mut world = World::new(3);
    let grant = world.first_chunk();
    let primary = grant.primary.server.get();
    let others: Vec<u64> = members(&grant).into_iter().filter(|id| *id != primary).collect();
    world.pass(100, &[]);
    let first = report(&grant);
    let serial = SerialNumber::new(2);
    let after = ReplicaReport {
        serial,
        length: 100,
        acknowledged_serial: serial,
        acknowledged: 100,
        ..first.clone()
    };
    world.join_as(primary, primary * 10 + 1, vec![after.clone()], vec![]);
    let stale = |world: &World| -> Vec<u64> {
        let chunk = world.listed(None).remove(0);
        assert!(!chunk.leased, "the lease went with the primary's life");
        let stale = chunk.replicas.iter().filter(|it| it.stale);
        stale.map(|it| it.server.get()).collect()
    };
    assert_eq!(stale(&world), [], "nobody has told anything since");
    world.pass(10_000, &others);
    world.beat(others[0], vec![after], vec![]);
    assert_eq!(stale(&world), [], "nor has this one since the end of the lease was noted");
    assert_eq!(world.health().counts.stale, 0);
    world.beat(others[1], vec![first], vec![]);
    assert_eq!(stale(&world), [others[1]], "it says so itself");
}

/// [`FILE`] has chunks at these indexes.
fn with_chunks(indexes: impl Iterator<Item = u64>) -> World {
    let mut world = World::new(3);
    for (number, index) in (0..).zip(indexes) {
        // Chunks are made side by side: a later one may have the lower handle.
        let handle = ChunkHandle::of(Term::new(1), 900 - number);
        let (index, version) = (ChunkIndex::new(index), ChunkVersion::of(Term::new(1), 1));
        let open = OpenChunk { file: FILE, index, handle, version, ..OpenChunk::default() };
        world.apply(OpenChunk { set_size: 3, ..open });
    }
    world
}

#[test]
fn a_files_chunks_are_told_page_by_page_in_order_of_index_whatever_their_handles() {
    let world = with_chunks(0..7);
    let told: Vec<u64> = world.listed(Some("/f")).iter().map(|it| it.index.get()).collect();
    assert_eq!(told, [0, 1, 2, 3, 4, 5, 6]);
    assert_eq!(world.listed(None).len(), 7);
}

#[test]
fn who_asks_where_the_next_chunks_are_is_told_of_those_that_are_there_and_where_to_go_on() {
    let most = u64::from(LOCATE_COUNT_MAX);
    let far = 1 << 38;
    let all: Vec<u64> = (0..most + 44).chain([far, far + 9]).collect();
    let world = with_chunks(all.iter().copied());
    let view = world.chunks.view(world.moment(), &world.state);
    let ask = |first, count, over_holes| {
        let wish = Locate { file: FILE, first: ChunkIndex::new(first), count, over_holes };
        let answer = crate::reads::locate(&view, &wish).expect("a file");
        assert_eq!(answer.entry.chunk_count, far + 10);
        let told: Vec<u64> = answer.chunks.iter().map(|it| it.index.get()).collect();
        (told, answer.next.get())
    };
    let (mut told, next) = ask(0, u32::MAX, true);
    assert_eq!((told.len() as u64, next), (most, most));
    let (rest, end) = ask(next, u32::MAX, true);
    told.extend(rest);
    assert_eq!((told, end), (all, far + 10), "the hole cost no question");
    assert_eq!(ask(most + 43, 2, true), (vec![most + 43, far], far + 9));
    assert_eq!(ask(far + 10, 9, true), (vec![], far + 10));
    // Readers know which index they want.
    assert_eq!(ask(most + 43, 2, false), (vec![most + 43], 0));
}
