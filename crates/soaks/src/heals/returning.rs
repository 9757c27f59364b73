//! Servers that come back: early, late, with old data, with less than they had, with nothing, and
//! under another server's id. Whatever they bring, the bytes are right and the cell is whole.

use super::heal_cell::{CHUNK_SIZE, HealCell, QUICK, StoredFile, text};
use crate::report::Report;
use anyhow::{Context, Result, bail};
use cairn_testkit::{Program, copy_tree, files_below};
use std::fs::{remove_dir_all, remove_file};

const FILE_SIZE: u64 = 24 * CHUNK_SIZE;
/// Deaths are not believed in while an early one is away.
const PATIENT: &str = "\
[new_cell]
chunk_size = 1048576
heartbeat_ms = 250
silent_ms = 1000
lease_ms = 2000
dead_ms = 60000
";

/// `returning`: each of them on a cell of its own.
pub(crate) fn returning(program: &Program, report: &mut Report) -> Result<()> {
    type Case = fn(&mut HealCell, &StoredFile) -> Result<String>;
    let cases: [(&str, &str, Case); 6] = [
        ("a server back early costs no copy", PATIENT, early),
        ("a server back late", QUICK, late),
        ("a server back with old data", QUICK, old),
        ("a server back with less than it had", QUICK, less),
        ("a server back with nothing", QUICK, emptied),
        ("a server back under another's id", QUICK, copied),
    ];
    for (what, settings, case) in cases {
        let mut cell = HealCell::start(program, 5, settings)?;
        let file = cell.put("file", FILE_SIZE)?;
        append(&cell, "first")?;
        report.works(what, case(&mut cell, &file));
    }
    Ok(())
}

fn append(cell: &HealCell, line: &str) -> Result<()> {
    let local = cell.directory().join("line");
    std::fs::write(&local, format!("{line}\n"))?;
    cell.ask(&["append", "/log", &text(&local)])?;
    Ok(())
}

fn judge(cell: &HealCell, file: &StoredFile, lines: &str) -> Result<()> {
    cell.judge(file)?;
    let told = cell.ask(&["cat", "/log"])?;
    if told != lines {
        bail!("the log says {told:?}, not {lines:?}");
    }
    Ok(())
}

/// A holder of the log's one chunk, which may not hold some of the file.
fn victim(cell: &HealCell) -> Result<usize> {
    cell.a_holder("/log")
}

fn back(cell: &mut HealCell, at: usize) -> Result<()> {
    cell.chunkservers[at].restart()?;
    cell.await_state(at, "live").map(drop)
}

fn early(cell: &mut HealCell, file: &StoredFile) -> Result<String> {
    let (at, before) = (victim(cell)?, cell.chunk_file_count()?);
    cell.chunkservers[at].kill();
    cell.await_state(at, "silent")?;
    judge(cell, file, "first\n")?;
    back(cell, at)?;
    cell.await_healthy()?;
    let after = cell.chunk_file_count()?;
    if after != before {
        bail!("{before} chunk files before, {after} after it");
    }
    Ok(format!("{before} chunk files as before"))
}

fn late(cell: &mut HealCell, file: &StoredFile) -> Result<String> {
    let (at, before) = (victim(cell)?, cell.chunk_file_count()?);
    cell.chunkservers[at].kill();
    cell.await_state(at, "dead")?;
    append(cell, "second")?;
    cell.await_whole()?;
    back(cell, at)?;
    cell.await_healthy()?;
    // What it has too many goes, to its trash first.
    cell.wait("three replicas of each chunk", || {
        let mut count = 0;
        for at in 0..cell.chunkservers.len() {
            count += cell.chunk_files(at)?.len();
        }
        Ok(count == before)
    })?;
    judge(cell, file, "first\nsecond\n")?;
    cell.await_nothing_found()?;
    Ok("what was too many went again; every byte right".to_owned())
}

fn old(cell: &mut HealCell, file: &StoredFile) -> Result<String> {
    let at = victim(cell)?;
    let (disk, image) = (cell.data_of(at + 1), cell.directory().join("image"));
    cell.chunkservers[at].kill();
    copy_tree(&disk, &image)?;
    back(cell, at)?;
    append(cell, "second")?;
    cell.chunkservers[at].kill();
    remove_dir_all(&disk)?;
    copy_tree(&image, &disk)?;
    back(cell, at)?;
    judge(cell, file, "first\nsecond\n")?;
    append(cell, "third")?;
    cell.await_healthy()?;
    cell.judge_without_each(file)?;
    judge(cell, file, "first\nsecond\nthird\n")?;
    Ok("nothing old was served".to_owned())
}

fn less(cell: &mut HealCell, file: &StoredFile) -> Result<String> {
    let at = victim(cell)?;
    cell.chunkservers[at].kill();
    let files = files_below(&cell.data_of(at + 1).join("chunks"))?;
    // Of one chunk the bytes, of the next its sidecar, of the third nothing.
    let gone: Vec<_> = files.iter().enumerate().filter(|(number, _)| number % 3 == 0).collect();
    gone.iter().try_for_each(|(_, path)| remove_file(path))?;
    back(cell, at)?;
    judge(cell, file, "first\n")?;
    cell.ask(&["fsck", "--data", "--repair", "--deadline", "120"])?;
    cell.await_healthy()?;
    cell.judge_without_each(file)?;
    Ok(format!("{} of {} files were gone; whole again", gone.len(), files.len()))
}

fn emptied(cell: &mut HealCell, file: &StoredFile) -> Result<String> {
    let at = victim(cell)?;
    let address = cell.chunkservers[at].address().to_owned();
    let id = cell.server(at)?["server"].as_str().context("an id")?.to_owned();
    cell.chunkservers[at].kill();
    remove_dir_all(cell.data_of(at + 1))?;
    cell.chunkservers[at].restart()?;
    cell.wait("the old one dead, a new one live", || {
        let all = cell.told(&["servers"])?;
        let state = |known: bool| {
            let mut there = all.iter().filter(|it| it["address"] == *address);
            there.find(|it| (it["server"] == *id) == known).map(|it| it["state"].clone())
        };
        Ok(state(true).is_some_and(|it| it == "dead")
            && state(false).is_some_and(|it| it == "live"))
    })?;
    cell.await_whole()?;
    cell.ask(&["servers", "--forget", &id])?;
    cell.await_healthy()?;
    cell.judge_without_each(file)?;
    Ok("a new server; what the old one held was copied".to_owned())
}

fn copied(cell: &mut HealCell, file: &StoredFile) -> Result<String> {
    let at = victim(cell)?;
    let other = (at + 1) % cell.chunkservers.len();
    let (disk, copy) = (cell.data_of(at + 1), cell.directory().join("copied"));
    cell.chunkservers[at].kill();
    copy_tree(&disk, &copy)?;
    back(cell, at)?;
    let own = cell.arguments_of(other + 1);
    let own_disk = text(&cell.data_of(other + 1));
    let theirs = |word: &String| if *word == own_disk { text(&copy) } else { word.clone() };
    let theirs: Vec<String> = own.iter().map(theirs).collect();
    cell.chunkservers[other].kill();
    cell.chunkservers[other].restart_with(theirs)?;
    let log = cell.chunkservers[other].log().to_owned();
    cell.wait("its refusal", || {
        Ok(std::fs::read_to_string(&log)?.contains("another process is it at"))
    })?;
    judge(cell, file, "first\n")?;
    cell.chunkservers[other].kill();
    cell.chunkservers[other].restart_with(own)?;
    cell.await_state(other, "live")?;
    cell.await_healthy()?;
    cell.judge_without_each(file)?;
    Ok("refused while the first lives".to_owned())
}
