//! `cairn mkdir`: makes directories.

use crate::cli_error::{Cause, CliError, Doing, Tally};
use crate::exit_codes::Exit;
use crate::many_paths::make_directories;
use crate::modes::ModeChange;
use crate::output::Output;
use crate::session::{RemotePath, Session};
use cairn_protocol::ErrorCode;
use cairn_types::EntryKind;
use clap::Args;
use serde_json::json;

/// Arguments of `mkdir`.
#[derive(Args, Debug)]
pub(crate) struct MkdirArguments {
    /// Those above it too; an existing directory is no error
    #[arg(short, long)]
    parents: bool,
    /// Who may do what with it: 0750, or u=rwx,g=rx [default: 0777 without the bits of the umask]
    #[arg(short, long, value_parser = ModeChange::parse)]
    mode: Option<ModeChange>,
    /// Say what was made
    #[arg(short, long)]
    verbose: bool,
    /// What to make
    #[arg(required = true)]
    paths: Vec<String>,
}

/// Runs it: a directory before those in it, as they were written, so without `-p` one by one.
pub(crate) async fn run(
    mkdir: MkdirArguments,
    session: &Session,
    output: &Output,
) -> Result<(), CliError> {
    let umask = session.options().umask;
    let change = mkdir.mode.as_ref();
    let mode = change.map(|mode| mode.apply(EntryKind::Directory, 0o777, umask));
    let mut tally = Tally::default();
    let mut together = Vec::new();
    for text in &mkdir.paths {
        match session.remote_path(text).await {
            Ok(place) if mkdir.parents && mode.is_some() => {
                let made = with_those_above(&place, mode).await;
                tally.note(made.and_then(|()| tell(&mkdir, &place, output)))?;
            }
            Ok(place) if mkdir.parents => together.push(place),
            Ok(place) => {
                let made = one(&place, mode).await;
                tally.note(made.and_then(|()| tell(&mkdir, &place, output)))?;
            }
            Err(error) => tally.note(Err(error))?,
        }
    }
    for (place, made) in together.iter().zip(make_directories(&together).await) {
        tally.note(made.and_then(|()| tell(&mkdir, place, output)))?;
    }
    tally.finish()
}

/// Makes a directory of this mode; those above it are made as usual.
async fn with_those_above(place: &RemotePath, mode: Option<u32>) -> Result<(), CliError> {
    let doing = || format!("making the directory {place}");
    if let Some(above) = place.path.parent() {
        place.cell.make_directory(&above, true).await.doing(doing)?;
    }
    place.cell.make_directory_with(&place.path, true, mode).await.doing(doing).map(drop)
}

async fn one(place: &RemotePath, mode: Option<u32>) -> Result<(), CliError> {
    let doing = || format!("making the directory {place}");
    let Err(error) = place.cell.make_directory_with(&place.path, false, mode).await else {
        return Ok(());
    };
    let advice = match error.code() {
        ErrorCode::AlreadyExists => {
            "choose another name; 'mkdir -p' takes a directory that is there"
        }
        ErrorCode::NotFound => "'mkdir -p' makes those above it too",
        _ => return Err(error).doing(doing),
    };
    let exit = Exit::of(error.code(), error.outcome());
    Err(CliError::new(doing(), Cause::new(exit, error.to_string(), advice)))
}

fn tell(mkdir: &MkdirArguments, place: &RemotePath, output: &Output) -> Result<(), CliError> {
    let value = json!({ "path": place.path.as_str() });
    output.done(mkdir.verbose, &value, || place.to_string())
}
