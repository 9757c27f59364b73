//! What people and CI run: `cargo xtask <command>`.
//!
//! ```text
//!   verify ─┬─ fmt, tidy, licences, clippy, tests, docs, simulation    reads only
//!           └─ last line: "N passed, 0 failed"
//!   fix ────── fmt, clippy --fix, map, proto                           writes
//! ```
//! One file per command. Knows the workspace's files, cargo and the simulator; knows no server.

mod fix;
mod licences;
#[cfg(feature = "planted-bugs")]
mod planted;
mod simulation;
mod soak;
mod verify;
mod version_before;

use anyhow::{Result, bail};
use std::process::ExitCode;

#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

const USAGE: &str = "\
usage: cargo xtask <command>

  verify      everything CI checks; writes nothing
  sim         whole cells under faults:
                --seeds N [--from K]    many seeds, on all processors
                --seed N [--trace]      one seed, event by event
                … --mild                without the rarer faults, and less strictly judged
                … --heals               those that have to heal in full when the faults are over
                … --masters             those with three masters, and what befalls groups of them
                … --streams             with producers and readers of a stream
                --planted [RULE]        each rule broken on purpose, or one; a checker must notice
  soak        a cell of real processes at the size people run; minutes and gigabytes:
                tree | appends | kills | masters | upgrade | chaos | snapshots | streams | heals |
                recovery --lab PATH | stream-rates --lab PATH (docs/soaks.md)
  fix         apply lints' suggestions, format, rewrite map and .proto
  tidy        the house rules and measures alone (also part of verify):
                --all                   every circle, large type and doubled name
  licences    the licences of all dependencies (also part of verify)
  map         write docs/map.md
  proto       write docs/formats/cairn.proto
";

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    match run(&arguments) {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::FAILURE,
        Err(error) => {
            eprintln!("xtask: {error:#}");
            ExitCode::FAILURE
        }
    }
}

/// Runs a command; false where it has said itself, on its last line, that not all is good.
fn run(arguments: &[String]) -> Result<bool> {
    let words: Vec<&str> = arguments.iter().map(String::as_str).collect();
    match words.as_slice() {
        ["verify"] => return Ok(verify::verify()),
        ["fix"] => fix::fix(),
        ["tidy"] => cairn_tidy::report(false),
        ["tidy", "--all"] => cairn_tidy::report(true),
        ["licences"] => licences::report(),
        ["sim", rest @ ..] => simulation::sim(rest),
        ["soak", rest @ ..] => soak::soak(rest),
        ["map"] => cairn_tidy::write_map(),
        ["proto"] => fix::proto(),
        [] | ["help" | "--help" | "-h"] => {
            print!("{USAGE}");
            Ok(())
        }
        _ => bail!("no such command: {}\n\n{USAGE}", words.join(" ")),
    }
    .map(|()| true)
}
