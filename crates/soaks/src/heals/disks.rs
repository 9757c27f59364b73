//! Disks: one of a server's that vanishes is dropped alone and an empty one taken in while it runs;
//! a full one takes no new chunks, and the write goes elsewhere.

use super::heal_cell::{CHUNK_SIZE, HealCell, QUICK, fresh_directory, text};
use crate::report::Report;
use crate::small_disk::SmallDisk;
use anyhow::{Result, bail};
use cairn_testkit::Program;
use std::path::PathBuf;

const FILE_SIZE: u64 = 24 * CHUNK_SIZE;
/// A full disk takes no new chunk; those that it holds may grow to their size.
const CHUNKS_ON_FULL_MAX: usize = 1;

/// `disks`: two file systems of its own for one server, as its disks are.
pub(crate) fn disks(program: &Program, report: &mut Report) -> Result<()> {
    let dropped = "a disk that vanishes is dropped alone; an empty one is taken in while it runs";
    let full = "a full disk takes no new chunks: the write goes elsewhere";
    let mount = || SmallDisk::mount(&fresh_directory());
    let (Some(first), Some(second)) = (mount()?, mount()?) else {
        report.line(dropped, "works", "NOT SHOWN: this user may not mount", true);
        report.line(full, "works", "NOT SHOWN: this user may not mount", true);
        return Ok(());
    };
    report.works(dropped, vanishes(program, &[&first, &second]));
    report.works(full, is_full(program, &first));
    Ok(())
}

fn vanishes(program: &Program, disks: &[&SmallDisk; 2]) -> Result<String> {
    let own = disks.map(|disk| disk.path().join("data"));
    let mut cell = HealCell::start_plan(program, 4, |plan| {
        QUICK.clone_into(&mut plan.settings);
        plan.disks.insert(1, own.to_vec());
    })?;
    let file = cell.put("file", FILE_SIZE)?;
    let on = |disk: &PathBuf| cairn_testkit::chunk_files(disk).map(|files| files.len());
    let (gone, stays) = (on(&own[1])?, on(&own[0])?);
    std::fs::rename(&own[1], own[1].with_extension("gone"))?;
    cell.wait("one failed disk", || Ok(cell.server(0)?["disk_failed_count"] == 1))?;
    cell.await_whole()?;
    if cell.server(0)?["state"] != "live" || on(&own[0])? < stays {
        bail!("its server did not go on with the other disk: {}", cell.server(0)?);
    }
    cell.judge(&file)?;
    std::fs::create_dir(&own[1])?;
    cell.wait("the empty one taken in", || Ok(cell.server(0)?["disk_failed_count"] == 0))?;
    cell.await_healthy()?;
    let more = cell.put("more", FILE_SIZE)?;
    cell.wait("chunks on it", || Ok(on(&own[1])? > 0))?;
    cell.judge_without_each(&file)?;
    cell.judge(&more)?;
    Ok(format!("{gone} chunks were on it, {stays} on the other; copied, and it is used again"))
}

fn is_full(program: &Program, disk: &SmallDisk) -> Result<String> {
    let cell = HealCell::start_plan(program, 4, |plan| {
        QUICK.clone_into(&mut plan.settings);
        plan.disks.insert(4, vec![disk.path().join("full")]);
    })?;
    let file = cell.put("file", FILE_SIZE)?;
    let before = cell.chunk_files(3)?.len();
    disk.fill()?;
    let local = cell.local_file("meanwhile", FILE_SIZE)?;
    cell.ask(&["put", &text(&local.local), &local.path])?;
    let after = cell.chunk_files(3)?.len();
    if after > before + CHUNKS_ON_FULL_MAX {
        bail!("{before} chunks on it before, {after} after it");
    }
    cell.judge(&local)?;
    cell.judge(&file)?;
    cell.await_whole()?;
    disk.ease()?;
    cell.wait("new chunks on it", || {
        let again = cell.local_file("again", FILE_SIZE)?;
        cell.ask(&["put", "-f", &text(&again.local), &again.path])?;
        Ok(cell.chunk_files(3)?.len() > after)
    })?;
    cell.await_healthy()?;
    Ok(format!("{before} chunks on it, {after} after 24 more chunks; used again with room"))
}
