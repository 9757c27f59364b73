//! The checkers are checked: each rule of protocol.md, broken on purpose, must be seen.
//!
//! For each rule its drills, and the faults under which its loss shows soonest: drills first, each
//! of which has to show it unless it says otherwise, and where none does, seeds until a checker
//! complains. What no checker has seen within them is told as such, and which drill shows nothing.
//! Where a drill sees a loss before a checker of whole runs can, an [`Exposure`] asks that checker
//! alone.

use crate::drills::{Drill, drills, run_drill};
use crate::fault_mix::{FaultKind, FaultMix};
use crate::report::{CheckFailure, RunConfig};
use crate::run::run;
use cairn_types::planted::Rule;

/// Seeds tried for a rule before it counts as unseen.
const SEEDS_MAX: u64 = 40;
/// Seeds tried for a checker that has to see a rule's loss by itself.
const EXPOSURE_SEEDS_MAX: u64 = 10;

/// What came of breaking one rule.
#[derive(Clone, Debug)]
pub struct PlantedReport {
    /// The rule.
    pub rule: Rule,
    /// Drills and seeds tried.
    pub tries: u64,
    /// What showed it first and the checker's complaint; none: not seen.
    pub caught: Option<(String, CheckFailure)>,
    /// Drills of the rule that do not show it.
    pub blind: Vec<&'static str>,
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
        Rule::R35 | Rule::R36 => FaultMix::calm(),
        _ => network.with(Kind::Kill, 2),
    }
}

/// The run of a seed under those faults.
fn run_for(rule: Rule, seed: u64) -> RunConfig {
    match rule {
        Rule::R21 | Rule::A26 => cut_masters(seed),
        // Of masters that end: every other run has a group of them.
        Rule::R1 | Rule::R2 | Rule::R22 | Rule::R23 | Rule::R24 if seed % 2 == 1 => {
            group_that_ends(rule, seed)
        }
        Rule::PE1 | Rule::PE2 => shared_by_people(seed),
        Rule::L6 => unreadable_logs(seed),
        Rule::R38
        | Rule::R39
        | Rule::R40
        | Rule::R41
        | Rule::R42
        | Rule::R43
        | Rule::R44
        | Rule::R45
        | Rule::R46
        | Rule::R47 => {
            let faults = faults_for(rule);
            RunConfig { seconds: 30, faults, streams: true, ..RunConfig::of(seed) }
        }
        _ => RunConfig { seconds: 30, faults: faults_for(rule), ..RunConfig::of(seed) },
    }
}

/// Three masters, of whom some are cut off or stand still.
fn cut_masters(seed: u64) -> RunConfig {
    use FaultKind as Kind;
    let faults = FaultMix::every(700, &[(Kind::Partition, 1), (Kind::LongPause, 1)]);
    RunConfig {
        faults,
        masters: 3,
        seconds: 15,
        levels: false,
        snapshots: false,
        ..RunConfig::of(seed)
    }
}

/// Three masters, of whom one ends now and then.
fn group_that_ends(rule: Rule, seed: u64) -> RunConfig {
    RunConfig { masters: 3, seconds: 30, faults: faults_for(rule), ..RunConfig::of(seed) }
}

/// Three masters, who do what they are asked, and whose answers are lost again and again.
fn group_of_lost_answers(seed: u64) -> RunConfig {
    use FaultKind as Kind;
    let faults = FaultMix::every(100, &[(Kind::BreakConnection, 20), (Kind::KillMaster, 1)]);
    RunConfig { masters: 3, seconds: 30, faults, ..RunConfig::of(seed) }
}

/// People of different names, and masters that end.
fn shared_by_people(seed: u64) -> RunConfig {
    let faults = FaultMix::every(2000, &[(FaultKind::KillMaster, 1)]);
    let (levels, snapshots) = (false, false);
    RunConfig { faults, people: true, seconds: 60, levels, snapshots, ..RunConfig::of(seed) }
}

/// Some seconds of faults, and then the cell has to heal.
fn healing(seed: u64, servers: usize) -> RunConfig {
    use FaultKind as Kind;
    let faults = FaultMix::every(700, &[(Kind::LongPause, 1), (Kind::Kill, 1)]);
    RunConfig { faults, servers, heals: true, seconds: 8, ..RunConfig::of(seed) }
}

/// The same, where machines lose power: suspects are all that there is of chunks, and a person is
/// there who decides what only a person may.
fn doubting(seed: u64) -> RunConfig {
    use FaultKind as Kind;
    let faults = FaultMix::every(700, &[(Kind::PowerLossAll, 1), (Kind::Kill, 1)]);
    RunConfig { faults, ..healing(seed, 5) }
}

/// One master, which ends now and then, and is started from an old copy of its directory.
fn set_back(seed: u64) -> RunConfig {
    use FaultKind as Kind;
    let faults = FaultMix::every(500, &[(Kind::KillMaster, 1), (Kind::MasterSetBack, 3)]);
    RunConfig { faults, seconds: 30, ..RunConfig::of(seed) }
}

/// One master, whose log cannot be read for a while when it starts.
fn unreadable_logs(seed: u64) -> RunConfig {
    let faults = FaultMix::every(500, &[(FaultKind::UnreadableLog, 1)]);
    RunConfig { faults, seconds: 30, ..RunConfig::of(seed) }
}

/// Nothing breaks.
fn calm(seed: u64) -> RunConfig {
    let (faults, levels) = (FaultMix::calm(), false);
    RunConfig { faults, people: true, levels, ..RunConfig::of(seed) }
}

/// A rule whose loss this checker, and no other, has to see in one of a few runs.
#[derive(Clone, Copy)]
pub struct Exposure {
    /// The rule.
    pub rule: Rule,
    /// The checker's name.
    pub checker: &'static str,
    run: fn(u64) -> RunConfig,
}

/// What whole runs have to bring to light by themselves: a master that goes on from an old copy of
/// its directory as if nothing had come after it; what a group of masters answers before it
/// is kept, or does twice as charge passes on; a shadow that lies about how far behind it is; what
/// lacks replicas and gets none, garbage that stays, a job that stands still, and a master that
/// tells otherwise than it is; permissions that are not heeded; and a log whose end cannot be read
/// taken for a shorter one; and copies of a directory whose names go on meanwhile.
#[must_use]
pub fn exposures() -> [Exposure; 11] {
    let (heals, permissions) = ("it_heals", "permissions_hold");
    [
        Exposure { rule: Rule::R1, checker: "set_back_master", run: set_back },
        Exposure {
            rule: Rule::R23,
            checker: "replay_is_state",
            run: |seed| group_that_ends(Rule::R23, seed),
        },
        Exposure { rule: Rule::R24, checker: "linearizable_names", run: group_of_lost_answers },
        Exposure { rule: Rule::A26, checker: "shadow_is_prefix", run: cut_masters },
        Exposure { rule: Rule::H1, checker: heals, run: doubting },
        Exposure { rule: Rule::H3, checker: heals, run: |seed| healing(seed, 4) },
        Exposure { rule: Rule::H4, checker: heals, run: |seed| healing(seed, 5) },
        Exposure { rule: Rule::H5, checker: heals, run: |seed| healing(seed, 5) },
        Exposure { rule: Rule::PE2, checker: permissions, run: shared_by_people },
        Exposure { rule: Rule::L6, checker: "replay_is_state", run: unreadable_logs },
        Exposure { rule: Rule::R35, checker: "snapped names", run: calm },
    ]
}

/// Breaks an exposure's rule, and looks whether its checker sees it.
#[must_use]
pub fn exposed(exposure: &Exposure) -> PlantedReport {
    let rule = exposure.rule;
    let seen = (1..=EXPOSURE_SEEDS_MAX).find_map(|seed| {
        let config = RunConfig { only: Some(exposure.checker), ..(exposure.run)(seed) };
        let failure = shown_by(rule, config)?;
        (failure.checker == exposure.checker).then(|| (format!("seed {seed}"), failure))
    });
    PlantedReport { rule, tries: EXPOSURE_SEEDS_MAX, caught: seen, blind: Vec::new() }
}

/// Breaks a rule, and looks whether each of its drills shows that, or for a run in which a checker
/// sees it.
#[must_use]
pub fn planted(rule: Rule) -> PlantedReport {
    let mut report = PlantedReport { rule, tries: 0, caught: None, blind: Vec::new() };
    for drill in drills().iter().filter(|drill| drill.rule == Some(rule)) {
        report.tries += 1;
        match shown_by_drill(drill) {
            Some(failure) => drop(report.caught.get_or_insert((drill.name.to_owned(), failure))),
            None if drill.shows_plant => report.blind.push(drill.name),
            None => {}
        }
    }
    for seed in 0..SEEDS_MAX {
        if report.caught.is_some() {
            break;
        }
        report.tries += 1;
        report.caught = shown_by(rule, run_for(rule, seed)).map(|it| (format!("seed {seed}"), it));
    }
    report
}

// Whatever complains of the whole cell as well says nothing about the planted bug.

fn shown_by_drill(drill: &Drill) -> Option<CheckFailure> {
    let failure = run_drill(drill, drill.rule, false).failure?;
    run_drill(drill, None, false).failure.is_none().then_some(failure)
}

fn shown_by(rule: Rule, config: RunConfig) -> Option<CheckFailure> {
    let failure = run(&RunConfig { planted: Some(rule), ..config.clone() }).failure?;
    run(&RunConfig { only: None, ..config }).failure.is_none().then_some(failure)
}
