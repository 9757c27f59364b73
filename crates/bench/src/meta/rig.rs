//! A master that knows a population, and its hollow chunkservers.

use super::figures::Figures;
use super::hollow_servers::HollowServers;
use super::population::Population;
use super::seeding;
use super::watch::watch;
use crate::cpu;
use crate::error::{BenchCause, BenchError, Doing};
use crate::load::{CallerJob, Load, LoadFigures, RunningLoad};
use crate::surroundings::Surroundings;
use cairn_client::{Cell, Options};
use cairn_testkit::{ServerProcess, free_addresses};
use std::future::Future;
use std::time::{Duration, Instant};

/// The master, and its chunkservers where its files have chunks.
pub(crate) struct Rig {
    pub(crate) population: Population,
    pub(crate) options: Options,
    /// Where files of the bench may go.
    pub(crate) scratch: std::path::PathBuf,
    data: String,
    // Ends before the master does.
    _servers: Option<HollowServers>,
    master: ServerProcess,
    /// The other members of its group, where it has company.
    company: Vec<ServerProcess>,
}

impl Rig {
    /// Fills a directory called `name`, starts a master on it, and waits until every replica is
    /// told of.
    pub(crate) fn filled(
        around: &Surroundings,
        name: &str,
        population: Population,
        figures: &Figures<'_>,
    ) -> Result<Self, BenchError> {
        let Surroundings { options, program, janitor, directory, .. } = around;
        let path = directory.join(name);
        let begun = Instant::now();
        seeding::fill(&path, population)?;
        let chunks = if population.chunks { "with" } else { "without" };
        let (files, took) = (population.files, begun.elapsed().as_secs_f64());
        figures.progress(&format!("{files} files {chunks} chunks, made in {took:.1} s"))?;
        let data = path.display().to_string();
        let mut arguments = ["master", "--data", &data].map(str::to_owned).to_vec();
        arguments.extend(around.server_arguments.iter().cloned());
        let master = ServerProcess::start(program, "master", arguments, directory, janitor);
        let master = master.doing(|| "starting a master".to_owned())?;
        let start = || HollowServers::start(master.address(), population, janitor);
        let servers = population.chunks.then(start).transpose()?;
        let (options, scratch) = (options.clone(), directory.clone());
        let company = Vec::new();
        let rig = Self { population, options, scratch, data, _servers: servers, master, company };
        rig.wait_until_told()?;
        Ok(rig)
    }

    /// Starts two masters on empty disks and takes them into the group: how long it takes until
    /// they have all that there is, and vote.
    pub(crate) fn grow(&mut self, around: &Surroundings) -> Result<Duration, BenchError> {
        let doing = || "making a group of the master".to_owned();
        let Surroundings { program, janitor, directory, .. } = around;
        let at = free_addresses(2).doing(doing)?;
        for address in &at {
            let name = format!("member-{}", self.company.len() + 2);
            let data = directory.join(&name).display().to_string();
            let arguments = ["master", "--data", &data, "--peers", &at.join(",")];
            let mut arguments = arguments.map(str::to_owned).to_vec();
            arguments.extend(around.server_arguments.iter().cloned());
            let around = (directory.as_path(), janitor);
            let started = ServerProcess::start_at(address, program, &name, arguments, around);
            self.company.push(started.doing(doing)?);
        }
        let begun = Instant::now();
        let masters = at.join(",");
        let added = program.ask(&["masters", "add", &masters, "--cell", self.address()]);
        added.doing(doing)?;
        Ok(begun.elapsed())
    }

    /// Where the members listen that are not in charge.
    pub(crate) fn company(&self) -> impl Iterator<Item = &str> {
        self.company.iter().map(ServerProcess::address)
    }

    /// Where the master listens.
    pub(crate) fn address(&self) -> &str {
        self.master.address()
    }

    /// The number of its process.
    pub(crate) fn master_pid(&self) -> u32 {
        self.master.pid().expect("it runs whenever a step has the rig")
    }

    /// Kills the master and starts it anew, with a checkpoint after so many records.
    pub(crate) fn restart(&mut self, checkpoint_every: Option<u64>) -> Result<(), BenchError> {
        self.master.kill();
        let mut arguments = ["master", "--data", &self.data].map(str::to_owned).to_vec();
        if let Some(count) = checkpoint_every {
            arguments.extend(["--checkpoint-every-records".to_owned(), count.to_string()]);
        }
        self.master.restart_with(arguments).doing(|| "starting the master again".to_owned())
    }

    /// Waits until the master knows every replica of the population.
    pub(crate) fn wait_until_told(&self) -> Result<(), BenchError> {
        if !self.population.chunks {
            return Ok(());
        }
        watch(self.address(), self.population, Instant::now()).map(drop)
    }

    /// Does something as a client of the master.
    pub(crate) fn with_cell<T, F>(
        &self,
        doing: impl Fn() -> String,
        work: impl FnOnce(Cell) -> F,
    ) -> Result<T, BenchError>
    where
        F: Future<Output = Result<T, BenchError>>,
    {
        let runtime = crate::runtime::one_thread().doing(&doing)?;
        runtime.block_on(async {
            let options = self.options.clone();
            work(Cell::connect(self.address(), options).await.doing(doing)?).await
        })
    }

    /// Processes of callers that all do `job`.
    pub(crate) fn load(&self, job: CallerJob, processes: u64, callers: u64) -> Load {
        let deadline_s = self.options.deadline.as_secs().max(60);
        Load { job, processes, callers, deadline_s, by: None }
    }

    /// One run of a load; the CPU seconds are the clients' and the master's.
    pub(crate) fn run(&self, load: &Load) -> Result<LoadFigures, BenchError> {
        let mut all = self.run_together(std::slice::from_ref(load))?;
        all.pop().ok_or_else(|| {
            let cause = BenchCause::Part("no load was run".to_owned());
            BenchError::new("running a load", cause)
        })
    }

    /// Runs loads side by side. The master's CPU seconds are told with each, and are all of them's.
    pub(crate) fn run_together(&self, loads: &[Load]) -> Result<Vec<LoadFigures>, BenchError> {
        self.run_beside(loads, || Ok(())).map(|(figures, ())| figures)
    }

    /// The same, and does something else when they have begun.
    pub(crate) fn run_beside<T>(
        &self,
        loads: &[Load],
        work: impl FnOnce() -> Result<T, BenchError>,
    ) -> Result<(Vec<LoadFigures>, T), BenchError> {
        let start = |load| RunningLoad::start(load, self.address());
        let mut running = loads.iter().map(start).collect::<Result<Vec<_>, _>>()?;
        let pids: Vec<Vec<u32>> = running.iter().map(|one| one.pids().collect()).collect();
        let seconds = || {
            let of_loads: Vec<f64> = pids.iter().map(|pids| cpu::seconds(pids)).collect();
            (of_loads, cpu::seconds(&[self.master_pid()]))
        };
        let before = seconds();
        running.iter_mut().try_for_each(RunningLoad::go)?;
        let done = work()?;
        let mut all = Vec::new();
        for one in &mut running {
            all.push(one.figures()?);
        }
        let after = seconds();
        for (index, measured) in all.iter_mut().enumerate() {
            measured.master_cpu_seconds = after.1 - before.1;
            measured.cpu_seconds = after.0[index] - before.0[index] + measured.master_cpu_seconds;
        }
        Ok((all, done))
    }
}
