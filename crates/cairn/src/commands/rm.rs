//! `cairn rm`: hides files and directories; what is hidden can be read under its hidden name
//! until it is purged (§4.4).

use crate::cli_error::{Cause, CliError, Tally};
use crate::exit_codes::Exit;
use crate::many_paths::{ask_many, places};
use crate::output::Output;
use crate::session::{RemotePath, Session};
use cairn_client::Cell;
use cairn_types::{CellPath, Entry, EntryKind};
use clap::Args;
use serde_json::json;

/// Arguments of `rm`.
#[derive(Args, Debug)]
pub(crate) struct RmArguments {
    /// Directories, with all that is in them
    #[arg(short, short_alias = 'R', long)]
    recursive: bool,
    /// What is not there is no error
    #[arg(short, long)]
    force: bool,
    /// Say the hidden name of what was removed
    #[arg(short, long)]
    verbose: bool,
    /// What to remove
    #[arg(required_unless_present = "force")]
    paths: Vec<String>,
}

/// Runs it: all paths are looked at together, and what may go goes together.
pub(crate) async fn run(
    rm: RmArguments,
    session: &Session,
    output: &Output,
) -> Result<(), CliError> {
    let mut all = Vec::new();
    for place in places(session, &rm.paths).await {
        match place {
            // As for rm: what is not there is not removed, whatever it was to match.
            Err(gone) if rm.force && gone.exit() == Exit::NotFound => {}
            place => all.push(place.and_then(not_the_root)),
        }
    }
    let there: Vec<&RemotePath> = all.iter().filter_map(|place| place.as_ref().ok()).collect();
    let look = |cell: Cell, paths: Vec<CellPath>| async move { cell.look_many(&paths).await };
    let looked = ask_many(&there, "looking up", look).await;
    let verdicts: Vec<_> = there.iter().zip(looked).map(|(at, seen)| rm.judge(at, seen)).collect();
    let go = there.iter().zip(&verdicts).filter(|(_, verdict)| matches!(verdict, Ok(true)));
    let go: Vec<&RemotePath> = go.map(|(place, _)| *place).collect();
    let recursive = rm.recursive;
    let delete =
        |cell: Cell, paths: Vec<CellPath>| async move { cell.delete_many(&paths, recursive).await };
    let (mut deleted, mut verdicts) =
        (ask_many(&go, "removing", delete).await.into_iter(), verdicts.into_iter());
    let mut tally = Tally::default();
    for place in all {
        let mut verdict = || verdicts.next().expect("a verdict for each place");
        let done = match place.and_then(|place| Ok((place, verdict()?))) {
            Ok((place, true)) => {
                let hidden = deleted.next().expect("an answer for each that may go");
                rm.tell(&place, hidden, output)
            }
            Ok((_, false)) => Ok(()),
            Err(complaint) => Err(complaint),
        };
        tally.note(done)?;
    }
    tally.finish()
}

fn not_the_root(place: RemotePath) -> Result<RemotePath, CliError> {
    if place.path.is_root() {
        let (why, advice) = ("the root cannot be removed", "name what is to go");
        return Err(CliError::usage(format!("removing {place}"), why, advice));
    }
    Ok(place)
}

impl RmArguments {
    /// Whether to remove what was seen at a place.
    fn judge(&self, place: &RemotePath, seen: Result<Entry, CliError>) -> Result<bool, CliError> {
        match seen {
            Ok(entry) if entry.kind == EntryKind::Directory && !self.recursive => {
                let cause = Cause::new(Exit::WrongKind, "it is a directory", "rm -r removes it");
                Err(CliError::new(format!("removing {place}"), cause))
            }
            Ok(_) => Ok(true),
            Err(gone) if gone.exit() == Exit::NotFound && self.force => Ok(false),
            // The deletion says best that there is nothing.
            Err(gone) if gone.exit() == Exit::NotFound => Ok(true),
            Err(complaint) => Err(complaint),
        }
    }

    fn tell(
        &self,
        place: &RemotePath,
        hidden: Result<String, CliError>,
        output: &Output,
    ) -> Result<(), CliError> {
        let hidden = match hidden {
            // Gone since it was seen, perhaps with a directory named before it.
            Err(gone) if gone.exit() == Exit::NotFound && self.force => return Ok(()),
            hidden => hidden?,
        };
        if output.json() {
            return output.value(&json!({ "path": place.path.as_str(), "hidden": hidden }));
        }
        if self.verbose {
            let name = place.to_string();
            output.line(&format!("{} is now {}", output.name(&name), output.name(&hidden)))?;
        }
        Ok(())
    }
}
