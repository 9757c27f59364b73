//! A load: client processes with several callers each, started together.
//!
//! ```text
//!   bench                         bench-load (one of several)
//!     │ ◄────────── "ready" ───────── connected, files open
//!     │ ─────────────  go  ─────────► all callers at once
//!     │ ◄────── one line of JSON ──── operations, bytes, latencies
//!     │ ── end of stdin, once the CPU times are read ──► exits
//! ```

use crate::bench::report::{Run, Series};
use crate::complaint::{Cause, Complaint, Doing};
use crate::exit_codes::Exit;
use crate::session::Session;
use bytes::Bytes;
use cairn_client::{Cell, CreateOptions};
use cairn_types::{CellPath, Content};
use clap::{Args, ValueEnum};
use serde::{Deserialize, Serialize};
use std::io::{BufRead, BufReader, Write};
use std::process::{Child, ChildStdout, Command, Stdio};
use std::time::Instant;
use tokio::task::JoinSet;

const PIECE_SIZE: u64 = 1 << 20;

/// What callers do.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Kind {
    /// Write a stream.
    Write,
    /// Read it.
    Read,
    /// Append records to one file.
    Append,
    /// Create empty files.
    Create,
    /// Open them: resolve the path, get the chunks.
    LookUp,
}

/// A load on a cell.
#[derive(Clone, Debug)]
pub(crate) struct Load {
    pub(crate) kind: Kind,
    pub(crate) processes: usize,
    pub(crate) callers: u64,
    pub(crate) megabytes: u64,
    pub(crate) operations: u64,
    /// Names that are created by one request.
    pub(crate) batch: u64,
    pub(crate) record_size: usize,
    pub(crate) deadline_s: u64,
    pub(crate) path: String,
}

/// What came of it.
#[derive(Clone, Copy, Debug, Default, Deserialize, Serialize)]
pub(crate) struct Measured {
    pub(crate) operations: u64,
    pub(crate) bytes: u64,
    pub(crate) seconds: f64,
    pub(crate) p50_us: f64,
    pub(crate) p99_us: f64,
    pub(crate) cpu_seconds: f64,
    pub(crate) master_cpu_seconds: f64,
}

impl Measured {
    pub(crate) fn as_run(&self) -> Run {
        Run { bytes: self.bytes, seconds: self.seconds, cpu_seconds: self.cpu_seconds }
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
}

/// The processes of a load, ready to go; ended when dropped.
pub(crate) struct Running {
    processes: Vec<(Child, BufReader<ChildStdout>)>,
}

impl Drop for Running {
    fn drop(&mut self) {
        for (child, _) in &mut self.processes {
            drop(child.stdin.take());
            let _ = child.kill();
            let _ = child.wait();
        }
    }
}

impl Running {
    /// Starts them and waits until each is connected.
    pub(crate) fn start(load: &Load, cell: &str) -> Result<Self, Complaint> {
        let doing = || "starting a load".to_owned();
        let mut running = Self { processes: Vec::new() };
        for process in 0..load.processes {
            let kind = load.kind.to_possible_value().map(|value| value.get_name().to_owned());
            let mut command = Command::new(std::env::current_exe().doing(doing)?);
            command
                .args(["--cell", cell, "--deadline", &load.deadline_s.to_string()])
                .args(["bench-load", "--path", &load.path])
                .args(["--kind", &kind.unwrap_or_default()])
                .args(["--process", &process.to_string()])
                .args(["--callers", &load.callers.to_string()])
                .args(["--megabytes", &load.megabytes.to_string()])
                .args(["--operations", &load.operations.to_string()])
                .args(["--batch", &load.batch.to_string()])
                .args(["--record-size", &load.record_size.to_string()])
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

    /// Lets them all go, and waits for what they measured. They stay until dropped, so that their
    /// CPU times can still be read.
    pub(crate) fn go(&mut self) -> Result<Measured, Complaint> {
        let doing = || "starting the load".to_owned();
        for (child, _) in &mut self.processes {
            if let Some(stdin) = child.stdin.as_mut() {
                stdin.write_all(b"go\n").doing(doing)?;
            }
        }
        let mut sum = Measured::default();
        for (_, stdout) in &mut self.processes {
            let text = line(stdout)?;
            let one: Measured =
                serde_json::from_str(&text).map_err(std::io::Error::from).doing(doing)?;
            sum.operations += one.operations;
            sum.bytes += one.bytes;
            sum.seconds = sum.seconds.max(one.seconds);
            sum.p50_us = sum.p50_us.max(one.p50_us);
            sum.p99_us = sum.p99_us.max(one.p99_us);
        }
        Ok(sum)
    }
}

fn line(stdout: &mut BufReader<ChildStdout>) -> Result<String, Complaint> {
    let doing = || "listening to a load".to_owned();
    let mut text = String::new();
    if stdout.read_line(&mut text).doing(doing)? == 0 {
        let cause = Cause::new(Exit::Failed, "a load ended early; its reason stands above", "");
        return Err(Complaint::new(doing(), cause));
    }
    Ok(text)
}

/// A hidden command: one process of a load.
#[derive(Args, Debug)]
pub(crate) struct LoadProcess {
    #[arg(long, value_enum)]
    kind: Kind,
    #[arg(long)]
    process: u64,
    #[arg(long)]
    callers: u64,
    #[arg(long)]
    megabytes: u64,
    #[arg(long)]
    operations: u64,
    #[arg(long)]
    batch: u64,
    #[arg(long)]
    record_size: usize,
    #[arg(long)]
    path: String,
}

/// Operations, bytes, and how long each operation took in microseconds.
type Done = (u64, u64, Vec<f64>);

impl LoadProcess {
    /// Connects, says so, waits for the word, makes the load, tells what came of it.
    pub(crate) async fn run(self, session: &Session) -> Result<(), Complaint> {
        let doing = || format!("making a load on {}", self.path);
        let place = session.place(&self.path).await?;
        let parent = place.path.clone();
        place.cell.make_directory(&parent, true).await.doing(doing)?;
        println!("ready");
        let mut word = String::new();
        std::io::stdin().lock().read_line(&mut word).doing(doing)?;
        let begun = Instant::now();
        let mut callers = JoinSet::new();
        for caller in 0..self.callers {
            let name = format!("{}-{caller}", self.process);
            let path = parent.join(&name).doing(doing)?;
            let records = parent.join("records").doing(doing)?;
            let (cell, operations) = (place.cell.clone(), self.operations);
            let (kind, size, megabytes) = (self.kind, self.record_size, self.megabytes);
            let batch = self.batch;
            callers.spawn(async move {
                match kind {
                    Kind::Write => write(&cell, &path, megabytes).await,
                    Kind::Read => read(&cell, &path).await,
                    Kind::Append => append(&cell, &records, &name, operations, size).await,
                    Kind::Create if batch > 1 => create_many(&cell, &path, operations, batch).await,
                    Kind::Create => create(&cell, &path, operations).await,
                    Kind::LookUp => look_up(&cell, &path, operations).await,
                }
            });
        }
        let mut measured = Measured::default();
        let mut latencies = Series::default();
        while let Some(done) = callers.join_next().await {
            let gone =
                |error: tokio::task::JoinError| Cause::new(Exit::Failed, error.to_string(), "");
            let (operations, bytes, spans) = done.map_err(gone).doing(doing)?.doing(doing)?;
            measured.operations += operations;
            measured.bytes += bytes;
            spans.into_iter().for_each(|span| latencies.push(span));
        }
        measured.seconds = begun.elapsed().as_secs_f64();
        measured.p50_us = latencies.quantile(0.5);
        measured.p99_us = latencies.quantile(0.99);
        let text = serde_json::to_string(&measured);
        println!("{}", text.map_err(std::io::Error::from).doing(doing)?);
        // The bench reads our CPU time before it closes the pipe.
        std::io::stdin().lock().read_line(&mut word).doing(doing)?;
        Ok(())
    }
}

async fn write(cell: &Cell, path: &CellPath, megabytes: u64) -> Result<Done, cairn_client::Error> {
    let file = cell.create(path, CreateOptions::default()).await?;
    let piece = Bytes::from(vec![0xa5; PIECE_SIZE as usize]);
    let mut writer = file.writer(0);
    let mut spans = Vec::new();
    for _ in 0..megabytes {
        let begun = Instant::now();
        writer.write(piece.clone()).await?;
        spans.push(begun.elapsed().as_secs_f64() * 1e6);
    }
    writer.finish().await?;
    Ok((megabytes, megabytes * PIECE_SIZE, spans))
}

async fn read(cell: &Cell, path: &CellPath) -> Result<Done, cairn_client::Error> {
    let file = cell.open(path).await?;
    let (mut bytes, mut spans) = (0, Vec::new());
    let mut reader = file.reader(0);
    let mut begun = Instant::now();
    while let Some(piece) = reader.next().await? {
        spans.push(begun.elapsed().as_secs_f64() * 1e6);
        bytes += piece.len() as u64;
        begun = Instant::now();
    }
    Ok((spans.len() as u64, bytes, spans))
}

async fn append(
    cell: &Cell,
    path: &CellPath,
    producer: &str,
    operations: u64,
    size: usize,
) -> Result<Done, cairn_client::Error> {
    let create = CreateOptions { content: Content::Records, or_open: true, ..Default::default() };
    let file = cell.create(path, create).await?;
    let writer = file.record_writer(producer);
    let record = vec![0xa5; size];
    let mut spans = Vec::new();
    for _ in 0..operations {
        let begun = Instant::now();
        writer.append(&record).await?;
        spans.push(begun.elapsed().as_secs_f64() * 1e6);
    }
    Ok((operations, operations * size as u64, spans))
}

async fn create(cell: &Cell, path: &CellPath, count: u64) -> Result<Done, cairn_client::Error> {
    cell.make_directory(path, true).await?;
    let mut spans = Vec::new();
    for number in 0..count {
        let name = path.join(&format!("file-{number:08}")).unwrap_or_default();
        let begun = Instant::now();
        cell.create(&name, CreateOptions::default()).await?;
        spans.push(begun.elapsed().as_secs_f64() * 1e6);
    }
    Ok((count, 0, spans))
}

/// Each latency is a whole batch's.
async fn create_many(
    cell: &Cell,
    path: &CellPath,
    count: u64,
    batch: u64,
) -> Result<Done, cairn_client::Error> {
    cell.make_directory(path, true).await?;
    let name = |number: u64| path.join(&format!("file-{number:08}")).unwrap_or_default();
    let mut spans = Vec::new();
    for first in (0..count).step_by(usize::try_from(batch).unwrap_or(usize::MAX)) {
        let names: Vec<CellPath> = (first..count.min(first + batch)).map(name).collect();
        let begun = Instant::now();
        for file in cell.create_many(&names, CreateOptions::default()).await {
            file?;
        }
        spans.push(begun.elapsed().as_secs_f64() * 1e6);
    }
    Ok((count, 0, spans))
}

async fn look_up(cell: &Cell, path: &CellPath, count: u64) -> Result<Done, cairn_client::Error> {
    let mut spans = Vec::new();
    for number in 0..count {
        let name = path.join(&format!("file-{number:08}")).unwrap_or_default();
        let begun = Instant::now();
        cell.open(&name).await?;
        spans.push(begun.elapsed().as_secs_f64() * 1e6);
    }
    Ok((count, 0, spans))
}
