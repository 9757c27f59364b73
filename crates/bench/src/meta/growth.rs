//! What grows with the number of files, and what does not.

use super::arguments::Meta;
use super::figures::{Figure, Figures};
use super::population::{Naming, Population};
use super::{memory, plot, rates};
use crate::error::{BenchError, Doing};
use crate::load::LoadFigures;
use crate::pairs::Series;
use crate::surroundings::Surroundings;
use std::fmt::Write;
use std::path::Path;

/// What was measured with so many files.
pub(super) struct GrowthPoint {
    pub(super) files: u64,
    pub(super) file_bytes: f64,
    pub(super) chunk_bytes: f64,
    /// CPU microseconds of clients and master.
    pub(super) look_up_us: f64,
    pub(super) create_us: f64,
    look_ups: f64,
    creates: f64,
}

/// The step: a hundredth, a tenth and all of the files.
pub(super) fn measure(
    meta: &Meta,
    around: &Surroundings,
    figures: &mut Figures<'_>,
) -> Result<(), BenchError> {
    let mut points = Vec::new();
    for divisor in [100, 10, 1] {
        let files = (meta.files / divisor).max(1);
        let point = point(meta, around, Population { files, ..meta.population() }, figures)?;
        for (what, value, digits, unit) in point.values() {
            let what = format!("{what}, {files} files");
            figures.tell(&Figure { what: &what, value, digits, unit, wanted: "" })?;
        }
        points.push(point);
    }
    match &meta.plots {
        Some(directory) => write(directory, meta.names, &points),
        None => Ok(()),
    }
}

fn point(
    meta: &Meta,
    around: &Surroundings,
    population: Population,
    figures: &Figures<'_>,
) -> Result<GrowthPoint, BenchError> {
    let files = population.files;
    let name = format!("growth-{files}");
    let (bytes, rig) = memory::weigh(meta, around, population, &name, figures)?;
    let look_ups = rates::look_up_rounds(meta, &rig)?;
    let creates = rates::create_rounds(meta, &rig)?;
    let median = |rounds: &[LoadFigures], of: fn(&LoadFigures) -> f64| {
        Series::of(rounds.iter().map(of)).median()
    };
    Ok(GrowthPoint {
        files,
        file_bytes: bytes.file,
        chunk_bytes: bytes.chunk,
        look_up_us: median(&look_ups, LoadFigures::cpu_us),
        create_us: median(&creates, LoadFigures::cpu_us),
        look_ups: median(&look_ups, LoadFigures::rate),
        creates: median(&creates, LoadFigures::rate),
    })
}

impl GrowthPoint {
    fn values(&self) -> [(&'static str, f64, usize, &'static str); 6] {
        [
            ("memory for each file", self.file_bytes, 1, "bytes"),
            ("memory for each chunk", self.chunk_bytes, 1, "bytes"),
            ("look-ups", self.look_ups, 0, "a second"),
            ("look-ups, CPU of clients and master", self.look_up_us, 1, "µs each"),
            ("creates", self.creates, 0, "a second"),
            ("creates, CPU of clients and master", self.create_us, 1, "µs each"),
        ]
    }
}

/// `growth.md` and `growth.svg`.
fn write(directory: &Path, names: Naming, points: &[GrowthPoint]) -> Result<(), BenchError> {
    let doing = || format!("writing the plot into {}", directory.display());
    std::fs::create_dir_all(directory).doing(doing)?;
    std::fs::write(directory.join("growth.md"), page(names, points)).doing(doing)?;
    std::fs::write(directory.join("growth.svg"), plot::svg(points)).doing(doing)
}

fn page(names: Naming, points: &[GrowthPoint]) -> String {
    let names = match names {
        Naming::A => "(a), as Spark writes them",
        Naming::B => "(b), as logs are called",
        Naming::C => "(c), random UUIDs",
    };
    let mut page = format!(
        "# What grows with the number of files\n\n\
         Written by `cairn bench meta --only growth --plots docs/measurements`; names {names}; \
         directories of a thousand, one chunk of three replicas for each file.\n\
         Memory is all that is resident in the master's process, divided by the number of files; \
         CPU is that of clients and master together.\n\n\
         | files | bytes a file | bytes a chunk | look-ups a second | CPU each | creates a second \
         | CPU each |\n|---|---|---|---|---|---|---|\n"
    );
    for point in points {
        let GrowthPoint {
            files,
            file_bytes,
            chunk_bytes,
            look_ups,
            look_up_us,
            creates,
            create_us,
        } = point;
        let _ = writeln!(
            page,
            "| {files} | {file_bytes:.1} | {chunk_bytes:.1} | {look_ups:.0} | {look_up_us:.1} µs \
             | {creates:.0} | {create_us:.1} µs |"
        );
    }
    page.push_str("\n![What grows with the number of files](growth.svg)\n");
    page
}

#[cfg(test)]
mod tests {
    use super::{GrowthPoint, Naming, page, plot};

    fn point(files: u64) -> GrowthPoint {
        GrowthPoint {
            files,
            file_bytes: 60.0,
            chunk_bytes: 50.0,
            look_up_us: 7.0,
            create_us: 30.0,
            look_ups: 150_000.0,
            creates: 25_000.0,
        }
    }

    #[test]
    fn table_and_plot_show_every_point() {
        let points = [point(100_000), point(1_000_000), point(10_000_000)];
        let text = page(Naming::A, &points);
        assert!(text.contains("| 1000000 | 60.0 | 50.0 | 150000 | 7.0 µs | 25000 | 30.0 µs |"));
        let svg = plot::svg(&points);
        assert_eq!(svg.matches("<circle").count(), 4 * points.len());
        assert!(svg.starts_with("<svg") && svg.ends_with("</svg>\n") && !svg.contains("NaN"));
    }
}
