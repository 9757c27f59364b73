//! Making a master's directory with a population in it, in a process of its own: what that takes
//! is gone with it.

use super::population::{BEGUN, Population};
use crate::error::{BenchCause, BenchError, Doing};
use cairn_env::Disk;
use cairn_env_os::OsDisk;
use cairn_master::seed;
use cairn_types::CellConfig;
use clap::Args;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::Arc;

/// A hidden command: makes the directory.
#[derive(Args, Debug)]
pub struct SeedPart {
    #[arg(long)]
    data: PathBuf,
    #[arg(long, value_parser = super::hollow_servers::parse_population)]
    population: Population,
}

impl SeedPart {
    pub(crate) fn run(&self) -> Result<(), BenchError> {
        let doing = || format!("filling {}", self.data.display());
        let disk = OsDisk::open(&self.data).map_err(|failure| {
            let why = format!("{}: {failure}", self.data.display());
            BenchError::new(doing(), BenchCause::Part(why))
        })?;
        let disk: Arc<dyn Disk> = Arc::new(disk);
        let records = self.population.records();
        seed(&disk, &CellConfig::standard(), BEGUN, records).map(drop).doing(doing)
    }
}

/// Runs that command and waits for it.
///
/// # Errors
/// With its own line on stderr where it fails.
pub(super) fn fill(data: &Path, population: Population) -> Result<(), BenchError> {
    let doing = || "filling a master's directory".to_owned();
    let text = serde_json::to_string(&population).map_err(std::io::Error::from).doing(doing)?;
    let mut command = Command::new(std::env::current_exe().doing(doing)?);
    command.arg("bench-seed").arg("--data").arg(data).args(["--population", &text]);
    // An end of this process by a signal of the terminal reaches the child too.
    let status = command.stdin(Stdio::null()).status().doing(doing)?;
    if status.success() {
        return Ok(());
    }
    let why = format!("it ended with {status}; its reason stands above");
    Err(BenchError::new(doing(), BenchCause::Part(why)))
}
