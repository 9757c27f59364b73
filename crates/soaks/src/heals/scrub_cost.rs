//! What the scrub costs a busy client: its rate with it and without, in pairs that take turns.

use super::heal_cell::{HealCell, QUICK, fresh_directory, text};
use crate::report::Report;
use crate::steady_load::SteadyLoad;
use crate::teller::Teller;
use anyhow::{Context, Result, bail};
use cairn_testkit::Program;
use std::time::Duration;

const SCRUB_OFF: &str = "[chunkserver]\nscrub_rate = 0\n";
const SHARE_MIN: f64 = 0.9;
const PAIRS: usize = 5;
const PHASE: Duration = Duration::from_secs(8);
/// What each server has to verify: more than it does in all the phases.
const STORED: u64 = 1 << 30;
/// What a client reads again and again.
const READ: u64 = 64 << 20;

/// `scrub-beside-client`: the standard rate, which is a quarter while clients are busy.
pub(crate) fn scrub_cost(program: &Program, teller: &Teller, report: &mut Report) -> Result<()> {
    let settings = QUICK.replace("chunk_size = 1048576\n", "chunk_size = 67108864\n");
    let off = fresh_directory().with_extension("toml");
    std::fs::write(&off, SCRUB_OFF)?;
    let done = in_pairs(program, (&settings, &text(&off)), teller, report);
    std::fs::remove_file(&off)?;
    done
}

fn in_pairs(
    program: &Program,
    (settings, off): (&str, &str),
    teller: &Teller,
    report: &mut Report,
) -> Result<()> {
    // From the start: nothing is verified before the first phase that is to have a scrub.
    let mut cell = HealCell::start_plan(program, 3, |plan| {
        settings.clone_into(&mut plan.settings);
        plan.chunkserver_arguments = ["--config", off].map(str::to_owned).into();
    })?;
    cell.put("stored", STORED)?;
    cell.put("read", READ)?;
    let (mut reads, mut appends) = (Vec::new(), Vec::new());
    for pair in 0..PAIRS {
        let mut rates = [(0.0, 0.0); 2];
        // Who goes first takes turns.
        for with in [pair % 2 == 0, pair % 2 != 0] {
            restart(&mut cell, with)?;
            rates[usize::from(with)] = phase(&cell, with)?;
        }
        let [(read_off, append_off), (read_on, append_on)] = rates;
        teller.say(format_args!(
            "without and with the scrub: {read_off:.0} and {read_on:.0} reads of 1 MiB a second, \
             {append_off:.0} and {append_on:.0} appends of 64 KiB"
        ));
        reads.push(read_on / read_off);
        appends.push(append_on / append_off);
    }
    for (what, mut shares) in [("reads", reads), ("appends", appends)] {
        shares.sort_by(f64::total_cmp);
        let what = format!("part of its rate that a client that {what} keeps beside the scrub");
        report.at_least(&format!("{what} (median of {PAIRS} pairs)"), SHARE_MIN, shares[PAIRS / 2]);
    }
    Ok(())
}

/// Starts all chunkservers again, with the scrub as in a cell where nobody has set it, or without.
fn restart(cell: &mut HealCell, with: bool) -> Result<()> {
    for at in 0..cell.chunkservers.len() {
        let mut arguments = cell.arguments_of(at + 1);
        if with {
            arguments.truncate(arguments.len() - 2);
        }
        cell.chunkservers[at].kill();
        cell.chunkservers[at].restart_with(arguments)?;
    }
    cell.await_live(cell.chunkservers.len())?;
    cell.await_healthy()?;
    Ok(())
}

/// A client that reads and one that appends, both at once: their rates.
fn phase(cell: &HealCell, with: bool) -> Result<(f64, f64)> {
    let mut reader = SteadyLoad::start(&cell.place, "read", "/read")?;
    let mut appender = SteadyLoad::start(&cell.place, "append", "/log")?;
    reader.measure(Duration::from_secs(1))?;
    let verified = scrubbed(cell)?;
    reader.mark()?;
    appender.mark()?;
    std::thread::sleep(PHASE);
    let rates = (reader.mark()?.a_second, appender.mark()?.a_second);
    cell.wait("the scrub to get on", || Ok(!with || scrubbed(cell)? > verified))?;
    if !with && scrubbed(cell)? != verified {
        bail!("there is a scrub where there should be none");
    }
    Ok(rates)
}

/// Bytes that all servers have verified.
fn scrubbed(cell: &HealCell) -> Result<u64> {
    let servers = cell.told(&["servers"])?;
    let verified = servers.iter().map(|it| it["scrub"]["verified"].as_u64());
    verified.sum::<Option<u64>>().context("how far the scrub is")
}
