//! The soak's cell: a master and four chunkservers in two racks, each a process with a log.
//!
//! A `cairn janitor` waits for our end, however it comes, and then ends the servers by their ids
//! and removes the files (O2).

use super::{Options, Programs, Teller};
use anyhow::{Context, Result, bail};
use serde_json::Value;
use std::fs::File;
use std::io::{BufRead, BufReader, Write};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, Command, Stdio};
use std::time::{Duration, Instant};

const SERVERS: usize = 4;
const PATIENCE: Duration = Duration::from_secs(90);
const LOOK_EVERY: Duration = Duration::from_millis(20);

/// Waits until `is_so`.
///
/// # Errors
/// When that takes too long.
pub(crate) fn await_until(what: &str, mut is_so: impl FnMut() -> Result<bool>) -> Result<Duration> {
    let started = Instant::now();
    while !is_so()? {
        if started.elapsed() > PATIENCE {
            bail!("waited {} s in vain for {what}", PATIENCE.as_secs());
        }
        std::thread::sleep(LOOK_EVERY);
    }
    Ok(started.elapsed())
}

/// One server.
#[derive(Debug)]
pub(crate) struct Server {
    pub(crate) name: String,
    pub(crate) address: String,
    arguments: Vec<String>,
    log: PathBuf,
    child: Option<Child>,
}

/// The cell.
#[derive(Debug)]
pub(crate) struct Cell {
    program: PathBuf,
    directory: PathBuf,
    janitor: Child,
    pipe: Option<ChildStdin>,
    pub(crate) master: Server,
    pub(crate) servers: Vec<Server>,
}

impl Drop for Cell {
    fn drop(&mut self) {
        for server in self.servers.iter_mut().chain([&mut self.master]) {
            end(server);
        }
        drop(self.pipe.take());
        let _ = self.janitor.wait();
    }
}

fn end(server: &mut Server) {
    if let Some(mut child) = server.child.take() {
        // Fails only for a process that has ended.
        let _ = child.kill();
        let _ = child.wait();
    }
}

impl Cell {
    /// Starts it and waits until all servers are live.
    ///
    /// # Errors
    /// With what a server's log says last.
    pub(crate) fn start(programs: &Programs, options: &Options, teller: &Teller) -> Result<Self> {
        let directory = std::env::temp_dir().join(format!("cairn-soak-{}", std::process::id()));
        std::fs::create_dir(&directory).with_context(|| directory.display().to_string())?;
        let mut command = Command::new(&programs.cairn);
        command.arg("janitor").process_group(0).stdin(Stdio::piped());
        let mut janitor = command.spawn().with_context(|| programs.cairn.display().to_string())?;
        let pipe = janitor.stdin.take();
        let master = Server::new("master", master_arguments(&directory, options)?, &directory);
        let (program, servers) = (programs.cairn.clone(), Vec::new());
        let mut cell = Self { program, directory, janitor, pipe, master, servers };
        if !options.keep {
            cell.tell_janitor(&format!("directory {}", cell.directory.display()));
        }
        cell.restart_master()?;
        for number in 1..=SERVERS {
            let data = cell.data(number);
            let rack = format!("/rack-{}", 1 + (number - 1) / 2);
            let address = cell.master.address.clone();
            let arguments = ["chunkserver", "--master", &address, "--data", &data, "--rack", &rack];
            let arguments = arguments.map(str::to_owned).to_vec();
            let name = format!("chunkserver-{number}");
            cell.servers.push(Server::new(&name, arguments, &cell.directory));
            cell.restart_server(number - 1)?;
        }
        cell.await_live(SERVERS)?;
        teller.say(format_args!("master {} and {SERVERS} chunkservers run", cell.master.address));
        Ok(cell)
    }

    /// Where everything of this soak lies.
    pub(crate) fn directory(&self) -> &Path {
        &self.directory
    }

    /// The data directory of chunkserver 1, 2, …
    pub(crate) fn data(&self, number: usize) -> String {
        self.directory.join(format!("data-{number}")).display().to_string()
    }

    /// `kill -9` of the master.
    pub(crate) fn kill_master(&mut self) {
        self.kill(None);
    }

    /// `kill -9` of the chunkserver at this place.
    pub(crate) fn kill_server(&mut self, at: usize) {
        self.kill(Some(at));
    }

    /// `kill -9` of everything at once: nothing is waited for before all have had it.
    pub(crate) fn kill_all(&mut self) {
        for server in self.servers.iter_mut().chain([&mut self.master]) {
            if let Some(child) = &mut server.child {
                let _ = child.kill();
            }
        }
        self.kill_master();
        (0..self.servers.len()).for_each(|at| self.kill_server(at));
    }

    /// Starts everything again, where it was.
    ///
    /// # Errors
    /// As for `start`.
    pub(crate) fn restart_all(&mut self) -> Result<()> {
        self.restart_master()?;
        (0..self.servers.len()).try_for_each(|at| self.restart_server(at))?;
        self.await_live(self.servers.len()).map(drop)
    }

    fn kill(&mut self, at: Option<usize>) {
        let server = at.map_or(&mut self.master, |at| &mut self.servers[at]);
        let pid = server.child.as_ref().map(Child::id);
        end(server);
        if let Some(pid) = pid {
            self.tell_janitor(&format!("gone {pid}"));
        }
    }

    /// Starts the master again.
    ///
    /// # Errors
    /// As for `start`.
    pub(crate) fn restart_master(&mut self) -> Result<()> {
        self.master.spawn(&self.program)?;
        self.watch(None)
    }

    /// Starts a chunkserver again.
    ///
    /// # Errors
    /// As for `start`.
    pub(crate) fn restart_server(&mut self, at: usize) -> Result<()> {
        self.servers[at].spawn(&self.program)?;
        self.watch(Some(at))
    }

    /// Has the janitor know a new process, and then waits until that is ready.
    fn watch(&mut self, at: Option<usize>) -> Result<()> {
        let server = at.map_or(&self.master, |at| &self.servers[at]);
        let pid = server.child.as_ref().map(Child::id).context("started just now")?;
        self.tell_janitor(&format!("process {pid}"));
        at.map_or(&mut self.master, |at| &mut self.servers[at]).await_ready()
    }

    fn tell_janitor(&mut self, line: &str) {
        if let Some(pipe) = &mut self.pipe {
            // A janitor that was killed is a pity and no reason to stop.
            let _ = writeln!(pipe, "{line}");
        }
    }

    /// Waits until so many chunkservers are live; how long that took.
    ///
    /// # Errors
    /// When it takes too long.
    pub(crate) fn await_live(&self, count: usize) -> Result<Duration> {
        await_until(&format!("{count} live chunkservers"), || {
            let Ok(servers) = self.cairn(&["servers", "--json"]) else { return Ok(false) };
            Ok(servers.matches("\"state\":\"live\"").count() == count)
        })
    }

    /// Runs one `cairn` command against the cell, as a person would; what it wrote to stdout.
    ///
    /// # Errors
    /// With its own last line.
    pub(crate) fn cairn(&self, arguments: &[&str]) -> Result<String> {
        let mut command = program(&self.program);
        command.args(arguments).args(["--cell", &self.master.address]).stdin(Stdio::null());
        let output = command.output().context("cannot start cairn")?;
        if !output.status.success() {
            let stderr = String::from_utf8_lossy(&output.stderr);
            bail!("cairn {}: {}", arguments.join(" "), stderr.lines().last().unwrap_or_default());
        }
        String::from_utf8(output.stdout).context("cairn's output is no text")
    }

    /// The chunks of a file, as `stat --chunks --json` tells them.
    ///
    /// # Errors
    /// When it does not.
    pub(crate) fn chunks(&self, path: &str) -> Result<Vec<Value>> {
        let text = self.cairn(&["stat", "--chunks", "--json", path])?;
        let value: Value = serde_json::from_str(&text)?;
        value["chunks"].as_array().cloned().with_context(|| format!("no chunks in {text}"))
    }

    /// The places of the servers of a file's last chunk, once it has a primary: that one, and the
    /// others.
    ///
    /// # Errors
    /// When there is none for long.
    pub(crate) fn last_chunk_servers(&self, path: &str) -> Result<(usize, Vec<usize>)> {
        let mut found = None;
        await_until("a primary of the last chunk", || {
            let chunks = self.chunks(path)?;
            let replicas = chunks.last().and_then(|chunk| chunk["replicas"].as_array());
            let places = |primary: bool| -> Vec<usize> {
                let wanted = replicas.into_iter().flatten().filter(|at| at["primary"] == primary);
                wanted.filter_map(|at| self.place(&at["address"])).collect()
            };
            found = places(true).first().map(|primary| (*primary, places(false)));
            Ok(found.is_some())
        })?;
        found.context("found just now")
    }

    /// Which of our servers listens there.
    pub(crate) fn place(&self, address: &Value) -> Option<usize> {
        let address = address.as_str()?;
        self.servers.iter().position(|server| server.address == address)
    }
}

fn master_arguments(directory: &Path, options: &Options) -> Result<Vec<String>> {
    let data = directory.join("master").display().to_string();
    let mut arguments = vec!["master".to_owned(), "--data".to_owned(), data];
    if options.small_cell {
        arguments.push("--small-cell".to_owned());
    }
    if let Some(chunk_size) = options.chunk_size {
        let settings = directory.join("settings.toml");
        std::fs::write(&settings, format!("[new_cell]\nchunk_size = {chunk_size}\n"))?;
        arguments.extend(["--config".to_owned(), settings.display().to_string()]);
    }
    Ok(arguments)
}

/// The binary, with nothing of this shell's settings.
fn program(path: &Path) -> Command {
    let mut command = Command::new(path);
    for (variable, _) in std::env::vars_os() {
        if variable.to_string_lossy().starts_with("CAIRN_") {
            command.env_remove(variable);
        }
    }
    command
}

impl Server {
    fn new(name: &str, arguments: Vec<String>, directory: &Path) -> Self {
        let log = directory.join(format!("{name}.log"));
        let address = "127.0.0.1:0".to_owned();
        Self { name: name.to_owned(), address, arguments, log, child: None }
    }

    fn spawn(&mut self, path: &Path) -> Result<()> {
        let log = File::options().create(true).append(true).open(&self.log)?;
        let mut command = program(path);
        command.args(&self.arguments).args(["--listen", &self.address]);
        command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(log);
        self.child = Some(command.spawn().with_context(|| format!("starting {}", self.name))?);
        Ok(())
    }

    /// Reads the line that says where it listens; a server that ends before it never will.
    fn await_ready(&mut self) -> Result<()> {
        let stdout = self.child.as_mut().and_then(|child| child.stdout.take());
        let mut line = String::new();
        BufReader::new(stdout.context("piped")?).read_line(&mut line)?;
        let address = line.trim().rsplit_once(" ready on ").map(|(_, address)| address.to_owned());
        self.address = address.with_context(|| {
            let text = std::fs::read_to_string(&self.log).unwrap_or_default();
            format!("{} did not start: {}", self.name, text.lines().last().unwrap_or_default())
        })?;
        Ok(())
    }
}
