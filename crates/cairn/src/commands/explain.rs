//! `cairn explain`: why a path or a chunk is as it is.

use crate::cli_error::{CliError, Doing};
use crate::commands::servers::state_text;
use crate::commands::stat::chunk_json;
use crate::entry_text::EntryJson;
use crate::many_paths::the_one;
use crate::output::Output;
use crate::session::Session;
use cairn_protocol::{ChunkLocations, ServerStatus};
use cairn_types::{CellPath, ChunkHandle, Entry, EntryKind};
use clap::Args;
use serde_json::{Value, json};

/// Arguments of `explain`.
#[derive(Args, Debug)]
pub(crate) struct ExplainArguments {
    /// A path, or a chunk handle such as 3-1f
    subject: String,
}

/// Runs it.
pub(crate) async fn run(
    explain: ExplainArguments,
    session: &Session,
    output: &Output,
) -> Result<(), CliError> {
    // A handle has no slash in it; everything else is a path, and may name its cell.
    let (cell, subject) = if explain.subject.contains('/') {
        let place = the_one(session, &explain.subject).await?;
        (place.cell, place.path.to_string())
    } else if ChunkHandle::parse(&explain.subject).is_some() {
        (session.cell().await?, explain.subject)
    } else {
        let why = format!("'{}' is neither a path nor a chunk's handle", explain.subject);
        let advice = "name a path such as /d/f, or a chunk such as 3-1f";
        return Err(CliError::usage("reading the command line", why, advice));
    };
    let doing = || format!("explaining {subject}");
    let answer = cell.explain(&subject).await.doing(doing)?;
    if !output.json() {
        return answer.lines.iter().try_for_each(|line| output.line(&output.name(line)));
    }
    let mut value = json!({ "subject": subject, "healthy": answer.healthy });
    if let Ok(path) = CellPath::parse(&subject) {
        let entry = cell.stat(&path).await.doing(doing)?;
        if entry.kind == EntryKind::File {
            let (chunks, servers) = (cell.chunks(&path).await, cell.servers().await);
            let (chunks, servers) = (chunks.doing(doing)?, servers.doing(doing)?);
            value["chunks"] =
                chunks.iter().map(|chunk| explained(chunk, &entry, &servers)).collect();
        }
        value["entry"] = json!(EntryJson::new(subject.as_str(), &entry));
    }
    output.value(&value)
}

/// A chunk with its replicas, and how far they are from what they should be.
fn explained(chunk: &ChunkLocations, entry: &Entry, servers: &[ServerStatus]) -> Value {
    let mut value = chunk_json(chunk);
    let there = chunk.replicas.len();
    value["missing"] = (entry.replication as usize).saturating_sub(there).into();
    for replica in value["replicas"].as_array_mut().into_iter().flatten() {
        let known = servers.iter().find(|status| replica["server"] == status.at.server.to_string());
        replica["state"] = known.map(|status| state_text(status.state)).into();
    }
    value
}
