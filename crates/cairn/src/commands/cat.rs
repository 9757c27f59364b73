//! `cairn cat`: files to stdout, one after the other.

use crate::cli_error::{CliError, Tally};
use crate::output::Output;
use crate::reading::{RecordFlags, deliver, open};
use crate::session::Session;
use clap::Args;

/// Arguments of `cat`.
#[derive(Args, Debug)]
pub(crate) struct CatArguments {
    #[command(flatten)]
    records: RecordFlags,
    /// What to write out
    #[arg(required = true)]
    paths: Vec<String>,
}

/// Runs it.
pub(crate) async fn run(
    cat: CatArguments,
    session: &Session,
    output: &Output,
) -> Result<(), CliError> {
    let mut tally = Tally::default();
    for text in &cat.paths {
        tally.note(one(text, cat.records, session, output).await)?;
    }
    tally.finish()
}

async fn one(
    text: &str,
    records: RecordFlags,
    session: &Session,
    output: &Output,
) -> Result<(), CliError> {
    let from = session.remote_path(text).await?;
    let file = open(&from).await?;
    deliver(&from, &file, records, |bytes| output.bytes(bytes), &()).await
}
