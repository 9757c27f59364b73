//! Seeing it: each word and code comes when it should, every command tells JSON, fsck finds what
//! was planted, and the demo goes on to its end.

use super::heal_cell::{CHUNK_SIZE, HealCell, QUICK, StoredFile};
use crate::cell::findings;
use crate::report::Report;
use crate::rot::flip;
use anyhow::{Context, Result, bail};
use cairn_testkit::Program;
use serde_json::Value;
use std::fs::File;

/// `seeing`.
pub(crate) fn seeing(program: &Program, report: &mut Report) -> Result<()> {
    let mut cell = HealCell::start(program, 3, QUICK)?;
    cell.put("file", 6 * CHUNK_SIZE)?;
    report.works("status, servers, explain, jobs: words and codes, as JSON", words(&mut cell));
    drop(cell);
    let cell = HealCell::start(program, 4, QUICK)?;
    let file = cell.put("file", 6 * CHUNK_SIZE)?;
    let works = fsck(&cell, &file);
    report.works("fsck --data finds what was planted, repairs it, says what it cannot", works);
    Ok(())
}

/// `demo`.
pub(crate) fn demo(program: &Program, report: &mut Report) -> Result<()> {
    let told = program.ask(&["demo"]).context("the demo");
    let last = |told: String| told.lines().last().unwrap_or_default().to_owned();
    report.works("cairn demo, to its end", told.map(last));
    Ok(())
}

fn await_reason(cell: &HealCell, health: &str, reason: &str) -> Result<()> {
    cell.wait(&format!("{health} by {reason}"), || {
        let status = cell.value(&["status"])?;
        let of_reason = |it: &Value| it.as_str().is_some_and(|it| it.starts_with(reason));
        let reasons = status["reasons"].as_array().context("reasons")?;
        Ok(status["health"] == health && reasons.iter().any(of_reason))
    })?;
    Ok(())
}

fn words(cell: &mut HealCell) -> Result<String> {
    cell.await_healthy()?;
    cell.chunkservers[0].kill();
    await_reason(cell, "degraded", "SERVERS_SILENT")?;
    await_reason(cell, "degraded", "UNDER_REPLICATED")?;
    await_reason(cell, "degraded", "SERVERS_DEAD")?;
    cell.wait("what the chunks wait for", || {
        let chunk = &cell.value(&["explain", "/file"])?["chunks"][0];
        Ok(chunk["waits_for"]["code"] == "NO_SERVER" && chunk["good"] == 2 && chunk["goal"] == 3)
    })?;
    let repair = cell.told(&["jobs"])?.into_iter().find(|job| job["kind"] == "repair");
    if repair.context("the repair as a job")?["total"] != 6 {
        bail!("the repair is of other than 6 chunks");
    }
    cell.chunkservers[1].kill();
    await_reason(cell, "degraded", "ONE_REPLICA_LEFT")?;
    cell.chunkservers[2].kill();
    await_reason(cell, "unavailable", "UNAVAILABLE")?;
    for at in 0..3 {
        cell.chunkservers[at].restart()?;
    }
    cell.await_live(3)?;
    cell.await_healthy()?;
    Ok("6 codes, each when it should".to_owned())
}

fn fsck(cell: &HealCell, file: &StoredFile) -> Result<String> {
    let files = cell.chunk_files(0)?;
    let [bad, gone, alone, ..] = files.as_slice() else { bail!("too few chunks") };
    flip(&File::options().read(true).write(true).open(bad)?, 70_000, 1)?;
    std::fs::remove_file(gone)?;
    std::fs::remove_file(alone.with_extension("meta"))?;
    let found = findings(cell, &["--data"])?;
    for code in ["BAD_BLOCK", "FILE_MISSING", "SIDECAR_MISSING"] {
        if !found.iter().any(|it| it.contains(code)) {
            bail!("no {code} in {found:?}");
        }
    }
    cell.ask(&["fsck", "--data", "--repair", "--deadline", "60"])?;
    let left = findings(cell, &["--data"])?;
    if !left.is_empty() {
        bail!("{left:?} after the repair");
    }
    cell.judge(file)?;
    // All replicas of one chunk are bad: nothing can be done, and it says so.
    let name = bad.file_name().context("a name")?;
    for at in 0..cell.chunkservers.len() {
        let files = cell.chunk_files(at)?;
        for path in files.iter().filter(|path| path.file_name() == Some(name)) {
            flip(&File::options().read(true).write(true).open(path)?, 70_000, 1)?;
        }
    }
    let found = findings(cell, &["--data"])?;
    if !found.iter().any(|it| it.contains("NO_GOOD_REPLICA")) {
        bail!("no NO_GOOD_REPLICA in {found:?}");
    }
    Ok("3 planted, 3 found and repaired; one beyond repair is called so".to_owned())
}
