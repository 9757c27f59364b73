//! What healing costs the master: memory a chunk, and how fast it is beside an older build.

use crate::options::SoakOptions;
use crate::report::Report;
use crate::teller::Teller;
use anyhow::{Context, Result};
use cairn_testkit::Program;
use serde_json::Value;
use std::collections::BTreeMap;
use std::path::PathBuf;

const FILES: u64 = 10_000_000;
/// A9's, which hold with all that healing needs.
const BYTES_A_CHUNK_MAX: f64 = 48.0;
const PAIRS: usize = 3;
/// Slower by five percent at most.
const SHARE_MIN: f64 = 0.95;
/// Figures that are rates, and those that are times.
const RATES: [&str; 2] = ["look-ups", "creates"];
const TIMES: [&str; 1] = ["start until a look-up is answered"];

/// What `bench meta` tells, by name.
fn figures(program: &Program, files: u64, steps: &str) -> Result<BTreeMap<String, f64>> {
    let files = files.to_string();
    let words = ["bench", "meta", "--json", "--rounds", "1", "--files", &files, "--only", steps];
    let told = program.ask(&words)?;
    let mut all = BTreeMap::new();
    for line in told.lines() {
        let value: Value = serde_json::from_str(line).with_context(|| line.to_owned())?;
        if let (Some(what), Some(figure)) = (value["what"].as_str(), value["value"].as_f64()) {
            all.insert(what.to_owned(), figure);
        }
    }
    Ok(all)
}

/// `ten-million`: bytes of the master's memory for each chunk (`--files`).
pub(crate) fn memory(
    program: &Program,
    options: &SoakOptions,
    _: &Teller,
    report: &mut Report,
) -> Result<()> {
    let files = options.files.unwrap_or(FILES);
    let told = figures(program, files, "memory")?;
    let what = "memory for each chunk, locations included";
    let bytes = told.get(what).with_context(|| format!("no {what} in {told:?}"))?;
    report.at_most(&format!("{what}, {files} files"), "bytes", BYTES_A_CHUNK_MAX, *bytes);
    Ok(())
}

/// `as-fast-as`: look-ups, creates and the start beside those of `--against BINARY`, in pairs that
/// take turns.
pub(crate) fn as_fast_as(
    program: &Program,
    options: &SoakOptions,
    teller: &Teller,
    report: &mut Report,
) -> Result<()> {
    let against = options.against.as_ref().context("it takes --against BINARY, an older one")?;
    let older = Program::at(PathBuf::from(against));
    let files = options.files.unwrap_or(FILES);
    let mut shares: BTreeMap<&str, Vec<f64>> = BTreeMap::new();
    for pair in 0..PAIRS {
        let (mut now, mut before) = (BTreeMap::new(), BTreeMap::new());
        for ours in [pair % 2 == 0, pair % 2 != 0] {
            let (side, program) = if ours { (&mut now, program) } else { (&mut before, &older) };
            *side = figures(program, files, "start,look-ups,changes")?;
        }
        for what in RATES.iter().chain(&TIMES) {
            let of = |side: &BTreeMap<String, f64>| {
                side.get(*what).copied().with_context(|| format!("no {what} in {side:?}"))
            };
            let (ours, theirs) = (of(&now)?, of(&before)?);
            teller.say(format_args!("{what}: {ours:.1}, the older one {theirs:.1}"));
            let share = if TIMES.contains(what) { theirs / ours } else { ours / theirs };
            shares.entry(what).or_default().push(share);
        }
    }
    for (what, mut shares) in shares {
        shares.sort_by(f64::total_cmp);
        let what = format!("{what}, part of the older one's speed (median of {PAIRS} pairs)");
        report.at_least(&what, SHARE_MIN, shares[PAIRS / 2]);
    }
    Ok(())
}
