//! The list of exceptions, xtask/tidy-exceptions.txt: `rule path`, one a line, and of a rule with a
//! limit how far it is exceeded: `rule path measured`. It only gets shorter, its numbers lower.
//!
//! - X1: an exception that excuses nothing any more is itself a finding.
//! - X2: there are at most [`COUNT_MAX`], a number that is only ever lowered.

use crate::finding::Finding;
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
    for (at, line) in (1..).zip(list.lines().map(str::trim)) {
        if line.is_empty() || line.starts_with('#') {
            continue;
        }
        count += 1;
        let words: Vec<&str> = line.split(' ').collect();
        let excused = |finding: &Finding| match words.as_slice() {
            [rule, path] => (*rule, *path) == (finding.rule, &finding.path),
            [rule, path, most] => {
                let most = most.parse().unwrap_or(0);
                (*rule, *path) == (finding.rule, &finding.path) && finding.measured <= most
            }
            _ => false,
        };
        let before = findings.len();
        findings.retain(|finding| !excused(finding));
        if findings.len() == before {
            let message = format!("`{line}` excuses nothing: remove it");
            findings.push(Finding::new("exception", LIST, at, message));
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
    use crate::finding::Finding;

    fn left(list: &str, count_max: usize) -> Vec<&'static str> {
        let findings = vec![
            Finding::new("unsafe", "a.rs", 3, ""),
            Finding::measured("circle", "b", 5, String::new()),
        ];
        excuse(list, count_max, findings).iter().map(|finding| finding.rule).collect()
    }

    #[test]
    fn an_exception_excuses_its_rule_in_its_file_only() {
        assert_eq!(left("unsafe a.rs", 1), ["circle"]);
        assert_eq!(left("# nothing\n", 1), ["unsafe", "circle"]);
        assert_eq!(left("unsafe b.rs", 1), ["unsafe", "circle", "exception"]);
    }

    #[test]
    fn a_limit_is_exceeded_no_further_than_the_list_says() {
        assert_eq!(left("circle b 5", 1), ["unsafe"]);
        assert_eq!(left("circle b 4", 1), ["unsafe", "circle", "exception"]);
    }

    #[test]
    fn the_list_does_not_grow() {
        assert_eq!(left("unsafe a.rs", 0), ["circle", "exception"]);
    }
}
