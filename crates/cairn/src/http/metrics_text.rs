//! Metrics as Prometheus reads them: its text format, version 0.0.4.
//!
//! ```text
//!   # HELP cairn_requests_total Requests that were answered.
//!   # TYPE cairn_requests_total counter
//!   cairn_requests_total{rpc="Read",outcome="done"} 17
//! ```
//! - MT1: the samples of one metric stand together, below its one HELP and one TYPE line.
//! - MT2: what a label says is escaped; whatever bytes a path has, it begins no line of its own.

use cairn_env::{LATENCY_BUCKETS, LatencyCounts};
use std::collections::BTreeMap;
use std::fmt::Write;

/// What a metric is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum MetricKind {
    /// It only grows, until its server starts anew.
    Counter,
    /// It goes up and down.
    Gauge,
    /// How long things took.
    Histogram,
}

impl MetricKind {
    fn word(self) -> &'static str {
        match self {
            Self::Counter => "counter",
            Self::Gauge => "gauge",
            Self::Histogram => "histogram",
        }
    }
}

/// Labels of a sample: names, and what they say.
pub(crate) type Labels<'a> = &'a [(&'a str, &'a str)];

#[derive(Debug)]
struct Family {
    kind: MetricKind,
    help: &'static str,
    samples: String,
}

/// Metrics as they are gathered.
#[derive(Debug, Default)]
pub(crate) struct MetricsText {
    families: BTreeMap<&'static str, Family>,
    /// What every sample is labelled with from now on.
    common: Vec<(String, String)>,
}

impl MetricsText {
    /// From now on every sample has this label too, or none.
    pub(crate) fn label_all(&mut self, label: Option<(&str, &str)>) {
        let owned = label.map(|(name, says)| (name.to_owned(), says.to_owned()));
        self.common = owned.into_iter().collect();
    }

    /// A number that only grows.
    pub(crate) fn counter(
        &mut self,
        name: &'static str,
        help: &'static str,
        labels: Labels<'_>,
        value: u64,
    ) {
        assert!(name.ends_with("_total"), "{name}: so are counters called");
        self.sample((name, MetricKind::Counter, help), "", labels, value as f64);
    }

    /// A number that goes up and down.
    pub(crate) fn gauge(
        &mut self,
        name: &'static str,
        help: &'static str,
        labels: Labels<'_>,
        value: impl Into<f64>,
    ) {
        self.sample((name, MetricKind::Gauge, help), "", labels, value.into());
    }

    /// A whole number that goes up and down.
    pub(crate) fn count(
        &mut self,
        name: &'static str,
        help: &'static str,
        labels: Labels<'_>,
        value: u64,
    ) {
        self.gauge(name, help, labels, value as f64);
    }

    /// How long things took.
    pub(crate) fn histogram(
        &mut self,
        name: &'static str,
        help: &'static str,
        labels: Labels<'_>,
        took: &LatencyCounts,
    ) {
        let family = (name, MetricKind::Histogram, help);
        let mut below = 0;
        for (index, count) in took.counts.iter().enumerate() {
            below += count;
            let end = LATENCY_BUCKETS.get(index);
            let end = end.map_or("+Inf".to_owned(), |micros| (*micros as f64 / 1e6).to_string());
            let labels: Vec<_> = labels.iter().copied().chain([("le", end.as_str())]).collect();
            self.sample(family, "_bucket", &labels, below as f64);
        }
        self.sample(family, "_sum", labels, took.sum_nanos as f64 / 1e9);
        self.sample(family, "_count", labels, below as f64);
    }

    fn sample(
        &mut self,
        (name, kind, help): (&'static str, MetricKind, &'static str),
        end: &str,
        labels: Labels<'_>,
        value: f64,
    ) {
        let fresh = || Family { kind, help, samples: String::new() };
        let family = self.families.entry(name).or_insert_with(fresh);
        assert_eq!((family.kind, family.help), (kind, help), "{name} is one metric");
        let common = self.common.iter().map(|(name, says)| (name.as_str(), says.as_str()));
        let all: Vec<String> = common
            .chain(labels.iter().copied())
            .map(|(name, says)| format!("{name}=\"{}\"", escaped(says)))
            .collect();
        let shown = if all.is_empty() { String::new() } else { format!("{{{}}}", all.join(",")) };
        let _ = writeln!(family.samples, "{name}{end}{shown} {value}");
    }

    /// All of it (MT1).
    pub(crate) fn text(&self) -> String {
        let mut text = String::new();
        for (name, family) in &self.families {
            let _ = write!(
                text,
                "# HELP {name} {}\n# TYPE {name} {}\n{}",
                family.help,
                family.kind.word(),
                family.samples
            );
        }
        text
    }
}

/// MT2.
fn escaped(says: &str) -> String {
    says.replace('\\', "\\\\").replace('"', "\\\"").replace('\n', "\\n")
}

#[cfg(test)]
mod tests {
    use super::MetricsText;
    use cairn_env::LatencyMeter;
    use std::time::Duration;

    #[test]
    fn samples_stand_together_and_labels_break_out_of_nothing() {
        let mut text = MetricsText::default();
        text.counter("cairn_a_total", "A.", &[("path", "/a\"b\\c\nd")], 1);
        text.count("cairn_b", "B.", &[], 1 << 40);
        text.label_all(Some(("server", "x:1")));
        text.counter("cairn_a_total", "A.", &[("path", "/")], 2);
        assert_eq!(
            text.text(),
            "# HELP cairn_a_total A.\n# TYPE cairn_a_total counter\n\
             cairn_a_total{path=\"/a\\\"b\\\\c\\nd\"} 1\n\
             cairn_a_total{server=\"x:1\",path=\"/\"} 2\n\
             # HELP cairn_b B.\n# TYPE cairn_b gauge\ncairn_b 1099511627776\n"
        );
    }

    #[test]
    fn buckets_of_a_histogram_count_all_that_took_less_and_the_last_counts_all() {
        let (mut text, took) = (MetricsText::default(), LatencyMeter::default());
        for micros in [50, 400, 700, 99_000_000] {
            took.note(Duration::from_micros(micros));
        }
        text.histogram("cairn_d_seconds", "D.", &[("rpc", "Read")], &took.told());
        let text = text.text();
        for line in [
            "cairn_d_seconds_bucket{rpc=\"Read\",le=\"0.0001\"} 1",
            "cairn_d_seconds_bucket{rpc=\"Read\",le=\"0.0005\"} 2",
            "cairn_d_seconds_bucket{rpc=\"Read\",le=\"10\"} 3",
            "cairn_d_seconds_bucket{rpc=\"Read\",le=\"+Inf\"} 4",
            "cairn_d_seconds_sum{rpc=\"Read\"} 99.00115",
            "cairn_d_seconds_count{rpc=\"Read\"} 4",
        ] {
            assert!(text.lines().any(|it| it == line), "{line}: {text}");
        }
    }
}
