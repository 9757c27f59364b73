//! The checker *a shadow is a prefix* is checked: one that says that it is up to date when it is
//! not is seen by it; and the same run with nothing broken is fine.

#![cfg(feature = "planted-bugs")]

use cairn_sim::{FaultKind, FaultMix, RunConfig, run};
use cairn_types::planted::Rule;

#[test]
fn a_shadow_that_says_nothing_of_how_far_behind_it_is_is_seen() {
    let config = |seed: u64| {
        let faults = FaultMix::every(700, &[(FaultKind::Partition, 1), (FaultKind::LongPause, 1)]);
        RunConfig { faults, masters: 3, seconds: 15, levels: false, ..RunConfig::of(seed) }
    };
    let seen = (1..=10).map(config).find(|config| {
        let failure = run(&RunConfig { planted: Some(Rule::A26), ..config.clone() }).failure;
        failure.is_some_and(|failure| failure.checker == "shadow_is_prefix")
    });
    let config = seen.expect("A26 is broken, and nobody has seen it");
    assert_eq!(run(&config).failure, None, "seed {} with nothing broken", config.seed);
}
