//! The cell that a bench measures: processes of its own, so that their CPU seconds can be told.

use crate::bench::cpu;
use crate::bench::load::{Load, Measured, Running};
use crate::cli_error::{Cause, CliError, Doing};
use crate::commands::demo::processes::Server;
use crate::exit_codes::Exit;
use crate::janitor::Janitor;
use cairn_client::{Cell, Options};
use cairn_protocol::ServerState;
use std::path::Path;
use std::time::{Duration, Instant};

const JOIN_WITHIN: Duration = Duration::from_secs(20);

pub(super) struct OwnCell<'j> {
    master: Server<'j>,
    servers: Vec<Server<'j>>,
}

impl<'j> OwnCell<'j> {
    /// Starts it and waits until every chunkserver has joined.
    pub(super) fn start(
        count: usize,
        options: &Options,
        directory: &Path,
        janitor: &'j Janitor,
    ) -> Result<Self, CliError> {
        let text = |name: String| directory.join(name).display().to_string();
        let data = text("master".to_owned());
        let arguments = ["master", "--data", &data].map(str::to_owned).to_vec();
        let master = Server::start("master", arguments, directory, janitor)?;
        let mut servers = Vec::new();
        for number in 1..=count {
            let data = text(format!("chunkserver-{number}"));
            let rack = format!("/rack-{number}");
            let arguments =
                ["chunkserver", "--master", &master.address, "--data", &data, "--rack", &rack];
            let arguments = arguments.map(str::to_owned).to_vec();
            let name = format!("chunkserver {number}");
            servers.push(Server::start(&name, arguments, directory, janitor)?);
        }
        let cell = Self { master, servers };
        cell.wait_until_joined(options)?;
        Ok(cell)
    }

    fn wait_until_joined(&self, options: &Options) -> Result<(), CliError> {
        let doing = || "waiting for the bench's chunkservers".to_owned();
        let runtime = crate::runtime::one_thread().doing(doing)?;
        let begun = Instant::now();
        runtime.block_on(async {
            let cell = Cell::connect(&self.master.address, options.clone()).await.doing(doing)?;
            loop {
                let servers = cell.servers().await.doing(doing)?;
                let live = servers.iter().filter(|s| s.state == ServerState::Live).count();
                if live == self.servers.len() {
                    return Ok(());
                }
                if begun.elapsed() > JOIN_WITHIN {
                    let why = format!("{live} of {} joined", self.servers.len());
                    return Err(CliError::new(doing(), Cause::new(Exit::Failed, why, "")));
                }
                std::thread::sleep(Duration::from_millis(20));
            }
        })
    }

    /// One run of a load against it.
    pub(super) fn run(&self, load: &Load) -> Result<Measured, CliError> {
        let mut running = Running::start(load, &self.master.address)?;
        let mut all: Vec<u32> = self.servers.iter().map(|server| server.pid).collect();
        all.push(self.master.pid);
        all.extend(running.pids());
        let before = (cpu::seconds(&all), cpu::seconds(&[self.master.pid]));
        running.go()?;
        let mut measured = running.measured()?;
        measured.cpu_seconds = cpu::seconds(&all) - before.0;
        measured.master_cpu_seconds = cpu::seconds(&[self.master.pid]) - before.1;
        Ok(measured)
    }
}
