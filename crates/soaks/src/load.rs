//! The processes of a load, seen from the soak: clients that append, and readers.

use crate::teller::Teller;
use anyhow::{Context, Result, bail};
use cairn_testkit::{CellProcesses, PATIENCE, await_until};
use serde_json::Value;
use std::io::{BufRead, BufReader, Write};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, channel};
use std::time::{Duration, Instant};

/// The two files of records.
pub(crate) const FILES: [(&str, &str); 2] = [("small", "/soak/small"), ("large", "/soak/large")];

const PROCESSES: u64 = 8;
const CLIENTS: u64 = 64;
/// The longest that any step of a load may take: all of it, at a crawl.
const STEP_PATIENCE: Duration = Duration::from_secs(1_800);

/// The cell that a load uses, and where its processes run.
#[derive(Clone, Debug)]
pub(crate) struct LoadPlace {
    pub(crate) cell: String,
    /// The words before a command that is to run on each host; none: all run here.
    pub(crate) runners: Vec<Vec<String>>,
}

impl LoadPlace {
    /// All on this machine.
    pub(crate) fn here(cell: &CellProcesses) -> Self {
        Self { cell: cell.address().to_owned(), runners: Vec::new() }
    }

    /// A command that runs this program as its process number `number`.
    ///
    /// # Errors
    /// Where the system does not say which program this is.
    fn command(&self, number: usize) -> Result<Command> {
        let ours = std::env::current_exe().context("looking for this program")?;
        let Some(runner) = self.runners.get(number % self.runners.len().max(1)) else {
            return Ok(Command::new(ours));
        };
        let (first, rest) = runner.split_first().context("a runner has a program")?;
        let mut command = Command::new(first);
        command.args(rest).arg(ours);
        Ok(command)
    }
}

/// One process of a load.
#[derive(Debug)]
pub(crate) struct LoadPart {
    child: Child,
    stdin: Option<ChildStdin>,
    lines: Receiver<String>,
    count: Arc<AtomicU64>,
}

impl Drop for LoadPart {
    fn drop(&mut self) {
        drop(self.stdin.take());
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

impl LoadPart {
    /// Starts process number `number` with the words after `load`, and waits until it is ready.
    ///
    /// # Errors
    /// When it does not get ready.
    pub(crate) fn start(place: &LoadPlace, number: usize, arguments: &[&str]) -> Result<Self> {
        let mut command = place.command(number)?;
        command.arg("load").args(arguments).stdin(Stdio::piped()).stdout(Stdio::piped());
        let mut child = command.spawn().context("starting a load")?;
        let (stdin, stdout) = (child.stdin.take(), child.stdout.take().context("piped")?);
        let (sender, lines) = channel();
        let count = Arc::new(AtomicU64::new(0));
        let counted = count.clone();
        std::thread::spawn(move || {
            for line in BufReader::new(stdout).lines().map_while(Result::ok) {
                match line.strip_prefix("count ").map(str::parse) {
                    Some(Ok(count)) => counted.store(count, Ordering::Relaxed),
                    _ if sender.send(line).is_err() => break,
                    _ => {}
                }
            }
        });
        let part = Self { child, stdin, lines, count };
        part.expect("ready")?;
        Ok(part)
    }

    /// Says a line to it.
    ///
    /// # Errors
    /// When it has ended.
    pub(crate) fn order(&mut self, line: &str) -> Result<()> {
        writeln!(self.stdin.as_mut().context("piped")?, "{line}").context("a load ended early")
    }

    /// The rest of the next line, which starts with `word`.
    ///
    /// # Errors
    /// When none comes, or another.
    pub(crate) fn expect(&self, word: &str) -> Result<String> {
        let line = self.lines.recv_timeout(STEP_PATIENCE).context("a load ended early")?;
        let rest = line.strip_prefix(word).with_context(|| format!("{line} instead of {word}"))?;
        Ok(rest.trim().to_owned())
    }
}

/// The clients that append.
#[derive(Debug)]
pub(crate) struct Appenders {
    parts: Vec<LoadPart>,
}

/// What all clients did.
#[derive(Debug)]
pub(crate) struct Appended {
    clients: Vec<Value>,
    /// The same in a file, for the readers' judgement.
    file: PathBuf,
}

impl Appenders {
    /// Starts 64 clients in 8 processes, who together append so many records once told to go.
    ///
    /// # Errors
    /// When one cannot reach the cell.
    pub(crate) fn start(place: &LoadPlace, records: [u64; 2]) -> Result<Self> {
        let each = CLIENTS / PROCESSES;
        let share = |total: u64| (total.div_ceil(CLIENTS)).to_string();
        let [small, large] = records.map(share);
        let mut parts = Vec::new();
        for process in 0..PROCESSES {
            let [(_, to_small), (_, to_large)] = FILES;
            let (first, count) = ((process * each).to_string(), each.to_string());
            let cell = place.cell.as_str();
            let arguments = ["append", cell, to_small, to_large, &first, &count, &small, &large];
            parts.push(LoadPart::start(place, process as usize, &arguments)?);
        }
        Ok(Self { parts })
    }

    /// Lets them go.
    ///
    /// # Errors
    /// When one has ended.
    pub(crate) fn go(&mut self) -> Result<()> {
        self.parts.iter_mut().try_for_each(|part| part.order("go"))
    }

    /// Records acknowledged so far.
    pub(crate) fn acknowledged(&self) -> u64 {
        self.parts.iter().map(|part| part.count.load(Ordering::Relaxed)).sum()
    }

    /// Waits for that many acknowledgements in all; how long that took.
    ///
    /// # Errors
    /// When none comes for long.
    pub(crate) fn await_acknowledged(&self, wanted: u64) -> Result<Duration> {
        let started = Instant::now();
        while self.acknowledged() < wanted {
            let before = self.acknowledged();
            let more = || Ok::<_, anyhow::Error>(self.acknowledged() > before);
            await_until("an acknowledgement", PATIENCE, more)?;
        }
        Ok(started.elapsed())
    }

    /// Lets them finish what is under way.
    ///
    /// # Errors
    /// When one has ended.
    pub(crate) fn stop(&mut self) -> Result<()> {
        self.parts.iter_mut().try_for_each(|part| part.order("stop"))
    }

    /// Waits for their ends; their reports go to a file in `directory`.
    ///
    /// # Errors
    /// When one failed.
    pub(crate) fn finish(self, directory: &Path) -> Result<Appended> {
        let mut clients = Vec::new();
        for part in &self.parts {
            for _ in 0..CLIENTS / PROCESSES {
                clients.push(serde_json::from_str(&part.expect("client")?)?);
            }
            part.expect("done")?;
        }
        let file = directory.join("appended.json");
        std::fs::write(&file, Value::from(clients.clone()).to_string())?;
        Ok(Appended { clients, file })
    }
}

impl Appended {
    /// The longest time between two acknowledgements of any one client, and when it ended.
    pub(crate) fn longest_gap(&self) -> (u64, u64) {
        let gap = |client: &Value| {
            let number = |name: &str| client[name].as_u64().unwrap_or_default();
            (number("gap_ms"), number("gap_ended_ms"))
        };
        self.clients.iter().map(gap).max().unwrap_or_default()
    }

    /// Each client's longest gap in milliseconds, in order.
    pub(crate) fn gaps(&self) -> Vec<u64> {
        let gap = |client: &Value| client["gap_ms"].as_u64().unwrap_or_default();
        let mut gaps: Vec<u64> = self.clients.iter().map(gap).collect();
        gaps.sort_unstable();
        gaps
    }

    /// Errors that clients were told.
    pub(crate) fn errors(&self) -> Vec<String> {
        let of = |client: &Value| client["errors"].as_array().cloned().unwrap_or_default();
        self.clients.iter().flat_map(of).map(|error| error.to_string()).collect()
    }
}

/// Readers, one for each file.
#[derive(Debug)]
pub(crate) struct Readers {
    parts: Vec<LoadPart>,
    how: &'static str,
}

impl Readers {
    /// Starts them; `how` is `follow`, or `read`, which begins when it is asked to judge.
    ///
    /// # Errors
    /// When one cannot reach the cell.
    pub(crate) fn start(place: &LoadPlace, how: &'static str) -> Result<Self> {
        let start = |(number, (kind, path)): (usize, &(&str, &str))| {
            LoadPart::start(place, number, &["deliver", &place.cell, path, kind, how])
        };
        Ok(Self { parts: FILES.iter().enumerate().map(start).collect::<Result<_>>()?, how })
    }

    /// Has them read all that was acknowledged, and prints their verdicts.
    ///
    /// # Errors
    /// When one is not good.
    pub(crate) fn judge(mut self, appended: &Appended, teller: &Teller) -> Result<()> {
        let mut all_good = true;
        for part in &mut self.parts {
            part.order(&format!("judge {}", appended.file.display()))?;
        }
        for (part, (kind, _)) in self.parts.iter().zip(FILES) {
            let verdict: Value = serde_json::from_str(&part.expect("verdict")?)?;
            let good = verdict["good"] == true;
            all_good &= good;
            let (how, acknowledged) = (self.how, &verdict["acknowledged"]);
            if good {
                let (more, unanswered) = (&verdict["unanswered_delivered"], &verdict["unanswered"]);
                teller.say(format_args!(
                    "{how} {kind}: all {acknowledged} acknowledged records came, each once, in \
                     each client's order; of {unanswered} unanswered ones {more}"
                ));
            } else {
                teller.say(format_args!("{how} {kind}: WRONG: {verdict}"));
            }
        }
        if all_good {
            Ok(())
        } else {
            bail!("a reader that was to {} was not served right", self.how)
        }
    }
}
