//! Looks at all chunks of a cell when it is asked to: how many good replicas each has, who holds
//! them, and which copies are being made.
//!
//! A process that stays, on a host of the cell's network: a look takes milliseconds, where a
//! command for each would take a second.

use crate::load_process::orders::{Orders, say};
use anyhow::{Result, bail};
use cairn_client::{Cell, Options, ServerState};
use cairn_types::ChunkHandle;
use serde::{Deserialize, Serialize};
use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

const DEADLINE: Duration = Duration::from_secs(60);

/// One chunk at one look; servers by their ids.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize, Serialize)]
pub(crate) struct ChunkSeen {
    pub(crate) good: u64,
    pub(crate) goal: u64,
    pub(crate) holders: BTreeSet<String>,
    /// From whom to whom.
    pub(crate) clone: Option<(String, String)>,
    pub(crate) waits_for_turn: bool,
    pub(crate) rests: bool,
}

/// All of them, by handle, and who is live.
#[derive(Clone, Debug, Default, Deserialize, Serialize)]
pub(crate) struct CellSeen {
    pub(crate) live: BTreeSet<String>,
    pub(crate) silent: usize,
    pub(crate) chunks: BTreeMap<String, ChunkSeen>,
}

async fn look(cell: &Cell) -> Result<CellSeen> {
    let servers = cell.servers().await?;
    let live = servers.iter().filter(|server| server.state == ServerState::Live);
    let live = live.map(|server| server.at.server.to_string()).collect();
    let silent = servers.iter().filter(|server| server.state == ServerState::Silent).count();
    let mut seen = CellSeen { live, silent, chunks: BTreeMap::new() };
    let mut after = ChunkHandle::default();
    loop {
        let (chunks, resume) = cell.listed_chunks(None, after).await?;
        for chunk in chunks {
            let there = chunk.replicas.iter().filter(|it| it.state != ServerState::Dead);
            let why = chunk.waits.map(|wait| wait.why.code());
            let clone = chunk.clone.as_ref();
            let one = ChunkSeen {
                good: chunk.good.into(),
                goal: chunk.goal.into(),
                holders: there.map(|it| it.server.to_string()).collect(),
                clone: clone
                    .map(|it| (it.source.server.to_string(), it.receiver.server.to_string())),
                waits_for_turn: why == Some("TURN"),
                rests: why == Some("REST"),
            };
            seen.chunks.insert(chunk.handle.short().to_string(), one);
        }
        match resume {
            Some(resume) => after = resume,
            None => return Ok(seen),
        }
    }
}

/// Runs one.
///
/// # Errors
/// When the words make no sense, or the cell does not answer.
pub(crate) async fn run(words: &[&str]) -> Result<()> {
    let [cell] = words else { bail!("it takes CELL") };
    let orders = Orders::listen();
    let cell = Cell::connect(cell, Options { deadline: DEADLINE, ..Options::default() }).await?;
    say("ready");
    loop {
        orders.expect("look")?;
        say(&format!("seen {}", serde_json::to_string(&look(&cell).await?)?));
    }
}
