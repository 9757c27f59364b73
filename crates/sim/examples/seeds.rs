//! Runs seeds from the command line: `seeds FROM COUNT`, or `seeds SEED` with every step told.

use cairn_sim::{RunConfig, run};
use std::collections::BTreeMap;
use std::time::Instant;

fn main() {
    let numbers: Vec<u64> =
        std::env::args().skip(1).map(|text| text.parse().expect("a number")).collect();
    let (from, count) = match numbers[..] {
        [seed] => (seed, 1),
        [from, count] => (from, count),
        _ => panic!("usage: seeds FROM COUNT, or seeds SEED"),
    };
    let mut failed = 0;
    let mut reached: BTreeMap<&str, u64> = BTreeMap::new();
    for seed in from..from + count {
        let started = Instant::now();
        let config = RunConfig { trace: numbers.len() == 1, ..RunConfig::of(seed) };
        let report = run(&config);
        let verdict = match &report.failure {
            None => "ok".to_owned(),
            Some(failure) => {
                failed += 1;
                format!("{} at {:.3}s: {}", failure.checker, failure.at.seconds(), failure.message)
            }
        };
        println!(
            "seed {seed}: {verdict} ({} operations, trace {:016x}, {:.2}s)",
            report.operations,
            report.trace_hash,
            started.elapsed().as_secs_f64()
        );
        for (what, times) in report.reached {
            *reached.entry(what).or_insert(0) += times;
        }
    }
    for (what, times) in reached {
        println!("  {times:8} {what}");
    }
    println!("{failed} of {count} seeds failed");
}
