//! Everything at once, for minutes: servers are killed and stopped, bits flipped and chunk files
//! removed, while clients append and files come and go.
//!
//! - H1: what destroys bytes for good strikes one server in a round, so that no chunk loses more
//!   than one replica before the cell had time to heal; processes die anywhere.
//! - H2: a round ends with every process running, and the cell has to be healthy by itself then.
//! - H3: every acknowledged record of every round is read again in the end, and every file.

use crate::chaos_faults::{ChaosFault, Wreckage};
use crate::file_workload::FileWorkload;
use crate::load::{Appended, Appenders, Readers};
use crate::options::SoakOptions;
use crate::teller::Teller;
use anyhow::{Context, Result, bail};
use cairn_testkit::{CellProcesses, await_until};
use cairn_types::Random;
use std::time::{Duration, Instant};

/// How long faults go on in a round.
const ROUND: Duration = Duration::from_secs(40);
/// How long a cell may take from the end of a round's faults until it is healthy.
const HEALTHY_WITHIN: Duration = Duration::from_secs(180);

/// Runs it.
///
/// # Errors
/// With whatever did not go as promised.
pub(crate) fn run(cell: &mut CellProcesses, options: &SoakOptions, teller: &Teller) -> Result<()> {
    let mut random = Random::new(options.seed);
    teller.say(format_args!("seed {}, {} minutes", options.seed, options.minutes));
    cell.ask(&["mkdir", "/files"])?;
    let files = FileWorkload::start(cell.program().clone(), cell.address(), options.seed);
    let begun = Instant::now();
    let mut rounds: Vec<Appended> = Vec::new();
    let mut longest = Duration::ZERO;
    while rounds.is_empty() || begun.elapsed() < Duration::from_secs(60 * options.minutes) {
        let (appended, healed) = round(cell, rounds.len(), options, &mut random, teller)
            .with_context(|| format!("round {}", rounds.len() + 1))?;
        longest = longest.max(healed);
        cell.ask(&["mv", "/soak", &format!("/soak-{}", rounds.len())])?;
        rounds.push(appended);
        files.check().context("files that came and went")?;
    }
    let counts = files.end()?;
    teller.say(format_args!(
        "{} files stored, {} read back as they were, {} moved, {} removed; {} commands came to \
         nothing while servers were away",
        counts.stored, counts.read, counts.moved, counts.removed, counts.unanswered
    ));
    for (number, appended) in rounds.iter().enumerate() {
        cell.ask(&["mv", &format!("/soak-{number}"), "/soak"])?;
        Readers::start(cell.address(), "read")?.judge(appended, teller)?;
        cell.ask(&["mv", "/soak", &format!("/soak-{number}")])?;
    }
    teller.say(format_args!(
        "{} rounds; healthy {:.1} s after the last fault of a round at the latest",
        rounds.len(),
        longest.as_secs_f64()
    ));
    Ok(())
}

/// One round; what was appended in it, and how long the cell took to be healthy afterwards.
fn round(
    cell: &mut CellProcesses,
    number: usize,
    options: &SoakOptions,
    random: &mut Random,
    teller: &Teller,
) -> Result<(Appended, Duration)> {
    cell.ask(&["mkdir", "/soak"])?;
    let mut appenders = Appenders::start(cell.address(), [options.records, options.large_records])?;
    let followers = Readers::start(cell.address(), "follow")?;
    appenders.go()?;
    let mut wreckage = Wreckage::on(random.below(cell.chunkservers.len() as u64) as usize);
    let begun = Instant::now();
    let mut told = String::new();
    while begun.elapsed() < ROUND {
        let fault = ChaosFault::draw(random, cell.chunkservers.len());
        if !told.is_empty() {
            told.push_str(", ");
        }
        told.push_str(&fault.carry_out(cell, &mut wreckage, random)?);
    }
    appenders.stop()?;
    let calm = Instant::now();
    await_until("a healthy cell", HEALTHY_WITHIN, || {
        Ok::<_, anyhow::Error>(cell.ask(&["status", "--check"]).is_ok())
    })
    .with_context(|| format!("after {told}; {}", last_words(cell)))?;
    let healed = calm.elapsed();
    teller.say(format_args!("{told}; healthy after {:.1} s", healed.as_secs_f64()));
    let reports = cell.directory().join(format!("round-{number}"));
    std::fs::create_dir(&reports)?;
    let appended = appenders.finish(&reports)?;
    followers.judge(&appended, teller)?;
    if !cell.chunkservers.iter_mut().all(|server| server.runs()) {
        bail!("a chunkserver has ended by itself");
    }
    Ok((appended, healed))
}

/// What the cell says of itself.
fn last_words(cell: &CellProcesses) -> String {
    cell.ask(&["status"]).unwrap_or_else(|error| error.to_string())
}
