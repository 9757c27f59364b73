//! The master in charge dies, round after round, while clients append and names are made.

use crate::load::{Appenders, LoadPlace, Readers};
use crate::options::SoakOptions;
use crate::report::Report;
use crate::steady_load::SteadyLoad;
use crate::teller::Teller;
use anyhow::{Result, ensure};
use cairn_testkit::{CellProcesses, ServerProcess, Signal};
use std::time::{Duration, Instant};

/// More than any client will come to.
pub(crate) const RECORDS: [u64; 2] = [4_000_000, 100_000];
/// Appends are never away for longer.
pub(crate) const AWAY_MAX: Duration = Duration::from_secs(5);
/// Seconds after which a directory is made again, and records are acknowledged, at the most.
const CREATES_AWAY_MAX: f64 = 2.0;
const APPENDS_AWAY_MAX: f64 = 3.0;
/// What a look-up of a shadow may take at most, in milliseconds: a client finds out once that one
/// of them stands still, and asks the next.
const LOOK_UP_MAX: f64 = 500.0;
/// Acknowledgements between two deaths.
pub(crate) const PROGRESS: u64 = 3_000;

/// How the master in charge goes, in turn.
#[derive(Clone, Copy, Debug)]
enum Departure {
    Killed,
    /// Stands still until another is in charge.
    Stopped,
    /// Asked to, it hands over.
    AskedToStop,
}

const DEPARTURES: [Departure; 4] =
    [Departure::Killed, Departure::Stopped, Departure::Killed, Departure::AskedToStop];

/// Runs it.
///
/// # Errors
/// With whatever did not go as promised.
pub(crate) fn run(cell: &mut CellProcesses, options: &SoakOptions, teller: &Teller) -> Result<()> {
    let rounds = options.rounds;
    cell.ask(&["mkdir", "/soak"])?;
    cell.ask(&["mkdir", "/names"])?;
    let place = LoadPlace::here(cell);
    let mut appenders = Appenders::start(&place, RECORDS)?;
    let followers = Readers::start(&place, "follow")?;
    appenders.go()?;
    cell.ask(&["mkdir", "/looked-at"])?;
    cell.ask(&["create", "/looked-at/file"])?;
    let mut look_ups = SteadyLoad::start(&place, "ask-shadow", "/looked-at")?;
    look_ups.mark()?;
    let (mut creates, mut appends) = (Vec::new(), Vec::new());
    for round in 1..=rounds {
        appenders.await_acknowledged(appenders.acknowledged() + PROGRESS)?;
        let how = DEPARTURES[usize::try_from(round)? % DEPARTURES.len()];
        cell.await_masters()?;
        let gone = cell.in_charge()?;
        let before = appenders.acknowledged();
        let began = Instant::now();
        depart(&mut cell.masters[gone], how)?;
        cell.ask(&["mkdir", &format!("/names/{round}")])?;
        let made = began.elapsed();
        appenders.await_acknowledged(before + 100)?;
        let appended = began.elapsed();
        come_back(&mut cell.masters[gone], how)?;
        teller.say(format_args!(
            "round {round}: {how:?} {}: a directory is made after {} ms, 100 records more are \
             acknowledged after {} ms",
            cell.masters[gone].name(),
            made.as_millis(),
            appended.as_millis()
        ));
        ensure!(appended <= AWAY_MAX, "appends were away for {} ms", appended.as_millis());
        creates.push(made);
        appends.push(appended);
    }
    let mut report = Report::default();
    judge_look_ups(teller, look_ups, &mut report)?;
    appenders.stop()?;
    let appended = appenders.finish(cell.directory())?;
    for (what, times, asked) in [
        ("a directory is made", &mut creates, CREATES_AWAY_MAX),
        ("records", &mut appends, APPENDS_AWAY_MAX),
    ] {
        tell_times(teller, what, times);
        let longest = times.last().copied().unwrap_or_default();
        report.at_most(&format!("{what} again"), "s", asked, longest.as_secs_f64());
    }
    appended.errors().iter().take(8).for_each(|error| teller.say(format_args!("  {error}")));
    let names = cell.ask(&["ls", "/names"])?.lines().count() as u64;
    ensure!(names == rounds, "{names} of {rounds} directories are there");
    let read_on = Readers::start(&place, "read")?;
    let judged = followers.judge(&appended, teller);
    read_on.judge(&appended, teller).and(judged)?;
    report.verdict()
}

/// Judges how those fared who took a shadow's word meanwhile.
fn judge_look_ups(teller: &Teller, mut look_ups: SteadyLoad, report: &mut Report) -> Result<()> {
    let looked_up = look_ups.mark()?;
    teller.say(format_args!(
        "look-ups of a client that takes a shadow's word: {}, 99 of 100 within {:.1} ms",
        looked_up.count, looked_up.p99_ms
    ));
    report.at_most("a look-up of a shadow", "ms", LOOK_UP_MAX, looked_up.longest_ms);
    Ok(())
}

/// Says how long it took, of at least one round.
pub(crate) fn tell_times(teller: &Teller, what: &str, times: &mut [Duration]) {
    times.sort_unstable();
    let (half, last) = (times[times.len() / 2], times[times.len() - 1]);
    teller.say(format_args!(
        "{what}: half of the time within {} ms, always within {} ms ({} rounds)",
        half.as_millis(),
        last.as_millis(),
        times.len()
    ));
}

fn depart(master: &mut ServerProcess, how: Departure) -> Result<()> {
    match how {
        Departure::Killed => master.kill(),
        Departure::Stopped => master.signal(Signal::STOP)?,
        Departure::AskedToStop => master.signal(Signal::TERM)?,
    }
    Ok(())
}

fn come_back(master: &mut ServerProcess, how: Departure) -> Result<()> {
    match how {
        Departure::Stopped => master.signal(Signal::CONT)?,
        Departure::Killed => master.restart()?,
        Departure::AskedToStop => {
            master.await_end()?;
            master.restart()?;
        }
    }
    Ok(())
}
