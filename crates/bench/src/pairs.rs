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

    /// The least and the most of them.
    pub(crate) fn ends(&self) -> [f64; 2] {
        [self.quantile(0.0), self.quantile(1.0)]
    }

    /// `median (least–most)`, with this many digits.
    pub(crate) fn spread(&self, digits: usize) -> String {
        let [least, most] = self.ends();
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
    /// Several runs as one.
    pub(crate) fn sum(runs: impl Iterator<Item = Self>) -> Self {
        let none = Self { bytes: 0, seconds: 0.0, cpu_seconds: 0.0 };
        runs.fold(none, |sum, run| Self {
            bytes: sum.bytes + run.bytes,
            seconds: sum.seconds + run.seconds,
            cpu_seconds: sum.cpu_seconds + run.cpu_seconds,
        })
    }

    pub(crate) fn megabytes_per_second(&self) -> f64 {
        self.bytes as f64 / 1e6 / self.seconds
    }

    pub(crate) fn cpu_per_gib(&self) -> f64 {
        self.cpu_seconds / (self.bytes as f64 / (1u64 << 30) as f64)
    }
}

/// How often each side went first in a round.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct FirstTurns {
    pub(crate) cell: u64,
    pub(crate) floor: u64,
    pub(crate) second_floor: u64,
}

/// What was measured in one round: the cell's run beside two of the floor.
#[derive(Clone, Copy, Debug)]
pub(crate) struct ComparedRound {
    pub(crate) cell: StreamRun,
    pub(crate) floor: StreamRun,
    /// The same once more: what the floor against itself gives is what a ratio is worth.
    pub(crate) second_floor: StreamRun,
    pub(crate) went_first: FirstTurns,
}

/// Rounds, from which ratios are taken one by one.
#[derive(Debug, Default)]
pub(crate) struct Comparison {
    rounds: Vec<ComparedRound>,
}

impl Comparison {
    pub(crate) fn push(&mut self, round: ComparedRound) {
        self.rounds.push(round);
    }

    fn series(&self, of: impl Fn(&ComparedRound) -> f64) -> Series {
        Series::of(self.rounds.iter().map(of))
    }

    /// The cell's figure over the floor's.
    fn ratio(&self, of: fn(&StreamRun) -> f64) -> Series {
        self.series(|round| of(&round.cell) / of(&round.floor))
    }

    /// The second floor's figure over the first one's, which is 1 within its spread.
    fn floor_ratio(&self, of: fn(&StreamRun) -> f64) -> Series {
        self.series(|round| of(&round.second_floor) / of(&round.floor))
    }

    /// Medians of the ratios, how far those of the speeds are spread, and how often who went first.
    pub(crate) fn to_json(&self) -> serde_json::Value {
        let speed = StreamRun::megabytes_per_second;
        let first = |of: fn(&FirstTurns) -> u64| -> u64 {
            self.rounds.iter().map(|round| of(&round.went_first)).sum()
        };
        serde_json::json!({
            "count": self.rounds.len(),
            "speed_ratio": self.ratio(speed).median(),
            "cpu_ratio": self.ratio(StreamRun::cpu_per_gib).median(),
            "floor_speed_ratio": self.floor_ratio(speed).median(),
            "floor_cpu_ratio": self.floor_ratio(StreamRun::cpu_per_gib).median(),
            "speed_spread": self.ratio(speed).ends(),
            "floor_speed_spread": self.floor_ratio(speed).ends(),
            "went_first": {
                "cell": first(|it| it.cell),
                "floor": first(|it| it.floor),
                "second_floor": first(|it| it.second_floor),
            },
        })
    }

    /// The comparison, a line each.
    pub(crate) fn lines(&self) -> Vec<String> {
        let line = |name: &str, unit: &str, digits, of: fn(&StreamRun) -> f64| {
            let cell = self.series(|round| of(&round.cell)).spread(digits);
            let floor = self.series(|round| of(&round.floor)).spread(digits);
            let (ratio, floors) = (self.ratio(of).spread(2), self.floor_ratio(of).spread(2));
            format!(
                "{name:<6} cairn {cell} {unit}   floor {floor} {unit}   ratio {ratio}   \
                 floor to floor {floors}"
            )
        };
        vec![
            format!("{} rounds, median (least–most)", self.rounds.len()),
            line("speed", "MB/s", 0, StreamRun::megabytes_per_second),
            line("cpu", "CPU s/GiB", 2, StreamRun::cpu_per_gib),
        ]
    }
}

#[cfg(test)]
mod tests {
    use super::{ComparedRound, Comparison, FirstTurns, Series, StreamRun};

    #[test]
    fn the_median_and_the_ends_are_what_they_are_called() {
        let series = Series::of([5.0, 1.0, 3.0].into_iter());
        assert_eq!(series.spread(1), "3.0 (1.0–5.0)");
        assert!(Series::default().median().is_nan());
    }

    #[test]
    fn runs_of_a_side_are_one_long_run() {
        let run = |bytes, seconds, cpu_seconds| StreamRun { bytes, seconds, cpu_seconds };
        let sum = StreamRun::sum([run(3_000_000, 1.0, 0.5), run(5_000_000, 3.0, 0.5)].into_iter());
        assert_eq!((sum.megabytes_per_second(), sum.cpu_seconds), (2.0, 1.0));
    }

    #[test]
    fn ratios_are_taken_round_by_round_and_the_floors_stand_beside_the_cells() {
        let mut comparison = Comparison::default();
        let run = |cpu_seconds| StreamRun { bytes: 1 << 30, seconds: 1.0, cpu_seconds };
        for (cell, floor, second_floor) in [(2.0, 1.0, 1.0), (30.0, 10.0, 9.0), (4.0, 1.0, 1.1)] {
            let [cell, floor, second_floor] = [cell, floor, second_floor].map(run);
            let went_first = FirstTurns::default();
            comparison.push(ComparedRound { cell, floor, second_floor, went_first });
        }
        let lines = comparison.lines();
        let ratios = "ratio 3.00 (2.00–4.00)   floor to floor 1.00 (0.90–1.10)";
        assert!(lines[2].ends_with(ratios), "{lines:?}");
    }
}
