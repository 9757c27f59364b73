//! `cairn stat`: what a path stands for, with its true length, and its chunks.

use crate::all_chunks::all_chunks;
use crate::cli_error::{CliError, Doing, Tally};
use crate::entry_text::{EntryJson, commit_replicas_text, content_text, layout_text, owner_texts};
use crate::many_paths::{Lengths, entries};
use crate::modes::mode_text;
use crate::output::{Output, Table, time_text};
use crate::session::{RemotePath, Session};
use crate::stream_parts::StreamParts;
use cairn_protocol::ChunkLocations;
use cairn_types::{Entry, EntryKind, Layout};
use clap::Args;
use serde_json::{Value, json};

/// The command that tells of chunks.
const WITH_CHUNKS: &str = "stat --chunks";

/// Arguments of `stat`.
#[derive(Args, Debug)]
pub(crate) struct StatArguments {
    /// Each chunk with its handle, version and replicas
    #[arg(long)]
    chunks: bool,
    /// What to show
    #[arg(required = true)]
    paths: Vec<String>,
}

/// Runs it: all paths are looked up together.
pub(crate) async fn run(
    stat: StatArguments,
    session: &Session,
    output: &Output,
) -> Result<(), CliError> {
    let all = entries(session, &stat.paths, "looking up", Lengths::Acknowledged).await;
    let mut tally = Tally::default();
    for found in all {
        let done = match found {
            Ok((place, entry)) => one(&stat, &place, entry, output).await,
            Err(complaint) => Err(complaint),
        };
        tally.note(done)?;
    }
    tally.finish()
}

async fn one(
    stat: &StatArguments,
    place: &RemotePath,
    entry: Entry,
    output: &Output,
) -> Result<(), CliError> {
    if entry.layout == Layout::Stream {
        return stream(stat, place, &entry, output).await;
    }
    let chunks = if stat.chunks && entry.kind == EntryKind::File {
        all_chunks(place, entry.id, output, WITH_CHUNKS).await?
    } else {
        Vec::new()
    };
    if output.json() {
        let mut value =
            serde_json::to_value(EntryJson::new(place.path.as_str(), &entry)).unwrap_or_default();
        if stat.chunks {
            value["chunks"] = chunks.iter().map(chunk_json).collect();
        }
        return output.value(&value);
    }
    for line in lines(&place.to_string(), &entry, None).iter().chain(&chunk_lines(&chunks)) {
        output.line(&output.name(line))?;
    }
    Ok(())
}

/// A stream; with its chunks: how much of each is committed, in how many extents.
async fn stream(
    stat: &StatArguments,
    place: &RemotePath,
    entry: &Entry,
    output: &Output,
) -> Result<(), CliError> {
    let doing = || format!("looking up {place}");
    let said = place.cell.policy(&place.path).await.doing(doing)?.policy.commit_replicas;
    let parts = match stat.chunks {
        true => Some(StreamParts::of(place, output, WITH_CHUNKS).await?),
        false => None,
    };
    if output.json() {
        let mut value =
            serde_json::to_value(EntryJson::new(place.path.as_str(), entry)).unwrap_or_default();
        value["commit_replicas"] = Some(said).filter(|said| *said > 0).into();
        if let Some(parts) = &parts {
            parts.tell(&mut value);
        }
        return output.value(&value);
    }
    let parts = parts.map(|parts| parts.lines()).unwrap_or_default();
    for line in lines(&place.to_string(), entry, Some(said)).iter().chain(&parts) {
        output.line(&output.name(line))?;
    }
    Ok(())
}

/// `commit_replicas` of a stream.
fn lines(shown: &str, entry: &Entry, commit_replicas: Option<u32>) -> Vec<String> {
    let mut table = Table::new(&[false, false]);
    let mut row = |name: &str, value: String| table.row([name.to_owned(), value]);
    row("path", shown.to_owned());
    if entry.kind == EntryKind::Directory {
        row("kind", "directory".to_owned());
    } else {
        row("kind", format!("file of {}", content_text(entry.content)));
        row("length", entry.length.to_string());
        row("chunks", entry.chunk_count.to_string());
        row("layout", layout_text(entry.layout).to_owned());
        row("replication", entry.replication.to_string());
        if let Some(said) = commit_replicas {
            row("commit-replicas", commit_replicas_text(said));
        }
        row("durability", if entry.synced { "synced" } else { "buffered" }.to_owned());
    }
    let ([owner, group], own) = (owner_texts(entry, false), entry.attributes());
    row("mode", format!("{:04o} ({})", own.mode, mode_text(own.mode)));
    row("owner", named(&owner, own.owner));
    row("group", named(&group, own.group));
    row("modified", format!("{} UTC", time_text(entry.modified)));
    row("id", entry.id.short());
    table.lines()
}

/// A name with its number, where it has one.
fn named(name: &str, number: u32) -> String {
    if name == number.to_string() { name.to_owned() } else { format!("{name} ({number})") }
}

fn chunk_lines(chunks: &[ChunkLocations]) -> Vec<String> {
    if chunks.is_empty() {
        return Vec::new();
    }
    let mut table = Table::new(&[true, false, false, false, false]);
    table.row(["CHUNK", "HANDLE", "VERSION", "", "REPLICAS"].map(str::to_owned));
    for chunk in chunks {
        let replicas = chunk.replicas.iter().map(|at| {
            let primary = if chunk.primary == Some(at.server) { " (primary)" } else { "" };
            format!("{}{primary}", at.address)
        });
        table.row([
            chunk.index.to_string(),
            chunk.handle.short(),
            chunk.version.short(),
            if chunk.closed { "closed" } else { "open" }.to_owned(),
            replicas.collect::<Vec<_>>().join(", "),
        ]);
    }
    table.lines()
}

/// A chunk for programs.
pub(crate) fn chunk_json(chunk: &ChunkLocations) -> Value {
    let replicas: Vec<Value> = chunk
        .replicas
        .iter()
        .map(|at| {
            json!({
                "server": at.server.to_string(),
                "address": at.address.as_str(),
                "rack": at.rack.as_str(),
                "primary": chunk.primary == Some(at.server),
            })
        })
        .collect();
    json!({
        "index": chunk.index.get(),
        "handle": chunk.handle.short(),
        "version": chunk.version.short(),
        "closed": chunk.closed,
        "replicas": replicas,
    })
}
