//! `cargo xtask tidy`: the house rules that a machine can check.
//!
//! ```text
//!   every .rs file ── masking ──► Source ──┬─ layout, lines, functions   (text rules)
//!   cargo metadata ────────────────────────┼─ floors
//!   Cargo.toml, docs ──────────────────────┴─ dependencies, generated ──► findings − exceptions
//! ```
//! Each rule is a function from text to findings with tests of its own; this file gathers the
//! files, asks each rule and prints.

mod dependencies;
mod exceptions;
mod floors;
mod functions;
mod generated;
mod layout;
mod lines;
mod masking;
mod source;

use crate::workspace::{metadata, root};
use anyhow::{Result, bail};
use std::fmt;

pub(crate) use floors::crates_in_order;
pub(crate) use source::{Source, read_all};

/// One place that breaks one rule.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Finding {
    /// The file, from the root.
    path: String,
    /// Its line, from 1.
    line: usize,
    /// The rule's name, as exceptions say it.
    rule: &'static str,
    /// What is wrong, and what to do.
    message: String,
}

impl Finding {
    fn new(rule: &'static str, path: &str, line: usize, message: impl Into<String>) -> Self {
        Self { path: path.to_owned(), line, rule, message: message.into() }
    }
}

impl fmt::Display for Finding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}: {} [{}]", self.path, self.line, self.message, self.rule)
    }
}

/// Prints what is out of order.
///
/// # Errors
/// When anything is.
pub(crate) fn report() -> Result<()> {
    let root = root();
    let sources = read_all(&root)?;
    let mut findings = Vec::new();
    for source in &sources {
        check_source(source, &mut findings);
    }
    layout::check_crate_names(&root, &mut findings)?;
    floors::check(&metadata(false)?, &mut findings);
    dependencies::check_all(&root, &mut findings)?;
    generated::check(&root, &sources, &mut findings)?;
    findings.sort();
    let findings = exceptions::apply(&root, findings)?;
    for finding in &findings {
        println!("{finding}");
    }
    if findings.is_empty() {
        println!("{} files, all in order", sources.len());
        Ok(())
    } else {
        bail!("{} places are out of order", findings.len())
    }
}

fn check_source(source: &Source, findings: &mut Vec<Finding>) {
    layout::check(source, findings);
    lines::check(source, findings);
    functions::check(source, findings);
}
