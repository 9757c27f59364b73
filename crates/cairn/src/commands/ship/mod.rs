//! `cairn ship`: the lines of log files that grow and are rotated, each in a stream exactly once.
//!
//! ```text
//!   directory ──(listed five times a second)──► source table ──► open sources ──► producers
//!                                               which are new,    a piece of each     one for each
//!                                               renamed, gone     in its turn         file
//! ```
//! - SI1: a producer for each file; with each line its cursor is committed: which file, how far. So
//!   whatever is killed, shipping goes on behind the last line that is in the stream.
//! - SI2: a failure of the cell is told once and tried again, from what the stream has; it is over
//!   when something was committed. What can never go well ends the command.

mod failed_turns;
mod line_cutter;
mod log_directory;
mod open_source;
mod ship_run;
mod source_cursor;
mod source_table;
mod watched_directory;

use crate::cli_error::{Cause, CliError, Doing};
use crate::exit_codes::Exit;
use crate::interrupt::EndSignals;
use crate::output::{Output, size_text};
use crate::reading;
use crate::session::{RemotePath, Session};
use cairn_client::ProducerOptions;
use cairn_protocol::PRODUCER_NAME_SIZE_MAX;
use cairn_types::{Content, Layout};
use clap::Args;
use log_directory::{LogDirectory, NameFilter};
use open_source::ShipTarget;
use serde_json::json;
use ship_run::{ShipCount, ShipRun, say};
use std::io::{ErrorKind, IsTerminal, stderr};
use std::path::{Path, PathBuf};
use watched_directory::WatchedDirectory;

/// Bytes that all producers together may have under way.
const BUFFERS_SIZE_MAX: usize = 256 << 20;
/// The most digits of an inode, behind a producer's name, with what parts them.
const INODE_SIZE_MAX: usize = 21;

/// Arguments of `ship`.
#[derive(Args, Debug)]
#[command(after_help = "\
Each file has a producer of its own in the stream, NAME/INODE, and with each line goes how far the
file is shipped: started again, also after kill -9, it goes on behind the last line that is in the
stream. Files that are rotated by renaming are read to their end, and the new one followed.

  cairn create --layout stream /logs/app
  cairn ship /var/log/app /logs/app                    until ctrl-C
  cairn ship --once --include 'app.log*' /var/log/app /logs/app
  cairn producers /logs/app                            how far each file is")]
pub(crate) struct ShipArguments {
    /// Files of these names (*, ?, [a-z]); name rotated ones too: 'app.log*'. Compressed files and
    /// names that begin with a dot only where a pattern does so too [default: *]
    #[arg(long, value_name = "PATTERN")]
    include: Vec<String>,
    /// But not of these
    #[arg(long, value_name = "PATTERN")]
    exclude: Vec<String>,
    /// Ship what is there and end, instead of following until interrupted
    #[arg(long)]
    once: bool,
    /// What the producers' names begin with: another for each directory and machine, and always the
    /// same for one [default: this machine's name and the directory's path]
    #[arg(long, value_name = "NAME")]
    name: Option<String>,
    /// Files that are open at once; others wait until one is quiet
    #[arg(long, value_name = "COUNT", default_value_t = 128)]
    #[arg(value_parser = clap::value_parser!(u32).range(1..=10_000))]
    open_max: u32,
    /// Say which files are begun, renamed and finished
    #[arg(short, long)]
    verbose: bool,
    /// Say nothing at the end
    #[arg(short, long, conflicts_with = "verbose")]
    quiet: bool,
    /// The directory on this machine; of its subdirectories nothing is shipped
    directory: PathBuf,
    /// The stream in the cell
    path: String,
}

/// Runs it.
pub(crate) async fn run(
    ship: ShipArguments,
    session: &Session,
    output: &Output,
) -> Result<(), CliError> {
    let directory = checked_directory(&ship.directory)?;
    let name = ship.producers_name(&directory)?;
    let to = session.remote_path(&ship.path).await?;
    let open_max = usize::try_from(ship.open_max).unwrap_or(usize::MAX);
    let target = target(to, name, open_max).await?;
    let mut signals = EndSignals::listen().doing(|| "listening for signals".to_owned())?;
    if stderr().is_terminal() && !ship.once && !ship.quiet {
        let shown = ship.directory.display();
        say(&format!("shipping the files of {shown} to {}; ctrl-C ends it", target.to));
    }
    let include = if ship.include.is_empty() { vec!["*".to_owned()] } else { ship.include };
    let filter = NameFilter { include, exclude: ship.exclude };
    let directory = LogDirectory::new(directory, filter, open_max);
    let directory = WatchedDirectory::new(directory, ship.once);
    let hold_new = directory.hold_new();
    let mut run = ShipRun::new(directory, target, open_max, ship.once, ship.verbose);
    let ended = tokio::select! {
        ended = run.follow() => ended,
        never = hold_new => match never {},
        _ = signals.next() => Ok(()),
    };
    // A second signal does not wait for a cell that is silent.
    let closed = tokio::select! {
        closed = run.close_all(ended.is_ok()) => closed,
        number = signals.next() => {
            run.tell_all_unshipped();
            std::process::exit(128 + number)
        }
    };
    ended.and(closed)?;
    let to = run.target().to.to_string();
    let (count, failed) = run.into_count();
    tell_summary(&count, &ship.directory, &to, ship.quiet, output)?;
    failed.map_or(Ok(()), Err)
}

/// So many of them, as people say it.
fn counted(count: u64, what: &str) -> String {
    format!("{count} {what}{}", if count == 1 { "" } else { "s" })
}

fn tell_summary(
    count: &ShipCount,
    directory: &Path,
    to: &str,
    is_quiet: bool,
    output: &Output,
) -> Result<(), CliError> {
    let ShipCount { files, lines, bytes, finished, unfinished } = count;
    let value = json!({
        "directory": directory.display().to_string(),
        "path": to,
        "lines": lines,
        "bytes": bytes,
        "files": files.len(),
        "finished": finished,
        "unfinished": unfinished,
    });
    output.done(!is_quiet, &value, || {
        let (size, files) = (size_text(*bytes, true), counted(files.len() as u64, "file"));
        let mut line = format!("{to}: {} ({size}) of {files} shipped", counted(*lines, "line"));
        if *finished > 0 {
            let gone = counted(*finished, "file");
            line.push_str(&format!("; {gone} gone, and read to the end"));
        }
        for (name, size) in unfinished {
            let size = counted(*size as u64, "byte");
            line.push_str(&format!(
                "; {name}: its last line has no newline yet, and waits ({size})"
            ));
        }
        line
    })
}

/// The directory's own path, whatever way was named.
fn checked_directory(directory: &Path) -> Result<PathBuf, CliError> {
    let shown = directory.display();
    let doing = || format!("shipping the files of {shown}");
    let found = std::fs::canonicalize(directory).map_err(|error| {
        let is_missing = error.kind() == ErrorKind::NotFound;
        let mut cause = Cause::from(error);
        if is_missing {
            "no such directory on this machine".clone_into(&mut cause.why);
        }
        CliError::new(doing(), cause)
    })?;
    if !found.is_dir() {
        let parent = found.parent().unwrap_or(&found).display().to_string();
        let name = found.file_name().unwrap_or_default().to_string_lossy();
        let advice = format!("name its directory: --include '{name}*' {parent}");
        return Err(CliError::usage(doing(), "it is no directory", advice));
    }
    Ok(found)
}

async fn target(to: RemotePath, name: String, open_max: usize) -> Result<ShipTarget, CliError> {
    let doing = || format!("shipping to {to}");
    let create = format!("'cairn create --layout stream {to}' makes it");
    let opened = reading::open(&to).await;
    let file = opened.map_err(|error| error.advising(Exit::NotFound, &create))?;
    if file.entry().layout != Layout::Stream {
        let advice = "'cairn create --layout stream' makes one, under another name";
        return Err(CliError::usage(doing(), "it is no stream", advice));
    }
    let stream = to.cell.open_stream(&to.path).await.doing(doing)?;
    let buffer_size = (BUFFERS_SIZE_MAX / open_max).clamp(1 << 20, 16 << 20);
    let options = ProducerOptions { buffer_size, ..ProducerOptions::default() };
    let size_max = usize::try_from(to.cell.info().config.append_size_max()).unwrap_or(usize::MAX);
    // Of three bytes a record's frame may make four. A newline may come on top (`send_rest`).
    let line_size_max = (size_max.min(options.bundle_size) / 4 * 3).saturating_sub(256).max(1);
    let keeps_newline = file.entry().content != Content::Records;
    Ok(ShipTarget { to, stream, name, options, line_size_max, keeps_newline })
}

impl ShipArguments {
    fn producers_name(&self, directory: &Path) -> Result<String, CliError> {
        let doing = || "naming the producers".to_owned();
        let name = match &self.name {
            Some(name) => name.clone(),
            None => {
                let host = std::fs::read_to_string("/proc/sys/kernel/hostname").unwrap_or_default();
                format!("{}:{}", host.trim(), directory.display())
            }
        };
        let size_max = PRODUCER_NAME_SIZE_MAX - INODE_SIZE_MAX;
        if name.is_empty() || name.len() > size_max {
            let why = format!("{name:?} has {} bytes, and may have 1 to {size_max}", name.len());
            return Err(CliError::usage(doing(), why, "--name NAME chooses another"));
        }
        Ok(name)
    }
}
