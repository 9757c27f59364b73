//! How long operations took: a count for each span, spans a twentieth of an octave wide, so that
//! millions of them are a few numbers that processes can hand on.

use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::time::Duration;

/// Spans in an octave: each is 3.5 % longer than the one before.
const PER_OCTAVE: f64 = 20.0;

/// Counts of spans.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Latencies(BTreeMap<u32, u64>);

impl Latencies {
    pub(crate) fn push(&mut self, span: Duration) {
        let nanos = span.as_nanos().max(1) as f64;
        let bucket = (nanos.log2() * PER_OCTAVE).round() as u32;
        *self.0.entry(bucket).or_default() += 1;
    }

    pub(crate) fn merge(&mut self, other: &Self) {
        for (bucket, count) in &other.0 {
            *self.0.entry(*bucket).or_default() += count;
        }
    }

    /// Microseconds within which `part` (0 to 1) of the operations were done; NaN for none.
    pub(crate) fn quantile_us(&self, part: f64) -> f64 {
        let all: u64 = self.0.values().sum();
        let wanted = (all as f64 * part).ceil().max(1.0) as u64;
        let mut seen = 0;
        for (bucket, count) in &self.0 {
            seen += count;
            if seen >= wanted {
                return (f64::from(*bucket) / PER_OCTAVE).exp2() / 1e3;
            }
        }
        f64::NAN
    }
}

#[cfg(test)]
mod tests {
    use super::Latencies;
    use std::time::Duration;

    #[test]
    fn quantiles_are_within_a_span_of_what_went_in_however_it_was_gathered() {
        let (mut one, mut other) = (Latencies::default(), Latencies::default());
        for micros in 1..=1000 {
            let half = if micros % 2 == 0 { &mut one } else { &mut other };
            half.push(Duration::from_micros(micros));
        }
        one.merge(&other);
        for (part, expected) in [(0.5, 500.0), (0.99, 990.0), (1.0, 1000.0)] {
            let found = one.quantile_us(part);
            assert!((found / expected - 1.0).abs() < 0.04, "{found} for {expected}");
        }
        assert!(Latencies::default().quantile_us(0.5).is_nan());
    }
}
