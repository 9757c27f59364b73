//! Repair (A20): what a killed server held is copied, soon and from the worst on, while clients go
//! on; two that die together cost nothing.

use super::heal_cell::{CHUNK_SIZE, HealCell, QUICK, StoredFile, WITHIN};
use super::priorities::PriorityWatch;
use crate::load::{Appenders, Readers};
use crate::report::Report;
use crate::teller::Teller;
use anyhow::{Context, Result};
use cairn_testkit::{Program, await_until};
use std::collections::BTreeSet;
use std::ffi::OsString;
use std::time::Instant;

/// From `kill -9` to the first chunk that is whole again: small cell, default settings (seconds).
const FIRST_CLONE_WITHIN: [f64; 2] = [5.0, 35.0];
/// Records, small and large, that are appended while a server dies.
const RECORDS: [u64; 2] = [24_000, 640];

/// So many that more of them lack replicas than the master looks at in one go.
const MANY_CHUNKS: u64 = 1_200;
const SERVERS: usize = 8;

/// The names of the chunk files of each server but one.
fn files_of_others(cell: &HealCell, but: usize) -> Result<BTreeSet<(usize, OsString)>> {
    let mut all = BTreeSet::new();
    for at in (0..cell.chunkservers.len()).filter(|at| *at != but) {
        let names = cell.chunk_files(at)?;
        let names = names.iter().filter_map(|path| path.file_name());
        all.extend(names.map(|name| (at, name.to_owned())));
    }
    Ok(all)
}

/// Kills a server; seconds until a chunk file of its stands on a server that had none of it.
///
/// A clone takes its name only when all of it is there and it joins the chunk's set.
fn kill_to_first_clone(cell: &mut HealCell, dead: usize) -> Result<f64> {
    let held: BTreeSet<OsString> = cell
        .chunk_files(dead)?
        .iter()
        .filter_map(|path| path.file_name().map(OsString::from))
        .collect();
    let before = files_of_others(cell, dead)?;
    let killed = Instant::now();
    cell.chunkservers[dead].kill();
    await_until("the first clone", WITHIN, || {
        let now = files_of_others(cell, dead)?;
        Ok::<_, anyhow::Error>(now.difference(&before).any(|(_, name)| held.contains(name)))
    })?;
    Ok(killed.elapsed().as_secs_f64())
}

/// `repair`: a small cell, in which clients append and read meanwhile.
pub(crate) fn repair(program: &Program, teller: &Teller, report: &mut Report) -> Result<()> {
    let mut cell = HealCell::start(program, 6, QUICK)?;
    let file = cell.put("file", 48 * CHUNK_SIZE)?;
    cell.ask(&["mkdir", "/soak"])?;
    let mut appenders = Appenders::start(&cell.place, RECORDS)?;
    let followers = Readers::start(&cell.place, "follow")?;
    appenders.go()?;
    appenders.await_acknowledged(2_000)?;
    let dead = cell.a_holder(&file.path)?;
    let first = kill_to_first_clone(&mut cell, dead)?;
    report.at_most("kill -9 to the first clone, small cell", "s", FIRST_CLONE_WITHIN[0], first);
    let works = heals_beside_clients(&mut cell, &file, dead, (appenders, followers), teller);
    report.works("repair beside clients that read and append; the dead one back late", works);
    Ok(())
}

fn heals_beside_clients(
    cell: &mut HealCell,
    file: &StoredFile,
    dead: usize,
    (appenders, followers): (Appenders, Readers),
    teller: &Teller,
) -> Result<String> {
    let begun = Instant::now();
    cell.judge(file)?;
    cell.await_whole()?;
    let whole = begun.elapsed().as_secs_f64();
    let appended = appenders.finish(cell.directory())?;
    followers.judge(&appended, teller)?;
    cell.chunkservers[dead].restart()?;
    cell.await_state(dead, "live")?;
    cell.await_healthy()?;
    cell.await_nothing_found()?;
    cell.judge_without_each(file)?;
    Readers::start(&cell.place, "read")?.judge(&appended, teller)?;
    Ok(format!("whole {whole:.1} s after the first clone; every byte and record right"))
}

/// `kill-to-first-clone`: settings that nobody has set.
pub(crate) fn first_clone_by_default(program: &Program, report: &mut Report) -> Result<()> {
    let mut cell = HealCell::start(program, 4, "")?;
    let files = (0..6).map(|at| cell.put(&format!("file-{at}"), 8 * CHUNK_SIZE));
    let files = files.collect::<Result<Vec<_>>>()?;
    let dead = cell.a_holder(&files[0].path)?;
    let first = kill_to_first_clone(&mut cell, dead)?;
    report.at_most(
        "kill -9 to the first clone, default settings",
        "s",
        FIRST_CLONE_WITHIN[1],
        first,
    );
    cell.await_whole()?;
    files.iter().try_for_each(|file| cell.judge(file))
}

/// `two-killed`: two at once, of eight; slow copies, so that their order shows.
pub(crate) fn two_killed(program: &Program, report: &mut Report) -> Result<()> {
    let more = "block_size = 4096\nclone_rate = 131072\nclones_per_server = 1\n";
    let settings = QUICK.replace("chunk_size = 1048576\n", "chunk_size = 65536\n");
    let mut cell = HealCell::start(program, SERVERS, &format!("{settings}{more}"))?;
    let file = cell.put("file", MANY_CHUNKS * (64 << 10))?;
    let (a, b) = (0, 1);
    for at in [a, b] {
        cell.chunkservers[at].kill();
    }
    let mut watch = PriorityWatch::start(&cell.place, 1)?;
    cell.wait("both dead, and every chunk at its goal", || watch.look(SERVERS - 2))?;
    watch.report(report);
    let whole = cell.judge(&file).context("after two were killed");
    report.works("two killed: none lost", whole.map(|()| "every byte right".to_owned()));
    Ok(())
}
