//! The packed locations against a plain map of maps, over random sequences of operations.

use super::{KnownReplica, LocationTable};
use cairn_protocol::ReplicaReport;
use cairn_types::{ChunkHandle, ChunkVersion, Random, SerialNumber, ServerId, Time};
use proptest::prelude::proptest;
use std::collections::{BTreeMap, BTreeSet};
use std::ops::RangeInclusive;
use std::time::Duration;

#[derive(Debug, Default)]
struct Chunk {
    replicas: BTreeMap<ServerId, KnownReplica>,
    quiet: Time,
    /// Of all that was ever told of it.
    highest: ChunkVersion,
}

/// What [`LocationTable`] means, in as few words as possible.
#[derive(Debug, Default)]
struct Plain {
    chunks: BTreeMap<ChunkHandle, Chunk>,
    buried: BTreeSet<ServerId>,
}

impl Plain {
    fn report(&mut self, now: Time, server: ServerId, report: &ReplicaReport) {
        let chunk = self.chunks.entry(report.handle).or_default();
        chunk.highest = chunk.highest.max(report.version);
        let mut heard = KnownReplica::of(report, now);
        if let Some(known) = chunk.replicas.get(&server) {
            if heard.order() < known.order() {
                return;
            }
            heard.damaged = known.damaged;
            heard.closed |= known.closed;
        }
        chunk.replicas.insert(server, heard);
    }

    fn replica(&mut self, handle: ChunkHandle, server: ServerId) -> Option<&mut KnownReplica> {
        self.chunks.get_mut(&handle)?.replicas.get_mut(&server)
    }

    /// The replicas that count, or those of the dead.
    fn replicas(&self, handle: ChunkHandle, of_the_dead: bool) -> Vec<(ServerId, KnownReplica)> {
        let chunk = self.chunks.get(&handle).into_iter();
        let all = chunk.flat_map(|chunk| &chunk.replicas);
        let wanted = all.filter(|(server, _)| self.buried.contains(server) == of_the_dead);
        wanted.map(|(server, replica)| (*server, *replica)).collect()
    }

    fn remove_server(&mut self, server: ServerId) {
        self.buried.remove(&server);
        for chunk in self.chunks.values_mut() {
            chunk.replicas.remove(&server);
        }
    }

    fn counts(&self) -> BTreeMap<ServerId, u64> {
        let mut counts = BTreeMap::new();
        for server in self.chunks.values().flat_map(|chunk| chunk.replicas.keys()) {
            *counts.entry(*server).or_default() += 1;
        }
        counts
    }
}

/// A chunk as its users see it: its replicas, and whether each told since the last lease.
fn seen(
    replicas: impl Iterator<Item = (ServerId, KnownReplica)>,
    quiet: Time,
) -> Vec<(ServerId, KnownReplica, bool)> {
    let plain = |replica: KnownReplica| KnownReplica { reported: Time::default(), ..replica };
    replicas.map(|(at, replica)| (at, plain(replica), replica.reported >= quiet)).collect()
}

/// Mostly what all replicas of a chunk are told to be; sometimes something else.
fn report(handle: ChunkHandle, random: &mut Random) -> ReplicaReport {
    let odd = |random: &mut Random, usual: u64| {
        if random.chance(100) { usual + random.below(3) } else { usual }
    };
    let serial = odd(random, handle.get() % 5);
    let version = odd(random, handle.get() * 3);
    let length = odd(random, 1 << (handle.get() % 27));
    ReplicaReport {
        handle,
        version: ChunkVersion::new(version),
        mutated_version: ChunkVersion::new(version - odd(random, 0).min(version)),
        serial: SerialNumber::new(serial),
        length,
        closed: random.chance(20) != handle.get().is_multiple_of(2),
        suspect: random.chance(30),
        acknowledged: length - odd(random, 0).min(length),
        acknowledged_serial: SerialNumber::new(serial - odd(random, 0).min(serial)),
    }
}

/// The chunk table lacks some of the chunks that servers tell of.
fn is_in_table(handle: &ChunkHandle) -> bool {
    handle.get() % 11 != 3
}

fn table(handles: RangeInclusive<ChunkHandle>) -> impl Iterator<Item = ChunkHandle> {
    let all = handles.start().get()..=handles.end().get();
    all.map(ChunkHandle::new).filter(is_in_table)
}

/// In order of handle; those of one chunk as they were told.
fn sorted(mut reports: Vec<&ReplicaReport>) -> Vec<&ReplicaReport> {
    reports.sort_by_key(|report| report.handle);
    reports
}

fn check(seed: u64) {
    let random = &mut Random::new(seed);
    let (mut packed, mut plain) = (LocationTable::default(), Plain::default());
    let servers = 1 + random.below(6);
    // Of one page, of many, or each of its own.
    let stride = *random.pick(&[1, 30, 1000]).unwrap();
    let quiet_days = random.chance(500);
    for step in 0..600u64 {
        let now = Time::default() + Duration::from_millis(step);
        let server = ServerId::new(random.next_u64() % servers * 1001 % 17);
        let handle = ChunkHandle::new(1 + stride * random.below(40));
        match random.below(if quiet_days { 400 } else { 40 }) {
            0 => {
                packed.remove_server(server);
                plain.remove_server(server);
            }
            5 => {
                packed.bury_server(server);
                plain.buried.insert(server);
            }
            1 => {
                let damaged = random.chance(700);
                packed.mark_damage(handle, server, damaged);
                if let Some(replica) = plain.replica(handle, server) {
                    replica.damaged = damaged;
                }
            }
            2 => {
                packed.quiet_since(handle, now);
                plain.chunks.entry(handle).or_default().quiet = now;
            }
            3 => {
                packed.remove(handle, server);
                if let Some(chunk) = plain.chunks.get_mut(&handle) {
                    chunk.replicas.remove(&server);
                }
            }
            4 => {
                let some = |random: &mut Random| usize::try_from(random.below(4)).unwrap();
                packed.sweep(some(random), some(random));
            }
            _ => tell(random, (now, stride), (server, handle), (&mut packed, &mut plain)),
        }
        compare(&packed, &plain, handle);
    }
    let all: Vec<ChunkHandle> = plain.chunks.keys().copied().collect();
    all.iter().for_each(|handle| compare(&packed, &plain, *handle));
    for _ in 0..2 {
        packed.sweep(usize::MAX, usize::MAX);
    }
    assert!(!packed.numbers.any_dead(), "a whole sweep leaves nothing of lives that are over");
    for server in plain.buried.clone() {
        packed.remove_server(server);
        plain.remove_server(server);
    }
    assert_eq!(packed.counts(), plain.counts());
}

/// A server tells of some chunks from `handle` on.
fn tell(
    random: &mut Random,
    (now, stride): (Time, u64),
    (server, handle): (ServerId, ChunkHandle),
    (packed, plain): (&mut LocationTable, &mut Plain),
) {
    // Mostly in handle order, as servers tell; sometimes one twice, or one before.
    let mut handles = vec![handle];
    while random.chance(600) {
        let last = handles.last().expect("at least one").get();
        let next = last + stride * random.below(3) + random.below(2);
        handles.push(ChunkHandle::new(if random.chance(30) { handle.get() } else { next }));
    }
    let told: Vec<_> = handles.into_iter().map(|at| report(at, random)).collect();
    let (known, unknown): (Vec<&ReplicaReport>, Vec<_>) =
        told.iter().partition(|report| is_in_table(&report.handle));
    if plain.buried.contains(&server) {
        // It has joined again.
        packed.remove_server(server);
        plain.remove_server(server);
    }
    let unlisted = packed.report_all(now, server, &told, table);
    assert_eq!(sorted(unlisted), sorted(unknown));
    known.iter().for_each(|report| plain.report(now, server, report));
    told.iter().for_each(|report| compare(packed, plain, report.handle));
}

fn compare(packed: &LocationTable, plain: &Plain, handle: ChunkHandle) {
    let none = Chunk::default();
    let chunk = plain.chunks.get(&handle).unwrap_or(&none);
    let live = plain.replicas(handle, false);
    let wanted = seen(live.into_iter(), chunk.quiet);
    assert_eq!(seen(packed.of(handle), packed.quiet(handle)), wanted);
    // L6
    let lost: Vec<(ServerId, KnownReplica)> = packed.lost(handle).collect();
    let dead = plain.replicas(handle, true);
    assert!(lost.iter().all(|(at, lost)| dead.iter().any(|(d, r)| d == at && r.is_like(lost))));
    let stayed = dead.iter().filter(|(_, replica)| chunk.highest <= replica.version);
    assert!(stayed.into_iter().all(|(at, _)| lost.iter().any(|(lost, _)| lost == at)));
    for (server, replica, _) in &wanted {
        let found = packed.get(handle, *server).expect("it is there");
        assert!(found.is_like(replica));
    }
    // L4
    let settled = packed.settled.get(handle).is_some();
    assert!(!(settled && packed.unsettled.contains_key(&handle)));
    let first = wanted.first().map(|(_, replica, _)| *replica);
    let alike = first.is_some_and(|first| {
        wanted.iter().all(|(_, r, told)| r.is_sound() && r.is_like(&first) && *told)
    });
    // What one that died held may be all that keeps a chunk unsettled, until it is looked at.
    let touched = packed.unsettled.get(&handle).is_none_or(|chunk| {
        chunk.replicas.iter().all(|(number, _)| packed.numbers.server(*number).is_some())
    });
    assert!(settled || !alike || !touched, "it can be settled, and is not");
}

proptest! {
    #[test]
    fn the_packed_locations_say_what_a_plain_map_says(seed: u64) {
        check(seed);
    }
}

#[test]
fn a_chunk_that_more_servers_hold_than_an_entry_has_room_for_is_kept_all_the_same() {
    let (mut packed, mut plain) = (LocationTable::default(), Plain::default());
    let handle = ChunkHandle::new(9);
    let report = ReplicaReport { handle, length: 7, ..ReplicaReport::default() };
    for id in (0..200).rev() {
        let (now, server) = (Time::default(), ServerId::new(id));
        let alone = std::slice::from_ref(&report);
        assert_eq!(packed.report_all(now, server, alone, table), Vec::<&ReplicaReport>::new());
        plain.report(now, server, &report);
    }
    let all = plain.chunks[&handle].replicas.iter().map(|(server, replica)| (*server, *replica));
    assert_eq!(packed.of(handle).collect::<Vec<_>>(), all.collect::<Vec<_>>());
}
