//! A load: client processes with several callers each, started together.
//!
//! ```text
//!   bench                         bench-load (one of several)
//!     │ ◄────────── "ready" ───────── connected, directories made
//!     │ ─────────────  go  ─────────► all callers at once
//!     │ ◄────── one line of JSON ──── operations, bytes, latencies
//!     │ ── end of stdin, once the CPU times are read ──► exits
//! ```

mod bytes_jobs;
mod caller;
mod commit_jobs;
mod job;
mod mix;
mod name_jobs;
mod process;
mod producer_jobs;
mod tally;

pub(crate) use commit_jobs::ChunkOperation;
pub(crate) use job::CallerJob;
pub(crate) use mix::RequestMix;
pub use process::LoadProcess;
pub(crate) use tally::LoadTally;

use crate::error::{BenchCause, BenchError, Doing};
use crate::latencies::Latencies;
use crate::pairs::StreamRun;
use std::io::{BufRead, BufReader, Write};
use std::process::{Child, ChildStdout, Command, Stdio};

/// Processes, callers in each, and what each caller does.
#[derive(Clone, Debug)]
pub(crate) struct Load {
    pub(crate) job: CallerJob,
    pub(crate) processes: u64,
    pub(crate) callers: u64,
    pub(crate) deadline_s: u64,
    /// Whom the callers say that they are, as `--as` has it; nobody else than who runs the bench.
    pub(crate) by: Option<&'static str>,
}

/// What came of it.
#[derive(Clone, Debug, Default)]
pub(crate) struct LoadFigures {
    pub(crate) operations: u64,
    pub(crate) bytes: u64,
    pub(crate) seconds: f64,
    pub(crate) latencies: Latencies,
    pub(crate) cpu_seconds: f64,
    pub(crate) master_cpu_seconds: f64,
}

impl LoadFigures {
    pub(crate) fn as_run(&self) -> StreamRun {
        StreamRun { bytes: self.bytes, seconds: self.seconds, cpu_seconds: self.cpu_seconds }
    }

    /// Operations a second.
    pub(crate) fn rate(&self) -> f64 {
        self.operations as f64 / self.seconds
    }

    /// CPU microseconds of all processes for each operation.
    pub(crate) fn cpu_us(&self) -> f64 {
        self.cpu_seconds * 1e6 / self.operations as f64
    }

    /// The master's part of it.
    pub(crate) fn master_cpu_us(&self) -> f64 {
        self.master_cpu_seconds * 1e6 / self.operations as f64
    }

    pub(crate) fn p50_us(&self) -> f64 {
        self.latencies.quantile_us(0.5)
    }

    pub(crate) fn p99_us(&self) -> f64 {
        self.latencies.quantile_us(0.99)
    }
}

/// The processes of a load, ready to go; ended when dropped.
pub(crate) struct RunningLoad {
    processes: Vec<(Child, BufReader<ChildStdout>)>,
}

impl Drop for RunningLoad {
    fn drop(&mut self) {
        for (child, _) in &mut self.processes {
            drop(child.stdin.take());
            let _ = child.kill();
            let _ = child.wait();
        }
    }
}

impl RunningLoad {
    /// Starts them and waits until each is connected.
    pub(crate) fn start(load: &Load, cell: &str) -> Result<Self, BenchError> {
        let doing = || "starting a load".to_owned();
        let job = serde_json::to_string(&load.job).map_err(std::io::Error::from).doing(doing)?;
        let mut running = Self { processes: Vec::new() };
        for process in 0..load.processes {
            let mut command = Command::new(std::env::current_exe().doing(doing)?);
            command
                .args(["--cell", cell, "--deadline", &load.deadline_s.to_string()])
                .args(load.by.iter().flat_map(|who| ["--as", who]))
                .args(["bench-load", "--job", &job])
                .args(["--process", &process.to_string()])
                .args(["--processes", &load.processes.to_string()])
                .args(["--callers", &load.callers.to_string()])
                .stdin(Stdio::piped())
                .stdout(Stdio::piped());
            let mut child = command.spawn().doing(doing)?;
            let stdout = child.stdout.take().map(BufReader::new);
            if let Some(stdout) = stdout {
                running.processes.push((child, stdout));
            }
        }
        for (_, stdout) in &mut running.processes {
            line(stdout)?;
        }
        Ok(running)
    }

    pub(crate) fn pids(&self) -> impl Iterator<Item = u32> {
        self.processes.iter().map(|(child, _)| child.id())
    }

    /// Lets them all go.
    pub(crate) fn go(&mut self) -> Result<(), BenchError> {
        for (child, _) in &mut self.processes {
            if let Some(stdin) = child.stdin.as_mut() {
                stdin.write_all(b"go\n").doing(|| "starting the load".to_owned())?;
            }
        }
        Ok(())
    }

    /// Waits for what they measured. They stay until dropped, so that their CPU times can still
    /// be read.
    pub(crate) fn figures(&mut self) -> Result<LoadFigures, BenchError> {
        let mut sum = LoadFigures::default();
        for (_, stdout) in &mut self.processes {
            let text = line(stdout)?;
            let one: LoadTally = serde_json::from_str(&text)
                .map_err(std::io::Error::from)
                .doing(|| "reading what a load measured".to_owned())?;
            sum.operations += one.operations;
            sum.bytes += one.bytes;
            sum.seconds = sum.seconds.max(one.seconds);
            sum.latencies.merge(&one.latencies);
        }
        Ok(sum)
    }
}

fn line(stdout: &mut BufReader<ChildStdout>) -> Result<String, BenchError> {
    let doing = || "listening to a load".to_owned();
    let mut text = String::new();
    if stdout.read_line(&mut text).doing(doing)? == 0 {
        let cause = BenchCause::Part("a load ended early; its reason stands above".to_owned());
        return Err(BenchError::new(doing(), cause));
    }
    Ok(text)
}
