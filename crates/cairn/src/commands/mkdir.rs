//! `cairn mkdir`: makes directories.

use crate::complaint::{Complaint, Doing, Tally};
use crate::session::Session;
use clap::Args;

/// Arguments of `mkdir`.
#[derive(Args, Debug)]
pub(crate) struct Mkdir {
    /// Those above it too; an existing directory is no error
    #[arg(short)]
    parents: bool,
    /// What to make
    #[arg(required = true)]
    paths: Vec<String>,
}

/// Runs it.
pub(crate) async fn run(mkdir: Mkdir, session: &Session) -> Result<(), Complaint> {
    let mut tally = Tally::default();
    for text in &mkdir.paths {
        tally.note(one(text, mkdir.parents, session).await)?;
    }
    tally.finish()
}

async fn one(text: &str, parents: bool, session: &Session) -> Result<(), Complaint> {
    let place = session.place(text).await?;
    let made = place.cell.make_directory(&place.path, parents).await;
    made.doing(|| format!("making the directory {place}"))?;
    Ok(())
}
