//! What a soak says while it runs.

use std::fmt::Display;
use std::time::Instant;

/// Tells line by line, with the time since the start.
#[derive(Debug)]
pub(crate) struct Teller {
    started: Instant,
}

impl Teller {
    /// From now on.
    pub(crate) fn start() -> Self {
        Self { started: Instant::now() }
    }

    /// One line.
    pub(crate) fn say(&self, line: impl Display) {
        println!("[{:6.1} s] {line}", self.started.elapsed().as_secs_f64());
    }
}
