//! One process of a load.

use super::caller::CallerId;
use super::job::CallerJob;
use super::tally::LoadTally;
use crate::error::{BenchError, Doing};
use cairn_client::Cell;
use clap::Args;
use std::io::BufRead;
use std::time::Instant;
use tokio::task::JoinSet;

/// A hidden command: one process of a load. It wants a runtime of one thread, so that its CPU
/// seconds are the client's own.
#[derive(Args, Debug)]
pub struct LoadProcess {
    /// What each caller does, as JSON
    #[arg(long, value_parser = parse_job)]
    job: CallerJob,
    /// Which process
    #[arg(long)]
    process: u64,
    /// Of how many
    #[arg(long)]
    processes: u64,
    /// Callers in it
    #[arg(long)]
    callers: u64,
}

fn parse_job(text: &str) -> Result<CallerJob, String> {
    serde_json::from_str(text).map_err(|error| error.to_string())
}

impl LoadProcess {
    /// Says that it is connected, waits for the word, makes the load, tells what came of it.
    ///
    /// # Errors
    /// With what was in its way.
    pub async fn run(self, cell: Cell) -> Result<(), BenchError> {
        let doing = || "making a load".to_owned();
        let mut prepared = Vec::new();
        for caller in 0..self.callers {
            prepared.push(self.job.prepare(&cell, self.id(caller)).await.doing(doing)?);
        }
        println!("ready");
        let mut word = String::new();
        std::io::stdin().lock().read_line(&mut word).doing(doing)?;
        let begun = Instant::now();
        let mut callers = JoinSet::new();
        for (caller, prepared) in (0..self.callers).zip(prepared) {
            let (job, cell, id) = (self.job.clone(), cell.clone(), self.id(caller));
            callers.spawn(async move { job.run(&cell, id, prepared).await });
        }
        let mut all = LoadTally::default();
        while let Some(done) = callers.join_next().await {
            all.add(&done.doing(doing)?.doing(doing)?);
        }
        all.seconds = begun.elapsed().as_secs_f64();
        let text = serde_json::to_string(&all);
        println!("{}", text.map_err(std::io::Error::from).doing(doing)?);
        // The bench reads our CPU time before it closes the pipe.
        std::io::stdin().lock().read_line(&mut word).doing(doing)?;
        Ok(())
    }

    fn id(&self, caller: u64) -> CallerId {
        let number = self.process * self.callers + caller;
        CallerId { process: self.process, caller, number, of: self.processes * self.callers }
    }
}
