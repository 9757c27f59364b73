//! Snapshots of a tree under writers, while servers and the master are killed.
//!
//! ```text
//!   a writer:   line n into a0, acknowledged, then line n into b0, then line n + 1 into a0 …
//!   a copy:     a0 has 1 … k in order, b0 has 1 … k or 1 … k − 1: one instant, or not at all
//! ```
//! - SN1: what a copy has was begun before the snapshot was answered, and what was acknowledged
//!   before it was asked is in it.
//! - SN2: a copy is at the end as it was when it was read first, whatever was written since.

use crate::cell::await_nothing_found;
use crate::options::SoakOptions;
use crate::teller::Teller;
use anyhow::{Context, Result, bail, ensure};
use cairn_testkit::{CellProcesses, Program};
use std::io::Write;
use std::process::{Output, Stdio};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

/// Writers, each with two files.
const WRITERS: usize = 3;
/// Deaths come as often; of so many one is the master's.
const DEATHS_EVERY: Duration = Duration::from_secs(4);
const OF_MASTER: u64 = 6;
/// How long the dead stay dead.
const REST: Duration = Duration::from_millis(700);
/// How long one command may wait for a cell that loses servers.
const DEADLINE_S: &str = "60";
/// How long the cell may take to be whole in the end.
const WHOLE: Duration = Duration::from_secs(180);

/// How a command ends that may have been done (docs/guide/exit-codes.md).
const UNKNOWN: i32 = 11;

/// A copy, and what it had when it was read first: the text of each file.
struct TakenCopy {
    path: String,
    texts: Vec<(String, String)>,
}

/// What all threads share.
struct SnapshotSoak {
    program: Program,
    address: String,
    /// Lines begun and acknowledged, of each writer.
    begun: [AtomicU64; WRITERS],
    acknowledged: [AtomicU64; WRITERS],
    copies: Mutex<Vec<TakenCopy>>,
    refused: AtomicU64,
    is_over: AtomicBool,
}

/// Runs it.
///
/// # Errors
/// With whatever did not go as promised.
pub(crate) fn run(cell: &mut CellProcesses, options: &SoakOptions, teller: &Teller) -> Result<()> {
    let soak = SnapshotSoak {
        program: cell.program().clone(),
        address: cell.address().to_owned(),
        begun: Default::default(),
        acknowledged: Default::default(),
        copies: Mutex::default(),
        refused: AtomicU64::new(0),
        is_over: AtomicBool::new(false),
    };
    soak.ask(&["mkdir", "-p", "/soak/tree", "/copies"])?;
    let end = Instant::now() + Duration::from_secs(60 * options.minutes);
    std::thread::scope(|scope| {
        let soak = &soak;
        let writers: Vec<_> = (0..WRITERS)
            .map(|writer| scope.spawn(move || soak.ended(soak.write(writer))))
            .collect();
        let taker = scope.spawn(|| soak.ended(soak.take_snapshots()));
        let killed = soak.ended(kill(cell, (soak, end), teller));
        soak.is_over.store(true, Ordering::SeqCst);
        for thread in writers.into_iter().chain([taker]) {
            thread.join().map_err(|_| anyhow::anyhow!("a thread of the soak panicked"))??;
        }
        killed
    })?;
    soak.judge_end(cell, teller)
}

/// Kills servers, one after the other, until the time is over.
fn kill(
    cell: &mut CellProcesses,
    (soak, end): (&SnapshotSoak, Instant),
    teller: &Teller,
) -> Result<()> {
    let mut round = 0;
    while Instant::now() < end && !soak.is_over() {
        std::thread::sleep(DEATHS_EVERY);
        round += 1;
        let count = cell.chunkservers.len();
        let server = match round % OF_MASTER {
            0 => &mut cell.masters[0],
            _ => &mut cell.chunkservers[usize::try_from(round)? % count],
        };
        server.kill();
        std::thread::sleep(REST);
        server.restart()?;
        if round % OF_MASTER == 0 {
            let lines: u64 = soak.acknowledged.iter().map(|it| it.load(Ordering::SeqCst)).sum();
            let (taken, refused) = (soak.copies().len(), soak.refused.load(Ordering::SeqCst));
            teller.say(format_args!(
                "{round} deaths; {lines} lines acknowledged, {taken} copies, {refused} refused"
            ));
        }
    }
    Ok(())
}

impl SnapshotSoak {
    fn is_over(&self) -> bool {
        self.is_over.load(Ordering::SeqCst)
    }

    /// Whoever fails ends it for all.
    fn ended(&self, done: Result<()>) -> Result<()> {
        if done.is_err() {
            self.is_over.store(true, Ordering::SeqCst);
        }
        done
    }

    fn copies(&self) -> std::sync::MutexGuard<'_, Vec<TakenCopy>> {
        self.copies.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn run(&self, arguments: &[&str], stdin: &str) -> Result<Output> {
        let all = [&["--cell", &self.address, "--deadline", DEADLINE_S], arguments].concat();
        let mut command = self.program.command(&all);
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut child = command.spawn().context("starting cairn")?;
        child.stdin.take().context("a pipe")?.write_all(stdin.as_bytes())?;
        Ok(child.wait_with_output()?)
    }

    fn ask(&self, arguments: &[&str]) -> Result<String> {
        let done = self.run(arguments, "")?;
        let said = String::from_utf8_lossy(&done.stderr);
        ensure!(done.status.success(), "cairn {}: {said}", arguments.join(" "));
        Ok(String::from_utf8(done.stdout)?)
    }

    /// Lines into one file and then into the other. One whose fate is unknown is written again.
    fn write(&self, writer: usize) -> Result<()> {
        let files = [format!("/soak/tree/a{writer}"), format!("/soak/tree/b{writer}")];
        let mut number = 0;
        while !self.is_over() {
            number += 1;
            self.begun[writer].store(number, Ordering::SeqCst);
            for file in &files {
                let line = format!("{number}\n");
                while !self.run(&["append", file], &line)?.status.success() {
                    if self.is_over() {
                        return Ok(());
                    }
                }
            }
            self.acknowledged[writer].store(number, Ordering::SeqCst);
        }
        Ok(())
    }

    /// One snapshot after the other, and a copy of a single file now and then.
    fn take_snapshots(&self) -> Result<()> {
        let counts = |of: &[AtomicU64; WRITERS]| of.each_ref().map(|it| it.load(Ordering::SeqCst));
        for number in 1.. {
            if self.is_over() {
                break;
            }
            let of_file = number % 4 == 0;
            let path = format!("/copies/{number}");
            let before = counts(&self.acknowledged);
            let command = match of_file {
                true => vec!["cp", "/soak/tree/a0", &path],
                false => vec!["snapshot", "/soak/tree", &path],
            };
            let done = self.run(&command, "")?;
            let after = counts(&self.begun);
            let is_there = self.run(&["stat", &path], "")?.status.success();
            match done.status.code() {
                Some(0) => ensure!(is_there, "{path} was answered for and is not there"),
                // Whether it was done, it is all there or not at all.
                Some(UNKNOWN) if is_there => {}
                _ => {
                    ensure!(!is_there, "{path} was refused and is there");
                    self.refused.fetch_add(1, Ordering::SeqCst);
                    continue;
                }
            }
            // Nothing of the tree was there when the first was taken.
            let files = if of_file { vec![path.clone()] } else { self.files_of(&path)? };
            let mut texts = Vec::new();
            for file in files {
                let text = self.ask(&["cat", &file])?;
                texts.push((file, text));
            }
            judge(&path, &texts, (&before, &after))?;
            if number % 3 == 0 && !of_file {
                // What is written to a copy is in no other one.
                self.run(&["append", &format!("{path}/own")], "own\n")?;
            }
            self.copies().push(TakenCopy { path, texts });
        }
        Ok(())
    }

    fn files_of(&self, copy: &str) -> Result<Vec<String>> {
        let names = self.ask(&["ls", "-1", copy])?;
        Ok(names.lines().map(|name| format!("{copy}/{name}")).collect())
    }

    /// All copies are as they were, the tree has all that was acknowledged, and nothing is amiss.
    fn judge_end(&self, cell: &CellProcesses, teller: &Teller) -> Result<()> {
        let copies = std::mem::take(&mut *self.copies());
        ensure!(copies.len() >= 5, "{} copies were taken", copies.len());
        for copy in &copies {
            for (file, text) in &copy.texts {
                let now = self.ask(&["cat", file])?;
                ensure!(now == *text, "{file} of {} is otherwise than it was", copy.path);
            }
        }
        for writer in 0..WRITERS {
            let acknowledged = self.acknowledged[writer].load(Ordering::SeqCst);
            for name in ["a", "b"] {
                let file = format!("/soak/tree/{name}{writer}");
                let has = count(&file, &self.ask(&["cat", &file])?)?;
                ensure!(has >= acknowledged, "{file} has {has} of {acknowledged} lines");
            }
        }
        let refused = self.refused.load(Ordering::SeqCst);
        await_nothing_found(cell, WHOLE)?;
        teller.say(format_args!(
            "{} copies, each of one instant and as it was; {refused} refused, with nothing left; \
             fsck --data finds nothing",
            copies.len()
        ));
        Ok(())
    }
}

/// Lines 1, 2, … in order; one whose fate was unknown may stand there again. How many.
fn count(file: &str, text: &str) -> Result<u64> {
    let mut last = 0;
    for line in text.lines() {
        let number: u64 = line.parse().with_context(|| format!("{file}: {line:?}"))?;
        if number != last && number != last + 1 {
            bail!("{file}: {number} comes after {last}");
        }
        last = number;
    }
    Ok(last)
}

/// SN1.
fn judge(
    path: &str,
    texts: &[(String, String)],
    (before, after): (&[u64; WRITERS], &[u64; WRITERS]),
) -> Result<()> {
    let mut counts = [[0; 2]; WRITERS];
    let is_tree = texts.iter().all(|(file, _)| file != path);
    for (file, text) in texts {
        let name = if is_tree { &file[path.len() + 1..] } else { "a0" };
        let (kind, writer) = name.split_at(1);
        let writer: usize = writer.parse().with_context(|| format!("{file}: whose is it?"))?;
        counts[writer][usize::from(kind == "b")] = count(file, text)?;
    }
    let writers = if is_tree { WRITERS } else { 1 };
    for (writer, [first, second]) in counts.into_iter().enumerate().take(writers) {
        let (least, most) = (before[writer], after[writer]);
        ensure!(
            (least..=most).contains(&first),
            "{path}: writer {writer} had {least} … {most} lines, and the copy has {first}"
        );
        let of_one_instant = !is_tree || first == second || first == second + 1;
        ensure!(of_one_instant, "{path}: a{writer} has {first} lines and b{writer} {second}");
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::judge;

    fn texts(files: &[(&str, &str)]) -> Vec<(String, String)> {
        files.iter().map(|(file, text)| (format!("/c/{file}"), (*text).to_owned())).collect()
    }

    #[test]
    fn a_copy_of_two_instants_or_without_what_was_acknowledged_is_found() {
        let judged = |a0, b0, before| {
            let texts = texts(&[("a0", a0), ("b0", b0)]);
            judge("/c", &texts, (&[before, 0, 0], &[3, 0, 0]))
        };
        judged("1\n2\n", "1\n", 1).expect("between the two");
        judged("1\n1\n2\n", "1\n2\n", 2).expect("written again");
        judged("1\n", "1\n2\n", 1).expect_err("of two instants");
        judged("1\n2\n3\n", "1\n", 1).expect_err("of two instants");
        judged("1\n", "1\n", 2).expect_err("what was acknowledged is missing");
        judged("1\n2\n3\n4\n", "1\n2\n3\n4\n", 1).expect_err("nobody has begun that");
        judged("1\n3\n", "1\n2\n", 1).expect_err("a line is missing");
    }
}
