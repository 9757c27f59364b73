//! How long operations took: a count for each span, a thirty-second of an octave wide, so that
//! millions of them are a few numbers that processes can hand on.

use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::time::Duration;

/// Bits of a span that count, besides its highest: each span is 3.1 % or less longer than the one
/// before.
const BITS: u32 = 5;

/// Counts of spans.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Latencies(BTreeMap<u32, u64>);

impl Latencies {
    pub(crate) fn push(&mut self, span: Duration) {
        let nanos = u64::try_from(span.as_nanos()).unwrap_or(u64::MAX) | 1 << BITS;
        let octave = nanos.ilog2();
        let within = (nanos >> (octave - BITS)) as u32 - (1 << BITS);
        let bucket = octave << BITS | within;
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
                let (octave, within) = (bucket >> BITS, bucket & ((1 << BITS) - 1));
                let middle = (f64::from(within) + 0.5) / f64::from(1 << BITS);
                return f64::from(octave).exp2() * (1.0 + middle) / 1e3;
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
