//! `cairn recover`: a person decides which replica a chunk goes on with, where the master is sure
//! of none (R28).

use crate::cli_error::{CliError, Doing};
use crate::exit_codes::Exit;
use crate::many_paths::the_one;
use crate::output::{Output, size_text};
use crate::session::Session;
use cairn_client::Cell;
use cairn_protocol::ChosenReplica;
use cairn_types::{ChunkHandle, ChunkIndex, ServerId};
use clap::Args;
use serde_json::json;

/// Arguments of `recover`.
#[derive(Args, Debug)]
pub(crate) struct RecoverArguments {
    /// A path, for all of its chunks that have no good set, or one chunk's handle, such as 3-1f
    subject: String,
    /// Go on with this server's replica, even a stale one: its address or its id
    #[arg(long, value_name = "SERVER")]
    from: Option<String>,
}

/// Runs it.
pub(crate) async fn run(
    recover: RecoverArguments,
    session: &Session,
    output: &Output,
) -> Result<(), CliError> {
    // A handle has no slash in it; everything else is a path, and may name its cell.
    let (cell, subject) = if recover.subject.contains('/') {
        let place = the_one(session, &recover.subject).await?;
        (place.cell, place.path.to_string())
    } else if ChunkHandle::parse(&recover.subject).is_some() {
        (session.cell().await?, recover.subject)
    } else {
        let why = format!("'{}' is neither a path nor a chunk's handle", recover.subject);
        let advice = "name a path such as /d/f, or a chunk such as 3-1f";
        return Err(CliError::usage("reading the command line", why, advice));
    };
    let file = subject.starts_with('/');
    let server = match &recover.from {
        Some(from) => Some(server_called(&cell, from).await?),
        None => None,
    };
    let (mut from, mut decided, mut refused) = (ChunkIndex::default(), 0_u64, false);
    loop {
        let answer = cell.recover(&subject, server, from).await;
        let answer = answer.doing(|| format!("recovering {subject}")).map_err(|it| match file {
            true => it,
            false => it.advising(Exit::NotFound, "'cairn explain PATH' lists a file's chunks"),
        })?;
        for chosen in &answer.chosen {
            let handle = chosen.handle.short();
            let doing = || format!("making the chosen replica of chunk {handle} its set");
            cell.carry_out(chosen).await.doing(doing)?;
            decided += 1;
            print(output, chosen)?;
        }
        refused |= !answer.refused.is_empty();
        answer.refused.iter().for_each(|line| crate::cli_error::warn(line));
        match answer.resume {
            Some(resume) => from = resume,
            None => break,
        }
    }
    if !output.json() {
        output.line(&format!("{decided} chunks were decided on"))?;
    }
    if refused { Err(CliError::told(Exit::NotNow)) } else { Ok(()) }
}

async fn server_called(cell: &Cell, which: &str) -> Result<ServerId, CliError> {
    let doing = || format!("looking for server {which}");
    let all = cell.servers().await.doing(doing)?;
    let found = all
        .iter()
        .map(|status| &status.at)
        .find(|at| at.address.as_str() == which || at.server.to_string() == *which);
    found.map(|at| at.server).ok_or_else(|| {
        let why = "the cell knows of no such server".to_owned();
        CliError::usage(doing(), why, "cairn servers lists them")
    })
}

fn print(output: &Output, chosen: &ChosenReplica) -> Result<(), CliError> {
    let ChosenReplica { handle, index, at, length, suspect, stale, .. } = chosen;
    let (handle, address) = (handle.short(), at.address.as_str());
    if output.json() {
        return output.value(&json!({
            "handle": handle, "index": index.get(), "server": at.server.to_string(),
            "address": address, "length": length, "suspect": suspect, "stale": stale,
        }));
    }
    let doubt = match (stale, suspect) {
        (true, _) => "; it lacks acknowledged changes",
        (false, true) => "; it may have lost bytes in a power failure",
        (false, false) => "",
    };
    let size = size_text(*length, true);
    output.line(&format!("chunk {index} {handle}: {size} of {address}{doubt}"))
}
