//! Files that are not whole yet, so that whoever is interrupted can take them away.
//!
//! - P1: a partial file is noted before it is made and forgotten after it has its name or is gone;
//!   one that is noted and not there is no harm.
//! - P2: once they are being removed, no other is made: who would note one waits, until the process
//!   ends.
//! - P3: what is taken away is to be purged at once: nobody brings half a file back, and until it
//!   is purged it counts in quotas (R36).

use cairn_client::{Cell, Error};
use cairn_protocol::ErrorCode;
use cairn_types::CellPath;
use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

/// How long a creation that was on its way may take to arrive after its removal did.
const LATE: Duration = Duration::from_millis(200);

/// What one user of this crate has under way: downloads, and uploads into one cell.
#[derive(Debug, Default)]
pub struct PartialFiles {
    noted: Mutex<Noted>,
}

#[derive(Debug, Default)]
struct Noted {
    local: BTreeSet<PathBuf>,
    /// Known from the first upload on.
    cell: Option<Cell>,
    in_cell: BTreeSet<CellPath>,
    /// They are being removed (P2).
    is_closed: bool,
}

impl PartialFiles {
    fn noted(&self) -> MutexGuard<'_, Noted> {
        self.noted.lock().unwrap_or_else(PoisonError::into_inner)
    }

    async fn note(&self, add: impl FnOnce(&mut Noted)) {
        {
            let mut noted = self.noted();
            if !noted.is_closed {
                add(&mut noted);
                return;
            }
        }
        std::future::pending().await
    }

    /// A file of this machine will be made.
    pub(crate) async fn note_local(&self, path: &Path) {
        self.note(|noted| noted.local.extend([path.to_owned()])).await;
    }

    /// It has its name, or is gone.
    pub(crate) fn forget_local(&self, path: &Path) {
        self.noted().local.remove(path);
    }

    /// Files of the cell will be made.
    pub(crate) async fn note_in_cell(&self, cell: &Cell, paths: &[CellPath]) {
        self.note(|noted| {
            noted.cell.get_or_insert_with(|| cell.clone());
            noted.in_cell.extend(paths.iter().cloned());
        })
        .await;
    }

    /// They have their names, or are gone.
    pub(crate) fn forget_in_cell<'a>(&self, paths: impl IntoIterator<Item = &'a CellPath>) {
        let mut noted = self.noted();
        for path in paths {
            noted.in_cell.remove(path);
        }
    }

    /// Removes all of them, and lets no other be made (P2). What a cell does not answer for stays.
    pub async fn remove_all(&self) {
        let (local, cell, in_cell) = {
            let mut noted = self.noted();
            noted.is_closed = true;
            let (local, in_cell) =
                (std::mem::take(&mut noted.local), std::mem::take(&mut noted.in_cell));
            (local, noted.cell.clone(), Vec::from_iter(in_cell))
        };
        for path in local {
            // It is gone, or was never made (P1).
            let _ = std::fs::remove_file(path);
        }
        if let Some(cell) = cell {
            let missing = purge(&cell, in_cell).await;
            if !missing.is_empty() {
                // Some were being made; they are there now, or never will be.
                tokio::time::sleep(LATE).await;
                purge(&cell, missing).await;
            }
        }
    }
}

/// Deletes files for good; those that were not there. The failure that is told is the one for which
/// they are taken away; one that is left over has a telling name.
pub(crate) async fn purge(cell: &Cell, files: Vec<CellPath>) -> Vec<CellPath> {
    let deleted = cell.delete_many(&files, false).await;
    let is_missing = |result: &Result<_, Error>| {
        result.as_ref().is_err_and(|error| error.code() == ErrorCode::NotFound)
    };
    let missing = files.into_iter().zip(&deleted).filter(|(_, result)| is_missing(result));
    let missing = missing.map(|(path, _)| path).collect();
    // P3: by a second deletion, of the hidden name.
    let hidden = deleted.iter().flatten().filter_map(|hidden| CellPath::parse(hidden).ok());
    let hidden: Vec<CellPath> = hidden.collect();
    if !hidden.is_empty() {
        cell.delete_many(&hidden, false).await;
    }
    missing
}
