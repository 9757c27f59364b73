//! How the cell is, as metrics: what `cairn status` tells, asked of the master as any client asks.
//! Only the master in charge tells it, so that a sum over all masters counts nothing twice.

use crate::cli_error::CliError;
use crate::http::metrics_text::MetricsText;
use crate::session::Session;
use cairn_client::JobStatus;
use cairn_protocol::{ServerState, ServerStatus, StatusAnswer};
use std::collections::BTreeMap;

/// Asks, and writes it down.
///
/// # Errors
/// Where the cell does not answer.
pub(crate) async fn write(text: &mut MetricsText, session: &Session) -> Result<(), CliError> {
    let cell = session.cell().await?;
    let asking = |error| CliError::new("asking the cell for its state", error);
    let (status, servers, jobs) = tokio::join!(cell.status(), cell.servers(), cell.jobs());
    write_status(text, &status.map_err(asking)?);
    write_servers(text, &servers.map_err(asking)?);
    write_jobs(text, &jobs.map_err(asking)?);
    Ok(())
}

fn write_status(text: &mut MetricsText, status: &StatusAnswer) {
    for (name, help, value) in [
        ("cairn_cell_files", "Files of the cell.", status.file_count),
        ("cairn_cell_directories", "Directories of the cell.", status.directory_count),
        ("cairn_cell_deleted", "Files that were deleted and are kept yet.", status.hidden_count),
        ("cairn_cell_chunks", "Chunks of the cell.", status.chunk_count),
        ("cairn_cell_size_bytes", "Of the disks of live servers.", status.capacity),
        ("cairn_cell_used_bytes", "Used there, by anybody.", status.used),
        ("cairn_cell_stored_bytes", "Stored there by the cell.", status.stored),
        ("cairn_cell_reasons", "Reasons why it is not healthy.", status.reasons.len() as u64),
    ] {
        text.count(name, help, &[], value);
    }
    let counts = &status.now.counts;
    // While servers gather, nothing of it is known.
    if counts.gathering {
        return;
    }
    let help = "Chunks that something ails, by what it is; one may be counted several times.";
    for (state, count) in [
        ("below-goal", counts.below_goal),
        ("one-left", counts.one_left),
        ("copied", counts.copied),
        ("damaged", counts.damaged),
        ("suspect", counts.suspect),
        ("unavailable", counts.unavailable),
        ("stale", counts.stale),
        ("lost", counts.lost),
        ("unknown", counts.unknown),
    ] {
        text.count("cairn_cell_chunks_ailing", help, &[("state", state)], count);
    }
}

fn write_servers(text: &mut MetricsText, servers: &[ServerStatus]) {
    let states =
        [("live", ServerState::Live), ("silent", ServerState::Silent), ("dead", ServerState::Dead)];
    for (word, state) in states {
        let count = servers.iter().filter(|server| server.state == state).count();
        let help = "Chunkservers by state.";
        text.count("cairn_cell_servers", help, &[("state", word)], count as u64);
    }
    let unreached = servers.iter().filter(|server| server.unreached).count();
    let help = "Live chunkservers that are not reached at the address that they give.";
    text.count("cairn_cell_servers_unreached", help, &[], unreached as u64);
}

fn write_jobs(text: &mut MetricsText, jobs: &[JobStatus]) {
    let mut kinds: BTreeMap<&str, u64> = BTreeMap::new();
    for job in jobs {
        *kinds.entry(crate::commands::jobs::kind_text(job.kind)).or_default() += 1;
    }
    for (kind, count) in kinds {
        text.count("cairn_cell_jobs", "What the cell is at.", &[("kind", kind)], count);
    }
}
