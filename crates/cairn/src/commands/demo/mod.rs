//! `cairn demo`: a real cell on this machine, in separate processes, put through what it is for.
//!
//! ```text
//!   start master and 4 chunkservers in 2 racks
//!     └► put files ─► many clients append to one file ─► kill -9 the primary of its last chunk
//!          └► the clients go on ─► read everything back ─► restart the server ─► verdict
//! ```
//! - D1: whatever ends the demo (a failure, Ctrl-C, kill -9), its processes end by their ids and
//!   its files go: a janitor waits for it.
//! - D2: the verdict is the demo's own count, not the cell's opinion: bytes are compared with
//!   those on the local disk, records with the acknowledgements that the clients got.

mod appenders;
pub(crate) mod processes;
mod source_files;
mod story;

use crate::arguments::from_to;
use crate::cli_error::{Cause, CliError, Doing};
use crate::exit_codes::Exit;
use crate::janitor::Janitor;
use cairn_client::Options;
use clap::Args;
use std::fmt::Display;
use std::hash::{BuildHasher, RandomState};
use std::io::Write;
use std::path::PathBuf;
use std::time::Instant;

/// Arguments of `demo`.
#[derive(Args, Debug)]
pub(crate) struct Demo {
    /// Clients that append at once
    #[arg(long, default_value_t = 16, value_name = "COUNT")]
    #[arg(value_parser = from_to::<usize>(1..=1000))]
    clients: usize,
    /// Megabytes of files to store
    #[arg(long, default_value_t = 96, value_name = "MB")]
    #[arg(value_parser = from_to::<u64>(1..=1 << 20))]
    megabytes: u64,
    /// Leave data and logs for a look afterwards
    #[arg(long)]
    keep: bool,
}

/// Tells the story line by line, with the time since the start.
pub(crate) struct Teller {
    started: Instant,
}

impl Teller {
    /// One line, at once.
    pub(crate) fn say(&self, line: impl Display) {
        let mut stdout = std::io::stdout().lock();
        // A demo whose reader has gone still cleans up and ends by itself.
        let _ = writeln!(stdout, "[{:5.1} s] {line}", self.started.elapsed().as_secs_f64());
        let _ = stdout.flush();
    }
}

/// Runs it.
pub(crate) fn run(demo: &Demo, options: &Options) -> Result<(), CliError> {
    let doing = || "preparing the demo".to_owned();
    let name = format!("cairn-demo-{:016x}", RandomState::new().hash_one(std::process::id()));
    let directory: PathBuf = std::env::temp_dir().join(name);
    std::fs::create_dir(&directory).doing(doing)?;
    let janitor = Janitor::start((!demo.keep).then_some(directory.as_path()))?;
    let teller = Teller { started: Instant::now() };
    let told = story::tell(demo, options, &directory, &janitor, &teller);
    drop(janitor);
    if demo.keep {
        teller.say(format_args!("data and logs are in {}", directory.display()));
    } else {
        teller.say("all processes have ended and all files are removed");
    }
    match told {
        Ok(verdict) => {
            teller.say(format_args!("VERDICT: good. {verdict}"));
            Ok(())
        }
        Err(complaint) => {
            teller.say(format_args!("VERDICT: FAILED. {complaint}"));
            Err(complaint)
        }
    }
}

/// The demo's own judgement went against the cell.
pub(crate) fn failed(doing: &str, why: impl Into<String>) -> CliError {
    let advice = "run it again with --keep and look at the servers' logs";
    CliError::new(doing, Cause::new(Exit::Damaged, why, advice))
}
