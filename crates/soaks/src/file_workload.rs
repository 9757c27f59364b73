//! Files that come and go beside the appends: stored, read back, moved and removed, by the commands
//! that people type.
//!
//! A file's bytes follow from its number, so that whatever comes back can be judged.

use anyhow::{Context, Result, bail};
use cairn_testkit::Program;
use cairn_types::Random;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::thread::JoinHandle;

/// Files that are there at a time.
const FILES_MAX: usize = 24;
const SIZE_MAX: u64 = 6 << 20;

/// What was done.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct FileCounts {
    pub(crate) stored: u64,
    pub(crate) read: u64,
    pub(crate) moved: u64,
    pub(crate) removed: u64,
    /// Commands that failed: nothing is known of what they were to do.
    pub(crate) unanswered: u64,
}

/// The files, and a thread that works on them.
#[derive(Debug)]
pub(crate) struct FileWorkload {
    thread: Option<JoinHandle<Result<()>>>,
    stopped: Arc<AtomicBool>,
    counts: Arc<Mutex<FileCounts>>,
}

impl FileWorkload {
    /// Starts it in the directory `/files`, which is there.
    pub(crate) fn start(program: Program, cell: &str, seed: u64) -> Self {
        let (stopped, counts) = (Arc::<AtomicBool>::default(), Arc::<Mutex<FileCounts>>::default());
        let mut worker = FileWorker {
            program,
            cell: cell.to_owned(),
            random: Random::new(seed ^ 0xF11E),
            files: Vec::new(),
            last: 0,
            counts: Arc::clone(&counts),
        };
        let told = Arc::clone(&stopped);
        let thread = std::thread::spawn(move || {
            while !told.load(Ordering::Relaxed) {
                worker.act()?;
            }
            worker.read_all()
        });
        Self { thread: Some(thread), stopped, counts }
    }

    /// Whether all that was read so far was right.
    ///
    /// # Errors
    /// With what was not.
    pub(crate) fn check(&self) -> Result<()> {
        if self.thread.as_ref().is_some_and(JoinHandle::is_finished) {
            bail!("the thread that stores and reads files has ended early");
        }
        Ok(())
    }

    /// Lets it read every file that is there once more, in a cell that is well, and end.
    ///
    /// # Errors
    /// With what was not as it was stored.
    pub(crate) fn end(mut self) -> Result<FileCounts> {
        self.stopped.store(true, Ordering::Relaxed);
        let thread = self.thread.take().context("it is ended once")?;
        thread.join().map_err(|_| anyhow::anyhow!("the thread of files panicked"))??;
        Ok(*self.counts.lock().expect("no panic"))
    }
}

#[derive(Debug)]
struct FileWorker {
    program: Program,
    cell: String,
    random: Random,
    /// Those that are known to be there: by number.
    files: Vec<u64>,
    last: u64,
    counts: Arc<Mutex<FileCounts>>,
}

impl FileWorker {
    fn act(&mut self) -> Result<()> {
        let at = self.random.below(self.files.len().max(1) as u64) as usize;
        match self.random.below(8) {
            0..=2 if self.files.len() < FILES_MAX => self.store(),
            _ if self.files.is_empty() => self.store(),
            0..=4 => self.read(at).map(drop),
            5 | 6 => self.rename(at),
            _ => self.remove(at),
        }
    }

    /// Asks, and counts what came to nothing.
    fn ask(&mut self, arguments: &[&str]) -> Option<String> {
        let answer = self.program.ask(&[arguments, &["--cell", &self.cell]].concat()).ok();
        if answer.is_none() {
            self.count(|counts| counts.unanswered += 1);
        }
        answer
    }

    fn count(&self, what: impl FnOnce(&mut FileCounts)) {
        what(&mut self.counts.lock().expect("no panic"));
    }

    fn store(&mut self) -> Result<()> {
        self.last += 1;
        let number = self.last;
        let local = std::env::temp_dir().join(format!("cairn-soak-{}-in", std::process::id()));
        std::fs::write(&local, bytes_of(number))?;
        if self.ask(&["put", &local.display().to_string(), &path_of(number)]).is_some() {
            self.files.push(number);
            self.count(|counts| counts.stored += 1);
        }
        std::fs::remove_file(&local)?;
        Ok(())
    }

    /// Whether it could be read; then it was right.
    fn read(&mut self, at: usize) -> Result<bool> {
        let number = self.files[at];
        let local = std::env::temp_dir().join(format!("cairn-soak-{}-out", std::process::id()));
        let read = self.ask(&["get", "-f", &path_of(number), &local.display().to_string()]);
        if read.is_some() {
            if std::fs::read(&local)? != bytes_of(number) {
                bail!("{} came back with other bytes: {}", path_of(number), local.display());
            }
            std::fs::remove_file(&local)?;
            self.count(|counts| counts.read += 1);
        }
        Ok(read.is_some())
    }

    /// Moves it away and back, so that its number names it again.
    fn rename(&mut self, at: usize) -> Result<()> {
        let number = self.files.swap_remove(at);
        let (path, aside) = (path_of(number), format!("{}-aside", path_of(number)));
        if self.ask(&["mv", &path, &aside]).is_some() && self.ask(&["mv", &aside, &path]).is_some()
        {
            self.files.push(number);
            self.count(|counts| counts.moved += 1);
        }
        Ok(())
    }

    fn remove(&mut self, at: usize) -> Result<()> {
        let number = self.files.swap_remove(at);
        if self.ask(&["rm", &path_of(number)]).is_some() {
            self.count(|counts| counts.removed += 1);
            if self.ask(&["get", &path_of(number), "/dev/null"]).is_some() {
                bail!("{} was removed, and could be read", path_of(number));
            }
        }
        Ok(())
    }

    fn read_all(&mut self) -> Result<()> {
        for at in 0..self.files.len() {
            if !self.read(at)? {
                bail!("{} cannot be read from a healthy cell", path_of(self.files[at]));
            }
        }
        Ok(())
    }
}

fn path_of(number: u64) -> String {
    format!("/files/{number}")
}

fn bytes_of(number: u64) -> Vec<u8> {
    let mut random = Random::new(number);
    let size = random.below(SIZE_MAX) as usize;
    let mut bytes = Vec::with_capacity(size + 8);
    while bytes.len() < size {
        bytes.extend_from_slice(&random.next_u64().to_le_bytes());
    }
    bytes.truncate(size);
    bytes
}
