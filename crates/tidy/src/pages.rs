//! What pages and comments refer to exists, and a reference means one thing.

use crate::finding::Finding;
use crate::source::Source;
use anyhow::{Context, Result};
use std::collections::BTreeMap;
use std::path::Path;

/// The page that names the tests by which each row stands.
const ROWS: &str = "docs/rows.md";

/// The page that walks through files and their functions.
const WALKS: &str = "ARCHITECTURE.md";

/// Checks every page of the repository, and the comments of every file.
///
/// # Errors
/// When a page cannot be read.
pub(crate) fn check(root: &Path, sources: &[Source], findings: &mut Vec<Finding>) -> Result<()> {
    let pages = [pages(root, "")?, pages(root, "docs/")?].concat();
    let is_page = |name: &str| pages.iter().any(|page| page.rsplit('/').next() == Some(name));
    let exists = |path: &str| root.join(path).exists() || is_page(path);
    for path in &pages {
        let text = std::fs::read_to_string(root.join(path)).with_context(|| path.clone())?;
        check_citations(path, (1..).zip(text.lines()), exists, findings);
    }
    check_tests_named(&std::fs::read_to_string(root.join(ROWS)).context(ROWS)?, sources, findings);
    let walks = std::fs::read_to_string(root.join(WALKS)).unwrap_or_default();
    check_walks(&walks, sources, findings);
    for source in sources {
        let comment = |(at, line)| comment_of(line).map(|comment| (at, comment));
        let comments = (1..).zip(source.text.lines()).filter_map(comment);
        check_citations(&source.path, comments, exists, findings);
    }
    check_invariants(sources, findings);
    Ok(())
}

/// The pages of a folder; those of its folders too, but for the root's.
fn pages(root: &Path, folder: &str) -> Result<Vec<String>> {
    let mut found = Vec::new();
    for entry in std::fs::read_dir(root.join(folder)).with_context(|| folder.to_owned())? {
        let path = format!("{folder}{}", entry?.file_name().to_string_lossy());
        if path.ends_with(".md") {
            found.push(path);
        } else if !folder.is_empty() && root.join(&path).is_dir() {
            found.extend(pages(root, &format!("{path}/"))?);
        }
    }
    Ok(found)
}

fn comment_of(line: &str) -> Option<&str> {
    line.split_once("//").map(|(_, comment)| comment)
}

/// A path of ours that is named stands in the root or beside who names it; a page may be named
/// without its folder.
fn check_citations<'a>(
    path: &str,
    lines: impl Iterator<Item = (usize, &'a str)>,
    exists: impl Fn(&str) -> bool,
    findings: &mut Vec<Finding>,
) {
    let folder = path.rsplit_once('/').map_or("", |(folder, _)| folder);
    for (at, line) in lines {
        let is_part = |c: char| c.is_alphanumeric() || "_./-".contains(c);
        for word in line.split(|c| !is_part(c)).map(|word| word.trim_end_matches(['.', '/'])) {
            let ours = ["docs/", "crates/", "xtask/"].iter().any(|start| word.starts_with(start));
            let is_pattern = word.starts_with('/') || word.contains("YYYY");
            if (!ours && !word.ends_with(".md")) || is_pattern {
                continue;
            }
            let places = [word.to_owned(), format!("docs/{word}"), format!("{folder}/{word}")];
            if !places.iter().any(|place| exists(place)) {
                findings.push(Finding::new("citation", path, at, format!("no such file: {word}")));
            }
        }
    }
}

/// A test that the rows name is there: a name of at least four words.
fn check_tests_named(rows: &str, sources: &[Source], findings: &mut Vec<Finding>) {
    for (at, line) in (1..).zip(rows.lines()) {
        let names = line.split(|c: char| !c.is_alphanumeric() && c != '_');
        for name in names.filter(|name| name.matches('_').count() > 2) {
            let test = format!("fn {name}(");
            if sources.iter().all(|source| !source.text.contains(&test)) {
                findings.push(Finding::new("citation", ROWS, at, format!("no such test: {name}")));
            }
        }
    }
}

/// A row ``| step | `file` | `function`, … |`` names functions that the file has.
fn check_walks(walks: &str, sources: &[Source], findings: &mut Vec<Finding>) {
    for (at, line) in (1..).zip(walks.lines()) {
        let cells: Vec<&str> = line.split(" | ").collect();
        let [_, file, functions] = cells.as_slice() else { continue };
        let file = file.trim_matches('`');
        let Some(source) = sources.iter().find(|source| source.path == file) else { continue };
        for function in functions.split('`').skip(1).step_by(2) {
            let is_it = |after: char| after == '(' || after == '<';
            let starts = |rest: &str| rest.starts_with(is_it);
            if !source.text.split(&format!("fn {function}")).skip(1).any(starts) {
                let message = format!("{file} has no function {function}");
                findings.push(Finding::new("citation", WALKS, at, message));
            }
        }
    }
}

/// The invariants of a file, `//! - L1: …`, have a letter that no other file of the crate uses,
/// and never R, which is the protocol's.
fn check_invariants(sources: &[Source], findings: &mut Vec<Finding>) {
    let mut homes = BTreeMap::new();
    for source in sources {
        let folder = source.path.split("/src/").next().unwrap_or_default();
        for (at, line) in (1..).zip(source.text.lines()) {
            let Some(letters) = invariant(line) else { continue };
            let home = *homes.entry((folder, letters)).or_insert(source.path.as_str());
            if home != source.path || letters == "R" {
                let home = if letters == "R" { "docs/protocol.md" } else { home };
                let message = format!("{letters} stands for the invariants of {home}");
                findings.push(Finding::new("invariant", &source.path, at, message));
            }
        }
    }
}

/// The letters of the invariant that a line states.
fn invariant(line: &str) -> Option<&str> {
    let (label, _) = line.strip_prefix("//! - ")?.split_once(": ")?;
    let letters = label.trim_end_matches(|c: char| c.is_ascii_digit());
    let is_label = letters.len() < label.len() && letters.bytes().all(|c| c.is_ascii_uppercase());
    (is_label && !letters.is_empty()).then_some(letters)
}

#[cfg(test)]
mod tests {
    use super::{check_citations, check_invariants, check_tests_named, check_walks, comment_of};
    use crate::source::Source;

    fn broken(path: &str, line: &str) -> usize {
        let stand = ["design.md", "README.md", "docs/guide/records.md", "crates/x"];
        let mut findings = Vec::new();
        let exists = |path: &str| stand.contains(&path);
        check_citations(path, std::iter::once((1, line)), exists, &mut findings);
        findings.len()
    }

    #[test]
    fn what_a_page_cites_must_stand_in_the_root_or_beside_it() {
        let whole = "See `design.md` §2, [it](records.md), README.md, /a/b.md and crates/x/.";
        assert_eq!(broken("docs/guide/README.md", whole), 0);
        assert_eq!(broken("README.md", "style.md, records.md, crates/y and docs/none"), 4);
        assert_eq!(comment_of("let a = 1; // README.md"), Some(" README.md"));
    }

    #[test]
    fn a_test_that_the_rows_name_must_be_there() {
        let source = Source::new("a.rs", "fn what_is_kept_is_told() {}").expect("Rust");
        let mut findings = Vec::new();
        let rows = "- `crates/x`: what_is_kept_is_told, is_kept_is_told\n- nothing_of_the_kind";
        check_tests_named(rows, &[source], &mut findings);
        let lines: Vec<_> = findings.iter().map(|finding| finding.line).collect();
        assert_eq!(lines, [1, 2]);
    }

    #[test]
    fn a_walk_names_functions_that_are_there() {
        let source = Source::new("a.rs", "fn go<T>() {}\nfn gone() {}").expect("Rust");
        let mut findings = Vec::new();
        let walk = "| step | `a.rs` | `go`, `gone` |\n| step | `a.rs` | `gon` |\n| a | b |";
        check_walks(walk, &[source], &mut findings);
        assert_eq!(findings.iter().map(|finding| finding.line).collect::<Vec<_>>(), [2]);
    }

    #[test]
    fn an_invariants_letter_belongs_to_one_file_of_a_crate_and_r_to_the_protocol() {
        let found = |files: [(&str, &str); 2]| {
            let source = |(path, text): (&str, &str)| Source::new(path, text).expect("Rust");
            let mut findings = Vec::new();
            check_invariants(&files.map(source), &mut findings);
            findings.len()
        };
        let one = ("crates/x/src/a.rs", "//! - L1: one.\n//! - L2: two.\n//! - R8 holds.\n");
        assert_eq!(found([one, ("crates/y/src/b.rs", "//! - L1: one.\n")]), 0);
        assert_eq!(found([one, ("crates/x/src/b.rs", "//! - L3: three.\n")]), 1);
        assert_eq!(found([one, ("crates/x/src/b.rs", "//! - R1: no.\n")]), 1);
    }
}
