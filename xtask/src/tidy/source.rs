//! One Rust file as the rules see it.

use super::masking::{Masked, mask};
use anyhow::{Context, Result};
use std::path::Path;

/// A file, read and split.
#[derive(Debug)]
pub(crate) struct Source {
    /// From the root, with `/`.
    pub(crate) path: String,
    /// As it is.
    pub(crate) text: String,
    /// Code apart from comments.
    pub(crate) masked: Masked,
    /// How many lines stand before the test module that ends the file; all, without one.
    pub(crate) line_count_without_tests: usize,
}

impl Source {
    /// Splits a text.
    pub(crate) fn new(path: &str, text: &str) -> Self {
        let masked = mask(text);
        let code_lines = if is_test_file(path) { 0 } else { tests_start(&masked.code) };
        Self {
            path: path.to_owned(),
            line_count_without_tests: code_lines,
            text: text.to_owned(),
            masked,
        }
    }

    /// Whether a line (from 1) is test code.
    pub(crate) fn is_test(&self, line: usize) -> bool {
        line > self.line_count_without_tests
    }
}

/// Whether a file is nothing but tests: of a `tests` folder, or named `tests.rs`, `…_test.rs`,
/// `…_tests.rs`.
fn is_test_file(path: &str) -> bool {
    let name = path.rsplit('/').next().unwrap_or(path);
    path.contains("/tests/")
        || name == "tests.rs"
        || ["_test.rs", "_tests.rs"].iter().any(|end| name.ends_with(end))
}

/// The count of lines before a trailing `#[cfg(test)] mod … { … }`.
fn tests_start(code: &str) -> usize {
    let lines: Vec<&str> = code.lines().map(str::trim_end).collect();
    let last = lines.iter().rposition(|line| !line.is_empty());
    let is_attribute = |line: &str| line.starts_with(['#', ' ', ')']);
    for (at, line) in lines.iter().enumerate() {
        let item = lines[at + 1..].iter().find(|line| !is_attribute(line));
        if *line == "#[cfg(test)]" && item.is_some_and(|item| item.starts_with("mod ")) {
            let end = lines[at..].iter().position(|line| *line == "}").map(|end| at + end);
            if end == last {
                return at;
            }
        }
    }
    lines.len()
}

/// Every Rust file of the workspace, in order of paths.
///
/// # Errors
/// When one cannot be read.
pub(crate) fn read_all(root: &Path) -> Result<Vec<Source>> {
    let mut sources = Vec::new();
    for folder in ["crates", "xtask"] {
        read_folder(root, folder, &mut sources)?;
    }
    Ok(sources)
}

fn read_folder(root: &Path, folder: &str, sources: &mut Vec<Source>) -> Result<()> {
    let entries = std::fs::read_dir(root.join(folder)).with_context(|| folder.to_owned())?;
    let mut entries = entries.collect::<Result<Vec<_>, _>>()?;
    entries.sort_by_key(std::fs::DirEntry::file_name);
    for entry in entries {
        let path = format!("{folder}/{}", entry.file_name().to_string_lossy());
        if entry.file_type()?.is_dir() {
            read_folder(root, &path, sources)?;
        } else if Path::new(&path).extension().is_some_and(|extension| extension == "rs") {
            let text = std::fs::read_to_string(entry.path()).with_context(|| path.clone())?;
            sources.push(Source::new(&path, &text));
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::Source;

    #[test]
    fn the_trailing_test_module_is_told_from_one_in_the_middle() {
        let trailing = "//! a\nfn a() {}\n#[cfg(test)]\nmod tests {\n    fn b() {}\n}\n";
        let source = Source::new("crates/x/src/a.rs", trailing);
        assert_eq!(source.line_count_without_tests, 2);
        assert!(source.is_test(3) && !source.is_test(2));
        let attribute = trailing.replace("]\nmod", "]\n#[allow(\n    a,\n)]\nmod");
        assert_eq!(Source::new("a.rs", &attribute).line_count_without_tests, 2);
        let middle = format!("{trailing}fn c() {{\n}}\n");
        assert_eq!(Source::new("a.rs", &middle).line_count_without_tests, 8);
    }

    #[test]
    fn files_of_tests_are_tests_from_the_first_line() {
        for path in ["crates/x/tests/a.rs", "crates/x/src/tests.rs", "crates/x/src/a_test.rs"] {
            assert!(Source::new(path, "//! a\n").is_test(1));
        }
        assert!(!Source::new("crates/x/src/a.rs", "//! a\n").is_test(1));
    }
}
