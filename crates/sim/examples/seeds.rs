//! Runs seeds from the command line: `seeds FROM COUNT`, or `seeds SEED` with every step told; with
//! `hard` at the end their hard runs, with `hard Outage` those with no other new kind of fault;
//! with `heals` those that have to heal in full; with `pinned` the seed as it is pinned. `masters`
//! at the end: with three masters, and what befalls groups.

use cairn_sim::{FaultKind, FaultMix, RunConfig, run};
use std::collections::BTreeMap;
use std::time::Instant;

fn config(seed: u64, words: &[String]) -> RunConfig {
    if words.iter().any(|word| word == "pinned") {
        return cairn_sim::scenarios::as_pinned(seed);
    }
    if words.iter().any(|word| word == "heals") {
        return RunConfig::healing(seed);
    }
    let Some(at) = words.iter().position(|word| word == "hard") else {
        return RunConfig::of(seed);
    };
    let Some(wanted) = words.get(at + 1).filter(|word| *word != "masters") else {
        return RunConfig::hard(seed);
    };
    let kinds = FaultKind::HARD.into_iter().chain(FaultKind::HEALS);
    let mut kinds = kinds.chain(FaultKind::MASTER_FILES);
    let kind = kinds.find(|kind| format!("{kind:?}") == *wanted);
    let kind = kind.unwrap_or_else(|| panic!("there is no fault {wanted}"));
    let config = RunConfig::of(seed);
    RunConfig { faults: FaultMix::hard_with(seed, kind), strict: true, heals: true, ..config }
}

fn main() {
    let words: Vec<String> = std::env::args().skip(1).collect();
    let numbers: Vec<u64> = words.iter().map_while(|word| word.parse().ok()).collect();
    let (from, count) = match numbers[..] {
        [seed] => (seed, 1),
        [from, count] => (from, count),
        _ => panic!("usage: seeds FROM COUNT, or seeds SEED"),
    };
    let mut failed = 0;
    let mut reached: BTreeMap<&str, u64> = BTreeMap::new();
    for seed in from..from + count {
        let started = Instant::now();
        let mut config = RunConfig { trace: numbers.len() == 1, ..config(seed, &words) };
        if words.last().is_some_and(|last| last == "masters") {
            config = config.with_group();
        }
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
