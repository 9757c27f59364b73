//! `cargo xtask sim --planted`: the checkers are checked.
//!
//! Each rule of the protocol is broken on purpose, in runs of the simulator whose faults bring its
//! loss to light; a checker must notice, in a run that passes with the rule unbroken. A rule's loss
//! that nobody notices is a failure, and so is a drill of the rule that does not show it. Then some
//! checkers are asked alone, each for what it is there for.

use crate::simulation::{describe, on_all_processors};
use anyhow::{Result, bail};
use cairn_sim::PlantedReport;
use cairn_types::planted::Rule;

/// Breaks each rule in turn, or those that are named.
///
/// # Errors
/// Names the rules whose loss goes unnoticed, and names that no rule has.
pub(crate) fn break_each(some: &[&str]) -> Result<()> {
    let is_wanted = |rule: &Rule| some.is_empty() || some.contains(&format!("{rule:?}").as_str());
    let rules: Vec<Rule> = Rule::ALL.iter().copied().filter(is_wanted).collect();
    if rules.len() < some.len() {
        bail!("no rule is named so: {}", some.join(" "));
    }
    let exposures: Vec<_> =
        cairn_sim::exposures().into_iter().filter(|exposure| is_wanted(&exposure.rule)).collect();
    let of_rules = on_all_processors(&rules, |rule| told("", &cairn_sim::planted(*rule)));
    let of_checkers = on_all_processors(&exposures, |exposure| {
        told(&format!(" before {}", exposure.checker), &cairn_sim::exposed(exposure))
    });
    let unnoticed: Vec<String> = of_rules.into_iter().chain(of_checkers).flatten().collect();
    if unnoticed.is_empty() {
        println!("{} rules, each one's loss noticed", rules.len());
        Ok(())
    } else {
        bail!("no checker, or not each drill, notices the loss of {}", unnoticed.join(", "))
    }
}

/// Prints what came of it; what was not noticed, or not by each drill.
fn told(before: &str, report: &PlantedReport) -> Option<String> {
    let rule = format!("{:?}{before}", report.rule);
    match &report.caught {
        Some((by, failure)) => println!("{rule} broken, {by}: {}", describe(failure)),
        None => println!("{rule} broken: NOT NOTICED in {} tries", report.tries),
    }
    for drill in &report.blind {
        println!("{rule} broken: NOT SHOWN by its drill \"{drill}\"");
    }
    (report.caught.is_none() || !report.blind.is_empty()).then_some(rule)
}
