//! Medians and spreads.

/// Several measurements of one thing.
#[derive(Clone, Debug, Default)]
pub(crate) struct Series(Vec<f64>);

impl Series {
    /// All of these.
    pub(crate) fn of(values: impl Iterator<Item = f64>) -> Self {
        Self(values.collect())
    }

    pub(crate) fn push(&mut self, value: f64) {
        self.0.push(value);
    }

    fn sorted(&self) -> Vec<f64> {
        let mut sorted = self.0.clone();
        sorted.sort_by(f64::total_cmp);
        sorted
    }

    /// The value below which `part` (0 to 1) of the measurements lie.
    pub(crate) fn quantile(&self, part: f64) -> f64 {
        let sorted = self.sorted();
        match sorted.len() {
            0 => f64::NAN,
            count => sorted[((count - 1) as f64 * part).round() as usize],
        }
    }

    pub(crate) fn median(&self) -> f64 {
        self.quantile(0.5)
    }

    /// `median (least–most)`, with this many digits.
    pub(crate) fn spread(&self, digits: usize) -> String {
        let (least, most) = (self.quantile(0.0), self.quantile(1.0));
        format!("{:.digits$} ({least:.digits$}–{most:.digits$})", self.median())
    }
}

/// One side of a comparison: speed and cost of a run.
#[derive(Clone, Copy, Debug)]
pub(crate) struct StreamRun {
    /// Bytes of user data.
    pub(crate) bytes: u64,
    pub(crate) seconds: f64,
    /// Over all processes.
    pub(crate) cpu_seconds: f64,
}

impl StreamRun {
    pub(crate) fn megabytes_per_second(&self) -> f64 {
        self.bytes as f64 / 1e6 / self.seconds
    }

    pub(crate) fn cpu_per_gib(&self) -> f64 {
        self.cpu_seconds / (self.bytes as f64 / (1u64 << 30) as f64)
    }
}

/// Runs of a cell beside runs of the floor, pair by pair.
#[derive(Debug, Default)]
pub(crate) struct Pairs {
    pairs: Vec<(StreamRun, StreamRun)>,
}

impl Pairs {
    pub(crate) fn push(&mut self, ours: StreamRun, floor: StreamRun) {
        self.pairs.push((ours, floor));
    }

    fn series(&self, of: impl Fn(&(StreamRun, StreamRun)) -> f64) -> Series {
        let mut series = Series::default();
        self.pairs.iter().for_each(|pair| series.push(of(pair)));
        series
    }

    /// Medians of the ratios, ours over the floor's.
    pub(crate) fn to_json(&self) -> serde_json::Value {
        let ratio =
            |of: fn(&StreamRun) -> f64| self.series(|pair| of(&pair.0) / of(&pair.1)).median();
        serde_json::json!({
            "count": self.pairs.len(),
            "speed_ratio": ratio(StreamRun::megabytes_per_second),
            "cpu_ratio": ratio(StreamRun::cpu_per_gib),
        })
    }

    /// The comparison, a line each.
    pub(crate) fn lines(&self) -> Vec<String> {
        let line = |name: &str, unit: &str, digits, of: fn(&StreamRun) -> f64| {
            let ours = self.series(|pair| of(&pair.0)).spread(digits);
            let floor = self.series(|pair| of(&pair.1)).spread(digits);
            let ratio = self.series(|pair| of(&pair.0) / of(&pair.1)).spread(2);
            format!("{name:<12} cairn {ours} {unit}   floor {floor} {unit}   ratio {ratio}")
        };
        vec![
            format!("{} pairs, median (least–most)", self.pairs.len()),
            line("speed", "MB/s", 0, StreamRun::megabytes_per_second),
            line("cpu", "CPU s/GiB", 2, StreamRun::cpu_per_gib),
        ]
    }
}

#[cfg(test)]
mod tests {
    use super::{Pairs, Series, StreamRun};

    #[test]
    fn the_median_and_the_ends_are_what_they_are_called() {
        let mut series = Series::default();
        [5.0, 1.0, 3.0].into_iter().for_each(|value| series.push(value));
        assert_eq!(series.spread(1), "3.0 (1.0–5.0)");
        assert!(Series::default().median().is_nan());
    }

    #[test]
    fn ratios_are_taken_pair_by_pair() {
        let mut pairs = Pairs::default();
        let run = |cpu_seconds| StreamRun { bytes: 1 << 30, seconds: 1.0, cpu_seconds };
        pairs.push(run(2.0), run(1.0));
        pairs.push(run(30.0), run(10.0));
        pairs.push(run(4.0), run(1.0));
        assert!(pairs.lines()[2].ends_with("ratio 3.00 (2.00–4.00)"), "{:?}", pairs.lines());
    }
}
