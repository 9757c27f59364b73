//! How far long work has come: a bar with rate and time left on a terminal, a plain line every
//! few seconds elsewhere. Always on stderr; short work says nothing.

use crate::output::{size_text, span_text};
use crate::stderr::say;
use cairn_transfer::Progress;
use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};
use std::io::IsTerminal;
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

const PLAIN_LINE_EVERY: Duration = Duration::from_secs(10);

/// What is counted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum ProgressUnit {
    Bytes,
    Chunks,
}

impl ProgressUnit {
    fn text(self, count: u64) -> String {
        match self {
            Self::Bytes => size_text(count, true),
            Self::Chunks => format!("{count} chunks"),
        }
    }

    fn template(self, has_total: bool) -> &'static str {
        match (self, has_total) {
            (Self::Bytes, true) => {
                "{msg} {bar:30} {binary_bytes}/{binary_total_bytes} {binary_bytes_per_sec} \
                 {eta} left"
            }
            (Self::Bytes, false) => "{msg} {spinner} {binary_bytes} {binary_bytes_per_sec}",
            (Self::Chunks, true) => "{msg} {bar:30} {pos}/{len} chunks {per_sec} {eta} left",
            (Self::Chunks, false) => "{msg} {spinner} {pos} chunks {per_sec}",
        }
    }
}

/// How far work is, for a person: `1.2G of 4G, 100M a second, 29s left`.
fn plain_text(unit: ProgressUnit, done: u64, total: Option<u64>, spent: Duration) -> String {
    let known = total.filter(|total| *total > 0);
    let of = known.map_or(String::new(), |total| format!(" of {}", unit.text(total)));
    let rate = u128::from(done) * 1000 / spent.as_millis().max(1);
    let rate = u64::try_from(rate).unwrap_or(u64::MAX);
    let left =
        known.and_then(|total| total.saturating_sub(done).checked_mul(1000)?.checked_div(rate));
    let left = left.map_or(String::new(), |left| format!(", {} left", span_text(left)));
    format!("{}{of}, {} a second{left}", unit.text(done), unit.text(rate))
}

/// Counts bytes or chunks of one command's work; shared by what runs side by side.
#[derive(Debug)]
pub(crate) struct WorkProgress {
    label: &'static str,
    unit: ProgressUnit,
    bar: ProgressBar,
    plain: Mutex<PlainLines>,
    /// No plain lines: the bar says it, or nobody is to be told.
    silent: bool,
}

#[derive(Debug)]
struct PlainLines {
    started: Instant,
    told: Instant,
}

impl WorkProgress {
    /// `total` is none where it is not known how much will come.
    pub(crate) fn new(label: &'static str, total: Option<u64>) -> Self {
        Self::on(std::io::stderr().is_terminal(), label, (ProgressUnit::Bytes, total))
    }

    /// The same, of chunks.
    pub(crate) fn of_chunks(label: &'static str, total: Option<u64>) -> Self {
        Self::on(std::io::stderr().is_terminal(), label, (ProgressUnit::Chunks, total))
    }

    fn on(terminal: bool, label: &'static str, (unit, total): (ProgressUnit, Option<u64>)) -> Self {
        let target =
            if terminal { ProgressDrawTarget::stderr() } else { ProgressDrawTarget::hidden() };
        let bar = ProgressBar::with_draw_target(total, target);
        if let Ok(style) = ProgressStyle::with_template(unit.template(total.is_some())) {
            bar.set_style(style);
        }
        bar.set_message(label);
        let now = Instant::now();
        Self {
            label,
            unit,
            bar,
            plain: Mutex::new(PlainLines { started: now, told: now }),
            silent: terminal,
        }
    }

    /// Takes the bar away.
    pub(crate) fn finish(&self) {
        self.bar.finish_and_clear();
    }
}

impl Progress for WorkProgress {
    fn add(&self, bytes: u64) {
        self.bar.inc(bytes);
        if self.silent {
            return;
        }
        let mut plain = self.plain.lock().unwrap_or_else(PoisonError::into_inner);
        if plain.told.elapsed() >= PLAIN_LINE_EVERY {
            plain.told = Instant::now();
            let (done, total) = (self.bar.position(), self.bar.length());
            let text = plain_text(self.unit, done, total, plain.started.elapsed());
            say(format_args!("{}: {text}", self.label));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::{ProgressUnit, plain_text};
    use std::time::Duration;

    #[test]
    fn a_plain_line_says_how_far_it_is_how_fast_and_how_long_the_rest_takes() {
        let bytes =
            |done, total| plain_text(ProgressUnit::Bytes, done, total, Duration::from_secs(10));
        assert_eq!(bytes(10 << 20, Some(40 << 20)), "10M of 40M, 1.0M a second, 30s left");
        assert_eq!(bytes(10 << 20, None), "10M, 1.0M a second");
        assert_eq!(bytes(0, Some(40 << 20)), "0 of 40M, 0 a second");
        let chunks = plain_text(ProgressUnit::Chunks, 500, Some(2000), Duration::from_secs(5));
        assert_eq!(chunks, "500 chunks of 2000 chunks, 100 chunks a second, 15s left");
    }
}
