//! `cairn lost`: chunks that servers keep and the master's log does not know, and letting go of
//! them (R3).

use crate::cli_error::{CliError, Doing};
use crate::exit_codes::Exit;
use crate::output::{Output, size_text};
use crate::session::Session;
use cairn_client::Cell;
use cairn_protocol::LostChunk;
use cairn_types::ChunkHandle;
use clap::Args;
use serde_json::json;

/// Arguments of `lost`.
#[derive(Args, Debug)]
pub(crate) struct LostArguments {
    /// Let go of these chunks: their servers throw them away
    #[arg(long, value_name = "HANDLE", num_args = 1.., conflicts_with = "let_go_of_all")]
    let_go: Vec<String>,
    /// Let go of all of them
    #[arg(long)]
    let_go_of_all: bool,
}

/// Runs it.
pub(crate) async fn run(
    lost: LostArguments,
    session: &Session,
    output: &Output,
) -> Result<(), CliError> {
    let cell = session.cell().await?;
    for text in &lost.let_go {
        let handle = ChunkHandle::parse(text).ok_or_else(|| {
            let (why, advice) = ("it is no handle", "'cairn lost' lists them");
            CliError::usage(format!("letting go of {text}"), why, advice)
        })?;
        let_go(&cell, handle).await?;
    }
    if !lost.let_go.is_empty() {
        return Ok(());
    }
    let doing = || format!("asking the cell at {} for lost chunks", session.address());
    let (mut after, mut found) = (ChunkHandle::default(), 0_u64);
    loop {
        let (chunks, resume) = cell.lost_chunks(after).await.doing(doing)?;
        for chunk in &chunks {
            found += 1;
            if lost.let_go_of_all {
                let_go(&cell, chunk.handle).await?;
            } else {
                print(output, chunk)?;
            }
        }
        match resume {
            Some(resume) => after = resume,
            None => break,
        }
    }
    if output.json() {
        return Ok(());
    }
    let what = if lost.let_go_of_all { "chunks were let go of" } else { "lost chunks" };
    output.line(&format!("{found} {what}"))
}

async fn let_go(cell: &Cell, handle: ChunkHandle) -> Result<(), CliError> {
    let done = cell.let_go_of_lost(handle).await;
    let done = done.doing(|| format!("letting go of chunk {}", handle.short()));
    done.map_err(|it| it.advising(Exit::NotFound, "'cairn lost' lists them"))
}

fn print(output: &Output, chunk: &LostChunk) -> Result<(), CliError> {
    let LostChunk { handle, length, servers } = chunk;
    let handle = handle.short();
    let addresses: Vec<&str> = servers.iter().map(|at| at.address.as_str()).collect();
    if output.json() {
        return output.value(&json!({ "handle": handle, "length": length, "servers": addresses }));
    }
    let size = size_text(*length, true);
    output.line(&format!("chunk {handle}: {size}, kept by {}", addresses.join(", ")))
}
