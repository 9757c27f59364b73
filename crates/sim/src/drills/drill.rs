//! One drill: its rule, its name, its script.

use super::script::DrillScript;
use crate::checkers::Verdict;
use crate::report::{CheckFailure, RunReport};
use cairn_env_sim::WorldTime;
use cairn_types::planted::Rule;
use std::panic::{AssertUnwindSafe, catch_unwind};

/// One drill.
#[derive(Clone, Copy, Debug)]
pub struct Drill {
    /// The rule whose loss it shows; none: it failed in a whole cell once, for a bug now mended.
    pub rule: Option<Rule>,
    /// The interleaving, in a line.
    pub name: &'static str,
    pub(super) servers: usize,
    pub(super) run: fn(&mut DrillScript) -> Verdict,
}

/// Runs a drill, with a rule broken or none.
#[must_use]
pub fn run_drill(drill: &Drill, planted: Option<Rule>, trace: bool) -> RunReport {
    crate::run::plant(planted);
    let mut report = RunReport::default();
    let ran = catch_unwind(AssertUnwindSafe(|| {
        let mut script = DrillScript::new(drill.servers, trace);
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
