//! `cairn demo`: a real cell on this machine, in separate processes, put through what it is for.
//!
//! ```text
//!   start 3 masters and 4 chunkservers in 2 racks
//!     └► put files ─► many clients append to one file ─► kill -9 the master in charge
//!          └► another takes over, the clients go on ─► kill -9 the primary of their last chunk
//!               └► the clients go on ─► the cell heals ─► read everything back ─► verdict
//! ```
//! - D1: whatever ends the demo (a failure, Ctrl-C, kill -9), its processes end by their ids and
//!   its files go: a janitor waits for it.
//! - D2: the verdict is the demo's own count, not the cell's opinion: bytes are compared with
//!   those on the local disk, records with the acknowledgements that the clients got.

mod appenders;
mod healing;
mod source_files;
mod story;
mod verdict;

use crate::cli_error::{CliError, Doing};
use cairn_client::Options;
use cairn_testkit::{CellPlan, MastersPlan, Program};
use clap::Args;
use std::hash::{BuildHasher, RandomState};
use story::{DemoSize, Storyteller};

/// Masters of the demo's cell.
const MASTERS: usize = 3;
/// Chunkservers of the demo's cell.
const CHUNKSERVERS: usize = 4;

/// Arguments of `demo`.
#[derive(Args, Debug)]
pub(crate) struct DemoArguments {
    /// Clients that append at once
    #[arg(long, default_value_t = 16, value_name = "COUNT")]
    #[arg(value_parser = clap::value_parser!(u64).range(1..=1000))]
    clients: u64,
    /// Megabytes of files to store
    #[arg(long, default_value_t = 96, value_name = "MB")]
    #[arg(value_parser = clap::value_parser!(u64).range(1..=1 << 20))]
    megabytes: u64,
    /// Leave data and logs for a look afterwards
    #[arg(long)]
    keep: bool,
}

/// Runs it.
pub(crate) fn run(demo: &DemoArguments, options: &Options) -> Result<(), CliError> {
    let name = format!("cairn-demo-{:016x}", RandomState::new().hash_one(std::process::id()));
    let directory = std::env::temp_dir().join(name);
    let program = Program::this().doing(|| "preparing the demo".to_owned())?;
    let mut plan = CellPlan::new(program, &directory, CHUNKSERVERS);
    plan.keep = demo.keep;
    plan.masters = MastersPlan::Group(MASTERS);
    plan.master_arguments.push("--small-cell".to_owned());
    let teller = Storyteller::start();
    let size = DemoSize { clients: demo.clients, megabytes: demo.megabytes };
    let told = story::tell(size, plan, options, &teller);
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
        Err(error) => {
            teller.say(format_args!("VERDICT: FAILED. {error}"));
            Err(error)
        }
    }
}
