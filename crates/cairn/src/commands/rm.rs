//! `cairn rm`: hides files and directories; what is hidden can be read under its hidden name
//! until it is purged (§4.4).

use crate::complaint::{Cause, Complaint, Doing, Tally};
use crate::destination::look;
use crate::exit_codes::Exit;
use crate::output::Output;
use crate::session::Session;
use cairn_types::EntryKind;
use clap::Args;
use serde_json::json;

/// Arguments of `rm`.
#[derive(Args, Debug)]
pub(crate) struct Rm {
    /// Directories, with all that is in them
    #[arg(short)]
    recursive: bool,
    /// What is not there is no error
    #[arg(short)]
    force: bool,
    /// Say the hidden name of what was removed
    #[arg(short)]
    verbose: bool,
    /// What to remove
    #[arg(required = true)]
    paths: Vec<String>,
}

/// Runs it.
pub(crate) async fn run(rm: Rm, session: &Session, output: &Output) -> Result<(), Complaint> {
    let mut tally = Tally::default();
    for text in &rm.paths {
        tally.note(one(&rm, text, session, output).await)?;
    }
    tally.finish()
}

async fn one(rm: &Rm, text: &str, session: &Session, output: &Output) -> Result<(), Complaint> {
    let place = session.place(text).await?;
    let doing = || format!("removing {place}");
    if place.path.is_root() {
        let advice = "name what is to go";
        return Err(Complaint::usage(doing(), "the root cannot be removed", advice));
    }
    match look(&place).await? {
        None if rm.force => return Ok(()),
        Some(entry) if entry.kind == EntryKind::Directory && !rm.recursive => {
            let cause = Cause::new(Exit::WrongKind, "it is a directory", "rm -r removes it");
            return Err(Complaint::new(doing(), cause));
        }
        _ => {}
    }
    let hidden = place.cell.delete(&place.path, rm.recursive).await.doing(doing)?;
    if output.json() {
        return output.value(&json!({ "path": place.path.as_str(), "hidden": hidden }));
    }
    if rm.verbose {
        output.line(&format!("{} is now {}", output.name(text), output.name(&hidden)))?;
    }
    Ok(())
}
