//! `cairn drain` and `undrain`: a server is emptied, so that it may be switched off; or is not.

use crate::cli_error::{CliError, Doing};
use crate::commands::jobs::progress_text;
use crate::commands::servers::find;
use crate::output::{Output, size_text};
use crate::session::Session;
use crate::stderr::say;
use cairn_client::{Cell, JobState, ServerDuty, ServerStatus};
use clap::Args;
use serde_json::json;
use std::time::Duration;

/// Between two looks at how far it is.
const PAUSE: Duration = Duration::from_millis(500);

/// Arguments of `drain`.
#[derive(Args, Debug)]
pub(crate) struct DrainArguments {
    /// The server: its address or its id
    #[arg(value_name = "SERVER")]
    server: String,
    /// Say what there would be to do, and do nothing
    #[arg(long, conflicts_with = "wait")]
    dry_run: bool,
    /// Wait until it may be switched off
    #[arg(long)]
    wait: bool,
}

/// Arguments of `undrain`.
#[derive(Args, Debug)]
pub(crate) struct UndrainArguments {
    /// The server: its address or its id
    #[arg(value_name = "SERVER")]
    server: String,
}

/// Runs `drain`.
pub(crate) async fn run(
    drain: DrainArguments,
    session: &Session,
    output: &Output,
) -> Result<(), CliError> {
    let cell = session.cell().await?;
    let doing = || format!("draining server {}", drain.server);
    let found = find(&cell, &drain.server, doing).await?;
    let plan = cell.drain(found.at.server, drain.dry_run).await.doing(doing)?;
    let address = found.at.address.as_str();
    if output.json() {
        output.value(&json!({
            "server": found.at.server.to_string(),
            "address": address,
            "dry_run": drain.dry_run,
            "chunk_count": plan.chunk_count,
            "stored": plan.stored,
            "blocked": plan.blocked,
        }))?;
    } else {
        let (count, size) = (plan.chunk_count, size_text(plan.stored, true));
        let verb = if drain.dry_run { "would copy" } else { "copying" };
        output.line(&format!("{address}: {verb} {count} chunks, {size}, to other servers"))?;
        if !plan.blocked.is_empty() {
            output.line(&format!("it will not end as the cell is now: {}", plan.blocked))?;
        }
    }
    if drain.wait { wait(&cell, &found, output).await } else { Ok(()) }
}

/// Waits until it may be switched off.
async fn wait(cell: &Cell, found: &ServerStatus, output: &Output) -> Result<(), CliError> {
    let doing = || format!("waiting until server {} is drained", found.at.address);
    let id = format!("drain-{}", found.at.server);
    let mut told = String::new();
    loop {
        output.flush()?;
        let jobs = cell.jobs().await.doing(doing)?;
        let job = jobs.iter().find(|job| job.id == id);
        // In the first moment after a restart of the master nothing is known of it yet.
        let line = job.map(|job| match job.note.as_str() {
            "" => progress_text(job),
            note => format!("{}: {note}", progress_text(job)),
        });
        if let Some(line) = line.filter(|line| *line != told) {
            say(format_args!("cairn: {line}"));
            told = line;
        }
        if job.is_some_and(|job| job.state == JobState::Done) {
            let (server, address) = (found.at.server.to_string(), found.at.address.as_str());
            let value = json!({ "server": server, "address": address, "drained": true });
            return output.done(true, &value, || format!("{address} may be switched off"));
        }
        let server = cell.servers().await.doing(doing)?;
        let server = server.into_iter().find(|it| it.at.server == found.at.server);
        let why = match server.map(|it| it.duty) {
            None => Some(("it is forgotten", "'cairn servers' lists those that are known")),
            Some(ServerDuty::Serving) => {
                Some(("it is not drained any more", "somebody has called it off: drain it again"))
            }
            Some(ServerDuty::Draining | ServerDuty::Drained) => None,
        };
        if let Some((why, advice)) = why.filter(|_| job.is_none()) {
            return Err(CliError::usage(doing(), why, advice));
        }
        tokio::time::sleep(PAUSE).await;
    }
}

/// Runs `undrain`.
pub(crate) async fn undo(
    undrain: UndrainArguments,
    session: &Session,
    output: &Output,
) -> Result<(), CliError> {
    let cell = session.cell().await?;
    let doing = || format!("undraining server {}", undrain.server);
    let found = find(&cell, &undrain.server, doing).await?;
    cell.undrain(found.at.server).await.doing(doing)?;
    let (server, address) = (found.at.server.to_string(), found.at.address.as_str());
    let value = json!({ "server": server, "address": address });
    output.done(false, &value, String::new)
}
