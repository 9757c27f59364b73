//! Masters and chunkservers, each a process.

use crate::await_until::{PATIENCE, await_until};
use crate::error::HarnessError;
use crate::janitor::Janitor;
use crate::program::Program;
use crate::server_process::ServerProcess;
use serde_json::Value;
use std::collections::BTreeMap;
use std::net::TcpListener;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU16, Ordering};
use std::time::Duration;

/// Where a server runs, where that is not here.
#[derive(Clone, Debug)]
pub struct Host {
    /// The binary, run there.
    pub program: Program,
    /// Where it listens.
    pub listen: String,
    /// Its rack.
    pub rack: String,
}

/// Which masters a cell is to have.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum MastersPlan {
    /// One, which founds the cell by itself.
    Alone,
    /// A group of one, three or five.
    Group(usize),
    /// So many that were told of each other; nobody makes a group of them yet.
    Waiting(usize),
    /// One, which founds the cell, and so many that wait to be taken in.
    Growing(usize),
}

/// A master, as `cairn masters` shows it.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct MasterRow {
    /// Where it listens.
    pub address: String,
    /// What it is; empty where it does not answer.
    pub role: String,
    /// Its term.
    pub term: Option<u64>,
    /// The last record that it has applied.
    pub applied: Option<u64>,
}

/// What cell is to be started.
#[derive(Clone, Debug)]
pub struct CellPlan {
    /// Of which binary.
    pub program: Program,
    /// Data and logs; made, and removed in the end.
    pub directory: PathBuf,
    /// Leave the directory.
    pub keep: bool,
    /// Its masters.
    pub masters: MastersPlan,
    /// How many.
    pub chunkservers: usize,
    /// Chunkservers that share a rack.
    pub servers_per_rack: usize,
    /// The master's settings file; empty: it has none.
    pub settings: String,
    /// Further arguments of the master.
    pub master_arguments: Vec<String>,
    /// Further arguments of each chunkserver.
    pub chunkserver_arguments: Vec<String>,
    /// Addresses that the chunkservers are told beside the master's own, before it.
    pub masters_before: Vec<String>,
    /// Where the chunkservers keep their data, where not in `directory`.
    pub data: Option<PathBuf>,
    /// The data directories of single chunkservers, by number from 1, where they are others.
    pub disks: BTreeMap<usize, Vec<PathBuf>>,
    /// The master's, and then each chunkserver's; empty: all run on this machine.
    pub hosts: Vec<Host>,
    /// Those of the masters of a group, where they do not run on this machine.
    pub master_hosts: Vec<Host>,
    /// Where the masters of a group keep their data, where not in `directory`.
    pub master_disks: Vec<PathBuf>,
}

impl CellPlan {
    /// Of `chunkservers` in racks of two, with the settings of a cell that nobody has set.
    #[must_use]
    pub fn new(program: Program, directory: impl Into<PathBuf>, chunkservers: usize) -> Self {
        Self {
            program,
            directory: directory.into(),
            keep: false,
            masters: MastersPlan::Alone,
            chunkservers,
            servers_per_rack: 2,
            settings: String::new(),
            master_arguments: Vec::new(),
            chunkserver_arguments: Vec::new(),
            masters_before: Vec::new(),
            data: None,
            disks: BTreeMap::new(),
            hosts: Vec::new(),
            master_hosts: Vec::new(),
            master_disks: Vec::new(),
        }
    }
}

/// The cell; ended when dropped.
#[derive(Debug)]
pub struct CellProcesses {
    /// Its master; or all of them, by number from 0; their names count from 1 then.
    pub masters: Vec<ServerProcess>,
    /// Its chunkservers, by number from 0; their names count from 1.
    pub chunkservers: Vec<ServerProcess>,
    /// Where its masters listen, with commas between.
    address: String,
    plan: CellPlan,
    // The last to go: it removes the directory once every process has ended.
    janitor: Arc<Janitor>,
}

impl CellProcesses {
    /// Starts it and waits until all chunkservers are live.
    ///
    /// # Errors
    /// With what is in the way.
    pub fn start(plan: CellPlan) -> Result<Self, HarnessError> {
        let directory = &plan.directory;
        let making = HarnessError::local(format!("making {}", directory.display()));
        std::fs::create_dir_all(directory).map_err(making)?;
        let janitor = Janitor::start(&plan.program, (!plan.keep).then_some(directory.as_path()))?;
        let janitor = Arc::new(janitor);
        let masters = plan.start_masters(&janitor)?;
        let address = addresses(&masters);
        if let MastersPlan::Group(_) = plan.masters {
            plan.program.ask(&["masters", "create", &address])?;
        }
        let chunkserver = |number| {
            let arguments = plan.arguments_of_chunkserver(number, &address);
            plan.start_server(number, arguments, &janitor)
        };
        let chunkservers =
            (1..=plan.chunkservers).map(chunkserver).collect::<Result<Vec<_>, _>>()?;
        let cell = Self { masters, address, chunkservers, plan, janitor };
        if !cell.chunkservers.is_empty() {
            cell.await_live(cell.chunkservers.len())?;
        }
        Ok(cell)
    }

    /// Starts one chunkserver more, with a data directory of its own, in the rack that comes next.
    ///
    /// # Errors
    /// With what is in the way.
    pub fn add_chunkserver(&mut self) -> Result<(), HarnessError> {
        let number = self.chunkservers.len() + 1;
        let (plan, janitor) = (&self.plan, &self.janitor);
        let arguments = plan.arguments_of_chunkserver(number, &self.address);
        self.chunkservers.push(plan.start_server(number, arguments, janitor)?);
        self.plan.chunkservers = number;
        Ok(())
    }

    /// Where its master listens; of several, with commas between.
    #[must_use]
    pub fn address(&self) -> &str {
        &self.address
    }

    /// Its masters as they tell of themselves; none where nobody answers.
    #[must_use]
    pub fn listed_masters(&self) -> Vec<MasterRow> {
        let told = self.ask(&["masters", "--json"]).unwrap_or_default();
        let told: Value = serde_json::from_str(told.trim()).unwrap_or_default();
        let text = |it: &Value, key: &str| it[key].as_str().unwrap_or_default().to_owned();
        let row = |it: &Value| MasterRow {
            address: text(it, "address"),
            role: text(it, "role"),
            term: it["term"].as_u64(),
            applied: it["applied"].as_u64(),
        };
        told["masters"].as_array().map(|rows| rows.iter().map(row).collect()).unwrap_or_default()
    }

    /// Waits until every master answers.
    ///
    /// # Errors
    /// Where that takes too long.
    pub fn await_masters(&self) -> Result<(), HarnessError> {
        await_until("every master to answer", PATIENCE, || {
            let rows = self.listed_masters();
            Ok::<_, HarnessError>(!rows.is_empty() && rows.iter().all(|it| it.applied.is_some()))
        })
        .map(drop)
    }

    /// Waits until one master says that it is in charge; its number.
    ///
    /// # Errors
    /// Where that takes too long, or it is none of these.
    pub fn in_charge(&self) -> Result<usize, HarnessError> {
        let mut found = None;
        await_until("a master in charge", PATIENCE, || {
            let mut rows = self.listed_masters();
            rows.retain(|row| row.role == "primary");
            found = match rows.as_slice() {
                [row] => self.masters.iter().position(|it| it.address() == row.address),
                _ => None,
            };
            Ok::<_, HarnessError>(found.is_some())
        })?;
        Ok(found.expect("waited for"))
    }

    /// Its binary.
    #[must_use]
    pub fn program(&self) -> &Program {
        &self.plan.program
    }

    /// What chunkserver 1, 2, … is started with.
    #[must_use]
    pub fn arguments_of(&self, number: usize) -> Vec<String> {
        self.plan.arguments_of_chunkserver(number, self.address())
    }

    /// Where everything of it lies.
    #[must_use]
    pub fn directory(&self) -> &Path {
        &self.plan.directory
    }

    /// The data directory of chunkserver 1, 2, …
    #[must_use]
    pub fn data_of(&self, number: usize) -> PathBuf {
        self.plan.data_of(number)
    }

    /// Which of its chunkservers listens at `address`.
    #[must_use]
    pub fn chunkserver_at(&self, address: &str) -> Option<usize> {
        self.chunkservers.iter().position(|server| server.address() == address)
    }

    /// Runs one `cairn` command against it, as a person would; what it wrote to stdout.
    ///
    /// # Errors
    /// With its own last line where it fails.
    pub fn ask(&self, arguments: &[&str]) -> Result<String, HarnessError> {
        self.plan.program.ask(&[arguments, &["--cell", self.address()]].concat())
    }

    /// Waits until so many chunkservers are live; how long that took.
    ///
    /// # Errors
    /// Where it takes too long.
    pub fn await_live(&self, count: usize) -> Result<Duration, HarnessError> {
        await_until(&format!("{count} live chunkservers"), PATIENCE, || {
            // A master that was started this moment may not answer yet.
            let Ok(servers) = self.ask(&["servers", "--json"]) else { return Ok(false) };
            Ok(servers.matches("\"state\":\"live\"").count() == count)
        })
    }

    /// `kill -9` of everything at once: nothing is waited for before all have had it.
    pub fn kill_all(&mut self) {
        self.each(ServerProcess::signal_kill);
        self.each(ServerProcess::kill);
    }

    fn each(&mut self, what: impl FnMut(&mut ServerProcess)) {
        self.chunkservers.iter_mut().chain(&mut self.masters).for_each(what);
    }

    /// Starts everything again, where it was, and waits until all chunkservers are live.
    ///
    /// # Errors
    /// As for `start`.
    pub fn restart_all(&mut self) -> Result<Duration, HarnessError> {
        self.masters.iter_mut().try_for_each(ServerProcess::restart)?;
        self.chunkservers.iter_mut().try_for_each(ServerProcess::restart)?;
        self.await_live(self.chunkservers.len())
    }
}

impl Drop for CellProcesses {
    /// All at once: while one is waited for, the others would go on, and heal.
    fn drop(&mut self) {
        self.kill_all();
    }
}

fn name(number: usize) -> String {
    format!("chunkserver-{number}")
}

fn addresses(masters: &[ServerProcess]) -> String {
    masters.iter().map(ServerProcess::address).collect::<Vec<&str>>().join(",")
}

/// Ports that no system gives to whoever dials without asking for one: a port of those may be taken
/// by anybody's connection between the look and the server's start.
const PORTS: std::ops::Range<u16> = 15_000..32_000;

/// Addresses of this machine at which nobody listens now.
///
/// # Errors
/// Where it gives none.
pub fn free_addresses(count: usize) -> Result<Vec<String>, HarnessError> {
    static NEXT: AtomicU16 = AtomicU16::new(0);
    // Processes of tests begin at places of their own, and each goes on from its own last.
    let begin = std::process::id().wrapping_mul(7_919);
    let mut free = Vec::with_capacity(count);
    for _ in PORTS {
        if free.len() == count {
            break;
        }
        let place = begin.wrapping_add(u32::from(NEXT.fetch_add(1, Ordering::Relaxed)));
        let within = u16::try_from(place % u32::from(PORTS.end - PORTS.start));
        let port = PORTS.start + within.expect("a place of the range");
        if TcpListener::bind(("127.0.0.1", port)).is_ok() {
            free.push(format!("127.0.0.1:{port}"));
        }
    }
    if free.len() == count {
        return Ok(free);
    }
    let none = std::io::Error::from(std::io::ErrorKind::AddrInUse);
    Err(HarnessError::local("looking for free ports".to_owned())(none))
}

impl CellPlan {
    /// Starts the masters; several know of each other.
    fn start_masters(&self, janitor: &Arc<Janitor>) -> Result<Vec<ServerProcess>, HarnessError> {
        let (count, founds_alone) = match self.masters {
            MastersPlan::Alone => {
                let only = self.start_server(
                    0,
                    self.arguments_of_master(&self.directory.join("master"))?,
                    janitor,
                )?;
                return Ok(vec![only]);
            }
            MastersPlan::Group(count) | MastersPlan::Waiting(count) => (count, false),
            MastersPlan::Growing(more) => (1 + more, true),
        };
        let at = match self.master_hosts.as_slice() {
            [] => free_addresses(count)?,
            hosts => hosts.iter().map(|host| host.listen.clone()).collect(),
        };
        let peers = at.join(",");
        let start = |(number, listen): (usize, &String)| {
            let name = format!("master-{number}");
            let disk = self.master_disks.get(number - 1);
            let usual = || self.directory.join(&name);
            let mut arguments = self.arguments_of_master(&disk.cloned().unwrap_or_else(usual))?;
            if number > 1 || !founds_alone {
                arguments.extend(["--peers".to_owned(), peers.clone()]);
            }
            let around = (self.directory.as_path(), janitor);
            let host = self.master_hosts.get(number - 1);
            let program = host.map_or(&self.program, |host| &host.program);
            ServerProcess::start_at(listen, program, &name, arguments, around)
        };
        (1..).zip(&at).map(start).collect()
    }

    /// Starts the master, which is number 0, or a chunkserver, on its host.
    fn start_server(
        &self,
        number: usize,
        arguments: Vec<String>,
        janitor: &Arc<Janitor>,
    ) -> Result<ServerProcess, HarnessError> {
        let name = if number == 0 { "master".to_owned() } else { name(number) };
        let around = (self.directory.as_path(), janitor);
        match self.hosts.get(number) {
            Some(Host { program, listen, .. }) => {
                ServerProcess::start_at(listen, program, &name, arguments, around)
            }
            None => ServerProcess::start(&self.program, &name, arguments, around.0, janitor),
        }
    }

    fn data_of(&self, number: usize) -> PathBuf {
        let own = self.disks.get(&number).and_then(|disks| disks.first());
        let usual = || self.data.as_ref().unwrap_or(&self.directory).join(name(number));
        own.cloned().unwrap_or_else(usual)
    }

    fn arguments_of_master(&self, data: &Path) -> Result<Vec<String>, HarnessError> {
        let data = data.display().to_string();
        let mut arguments = vec!["master".to_owned(), "--data".to_owned(), data];
        arguments.extend(self.master_arguments.iter().cloned());
        if !self.settings.is_empty() {
            let path = self.directory.join("settings.toml");
            let shown = path.display().to_string();
            let writing = HarnessError::local(format!("writing {shown}"));
            std::fs::write(path, &self.settings).map_err(writing)?;
            arguments.extend(["--config".to_owned(), shown]);
        }
        Ok(arguments)
    }

    fn arguments_of_chunkserver(&self, number: usize, master: &str) -> Vec<String> {
        let usual = || format!("/rack-{}", 1 + (number - 1) / self.servers_per_rack.max(1));
        let rack = self.hosts.get(number).map_or_else(usual, |host| host.rack.clone());
        let before = self.masters_before.iter().map(String::as_str);
        let masters = before.chain([master]).collect::<Vec<_>>().join(",");
        let arguments = ["chunkserver", "--master", &masters, "--rack", &rack];
        let mut arguments = arguments.map(str::to_owned).to_vec();
        let disks = self.disks.get(&number).cloned();
        for disk in disks.unwrap_or_else(|| vec![self.data_of(number)]) {
            arguments.extend(["--data".to_owned(), disk.display().to_string()]);
        }
        arguments.extend(self.chunkserver_arguments.iter().cloned());
        arguments
    }
}
