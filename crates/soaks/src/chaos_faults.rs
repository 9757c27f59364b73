//! What may happen to a cell's processes, files and links.

use crate::cell::{SoakCell, host_name};
use crate::rot::{flip_bit, remove_chunk_file};
use anyhow::{Context, Result};
use cairn_testkit::{ServerProcess, Signal};
use cairn_types::Random;
use std::time::Duration;

/// The longest that something lasts: longer than a lease, and than it takes to be taken for dead.
const AWAY_MS_MAX: u64 = 12_000;
/// In a small cell a lease is over after two seconds, and a server dead after four.
const BEYOND_DEAD_MS: u64 = 5_000;
/// In percent, each way.
const LOSS: &str = "3";
const SLOW: &str = "10mbit";

/// One thing that happens.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ChaosFault {
    /// `kill -9`; it is started again after a while.
    Kill(usize),
    /// `SIGSTOP`, and `SIGCONT` after a while.
    Stop(usize),
    /// The same, beyond its leases and beyond what it takes to be dead.
    StopBeyondDeath(usize),
    KillMaster,
    StopMaster,
    KillAll,
    /// A bit of any file is another.
    FlipBit,
    RemoveChunkFile,
    /// A kill during which bits are flipped, so that the next start finds them.
    KillAndFlip,
    /// The disk of the last server has no room for a while.
    FillDisk,
    /// A link of the laboratory fails for a while.
    Link(LinkFault),
}

/// What happens to links.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum LinkFault {
    /// Nobody reaches it.
    Cut(usize),
    /// The master is not reached by it, or does not reach it, or both.
    CutFromMaster(usize, CutWay),
    /// Two chunkservers do not reach each other, or one does not reach the other.
    CutFromEachOther(usize, usize, CutWay),
    Lossy(usize),
    Slow(usize),
}

/// Which way nothing goes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum CutWay {
    Both,
    There,
    Back,
}

/// What is destroyed for good in a round, all of it on one server (H1).
#[derive(Debug)]
pub(crate) struct Wreckage {
    pub(crate) server: usize,
}

impl Wreckage {
    pub(crate) fn on(server: usize) -> Self {
        Self { server }
    }
}

impl CutWay {
    fn draw(random: &mut Random) -> Self {
        [Self::Both, Self::There, Self::Back][random.below(3) as usize]
    }

    /// The words after `lab cut`, and what that is.
    fn words<'a>(self, a: &'a str, b: &'a str) -> (Vec<&'a str>, String) {
        match self {
            Self::Both => (vec!["cut", a, b], format!("{a} and {b} cut from each other")),
            Self::There => (vec!["cut", a, b, "--one-way"], format!("nothing from {a} to {b}")),
            Self::Back => (vec!["cut", b, a, "--one-way"], format!("nothing from {b} to {a}")),
        }
    }
}

impl LinkFault {
    fn draw(random: &mut Random, servers: usize) -> Self {
        let at = random.below(servers as u64) as usize;
        let other = (at + 1 + random.below(servers as u64 - 1) as usize) % servers;
        match random.below(6) {
            0 | 1 => Self::Cut(at),
            2 => Self::CutFromMaster(at, CutWay::draw(random)),
            3 => Self::CutFromEachOther(at, other, CutWay::draw(random)),
            4 => Self::Lossy(at),
            _ => Self::Slow(at),
        }
    }

    /// Lets it last that long; what it was.
    fn carry_out(self, cell: &SoakCell, away: Duration) -> Result<String> {
        let lab = cell.lab.as_ref().context("links fail in a laboratory")?;
        let (Self::Cut(at)
        | Self::CutFromMaster(at, _)
        | Self::CutFromEachOther(at, _, _)
        | Self::Lossy(at)
        | Self::Slow(at)) = self;
        let host = host_name(at + 1);
        let host = host.as_str();
        let other;
        let (words, told) = match self {
            Self::Cut(_) => (vec!["cut", host], format!("{host} cut off")),
            Self::CutFromMaster(_, way) => way.words(host, "m0"),
            Self::CutFromEachOther(_, to, way) => {
                other = host_name(to + 1);
                way.words(host, &other)
            }
            Self::Lossy(_) => (vec!["loss", host, LOSS], format!("{host} loses {LOSS} %")),
            Self::Slow(_) => (vec!["slow", host, SLOW], format!("{host} has {SLOW}")),
        };
        lab.run(&words)?;
        std::thread::sleep(away);
        lab.run(&["heal"])?;
        Ok(told)
    }
}

impl ChaosFault {
    /// Any of what can happen to this cell.
    pub(crate) fn draw(random: &mut Random, cell: &SoakCell) -> Self {
        let servers = cell.processes.chunkservers.len();
        let server = random.below(servers as u64) as usize;
        let kinds = if cell.lab.is_some() { 20 } else { 14 };
        match random.below(kinds) {
            0..=2 => Self::Kill(server),
            3 => Self::Stop(server),
            4 => Self::StopBeyondDeath(server),
            5 => Self::KillMaster,
            6 => Self::StopMaster,
            7 => Self::KillAll,
            8 | 9 => Self::FlipBit,
            10 => Self::RemoveChunkFile,
            11 => Self::KillAndFlip,
            12 | 13 if cell.disk.is_some() => Self::FillDisk,
            12 | 13 => Self::StopBeyondDeath(server),
            _ => Self::Link(LinkFault::draw(random, servers)),
        }
    }

    /// Lets it happen, and undoes what can be undone; what it was, for a person.
    pub(crate) fn carry_out(
        self,
        cell: &mut SoakCell,
        wreckage: &Wreckage,
        random: &mut Random,
    ) -> Result<String> {
        let away = Duration::from_millis(random.below(AWAY_MS_MAX));
        let seconds = format!("{:.1} s", away.as_secs_f64());
        let victim = wreckage.server;
        let data = cell.processes.data_of(victim + 1);
        Ok(match self {
            Self::Kill(at) => {
                kill_for(&mut cell.processes.chunkservers[at], away)?;
                format!("{} killed for {seconds}", at + 1)
            }
            Self::Stop(at) => {
                stop_for(&cell.processes.chunkservers[at], away)?;
                format!("{} stopped for {seconds}", at + 1)
            }
            Self::StopBeyondDeath(at) => {
                let away = Duration::from_millis(BEYOND_DEAD_MS) + away / 2;
                stop_for(&cell.processes.chunkservers[at], away)?;
                format!("{} stopped beyond its death, for {:.1} s", at + 1, away.as_secs_f64())
            }
            Self::KillMaster => {
                kill_for(&mut cell.processes.masters[0], away / 4)?;
                "master killed".to_owned()
            }
            Self::StopMaster => {
                stop_for(&cell.processes.masters[0], away)?;
                format!("master stopped for {seconds}")
            }
            Self::KillAll => {
                cell.processes.kill_all();
                cell.processes.restart_all()?;
                "all killed".to_owned()
            }
            Self::FlipBit => {
                format!("a bit of {} on {} flipped", flip_bit(&data, random)?, victim + 1)
            }
            Self::RemoveChunkFile => {
                format!("{} on {} removed", remove_chunk_file(&data, random)?, victim + 1)
            }
            Self::KillAndFlip => {
                cell.processes.chunkservers[victim].kill();
                let what = flip_bit(&data, random)?;
                std::thread::sleep(away / 4);
                cell.processes.chunkservers[victim].restart()?;
                format!("{} killed, a bit of {what} flipped", victim + 1)
            }
            Self::FillDisk => {
                let disk = cell.disk.as_ref().context("drawn where there is one")?;
                disk.fill()?;
                std::thread::sleep(away);
                disk.ease()?;
                format!("no room on the last one's disk for {seconds}")
            }
            Self::Link(fault) => format!("{} for {seconds}", fault.carry_out(cell, away)?),
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
    server.signal(Signal::STOP)?;
    std::thread::sleep(away);
    Ok(server.signal(Signal::CONT)?)
}
