//! What is said on the command line about the events that a server tells.

use crate::cli_error::tell_programs;
use crate::log_form::{LogFormat, LogSettings, LogThreshold, RpcLogSize};
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
    /// Room for the diagnostic log of requests and replies, in the data directory; none: do
    /// without [default: 256M]
    #[arg(long, env = "CAIRN_RPCLOG_SIZE", value_name = "SIZE")]
    rpclog_size: Option<RpcLogSize>,
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
        let rpc_log = self.rpclog_size.or(file.log.rpclog_size).unwrap_or_default();
        LogSettings { threshold, format, rpc_log }
    }
}
