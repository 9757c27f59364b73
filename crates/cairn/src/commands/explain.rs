//! `cairn explain`: why a path or a chunk is as it is.

use crate::all_chunks::all_chunks;
use crate::cli_error::{CliError, Doing};
use crate::commands::servers::{duty_text, state_text};
use crate::commands::stat::chunk_json;
use crate::entry_text::EntryJson;
use crate::many_paths::the_one;
use crate::output::Output;
use crate::session::Session;
use cairn_client::Cell;
use cairn_protocol::{
    CheckReplica, ChunkLocations, ListedChunk, ListedReplica, ReasonCode, ServerState, ServerStatus,
};
use cairn_types::{CellPath, ChunkHandle, Entry, EntryKind, ReplicaAt};
use clap::Args;
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::time::Duration;

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
    let (cell, subject, place) = if explain.subject.contains('/') {
        let place = the_one(session, &explain.subject).await?;
        (place.cell.clone(), place.path.to_string(), Some(place))
    } else if ChunkHandle::parse(&explain.subject).is_some() {
        (session.cell().await?, explain.subject, None)
    } else {
        let why = format!("'{}' is neither a path nor a chunk's handle", explain.subject);
        let advice = "name a path such as /d/f, or a chunk such as 3-1f";
        return Err(CliError::usage("reading the command line", why, advice));
    };
    let doing = || format!("explaining {subject}");
    let answer = cell.explain(&subject).await.doing(doing)?;
    let servers = cell.servers().await.doing(doing)?;
    if !output.json() {
        answer.lines.iter().try_for_each(|line| output.line(&output.name(line)))?;
        return tell_reflinked(&cell, &subject, &servers, output).await;
    }
    let mut value = json!({ "subject": subject, "healthy": answer.healthy });
    if let Some(place) = place {
        let entry = cell.stat(&place.path).await.doing(doing)?;
        if entry.kind == EntryKind::File {
            let chunks = all_chunks(&place, entry.id, output, "explain").await?;
            let listed = all_listed(&cell, &place.path).await?;
            value["reflinked"] = reflinked_json(&reflinked(&cell, &listed, &servers).await);
            let known = Known::new(&listed, &servers);
            value["chunks"] = chunks.iter().map(|chunk| known.explained(chunk, &entry)).collect();
        }
        value["entry"] = json!(EntryJson::new(subject.as_str(), &entry));
    } else if let Some(handle) = ChunkHandle::parse(&subject) {
        // One that the log does not know has no more to tell than the lines say.
        if let Some(chunk) = cell.listed_chunk(handle).await.doing(doing)? {
            value["path"] = chunk.path.as_str().into();
            let reflinked = reflinked(&cell, std::slice::from_ref(&chunk), &servers).await;
            value["reflinked"] = reflinked_json(&reflinked);
            let mut told = listed_json(&chunk);
            Known::new(&[], &servers).say_duties(&mut told);
            value["chunks"] = json!([told]);
        } else {
            value["lines"] = json!(answer.lines);
        }
    }
    output.value(&value)
}

/// Chunks whose replicas are looked at on their servers.
const LOOKED_AT_MAX: usize = 16;
/// How long a server may take to answer for one; it may be about to fall silent.
const LOOK_MAX: Duration = Duration::from_secs(2);

/// A replica whose file was made as a clone of another's on its server's disk.
struct Reflinked<'a> {
    handle: ChunkHandle,
    at: &'a ReplicaAt,
}

/// Which replicas of the first of these chunks were made so: their servers know, where these live.
async fn reflinked<'a>(
    cell: &Cell,
    chunks: &[ListedChunk],
    servers: &'a [ServerStatus],
) -> Vec<Reflinked<'a>> {
    let mut found = Vec::new();
    for chunk in chunks.iter().take(LOOKED_AT_MAX) {
        let live = chunk.replicas.iter().filter(|it| it.state == ServerState::Live);
        for replica in live {
            let status = servers.iter().find(|status| status.at.server == replica.server);
            let Some(at) = status.map(|status| &status.at) else { continue };
            let look = CheckReplica { handle: chunk.handle, offset: 0, data: false };
            // Who does not answer has not said so.
            let asked = tokio::time::timeout(LOOK_MAX, cell.ask_server(at, look)).await;
            if matches!(asked, Ok(Ok(told)) if told.reflinked) {
                found.push(Reflinked { handle: chunk.handle, at });
            }
        }
    }
    found
}

fn reflinked_json(reflinked: &[Reflinked<'_>]) -> Value {
    let one = |it: &Reflinked<'_>| {
        let (handle, server) = (it.handle.short(), it.at.server.to_string());
        json!({ "handle": handle, "server": server })
    };
    reflinked.iter().map(one).collect()
}

/// Tells of replicas that were made by a reflink, for people.
async fn tell_reflinked(
    cell: &Cell,
    subject: &str,
    servers: &[ServerStatus],
    output: &Output,
) -> Result<(), CliError> {
    let listed = match (CellPath::parse(subject), ChunkHandle::parse(subject)) {
        (Ok(path), _) => {
            cell.listed_chunks(Some(&path), ChunkHandle::default()).await.map(|(chunks, _)| chunks)
        }
        (_, Some(handle)) => {
            cell.listed_chunk(handle).await.map(|chunk| chunk.into_iter().collect())
        }
        _ => return Ok(()),
    };
    // Who may not list what is below a directory has been told all there is for him.
    let Ok(chunks) = listed else { return Ok(()) };
    for it in reflinked(cell, &chunks, servers).await {
        let (handle, address) = (it.handle.short(), it.at.address.as_str());
        output.line(&format!(
            "chunk {handle}: the replica on {address} was made by a reflink on its disk"
        ))?;
    }
    Ok(())
}

/// A file's chunks as the master knows them.
async fn all_listed(cell: &Cell, path: &CellPath) -> Result<Vec<ListedChunk>, CliError> {
    let (mut all, mut after) = (Vec::new(), ChunkHandle::default());
    loop {
        let doing = || format!("asking for the chunks of {path}");
        let (chunks, resume) = cell.listed_chunks(Some(path), after).await.doing(doing)?;
        all.extend(chunks);
        match resume {
            Some(resume) => after = resume,
            None => return Ok(all),
        }
    }
}

/// What is wrong with a chunk, in codes; what is being done, what it waits for, who is missed.
fn listed_json(chunk: &ListedChunk) -> Value {
    let replica = |it: &ListedReplica| {
        json!({
            "server": it.server.to_string(),
            "version": it.version.short(),
            "length": it.length,
            "state": state_text(it.state),
            "stale": it.stale,
            "suspect": it.suspect,
            "damaged": it.damaged,
        })
    };
    let missed: Vec<Value> = (chunk.missing.iter())
        .map(|it| {
            json!({
                "server": it.at.server.to_string(),
                "address": it.at.address.as_str(),
                "heard_age_ms": it.heard_age_ms,
            })
        })
        .collect();
    let clone = chunk.clone.as_ref().map(|clone| {
        json!({
            "source": clone.source.address.as_str(),
            "receiver": clone.receiver.address.as_str(),
            "copied": clone.copied,
            "total": clone.total,
            "age_ms": clone.age_ms,
            "joins": clone.joins,
        })
    });
    let waits = chunk.waits.map(|wait| {
        // Since when: since the last server that held it and is dead was heard of.
        let since = chunk.missing.iter().map(|it| it.heard_age_ms).min();
        json!({ "code": wait.why.code(), "left_ms": wait.left_ms, "since_ms": since })
    });
    json!({
        "index": chunk.index.get(),
        "handle": chunk.handle.short(),
        "version": chunk.version.short(),
        "closed": chunk.closed,
        "leased": chunk.leased,
        "good": chunk.good,
        "goal": chunk.goal,
        "problems": problems(chunk),
        "known_replicas": chunk.replicas.iter().map(replica).collect::<Vec<_>>(),
        "missed_servers": missed,
        "clone": clone,
        "waits_for": waits,
    })
}

/// As `cairn status` names them.
fn problems(chunk: &ListedChunk) -> Vec<&'static str> {
    let current = || chunk.replicas.iter().filter(|it| !it.stale);
    let holds = [
        (current().next().is_none(), ReasonCode::Unavailable),
        (chunk.good == 1 && chunk.goal > 1, ReasonCode::OneReplicaLeft),
        (chunk.good < chunk.goal, ReasonCode::UnderReplicated),
        (current().any(|it| it.damaged), ReasonCode::Damaged),
        (current().any(|it| it.suspect), ReasonCode::Suspect),
        (current().any(|it| it.state == ServerState::Silent), ReasonCode::ServersSilent),
    ];
    holds.into_iter().filter(|(it, _)| *it).map(|(_, reason)| reason.code()).collect()
}

/// What the master told, found by chunk and by server: a file may have hundreds of thousands of
/// chunks, and to look through all of them for each would take minutes.
struct Known<'a> {
    listed: BTreeMap<ChunkHandle, &'a ListedChunk>,
    /// By their ids as JSON has them.
    servers: BTreeMap<String, &'a ServerStatus>,
}

impl<'a> Known<'a> {
    fn new(listed: &'a [ListedChunk], servers: &'a [ServerStatus]) -> Self {
        Self {
            listed: listed.iter().map(|chunk| (chunk.handle, chunk)).collect(),
            servers: servers.iter().map(|it| (it.at.server.to_string(), it)).collect(),
        }
    }

    fn listed(&self, handle: ChunkHandle) -> Option<&'a ListedChunk> {
        self.listed.get(&handle).copied()
    }

    fn server_of(&self, replica: &Value) -> Option<&'a ServerStatus> {
        self.servers.get(replica["server"].as_str()?).copied()
    }

    /// A chunk with its replicas, and how far they are from what they should be.
    fn explained(&self, chunk: &ChunkLocations, entry: &Entry) -> Value {
        let mut value = chunk_json(chunk);
        let there = chunk.replicas.len();
        value["missing"] = (entry.replication as usize).saturating_sub(there).into();
        let listed = self.listed(chunk.handle).map(listed_json);
        if let (Some(all), Some(Value::Object(listed))) = (value.as_object_mut(), listed) {
            // What both tell stands as the locations have it.
            for (name, what) in listed {
                all.entry(name).or_insert(what);
            }
        }
        self.say_states(&mut value);
        self.say_duties(&mut value);
        value
    }

    fn say_states(&self, chunk: &mut Value) {
        for replica in chunk["replicas"].as_array_mut().into_iter().flatten() {
            let known = self.server_of(replica);
            replica["state"] = known.map(|status| state_text(status.state)).into();
        }
    }

    /// Which of its servers are to be emptied.
    fn say_duties(&self, chunk: &mut Value) {
        let replicas = chunk.get_mut("known_replicas").and_then(Value::as_array_mut);
        for replica in replicas.into_iter().flatten() {
            let known = self.server_of(replica);
            replica["duty"] = known.map(|status| duty_text(status.duty)).into();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::Known;
    use cairn_protocol::{ChunkLocations, ListedChunk, ServerDuty, ServerState, ServerStatus};
    use cairn_types::{ChunkHandle, Entry, ReplicaAt, ServerId};

    #[test]
    fn each_of_many_chunks_is_found_by_its_handle() {
        let chunk = |n| ListedChunk { handle: ChunkHandle::new(n), good: 7, ..Default::default() };
        let listed: Vec<ListedChunk> = (1..=2000).map(chunk).collect();
        let known = Known::new(&listed, &[]);
        for chunk in &listed {
            let found = known.listed(chunk.handle).expect("it is listed");
            assert!(std::ptr::eq(found, chunk));
        }
        assert!(known.listed(ChunkHandle::new(2001)).is_none());
    }

    #[test]
    fn a_chunk_is_told_with_what_its_servers_are_and_shall_be() {
        let at = |id| ReplicaAt { server: ServerId::new(id), ..ReplicaAt::default() };
        let status =
            |id, state, duty| ServerStatus { at: at(id), state, duty, ..Default::default() };
        let servers = [
            status(1, ServerState::Live, ServerDuty::Draining),
            status(2, ServerState::Silent, ServerDuty::default()),
        ];
        let known = Known::new(&[], &servers);
        let replicas = vec![at(2), at(1), at(3)];
        let chunk = ChunkLocations { replicas, ..ChunkLocations::default() };
        let told = known.explained(&chunk, &Entry { replication: 4, ..Entry::default() });
        let states: Vec<_> = (0..3).map(|n| told["replicas"][n]["state"].as_str()).collect();
        assert_eq!(states, [Some("silent"), Some("live"), None]);
        assert_eq!(told["missing"], 1);
        let mut told =
            serde_json::json!({ "known_replicas": [{ "server": at(1).server.to_string() }] });
        known.say_duties(&mut told);
        assert_eq!(told["known_replicas"][0]["duty"], "draining");
    }
}
