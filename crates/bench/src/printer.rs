//! What a bench says on stdout: lines for people, or one JSON value a line.

use crate::error::{BenchError, Doing};
use serde::Serialize;
use std::io::Write;

/// Where figures go.
#[derive(Debug)]
pub(crate) struct Printer {
    json: bool,
}

impl Printer {
    /// Stdout.
    pub(crate) fn stdout(json: bool) -> Self {
        Self { json }
    }

    /// Whether a program reads it.
    pub(crate) fn json(&self) -> bool {
        self.json
    }

    /// One line, at once.
    pub(crate) fn line(&self, text: &str) -> Result<(), BenchError> {
        let mut stdout = std::io::stdout().lock();
        writeln!(stdout, "{text}").and_then(|()| stdout.flush()).doing(doing)
    }

    /// One JSON value on a line of its own, at once.
    pub(crate) fn value(&self, value: &impl Serialize) -> Result<(), BenchError> {
        let text = serde_json::to_string(value).map_err(std::io::Error::from).doing(doing)?;
        self.line(&text)
    }
}

fn doing() -> String {
    "writing the output".to_owned()
}
