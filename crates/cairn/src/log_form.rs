//! How much servers write to stderr, and in which form.

use cairn_env::{LogEvent, LogLevel};
use cairn_env_os::LogSink;
use cairn_types::WallTime;
use clap::ValueEnum;
use serde::Deserialize;
use std::io::Write;

/// The least urgent level that is written.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum LogThreshold {
    /// Somebody has to act
    Error,
    /// Something is wrong, and the cell copes with it
    Warn,
    /// What changes the state of the server or the cell
    #[default]
    Info,
    /// For whoever looks for a reason
    Debug,
}

/// In which form events are written.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum LogFormat {
    /// Lines for people
    #[default]
    Text,
    /// One JSON object a line
    Json,
}

impl LogThreshold {
    fn level(self) -> LogLevel {
        match self {
            Self::Error => LogLevel::Error,
            Self::Warn => LogLevel::Warn,
            Self::Info => LogLevel::Info,
            Self::Debug => LogLevel::Debug,
        }
    }
}

/// Both.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct LogSettings {
    pub(crate) threshold: LogThreshold,
    pub(crate) format: LogFormat,
}

impl LogSettings {
    /// Writes events to stderr. A reader that has gone is no reason to stop.
    pub(crate) fn sink(self) -> LogSink {
        LogSink::new(self.threshold.level(), move |time, event| {
            let _ = writeln!(std::io::stderr(), "{}", self.line(time, event));
        })
    }

    fn line(self, time: WallTime, event: &LogEvent) -> String {
        match self.format {
            LogFormat::Text => event.text_line(time),
            LogFormat::Json => event.json_line(time),
        }
    }
}
