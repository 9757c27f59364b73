//! Pages of the guide: their commands, as whoever reads them would run them.

use super::{Cell, run};
use std::path::Path;
use std::process::Command;

/// The blocks of a page that are marked so, in their order.
pub(crate) fn blocks<'a>(page: &'a str, mark: &str) -> Vec<&'a str> {
    let fence = format!("```{mark}\n");
    let parts: Vec<&str> = page.split(fence.as_str()).skip(1).collect();
    assert!(!parts.is_empty(), "the page has no {mark}");
    parts.into_iter().map(|part| part.split("```").next().expect("what is before")).collect()
}

/// A script against a cell, in its scratch directory, with the binary under test as `cairn`.
pub(crate) fn shell_command(cell: &Cell, script: &str) -> Command {
    let program = Path::new(env!("CARGO_BIN_EXE_cairn")).parent().expect("of the binary");
    let path = format!("{}:{}", program.display(), std::env::var("PATH").unwrap_or_default());
    let mut shell = Command::new("sh");
    shell.args(["-e", "-c", script]).current_dir(cell.scratch());
    shell.env("PATH", path).env("CAIRN_CELL", cell.address());
    shell
}

/// Runs it; what it wrote to stdout.
pub(crate) fn shell(cell: &Cell, script: &str, variables: &[(&str, &str)]) -> String {
    let mut shell = shell_command(cell, script);
    shell.envs(variables.iter().copied());
    let done = run(shell, b"");
    assert!(done.status.success(), "{script}: {}", done.stderr);
    done.text()
}

/// Runs all commands of a page, block by block; what each block wrote.
pub(crate) fn run_page(cell: &Cell, page: &str) -> Vec<String> {
    blocks(page, "sh").into_iter().map(|script| shell(cell, script, &[])).collect()
}
