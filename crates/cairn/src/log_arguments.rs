//! What is said on the command line about the events that a server tells.

use crate::cli_error::tell_programs;
use crate::log_form::{LogFormat, LogSettings, LogThreshold};
use crate::settings::SettingsFile;
use clap::Args;

/// Arguments of every command that runs servers for long.
#[derive(Args, Clone, Copy, Debug)]
pub(crate) struct LogArguments {
    /// Write events of this level and the more urgent ones to stderr [default: info]
    #[arg(long, value_enum, env = "CAIRN_LOG", value_name = "LEVEL", hide_possible_values = true)]
    log: Option<LogThreshold>,
    /// As lines of text or of json [default: text]
    #[arg(long, value_enum, env = "CAIRN_LOG_FORMAT", value_name = "FORMAT")]
    #[arg(hide_possible_values = true)]
    log_format: Option<LogFormat>,
}

impl LogArguments {
    /// Flags and environment before the settings file, before what is built in. With JSON, failures
    /// of this process are told so too: whoever reads its stderr is a program.
    pub(crate) fn settings(self, file: &SettingsFile) -> LogSettings {
        let threshold = self.log.or(file.log.level).unwrap_or_default();
        let format = self.log_format.or(file.log.format).unwrap_or_default();
        if format == LogFormat::Json {
            tell_programs();
        }
        LogSettings { threshold, format }
    }
}
