//! A row of a table of failures: one line to a person, and an exit code.

use super::Finished;

/// What a row demands.
pub(crate) struct Row<'a> {
    pub(crate) what: &'a str,
    pub(crate) done: Finished,
    pub(crate) code: i32,
    /// Parts of the one line.
    pub(crate) says: &'a [&'a str],
}

/// Fails the test where the command did not end by itself, with that code and one line.
#[track_caller]
pub(crate) fn judge(row: &Row<'_>) {
    let Row { what, done, code, says } = row;
    let lines: Vec<&str> = done.stderr.lines().collect();
    assert_eq!(lines.len(), 1, "{what}: one line, not {:?}", done.stderr);
    assert!(lines[0].starts_with("cairn: ") && !lines[0].contains("panicked"), "{what}: {lines:?}");
    assert_eq!(done.code(), *code, "{what}: {lines:?}");
    for part in *says {
        assert!(lines[0].contains(part), "{what}: no {part:?} in {lines:?}");
    }
}
