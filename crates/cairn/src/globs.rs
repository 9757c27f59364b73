//! Patterns in paths of a cell, which the shell cannot match: `/logs/*/part-?.log`.
//!
//! - G1: a path that is there as it is written stands for itself, whatever characters it has.
//! - G2: as in the shell, a name that begins with a dot is matched only by a pattern that does.

use crate::cli_error::{Cause, CliError, Doing};
use crate::exit_codes::Exit;
use crate::session::RemotePath;
use cairn_types::{CellPath, EntryKind, is_name_pattern, name_matches};

/// Where deleted names lie, which are listed only where they are asked for.
const DELETED: &str = "/.deleted";

/// What a path stands for: itself, or every path that matches it, in order of names.
///
/// # Errors
/// Where nothing matches, or the cell cannot tell.
pub(crate) async fn expand(place: RemotePath) -> Result<Vec<RemotePath>, CliError> {
    if !place.path.names().any(is_name_pattern) || exists(&place).await {
        return Ok(vec![place]);
    }
    let names: Vec<&str> = place.path.names().collect();
    let mut found = vec![CellPath::root()];
    for (at, name) in names.iter().enumerate() {
        let mut below = Vec::new();
        for directory in &found {
            if is_name_pattern(name) {
                let directory = place.with_path(directory.clone());
                below.extend(matching(&directory, name, at + 1 < names.len()).await?);
            } else if let Ok(path) = directory.join(name) {
                // One that is too long for a path is none.
                below.push(path);
            }
        }
        found = below;
    }
    // Behind a pattern, plain names need not be there everywhere.
    let seen = place.cell.look_many(&found).await;
    let there = found.into_iter().zip(seen).filter(|(_, seen)| seen.is_ok());
    let there: Vec<RemotePath> = there.map(|(path, _)| place.with_path(path)).collect();
    if there.is_empty() {
        let advice = "look with 'cairn ls' what is there";
        let cause = Cause::new(Exit::NotFound, "nothing matches", advice);
        return Err(CliError::new(format!("looking for {place}"), cause));
    }
    Ok(there)
}

async fn exists(place: &RemotePath) -> bool {
    let seen = place.cell.look_many(std::slice::from_ref(&place.path)).await;
    seen.iter().all(Result::is_ok)
}

/// The entries of a directory that match; nothing of what is no directory, or may not be read: as
/// in the shell.
async fn matching(
    directory: &RemotePath,
    pattern: &str,
    only_directories: bool,
) -> Result<Vec<CellPath>, CliError> {
    let hidden = directory.path.as_str() == DELETED;
    let mut listing = directory.cell.listing(&directory.path, hidden);
    let mut found = Vec::new();
    loop {
        let page = match listing.next_page().await {
            Ok(Some(page)) => page,
            Ok(None) => return Ok(found),
            Err(error)
                if matches!(
                    Exit::of(error.code(), error.outcome()),
                    Exit::WrongKind | Exit::NotFound | Exit::Denied
                ) =>
            {
                return Ok(found);
            }
            Err(error) => return Err(CliError::new(format!("listing {directory}"), error)),
        };
        for entry in page {
            let fits = entry.kind == EntryKind::Directory || !only_directories;
            let shown = !entry.name.starts_with('.') || pattern.starts_with('.');
            if fits && shown && name_matches(pattern, &entry.name) {
                let path = directory.path.join(&entry.name);
                found.push(path.doing(|| format!("naming {} in {directory}", entry.name))?);
            }
        }
    }
}
