//! Of thousands of chunks that lack replicas those with the fewest are copied first (RP1), judged
//! by an oracle of its own: from who holds what, and which copies are under way.

use super::{FILE, World, server};
use crate::record::OpenChunk;
use cairn_env::EffectId;
use cairn_protocol::{ErrorCode, Failure, ReplicaReport, Request};
use cairn_types::{ChunkHandle, ChunkIndex, ChunkVersion, Random, Term};
use std::collections::BTreeSet;

const CHUNKS: u64 = 6000;
const SERVERS: u64 = 8;
/// Of them, those that die.
const DEAD: u64 = 2;
/// Clones that a server receives and gives at once.
const OF_SERVER: usize = 2;

fn handle(number: u64) -> ChunkHandle {
    ChunkHandle::of(Term::new(1), 10_000 + 2 * number)
}

/// Three of the servers, spread evenly.
fn holders(number: u64) -> [u64; 3] {
    let mut random = Random::new(number);
    let mut all: Vec<u64> = (1..=SERVERS).collect();
    [0; 3].map(|_| {
        let at = random.below(all.len() as u64);
        all.swap_remove(usize::try_from(at).expect("small"))
    })
}

fn live_holders(number: u64) -> impl Iterator<Item = u64> {
    holders(number).into_iter().filter(|id| *id > DEAD)
}

/// A clone under way.
struct UnderWay {
    call: EffectId,
    number: u64,
    from: u64,
    to: u64,
}

/// What was seen of the clones that were started.
#[derive(Default)]
struct Oracle {
    under_way: Vec<UnderWay>,
    /// Chunks that rest.
    failed: BTreeSet<u64>,
    /// Replicas that each had whose clone was started.
    started: Vec<usize>,
    /// Those started with two, while one with one could have been.
    wrong: usize,
}

impl Oracle {
    /// Whether a chunk with one replica could be started now.
    fn could_be_started(&self, number: u64) -> bool {
        let gives = |id: u64| self.under_way.iter().filter(|it| it.from == id).count() < OF_SERVER;
        let receives = |id: u64| self.under_way.iter().filter(|it| it.to == id).count() < OF_SERVER;
        live_holders(number).count() == 1
            && !self.under_way.iter().any(|it| it.number == number)
            && !self.failed.contains(&number)
            && live_holders(number).any(gives)
            && (DEAD + 1..=SERVERS).any(|id| !holders(number).contains(&id) && receives(id))
    }

    /// Judges what was ordered since.
    fn look(&mut self, world: &mut World) {
        let sent = std::mem::take(&mut world.sent);
        for it in &sent {
            // Given up: it rests, and its places are free.
            if let Request::DropClone(drop) = &it.request {
                let dropped = self.under_way.extract_if(.., |it| handle(it.number) == drop.handle);
                self.failed.extend(dropped.map(|it| it.number));
            }
        }
        for it in sent {
            let Request::CloneChunk(clone) = it.request else { continue };
            let is_it = |number: &u64| handle(*number) == clone.handle;
            let number = (0..CHUNKS).find(is_it).expect("one of them");
            let left = live_holders(number).count();
            self.started.push(left);
            if left == 2 {
                self.wrong += usize::from((0..CHUNKS).any(|one| self.could_be_started(one)));
            }
            let (from, to) = (clone.source.server.get(), clone.server.get());
            self.under_way.push(UnderWay { call: it.id, number, from, to });
        }
    }

    /// The oldest clone comes to nothing: another takes its place.
    fn fail_one(&mut self, world: &mut World) {
        if self.under_way.is_empty() {
            return;
        }
        let UnderWay { call, number, to, .. } = self.under_way.remove(0);
        self.failed.insert(number);
        let failure = Failure::not_done(ErrorCode::DiskFull, "no room");
        world.answer(call, Err(Failure { server: server(to), ..failure }));
        self.look(world);
    }
}

/// All those chunks on all those servers.
fn with_chunks() -> World {
    let version = ChunkVersion::of(Term::new(1), 1);
    let mut world = World::new(0);
    for number in 0..CHUNKS {
        let (index, handle) = (ChunkIndex::new(number), handle(number));
        let open = OpenChunk { file: FILE, index, handle, version, ..OpenChunk::default() };
        world.apply(OpenChunk { set_size: 3, ..open });
    }
    let made = |number| ReplicaReport { handle: handle(number), version, ..Default::default() };
    for id in 1..=SERVERS {
        let held = (0..CHUNKS).filter(|number| holders(*number).contains(&id)).map(made);
        world.join(id, held.collect(), vec![]);
    }
    world
}

#[test]
fn of_thousands_none_from_two_to_three_starts_while_one_from_one_to_two_could() {
    let mut world = with_chunks();
    let all: Vec<u64> = (1..=SERVERS).collect();
    world.pass(5000, &all);
    let alive: Vec<u64> = (DEAD + 1..=SERVERS).collect();
    let ones = (0..CHUNKS).filter(|number| live_holders(*number).count() == 1).count();
    assert!(ones > 550, "{ones}");
    world.pass(30_000, &alive);
    let mut oracle = Oracle::default();
    oracle.look(&mut world);
    for _ in 0..40 {
        // While as many are copied as may be, time passes.
        for _ in 0..2 {
            world.pass(250, &alive);
            oracle.look(&mut world);
        }
        oracle.fail_one(&mut world);
    }
    let (started, wrong) = (oracle.started.len(), oracle.wrong);
    let twos = oracle.started.iter().filter(|left| **left == 2).count();
    assert_eq!(wrong, 0, "RP1: of {started} started, {twos} from two to three");
    assert!(started > 50, "{started}");
}
