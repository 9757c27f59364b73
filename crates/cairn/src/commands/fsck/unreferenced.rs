//! What servers hold that no file refers to: all that each holds, against the chunks that the
//! master has.

use super::check::Checker;
use super::findings::{Finding, FindingCode};
use crate::cli_error::{CliError, Doing};
use cairn_protocol::{ListHeld, ServerState};
use cairn_types::{ChunkHandle, ReplicaAt};
use std::collections::BTreeMap;

const PAGE_SIZE: u32 = 1000;

/// Finds them; `known`: the chunks that the master told of, in order of handles.
///
/// # Errors
/// Where the master does not answer any more.
pub(crate) async fn find(
    checker: &Checker,
    known: &[ChunkHandle],
) -> Result<Vec<Finding>, CliError> {
    let mut strange: BTreeMap<ChunkHandle, Vec<ReplicaAt>> = BTreeMap::new();
    let mut findings = Vec::new();
    let doing = || "asking the master for its chunkservers".to_owned();
    for status in checker.cell.servers().await.doing(doing)? {
        if status.state == ServerState::Dead {
            continue;
        }
        if let Err(error) = note_strange(checker, &status.at, known, &mut strange).await {
            let what = format!("the server could not be asked what it holds: {error}");
            let (code, handle) = (FindingCode::NotAsked, ChunkHandle::default());
            let at = Some(status.at.clone());
            findings.push(Finding { code, handle, place: None, at, offset: None, what });
        }
    }
    if strange.is_empty() {
        return Ok(findings);
    }
    for (handle, servers) in strange {
        // One that was opened since the master told of its chunks is none.
        let doing = || "asking the master for a chunk".to_owned();
        if checker.cell.listed_chunk(handle).await.doing(doing)?.is_some() {
            continue;
        }
        for at in servers {
            let (code, what) = if checker.lost.contains(&(handle, at.server)) {
                (FindingCode::LostAndFound, "the master's log does not know it: cairn lost")
            } else {
                (FindingCode::Unreferenced, "no file refers to it; it is collected by itself")
            };
            let (at, what) = (Some(at), what.to_owned());
            findings.push(Finding { code, handle, place: None, at, offset: None, what });
        }
    }
    Ok(findings)
}

async fn note_strange(
    checker: &Checker,
    at: &ReplicaAt,
    known: &[ChunkHandle],
    strange: &mut BTreeMap<ChunkHandle, Vec<ReplicaAt>>,
) -> Result<(), cairn_client::Error> {
    let mut after = ChunkHandle::default();
    loop {
        let held = checker.cell.ask_server(at, ListHeld { after, limit: PAGE_SIZE }).await?;
        for report in held.replicas.0 {
            if known.binary_search(&report.handle).is_err() {
                strange.entry(report.handle).or_default().push(at.clone());
            }
        }
        match held.resume {
            Some(resume) => after = resume,
            None => return Ok(()),
        }
    }
}
