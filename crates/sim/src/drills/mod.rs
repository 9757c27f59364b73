//! Drills: short plays in a small cell, told step by step, each of which brings about the one
//! interleaving that a rule of protocol.md closes.
//!
//! A drill passes in a whole cell; with its rule broken on purpose, a checker complains or the
//! drill itself sees bytes or answers that must not be. FaultInjector finds what nobody thought of;
//! a drill finds again what the rule's author thought of.

mod by_hand;
mod disks;
mod masters;
mod mutations;
mod names;
mod prober;
mod raises;
mod script;

use crate::report::{CheckFailure, RunReport};
use cairn_env_sim::WorldTime;
use cairn_types::planted::Rule;
use script::DrillScript;
use std::panic::{AssertUnwindSafe, catch_unwind};

/// What a drill says of itself: fine, or what is wrong.
type Verdict = Result<(), String>;

/// One drill.
#[derive(Clone, Copy, Debug)]
pub struct Drill {
    /// The rule whose loss it shows; none: it failed in a whole cell once, for a bug now mended.
    pub rule: Option<Rule>,
    /// The interleaving, in a line.
    pub name: &'static str,
    servers: usize,
    run: fn(&mut DrillScript) -> Verdict,
}

/// All of them.
#[must_use]
pub fn drills() -> Vec<Drill> {
    [names::DRILLS, masters::DRILLS, mutations::DRILLS, raises::DRILLS, disks::DRILLS].concat()
}

/// Plays a drill, with a rule broken or none.
#[must_use]
pub fn run_drill(drill: &Drill, planted: Option<Rule>, trace: bool) -> RunReport {
    crate::run::plant(planted);
    let mut report = RunReport::default();
    let played = catch_unwind(AssertUnwindSafe(|| {
        let mut script = DrillScript::new(drill.servers, trace);
        let verdict = (drill.run)(&mut script);
        script.finish(verdict, &mut report);
    }));
    crate::run::plant(None);
    if let Err(panic) = played {
        let message = crate::run::panic_message(panic.as_ref());
        let at = WorldTime(0);
        report.failure.get_or_insert(CheckFailure { checker: "assertion", message, at });
    }
    report
}
