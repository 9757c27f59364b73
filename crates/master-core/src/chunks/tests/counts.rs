//! The counts of chunks that ail are kept as things change: they say what a walk over all chunks
//! says, cost none, and claim nothing while servers gather.

use super::{FILE, World, report, server};
use crate::record::{OpenChunk, Record, SetVersion};
use crate::rules::condition::condition;
use crate::rules::health::Health;
use crate::rules::lacking::lacking;
use crate::state::State;
use cairn_protocol::{ChunkCounts, Heartbeat, ReplicaReport, TrafficTotals, WaitReason};
use cairn_types::{ChunkHandle, ChunkIndex, ChunkVersion, Incarnation, Random, Term, WallTime};

/// More than a dozen ticks walk over.
const CHUNKS: u64 = 6000;
const SERVERS: u64 = 6;

fn handle(number: u64) -> ChunkHandle {
    ChunkHandle::of(Term::new(1), 10_000 + 2 * number)
}

/// A replica as it was made.
fn made(number: u64) -> ReplicaReport {
    let version = ChunkVersion::of(Term::new(1), 1);
    ReplicaReport { handle: handle(number), version, ..ReplicaReport::default() }
}

/// The chunks that a server holds at first: three hold each.
fn held_by(id: u64) -> impl Iterator<Item = u64> {
    (0..CHUNKS).filter(move |number| (number + id) % SERVERS < 3)
}

impl World {
    fn with_many_chunks() -> Self {
        let mut world = Self::new(0);
        for number in 0..CHUNKS {
            let ReplicaReport { handle, version, .. } = made(number);
            let index = ChunkIndex::new(number);
            let open = OpenChunk { file: FILE, index, handle, version, ..OpenChunk::default() };
            world.apply(OpenChunk { set_size: 3, ..open });
        }
        for id in 1..=SERVERS {
            world.join(id, held_by(id).map(made).collect(), vec![]);
        }
        world.pass(1000, &alive(&[]));
        world
    }

    pub(super) fn health(&self) -> Health {
        self.chunks.health(&self.chunks.view(self.moment(), &self.state))
    }

    /// Chunks below their goal, with one left, unavailable, damaged, suspect and with a stale
    /// replica, as a walk over all of them finds them.
    fn walked(&self) -> [u64; 6] {
        let view = self.chunks.view(self.moment(), &self.state);
        let mut counts = [0; 6];
        for (handle, chunk) in self.state.chunks_after(ChunkHandle::default()) {
            let urgency = lacking(&view, handle, &chunk);
            let ails = condition(&view, handle, &chunk).unwrap_or_default();
            let holds = [
                urgency.is_some(),
                urgency.is_some_and(|urgency| urgency.good == 1),
                ails.unavailable,
                ails.damaged,
                ails.suspect,
                ails.stale,
            ];
            std::iter::zip(&mut counts, holds).for_each(|(count, it)| *count += u64::from(it));
        }
        counts
    }

    fn kept(&self) -> [u64; 6] {
        let health = self.health();
        assert!(!health.counts.gathering);
        let ChunkCounts { below_goal, one_left, copied, ref waiting, .. } = health.counts;
        let waiting: u64 = waiting.iter().map(|it| it.count).sum();
        assert_eq!(copied + waiting, below_goal, "each is copied, or waits for one thing");
        let ChunkCounts { unavailable, damaged, suspect, stale, .. } = health.counts;
        [below_goal, one_left, unavailable, damaged, suspect, stale]
    }

    /// A server tells of replicas that are bad or gone.
    fn tell(&mut self, id: u64, damaged: Vec<ChunkHandle>, lost: Vec<ChunkHandle>) {
        let (server, incarnation) = (server(id), Incarnation::new(self.incarnation(id)));
        let beat = Heartbeat { server, incarnation, damaged, lost, ..Heartbeat::default() };
        self.request(901, beat);
        assert!(self.reply(901).is_some_and(|reply| reply.is_ok()));
    }

    fn incarnation(&self, id: u64) -> u64 {
        let known = self.chunks.fleet.servers().get(server(id)).expect("it has joined");
        known.incarnation.get()
    }

    /// The set of a chunk goes on without one server.
    fn leave_out(&mut self, number: u64, id: u64) {
        let Some(chunk) = self.state.chunk(handle(number)) else { panic!("it is there") };
        let version = ChunkVersion::of(Term::new(1), chunk.version.get() % 1_000_000 + 7);
        let time = WallTime::default();
        let view = self.chunks.view(self.moment(), &self.state);
        let others = view.fleet.locations().of(handle(number)).map(|(at, _)| at.get());
        let others: Vec<u64> = others.filter(|other| *other != id).collect();
        let set_size = u32::try_from(others.len()).expect("few");
        if set_size < 2 {
            return;
        }
        for other in others {
            let held = vec![ReplicaReport { version, ..made(number) }];
            self.beat_as(other, self.incarnation(other), held, vec![]);
        }
        let record = Record::SetVersion(SetVersion {
            time,
            handle: handle(number),
            version,
            set_size,
            ..SetVersion::default()
        });
        self.apply(record.clone());
        self.with(|chunks, step| chunks.note_logged(step, &record));
    }
}

fn alive(dead: &[u64]) -> Vec<u64> {
    (1..=SERVERS).filter(|id| !dead.contains(id)).collect()
}

impl World {
    /// Ticks come until nothing more that ails is looked for, and two more.
    fn settle(&mut self, dead: &[u64]) {
        for _ in 0..14 {
            for id in alive(dead) {
                self.beat_as(id, self.incarnation(id), vec![], vec![]);
            }
            self.millis += 250;
            self.wake_up();
            let walks = self.chunks.fleet.looks_for_thinned();
            if !walks && self.kept() == self.walked() {
                return;
            }
        }
    }
}

#[test]
fn the_counts_are_what_a_walk_over_all_chunks_finds_whatever_happens() {
    for seed in 0..3 {
        let mut random = Random::new(seed);
        let (mut world, mut dead) = (World::with_many_chunks(), Vec::new());
        assert_eq!(world.kept(), [0; 6]);
        for step in 0..14 {
            let id = *random.pick(&alive(&dead)).expect("some live");
            let number = random.below(CHUNKS);
            match random.below(6) {
                0 => world.tell(id, vec![handle(number)], vec![]),
                1 => world.tell(id, vec![], vec![handle(number), handle(number / 2)]),
                2 | 3 => world.leave_out(number, id),
                4 if dead.len() < 3 => {
                    dead.push(id);
                    for _ in 0..18 {
                        world.millis += 250;
                        for id in alive(&dead) {
                            world.beat_as(id, world.incarnation(id), vec![], vec![]);
                        }
                        world.wake_up();
                    }
                }
                _ => {
                    // One comes back, with a part of what it had, some of which may lack bytes.
                    let back = dead.pop().unwrap_or(id);
                    let kept: Vec<u64> = held_by(back).filter(|_| random.below(10) > 0).collect();
                    let suspect = random.below(2) == 0;
                    let told = kept.into_iter().map(|number| ReplicaReport {
                        suspect: suspect && number % 5 == 0,
                        ..made(number)
                    });
                    world.join_as(back, 1000 + step, told.collect(), vec![]);
                }
            }
            world.settle(&dead);
            assert_eq!(world.kept(), world.walked(), "seed {seed}, step {step}");
        }
    }
}

#[test]
fn no_chunk_is_looked_at_to_tell_how_the_cell_is() {
    let mut world = World::with_many_chunks();
    world.tell(1, held_by(1).take(20).map(handle).collect(), vec![]);
    world.settle(&[]);
    let health = world.health();
    assert_eq!((health.counts.damaged, health.counts.below_goal), (20, 20));
    // With a state that has no chunk at all the answer is the same.
    let nothing = State::default();
    let blind = world.chunks.health(&world.chunks.view(world.moment(), &nothing));
    assert_eq!(blind, health);
}

#[test]
fn while_servers_gather_nothing_is_said_of_chunks() {
    let mut world = World::new(4);
    let grant = world.first_chunk();
    let mut world = world.restarted(2);
    world.join(1, vec![], vec![]);
    world.pass(500, &[1]);
    let health = world.health();
    let nothing = ChunkCounts { gathering: true, counting: true, ..ChunkCounts::default() };
    assert_eq!(health.counts, nothing, "nothing is known");
    let starting = "STARTING: the master has started: 1 of 4 chunkservers have told what they hold";
    assert_eq!(health.reasons[0], starting);
    for id in 2..=4 {
        world.join(id, vec![report(&grant)], vec![]);
    }
    world.pass(750, &[1, 2, 3, 4]);
    let health = world.health();
    assert_eq!((health.counts, health.reasons), (ChunkCounts::default(), vec![]));
}

#[test]
fn what_lacks_a_replica_says_what_it_waits_for() {
    let mut world = World::new(3);
    let grant = world.first_chunk();
    world.pass(3000, &[1, 2, 3]);
    for id in 1..=3 {
        world.beat(id, vec![report(&grant)], vec![]);
    }
    let waits = |world: &World| {
        let waiting = world.health().counts.waiting;
        waiting.into_iter().map(|it| (it.why, it.count)).collect::<Vec<_>>()
    };
    world.pass(4500, &[1, 2]);
    assert_eq!(waits(&world), [(WaitReason::NoServer, 1)], "each live server has one");
    world.pass(4500, &[]);
    assert_eq!(waits(&world), [(WaitReason::NoSource, 1)]);
    let health = world.health();
    assert_eq!((health.counts.unavailable, health.counts.one_left), (1, 0));
    assert!(health.reasons.contains(&"NO_SERVERS: 1 cell without a live chunkserver".to_owned()));
}

#[test]
fn a_chunk_whose_every_replica_is_damaged_is_told_as_one_that_cannot_be_read() {
    let mut world = World::new(3);
    let grant = world.first_chunk();
    world.pass(3000, &[1, 2, 3]);
    for id in 1..=3 {
        world.beat(id, vec![report(&grant)], vec![]);
    }
    for id in 1..=3 {
        assert_eq!(world.health().counts.unavailable, 0, "{} are damaged", id - 1);
        world.tell(id, vec![grant.handle], vec![]);
        world.pass(250, &[1, 2, 3]);
    }
    assert_eq!(world.health().counts.unavailable, 1);
}

#[test]
fn servers_tell_what_they_move_and_how_far_their_scrub_is() {
    let mut world = World::new(1);
    for beat in 0..20 {
        world.millis += 1000;
        let totals = TrafficTotals { read: beat * 5000, cloned: beat, ..TrafficTotals::default() };
        let (server, incarnation) = (server(1), Incarnation::new(10));
        let traffic = Box::new(totals);
        let mut beat = Heartbeat { server, incarnation, traffic, ..Heartbeat::default() };
        (beat.scrub.verified, beat.scrub.total) = (30, 100);
        world.request(901, beat);
    }
    let view = world.chunks.view(world.moment(), &world.state);
    let status = world.chunks.servers(&view).servers.remove(0);
    assert_eq!((status.traffic.read, status.traffic.cloned), (5000, 1));
    assert_eq!((status.scrub.verified, status.scrub.total), (30, 100));
    assert_eq!(view.fleet.servers().traffic(view.now.time).read, 5000);
    world.pass(3500, &[]);
    let view = world.chunks.view(world.moment(), &world.state);
    assert_eq!(view.fleet.servers().traffic(view.now.time).read, 0, "nothing is known of it");
}
