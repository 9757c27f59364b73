//! The whole cell is killed, round after round, while clients append.

use crate::load::{Appenders, LoadPlace, Readers};
use crate::options::SoakOptions;
use crate::teller::Teller;
use anyhow::Result;
use cairn_testkit::CellProcesses;
use std::time::{Duration, Instant};

/// Acknowledgements between two deaths: now few, so that it falls into the levelling and granting
/// after a start, now many.
const PROGRESS: [u64; 5] = [12_000, 1, 2_500, 300, 6_000];
/// How long the dead stay dead in every other round: the clients' counts, told every 100 ms, stand
/// still then, so that what comes after is known to be new. In the others they rise at once.
const REST: Duration = Duration::from_millis(300);
/// More than any client will come to, in the proportion of the other soak.
const RECORDS: [u64; 2] = [4_000_000, 100_000];

/// Runs it.
///
/// # Errors
/// With whatever did not go as promised.
pub(crate) fn run(cell: &mut CellProcesses, options: &SoakOptions, teller: &Teller) -> Result<()> {
    cell.ask(&["mkdir", "/soak"])?;
    let place = LoadPlace::here(cell);
    let mut appenders = Appenders::start(&place, RECORDS)?;
    let followers = Readers::start(&place, "follow")?;
    appenders.go()?;
    let mut away = Duration::ZERO;
    for round in 1..=options.rounds {
        let progress = PROGRESS[round as usize % PROGRESS.len()];
        appenders.await_acknowledged(appenders.acknowledged() + progress)?;
        cell.kill_all();
        let rests = round % 2 == 0;
        if rests {
            std::thread::sleep(REST);
        }
        let before = appenders.acknowledged();
        let begun = Instant::now();
        cell.restart_all()?;
        let live = begun.elapsed().as_millis();
        appenders.await_acknowledged(before + 1)?;
        let appends = begun.elapsed();
        if rests {
            away = away.max(appends);
        }
        teller.say(format_args!(
            "round {round}: all killed after {before} acknowledgements; live {live} ms after the \
             start{}",
            if rests { format!(", appends {} ms", appends.as_millis()) } else { String::new() }
        ));
    }
    appenders.stop()?;
    let appended = appenders.finish(cell.directory())?;
    teller.say(format_args!(
        "{} deaths of the whole cell; appends again {} ms after the start at the latest",
        options.rounds,
        away.as_millis()
    ));
    appended.errors().iter().take(8).for_each(|error| teller.say(format_args!("  {error}")));
    let read_on = Readers::start(&place, "read")?;
    let judged = followers.judge(&appended, teller);
    read_on.judge(&appended, teller).and(judged)
}
