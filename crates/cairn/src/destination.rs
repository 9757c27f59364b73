//! Where the last argument of `put`, `cp` and `mv` leads, as with their Unix namesakes: into a
//! directory that is there, else to a name that is to be made.

use crate::cli_error::{Cause, CliError, Doing};
use crate::exit_codes::Exit;
use crate::session::{RemotePath, Session};
use cairn_protocol::ErrorCode;
use cairn_types::{Entry, EntryKind};
use std::ffi::OsStr;

/// Parts the sources from the destination, which stands last.
///
/// # Errors
/// Where there is no destination.
pub(crate) fn split_last<T: AsRef<OsStr>>(
    verb: &str,
    mut arguments: Vec<T>,
) -> Result<(Vec<T>, T), CliError> {
    let destination = arguments.pop().filter(|_| !arguments.is_empty());
    let missing = || {
        let advice = format!("write 'cairn {verb} SOURCE… DESTINATION'");
        CliError::usage("reading the command line", "no DESTINATION is named", advice)
    };
    Ok((arguments, destination.ok_or_else(missing)?))
}

/// The last argument, looked up.
pub(crate) struct Destination {
    place: RemotePath,
    into: bool,
}

impl Destination {
    /// Looks `text` up; it must be a directory where there are `several` sources or it ends
    /// with a `/`.
    ///
    /// # Errors
    /// Where it is not what it must be.
    pub(crate) async fn find(
        session: &Session,
        text: &str,
        several: bool,
        parents: bool,
    ) -> Result<Self, CliError> {
        let place = session.remote_path(text).await?;
        let must = several || place.directory;
        let found = look(&place).await?;
        let wrong = |exit: Exit, why: &str| {
            let advice = "several sources, or a name with '/' at its end, need a directory there";
            let cause = Cause::new(exit, why, advice);
            Err(CliError::new(format!("looking up {place}"), cause))
        };
        match found {
            Some(entry) if entry.kind == EntryKind::Directory => Ok(Self { place, into: true }),
            Some(_) if must => wrong(Exit::WrongKind, "it is a file"),
            None if must && parents => {
                let made = place.cell.make_directory(&place.path, true).await;
                made.doing(|| format!("making {place}"))?;
                Ok(Self { place, into: true })
            }
            None if must => wrong(Exit::NotFound, "there is no such directory"),
            None if parents => {
                if let Some(above) = place.path.parent() {
                    let made = place.cell.make_directory(&above, true).await;
                    made.doing(|| format!("making {above}"))?;
                }
                Ok(Self { place, into: false })
            }
            _ => Ok(Self { place, into: false }),
        }
    }

    /// Where a source called `name` goes.
    ///
    /// # Errors
    /// Where the name is unfit for a cell.
    pub(crate) fn of(&self, name: &str) -> Result<RemotePath, CliError> {
        if self.into { self.place.join(name) } else { Ok(self.place.clone()) }
    }

    /// The last argument itself.
    pub(crate) fn place(&self) -> &RemotePath {
        &self.place
    }

    /// Whether it is a directory to put things into.
    pub(crate) fn is_directory(&self) -> bool {
        self.into
    }
}

/// The entry at a place; none where there is nothing.
///
/// # Errors
/// Where the cell cannot tell.
pub(crate) async fn look(place: &RemotePath) -> Result<Option<Entry>, CliError> {
    match place.cell.stat(&place.path).await {
        Ok(entry) => Ok(Some(entry)),
        Err(error) if error.code() == ErrorCode::NotFound => Ok(None),
        Err(error) => Err(CliError::new(format!("looking up {place}"), error)),
    }
}
