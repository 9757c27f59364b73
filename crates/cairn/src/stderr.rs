//! Lines on stderr: what a person is told beside the answers.
//!
//! - SE1: whether anybody reads them changes nothing: a command does what it was to do, and ends as
//!   it would have. `eprintln!` panics where stderr is closed, as in `cairn ls /no 2>&1 | true`; so
//!   clippy forbids it in this binary (`print_stderr`, in main.rs).

use std::fmt::Display;
use std::io::{Write, stderr};

/// Writes a line. One that cannot be written is lost: there is nobody else to tell (SE1).
pub(crate) fn say(line: impl Display) {
    // In one piece, so that it stays a line where several processes share a stderr.
    let _ = stderr().write_all(format!("{line}\n").as_bytes());
}
