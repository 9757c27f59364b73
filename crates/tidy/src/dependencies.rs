//! Every library has its reason beside it, in one place: the root's Cargo.toml.

use crate::finding::Finding;
use anyhow::{Context, Result};
use std::path::Path;

/// Checks the root's Cargo.toml and every member's.
///
/// # Errors
/// When one cannot be read.
pub(crate) fn check_all(root: &Path, findings: &mut Vec<Finding>) -> Result<()> {
    let mut members = vec!["".to_owned(), "xtask/".to_owned()];
    for entry in std::fs::read_dir(root.join("crates"))? {
        members.push(format!("crates/{}/", entry?.file_name().to_string_lossy()));
    }
    for member in members {
        let path = format!("{member}Cargo.toml");
        let text = std::fs::read_to_string(root.join(&path)).with_context(|| path.clone())?;
        check(&path, &text, findings);
    }
    Ok(())
}

/// In the root a library has a comment above it (our own crates need none); members take theirs
/// from the root.
fn check(path: &str, text: &str, findings: &mut Vec<Finding>) {
    let mut section = "";
    let mut above = "";
    for (at, line) in (1..).zip(text.lines()) {
        if line.starts_with('[') {
            section = line;
        }
        let names_one = line.contains('=') && !line.starts_with(['#', ' ', '[']);
        if names_one && section == "[workspace.dependencies]" {
            if !above.starts_with("# ") && !line.contains("path = ") {
                let message = format!("no comment above it that says what it is for: {line}");
                findings.push(Finding::new("reason", path, at, message));
            }
        } else if names_one
            && section.ends_with("dependencies]")
            && !line.contains("workspace = true")
        {
            let message = "a dependency is named in the root's Cargo.toml, with its reason";
            findings.push(Finding::new("reason", path, at, message));
        }
        above = line;
    }
}

#[cfg(test)]
mod tests {
    use super::check;

    fn lines_found(text: &str) -> Vec<usize> {
        let mut findings = Vec::new();
        check("Cargo.toml", text, &mut findings);
        findings.iter().map(|finding| finding.line).collect()
    }

    #[test]
    fn a_library_without_a_reason_is_found() {
        let text = "[workspace.dependencies]\nours = { path = \"a\" }\n# Why.\ngood = \"1\"\n\
                    bad = \"2\"\n\n[profile.dev]\ndebug = 1\n";
        assert_eq!(lines_found(text), [5]);
    }

    #[test]
    fn a_member_takes_versions_from_the_root() {
        let text = "[dependencies]\na.workspace = true\nb = { workspace = true }\n\
                    [dev-dependencies]\nc = \"1\"\n[features]\nd = []\n";
        assert_eq!(lines_found(text), [5]);
    }
}
