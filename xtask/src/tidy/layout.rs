//! How a file is named, how it opens, how long it is.

use super::finding::Finding;
use super::source::Source;
use anyhow::Result;
use std::path::Path;

/// Lines that a file may have before its tests.
const LINES_MAX: usize = 600;
/// Names that say nothing: such a file becomes the basement that everything stands on.
const NAMES_REFUSED: &[&str] = &["util", "utils", "common", "helper", "helpers", "misc", "manager"];

/// Checks one file.
pub(crate) fn check(source: &Source, findings: &mut Vec<Finding>) {
    let path = source.path.as_str();
    if !source.text.starts_with("//!") {
        findings.push(Finding::new(
            "opening",
            path,
            1,
            "a file opens with `//!` and says what it is",
        ));
    }
    let count = source.code_line_count();
    if count > LINES_MAX {
        let message = format!("{count} lines without tests; at most {LINES_MAX}: split by topic");
        findings.push(Finding::new("file-length", path, LINES_MAX + 1, message));
    }
    if let Some(name) = refused_name(path) {
        findings.push(Finding::new("name", path, 1, format!("`{name}` says nothing of its topic")));
    }
}

/// Checks the crates' own names.
///
/// # Errors
/// When the folder of crates cannot be read.
pub(crate) fn check_crate_names(root: &Path, findings: &mut Vec<Finding>) -> Result<()> {
    for entry in std::fs::read_dir(root.join("crates"))? {
        let path = format!("crates/{}", entry?.file_name().to_string_lossy());
        if let Some(name) = refused_name(&path) {
            let message = format!("`{name}` says nothing of its topic");
            findings.push(Finding::new("name", &path, 1, message));
        }
    }
    Ok(())
}

/// The part of a path, file or folder, that is a refused name.
fn refused_name(path: &str) -> Option<&str> {
    path.split('/')
        .map(|part| part.strip_suffix(".rs").unwrap_or(part))
        .find(|part| NAMES_REFUSED.contains(part))
}

#[cfg(test)]
mod tests {
    use super::{LINES_MAX, check, refused_name};
    use crate::tidy::source::Source;

    fn rules(path: &str, text: &str) -> Vec<&'static str> {
        let mut findings = Vec::new();
        check(&Source::new(path, text).expect("Rust"), &mut findings);
        findings.iter().map(|finding| finding.rule).collect()
    }

    #[test]
    fn a_file_that_does_not_say_what_it_is_is_found() {
        assert_eq!(rules("a.rs", "use x;\n"), ["opening"]);
        assert_eq!(rules("a.rs", "//! What it is.\nuse x;\n"), [""; 0]);
    }

    #[test]
    fn tests_do_not_count_as_length_and_the_rest_does() {
        let long = format!("//! a\n{}", "x!();\n".repeat(LINES_MAX - 1));
        assert_eq!(rules("a.rs", &long), [""; 0]);
        let with_tests = format!("{long}#[cfg(test)]\nmod tests {{\n}}\n");
        assert_eq!(rules("a.rs", &with_tests), [""; 0]);
        assert_eq!(rules("a.rs", &format!("{long}x!();\n")), ["file-length"]);
    }

    #[test]
    fn empty_names_are_refused_for_files_and_folders_but_not_within_a_word() {
        assert_eq!(refused_name("crates/x/src/util.rs"), Some("util"));
        assert_eq!(refused_name("crates/x/tests/common/mod.rs"), Some("common"));
        assert_eq!(refused_name("crates/x/src/common_prefix.rs"), None);
    }
}
