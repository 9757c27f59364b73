//! `cairn fsck --quick`: the chunks that lack replicas as the master knows them, with their files.

use crate::cli_error::{CliError, Doing};
use crate::exit_codes::Exit;
use crate::output::Output;
use crate::session::Session;
use cairn_protocol::DegradedChunk;
use cairn_types::ChunkHandle;
use serde_json::json;

/// Runs it.
pub(crate) async fn run(session: &Session, output: &Output) -> Result<(), CliError> {
    let cell = session.cell().await?;
    let doing = || format!("asking the cell at {} for its chunks", session.address());
    let (mut after, mut found, mut lost) = (ChunkHandle::default(), 0_u64, 0_u64);
    loop {
        let (mut chunks, resume) = cell.degraded_chunks(after).await.doing(doing)?;
        for chunk in &mut chunks {
            // Whose name was not found with all others is asked for alone.
            if chunk.unnamed
                && let Some(listed) = cell.listed_chunk(chunk.handle).await.doing(doing)?
            {
                chunk.path = listed.path;
            }
            found += 1;
            lost += u64::from(!chunk.readable);
            print(output, chunk)?;
        }
        match resume {
            Some(resume) => after = resume,
            None => break,
        }
    }
    if !output.json() {
        output.line(&format!("{found} chunks lack replicas, {lost} of them cannot be read now"))?;
    }
    match (found, lost) {
        (0, _) => Ok(()),
        (_, 0) => Err(CliError::told(Exit::Degraded)),
        _ => Err(CliError::told(Exit::NotNow)),
    }
}

fn print(output: &Output, chunk: &DegradedChunk) -> Result<(), CliError> {
    let DegradedChunk { handle, index, path, good, goal, readable, .. } = chunk;
    let (handle, index) = (handle.short(), index.get());
    if output.json() {
        return output.value(&json!({
            "path": path, "index": index, "handle": handle.to_string(), "good": good, "goal": goal,
            "readable": readable,
        }));
    }
    let state = if *readable { "" } else { ", cannot be read now" };
    let path = output.name(path);
    output.line(&format!("{path}: chunk {index} {handle} has {good} of {goal} replicas{state}"))
}
