//! Opening logs that a person names, and telling of times and gaps in them.

use crate::cli_error::{Cause, CliError, Doing, warn};
use crate::exit_codes::Exit;
use cairn_rpclog::{FormatError, ReadError, ServerLife};
use cairn_types::WallTime;
use std::path::PathBuf;

impl From<ReadError> for Cause {
    fn from(error: ReadError) -> Self {
        let exit = match &error {
            ReadError::NoLog(_) | ReadError::Unreadable { .. } => Exit::Local,
            ReadError::Strange { error: FormatError::Version { .. }, .. } => Exit::Stranger,
            ReadError::Strange { .. } => Exit::Damaged,
        };
        let advice = error.advice();
        Self::new(exit, error.to_string(), advice)
    }
}

pub(super) fn reading() -> String {
    "reading the diagnostic log".to_owned()
}

pub(super) fn open(paths: &[PathBuf]) -> Result<Vec<ServerLife>, CliError> {
    cairn_rpclog::open(paths).doing(reading)
}

/// Says where what is told is not all.
pub(super) fn warn_of_gaps(dropped: u64, damaged: u64) {
    if dropped > 0 {
        warn(&format!(
            "{dropped} entries are missing: servers dropped them, because they came faster than \
             they could be written"
        ));
    }
    if damaged > 0 {
        warn(&format!("{damaged} parts of the log are damaged and were passed over"));
    }
}

/// A time with its microseconds.
pub(super) fn time_text(at_us: u64) -> String {
    let text = WallTime::from_millis(at_us / 1000).to_string();
    let whole = text.trim_end_matches('Z');
    format!("{whole}{:03}Z", at_us % 1000)
}

/// Microseconds as people read them.
pub(super) fn micros_text(micros: u64) -> String {
    match micros {
        0..10_000 => format!("{micros} us"),
        10_000..10_000_000 => format!("{} ms", micros / 1000),
        _ => format!("{} s", micros / 1_000_000),
    }
}

#[cfg(test)]
mod tests {
    use super::{micros_text, time_text};

    #[test]
    fn times_are_told_to_the_microsecond() {
        assert_eq!(time_text(1_000_123), "1970-01-01T00:00:01.000123Z");
        let texts = [999, 12_345, 12_345_678].map(micros_text);
        assert_eq!(texts, ["999 us", "12 ms", "12 s"]);
    }
}
