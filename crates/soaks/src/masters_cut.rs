//! The master in charge is cut off in a laboratory, one way or both, round after round.
//!
//! - MC1: how long it takes counts from when the last link is cut: before, it has a majority.
//! - MC2: whoever asks the one that was cut off gets what the new one knows, or no answer.

use crate::cell::{SoakCell, master_host_name};
use crate::lab::Lab;
use crate::load::{Appenders, Readers};
use crate::masters::{AWAY_MAX, PROGRESS, RECORDS, tell_times};
use crate::options::SoakOptions;
use crate::teller::Teller;
use anyhow::{Context, Result, ensure};
use cairn_testkit::CellProcesses;
use std::collections::BTreeMap;
use std::time::{Duration, Instant};

/// How it is cut off, in turn.
#[derive(Clone, Copy, Debug, Eq, Ord, PartialEq, PartialOrd)]
enum MastersCut {
    /// The other masters do not hear it; it hears them.
    Mute,
    /// It does not hear the other masters; they hear it.
    Deaf,
    /// Neither hears the other; clients and chunkservers reach it.
    Parted,
    /// Nobody reaches it.
    Off,
}

const CUTS: [MastersCut; 4] =
    [MastersCut::Mute, MastersCut::Deaf, MastersCut::Parted, MastersCut::Off];
/// For so long the one that is cut off is asked.
const ASKED_FOR: Duration = Duration::from_secs(3);

/// Runs it.
///
/// # Errors
/// With whatever did not go as promised.
pub(crate) fn run(soak: &mut SoakCell, options: &SoakOptions, teller: &Teller) -> Result<()> {
    let (cell, place) = (&soak.processes, &soak.place);
    let lab = soak.lab.as_ref().context("links are cut in a laboratory")?;
    cell.ask(&["mkdir", "/soak"])?;
    cell.ask(&["mkdir", "/names"])?;
    let mut appenders = Appenders::start(place, RECORDS)?;
    let followers = Readers::start(place, "follow")?;
    appenders.go()?;
    let mut times: BTreeMap<MastersCut, [Vec<Duration>; 2]> = BTreeMap::new();
    for round in 1..=options.rounds {
        appenders.await_acknowledged(appenders.acknowledged() + PROGRESS)?;
        let cut = CUTS[usize::try_from(round)? % CUTS.len()];
        cell.await_masters()?;
        let gone = cell.in_charge()?;
        cut.carry_out(lab, gone, cell.masters.len())?;
        let (began, before) = (Instant::now(), appenders.acknowledged());
        cell.ask(&["mkdir", &format!("/names/{round}")])?;
        let made = began.elapsed();
        appenders.await_acknowledged(before + 100)?;
        let appended = began.elapsed();
        let (answers, refusals) = ask_the_former(cell, gone, round)?;
        lab.run(&["heal"])?;
        teller.say(format_args!(
            "round {round}: {cut:?} {}: a directory is made after {} ms, 100 records more are \
             acknowledged after {} ms; asked itself it sent on {answers} times, and said nothing \
             {refusals} times",
            cell.masters[gone].name(),
            made.as_millis(),
            appended.as_millis()
        ));
        ensure!(appended <= AWAY_MAX, "appends were away for {} ms", appended.as_millis());
        let of_its_kind = times.entry(cut).or_default();
        of_its_kind[0].push(made);
        of_its_kind[1].push(appended);
    }
    appenders.stop()?;
    let appended = appenders.finish(cell.directory())?;
    for (cut, [creates, appends]) in &mut times {
        tell_times(teller, &format!("{cut:?}: a directory is made"), creates);
        tell_times(teller, &format!("{cut:?}: records"), appends);
    }
    let names = cell.ask(&["ls", "/names"])?.lines().count() as u64;
    ensure!(names == options.rounds, "{names} of {} directories are there", options.rounds);
    let read_on = Readers::start(place, "read")?;
    let judged = followers.judge(&appended, teller);
    read_on.judge(&appended, teller).and(judged)
}

impl MastersCut {
    fn carry_out(self, lab: &Lab, gone: usize, masters: usize) -> Result<()> {
        let name = master_host_name(gone);
        if self == Self::Off {
            return lab.run(&["cut", &name]).map(drop);
        }
        for other in (0..masters).filter(|other| *other != gone).map(master_host_name) {
            match self {
                Self::Mute => lab.run(&["cut", &name, &other, "--one-way"])?,
                Self::Deaf => lab.run(&["cut", &other, &name, "--one-way"])?,
                Self::Parted | Self::Off => lab.run(&["cut", &name, &other])?,
            };
        }
        Ok(())
    }
}

/// Asks the one that was in charge for what another has made since: how often it was answered, by
/// whoever that was, and how often by nobody (MC2).
fn ask_the_former(cell: &CellProcesses, gone: usize, round: u64) -> Result<(u64, u64)> {
    let (began, name) = (Instant::now(), round.to_string());
    let (mut answers, mut refusals) = (0, 0);
    while began.elapsed() < ASKED_FOR {
        let at = cell.masters[gone].address();
        let said = cell.program().ask(&["ls", "/names", "--deadline", "1", "--cell", at]);
        match said {
            Ok(names) => {
                let knows = names.split_whitespace().any(|it| it.trim_end_matches('/') == name);
                ensure!(knows, "{at} answers as if it were in charge: {names}");
                answers += 1;
            }
            Err(_) => refusals += 1,
        }
    }
    Ok((answers, refusals))
}
