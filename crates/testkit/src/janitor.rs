//! Cleans up after whoever starts processes, however that ends: a process that waits for its end.
//!
//! ```text
//!   us ────pipe: directory …, process 17, gone 17, …──► cairn janitor (in a process group of its
//!     └─ ends in any way: the pipe closes ────────────►   own, so that Ctrl-C does not reach it)
//!                                                          kills what is left, removes the files
//! ```

use crate::error::HarnessError;
use crate::program::Program;
use rustix::process::{Pid, Signal, kill_process};
use std::collections::BTreeSet;
use std::io::{BufRead, ErrorKind, Write};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, Stdio};
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

/// A killed process is gone in milliseconds; one that the kernel holds is not waited for longer.
const GONE_WITHIN: Duration = Duration::from_secs(5);
const LOOK_EVERY: Duration = Duration::from_millis(5);

/// Our side. The clean-up is done when it is dropped.
#[derive(Debug)]
pub struct Janitor {
    child: Child,
    pipe: Mutex<Option<ChildStdin>>,
}

impl Janitor {
    /// Starts one that removes `directory` in the end, where there is one to remove.
    ///
    /// # Errors
    /// Where the process cannot be started.
    pub fn start(program: &Program, directory: Option<&Path>) -> Result<Self, HarnessError> {
        let mut command = program.command(["janitor"]);
        command.process_group(0).stdin(Stdio::piped());
        command.stdout(Stdio::null()).stderr(Stdio::null());
        let mut child = command.spawn().map_err(HarnessError::local("starting the janitor"))?;
        let pipe = Mutex::new(child.stdin.take());
        let janitor = Self { child, pipe };
        if let Some(directory) = directory {
            janitor.tell(&format!("directory {}", directory.display()));
        }
        Ok(janitor)
    }

    /// A process that must be ended.
    pub fn watch(&self, pid: u32) {
        self.tell(&format!("process {pid}"));
    }

    /// A process that has ended; its number may soon be somebody else's.
    pub fn forget(&self, pid: u32) {
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

/// The janitor's side, which is `cairn janitor`: waits for the end of stdin.
///
/// # Errors
/// Where the directory cannot be removed.
pub fn clean_up_after_stdin() -> Result<(), HarnessError> {
    let mut processes = BTreeSet::new();
    let mut directory: Option<PathBuf> = None;
    for line in std::io::stdin().lock().lines().map_while(Result::ok) {
        match line.split_once(' ') {
            Some(("process", pid)) => drop(processes.insert(pid.to_owned())),
            Some(("gone", pid)) => drop(processes.remove(pid)),
            Some(("directory", path)) => directory = Some(PathBuf::from(path)),
            _ => debug_assert!(false, "a line that no version of `Janitor` writes: {line}"),
        }
    }
    for pid in &processes {
        end(pid);
    }
    if let Some(directory) = directory {
        remove_within(&directory);
        let removing = HarnessError::local(format!("removing {}", directory.display()));
        remove(&directory).map_err(removing)?;
    }
    Ok(())
}

/// Removes what the directories of a directory hold, side by side: a busy disk takes its time for
/// each file, and each server has many. What is left here is told of, or removed, afterwards.
fn remove_within(directory: &Path) {
    let Ok(entries) = std::fs::read_dir(directory) else { return };
    let within: Vec<PathBuf> = entries.filter_map(|entry| Some(entry.ok()?.path())).collect();
    std::thread::scope(|scope| {
        for path in within.iter().filter(|path| path.is_dir()) {
            scope.spawn(move || std::fs::remove_dir_all(path));
        }
    });
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
    let ours = std::env::current_exe();
    let number = pid.parse().ok().and_then(Pid::from_raw);
    // Nothing is killed that is not known to be ours.
    let (Ok(ours), Some(number)) = (ours, number) else { return };
    let runs = || std::fs::read_link(format!("/proc/{pid}/exe")).is_ok_and(|theirs| theirs == ours);
    let started = Instant::now();
    while runs() && started.elapsed() < GONE_WITHIN {
        let _ = kill_process(number, Signal::KILL);
        std::thread::sleep(LOOK_EVERY);
    }
}
