//! How much servers write to stderr, and in which form.

use crate::limit_arguments::MemorySize;
use crate::stderr::say;
use cairn_env::{LogEvent, LogLevel};
use cairn_env_os::{LogSink, RPC_LOG_SIZE_MIN, RPC_LOG_SIZE_STANDARD, RpcLogOptions};
use cairn_types::WallTime;
use clap::ValueEnum;
use serde::{Deserialize, Deserializer};
use std::path::Path;
use std::str::FromStr;

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
    pub(crate) rpc_log: RpcLogSize,
}

/// Bytes of the diagnostic log of requests and replies that are kept; zero: none is written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct RpcLogSize(u64);

impl Default for RpcLogSize {
    fn default() -> Self {
        Self(RPC_LOG_SIZE_STANDARD)
    }
}

impl RpcLogSize {
    /// The log of the server with this data directory, where one is kept.
    pub(crate) fn within(self, data: &Path) -> Option<RpcLogOptions> {
        (self.0 > 0).then(|| RpcLogOptions::within(data, self.0))
    }
}

impl FromStr for RpcLogSize {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let size = if text == "none" { 0 } else { text.parse::<MemorySize>()?.bytes() };
        if size > 0 && size < RPC_LOG_SIZE_MIN {
            return Err("it takes 1M and more, or none".to_owned());
        }
        Ok(Self(size))
    }
}

impl<'de> Deserialize<'de> for RpcLogSize {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = String::deserialize(deserializer)?;
        text.parse().map_err(serde::de::Error::custom)
    }
}

impl LogSettings {
    /// Whether somebody looks for changes of state: where nobody does, no event of them is made.
    pub(crate) fn tells_debug(self) -> bool {
        self.threshold.level() == LogLevel::Debug
    }

    /// Writes events to stderr. A reader that has gone is no reason to stop.
    pub(crate) fn sink(self) -> LogSink {
        LogSink::new(self.threshold.level(), move |time, event| say(self.line(time, event)))
    }

    fn line(self, time: WallTime, event: &LogEvent) -> String {
        match self.format {
            LogFormat::Text => event.text_line(time),
            LogFormat::Json => event.json_line(time),
        }
    }
}
