//! A cell of real processes for the binary's tests: `cairn_testkit`'s, with what tests say often.
//!
//! - T2 of the harness holds for commands too: one that takes longer than `PATIENCE` fails the
//!   test.

#![allow(dead_code, reason = "each test file uses its part of this")]

pub(crate) mod guide;
pub(crate) mod library;
pub(crate) mod row;
pub(crate) mod small_disk;

use cairn_testkit::{CellPlan, CellProcesses, HarnessError, PATIENCE, Program};
use serde_json::Value;
use std::ffi::OsStr;
use std::fs::File;
use std::io::Write;
use std::ops::{Deref, DerefMut};
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus};
use tempfile::TempDir;

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

/// The same, where deaths are not believed in while a test runs.
pub(crate) fn patient() -> String {
    let (quick, never) = ("dead_ms = 2500", "dead_ms = 600000");
    assert!(SETTINGS.contains(quick), "{SETTINGS}");
    SETTINGS.replace(quick, never)
}

/// The same, where a file of very many chunks is a small one.
pub(crate) fn tiny_chunks() -> String {
    let sizes = "chunk_size = 1048576\nblock_size = 4096";
    assert!(SETTINGS.contains(sizes), "{SETTINGS}");
    SETTINGS.replace(sizes, "chunk_size = 4096\nblock_size = 1024")
}

/// The binary under test, or `$CAIRN_BINARY`: with an older one a test shows that it can fail.
pub(crate) fn program() -> Program {
    let other = std::env::var_os("CAIRN_BINARY");
    other.map_or_else(|| Program::at(env!("CARGO_BIN_EXE_cairn")), Program::at)
}

/// Waits until `is_so`, and fails the test where that takes too long.
pub(crate) fn await_until(what: &str, mut is_so: impl FnMut() -> bool) {
    let waited = cairn_testkit::await_until(what, PATIENCE, || Ok::<_, HarnessError>(is_so()));
    waited.expect("it comes");
}

/// What a command did.
#[derive(Debug)]
pub(crate) struct Finished {
    pub(crate) status: ExitStatus,
    pub(crate) stdout: Vec<u8>,
    pub(crate) stderr: String,
}

impl Finished {
    pub(crate) fn code(&self) -> i32 {
        self.status.code().expect("it ended by itself")
    }

    pub(crate) fn text(&self) -> String {
        String::from_utf8(self.stdout.clone()).expect("text")
    }
}

/// A command of the binary under test, with nothing of this shell's settings.
pub(crate) fn cairn<S: AsRef<OsStr>>(arguments: impl IntoIterator<Item = S>) -> Command {
    program().command(arguments)
}

/// Runs a command to its end; its output goes to files, so that no pipe can fill up.
pub(crate) fn run(mut command: Command, stdin: &[u8]) -> Finished {
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
    Finished {
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

/// A master and chunkservers, each a process, in a scratch directory.
pub(crate) struct Cell {
    processes: CellProcesses,
    directory: TempDir,
}

impl Deref for Cell {
    type Target = CellProcesses;

    fn deref(&self) -> &CellProcesses {
        &self.processes
    }
}

impl DerefMut for Cell {
    fn deref_mut(&mut self) -> &mut CellProcesses {
        &mut self.processes
    }
}

impl Cell {
    /// Starts `servers` chunkservers and waits until all are live.
    pub(crate) fn start(servers: usize) -> Self {
        Self::start_with(servers, SETTINGS, None)
    }

    /// With settings of its own, and the chunkservers' data where the caller wants it.
    pub(crate) fn start_with(servers: usize, settings: &str, data: Option<&Path>) -> Self {
        Self::start_plan(servers, |plan| {
            plan.settings = settings.to_owned();
            plan.data = data.map(Path::to_owned);
        })
    }

    /// With a plan of its own.
    pub(crate) fn start_plan(servers: usize, change: impl FnOnce(&mut CellPlan)) -> Self {
        let directory = TempDir::new().expect("a scratch directory");
        let mut plan = CellPlan::new(program(), directory.path(), servers);
        plan.settings = SETTINGS.to_owned();
        change(&mut plan);
        Self { processes: CellProcesses::start(plan).expect("starts"), directory }
    }

    /// Where its data and logs lie too.
    pub(crate) fn scratch(&self) -> &Path {
        self.directory.path()
    }

    /// A path in the scratch directory.
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
        command.env("CAIRN_CELL", self.address());
        command
    }

    /// Runs a command against this cell.
    pub(crate) fn run<S: AsRef<OsStr>>(&self, arguments: impl IntoIterator<Item = S>) -> Finished {
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
        let said = String::from_utf8_lossy(&done.stdout);
        assert!(done.status.success(), "{shown}: {}\n{said}", done.stderr);
        done.stdout
    }

    /// The one value that a command tells with `--json`.
    pub(crate) fn json(&self, arguments: &[&str]) -> Value {
        let text = self.ok([&["--json"], arguments].concat());
        serde_json::from_str(text.trim()).expect("one JSON value")
    }

    /// The number that `status` tells under a name.
    pub(crate) fn status(&self, name: &str) -> u64 {
        self.json(&["status"])[name].as_u64().expect("a number")
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

/// How many records a producer has in a stream.
pub(crate) fn committed_of(cell: &Cell, stream: &str, producer: &str) -> u64 {
    let text = cell.ok(["--json", "producers", stream]);
    let all = text.lines().map(|line| serde_json::from_str::<Value>(line).expect("one each line"));
    let number = all.filter(|one| one["producer"] == producer).map(|one| one["number"].as_u64());
    number.flatten().next().unwrap_or_default()
}

/// A bit of a file is another from now on.
pub(crate) fn flip(path: &Path, offset: u64) {
    let file = File::options().read(true).write(true).open(path).expect("opens");
    let mut byte = [0];
    file.read_exact_at(&mut byte, offset).expect("reads");
    file.write_all_at(&[byte[0] ^ 1], offset).expect("writes");
}
