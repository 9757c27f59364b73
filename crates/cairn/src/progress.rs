//! How far long work has come: a bar with rate and time left on a terminal, a plain line every
//! few seconds elsewhere. Always on stderr; short work says nothing.

use crate::output::size_text;
use cairn_transfer::Progress;
use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};
use std::io::IsTerminal;
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

const PLAIN_LINE_EVERY: Duration = Duration::from_secs(10);

/// Counts bytes of one command's work; shared by what runs side by side.
#[derive(Debug)]
pub(crate) struct WorkProgress {
    label: &'static str,
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
        Self::on(std::io::stderr().is_terminal(), label, total)
    }

    fn on(terminal: bool, label: &'static str, total: Option<u64>) -> Self {
        let target =
            if terminal { ProgressDrawTarget::stderr() } else { ProgressDrawTarget::hidden() };
        let bar = ProgressBar::with_draw_target(total, target);
        let template = if total.is_some() {
            "{msg} {bar:30} {binary_bytes}/{binary_total_bytes} {binary_bytes_per_sec} {eta} left"
        } else {
            "{msg} {spinner} {binary_bytes} {binary_bytes_per_sec}"
        };
        if let Ok(style) = ProgressStyle::with_template(template) {
            bar.set_style(style);
        }
        bar.set_message(label);
        let now = Instant::now();
        Self {
            label,
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
            let done = self.bar.position();
            let of = self.bar.length().filter(|total| *total > 0);
            let of = of.map_or(String::new(), |total| format!(" of {}", size_text(total, true)));
            let rate = done as f64 / plain.started.elapsed().as_secs_f64();
            let rate = size_text(rate as u64, true);
            eprintln!("{}: {}{of}, {rate} a second", self.label, size_text(done, true));
        }
    }
}
