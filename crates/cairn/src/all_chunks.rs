//! All chunks of a file, for commands that tell of each.
//!
//! - AO1: a file of more chunks than the output takes is refused before more of them are asked for:
//!   where many are served by one thread, none of them waits for what cannot be told anyway.

use crate::cli_error::{CliError, Doing};
use crate::output::Output;
use crate::session::RemotePath;
use cairn_client::ChunkLocations;
use cairn_types::{ChunkIndex, EntryId};

/// Where all chunks of the file at a place lie; `command` tells of them at any length (AO1).
///
/// # Errors
/// The file is gone, has too many, or no master answers.
pub(crate) async fn all_chunks(
    place: &RemotePath,
    file: EntryId,
    output: &Output,
    command: &str,
) -> Result<Vec<ChunkLocations>, CliError> {
    let (mut all, mut next) = (Vec::new(), Some(ChunkIndex::default()));
    while let Some(first) = next {
        let doing = || format!("asking for the chunks of {place}");
        let (chunks, resume) = place.cell.next_chunks(file, first).await.doing(doing)?;
        all.extend(chunks);
        check_count(place, all.len(), output, command)?;
        next = resume;
    }
    Ok(all)
}

/// The output takes so many chunks (AO1).
///
/// # Errors
/// It takes fewer.
pub(crate) fn check_count(
    place: &RemotePath,
    count: usize,
    output: &Output,
    command: &str,
) -> Result<(), CliError> {
    let most = output.chunks_max();
    if count <= most {
        return Ok(());
    }
    let doing = format!("telling the chunks of {place}");
    let why = format!("it has more than {most} chunks, and one answer tells of no more");
    let advice = format!("'cairn {command} --json' on a command line tells of all");
    Err(CliError::usage(doing, why, advice))
}
