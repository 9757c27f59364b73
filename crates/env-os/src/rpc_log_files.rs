//! The files of a diagnostic log: rotated, bounded, and never in anybody's way (GFS §5.3).
//!
//! ```text
//!   rpclog/0000063a1c2f4e11-000001.rpclog      oldest of an earlier life of the server
//!   rpclog/0000063a1f00aa20-000001.rpclog
//!   rpclog/0000063a1f00aa20-000002.rpclog      being written
//! ```
//! - RF1: all files together stay within the bound, those of earlier lives included; the oldest
//!   goes first.
//! - RF2: the last room of a disk is not the log's: where little is free the oldest files go, and
//!   then nothing is written.
//! - RF3: what cannot be written is dropped and counted. It is said once that this is so, and once
//!   that it is over; it is tried again after a while.

use crate::rpc_log_options::RpcLogOptions;
use cairn_env::LogEvent;
use cairn_format::{RPC_LOG_EXTENSION, RpcLogHeader};
use std::fs::{self, File, OpenOptions};
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

/// Bytes around a batch in its file, at the most.
const RECORD_OVERHEAD_MAX: u64 = 32;
/// How long nothing is tried after something went wrong.
const RETRY_PAUSE: Duration = Duration::from_secs(10);
/// Of a disk, the part whose last room is left alone (RF2), and the most that this may be.
const RESERVE_PART: u64 = 20;
const RESERVE_MAX: u64 = 1 << 30;

/// The files of one log, and the one that is being written.
#[derive(Debug)]
pub(crate) struct RpcLogFiles {
    options: RpcLogOptions,
    run: u64,
    number: u64,
    current: Option<Current>,
    buffer: Vec<u8>,
    /// Since when nothing can be written, and when it is tried again.
    retry: Option<Instant>,
}

#[derive(Debug)]
struct Current {
    file: File,
    header: RpcLogHeader,
    size: u64,
}

/// What became of a batch.
#[derive(Debug)]
pub(crate) enum Written {
    /// It is in the file.
    Yes(Option<LogEvent>),
    /// It is dropped; where that is news, this is to be said.
    No(Option<LogEvent>),
}

impl RpcLogFiles {
    pub(crate) fn new(options: RpcLogOptions, run: u64) -> Self {
        let (number, current, buffer) = (0, None, Vec::new());
        Self { options, run, number, current, buffer, retry: None }
    }

    /// Writes a batch, or drops it (RF3).
    pub(crate) fn write(&mut self, batch: &[u8]) -> Written {
        if self.retry.is_some_and(|at| Instant::now() < at) {
            return Written::No(None);
        }
        let had_trouble = self.retry.is_some();
        match self.try_write(batch) {
            Ok(()) => {
                self.retry = None;
                let event = had_trouble.then(|| {
                    LogEvent::info("the diagnostic log is written again")
                        .with("directory", self.options.directory.display())
                });
                Written::Yes(event)
            }
            Err(error) => {
                self.current = None;
                self.retry = Some(Instant::now() + RETRY_PAUSE);
                let event = (!had_trouble).then(|| {
                    LogEvent::warn("the diagnostic log cannot be written; the server goes on")
                        .with("directory", self.options.directory.display())
                        .with("why", error)
                });
                Written::No(event)
            }
        }
    }

    fn try_write(&mut self, batch: &[u8]) -> io::Result<()> {
        self.keep_reserve()?;
        let fits = |current: &Current| {
            current.size + batch.len() as u64 + RECORD_OVERHEAD_MAX <= self.options.file_size()
        };
        let mut current = match self.current.take() {
            Some(current) if fits(&current) => current,
            _ => self.begin_file()?,
        };
        self.buffer.clear();
        current.header.put_batch(batch, &mut self.buffer);
        current.file.write_all(&self.buffer)?;
        current.size += self.buffer.len() as u64;
        self.current = Some(current);
        Ok(())
    }

    /// A new file, for which the oldest may have to go (RF1).
    fn begin_file(&mut self) -> io::Result<Current> {
        match fs::create_dir(&self.options.directory) {
            Err(error) if error.kind() != io::ErrorKind::AlreadyExists => return Err(error),
            _ => {}
        }
        let room = self.options.size_max.saturating_sub(self.options.file_size());
        let mut files = log_files(&self.options.directory)?;
        let mut held: u64 = files.iter().map(|(_, size)| size).sum();
        while held > room && !files.is_empty() {
            let (oldest, size) = files.remove(0);
            fs::remove_file(oldest)?;
            held -= size;
        }
        self.number += 1;
        let header = RpcLogHeader { run: self.run, number: self.number };
        let name = format!("{:016x}-{:06}.{RPC_LOG_EXTENSION}", self.run, self.number);
        let path = self.options.directory.join(name);
        let mut file = OpenOptions::new().write(true).create_new(true).open(path)?;
        let raw = header.encode();
        file.write_all(&raw)?;
        Ok(Current { file, header, size: raw.len() as u64 })
    }

    /// Where little is free, the oldest files go; where they are all gone, nothing is written
    /// (RF2).
    fn keep_reserve(&mut self) -> io::Result<()> {
        if has_reserve(&self.options.directory) {
            return Ok(());
        }
        for (oldest, _) in log_files(&self.options.directory)? {
            if has_reserve(&self.options.directory) {
                return Ok(());
            }
            self.current = None;
            fs::remove_file(oldest)?;
        }
        match has_reserve(&self.options.directory) {
            true => Ok(()),
            false => Err(io::Error::new(io::ErrorKind::StorageFull, "the disk is nearly full")),
        }
    }
}

/// Whether a disk has so much room that a log may take some; one that does not tell may.
fn has_reserve(directory: &Path) -> bool {
    let told = rustix::fs::statvfs(directory);
    told.map_or(true, |told| {
        let capacity = told.f_blocks.saturating_mul(told.f_frsize);
        let free = told.f_bavail.saturating_mul(told.f_frsize);
        free > (capacity / RESERVE_PART).min(RESERVE_MAX)
    })
}

/// The files of a log with their sizes, the oldest first.
fn log_files(directory: &Path) -> io::Result<Vec<(PathBuf, u64)>> {
    let mut files = Vec::new();
    for entry in fs::read_dir(directory)? {
        let path = entry?.path();
        if path.extension().is_some_and(|extension| extension == RPC_LOG_EXTENSION) {
            let size = fs::metadata(&path)?.len();
            files.push((path, size));
        }
    }
    files.sort();
    Ok(files)
}

#[cfg(test)]
mod tests {
    use super::{RpcLogFiles, Written, log_files};
    use crate::rpc_log_options::RpcLogOptions;
    use cairn_format::RpcLogHeader;

    fn options(directory: std::path::PathBuf) -> RpcLogOptions {
        RpcLogOptions { directory, size_max: 80_000 }
    }

    #[test]
    fn all_files_stay_within_the_bound_over_several_lives_and_the_newest_is_kept() {
        let scratch = tempfile::tempdir().expect("a scratch directory");
        let directory = scratch.path().join("rpclog");
        for run in 1..4 {
            let mut files = RpcLogFiles::new(options(directory.clone()), run);
            for number in 0..200u32 {
                let batch = [&number.to_le_bytes()[..], &[7; 1000]].concat();
                assert!(matches!(files.write(&batch), Written::Yes(None)), "{run} {number}");
                let held = log_files(&directory).expect("lists");
                let held: u64 = held.iter().map(|(_, size)| size).sum();
                assert!(held <= 80_000, "{held} bytes in life {run}");
            }
        }
        let files = log_files(&directory).expect("lists");
        assert!(files.len() >= 7, "{files:?}");
        let raw = std::fs::read(&files.last().expect("some").0).expect("reads");
        let header = RpcLogHeader::decode(&raw).expect("a log file");
        assert_eq!(header.run, 3);
        let last = header.batches(&raw).pop().expect("a batch")[..4].to_vec();
        assert_eq!(last, 199u32.to_le_bytes());
    }

    #[test]
    fn a_directory_that_cannot_be_written_is_told_of_once_and_costs_the_batches_alone() {
        let scratch = tempfile::tempdir().expect("a scratch directory");
        let directory = scratch.path().join("rpclog");
        std::fs::write(&directory, "a file where the directory should be").expect("writes");
        let mut files = RpcLogFiles::new(options(directory), 1);
        let Written::No(Some(event)) = files.write(&[1]) else { panic!("it cannot be written") };
        assert!(event.to_string().contains("the server goes on"), "{event}");
        assert!(matches!(files.write(&[1]), Written::No(None)), "it was said");
        files.retry = Some(std::time::Instant::now());
        assert!(matches!(files.write(&[1]), Written::No(None)), "tried again, and said already");
    }

    #[test]
    fn what_can_be_written_again_is_told_of_once() {
        let scratch = tempfile::tempdir().expect("a scratch directory");
        let directory = scratch.path().join("rpclog");
        std::fs::write(&directory, "in the way").expect("writes");
        let mut files = RpcLogFiles::new(options(directory.clone()), 1);
        assert!(matches!(files.write(&[1]), Written::No(Some(_))));
        std::fs::remove_file(&directory).expect("removes");
        files.retry = Some(std::time::Instant::now());
        assert!(matches!(files.write(&[1]), Written::Yes(Some(_))));
        assert!(matches!(files.write(&[1]), Written::Yes(None)));
    }
}
