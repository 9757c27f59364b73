//! `cairn policy`: how files are kept, by directory and by file.

use crate::cli_error::{CliError, Doing, Tally, warn};
use crate::entry_text::{LayoutName, commit_replicas_text, layout_text};
use crate::many_paths::places;
use crate::output::{Output, Table, span_text};
use crate::session::{RemotePath, Session};
use cairn_client::{PolicyChange, ServerState};
use cairn_protocol::{GetPolicyAnswer, PolicyOrigin, PolicySource};
use cairn_types::{EntryKind, KEEP_FOR_EVER_MS, PolicyPartNames, PolicyParts, REPLICATION_MAX};
use clap::{Args, ValueEnum};
use serde_json::{Value, json};

/// Arguments of `policy`.
#[derive(Args, Debug)]
pub(crate) struct PolicyArguments {
    /// Replicas of each chunk
    #[arg(long, visible_alias = "replicas", value_name = "COUNT")]
    #[arg(value_parser = clap::value_parser!(u32).range(1..=i64::from(REPLICATION_MAX)))]
    replication: Option<u32>,
    /// How long what is removed can be brought back: 30m, 12h, 7d, 0 (purged at once), forever
    #[arg(long, value_name = "TIME", value_parser = keep_time)]
    keep_deleted: Option<u64>,
    /// When writes are acknowledged: in every replica's memory, or on every replica's disk
    #[arg(long, value_name = "WHEN")]
    durability: Option<Durability>,
    /// How files that are made are written: chunk by chunk, or by producers, each record once
    #[arg(long, value_name = "HOW")]
    layout: Option<LayoutName>,
    /// Of streams: how many servers have to hold records before they count; 1 as in TFS
    #[arg(long, value_name = "COUNT")]
    #[arg(value_parser = clap::value_parser!(u32).range(1..=i64::from(REPLICATION_MAX)))]
    commit_replicas: Option<u32>,
    /// Say nothing of this part any more: what a directory above says counts, or the cell
    #[arg(long, value_name = "PART", value_delimiter = ',')]
    inherit: Vec<Part>,
    /// Bring the files that are there to it, too: a job, where it is not done at once
    #[arg(long)]
    apply: bool,
    /// Say what was changed
    #[arg(short, long)]
    verbose: bool,
    /// Directories or files
    #[arg(required = true)]
    paths: Vec<String>,
}

/// When writes are acknowledged.
#[derive(Clone, Copy, Debug, ValueEnum)]
enum Durability {
    /// When every replica has them.
    Buffered,
    /// When every replica has them on disk.
    Synced,
}

/// A part of a policy.
#[derive(Clone, Copy, Debug, ValueEnum)]
enum Part {
    Replication,
    KeepDeleted,
    Durability,
    Layout,
    CommitReplicas,
    All,
}

impl Part {
    fn names(self) -> PolicyPartNames {
        let none = PolicyPartNames::default();
        match self {
            Self::Replication => PolicyPartNames { replication: true, ..none },
            Self::KeepDeleted => PolicyPartNames { keep_deleted: true, ..none },
            Self::Durability => PolicyPartNames { durability: true, ..none },
            Self::Layout => PolicyPartNames { layout: true, ..none },
            Self::CommitReplicas => PolicyPartNames { commit_replicas: true, ..none },
            Self::All => PolicyPartNames::ALL,
        }
    }
}

/// A time as people write it, in milliseconds.
fn keep_time(text: &str) -> Result<u64, String> {
    const DAY_MS: u64 = 86_400_000;
    if text == "forever" {
        return Ok(KEEP_FOR_EVER_MS);
    }
    let digits = text.trim_end_matches(|letter: char| letter.is_ascii_alphabetic());
    let unit = match &text[digits.len()..] {
        "s" => 1_000,
        "m" => 60_000,
        "h" => DAY_MS / 24,
        "d" => DAY_MS,
        "w" => 7 * DAY_MS,
        "" if digits == "0" => 0,
        _ => return Err("write it as 30m, 12h, 7d, 0 or forever".to_owned()),
    };
    let count: u64 = digits.parse().map_err(|_| "write it as 30m, 12h, 7d, 0 or forever")?;
    let most = 100 * 365 * DAY_MS;
    match count.checked_mul(unit) {
        Some(millis) if millis <= most => Ok(millis),
        _ => Err("more than a hundred years: write forever".to_owned()),
    }
}

/// Runs it.
pub(crate) async fn run(
    policy: PolicyArguments,
    session: &Session,
    output: &Output,
) -> Result<(), CliError> {
    let change = policy.change();
    let mut tally = Tally::default();
    for (index, place) in places(session, &policy.paths).await.into_iter().enumerate() {
        let done = match (place, change) {
            (Ok(place), Some(change)) => policy.set(&place, change, output).await,
            (Ok(place), None) => show(&place, index > 0, output).await,
            (Err(complaint), _) => Err(complaint),
        };
        tally.note(done)?;
    }
    tally.finish()
}

impl PolicyArguments {
    /// What is to be said; none: it is only asked for.
    fn change(&self) -> Option<PolicyChange> {
        let named = self.inherit.iter().map(|part| part.names());
        let inherit = named.fold(PolicyPartNames::default(), PolicyPartNames::and);
        let set = PolicyParts {
            replication: self.replication,
            keep_deleted_ms: self.keep_deleted,
            synced: self.durability.map(|when| matches!(when, Durability::Synced)),
            layout: self.layout.map(LayoutName::layout),
            commit_replicas: self.commit_replicas,
        };
        let any = set.names().any() || inherit.any() || self.apply;
        any.then_some(PolicyChange { set, inherit, apply: self.apply })
    }

    async fn set(
        &self,
        place: &RemotePath,
        change: PolicyChange,
        output: &Output,
    ) -> Result<(), CliError> {
        let doing = || format!("changing the policy of {place}");
        let job = place.cell.set_policy(&place.path, change).await.doing(doing)?;
        if let Some(level) = self.replication {
            warn_of_few_servers(place, level).await;
        }
        let value = json!({ "path": place.path.as_str(), "job": job });
        let said = job.map_or_else(
            || format!("{place}: changed"),
            |job| format!("{place}: job {job} brings what is there to it; see 'cairn jobs'"),
        );
        output.done(self.verbose || self.apply, &value, || said)
    }
}

/// Warns where a level is above what the cell can give: it is heeded once there are more servers.
async fn warn_of_few_servers(place: &RemotePath, level: u32) {
    // It is said; a question that fails now is no failure of that.
    let Ok(servers) = place.cell.servers().await else { return };
    let live = servers.iter().filter(|server| server.state == ServerState::Live).count();
    if live < level as usize {
        warn(&format!(
            "{place}: {level} replicas, and {live} chunkservers are live: files have fewer until \
             there are more; 'cairn servers' shows who is there"
        ));
    }
}

async fn show(place: &RemotePath, further: bool, output: &Output) -> Result<(), CliError> {
    let doing = || format!("asking for the policy of {place}");
    let answer = place.cell.policy(&place.path).await.doing(doing)?;
    if output.json() {
        return output.value(&value(place, &answer));
    }
    if further {
        output.line("")?;
    }
    output.line(&output.name(&format!("{place}:")))?;
    let lines = lines(&answer);
    lines.iter().try_for_each(|line| output.line(&output.name(line)))
}

fn lines(answer: &GetPolicyAnswer) -> Vec<String> {
    let policy = answer.policy;
    let mut table = Table::new(&[false, false, false, false]);
    let mut row = |name: &str, value: String, origin: &PolicyOrigin| {
        table.row([String::new(), name.to_owned(), value, origin_text(answer.kind, origin)]);
    };
    row("replication", policy.replication.to_string(), &answer.replication);
    row("keep-deleted", keep_text(policy.keep_deleted_ms), &answer.keep_deleted);
    row("durability", durability(policy.synced).to_owned(), &answer.durability);
    row("layout", layout_text(policy.layout).to_owned(), &answer.layout);
    let commit_replicas = commit_replicas_text(policy.commit_replicas);
    row("commit-replicas", commit_replicas, &answer.commit_replicas);
    table.lines()
}

fn durability(synced: bool) -> &'static str {
    if synced { "synced" } else { "buffered" }
}

/// How long what is removed is kept.
pub(crate) fn keep_text(millis: u64) -> String {
    match millis {
        0 => "0 (purged at once)".to_owned(),
        KEEP_FOR_EVER_MS => "forever".to_owned(),
        _ => span_text(millis),
    }
}

fn origin_text(kind: EntryKind, origin: &PolicyOrigin) -> String {
    match (origin.source, kind) {
        (PolicySource::Cell, _) => "from the cell's settings".to_owned(),
        (PolicySource::Above, _) => format!("from {}", origin.path),
        (PolicySource::Itself, EntryKind::File) => "of the file itself".to_owned(),
        (PolicySource::Itself, EntryKind::Directory) => "of the directory itself".to_owned(),
        (PolicySource::Made, _) => "as it was made, or brought to it since".to_owned(),
    }
}

/// The same for programs. What is kept for ever has no number of milliseconds.
fn value(place: &RemotePath, answer: &GetPolicyAnswer) -> Value {
    let policy = answer.policy;
    let keep = Some(policy.keep_deleted_ms).filter(|millis| *millis != KEEP_FOR_EVER_MS);
    let from = |origin: &PolicyOrigin| {
        let source = match origin.source {
            PolicySource::Cell => "cell",
            PolicySource::Above => "above",
            PolicySource::Itself => "itself",
            PolicySource::Made => "made",
        };
        json!({ "source": source, "path": Some(&origin.path).filter(|path| !path.is_empty()) })
    };
    json!({
        "path": place.path.as_str(),
        "kind": if answer.kind == EntryKind::File { "file" } else { "directory" },
        "replication": policy.replication,
        "replication_from": from(&answer.replication),
        "keep_deleted_ms": keep,
        "keep_deleted_from": from(&answer.keep_deleted),
        "durability": durability(policy.synced),
        "durability_from": from(&answer.durability),
        "layout": layout_text(policy.layout),
        "layout_from": from(&answer.layout),
        "commit_replicas": Some(policy.commit_replicas).filter(|said| *said > 0),
        "commit_replicas_from": from(&answer.commit_replicas),
    })
}

#[cfg(test)]
mod tests {
    use super::{keep_text, keep_time};
    use cairn_types::KEEP_FOR_EVER_MS;

    #[test]
    fn times_are_read_as_people_write_them_and_others_are_refused() {
        let day = 86_400_000;
        for (text, millis) in [
            ("0", 0),
            ("0d", 0),
            ("45s", 45_000),
            ("30m", 1_800_000),
            ("12h", day / 2),
            ("7d", 7 * day),
            ("2w", 14 * day),
            ("forever", KEEP_FOR_EVER_MS),
        ] {
            assert_eq!(keep_time(text), Ok(millis), "{text}");
        }
        for bad in ["", "7", "d", "7x", "-1d", "7 d", "1e3s", "for ever", "99999999999999999d"] {
            assert!(keep_time(bad).is_err(), "{bad}");
        }
        assert_eq!(keep_text(7 * day), "7d 0h");
        assert_eq!([keep_text(0), keep_text(KEEP_FOR_EVER_MS)], ["0 (purged at once)", "forever"]);
    }
}
