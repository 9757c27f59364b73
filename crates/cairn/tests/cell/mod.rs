//! A cell of real processes for tests: free ports, scratch directories, an end by process id.
//!
//! - T1: every process that was started ends when its owner is dropped, whatever the test did.
//! - T2: no command may hang: one that takes longer than a minute fails the test.
//! - T3: the one place in the tests that sleeps is `await_until`.

#![allow(dead_code, reason = "each test file uses its part of this")]

use std::ffi::OsStr;
use std::fs::File;
use std::io::{BufRead, BufReader, Write};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::time::{Duration, Instant};
use tempfile::TempDir;

/// Longer than anything a healthy machine needs, even a busy one.
const PATIENCE: Duration = Duration::from_secs(60);
const LOOK_EVERY: Duration = Duration::from_millis(10);

/// Small chunks and quick deaths: the rare paths become common, and no test waits long.
pub(crate) const SETTINGS: &str = "\
[new_cell]
chunk_size = 1048576
block_size = 4096
heartbeat_ms = 100
silent_ms = 500
lease_ms = 1500
dead_ms = 2500
";

/// Waits until `is_so`, and fails the test where that takes too long.
pub(crate) fn await_until(what: &str, mut is_so: impl FnMut() -> bool) {
    let started = Instant::now();
    while !is_so() {
        assert!(started.elapsed() < PATIENCE, "waited in vain: {what}");
        std::thread::sleep(LOOK_EVERY);
    }
}

/// What a command did.
#[derive(Debug)]
pub(crate) struct Done {
    pub(crate) status: ExitStatus,
    pub(crate) stdout: Vec<u8>,
    pub(crate) stderr: String,
}

impl Done {
    pub(crate) fn code(&self) -> i32 {
        self.status.code().expect("it ended by itself")
    }

    pub(crate) fn text(&self) -> String {
        String::from_utf8(self.stdout.clone()).expect("text")
    }
}

/// A command of the binary under test, with nothing of this shell's settings.
pub(crate) fn cairn<S: AsRef<OsStr>>(arguments: impl IntoIterator<Item = S>) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_cairn"));
    command.args(arguments).stdin(Stdio::null());
    for (variable, _) in std::env::vars_os() {
        if variable.to_string_lossy().starts_with("CAIRN_") {
            command.env_remove(variable);
        }
    }
    command
}

/// Runs a command to its end; its output goes to files, so that no pipe can fill up.
pub(crate) fn run(mut command: Command, stdin: &[u8]) -> Done {
    let scratch = TempDir::new().expect("a scratch directory");
    let at = |name: &str| scratch.path().join(name);
    std::fs::write(at("in"), stdin).expect("writes");
    let new = |name: &str| File::create(at(name)).expect("creates");
    command.stdin(File::open(at("in")).expect("opens")).stdout(new("out")).stderr(new("err"));
    let mut child = KilledOnDrop(command.spawn().expect("starts"));
    let mut status = None;
    await_until(&format!("the end of {command:?}"), || {
        status = child.0.try_wait().expect("can be asked");
        status.is_some()
    });
    Done {
        status: status.expect("waited for"),
        stdout: std::fs::read(at("out")).expect("reads"),
        stderr: std::fs::read_to_string(at("err")).expect("reads"),
    }
}

/// A process that does not outlive its owner.
pub(crate) struct KilledOnDrop(pub(crate) Child);

impl Drop for KilledOnDrop {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// One server process, which can be killed and started again where it was.
pub(crate) struct Server {
    pub(crate) address: String,
    pub(crate) log: PathBuf,
    arguments: Vec<String>,
    child: Option<KilledOnDrop>,
}

impl Server {
    pub(crate) fn start(arguments: &[&str], log: PathBuf) -> Self {
        let arguments: Vec<String> = arguments.iter().map(|text| (*text).to_owned()).collect();
        let (child, address) = spawn(&arguments, "127.0.0.1:0", &log);
        Self { address, log, arguments, child: Some(child) }
    }

    /// `kill -9`.
    pub(crate) fn kill(&mut self) {
        self.child = None;
    }

    pub(crate) fn restart(&mut self) {
        assert!(self.child.is_none(), "killed before");
        self.child = Some(spawn(&self.arguments, &self.address, &self.log).0);
    }

    pub(crate) fn runs(&mut self) -> bool {
        let child = self.child.as_mut();
        child.is_some_and(|child| child.0.try_wait().expect("can be asked").is_none())
    }
}

fn spawn(arguments: &[String], listen: &str, log: &Path) -> (KilledOnDrop, String) {
    let stderr = File::options().create(true).append(true).open(log).expect("opens the log");
    let mut command = cairn(arguments);
    command.args(["--listen", listen]).stdout(Stdio::piped()).stderr(stderr);
    let mut child = KilledOnDrop(command.spawn().expect("starts"));
    let mut stdout = BufReader::new(child.0.stdout.take().expect("piped"));
    // Ends with the process at the latest; a server that is not ready by then never will be.
    let mut line = String::new();
    stdout.read_line(&mut line).expect("reads");
    let address = line.trim().rsplit_once(" ready on ").map(|(_, address)| address.to_owned());
    let told = || std::fs::read_to_string(log).unwrap_or_default();
    let address = address.unwrap_or_else(|| panic!("{arguments:?} did not start: {}", told()));
    (child, address)
}

/// A master and chunkservers, each a process.
pub(crate) struct Cell {
    pub(crate) directory: TempDir,
    pub(crate) master: Server,
    pub(crate) servers: Vec<Server>,
}

impl Cell {
    /// Starts `servers` chunkservers and waits until all are live.
    pub(crate) fn start(servers: usize) -> Self {
        Self::start_with(servers, SETTINGS, |directory, number| {
            directory.join(format!("chunkserver-{number}"))
        })
    }

    /// With settings of its own, and data directories where the caller wants them.
    pub(crate) fn start_with(
        servers: usize,
        settings: &str,
        data: impl Fn(&Path, usize) -> PathBuf,
    ) -> Self {
        let directory = TempDir::new().expect("a scratch directory");
        let at = |name: &str| directory.path().join(name);
        std::fs::write(at("settings.toml"), settings).expect("writes");
        let settings = at("settings.toml").display().to_string();
        let data_of_master = at("master").display().to_string();
        let arguments = ["master", "--config", &settings, "--data", &data_of_master];
        let master = Server::start(&arguments, at("master.log"));
        let chunkservers = (1..=servers).map(|number| {
            let data = data(directory.path(), number).display().to_string();
            let rack = format!("/rack-{}", number % 2);
            let arguments =
                ["chunkserver", "--master", &master.address, "--data", &data, "--rack", &rack];
            Server::start(&arguments, at(&format!("chunkserver-{number}.log")))
        });
        let servers = chunkservers.collect();
        let cell = Self { directory, master, servers };
        cell.await_live(cell.servers.len());
        cell
    }

    /// Waits until so many chunkservers are live.
    pub(crate) fn await_live(&self, count: usize) {
        await_until(&format!("{count} live chunkservers"), || {
            let done = self.run(["servers", "--json"]);
            done.status.success() && done.text().matches("\"state\":\"live\"").count() == count
        });
    }

    /// A path in the cell's scratch directory.
    pub(crate) fn local(&self, name: &str) -> PathBuf {
        self.directory.path().join(name)
    }

    /// A local file with this content; its path as text.
    pub(crate) fn file(&self, name: &str, content: &[u8]) -> String {
        let path = self.local(name);
        std::fs::write(&path, content).expect("writes");
        path.display().to_string()
    }

    /// A command against this cell.
    pub(crate) fn command<S: AsRef<OsStr>>(
        &self,
        arguments: impl IntoIterator<Item = S>,
    ) -> Command {
        let mut command = cairn(arguments);
        command.env("CAIRN_CELL", &self.master.address);
        command
    }

    /// Runs a command against this cell.
    pub(crate) fn run<S: AsRef<OsStr>>(&self, arguments: impl IntoIterator<Item = S>) -> Done {
        run(self.command(arguments), b"")
    }

    /// Runs a command that must succeed, with `stdin`; what it wrote to stdout.
    pub(crate) fn ok_with<S: AsRef<OsStr>>(
        &self,
        arguments: impl IntoIterator<Item = S>,
        stdin: &[u8],
    ) -> Vec<u8> {
        let command = self.command(arguments);
        let shown = format!("{command:?}");
        let done = run(command, stdin);
        assert!(done.status.success(), "{shown}: {}", done.stderr);
        done.stdout
    }

    /// Runs a command that must succeed; its output as text.
    pub(crate) fn ok<S: AsRef<OsStr>>(&self, arguments: impl IntoIterator<Item = S>) -> String {
        String::from_utf8(self.ok_with(arguments, b"")).expect("text")
    }
}

/// Reads a file that another process is writing until it has what is wanted.
pub(crate) fn await_output(path: &Path, wanted: &str) {
    await_until(&format!("{wanted:?} in {}", path.display()), || {
        std::fs::read_to_string(path).is_ok_and(|text| text.contains(wanted))
    });
}

/// Writes to a child's stdin what it shall read next.
pub(crate) fn feed(child: &mut Child, bytes: &[u8]) {
    let stdin = child.stdin.as_mut().expect("piped");
    stdin.write_all(bytes).and_then(|()| stdin.flush()).expect("it reads");
}
