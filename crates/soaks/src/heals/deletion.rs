//! Deletion: undelete, purge when it is due, at once by a second delete or by policy, and chunks
//! that nobody refers to. What counts is what stands on the disks.

use super::heal_cell::{CHUNK_SIZE, HealCell, QUICK};
use crate::report::Report;
use anyhow::{Context, Result, bail};
use cairn_testkit::Program;
use std::time::{Duration, Instant};

const FILE_SIZE: u64 = 6 * CHUNK_SIZE;
const FILES_ON_DISK: usize = 6 * 3;
const KEEP_DELETED: Duration = Duration::from_secs(6);

/// `deletion`.
pub(crate) fn deletion(program: &Program, report: &mut Report) -> Result<()> {
    let keep = KEEP_DELETED.as_millis();
    let settings = format!("{QUICK}keep_deleted_ms = {keep}\ntrash_ms = 1000\n");
    let mut cell = HealCell::start(program, 4, &settings)?;
    report.works("undelete, also to another place", undelete(&cell));
    report.works("purge when it is due, and not before", purge_when_due(&cell));
    report.works("purge at once: a second delete, a policy", purge_at_once(&cell));
    report.works("what a server holds that was deleted while it was away", orphans(&mut cell));
    Ok(())
}

fn await_gone(cell: &HealCell, left: usize) -> Result<Duration> {
    cell.wait("the chunk files gone, from the trash too", || Ok(cell.chunk_file_count()? == left))
}

fn undelete(cell: &HealCell) -> Result<String> {
    cell.ask(&["mkdir", "/d"])?;
    let mut file = cell.local_file("file", FILE_SIZE)?;
    let local = file.local.display().to_string();
    cell.ask(&["put", &local, "/d/file"])?;
    cell.ask(&["rm", "-r", "/d"])?;
    if cell.ask(&["stat", "/d/file"]).is_ok() {
        bail!("it is there after rm");
    }
    cell.ask(&["undelete", "/d"])?;
    "/d/file".clone_into(&mut file.path);
    cell.judge(&file)?;
    cell.ask(&["rm", "/d/file"])?;
    cell.ask(&["undelete", "--to", "/elsewhere", "/d/file"])?;
    "/elsewhere".clone_into(&mut file.path);
    cell.judge(&file)?;
    Ok("every byte back".to_owned())
}

fn purge_when_due(cell: &HealCell) -> Result<String> {
    let begun = Instant::now();
    cell.ask(&["rm", "/elsewhere"])?;
    await_gone(cell, 0)?;
    let gone = begun.elapsed();
    if gone < KEEP_DELETED {
        bail!("gone after {} ms, before it was due", gone.as_millis());
    }
    if !cell.ask(&["ls", "--deleted"])?.is_empty() {
        bail!("purged, and listed yet");
    }
    Ok(format!("{FILES_ON_DISK} chunk files gone after {:.1} s", gone.as_secs_f64()))
}

fn purge_at_once(cell: &HealCell) -> Result<String> {
    cell.ask(&["mkdir", "/keep", "/scratch"])?;
    cell.ask(&["policy", "--keep-deleted", "forever", "/keep"])?;
    cell.ask(&["policy", "--keep-deleted", "0", "/scratch"])?;
    let file = cell.local_file("file", FILE_SIZE)?;
    let local = file.local.display().to_string();
    cell.ask(&["put", &local, "/keep/file"])?;
    cell.ask(&["put", &local, "/scratch/file"])?;
    cell.ask(&["rm", "/scratch/file"])?;
    await_gone(cell, FILES_ON_DISK)?;
    cell.ask(&["rm", "/keep/file"])?;
    let deleted = cell.value(&["ls", "--deleted"])?;
    let hidden = deleted["hidden"].as_str().context("a hidden name")?.to_owned();
    cell.ask(&["rm", &hidden])?;
    await_gone(cell, 0)?;
    Ok("gone from the disks".to_owned())
}

fn orphans(cell: &mut HealCell) -> Result<String> {
    cell.ask(&["policy", "--keep-deleted", "0", "/"])?;
    let file = cell.put("file", FILE_SIZE)?;
    let away = cell.a_holder(&file.path)?;
    let held = cell.chunk_files(away)?.len();
    cell.chunkservers[away].kill();
    cell.await_state(away, "dead")?;
    cell.ask(&["rm", &file.path])?;
    cell.wait("the others' chunk files gone", || Ok(cell.chunk_file_count()? == held))?;
    cell.chunkservers[away].restart()?;
    await_gone(cell, 0)?;
    cell.await_healthy()?;
    Ok(format!("{held} chunk files collected once it was back"))
}
