//! `cairn cat`: files to stdout, one after the other.

use crate::cli_error::{CliError, Tally};
use crate::many_paths::places;
use crate::output::Output;
use crate::reading::{RecordFlags, deliver, open};
use crate::session::{RemotePath, Session};
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
    for place in places(session, &cat.paths).await {
        let done = match place {
            Ok(from) => one(&from, cat.records, output).await,
            Err(error) => Err(error),
        };
        tally.note(done)?;
    }
    tally.finish()
}

async fn one(from: &RemotePath, records: RecordFlags, output: &Output) -> Result<(), CliError> {
    let file = open(from).await?;
    deliver(from, &file, records, |bytes| output.bytes(bytes), &()).await
}
