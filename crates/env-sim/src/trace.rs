//! What happened, as one number: two runs of one seed must end with the same one.

use crate::clock::WorldTime;
use std::collections::VecDeque;

const FNV_PRIME: u64 = 0x0100_0000_01b3;
const FNV_BASE: u64 = 0xcbf2_9ce4_8422_2325;
/// Lines kept for whoever looks at a failure.
const LINES_MAX: usize = 200;

/// The running hash, and the last lines where they are wanted.
#[derive(Debug)]
pub struct Trace {
    hash: u64,
    verbose: bool,
    now: WorldTime,
    lines: VecDeque<String>,
}

impl Trace {
    pub(crate) fn new(verbose: bool) -> Self {
        Self { hash: FNV_BASE, verbose, now: WorldTime(0), lines: VecDeque::new() }
    }

    /// Lines from now on are of this time.
    pub(crate) fn at(&mut self, now: WorldTime) {
        self.now = now;
    }

    /// Takes numbers into the hash.
    pub fn mix(&mut self, numbers: &[u64]) {
        for number in numbers {
            for byte in number.to_le_bytes() {
                self.hash = (self.hash ^ u64::from(byte)).wrapping_mul(FNV_PRIME);
            }
        }
    }

    /// Keeps a line, made only where lines are wanted.
    pub fn line(&mut self, line: impl FnOnce() -> String) {
        if self.verbose {
            let line = format!("{:10.6} {}", self.now.seconds(), line());
            eprintln!("{line}");
            self.lines.push_back(line);
            if self.lines.len() > LINES_MAX {
                self.lines.pop_front();
            }
        }
    }

    /// The hash so far.
    #[must_use]
    pub fn hash(&self) -> u64 {
        self.hash
    }

    /// The last lines.
    pub fn lines(&self) -> impl Iterator<Item = &str> {
        self.lines.iter().map(String::as_str)
    }
}
