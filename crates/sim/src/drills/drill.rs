//! One drill: its rule, its name, its script.

use super::script::DrillScript;
use crate::checkers::Verdict;
use crate::report::{CheckFailure, RunReport};
use cairn_env_sim::WorldTime;
use cairn_types::CellConfig;
use cairn_types::planted::Rule;
use std::panic::{AssertUnwindSafe, catch_unwind};

/// What a drill does, told step by step.
type DrillSteps = fn(&mut DrillScript) -> Verdict;

/// One drill.
#[derive(Clone, Copy, Debug)]
pub struct Drill {
    /// The rule whose loss it shows.
    pub rule: Option<Rule>,
    /// The finding of a review or a chaos test that it repeats (issue 15).
    pub finding: Option<&'static str>,
    /// Whether it complains of the bug that is planted for its rule.
    pub shows_plant: bool,
    /// The interleaving, in a line.
    pub name: &'static str,
    servers: usize,
    masters: usize,
    /// Masters on empty disks, beside them.
    spares: usize,
    config: fn() -> CellConfig,
    run: DrillSteps,
}

impl Drill {
    /// Shows the loss of a rule.
    pub(super) const fn of_rule(
        rule: Rule,
        name: &'static str,
        servers: usize,
        run: DrillSteps,
    ) -> Self {
        let (finding, masters) = (None, 1);
        let (rule, config) = (Some(rule), CellConfig::tiny as fn() -> CellConfig);
        Self { rule, finding, shows_plant: true, name, servers, masters, spares: 0, config, run }
    }

    /// Failed in a whole cell once, for a bug now mended.
    pub(super) const fn of_bug(name: &'static str, servers: usize, run: DrillSteps) -> Self {
        let (rule, finding, masters) = (None, None, 1);
        let config = CellConfig::tiny;
        Self { rule, finding, shows_plant: true, name, servers, masters, spares: 0, config, run }
    }

    /// Repeats a finding.
    pub(super) const fn of_finding(
        finding: &'static str,
        name: &'static str,
        servers: usize,
        run: DrillSteps,
    ) -> Self {
        let (rule, finding, masters) = (None, Some(finding), 1);
        let config = CellConfig::tiny;
        Self { rule, finding, shows_plant: true, name, servers, masters, spares: 0, config, run }
    }

    /// Shows the loss of a rule, too.
    pub(super) const fn that_shows(self, rule: Rule) -> Self {
        Self { rule: Some(rule), ..self }
    }

    /// It does not complain of the bug that is planted for its rule; why was not looked into.
    pub(super) const fn past_its_plant(self) -> Self {
        Self { shows_plant: false, ..self }
    }

    /// In a cell with three masters.
    pub(super) const fn with_a_group(self) -> Self {
        Self { masters: 3, ..self }
    }

    /// With masters on empty disks alone: the script makes a group of them (R25).
    pub(super) const fn with_waiting_masters(self) -> Self {
        Self { masters: 0, spares: 3, ..self }
    }

    /// In a cell with the times that real ones have.
    pub(super) const fn with_real_times(self) -> Self {
        Self { config: real_times, ..self }
    }
}

/// Small chunks, and all times by default.
fn real_times() -> CellConfig {
    let CellConfig { chunk_size, block_size, trash_ms, .. } = CellConfig::tiny();
    CellConfig { chunk_size, block_size, trash_ms, ..CellConfig::standard() }
}

/// Runs a drill, with a rule broken or none.
#[must_use]
pub fn run_drill(drill: &Drill, planted: Option<Rule>, trace: bool) -> RunReport {
    crate::run::plant(planted);
    let mut report = RunReport::default();
    let ran = catch_unwind(AssertUnwindSafe(|| {
        let machines = (drill.servers, drill.masters, drill.spares);
        let mut script = DrillScript::new(machines, (drill.config)(), trace);
        let verdict = (drill.run)(&mut script);
        script.finish(verdict, &mut report);
    }));
    crate::run::plant(None);
    if let Err(panic) = ran {
        let message = crate::run::panic_message(panic.as_ref());
        let at = WorldTime(0);
        report.failure.get_or_insert(CheckFailure { checker: "assertion", message, at });
    }
    report
}
