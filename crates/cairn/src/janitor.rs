//! Cleans up after a demo or a dev cell, however that ends: a process that waits for its end.
//!
//! ```text
//!   us ────pipe: directory …, process 17, gone 17, …──► janitor (in a process group of its own,
//!     └─ ends in any way: the pipe closes ────────────►   so that Ctrl-C does not reach it)
//!                                                          kills what is left, removes the files
//! ```

use crate::cli_error::{CliError, Doing};
use rustix::process::{Pid, Signal, kill_process};
use std::collections::BTreeSet;
use std::io::{BufRead, ErrorKind, Write};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, Command, Stdio};
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

/// A killed process is gone in milliseconds; one that the kernel holds is not waited for longer.
const GONE_WITHIN: Duration = Duration::from_secs(5);
const LOOK_EVERY: Duration = Duration::from_millis(5);

/// Our side.
pub(crate) struct Janitor {
    child: Child,
    pipe: Mutex<Option<ChildStdin>>,
}

impl Janitor {
    /// Starts one that removes `directory` in the end, where there is one to remove.
    ///
    /// # Errors
    /// Where the process cannot be started.
    pub(crate) fn start(directory: Option<&Path>) -> Result<Self, CliError> {
        let doing = || "starting the janitor".to_owned();
        let mut command = Command::new(std::env::current_exe().doing(doing)?);
        command.arg("janitor").process_group(0).stdin(Stdio::piped());
        command.stdout(Stdio::null()).stderr(Stdio::null());
        let mut child = command.spawn().doing(doing)?;
        let pipe = Mutex::new(child.stdin.take());
        let janitor = Self { child, pipe };
        if let Some(directory) = directory {
            janitor.tell(&format!("directory {}", directory.display()));
        }
        Ok(janitor)
    }

    /// Must be ended.
    pub(crate) fn watch(&self, pid: u32) {
        self.tell(&format!("process {pid}"));
    }

    /// Has ended; the number may soon be somebody else's.
    pub(crate) fn forget(&self, pid: u32) {
        self.tell(&format!("gone {pid}"));
    }

    fn tell(&self, line: &str) {
        let mut pipe = self.pipe.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(pipe) = pipe.as_mut() {
            // A janitor that was killed is a pity and no reason to stop.
            let _ = writeln!(pipe, "{line}");
        }
    }
}

impl Drop for Janitor {
    fn drop(&mut self) {
        drop(self.pipe.lock().unwrap_or_else(PoisonError::into_inner).take());
        let _ = self.child.wait();
    }
}

/// The janitor's side: waits for the end of stdin.
pub(crate) fn run() -> Result<(), CliError> {
    let mut processes = BTreeSet::new();
    let mut directory: Option<PathBuf> = None;
    for line in std::io::stdin().lock().lines().map_while(Result::ok) {
        match line.split_once(' ') {
            Some(("process", pid)) => drop(processes.insert(pid.to_owned())),
            Some(("gone", pid)) => drop(processes.remove(pid)),
            Some(("directory", path)) => directory = Some(PathBuf::from(path)),
            _ => {}
        }
    }
    for pid in &processes {
        end(pid);
    }
    if let Some(directory) = directory {
        remove(&directory).doing(|| format!("removing {}", directory.display()))?;
    }
    Ok(())
}

/// Removes a directory, in which a thread that is about to die may make a last file.
fn remove(directory: &Path) -> std::io::Result<()> {
    let started = Instant::now();
    loop {
        match std::fs::remove_dir_all(directory) {
            Err(error)
                if error.kind() == ErrorKind::DirectoryNotEmpty
                    && started.elapsed() < GONE_WITHIN =>
            {
                std::thread::sleep(LOOK_EVERY);
            }
            done => return done,
        }
    }
}

/// Ends a process of this very program and waits until it is gone, so that it makes no new file
/// while its files are removed. A number that was given to another program is left alone.
fn end(pid: &str) {
    let (Ok(ours), Ok(number)) = (std::env::current_exe(), pid.parse::<i32>()) else { return };
    let Some(number) = Pid::from_raw(number) else { return };
    let runs = || std::fs::read_link(format!("/proc/{pid}/exe")).is_ok_and(|theirs| theirs == ours);
    let started = Instant::now();
    while runs() && started.elapsed() < GONE_WITHIN {
        let _ = kill_process(number, Signal::KILL);
        std::thread::sleep(LOOK_EVERY);
    }
}
