//! What may happen to a cell's processes and files.

use anyhow::{Context, Result};
use cairn_testkit::{CellProcesses, ServerProcess};
use cairn_types::Random;
use std::fs::File;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

/// The longest that a server is dead, or stands still: longer than a lease and than it takes to be
/// taken for dead.
const AWAY_MS_MAX: u64 = 12_000;

/// One thing that happens.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ChaosFault {
    /// `kill -9`; it is started again after a while.
    Kill(usize),
    /// `SIGSTOP`, and `SIGCONT` after a while.
    Stop(usize),
    KillMaster,
    StopMaster,
    KillAll,
    /// A bit of any file is another.
    FlipBit,
    RemoveChunkFile,
    /// A kill during which bits are flipped, so that the next start finds them.
    KillAndFlip,
}

/// What is destroyed for good in a round, all of it on one server (H1).
#[derive(Debug)]
pub(crate) struct Wreckage {
    server: usize,
}

impl Wreckage {
    pub(crate) fn on(server: usize) -> Self {
        Self { server }
    }
}

impl ChaosFault {
    pub(crate) fn draw(random: &mut Random, servers: usize) -> Self {
        let server = random.below(servers as u64) as usize;
        match random.below(12) {
            0..=2 => Self::Kill(server),
            3..=4 => Self::Stop(server),
            5 => Self::KillMaster,
            6 => Self::StopMaster,
            7 => Self::KillAll,
            8 | 9 => Self::FlipBit,
            10 => Self::RemoveChunkFile,
            _ => Self::KillAndFlip,
        }
    }

    /// Lets it happen, and undoes what can be undone; what it was, for a person.
    pub(crate) fn carry_out(
        self,
        cell: &mut CellProcesses,
        wreckage: &mut Wreckage,
        random: &mut Random,
    ) -> Result<String> {
        let away = Duration::from_millis(random.below(AWAY_MS_MAX));
        let seconds = format!("{:.1} s", away.as_secs_f64());
        let victim = wreckage.server;
        Ok(match self {
            Self::Kill(at) => {
                kill_for(&mut cell.chunkservers[at], away)?;
                format!("{} killed for {seconds}", at + 1)
            }
            Self::Stop(at) => {
                stop_for(&cell.chunkservers[at], away)?;
                format!("{} stopped for {seconds}", at + 1)
            }
            Self::KillMaster => {
                kill_for(&mut cell.master, away / 4)?;
                "master killed".to_owned()
            }
            Self::StopMaster => {
                stop_for(&cell.master, away)?;
                format!("master stopped for {seconds}")
            }
            Self::KillAll => {
                cell.kill_all();
                cell.restart_all()?;
                "all killed".to_owned()
            }
            Self::FlipBit => {
                let what = flip_bit(&cell.data_of(victim + 1), random)?;
                format!("a bit of {what} on {} flipped", victim + 1)
            }
            Self::RemoveChunkFile => {
                let files = files_below(&cell.data_of(victim + 1).join("chunks"))?;
                let chunks: Vec<_> = files
                    .iter()
                    .filter(|path| path.extension().is_some_and(|x| x == "chunk"))
                    .collect();
                let Some(path) = pick(&chunks, random) else { return Ok("nothing".to_owned()) };
                // The server may have removed it this moment.
                let _ = std::fs::remove_file(path);
                format!("a chunk file on {} removed", victim + 1)
            }
            Self::KillAndFlip => {
                cell.chunkservers[victim].kill();
                let what = flip_bit(&cell.data_of(victim + 1), random)?;
                std::thread::sleep(away / 4);
                cell.chunkservers[victim].restart()?;
                format!("{} killed, a bit of {what} flipped", victim + 1)
            }
        })
    }
}

fn kill_for(server: &mut ServerProcess, away: Duration) -> Result<()> {
    server.kill();
    std::thread::sleep(away);
    server.restart()?;
    Ok(())
}

fn stop_for(server: &ServerProcess, away: Duration) -> Result<()> {
    let pid = server.pid().context("it runs")?;
    signal("-STOP", pid)?;
    std::thread::sleep(away);
    signal("-CONT", pid)
}

fn signal(name: &str, pid: u32) -> Result<()> {
    Command::new("kill").args([name, &pid.to_string()]).status().context("kill")?;
    Ok(())
}

/// Flips a bit of some chunk, sidecar or redo journal; which kind.
fn flip_bit(data: &Path, random: &mut Random) -> Result<String> {
    let files = files_below(&data.join("chunks"))?;
    let files: Vec<&PathBuf> = files.iter().collect();
    let Some(path) = pick(&files, random) else { return Ok("nothing".to_owned()) };
    let kind = path.extension().unwrap_or_default().to_string_lossy().into_owned();
    // The server may have removed it this moment.
    let Ok(file) = File::options().read(true).write(true).open(path) else { return Ok(kind) };
    let length = file.metadata()?.len();
    if length > 0 {
        let (at, mut byte) = (random.below(length), [0]);
        if file.read_at(&mut byte, at)? == 1 {
            byte[0] ^= 1 << random.below(8);
            file.write_at(&byte, at)?;
        }
    }
    Ok(kind)
}

fn pick<'a>(files: &[&'a PathBuf], random: &mut Random) -> Option<&'a PathBuf> {
    let at = random.below(files.len().max(1) as u64) as usize;
    files.get(at).copied()
}

/// All files below a directory, sorted; those that go while it is looked at are left out.
fn files_below(directory: &Path) -> Result<Vec<PathBuf>> {
    let mut found = Vec::new();
    for entry in std::fs::read_dir(directory).context(directory.display().to_string())? {
        let entry = entry?;
        match entry.file_type() {
            Ok(kind) if kind.is_dir() => found.extend(files_below(&entry.path())?),
            Ok(kind) if kind.is_file() => found.push(entry.path()),
            _ => {}
        }
    }
    found.sort();
    Ok(found)
}
