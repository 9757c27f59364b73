//! One directory with a million names, listed with sizes.

use super::arguments::Meta;
use super::figures::{Figure, Figures};
use super::population::Population;
use super::rig::Rig;
use crate::error::{BenchCause, BenchError, Doing};
use crate::pairs::Series;
use crate::surroundings::Surroundings;
use std::time::Instant;

const NAMES_MAX: u64 = 1_000_000;

/// The step.
pub(super) fn measure(
    meta: &Meta,
    around: &Surroundings,
    figures: &mut Figures<'_>,
) -> Result<(), BenchError> {
    let files = meta.files.min(NAMES_MAX);
    let population = Population { files, per_directory: files, naming: meta.names, chunks: false };
    let rig = Rig::filled(around, "one-directory", population, figures)?;
    let doing = || "listing a directory".to_owned();
    let directory = population.directory(0);
    let spans = rig.with_cell(doing, async |cell| {
        let mut spans = Series::default();
        for _ in 0..meta.rounds {
            let begun = Instant::now();
            let entries = cell.list(&directory).await.doing(doing)?;
            spans.push(begun.elapsed().as_secs_f64());
            if entries.len() as u64 != files {
                let why = format!("{} of {files} names came", entries.len());
                return Err(BenchError::new(doing(), BenchCause::WrongAnswer(why)));
            }
        }
        Ok(spans)
    })?;
    let (what, value) = (format!("list a directory of {files} names"), spans.median());
    let wanted = if files == NAMES_MAX { "at most 1" } else { "" };
    figures.tell(&Figure { what: &what, value, digits: 3, unit: "s", wanted })?;
    let value = files as f64 / spans.median();
    let what = "names listed";
    figures.tell(&Figure { what, value, digits: 0, unit: "a second", wanted: "" })
}
