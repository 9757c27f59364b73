//! The disk of the master in charge is full, or fails, round after round, while clients append and
//! a client makes directories as fast as it can: nothing else fills a log.
//!
//! - MD1: when the log meets the end of its disk nobody can tell: what counts is how long any of
//!   the creates took, and for how long no record was acknowledged.
//! - MD2: a disk that fails is noticed at a block that nobody has written before: names are made
//!   until the member has ended, whoever is in charge by then.

use crate::cell::SoakCell;
use crate::load::{Appenders, Readers};
use crate::masters::{AWAY_MAX, RECORDS, tell_times};
use crate::options::SoakOptions;
use crate::steady_load::SteadyLoad;
use crate::teller::Teller;
use anyhow::{Result, ensure};
use std::time::{Duration, Instant};

/// How long it may take until a log has met the end of its disk.
const FILLS_WITHIN: Duration = Duration::from_secs(180);
/// How often it is looked at who is in charge, and what is acknowledged.
const PAUSE: Duration = Duration::from_millis(10);
/// For so long things are watched when another is in charge.
const WATCHED_FOR: Duration = Duration::from_secs(3);

/// Runs it.
///
/// # Errors
/// With whatever did not go as promised.
pub(crate) fn run(soak: &mut SoakCell, options: &SoakOptions, teller: &Teller) -> Result<()> {
    let SoakCell { processes: cell, place, master_disks: disks, .. } = soak;
    cell.ask(&["mkdir", "/soak"])?;
    let mut appenders = Appenders::start(place, RECORDS)?;
    let followers = Readers::start(place, "follow")?;
    appenders.go()?;
    let mut times: [[Vec<Duration>; 2]; 2] = Default::default();
    for round in 1..=options.rounds {
        cell.await_masters()?;
        let (gone, fails) = (cell.in_charge()?, round % 2 == 0);
        let names = format!("/names-{round}");
        cell.ask(&["mkdir", &names])?;
        let mut creates = SteadyLoad::start(place, "create", &names)?;
        creates.mark()?;
        let how = if fails { "fails" } else { "is full" };
        if fails {
            disks[gone].fail()?
        } else {
            disks[gone].fill()?
        }
        let silence = silence_until_another(cell, &appenders, gone)?;
        let longest = Duration::from_secs_f64(creates.mark()?.longest_ms / 1e3);
        if fails {
            // MD2
            cell.masters[gone].await_end()?;
        }
        drop(creates);
        if fails {
            disks[gone].mend()?;
            cell.masters[gone].restart()?;
        } else {
            ensure!(cell.masters[gone].runs(), "who has no room waits for it");
            disks[gone].ease()?;
        }
        teller.say(format_args!(
            "round {round}: the disk of {} {how}: no create took longer than {} ms, and some \
             record was acknowledged every {} ms",
            cell.masters[gone].name(),
            longest.as_millis(),
            silence.as_millis()
        ));
        ensure!(silence <= AWAY_MAX, "appends were away for {} ms", silence.as_millis());
        let of_its_kind = &mut times[usize::from(fails)];
        of_its_kind[0].push(longest);
        of_its_kind[1].push(silence);
    }
    appenders.stop()?;
    let appended = appenders.finish(cell.directory())?;
    for (how, [creates, appends]) in ["is full", "fails"].iter().zip(&mut times) {
        if !creates.is_empty() {
            tell_times(teller, &format!("a disk {how}: creates"), creates);
            tell_times(teller, &format!("a disk {how}: records"), appends);
        }
    }
    let read_on = Readers::start(place, "read")?;
    let judged = followers.judge(&appended, teller);
    read_on.judge(&appended, teller).and(judged)
}

/// Waits until another is in charge, and a while longer; the longest time in which no record was
/// acknowledged.
fn silence_until_another(
    cell: &cairn_testkit::CellProcesses,
    appenders: &Appenders,
    gone: usize,
) -> Result<Duration> {
    let began = Instant::now();
    let (mut last, mut since, mut longest) = (appenders.acknowledged(), began, Duration::ZERO);
    let (mut until, mut looked) = (None, began);
    while until.is_none_or(|until| Instant::now() < until) {
        ensure!(began.elapsed() < FILLS_WITHIN, "its disk made no difference");
        std::thread::sleep(PAUSE);
        let now = appenders.acknowledged();
        if now != last {
            (last, since) = (now, Instant::now());
        }
        longest = longest.max(since.elapsed());
        if until.is_none() && looked.elapsed() > 50 * PAUSE {
            looked = Instant::now();
            let rows = cell.listed_masters();
            let at = cell.masters[gone].address();
            let other = rows.iter().any(|row| row.role == "primary" && row.address != at);
            until = other.then(|| Instant::now() + WATCHED_FOR);
        }
    }
    Ok(longest)
}
