//! Many clients append while a server is killed and comes back, and another one, the primary of
//! the last chunk, is killed for good.

use crate::cell::last_chunk_holders;
use crate::load::{Appenders, FILES, LoadPlace, Readers};
use crate::options::SoakOptions;
use crate::teller::Teller;
use anyhow::{Context, Result, bail};
use cairn_testkit::CellProcesses;
use std::time::{Duration, Instant, SystemTime};

/// The longest time between two acknowledgements that a client may see.
const GAP_MAX_MS: u64 = 5_000;
/// How long the first server stays away.
const AWAY: Duration = Duration::from_secs(3);

/// Runs it.
///
/// # Errors
/// With whatever did not go as promised.
pub(crate) fn run(cell: &mut CellProcesses, options: &SoakOptions, teller: &Teller) -> Result<()> {
    let total = options.records + options.large_records;
    cell.ask(&["mkdir", "/soak"])?;
    let counts = [options.records, options.large_records];
    let place = LoadPlace::here(cell);
    let mut appenders = Appenders::start(&place, counts)?;
    let followers = Readers::start(&place, "follow")?;
    let started = Instant::now();
    appenders.go()?;
    teller.say("64 clients in 8 processes append; a reader follows each file");
    appenders.await_acknowledged(total / 6)?;
    let (_, secondaries) = last_chunk_holders(cell, FILES[0].1)?;
    let away = *secondaries.first().context("the last chunk has no secondary")?;
    let how = "for a while; it was a secondary of the last chunk";
    let mut marks = vec![kill(cell, away, how, teller)];
    std::thread::sleep(AWAY);
    cell.chunkservers[away].restart()?;
    let joined = cell.await_live(cell.chunkservers.len())?;
    teller.say(format_args!("it is back and live {} ms after its start", joined.as_millis()));
    appenders.await_acknowledged(total / 2)?;
    let (primary, _) = last_chunk_holders(cell, FILES[0].1)?;
    marks.push(kill(cell, primary, "for good; it was the primary of the last chunk", teller));
    let appended = appenders.finish(cell.directory())?;
    let seconds = started.elapsed().as_secs_f64();
    teller.say(format_args!(
        "all is appended: {:.0} s, {:.0} acknowledgements a second",
        seconds,
        total as f64 / seconds
    ));
    let (gap, ended) = appended.longest_gap();
    for (name, at) in &marks {
        let offset = ended as i64 - *at as i64;
        teller.say(format_args!("  the longest gap ended {offset} ms after the death of {name}"));
    }
    let gaps = appended.gaps();
    let middle = gaps[gaps.len() / 2];
    teller.say(format_args!("longest gap of any client: {gap} ms (half of them: {middle} ms)"));
    appended.errors().iter().take(8).for_each(|error| teller.say(format_args!("  {error}")));
    let read_on = Readers::start(&place, "read")?;
    let judged = followers.judge(&appended, teller);
    read_on.judge(&appended, teller).and(judged)?;
    if gap >= GAP_MAX_MS {
        bail!("a client waited {gap} ms for an acknowledgement; at most {GAP_MAX_MS} are allowed");
    }
    Ok(())
}

/// Kills a chunkserver; its name, and when that was (Unix time in milliseconds).
fn kill(cell: &mut CellProcesses, at: usize, how: &str, teller: &Teller) -> (String, u128) {
    cell.chunkservers[at].kill();
    let name = cell.chunkservers[at].name().to_owned();
    teller.say(format_args!("kill -9 of {name}, {how}"));
    let now = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
    (name, now.as_millis())
}
