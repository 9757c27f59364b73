//! Short runs of the whole simulator: one seed is one run, and what once failed fails no more.

use cairn_sim::{FaultMix, RunConfig, drills, run, run_drill, scenarios};

/// With three masters, of which one dies now and then, as chunkservers do.
#[test]
fn a_cell_with_three_masters_goes_on_while_they_die() {
    let mut reached = 0;
    for seed in [12, 22] {
        let report = run(&RunConfig { masters: 3, seconds: 15, ..RunConfig::of(seed) });
        assert_eq!(report.failure, None, "seed {seed}");
        assert!(report.operations > 100, "{} operations", report.operations);
        reached += report.reached.get("process killed").copied().unwrap_or_default();
    }
    assert!(reached > 3, "processes were killed");
}

fn short(seed: u64) -> RunConfig {
    RunConfig { seconds: 6, ..RunConfig::of(seed) }
}

#[test]
fn one_seed_leaves_one_trace_and_another_seed_another() {
    let (first, again, other) = (run(&short(5)), run(&short(5)), run(&short(6)));
    assert_eq!(first.trace_hash, again.trace_hash);
    assert_ne!(first.trace_hash, other.trace_hash);
    assert!(first.operations > 100, "{} operations", first.operations);
}

#[test]
fn a_calm_cell_keeps_everything() {
    let report = run(&RunConfig { faults: FaultMix::calm(), ..short(1) });
    assert_eq!(report.failure, None);
    assert!(report.reached.contains_key("lease granted"));
}

#[test]
fn what_once_failed_fails_no_more() {
    for scenario in scenarios::pinned() {
        let report = run(&RunConfig { seconds: 12, ..scenario.config });
        assert_eq!(report.failure, None, "{}", scenario.name);
    }
}

#[test]
fn every_drill_passes_in_a_whole_cell() {
    for drill in &drills() {
        assert_eq!(run_drill(drill, None, false).failure, None, "{}", drill.name);
    }
}
