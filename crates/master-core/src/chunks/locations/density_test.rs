//! What a settled chunk costs in memory, and what its reports and look-ups cost in time:
//! `cargo test --release -p cairn-master-core density -- --ignored --nocapture`.
#![allow(
    clippy::disallowed_methods,
    clippy::print_stdout,
    reason = "it measures time and memory, and shows them to a person"
)]

use super::Locations;
use cairn_protocol::ReplicaReport;
use cairn_types::{ChunkHandle, ChunkVersion, Random, SerialNumber, ServerId, Term, Time};

const SERVERS: u64 = 16;
const SLICE: usize = 1024;

fn report(counter: u64) -> ReplicaReport {
    let version = ChunkVersion::of(Term::new(3), 2 * counter + counter % 7);
    // Three in four are full.
    let length = if counter.is_multiple_of(4) { counter * 7919 % (1 << 26) } else { 1 << 26 };
    let serial = SerialNumber::new(1 + counter % 300);
    ReplicaReport {
        handle: ChunkHandle::of(Term::new(3), counter),
        version,
        mutated_version: version,
        serial,
        length,
        closed: !counter.is_multiple_of(4),
        suspect: false,
        acknowledged: length,
        acknowledged_serial: serial,
    }
}

/// Whether a server holds one of a chunk's three replicas.
fn holds(server: u64, counter: u64) -> bool {
    let first = counter.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 32;
    (0..3).any(|replica| (first + replica * 5) % SERVERS == server)
}

/// Resident bytes of this process.
fn resident() -> u64 {
    let statm = std::fs::read_to_string("/proc/self/statm").unwrap();
    statm.split(' ').nth(1).unwrap().parse::<u64>().unwrap() * 4096
}

/// Nanoseconds of processor time that this thread has had: others share the machine.
fn processor_time() -> u64 {
    let stat = std::fs::read_to_string("/proc/thread-self/schedstat").unwrap();
    stat.split(' ').next().unwrap().parse().unwrap()
}

/// Servers tell in handle order, a slice each in turn.
fn tell(chunks: u64, mut take: impl FnMut(ServerId, &ReplicaReport)) {
    let mut reached = [0; SERVERS as usize];
    while reached.iter().any(|at| *at < chunks) {
        for (server, at) in (0..SERVERS).zip(&mut reached) {
            let held = (*at..chunks).filter(|counter| holds(server, *counter));
            for counter in held.take(SLICE) {
                take(ServerId::new(server * 77), &report(counter));
                *at = counter + 1;
            }
            if (*at..chunks).all(|counter| !holds(server, counter)) {
                *at = chunks;
            }
        }
    }
}

fn measure(chunks: u64) {
    let mut locations = Locations::default();
    let before = (resident(), processor_time());
    let mut told = 0;
    tell(chunks, |_, report| told += std::hint::black_box(report).handle.get().min(1));
    let told_to_nobody = processor_time();
    tell(chunks, |server, report| locations.report(Time::default(), server, report));
    let reporting = (processor_time() - told_to_nobody) - (told_to_nobody - before.1);
    let bytes = (resident() - before.0) as f64 / chunks as f64;
    assert!(locations.unsettled.is_empty());
    let random = &mut Random::new(1);
    let asked: Vec<u64> = (0..1_000_000).map(|_| random.below(chunks)).collect();
    let started = processor_time();
    for counter in &asked {
        let handle = ChunkHandle::of(Term::new(3), *counter);
        assert_eq!(locations.of(handle).count(), 3);
    }
    let look_up = (processor_time() - started) / asked.len() as u64;
    println!(
        "{chunks} chunks of three replicas: {bytes:.1} bytes a chunk, {} ns a report, {look_up} \
         ns a look-up",
        reporting / told,
    );
}

#[test]
#[ignore = "a measurement: minutes where nothing is optimised"]
fn density_and_speed_of_ten_million_settled_chunks() {
    for chunks in [100_000, 1_000_000, 10_000_000] {
        measure(chunks);
    }
}
