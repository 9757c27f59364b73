//! Settings, in order of force: flags, environment (`CAIRN_…`), a TOML file.
//!
//! ```toml
//! cell = "127.0.0.1:7400"      # clients
//! deadline = 30                # seconds
//! [master]
//! data = "/var/lib/cairn/master"
//! listen = "0.0.0.0:7400"
//! [new_cell]                   # read once, when a master founds its cell
//! replication = 3
//! [chunkserver]
//! data = ["/disk1/cairn", "/disk2/cairn"]
//! master = "m1:7400"
//! listen = "0.0.0.0:7401"
//! rack = "/dc1/r7"
//! [log]
//! level = "info"
//! format = "text"
//! rpclog_size = "256M"         # the diagnostic log of requests and replies; "none": without
//! ```
//! - S1: a setting that is not known is refused, with its name and line.
//! - S2: the file is read only where `--config` or `CAIRN_CONFIG` names it: no hidden settings.

use crate::cli_error::{Cause, CliError};
use crate::exit_codes::Exit;
use crate::limit_arguments::MemorySize;
use crate::log_form::{LogFormat, LogThreshold, RpcLogSize};
use cairn_chunkserver::ScrubSettings;
use cairn_types::CellConfig;
use serde::Deserialize;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};

/// Seconds that an operation may take unless said otherwise.
pub(crate) const DEADLINE_DEFAULT_S: u64 = 30;

/// Milliseconds of a day.
const DAY_MS: u64 = 24 * 3600 * 1000;

/// What a settings file may say.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub(crate) struct SettingsFile {
    /// For clients: the cell that is meant.
    pub(crate) cell: Option<String>,
    /// For clients: seconds that an operation may take.
    pub(crate) deadline: Option<u64>,
    /// For clients: where this machine stands; near replicas are read first.
    pub(crate) rack: Option<String>,
    /// For `cairn master`.
    pub(crate) master: MasterSection,
    /// For `cairn master` where it founds a cell.
    pub(crate) new_cell: NewCellSection,
    /// For `cairn chunkserver`.
    pub(crate) chunkserver: ChunkserverSection,
    /// For all servers.
    pub(crate) log: LogSection,
}

/// What servers write to stderr and to their diagnostic logs.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub(crate) struct LogSection {
    /// The least urgent level.
    pub(crate) level: Option<LogThreshold>,
    /// In which form.
    pub(crate) format: Option<LogFormat>,
    /// Room for the diagnostic log of requests and replies.
    pub(crate) rpclog_size: Option<RpcLogSize>,
}

/// Settings of one master.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub(crate) struct MasterSection {
    /// Its data directory.
    pub(crate) data: Option<PathBuf>,
    /// Where it listens.
    pub(crate) listen: Option<String>,
    /// How other masters reach it, where that is not where it listens.
    pub(crate) advertise: Option<String>,
    /// The masters that are to be a group, this one among them.
    pub(crate) peers: Option<String>,
    /// Where its HTTP door is, or "none".
    pub(crate) http: Option<String>,
    /// Memory that its peers may make it hold.
    memory: Option<MemorySize>,
    /// Open files and connections.
    descriptors: Option<usize>,
}

/// What a section says of a server's bounds.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct LimitSection {
    /// Memory that its peers may make it hold.
    pub(crate) memory: Option<MemorySize>,
    /// Open files and connections.
    pub(crate) descriptors: Option<usize>,
}

impl MasterSection {
    /// Its bounds.
    pub(crate) fn limits(&self) -> LimitSection {
        LimitSection { memory: self.memory, descriptors: self.descriptors }
    }
}

impl ChunkserverSection {
    /// Its bounds.
    pub(crate) fn limits(&self) -> LimitSection {
        LimitSection { memory: self.memory, descriptors: self.descriptors }
    }
}

/// Settings of one chunkserver.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub(crate) struct ChunkserverSection {
    /// Its data directories, one per disk.
    pub(crate) data: Vec<PathBuf>,
    /// The cell's master, or several.
    pub(crate) master: Option<String>,
    /// Where it listens.
    pub(crate) listen: Option<String>,
    /// How others reach it, where that is not where it listens.
    pub(crate) advertise: Option<String>,
    /// Where it stands.
    pub(crate) rack: Option<String>,
    /// Where its HTTP door is, or "none".
    pub(crate) http: Option<String>,
    /// Memory that its peers may make it hold.
    memory: Option<MemorySize>,
    /// Open files and connections.
    descriptors: Option<usize>,
    /// Days from the beginning of one round over all its blocks to the next.
    pub(crate) scrub_days: Option<u32>,
    /// Bytes a second that are verified; none at all where it is zero.
    pub(crate) scrub_rate: Option<u64>,
}

impl ChunkserverSection {
    /// How often its blocks are verified, and how fast.
    pub(crate) fn scrub(&self) -> ScrubSettings {
        let standard = ScrubSettings::default();
        let days = |days| u64::from(days) * DAY_MS;
        ScrubSettings {
            period_ms: self.scrub_days.map_or(standard.period_ms, days),
            rate: self.scrub_rate.unwrap_or(standard.rate),
        }
    }
}

macro_rules! new_cell {
    ($( $name:ident : $type:ty ),* $(,)?) => {
        /// What a new cell agrees on; names as in [`CellConfig`]. Kept by the master from then
        /// on, so that a later change in the file changes nothing.
        #[derive(Clone, Debug, Default, Deserialize)]
        #[serde(deny_unknown_fields, default)]
        pub(crate) struct NewCellSection { $( $name: Option<$type>, )* }

        impl NewCellSection {
            /// `base` with what the file says otherwise.
            pub(crate) fn apply(&self, base: CellConfig) -> CellConfig {
                CellConfig { $( $name: self.$name.unwrap_or(base.$name), )* }
            }
        }
    };
}

new_cell! {
    chunk_size: u64,
    block_size: u32,
    replication: u32,
    min_replicas: u32,
    lease_ms: u64,
    heartbeat_ms: u64,
    silent_ms: u64,
    dead_ms: u64,
    drift_permille: u64,
    location_ttl_ms: u64,
    retry_window_ms: u64,
    trash_ms: u64,
    keep_deleted_ms: u64,
    clone_rate: u64,
    clones_per_server: u32,
    clones_per_cell: u32,
    settle_rate: u64,
    settle_after_ms: u64,
    cursors_kept_ms: u64,
}

impl SettingsFile {
    /// Reads the file; none named is an empty one.
    ///
    /// # Errors
    /// Where it is not there, is no TOML, or holds a setting that is not known (S1).
    pub(crate) fn read(path: Option<&Path>) -> Result<Self, CliError> {
        let Some(path) = path else { return Ok(Self::default()) };
        let doing = || format!("reading settings from {}", path.display());
        let text = std::fs::read_to_string(path).map_err(|error| match error.kind() {
            ErrorKind::IsADirectory => {
                let why = "it is a directory";
                CliError::new(doing(), Cause::new(Exit::Local, why, "name a file of settings"))
            }
            _ => CliError::new(doing(), error),
        })?;
        Self::parse(&text).map_err(|cause| CliError::new(doing(), cause))
    }

    fn parse(text: &str) -> Result<Self, Cause> {
        toml::from_str(text).map_err(|error| {
            let line = error.span().map_or(1, |span| {
                text.as_bytes()[..span.start.min(text.len())].split(|b| *b == b'\n').count()
            });
            let why = error.message().replace('\n', ", ");
            Cause::new(Exit::Usage, format!("line {line}: {why}"), "correct the file")
        })
    }
}

#[cfg(test)]
mod tests {
    use super::SettingsFile;
    use cairn_chunkserver::ScrubSettings;
    use cairn_types::CellConfig;
    use std::path::Path;

    #[test]
    fn a_directory_is_no_file_of_settings() {
        let told = SettingsFile::read(Some(Path::new("/"))).map(drop).expect_err("it is none");
        assert!(told.to_string().contains("name a file of settings"), "{told}");
    }

    #[test]
    fn an_unknown_setting_is_refused_with_its_name_and_line() {
        let why = |text| SettingsFile::parse(text).map(|_| ()).map_err(|cause| cause.why);
        let refusal = why("cell = 'a'\n[new_cell]\nreplicas = 3\n").expect_err("unknown");
        assert!(refusal.starts_with("line 3: unknown field `replicas`"), "{refusal}");
        let refusal = why("[chunkservers]\n").expect_err("unknown");
        assert!(refusal.starts_with("line 1: unknown field `chunkservers`"), "{refusal}");
        assert!(why("cell = 7").is_err());
        assert_eq!(why(""), Ok(()));
    }

    #[test]
    fn the_example_that_comes_with_the_binary_holds_good_settings_of_every_section() {
        let file = SettingsFile::parse(include_str!("../../../packaging/cairn.toml"));
        let file = file.map_err(|cause| cause.why).expect("good settings");
        assert_eq!(file.chunkserver.data.len(), 2);
        assert!(file.cell.is_some() && file.master.peers.is_some() && file.log.level.is_some());
        assert_eq!(file.new_cell.apply(CellConfig::small()).replication, 3);
        assert_eq!(file.chunkserver.http.as_deref(), Some("127.0.0.1:8401"));
        assert_eq!(file.master.http.as_deref(), Some("127.0.0.1:8400"));
    }

    #[test]
    fn a_scrub_is_as_often_and_as_fast_as_the_file_says() {
        let scrub = |text| SettingsFile::parse(text).expect("good settings").chunkserver.scrub();
        assert_eq!(scrub(""), ScrubSettings::default());
        let told = scrub("[chunkserver]\nscrub_days = 2\nscrub_rate = 1000\n");
        assert_eq!(told, ScrubSettings { period_ms: 172_800_000, rate: 1000 });
    }

    #[test]
    fn settings_of_a_new_cell_replace_only_what_they_name() {
        let file = SettingsFile::parse("[new_cell]\nreplication = 2\nlease_ms = 4000\n");
        let config = file.expect("good settings").new_cell.apply(CellConfig::small());
        let expected = CellConfig { replication: 2, lease_ms: 4_000, ..CellConfig::small() };
        assert_eq!(config, expected);
    }
}
