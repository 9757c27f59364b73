//! `cargo xtask sim --planted`: the checkers are checked.
//!
//! Each rule of the protocol is broken on purpose, in runs of the simulator whose faults bring its
//! loss to light; a checker must notice, in a run that passes with the rule unbroken. A rule's loss
//! that nobody notices is a failure. The verification holds to what is noticed today; `sim
//! --planted` tries all, and fails as long as one is not.

use crate::simulation::{describe, on_all_processors};
use anyhow::{Result, bail};
use cairn_types::planted::Rule;

/// Rules whose loss no checker of the simulator notices yet. This list may only get shorter.
const NOT_NOTICED_YET: &[Rule] = &[
    Rule::R2,
    Rule::R5,
    Rule::R6,
    Rule::R8,
    Rule::R12,
    Rule::R13,
    Rule::R15,
    Rule::R16,
    Rule::R18,
    Rule::R20,
    Rule::R22,
    Rule::R24,
    Rule::R35,
];

/// Breaks each rule in turn.
///
/// # Errors
/// Names the rules whose loss goes unnoticed.
pub(crate) fn report() -> Result<()> {
    try_rules(Rule::ALL)
}

/// Breaks each rule whose loss is known to be noticed.
///
/// # Errors
/// Names the rules whose loss goes unnoticed now.
pub(crate) fn verify() -> Result<()> {
    let is_noticed = |rule: &Rule| !NOT_NOTICED_YET.contains(rule);
    let noticed: Vec<Rule> = Rule::ALL.iter().copied().filter(is_noticed).collect();
    println!("not noticed yet, and not tried: {NOT_NOTICED_YET:?}");
    try_rules(&noticed)
}

fn try_rules(rules: &[Rule]) -> Result<()> {
    let unnoticed: Vec<String> = on_all_processors(rules, |rule| {
        let report = cairn_sim::planted(*rule);
        match &report.caught {
            Some((by, failure)) => println!("{rule:?} broken, {by}: {}", describe(failure)),
            None => println!("{rule:?} broken: NOT NOTICED in {} tries", report.tries),
        }
        report.caught.is_none().then(|| format!("{rule:?}"))
    })
    .into_iter()
    .flatten()
    .collect();
    if unnoticed.is_empty() {
        println!("{} rules, each one's loss noticed", rules.len());
        Ok(())
    } else {
        bail!("no checker notices the loss of {}", unnoticed.join(", "))
    }
}
