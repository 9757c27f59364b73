//! The checkers are checked: each rule of protocol.md, broken on purpose, must be seen.
//!
//! For each rule its drills, and the faults under which its loss shows soonest: drills first, then
//! seeds, until a checker complains. What no checker has seen within them is told as such.

use crate::drills::{Drill, drills, run_drill};
use crate::fault_mix::{FaultKind, FaultMix};
use crate::report::{CheckFailure, RunConfig};
use crate::run::run;
use cairn_types::planted::Rule;

/// Seeds tried for a rule before it counts as unseen.
const SEEDS_MAX: u64 = 40;

/// What came of breaking one rule.
#[derive(Clone, Debug)]
pub struct PlantedReport {
    /// The rule.
    pub rule: Rule,
    /// Drills and seeds tried.
    pub tries: u64,
    /// What showed it and the checker's complaint; none: not seen.
    pub caught: Option<(String, CheckFailure)>,
}

/// All rules that can be broken.
#[must_use]
pub fn rules() -> Vec<Rule> {
    vec![
        Rule::R1,
        Rule::R2,
        Rule::R3,
        Rule::R4,
        Rule::R5,
        Rule::R6,
        Rule::R7,
        Rule::R8,
        Rule::R9,
        Rule::R10,
        Rule::R11,
        Rule::R12,
        Rule::R13,
        Rule::R14,
        Rule::R15,
        Rule::R16,
        Rule::R17,
        Rule::R18,
        Rule::R19,
        Rule::R20,
        Rule::R22,
        Rule::R23,
        Rule::R24,
        Rule::R26,
        Rule::R27,
        Rule::R28,
        Rule::R29,
        Rule::R30,
        Rule::R31,
        Rule::R33,
        Rule::R35,
        Rule::R37,
        Rule::H1,
        Rule::H2,
        Rule::H3,
        Rule::H4,
        Rule::H5,
    ]
}

/// The faults under which the loss of a rule shows.
fn faults_for(rule: Rule) -> FaultMix {
    use FaultKind as Kind;
    let network = FaultMix::every(
        250,
        &[(Kind::Partition, 3), (Kind::BreakConnection, 4), (Kind::Pause, 3), (Kind::Slow, 1)],
    );
    let masters = [
        (Kind::KillMaster, 3),
        (Kind::PowerLossMaster, 2),
        (Kind::BreakConnection, 3),
        (Kind::Partition, 1),
        (Kind::Kill, 1),
    ];
    match rule {
        Rule::R1 | Rule::R2 | Rule::R22 | Rule::R23 | Rule::R24 => FaultMix::every(500, &masters),
        Rule::R26 => FaultMix::every(300, &[(Kind::KillInWrite, 1)]),
        Rule::R27 | Rule::R28 | Rule::R29 => {
            FaultMix::every(500, &[(Kind::PowerLoss, 3), (Kind::Kill, 1)])
        }
        Rule::R31 => {
            FaultMix::every(300, &[(Kind::Corrupt, 2), (Kind::FlipBit, 2), (Kind::Kill, 1)])
        }
        Rule::R7 | Rule::R8 | Rule::R9 | Rule::R10 | Rule::R11 => {
            network.with(Kind::Kill, 3).with(Kind::PowerLoss, 1)
        }
        Rule::R35 => FaultMix::calm(),
        _ => network.with(Kind::Kill, 2),
    }
}

/// Breaks a rule and looks for a checker that sees it.
#[must_use]
pub fn planted(rule: Rule) -> PlantedReport {
    let mut tries = 0;
    for drill in drills().iter().filter(|drill| drill.rule == Some(rule)) {
        tries += 1;
        if let Some(failure) = shown_by_drill(drill) {
            return PlantedReport { rule, tries, caught: Some((drill.name.to_owned(), failure)) };
        }
    }
    for seed in 0..SEEDS_MAX {
        tries += 1;
        if let Some(failure) = shown_by_seed(rule, seed) {
            return PlantedReport { rule, tries, caught: Some((format!("seed {seed}"), failure)) };
        }
    }
    PlantedReport { rule, tries, caught: None }
}

// Whatever complains of the whole cell as well says nothing about the planted bug.

fn shown_by_drill(drill: &Drill) -> Option<CheckFailure> {
    let failure = run_drill(drill, drill.rule, false).failure?;
    run_drill(drill, None, false).failure.is_none().then_some(failure)
}

fn shown_by_seed(rule: Rule, seed: u64) -> Option<CheckFailure> {
    let (planted, faults) = (Some(rule), faults_for(rule));
    let config = RunConfig { planted, seconds: 30, faults, ..RunConfig::of(seed) };
    let failure = run(&config).failure?;
    run(&RunConfig { planted: None, ..config }).failure.is_none().then_some(failure)
}
