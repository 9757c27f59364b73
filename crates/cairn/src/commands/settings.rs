//! `cairn settings`: what the servers of a cell agree on, and changing what may be changed while
//! it runs.

use crate::cli_error::{CliError, Doing};
use crate::limit_arguments::MemorySize;
use crate::output::{Output, Table, size_text};
use crate::session::Session;
use cairn_client::{CellConfig, ChangeSettings};
use clap::Args;
use serde_json::{Map, Value};

/// Arguments of `settings`.
#[derive(Args, Debug)]
pub(crate) struct SettingsArguments {
    /// Change one: clone_rate=16M, clones_per_server=4, clones_per_cell=1024,
    /// settle_rate=8M (0: streams are not settled), settle_after_ms=600000,
    /// cursors_kept_ms=2592000000
    #[arg(value_name = "NAME=VALUE")]
    changes: Vec<String>,
}

/// A setting: its name, its value, what it is for.
type Row = (&'static str, u64, &'static str);

/// All of them; those that can be changed are the last.
fn rows(config: &CellConfig) -> [Row; 19] {
    [
        ("chunk_size", config.chunk_size, "bytes of a full chunk"),
        ("block_size", config.block_size.into(), "bytes under one checksum"),
        ("replication", config.replication.into(), "replicas of a new file"),
        ("min_replicas", config.min_replicas.into(), "replicas that a chunk may be made with"),
        ("lease_ms", config.lease_ms, "how long a lease lasts"),
        ("heartbeat_ms", config.heartbeat_ms, "how often a chunkserver reports"),
        ("silent_ms", config.silent_ms, "silence after which a server is avoided"),
        ("dead_ms", config.dead_ms, "silence after which a server counts as dead"),
        ("drift_permille", config.drift_permille, "by how much two clocks may run apart"),
        ("location_ttl_ms", config.location_ttl_ms, "how long clients may keep locations"),
        ("retry_window_ms", config.retry_window_ms, "how long a repeated change is recognised"),
        ("trash_ms", config.trash_ms, "how long a server keeps what was thrown away"),
        ("keep_deleted_ms", config.keep_deleted_ms, "how long what was removed is kept"),
        (CHANGEABLE[0], config.clone_rate, "bytes a second that a server takes for all its clones"),
        (CHANGEABLE[1], config.clones_per_server.into(), "clones that a server takes, and gives"),
        (CHANGEABLE[2], config.clones_per_cell.into(), "clones of the cell at once"),
        (
            CHANGEABLE[3],
            config.settle_rate,
            "bytes a second that a server copies to settle streams",
        ),
        (
            CHANGEABLE[4],
            config.settle_after_ms,
            "how long a stream is quiet before its end is, too",
        ),
        (
            CHANGEABLE[5],
            config.cursors_kept_ms,
            "how long after its last record a producer's cursor is kept",
        ),
    ]
}

const CHANGEABLE: [&str; 6] = [
    "clone_rate",
    "clones_per_server",
    "clones_per_cell",
    "settle_rate",
    "settle_after_ms",
    "cursors_kept_ms",
];

/// What is to be changed.
fn parse(changes: &[String]) -> Result<ChangeSettings, CliError> {
    let mut all = ChangeSettings::default();
    for text in changes {
        let refuse = |why: &str, advice: &str| {
            Err(CliError::usage(format!("changing {text}"), why.to_owned(), advice.to_owned()))
        };
        let Some((name, value)) = text.split_once('=') else {
            return refuse("it is not NAME=VALUE", "such as clone_rate=16M");
        };
        let count = || value.parse::<u32>().ok();
        let known = match name {
            "clone_rate" => {
                all.clone_rate = value.parse::<MemorySize>().ok().map(MemorySize::bytes);
                all.clone_rate.is_some()
            }
            "clones_per_server" => {
                all.clones_per_server = count();
                all.clones_per_server.is_some()
            }
            "clones_per_cell" => {
                all.clones_per_cell = count();
                all.clones_per_cell.is_some()
            }
            "settle_rate" => {
                all.settle_rate = value.parse::<MemorySize>().ok().map(MemorySize::bytes);
                all.settle_rate.is_some()
            }
            "settle_after_ms" => {
                all.settle_after_ms = value.parse().ok();
                all.settle_after_ms.is_some()
            }
            "cursors_kept_ms" => {
                all.cursors_kept_ms = value.parse().ok();
                all.cursors_kept_ms.is_some()
            }
            _ if rows(&CellConfig::default()).iter().any(|row| row.0 == name) => {
                let advice = format!("these can be changed: {}", CHANGEABLE.join(", "));
                return refuse("it is decided when a cell is founded", &advice);
            }
            _ => return refuse("there is no such setting", "'cairn settings' lists them"),
        };
        if !known {
            return refuse("its value is no number", "such as clone_rate=16M");
        }
    }
    Ok(all)
}

/// Runs it.
pub(crate) async fn run(
    settings: SettingsArguments,
    session: &Session,
    output: &Output,
) -> Result<(), CliError> {
    let change = parse(&settings.changes)?;
    let cell = session.cell().await?;
    let config = if settings.changes.is_empty() {
        let doing = || format!("asking the cell at {} for its settings", session.address());
        cell.settings().await.doing(doing)?
    } else {
        let doing = || format!("changing settings of the cell at {}", session.address());
        cell.change_settings(change).await.doing(doing)?
    };
    print(&config, output)
}

fn print(config: &CellConfig, output: &Output) -> Result<(), CliError> {
    if output.json() {
        let each = rows(config).map(|(name, value, _)| (name.to_owned(), Value::from(value)));
        return output.value(&Value::Object(Map::from_iter(each)));
    }
    let mut table = Table::new(&[false, true, false]);
    for (name, value, about) in rows(config) {
        let is_rate = [CHANGEABLE[0], CHANGEABLE[3]].contains(&name);
        let text = match value {
            0 if name == CHANGEABLE[3] => "off".to_owned(),
            0 if is_rate => "no limit".to_owned(),
            value if is_rate => size_text(value, true),
            value => value.to_string(),
        };
        let can = if CHANGEABLE.contains(&name) { " (can be changed)" } else { "" };
        table.row([name.to_owned(), text, format!("{about}{can}")]);
    }
    table.lines().iter().try_for_each(|line| output.line(line))
}

#[cfg(test)]
mod tests {
    use super::{parse, rows};
    use cairn_client::{CellConfig, ChangeSettings};
    use cairn_types::wire::Message;

    #[test]
    fn changes_are_read_and_what_cannot_be_changed_is_refused_with_its_reason() {
        let of = |words: &[&str]| {
            let words: Vec<String> = words.iter().map(|word| (*word).to_owned()).collect();
            parse(&words).map_err(|error| error.to_string())
        };
        let expected = ChangeSettings {
            clone_rate: Some(16 << 20),
            clones_per_server: Some(4),
            ..ChangeSettings::default()
        };
        assert_eq!(of(&["clone_rate=16M", "clones_per_server=4"]), Ok(expected));
        let settles = ChangeSettings {
            settle_rate: Some(1 << 20),
            settle_after_ms: Some(500),
            ..ChangeSettings::default()
        };
        assert_eq!(of(&["settle_rate=1M", "settle_after_ms=500"]), Ok(settles));
        let kept = of(&["cursors_kept_ms=86400000"]).map(|it| it.cursors_kept_ms);
        assert_eq!(kept, Ok(Some(86_400_000)));
        assert_eq!(of(&["clone_rate=0"]).map(|it| it.clone_rate), Ok(Some(0)));
        for (words, why) in [
            ("lease_ms=5", "founded"),
            ("speed=5", "no such setting"),
            ("clone_rate", "NAME=VALUE"),
            ("clones_per_cell=many", "no number"),
        ] {
            let told = of(&[words]).expect_err(words);
            assert!(told.contains(why), "{told}");
        }
    }

    #[test]
    fn every_setting_of_a_cell_is_shown() {
        let shown: Vec<String> = rows(&CellConfig::standard()).map(|row| row.0.to_owned()).into();
        let proto = CellConfig::proto_text();
        for name in &shown {
            assert!(proto.contains(&format!(" {name} = ")), "{name}");
        }
        assert_eq!(proto.matches(" = ").count(), shown.len());
    }
}
