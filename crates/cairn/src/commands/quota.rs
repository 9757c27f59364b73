//! `cairn quota`: how many names and bytes may lie below a directory, and how many do.

use crate::cli_error::{CliError, Doing, Tally};
use crate::limit_arguments::MemorySize;
use crate::many_paths::places;
use crate::output::{Output, Table, size_text};
use crate::session::{RemotePath, Session};
use cairn_client::QuotaChange;
use cairn_protocol::{GetQuotaAnswer, QuotaUse};
use clap::{Args, Subcommand};
use serde_json::{Value, json};

/// Arguments of `quota`.
#[derive(Args, Debug)]
#[command(args_conflicts_with_subcommands = true, subcommand_negates_reqs = true)]
pub(crate) struct QuotaArguments {
    #[command(subcommand)]
    change: Option<QuotaVerb>,
    /// Sizes for people
    #[arg(short = 'h', long = "human-readable")]
    human: bool,
    /// Directories
    #[arg(required = true)]
    paths: Vec<String>,
}

/// What is done with a quota.
#[derive(Debug, Subcommand)]
enum QuotaVerb {
    /// Limit what may lie below a directory; what is there stays
    Set {
        /// Files and directories below it
        #[arg(long, value_name = "COUNT")]
        names: Option<u64>,
        /// Bytes in files below it: 4096, 500M, 10G, 2T; what is being written counts in chunks
        #[arg(long, value_name = "SIZE")]
        bytes: Option<MemorySize>,
        /// Say what was changed
        #[arg(short, long)]
        verbose: bool,
        /// Directories
        #[arg(required = true)]
        paths: Vec<String>,
    },
    /// Limit it no more
    Clear {
        /// Say what was changed
        #[arg(short, long)]
        verbose: bool,
        /// Directories
        #[arg(required = true)]
        paths: Vec<String>,
    },
}

/// Runs it.
pub(crate) async fn run(
    quota: QuotaArguments,
    session: &Session,
    output: &Output,
) -> Result<(), CliError> {
    let (paths, change, verbose) = match quota.change {
        None => (quota.paths, None, false),
        Some(QuotaVerb::Set { names: None, bytes: None, .. }) => {
            let why = "no limit is named: neither --names nor --bytes";
            let advice = "write 'cairn quota set --names COUNT --bytes SIZE PATH', or one of both";
            return Err(CliError::usage("reading the command line", why, advice));
        }
        Some(QuotaVerb::Set { names, bytes, verbose, paths }) => {
            let bytes = bytes.map(MemorySize::bytes);
            (paths, Some(QuotaChange { names, bytes, clears: false }), verbose)
        }
        Some(QuotaVerb::Clear { verbose, paths }) => {
            (paths, Some(QuotaChange { clears: true, ..QuotaChange::default() }), verbose)
        }
    };
    let mut tally = Tally::default();
    for (index, place) in places(session, &paths).await.into_iter().enumerate() {
        let done = match (place, change) {
            (Ok(place), Some(change)) => set(&place, change, verbose, output).await,
            (Ok(place), None) => show(&place, (quota.human, index > 0), output).await,
            (Err(complaint), _) => Err(complaint),
        };
        tally.note(done)?;
    }
    tally.finish()
}

async fn set(
    place: &RemotePath,
    change: QuotaChange,
    verbose: bool,
    output: &Output,
) -> Result<(), CliError> {
    let doing = || format!("changing the quota of {place}");
    place.cell.set_quota(&place.path, change).await.doing(doing)?;
    let value = json!({ "path": place.path.as_str() });
    output.done(verbose, &value, || format!("{place}: changed"))
}

async fn show(
    place: &RemotePath,
    (human, further): (bool, bool),
    output: &Output,
) -> Result<(), CliError> {
    let doing = || format!("asking for the quota of {place}");
    let answer = place.cell.quota(&place.path).await.doing(doing)?;
    if output.json() {
        return output.value(&value(place, &answer));
    }
    if further {
        output.line("")?;
    }
    output.line(&output.name(&format!("{place}:")))?;
    let lines = lines(place.path.as_str(), &answer, human);
    lines.iter().try_for_each(|line| output.line(&output.name(line)))
}

/// The limits and what counts against them, of the directory itself and of those above.
fn lines(path: &str, answer: &GetQuotaAnswer, human: bool) -> Vec<String> {
    let size = |bytes: u64| size_text(bytes, human);
    let limit = |limit: Option<u64>, text: &dyn Fn(u64) -> String| {
        limit.map_or_else(|| "no limit".to_owned(), text)
    };
    let mut table = Table::new(&[false, false, true, false, true, false]);
    let mut row = |what: &str, used: String, limit: String, whose: &str| {
        let [of, from] = ["of", whose].map(str::to_owned);
        table.row([String::new(), what.to_owned(), used, of, limit, from]);
    };
    let totals = &answer.totals;
    if answer.quotas.first().is_none_or(|first| first.path != path) {
        let names = totals.file_count + totals.directory_count + totals.deleted_count;
        let bytes = totals.charged.saturating_add(totals.deleted_charged);
        row("names", names.to_string(), limit(None, &size), "");
        row("bytes", size(bytes), limit(None, &size), "");
    }
    for quota in &answer.quotas {
        let above = if quota.path == path { String::new() } else { format!("at {}", quota.path) };
        let names_max = limit(quota.names_max, &|names| names.to_string());
        row("names", quota.names.to_string(), names_max, &above);
        row("bytes", size(quota.bytes), limit(quota.bytes_max, &size), &above);
    }
    let mut lines = table.lines();
    if totals.deleted_count > 0 {
        lines.push(format!(
            "  {} names and {} bytes of it are deleted, and count until they are purged",
            totals.deleted_count,
            size(totals.deleted_charged)
        ));
    }
    lines
}

/// The same for programs.
fn value(place: &RemotePath, answer: &GetQuotaAnswer) -> Value {
    let totals = &answer.totals;
    let of = |quota: &QuotaUse| {
        json!({
            "path": quota.path,
            "names": quota.names,
            "names_max": quota.names_max,
            "bytes": quota.bytes,
            "bytes_max": quota.bytes_max,
        })
    };
    json!({
        "path": place.path.as_str(),
        "quotas": answer.quotas.iter().map(of).collect::<Vec<_>>(),
        "file_count": totals.file_count,
        "directory_count": totals.directory_count,
        "length": totals.length,
        "charged": totals.charged,
        "deleted_count": totals.deleted_count,
        "deleted_charged": totals.deleted_charged,
    })
}
