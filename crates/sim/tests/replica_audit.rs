//! The audit of replicas is checked: a replica that was never levelled is found by reading each.

#![cfg(feature = "planted-bugs")]

use cairn_sim::{FaultKind, FaultMix, RunConfig, run};
use cairn_types::planted::Rule;

/// Servers that lose power and come back without what they had not synced, and nothing else.
fn config(seed: u64, planted: Option<Rule>) -> RunConfig {
    let faults = FaultMix::every(900, &[(FaultKind::PowerLoss, 1)]);
    RunConfig { planted, faults, strict: true, seconds: 30, ..RunConfig::of(seed) }
}

#[test]
fn a_replica_that_was_not_levelled_is_found_by_reading_each() {
    let found = (1..=12).find_map(|seed| {
        let failure = run(&config(seed, Some(Rule::R16))).failure?;
        (failure.checker == "every_replica").then_some(seed)
    });
    let seed = found.expect("no replica was found to lack anything");
    assert_eq!(run(&config(seed, None)).failure, None, "seed {seed} with the rule unbroken");
}
