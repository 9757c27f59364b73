//! The checker *it heals* is checked: garbage that stays, a job that stands still and a master that
//! tells otherwise than it is, each broken on purpose, are seen by it and by no other; and the same
//! run with nothing broken heals.

#![cfg(feature = "planted-bugs")]

use cairn_sim::{FaultKind, FaultMix, RunConfig, run};
use cairn_types::planted::Rule;

/// Some seconds of one or two kinds of faults, and then the cell has to heal.
fn config(seed: u64, servers: usize, kinds: &[(FaultKind, u64)]) -> RunConfig {
    let faults = FaultMix::every(700, kinds);
    RunConfig { faults, servers, heals: true, seconds: 8, ..RunConfig::of(seed) }
}

fn is_seen(rule: Rule, servers: usize, kinds: &[(FaultKind, u64)]) {
    let seen = (1..=6).map(|seed| config(seed, servers, kinds)).find(|config| {
        let failure = run(&RunConfig { planted: Some(rule), ..config.clone() }).failure;
        failure.is_some_and(|failure| failure.checker == "it_heals")
    });
    let config =
        seen.unwrap_or_else(|| panic!("{rule:?} is broken, and the cell counts as healed"));
    assert_eq!(run(&config).failure, None, "seed {} with nothing broken", config.seed);
}

#[test]
fn what_stays_on_a_disk_and_is_needed_by_nobody_is_seen() {
    is_seen(Rule::H3, 4, &[(FaultKind::LongPause, 1), (FaultKind::Kill, 1)]);
}

#[test]
fn a_job_that_stands_still_is_seen() {
    is_seen(Rule::H4, 5, &[(FaultKind::LongPause, 1), (FaultKind::Kill, 1)]);
}

#[test]
fn a_master_that_tells_otherwise_than_it_is_is_seen() {
    is_seen(Rule::H5, 5, &[(FaultKind::LongPause, 1), (FaultKind::Kill, 1)]);
}
