//! The soak's cell: a master and chunkservers in racks of two, and what its files' chunks are.

use crate::options::SoakOptions;
use crate::teller::Teller;
use anyhow::{Context, Result};
use cairn_testkit::{CellPlan, CellProcesses, PATIENCE, Program, await_until};
use serde_json::Value;

/// Starts it and waits until all servers are live.
///
/// # Errors
/// With what a server's log says last.
pub(crate) fn start(
    program: Program,
    options: &SoakOptions,
    teller: &Teller,
) -> Result<CellProcesses> {
    let directory = std::env::temp_dir().join(format!("cairn-soak-{}", std::process::id()));
    let mut plan = CellPlan::new(program, directory, options.servers);
    plan.keep = options.keep;
    if options.small_cell {
        plan.master_arguments.push("--small-cell".to_owned());
    }
    if let Some(chunk_size) = options.chunk_size {
        plan.settings = format!("[new_cell]\nchunk_size = {chunk_size}\n");
    }
    let cell = CellProcesses::start(plan)?;
    let servers = options.servers;
    teller.say(format_args!("master {} and {servers} chunkservers run", cell.address()));
    Ok(cell)
}

/// The chunks of a file, as `stat --chunks --json` tells them.
///
/// # Errors
/// When it does not.
pub(crate) fn chunks(cell: &CellProcesses, path: &str) -> Result<Vec<Value>> {
    let text = cell.ask(&["stat", "--chunks", "--json", path])?;
    let value: Value = serde_json::from_str(&text)?;
    value["chunks"].as_array().cloned().with_context(|| format!("no chunks in {text}"))
}

/// Which of the cell's chunkservers a replica is on.
pub(crate) fn holder(cell: &CellProcesses, replica: &Value) -> Option<usize> {
    cell.chunkserver_at(replica["address"].as_str()?)
}

/// The holders of a file's last chunk, once it has a primary: that one, and the others.
///
/// # Errors
/// When there is none for long.
pub(crate) fn last_chunk_holders(cell: &CellProcesses, path: &str) -> Result<(usize, Vec<usize>)> {
    let mut found = None;
    await_until("a primary of the last chunk", PATIENCE, || {
        let chunks = chunks(cell, path)?;
        let replicas = chunks.last().and_then(|chunk| chunk["replicas"].as_array());
        let holders = |primary: bool| -> Vec<usize> {
            let wanted = replicas.into_iter().flatten().filter(|at| at["primary"] == primary);
            wanted.filter_map(|at| holder(cell, at)).collect()
        };
        found = holders(true).first().map(|primary| (*primary, holders(false)));
        Ok::<_, anyhow::Error>(found.is_some())
    })?;
    found.context("found just now")
}
