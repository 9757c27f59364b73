//! Every server is started again with this build, one after the other, under load: the cell began
//! with the one before (design §4, rolling upgrade).
//!
//! - UP1: chunkservers first and then masters, or the other way round: by turns of `--seed`.
//! - UP2: clients of both builds use it all the while.

use crate::load::{Appenders, LoadPlace, Readers};
use crate::options::SoakOptions;
use crate::teller::Teller;
use anyhow::{Result, ensure};
use cairn_testkit::{CellProcesses, HarnessError, PATIENCE, Program, ServerProcess, await_until};
use std::time::{Duration, Instant};

/// More than any client will come to.
const RECORDS: [u64; 2] = [4_000_000, 100_000];
/// Appends are never away for longer.
const AWAY_MAX: Duration = Duration::from_secs(5);
/// Acknowledgements before the next server goes.
const PROGRESS: u64 = 3_000;

/// Runs it, with a cell of the build before: `before` is its program, `now` this build's.
///
/// # Errors
/// With whatever did not go as promised.
pub(crate) fn run(
    cell: &mut CellProcesses,
    (before, now): (&Program, &Program),
    options: &SoakOptions,
    teller: &Teller,
) -> Result<()> {
    before.ask(&["mkdir", "/soak", "--cell", cell.address()])?;
    let place = LoadPlace::here(cell);
    let mut appenders = Appenders::start(&place, RECORDS)?;
    let followers = Readers::start(&place, "follow")?;
    appenders.go()?;
    let kinds = if options.seed.is_multiple_of(2) { [false, true] } else { [true, false] };
    let mut number = 0;
    for is_chunkserver in kinds {
        let count = if is_chunkserver { cell.chunkservers.len() } else { cell.masters.len() };
        for at in 0..count {
            appenders.await_acknowledged(appenders.acknowledged() + PROGRESS)?;
            await_whole(cell)?;
            let acknowledged = appenders.acknowledged();
            let began = Instant::now();
            let servers = if is_chunkserver { &mut cell.chunkservers } else { &mut cell.masters };
            upgrade(&mut servers[at], now)?;
            let name = servers[at].name().to_owned();
            appenders.await_acknowledged(acknowledged + 100)?;
            let away = began.elapsed();
            number += 1;
            let both = [before, now].map(|program| use_by(program, cell.address(), number));
            both.into_iter().collect::<Result<Vec<_>>>()?;
            teller.say(format_args!(
                "{name} runs the new build: 100 records more are acknowledged after {} ms",
                away.as_millis()
            ));
            ensure!(away <= AWAY_MAX, "appends were away for {} ms", away.as_millis());
        }
    }
    await_whole(cell)?;
    appenders.stop()?;
    let appended = appenders.finish(cell.directory())?;
    appended.errors().iter().take(8).for_each(|error| teller.say(format_args!("  {error}")));
    let read_on = Readers::start(&place, "read")?;
    let judged = followers.judge(&appended, teller);
    read_on.judge(&appended, teller).and(judged)
}

/// Waits until all servers are live, all masters answer, and nothing lacks redundancy.
fn await_whole(cell: &CellProcesses) -> Result<()> {
    cell.await_live(cell.chunkservers.len())?;
    cell.await_masters()?;
    await_until("the cell to be healthy", PATIENCE, || {
        Ok::<_, HarnessError>(cell.ask(&["status", "--check"]).is_ok())
    })?;
    Ok(())
}

/// Asks a server to stop, and starts it with another program on the same data.
fn upgrade(server: &mut ServerProcess, program: &Program) -> Result<()> {
    server.stop()?;
    server.run_by(program);
    Ok(server.restart()?)
}

/// A client of a build makes, looks up and removes names, once.
fn use_by(program: &Program, cell: &str, number: u64) -> Result<()> {
    let path = format!("/by-a-client-{number}");
    let ask = |words: &[&str]| program.ask(&[words, &["--cell", cell]].concat());
    ask(&["mkdir", &path])?;
    let listed = ask(&["ls", "/"])?;
    ensure!(listed.contains(&path[1..]), "{path} was made and is not listed: {listed}");
    ask(&["rm", "-r", &path])?;
    ask(&["stat", "/soak/small", "--chunks"])?;
    Ok(())
}
