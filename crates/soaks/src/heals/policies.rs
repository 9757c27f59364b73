//! Policies: a level raised and lowered acts on what exists, new files have what their directory
//! says, and a wish of a file's own wins.

use super::heal_cell::{CHUNK_SIZE, HealCell, QUICK, StoredFile, text};
use crate::report::Report;
use anyhow::{Result, bail};
use cairn_testkit::Program;

const CHUNKS: u64 = 8;

/// `policies`.
pub(crate) fn policies(program: &Program, report: &mut Report) -> Result<()> {
    let cell = HealCell::start(program, 5, &format!("{QUICK}trash_ms = 1000\n"))?;
    report.works("a policy raised and lowered acts on what exists", levels(&cell));
    report.works("a file has its directory's policy, or its own wish", inherits(&cell));
    Ok(())
}

fn await_files(cell: &HealCell, each: u64) -> Result<()> {
    let what = format!("{each} replicas of each chunk on the disks");
    cell.wait(&what, || Ok(cell.chunk_file_count()? as u64 == CHUNKS * each))?;
    Ok(())
}

fn levels(cell: &HealCell) -> Result<String> {
    cell.ask(&["mkdir", "/d"])?;
    let local = cell.local_file("file", CHUNKS * CHUNK_SIZE)?.local;
    let file = StoredFile { path: "/d/file".to_owned(), local };
    cell.ask(&["put", &text(&file.local), &file.path])?;
    for level in ["5", "2"] {
        cell.ask(&["policy", "--replication", level, "--apply", "/d"])?;
        await_files(cell, level.parse()?)?;
        cell.await_healthy()?;
        cell.judge(&file)?;
    }
    cell.ask(&["policy", "--replication", "4", &file.path])?;
    await_files(cell, 4)?;
    cell.judge(&file)?;
    Ok("3 to 5 to 2 by directory, to 4 by file; the disks hold as many".to_owned())
}

fn inherits(cell: &HealCell) -> Result<String> {
    cell.ask(&["policy", "--durability", "synced", "--keep-deleted", "7d", "/d"])?;
    let local = text(&cell.local_file("small", 8 << 10)?.local);
    cell.ask(&["put", &local, "/d/inherits"])?;
    cell.ask(&["put", "--replicas", "1", &local, "/d/wishes"])?;
    let told = |path: &str| cell.value(&["stat", path]);
    let (inherits, wishes) = (told("/d/inherits")?, told("/d/wishes")?);
    if inherits["replication"] != 2 || inherits["synced"] != true || wishes["replication"] != 1 {
        bail!("{inherits} {wishes}");
    }
    cell.ask(&["rm", "/d/inherits"])?;
    let left = cell.value(&["ls", "--deleted"])?["left_ms"].as_u64().unwrap_or_default();
    if left.div_ceil(24 * 3_600_000) != 7 {
        bail!("it is kept for {left} ms");
    }
    Ok("level, durability and reclamation".to_owned())
}
