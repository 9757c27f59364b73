//! A master that is started from an old copy of its directory orders nothing deleted (R3), and what
//! it does not know is kept for a person.

use super::heal_cell::{CHUNK_SIZE, HealCell, QUICK};
use crate::report::Report;
use anyhow::{Result, bail};
use cairn_testkit::{Program, copy_tree};
use std::fs::remove_dir_all;
use std::time::Duration;

/// Longer than what is thrown away stays in the trash, and than an unknown chunk would be asked
/// about.
const NOTHING_FOR: Duration = Duration::from_secs(5);

/// `backup`.
pub(crate) fn backup(program: &Program, report: &mut Report) -> Result<()> {
    let settings = format!("{QUICK}keep_deleted_ms = 1000\ntrash_ms = 1000\n");
    let mut cell = HealCell::start(program, 3, &settings)?;
    let works = from_an_old_copy(&mut cell);
    report.works("a master from a backup orders nothing deleted; lost and found", works);
    Ok(())
}

fn from_an_old_copy(cell: &mut HealCell) -> Result<String> {
    let file = cell.put("file", 4 * CHUNK_SIZE)?;
    cell.masters[0].kill();
    let (directory, copy) = (cell.directory().join("master"), cell.directory().join("copy"));
    copy_tree(&directory, &copy)?;
    cell.masters[0].restart()?;
    cell.await_live(3)?;
    cell.put("newer", 4 * CHUNK_SIZE)?;
    let held = cell.chunk_file_count()?;
    cell.masters[0].kill();
    remove_dir_all(&directory)?;
    copy_tree(&copy, &directory)?;
    cell.masters[0].restart()?;
    cell.wait("BEHIND in status", || Ok(cell.ask(&["status"])?.contains("BEHIND")))?;
    let status = cell.ask(&["status"])?;
    let term = status.split("--recover-past ").nth(1).and_then(|rest| {
        let digits: String = rest.chars().take_while(char::is_ascii_digit).collect();
        (!digits.is_empty()).then_some(digits)
    });
    let Some(term) = term else { bail!("no term to recover past: {status}") };
    let mut arguments = vec!["master", "--data"];
    let data = directory.display().to_string();
    arguments.extend([data.as_str(), "--recover-past", &term]);
    cell.masters[0].kill();
    cell.masters[0].restart_with(arguments.into_iter().map(str::to_owned).collect())?;
    cell.await_live(3)?;
    cell.wait("the file to be read", || Ok(cell.judge(&file).is_ok()))?;
    cell.wait("the chunks that it does not know", || {
        Ok(cell.value(&["status"])?["chunks"]["unknown"] == 4)
    })?;
    std::thread::sleep(NOTHING_FOR);
    let after = cell.chunk_file_count()?;
    if after != held {
        bail!("{held} chunk files before, {after} after it");
    }
    let lost = cell.told(&["lost"])?.len();
    cell.ask(&["lost", "--let-go-of-all"])?;
    cell.wait("what was let go of to be gone", || Ok(cell.chunk_file_count()? == 4 * 3))?;
    cell.judge(&file)?;
    Ok(format!("{held} chunk files kept; {lost} lines of cairn lost; gone when let go of"))
}
