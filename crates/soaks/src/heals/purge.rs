//! Many files deleted at once, purged, and gone from the disks, while other clients look names up.

use super::heal_cell::{HealCell, QUICK, text};
use crate::cell::chunks;
use crate::options::SoakOptions;
use crate::report::Report;
use crate::steady_load::SteadyLoad;
use crate::teller::Teller;
use anyhow::{Context, Result};
use cairn_testkit::{Program, await_until};
use std::time::{Duration, Instant};

/// What other clients' look-ups may take, one in a hundred excepted.
const P99_MS_MAX: f64 = 10.0;
const FILES: u64 = 20_000;
/// Names that others look up.
const OTHERS: usize = 1_000;
const FILES_PER_DIRECTORY: u64 = 1_000;
/// Files that are stored by one command.
const FILES_PER_PUT: u64 = 20_000;
const BEFORE: Duration = Duration::from_secs(5);
/// For each file: a million take long on one disk.
const GONE_WITHIN_MS_EACH: u64 = 60;

/// `purge`: `--files` of them, one chunk and one replica each.
pub(crate) fn purge(
    program: &Program,
    options: &SoakOptions,
    teller: &Teller,
    report: &mut Report,
) -> Result<()> {
    let files = options.files.unwrap_or(FILES);
    let settings = QUICK.replace("chunk_size = 1048576\n", "trash_ms = 1000\n");
    let cell = HealCell::start(program, 3, &settings)?;
    cell.ask(&["mkdir", "/others", "/many"])?;
    cell.ask(&["policy", "--replication", "1", "/many"])?;
    let others = cell.directory().join("others");
    make_files(&others, OTHERS as u64)?;
    cell.ask(&["put", "-r", &format!("{}/.", text(&others)), "/others"])?;
    store(&cell, files, teller)?;
    let kept = OTHERS * 3;
    let mut look_ups = SteadyLoad::start(&cell.place, "look-up", "/others/000000")?;
    let mut appends = SteadyLoad::start(&cell.place, "append-small", "/log")?;
    let before = look_ups.measure(BEFORE)?;
    let appends_before = appends.mark()?;
    let begun = Instant::now();
    let hidden = cell.value(&["rm", "-r", "-v", "/many"])?["hidden"].as_str().map(str::to_owned);
    let hidden = match hidden {
        Some(hidden) => hidden,
        None => {
            let deleted = cell.value(&["ls", "--deleted"])?;
            deleted["hidden"].as_str().context("a hidden name")?.to_owned()
        }
    };
    cell.ask(&["rm", "-r", &hidden])?;
    let removed = begun.elapsed();
    let within = Duration::from_millis(GONE_WITHIN_MS_EACH * files) + Duration::from_secs(60);
    let purged = await_until("the purge", within, || {
        std::thread::sleep(Duration::from_millis(200));
        Ok::<_, anyhow::Error>(cell.value(&["status"])?["hidden_count"] == 0)
    })?;
    await_until("the chunk files gone", within, || {
        // Counting a million files is no small load itself.
        std::thread::sleep(Duration::from_millis(500) + Duration::from_micros(files));
        Ok::<_, anyhow::Error>(cell.chunk_file_count()? <= kept + 3 * chunks(&cell, "/log")?.len())
    })?;
    let gone = begun.elapsed();
    let meanwhile = look_ups.mark()?;
    let appends_meanwhile = appends.mark()?;
    teller.say(format_args!(
        "rm -r took {:.2} s, the purge {:.1} s, all gone after {:.1} s; look-ups {:.0} a second \
         before, {:.0} meanwhile, p99 {:.2} ms before",
        removed.as_secs_f64(),
        purged.as_secs_f64(),
        gone.as_secs_f64(),
        before.a_second,
        meanwhile.a_second,
        before.p99_ms
    ));
    teller.say(format_args!(
        "a client that appends: {:.0} a second before, {:.0} meanwhile; its longest wait {:.0} ms \
         before, {:.0} ms meanwhile",
        appends_before.a_second,
        appends_meanwhile.a_second,
        appends_before.longest_ms,
        appends_meanwhile.longest_ms
    ));
    let what = format!("{} files rm -r'd, purged, off the disks: others' p99 look-up", files);
    report.at_most(&what, "ms", P99_MS_MAX, meanwhile.p99_ms);
    Ok(())
}

/// Makes so many files of a few bytes, a thousand in each directory.
fn make_files(root: &std::path::Path, count: u64) -> Result<()> {
    for number in 0..count {
        let directory = root.join(format!("{:06}", number / FILES_PER_DIRECTORY));
        if number % FILES_PER_DIRECTORY == 0 {
            std::fs::create_dir_all(&directory)?;
        }
        std::fs::write(directory.join(format!("{number:08}")), number.to_le_bytes())?;
    }
    Ok(())
}

/// Stores them, some directories at a time: they are the same each time.
fn store(cell: &HealCell, files: u64, teller: &Teller) -> Result<()> {
    let local = cell.directory().join("many");
    make_files(&local, files.min(FILES_PER_PUT))?;
    let begun = Instant::now();
    for number in 0..files.div_ceil(FILES_PER_PUT) {
        let to = format!("/many/{number:04}");
        cell.ask(&["put", "-r", &text(&local), &to])?;
    }
    let took = begun.elapsed().as_secs_f64();
    teller.say(format_args!("{files} files stored in {took:.0} s"));
    Ok(())
}
