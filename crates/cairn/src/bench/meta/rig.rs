//! A master that knows a population, and its hollow chunkservers.

use super::figures::Figures;
use super::hollow_servers::HollowServers;
use super::population::Population;
use super::seeding;
use super::watch::watch;
use crate::bench::cpu;
use crate::bench::load::{Job, Load, Measured, Running};
use crate::cli_error::{Cause, CliError, Doing};
use crate::commands::demo::processes::Server;
use crate::exit_codes::Exit;
use crate::janitor::Janitor;
use cairn_client::{Cell, Options};
use std::future::Future;
use std::path::Path;
use std::time::Instant;

/// What every step needs.
pub(super) struct Surroundings<'j> {
    pub(super) options: &'j Options,
    pub(super) janitor: &'j Janitor,
    pub(super) directory: &'j Path,
}

/// The master, and its chunkservers where its files have chunks.
pub(super) struct Rig<'j> {
    pub(super) population: Population,
    pub(super) options: &'j Options,
    pub(super) master: Server<'j>,
    /// Where files of the bench may go.
    pub(super) scratch: &'j Path,
    data: String,
    // Ends before the master does.
    _servers: Option<HollowServers<'j>>,
}

impl<'j> Rig<'j> {
    /// Fills a directory called `name`, starts a master on it, and waits until every replica is
    /// told of.
    pub(super) fn filled(
        surroundings: &Surroundings<'j>,
        name: &str,
        population: Population,
        figures: &Figures<'_>,
    ) -> Result<Self, CliError> {
        let Surroundings { options, janitor, directory } = *surroundings;
        let path = directory.join(name);
        let begun = Instant::now();
        seeding::fill(&path, population)?;
        let chunks = if population.chunks { "with" } else { "without" };
        let (files, took) = (population.files, begun.elapsed().as_secs_f64());
        figures.progress(&format!("{files} files {chunks} chunks, made in {took:.1} s"))?;
        let data = path.display().to_string();
        let arguments = ["master", "--data", &data].map(str::to_owned).to_vec();
        let master = Server::start("master", arguments, directory, janitor)?;
        let start = || HollowServers::start(&master.address, population, janitor);
        let servers = population.chunks.then(start).transpose()?;
        let rig = Self { population, options, master, scratch: directory, data, _servers: servers };
        rig.wait_until_told()?;
        Ok(rig)
    }

    /// Kills the master and starts it anew, with a checkpoint after so many records.
    pub(super) fn restart(&mut self, checkpoint_every: Option<u64>) -> Result<(), CliError> {
        self.master.kill();
        let mut arguments = ["master", "--data", &self.data].map(str::to_owned).to_vec();
        if let Some(count) = checkpoint_every {
            arguments.extend(["--checkpoint-every-records".to_owned(), count.to_string()]);
        }
        self.master.restart_with(arguments)
    }

    /// Waits until the master knows every replica of the population.
    pub(super) fn wait_until_told(&self) -> Result<(), CliError> {
        if !self.population.chunks {
            return Ok(());
        }
        watch(&self.master.address, self.population, Instant::now()).map(drop)
    }

    /// Does something as a client of the master.
    pub(super) fn with_cell<T, F>(
        &self,
        doing: impl Fn() -> String,
        work: impl FnOnce(Cell) -> F,
    ) -> Result<T, CliError>
    where
        F: Future<Output = Result<T, CliError>>,
    {
        let runtime = crate::runtime::one_thread().doing(&doing)?;
        runtime.block_on(async {
            let options = self.options.clone();
            work(Cell::connect(&self.master.address, options).await.doing(doing)?).await
        })
    }

    /// Processes of callers that all do `job`.
    pub(super) fn load(&self, job: Job, processes: u64, callers: u64) -> Load {
        Load { job, processes, callers, deadline_s: self.options.deadline.as_secs().max(60) }
    }

    /// One run of a load; the CPU seconds are the clients' and the master's.
    pub(super) fn run(&self, load: &Load) -> Result<Measured, CliError> {
        let mut all = self.run_together(std::slice::from_ref(load))?;
        all.pop().ok_or_else(|| {
            let cause = Cause::new(Exit::Failed, "no load was run", "");
            CliError::new("running a load", cause)
        })
    }

    /// Runs loads side by side. The master's CPU seconds are told with each, and are all of them's.
    pub(super) fn run_together(&self, loads: &[Load]) -> Result<Vec<Measured>, CliError> {
        let start = |load| Running::start(load, &self.master.address);
        let mut running = loads.iter().map(start).collect::<Result<Vec<_>, _>>()?;
        let pids: Vec<Vec<u32>> = running.iter().map(|one| one.pids().collect()).collect();
        let seconds = || {
            let of_loads: Vec<f64> = pids.iter().map(|pids| cpu::seconds(pids)).collect();
            (of_loads, cpu::seconds(&[self.master.pid]))
        };
        let before = seconds();
        running.iter_mut().try_for_each(Running::go)?;
        let mut all = Vec::new();
        for one in &mut running {
            all.push(one.measured()?);
        }
        let after = seconds();
        for (index, measured) in all.iter_mut().enumerate() {
            measured.master_cpu_seconds = after.1 - before.1;
            measured.cpu_seconds = after.0[index] - before.0[index] + measured.master_cpu_seconds;
        }
        Ok(all)
    }
}
