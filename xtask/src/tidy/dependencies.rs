//! Every library has its reason beside it, in one place: the root's Cargo.toml.

use super::finding::Finding;
use anyhow::Result;
use std::path::Path;

const ROOT: &str = "Cargo.toml";

/// Checks the root's Cargo.toml and every member's.
///
/// # Errors
/// When one cannot be read.
pub(crate) fn check_all(root: &Path, findings: &mut Vec<Finding>) -> Result<()> {
    check_reasons(&std::fs::read_to_string(root.join(ROOT))?, findings);
    let mut members = vec!["xtask".to_owned()];
    for entry in std::fs::read_dir(root.join("crates"))? {
        members.push(format!("crates/{}", entry?.file_name().to_string_lossy()));
    }
    for member in members {
        let path = format!("{member}/Cargo.toml");
        check_member(&path, &std::fs::read_to_string(root.join(&path))?, findings);
    }
    Ok(())
}

/// The dependency lines of a Cargo.toml, with their numbers: those of sections that `wanted`
/// names.
fn dependencies(text: &str, wanted: impl Fn(&str) -> bool) -> impl Iterator<Item = (usize, &str)> {
    let mut inside = false;
    text.lines().enumerate().filter(move |(_, line)| {
        if line.starts_with('[') {
            inside = wanted(line);
            return false;
        }
        inside && line.contains('=') && !line.starts_with(['#', ' '])
    })
}

/// A library has a comment above it; our own crates need none.
fn check_reasons(text: &str, findings: &mut Vec<Finding>) {
    let lines: Vec<&str> = text.lines().collect();
    for (at, line) in dependencies(text, |section| section == "[workspace.dependencies]") {
        let reason = at.checked_sub(1).is_some_and(|above| lines[above].starts_with("# "));
        if !reason && !line.contains("path = ") {
            let name = line.split([' ', '.', '=']).next().unwrap_or_default();
            let message = format!("{name} has no comment above it that says what it is for");
            findings.push(Finding::new("reason", ROOT, at + 1, message));
        }
    }
}

/// Members take their dependencies from the root.
fn check_member(path: &str, text: &str, findings: &mut Vec<Finding>) {
    for (at, line) in dependencies(text, |section| section.ends_with("dependencies]")) {
        if !line.contains("workspace = true") {
            let message = "a dependency is named in the root's Cargo.toml, with its reason";
            findings.push(Finding::new("reason", path, at + 1, message));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::{check_member, check_reasons};

    #[test]
    fn a_library_without_a_reason_is_found() {
        let text = "[workspace.dependencies]\nours = { path = \"a\" }\n# Why.\ngood = \"1\"\n\
                    bad = \"2\"\n\n[profile.dev]\ndebug = 1\n";
        let mut findings = Vec::new();
        check_reasons(text, &mut findings);
        let lines: Vec<_> = findings.iter().map(|f| (f.line, f.message.contains("bad"))).collect();
        assert_eq!(lines, [(5, true)]);
    }

    #[test]
    fn a_member_takes_versions_from_the_root() {
        let text = "[dependencies]\na.workspace = true\nb = { workspace = true }\n\
                    [dev-dependencies]\nc = \"1\"\n[features]\nd = []\n";
        let mut findings = Vec::new();
        check_member("x/Cargo.toml", text, &mut findings);
        assert_eq!(findings.iter().map(|finding| finding.line).collect::<Vec<_>>(), [5]);
    }
}
