//! `cairn explain`: why a path or a chunk is as it is.

use crate::cli_error::{CliError, Doing};
use crate::output::Output;
use crate::session::Session;
use clap::Args;
use serde_json::json;

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
    let (cell, subject) = if explain.subject.contains('/') {
        let place = session.remote_path(&explain.subject).await?;
        (place.cell, place.path.to_string())
    } else {
        (session.cell().await?, explain.subject)
    };
    let answer = cell.explain(&subject).await.doing(|| format!("explaining {subject}"))?;
    if output.json() {
        let (healthy, lines) = (answer.healthy, answer.lines);
        return output.value(&json!({ "subject": subject, "healthy": healthy, "lines": lines }));
    }
    answer.lines.iter().try_for_each(|line| output.line(&output.name(line)))
}
