//! A fresh cell for one check, and what checks ask of it.

use crate::cell::{await_nothing_found, holder, told};
use crate::load::LoadPlace;
use crate::source_tree::{generate, same};
use anyhow::{Context, Result, bail};
use cairn_testkit::{CellPlan, CellProcesses, Program, await_until, chunk_files};
use serde_json::Value;
use std::collections::BTreeSet;
use std::ops::{Deref, DerefMut};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

/// Longer than anything here takes that goes as it should.
pub(crate) const WITHIN: Duration = Duration::from_secs(180);
pub(crate) const CHUNK_SIZE: u64 = 1 << 20;
/// Of the master's log, where something was waited for in vain.
const LOG_LINES_TOLD: usize = 20;

/// The times of a small cell, and chunks of a megabyte.
pub(crate) const QUICK: &str = "\
[new_cell]
chunk_size = 1048576
heartbeat_ms = 250
silent_ms = 1000
lease_ms = 2000
dead_ms = 4000
";

/// A master and chunkservers, with a directory of their own; all gone when dropped.
#[derive(Debug)]
pub(crate) struct HealCell {
    processes: CellProcesses,
    pub(crate) place: LoadPlace,
}

/// A file in the cell, and the same bytes on this machine.
#[derive(Clone, Debug)]
pub(crate) struct StoredFile {
    pub(crate) path: String,
    pub(crate) local: PathBuf,
}

impl Deref for HealCell {
    type Target = CellProcesses;

    fn deref(&self) -> &CellProcesses {
        &self.processes
    }
}

impl DerefMut for HealCell {
    fn deref_mut(&mut self) -> &mut CellProcesses {
        &mut self.processes
    }
}

/// A directory for a cell that nobody uses yet.
pub(crate) fn fresh_directory() -> PathBuf {
    static LAST: AtomicU64 = AtomicU64::new(0);
    let number = LAST.fetch_add(1, Ordering::Relaxed);
    std::env::temp_dir().join(format!("cairn-soak-{}-{number}", std::process::id()))
}

impl HealCell {
    /// Starts one with these settings, each server in a rack of its own.
    ///
    /// # Errors
    /// With what a server's log says last.
    pub(crate) fn start(program: &Program, servers: usize, settings: &str) -> Result<Self> {
        Self::start_plan(program, servers, |plan| settings.clone_into(&mut plan.settings))
    }

    /// The same, with a plan that is changed before.
    ///
    /// # Errors
    /// With what a server's log says last.
    pub(crate) fn start_plan(
        program: &Program,
        servers: usize,
        change: impl FnOnce(&mut CellPlan),
    ) -> Result<Self> {
        let mut plan = CellPlan::new(program.clone(), fresh_directory(), servers);
        plan.servers_per_rack = 1;
        change(&mut plan);
        let processes = CellProcesses::start(plan)?;
        let place = LoadPlace::here(&processes);
        Ok(Self { processes, place })
    }

    /// What a command tells, a JSON value a line.
    ///
    /// # Errors
    /// Where it tells something else. Its exit code is no matter.
    pub(crate) fn told(&self, arguments: &[&str]) -> Result<Vec<Value>> {
        told(&self.processes, arguments)
    }

    /// The one value that a command tells.
    ///
    /// # Errors
    /// Where it tells none.
    pub(crate) fn value(&self, arguments: &[&str]) -> Result<Value> {
        let first = self.told(arguments)?.into_iter().next();
        first.with_context(|| format!("cairn {} told nothing", arguments.join(" ")))
    }

    /// What `servers` tells of chunkserver 0, 1, …
    ///
    /// # Errors
    /// Where it is unknown.
    pub(crate) fn server(&self, at: usize) -> Result<Value> {
        let address = self.chunkservers[at].address();
        let found = self.told(&["servers"])?.into_iter().find(|it| it["address"] == address);
        found.with_context(|| format!("nobody knows {address}"))
    }

    /// Waits for something that is to come.
    ///
    /// # Errors
    /// Where it does not come, with what the cell says of itself.
    pub(crate) fn wait(&self, what: &str, is_so: impl FnMut() -> Result<bool>) -> Result<Duration> {
        await_until(what, WITHIN, is_so).with_context(|| {
            let words = self.processes.ask(&["status"]).unwrap_or_else(|error| error.to_string());
            let log = std::fs::read_to_string(self.masters[0].log()).unwrap_or_default();
            let last = log.lines().rev().take(LOG_LINES_TOLD).collect::<Vec<_>>();
            format!("{}; the master's log, backwards: {}", words.trim(), last.join("; "))
                .replace('\n', "; ")
        })
    }

    /// Waits until the cell says that it is healthy.
    ///
    /// # Errors
    /// Where it does not.
    pub(crate) fn await_healthy(&self) -> Result<Duration> {
        self.wait("a healthy cell", || Ok(self.value(&["status"])?["health"] == "healthy"))
    }

    /// Waits until no live file's chunk lacks a replica; servers may be dead.
    ///
    /// # Errors
    /// Where that does not come.
    pub(crate) fn await_whole(&self) -> Result<Duration> {
        self.wait("every chunk at its goal", || {
            let status = self.value(&["status"])?;
            Ok(status["under_replicated"] == 0 && status["counting"] == false)
        })
    }

    /// Waits until a chunkserver counts as live, silent or dead.
    ///
    /// # Errors
    /// Where that does not come.
    pub(crate) fn await_state(&self, at: usize, state: &str) -> Result<Duration> {
        let address = self.chunkservers[at].address();
        let is_so = |it: &Value| it["address"] == address && it["state"] == state;
        self.wait(&format!("{address} {state}"), || {
            // A master that was started this moment may not answer yet.
            Ok(self.told(&["servers"]).is_ok_and(|all| all.iter().any(is_so)))
        })
    }

    /// Stores a file of pseudo-random bytes at `/NAME`.
    ///
    /// # Errors
    /// Where it cannot be.
    pub(crate) fn put(&self, name: &str, size: u64) -> Result<StoredFile> {
        let stored = self.local_file(name, size)?;
        self.ask(&["put", &text(&stored.local), &stored.path])?;
        Ok(stored)
    }

    /// The same without storing it.
    ///
    /// # Errors
    /// Where it cannot be written.
    pub(crate) fn local_file(&self, name: &str, size: u64) -> Result<StoredFile> {
        let local = self.directory().join(format!("local-{name}"));
        if !local.exists() {
            generate(&local, size)?;
        }
        Ok(StoredFile { path: format!("/{name}"), local })
    }

    /// Compares every byte of a file with what was stored.
    ///
    /// # Errors
    /// Where one differs, or cannot be read.
    pub(crate) fn judge(&self, file: &StoredFile) -> Result<()> {
        let back = self.directory().join("back");
        self.ask(&["get", "-f", &file.path, &text(&back)])?;
        if back.metadata()?.len() != file.local.metadata()?.len() {
            bail!("{} came back with another length", file.path);
        }
        same(&file.local, 0, &back).map(drop)
    }

    /// Waits until a check of every byte of every replica finds nothing.
    ///
    /// # Errors
    /// With what it finds where that does not end.
    pub(crate) fn await_nothing_found(&self) -> Result<()> {
        await_nothing_found(&self.processes, WITHIN)
    }

    /// The chunkservers that hold some of a file.
    ///
    /// # Errors
    /// Where the cell does not say.
    pub(crate) fn holders(&self, path: &str) -> Result<BTreeSet<usize>> {
        let chunks = crate::cell::chunks(&self.processes, path)?;
        let replicas = chunks.iter().flat_map(|chunk| chunk["replicas"].as_array()).flatten();
        Ok(replicas.filter_map(|replica| holder(&self.processes, replica)).collect())
    }

    /// One that holds some of a file.
    ///
    /// # Errors
    /// Where nobody does.
    pub(crate) fn a_holder(&self, path: &str) -> Result<usize> {
        self.holders(path)?.into_iter().next().with_context(|| format!("nobody holds {path}"))
    }

    /// The chunk files on the disk of chunkserver 0, 1, …
    ///
    /// # Errors
    /// Where they cannot be listed.
    pub(crate) fn chunk_files(&self, at: usize) -> Result<Vec<PathBuf>> {
        Ok(chunk_files(&self.data_of(at + 1))?)
    }

    /// How many chunk files there are on all disks, in the trash too.
    ///
    /// # Errors
    /// Where they cannot be listed.
    pub(crate) fn chunk_file_count(&self) -> Result<usize> {
        let mut count = 0;
        for at in 0..self.chunkservers.len() {
            count += self.chunk_files(at)?.len();
            count += std::fs::read_dir(self.data_of(at + 1).join("trash"))?.count();
        }
        Ok(count)
    }

    /// Stands each server alone against what it holds: kills one after the other, and reads.
    ///
    /// # Errors
    /// Where a byte differs or cannot be read.
    pub(crate) fn judge_without_each(&mut self, file: &StoredFile) -> Result<()> {
        for away in 0..self.chunkservers.len() {
            self.chunkservers[away].kill();
            self.judge(file).with_context(|| format!("without chunkserver {}", away + 1))?;
            self.chunkservers[away].restart()?;
            self.await_state(away, "live")?;
        }
        Ok(())
    }
}

/// A path as an argument.
pub(crate) fn text(path: &Path) -> String {
    path.display().to_string()
}
