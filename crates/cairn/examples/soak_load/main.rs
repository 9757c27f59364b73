//! What `cargo xtask soak` runs beside a cell: processes of clients that append, and readers.
//!
//! ```text
//!   xtask                                    soak_load append | deliver
//!     │ ◄─────────── "ready" ────────────────── connected, file open
//!     │ ── "go" ──────────────────────────────► append: every client starts
//!     │ ◄─────────── "count N" ─────────────── so many records acknowledged, or delivered
//!     │ ── "stop" ────────────────────────────► append: finish what is under way
//!     │ ── "judge FILE" ──────────────────────► deliver: read up to what FILE says was appended
//!     │ ◄─────────── "client {…}"  "verdict {…}"
//! ```
//! - K1: the end of stdin ends the process, so that none outlives the soak that started it.

mod appenders;
mod ledger;
mod orders;
mod readers;
mod record;

use std::process::ExitCode;

const USAGE: &str = "\
usage: soak_load append CELL SMALL-FILE LARGE-FILE FIRST-CLIENT CLIENTS SMALL LARGE
       soak_load deliver CELL FILE small|large read|follow";

fn main() -> ExitCode {
    let words: Vec<String> = std::env::args().skip(1).collect();
    let words: Vec<&str> = words.iter().map(String::as_str).collect();
    let runtime =
        tokio::runtime::Builder::new_current_thread().enable_all().build().expect("starts");
    let done = runtime.block_on(async {
        match words.as_slice() {
            ["append", rest @ ..] => appenders::run(rest).await,
            ["deliver", rest @ ..] => readers::run(rest).await,
            _ => Err(USAGE.into()),
        }
    });
    match done {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("soak_load {}: {error}", words.join(" "));
            ExitCode::FAILURE
        }
    }
}
