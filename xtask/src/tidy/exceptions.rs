//! The list of exceptions, xtask/tidy-exceptions.txt: `rule path`, one a line. It only gets
//! shorter.
//!
//! - X1: an exception that excuses nothing any more is itself a finding.
//! - X2: there are at most [`COUNT_MAX`], a number that is only ever lowered.

use super::Finding;
use anyhow::{Context, Result};
use std::path::Path;

const LIST: &str = "xtask/tidy-exceptions.txt";
/// How many there may be. Lower it when the list gets shorter; never raise it.
const COUNT_MAX: usize = 0;

/// Takes away the findings that the list excuses.
///
/// # Errors
/// When the list cannot be read.
pub(crate) fn apply(root: &Path, findings: Vec<Finding>) -> Result<Vec<Finding>> {
    let list = std::fs::read_to_string(root.join(LIST)).context(LIST)?;
    Ok(excuse(&list, COUNT_MAX, findings))
}

fn excuse(list: &str, count_max: usize, mut findings: Vec<Finding>) -> Vec<Finding> {
    let mut count = 0;
    for (at, line) in list.lines().enumerate() {
        let line = line.trim();
        if line.is_empty() || line.starts_with('#') {
            continue;
        }
        count += 1;
        let before = findings.len();
        findings.retain(|finding| line != format!("{} {}", finding.rule, finding.path));
        if findings.len() == before {
            let message = format!("`{line}` excuses nothing: remove it");
            findings.push(Finding::new("exception", LIST, at + 1, message));
        }
    }
    if count > count_max {
        let message =
            format!("{count} exceptions, at most {count_max}: the list only gets shorter");
        findings.push(Finding::new("exception", LIST, 1, message));
    }
    findings
}

#[cfg(test)]
mod tests {
    use super::excuse;
    use crate::tidy::Finding;

    fn left(list: &str, count_max: usize) -> Vec<&'static str> {
        let finding = Finding::new("unsafe", "a.rs", 3, "");
        excuse(list, count_max, vec![finding]).iter().map(|finding| finding.rule).collect()
    }

    #[test]
    fn an_exception_excuses_its_rule_in_its_file_only() {
        assert_eq!(left("unsafe a.rs", 1), [""; 0]);
        assert_eq!(left("# nothing\n", 1), ["unsafe"]);
        assert_eq!(left("unsafe b.rs", 1), ["unsafe", "exception"]);
    }

    #[test]
    fn the_list_does_not_grow() {
        assert_eq!(left("unsafe a.rs", 0), ["exception"]);
    }
}
