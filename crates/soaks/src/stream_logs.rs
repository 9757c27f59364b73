//! Log files that grow and are rotated, for `cairn ship`.
//!
//! ```text
//!   log 1 … log n ──► app.log ──► renamed to app.log.1, app.log.2, … and begun anew
//! ```

use anyhow::{Context, Result, ensure};
use std::fs::{File, OpenOptions, rename};
use std::io::Write;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::Duration;

/// Rotated files in all: so many are open at the shipper.
const ROTATIONS: u64 = 40;
/// Lines that are written at once.
const BURST: u64 = 50;
const BURST_EVERY: Duration = Duration::from_millis(5);
/// What a line of theirs begins with.
const LOG: &str = "log ";

/// Writes them, from a thread of its own.
#[derive(Debug)]
pub(crate) struct LogFileWriter {
    thread: JoinHandle<Result<u64>>,
    is_stopped: Arc<AtomicBool>,
}

impl LogFileWriter {
    /// So many lines in all.
    pub(crate) fn start(directory: &Path, lines: u64) -> Self {
        let is_stopped = Arc::new(AtomicBool::new(false));
        let (directory, stop) = (directory.to_owned(), is_stopped.clone());
        let thread = std::thread::spawn(move || write(&directory, lines, &stop));
        Self { thread, is_stopped }
    }

    /// Whether all are written.
    pub(crate) fn is_done(&self) -> bool {
        self.thread.is_finished()
    }

    /// How many lines there are.
    ///
    /// # Errors
    /// When this machine's disk failed it.
    pub(crate) fn finish(self) -> Result<u64> {
        self.is_stopped.store(true, Ordering::Relaxed);
        self.thread.join().map_err(|_| anyhow::anyhow!("the writer of log files panicked"))?
    }
}

fn open(path: &PathBuf) -> Result<File> {
    let file = OpenOptions::new().create(true).append(true).open(path);
    file.with_context(|| format!("opening {}", path.display()))
}

fn write(directory: &Path, lines: u64, stop: &AtomicBool) -> Result<u64> {
    let path = directory.join("app.log");
    let each = lines.div_ceil(ROTATIONS).max(1);
    let mut file = open(&path)?;
    for number in 1..=lines {
        let line = format!("{LOG}{number}\n");
        // Now and then a line comes in two pieces.
        let cut = if number % 7 == 0 { 4 } else { line.len() };
        file.write_all(&line.as_bytes()[..cut])?;
        if number % BURST == 0 {
            std::thread::sleep(BURST_EVERY);
        }
        file.write_all(&line.as_bytes()[cut..])?;
        if number % each == 0 {
            rename(&path, directory.join(format!("app.log.{}", number / each)))?;
            file = open(&path)?;
        }
        if stop.load(Ordering::Relaxed) {
            return Ok(number);
        }
    }
    Ok(lines)
}

/// Which of their lines were read.
#[derive(Debug)]
pub(crate) struct Shipped {
    seen: Vec<bool>,
}

impl Shipped {
    /// Of so many.
    pub(crate) fn new(lines: u64) -> Self {
        Self { seen: vec![false; usize::try_from(lines).expect("it fits")] }
    }

    /// Takes a line of the stream; whether it is one of theirs.
    ///
    /// # Errors
    /// Where it is there twice, or nobody has written it.
    pub(crate) fn take(&mut self, line: &str) -> Result<bool> {
        let Some(number) = line.strip_prefix(LOG) else { return Ok(false) };
        let number: usize = number.parse().with_context(|| format!("the log line {line:?}"))?;
        let place = number.checked_sub(1).and_then(|index| self.seen.get_mut(index));
        let seen = place.with_context(|| format!("nobody has written {line:?}"))?;
        ensure!(!*seen, "{line:?} is there twice");
        *seen = true;
        Ok(true)
    }

    /// Whether all are there.
    ///
    /// # Errors
    /// With the first that is not.
    pub(crate) fn judge(&self) -> Result<()> {
        let missing = self.seen.iter().filter(|seen| !**seen).count();
        let first = self.seen.iter().position(|seen| !seen).map_or(0, |index| index + 1);
        ensure!(missing == 0, "{missing} lines of log files are missing, the first is {first}");
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::Shipped;

    #[test]
    fn a_line_that_is_missing_or_there_twice_or_nobodys_is_found() {
        let mut shipped = Shipped::new(2);
        assert!(!shipped.take("p1 1 aaa").expect("another's"));
        assert!(shipped.take("log 2").expect("theirs"));
        shipped.take("log 2").expect_err("twice");
        shipped.take("log 3").expect_err("nobody's");
        shipped.take("log 0").expect_err("nobody's");
        shipped.judge().expect_err("1 is missing");
        shipped.take("log 1").expect("theirs");
        shipped.judge().expect("all are there");
    }
}
