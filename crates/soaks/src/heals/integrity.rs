//! Integrity: a flipped byte in a chunk file, a sidecar or a journal, met by a reader, a copy, a
//! start or the scrub, reaches nobody, and a good replica takes the bad one's place.

use super::heal_cell::{CHUNK_SIZE, HealCell, QUICK, StoredFile, fresh_directory, text};
use crate::report::Report;
use crate::rot::flip;
use anyhow::{Context, Result};
use cairn_testkit::Program;
use std::fs::File;
use std::path::{Path, PathBuf};

/// Behind a sidecar's two heads.
const FIRST_CHECKSUM_AT: u64 = 1024;
const FILE_SIZE: u64 = 8 * CHUNK_SIZE;
/// So fast that a round is over within seconds.
const SCRUB_OFF: &str = "[chunkserver]\nscrub_rate = 0\n";
const FAST_SCRUB: &str = "[chunkserver]\nscrub_rate = 268435456\n";

/// `integrity`: each on a cell of its own.
pub(crate) fn integrity(program: &Program, report: &mut Report) -> Result<()> {
    type Case = fn(&mut HealCell, &StoredFile) -> Result<String>;
    let cases: [(&str, Case); 4] = [
        ("a flipped byte of data, met by readers", by_readers),
        ("a flipped byte of a sidecar, met by a check", of_a_sidecar),
        ("a flipped byte of data, met by a copy", by_a_copy),
        ("a flipped byte of a journal, met by a start", of_a_journal),
    ];
    for (what, case) in cases {
        let mut cell = HealCell::start(program, 4, QUICK)?;
        let file = cell.put("file", FILE_SIZE)?;
        report.works(what, case(&mut cell, &file));
    }
    let mut cell = HealCell::start(program, 3, QUICK)?;
    let file = cell.put("file", FILE_SIZE)?;
    let works = in_its_own_place(&mut cell, &file);
    report.works("a flipped byte where every server holds a replica of the chunk", works);
    let works = by_the_scrub(program);
    report.works("a flipped byte of data, met by the scrub", works);
    Ok(())
}

fn flip_in(path: &Path, at: u64) -> Result<()> {
    let file = File::options().read(true).write(true).open(path)?;
    flip(&file, at, 3)
}

/// Some chunk file of server 0.
fn some_chunk(cell: &HealCell) -> Result<PathBuf> {
    cell.chunk_files(0)?.into_iter().next().context("a chunk on the first server")
}

/// Until all is well, on every disk.
fn await_good(cell: &HealCell, file: &StoredFile) -> Result<()> {
    cell.await_nothing_found()?;
    cell.await_healthy()?;
    cell.judge(file)
}

fn by_readers(cell: &mut HealCell, file: &StoredFile) -> Result<String> {
    flip_in(&some_chunk(cell)?, 300_000)?;
    let mut reads = 0;
    cell.wait("a reader to meet it", || {
        reads += 1;
        cell.judge(file)?;
        Ok(std::fs::read_to_string(cell.masters[0].log())?.contains("replica damaged"))
    })?;
    await_good(cell, file)?;
    Ok(format!("met in read {reads}; every read right; a good one in its place"))
}

fn of_a_sidecar(cell: &mut HealCell, file: &StoredFile) -> Result<String> {
    let sidecar = some_chunk(cell)?.with_extension("meta");
    flip_in(&sidecar, FIRST_CHECKSUM_AT)?;
    cell.judge(file)?;
    cell.ask(&["fsck", "--data", "--repair", "--deadline", "60"])?;
    await_good(cell, file)?;
    Ok("a block's checksum; a good one in its place".to_owned())
}

fn in_its_own_place(cell: &mut HealCell, file: &StoredFile) -> Result<String> {
    flip_in(&some_chunk(cell)?, 300_000)?;
    cell.judge(file)?;
    cell.ask(&["fsck", "--data", "--repair", "--deadline", "30"])?;
    await_good(cell, file)?;
    Ok("a good one in its place, on the same server".to_owned())
}

fn by_a_copy(cell: &mut HealCell, file: &StoredFile) -> Result<String> {
    let bad = some_chunk(cell)?;
    let name = bad.file_name().context("a name")?.to_owned();
    flip_in(&bad, 300_000)?;
    // Of the others that hold it one dies, so that it has to be copied from one of two.
    let holds = |at: &usize| {
        let files = cell.chunk_files(*at).unwrap_or_default();
        files.iter().any(|path| path.file_name() == Some(&name))
    };
    let other = (1..4).find(holds).context("another replica")?;
    cell.chunkservers[other].kill();
    cell.await_state(other, "dead")?;
    cell.await_whole()?;
    cell.judge(file)?;
    cell.chunkservers[other].restart()?;
    cell.await_state(other, "live")?;
    cell.ask(&["fsck", "--data", "--repair", "--deadline", "60"])?;
    await_good(cell, file)?;
    cell.judge_without_each(file)?;
    Ok("no copy has the bad byte".to_owned())
}

fn of_a_journal(cell: &mut HealCell, file: &StoredFile) -> Result<String> {
    let journal = cell.data_of(1).join("journal");
    cell.chunkservers[0].kill();
    let length = journal.metadata()?.len();
    flip_in(&journal, length / 2)?;
    cell.chunkservers[0].restart()?;
    cell.await_state(0, "live")?;
    cell.judge(file)?;
    cell.ask(&["fsck", "--data", "--repair", "--deadline", "60"])?;
    await_good(cell, file)?;
    cell.judge_without_each(file)?;
    Ok(format!("byte {} of {length}; whole again", length / 2))
}

fn by_the_scrub(program: &Program) -> Result<String> {
    let directory = fresh_directory();
    let [off, fast] = ["off", "fast"].map(|name| directory.with_extension(name));
    std::fs::write(&off, SCRUB_OFF)?;
    std::fs::write(&fast, FAST_SCRUB)?;
    let done = scrubbed(program, [&text(&off), &text(&fast)]);
    [off, fast].iter().try_for_each(std::fs::remove_file)?;
    done
}

/// No round has begun before the byte is flipped: a second one would be two weeks later.
fn scrubbed(program: &Program, [off, fast]: [&str; 2]) -> Result<String> {
    let mut cell = HealCell::start_plan(program, 4, |plan| {
        QUICK.clone_into(&mut plan.settings);
        plan.chunkserver_arguments = ["--config", off].map(str::to_owned).into();
    })?;
    let file = cell.put("file", FILE_SIZE)?;
    flip_in(&some_chunk(&cell)?, 300_000)?;
    let mut arguments = cell.arguments_of(1);
    arguments.pop();
    arguments.push(fast.to_owned());
    cell.chunkservers[0].kill();
    cell.chunkservers[0].restart_with(arguments)?;
    // Where the start took so long that the server counted as dead, its replica may have been one
    // too many by then, and the master has nothing to tell of it.
    cell.wait("the scrub to find it", || Ok(cell.server(0)?["scrub"]["bad_count"] == 1))?;
    await_good(&cell, &file)?;
    Ok("nobody read it; a good one in its place".to_owned())
}
