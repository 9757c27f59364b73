//! `cargo xtask tidy`: the house rules that a machine can check, and the measures of the house.
//!
//! ```text
//!   every .rs file ──► Source ──┬─ layout, pages
//!                               └─ imports ──┬─ circles ──┬─ measures
//!                                            └─ types ────┘
//!   cargo metadata, Cargo.toml ─── floors, dependencies        ──► findings − exceptions
//! ```
//! Each rule is a function from text to findings with tests of its own; this file gathers the
//! files, asks each rule and prints.

mod circles;
mod dependencies;
mod exceptions;
mod finding;
mod floors;
mod imports;
mod layout;
mod map;
mod measures;
mod pages;
mod source;
mod types;
mod workspace;

use anyhow::{Result, bail};
use finding::Finding;
use source::read_all;

pub use map::write as write_map;
pub use workspace::{cargo, packages, root};

/// Prints the measures, in full where `all`, and what is out of order.
///
/// # Errors
/// When anything is.
pub fn report(all: bool) -> Result<()> {
    let root = root();
    let sources = read_all(&root)?;
    let mut findings = Vec::new();
    for source in &sources {
        layout::check(source, &mut findings);
    }
    measures::report(&root, &sources, all, &mut findings)?;
    pages::check(&root, &sources, &mut findings)?;
    floors::check(&packages(false)?, &mut findings);
    dependencies::check_all(&root, &mut findings)?;
    let map = std::fs::read_to_string(root.join(map::MAP_PATH)).unwrap_or_default();
    if map != map::page(&root, &sources)? {
        let message = "not what the files say: run `cargo xtask map`";
        findings.push(Finding::new("generated", map::MAP_PATH, 1, message));
    }
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
