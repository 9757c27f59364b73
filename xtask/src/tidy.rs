//! `cargo xtask tidy`: the house rules that a machine can check, and the measures of the house.
//!
//! ```text
//!   every .rs file ──► Source ──┬─ layout, words           text and tokens
//!                               ├─ imports ─ circles ─┐
//!                               ├─ types ─────────────┴─ measures
//!   cargo metadata ─────────────┼─ floors
//!   Cargo.toml, docs ───────────┴─ dependencies, generated ──► findings − exceptions
//! ```
//! Each rule is a function from text to findings with tests of its own; this file gathers the
//! files, asks each rule and prints.

mod circles;
mod dependencies;
mod exceptions;
mod finding;
mod floors;
mod generated;
mod imports;
mod layout;
mod measures;
mod source;
mod types;
mod words;

use crate::workspace::{metadata, root};
use anyhow::{Result, bail};

pub(crate) use floors::crates_in_order;
pub(crate) use source::{Source, read_all};

/// Prints the measures, in full where `all`, and what is out of order.
///
/// # Errors
/// When anything is.
pub(crate) fn report(all: bool) -> Result<()> {
    let root = root();
    let sources = read_all(&root)?;
    let mut findings = Vec::new();
    for source in &sources {
        layout::check(source, &mut findings);
        words::check(source, &mut findings);
    }
    measures::report(&root, &sources, all, &mut findings)?;
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
