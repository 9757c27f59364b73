//! `cargo xtask sim --planted`: the checkers are checked.
//!
//! Each rule of the protocol is broken on purpose, in runs of the simulator whose faults bring its
//! loss to light; a checker must notice, in a run that passes with the rule unbroken. A rule's loss
//! that nobody notices is a failure.

use crate::simulation::{describe, on_all_processors};
use anyhow::{Result, bail};
use cairn_types::planted::Rule;

/// Breaks each rule in turn.
///
/// # Errors
/// Names the rules whose loss goes unnoticed.
pub(crate) fn break_each() -> Result<()> {
    let rules = Rule::ALL;
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
