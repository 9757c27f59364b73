//! Pages that tell of the code say what the code says.
//!
//! The code map and the `.proto` are written from it; the wire's page is written by a person and
//! must have a row for each rpc.

use super::finding::Finding;
use super::source::Source;
use crate::{code_map, proto};
use anyhow::{Context, Result};
use cairn_protocol::proto_table;
use std::path::Path;

const WIRE: &str = "docs/formats/wire.md";

/// Checks the pages.
///
/// # Errors
/// When files cannot be read, or a message has no definition.
pub(crate) fn check(root: &Path, sources: &[Source], findings: &mut Vec<Finding>) -> Result<()> {
    let read = |path: &str| std::fs::read_to_string(root.join(path)).unwrap_or_default();
    let map = code_map::page(root, sources)?;
    check_same(code_map::MAP_PATH, &read(code_map::MAP_PATH), &map, "map", findings);
    check_same(proto::PROTO_PATH, &read(proto::PROTO_PATH), &proto::text()?, "proto", findings);
    check_rpcs(&std::fs::read_to_string(root.join(WIRE)).context(WIRE)?, findings);
    Ok(())
}

/// Reports the first line in which the page is not what it must be.
fn check_same(path: &str, is: &str, must: &str, command: &str, findings: &mut Vec<Finding>) {
    if is != must {
        let same = is.lines().zip(must.lines()).take_while(|(is, must)| is == must).count();
        let message = format!("not what the code says: run `cargo xtask {command}`");
        findings.push(Finding::new("generated", path, same + 1, message));
    }
}

/// The table of rpcs has a row for each.
fn check_rpcs(page: &str, findings: &mut Vec<Finding>) {
    for (kind, request, answer, _) in proto_table() {
        let row = format!("| {kind} | `{request}` → `{answer}` |");
        if !page.contains(&row) {
            findings.push(Finding::new("generated", WIRE, 1, format!("the row is missing: {row}")));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::{check_rpcs, check_same};

    #[test]
    fn an_rpc_that_the_page_leaves_out_is_found() {
        let mut findings = Vec::new();
        check_rpcs("| 1 | `Hello` → `Welcome` | whoever dialled |", &mut findings);
        let missing = |what: &str| findings.iter().any(|found| found.message.contains(what));
        assert!(missing("`Stat`") && !missing("`Hello`"));
    }

    #[test]
    fn a_page_that_fell_behind_is_found_at_its_first_old_line() {
        let lines = |is: &str| {
            let mut findings = Vec::new();
            check_same("a.md", is, "a\nb\n", "map", &mut findings);
            findings.iter().map(|finding| finding.line).collect::<Vec<_>>()
        };
        assert_eq!(lines("a\nb\n"), [0; 0]);
        assert_eq!(lines("a\nc\n"), [2]);
        assert_eq!(lines("a\n"), [2]);
    }
}
