//! Files that are not whole yet, so that whoever is interrupted can take them away.
//!
//! - P1: a partial file is noted before it is made and forgotten after it has its name or is gone;
//!   one that is noted and not there is no harm.
//! - P2: once they are being removed, no other is made: who would note one waits, until the process
//!   ends.
//! - P3: what is taken away is to be purged at once: nobody brings half a file back, and until it
//!   is purged it counts in quotas (R36).

use cairn_client::Cell;
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
    /// Parts that could not be taken away.
    left_over: Vec<CellPath>,
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

    /// Parts of broken uploads that may be left over, because the cell did not answer; each is told
    /// once.
    pub fn take_left_over(&self) -> Vec<CellPath> {
        std::mem::take(&mut self.noted().left_over)
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
            let missing = purge(&cell, in_cell).await.missing;
            if !missing.is_empty() {
                // Some were being made; they are there now, or never will be.
                tokio::time::sleep(LATE).await;
                purge(&cell, missing).await;
            }
        }
    }
}

/// Files of a broken upload are taken away for so long: whoever uploads has waited for its deadline
/// already.
const PURGED_WITHIN: Duration = Duration::from_secs(5);

/// Takes files of a broken upload away; those that may be left over are noted for a person.
pub(crate) async fn clean_up(cell: &Cell, files: Vec<CellPath>, partials: &PartialFiles) {
    let left_over = match tokio::time::timeout(PURGED_WITHIN, purge(cell, files.clone())).await {
        Ok(purged) => purged.failed,
        Err(_) => files,
    };
    partials.noted().left_over.extend(left_over);
}

/// What became of files that were to be deleted for good.
struct Purged {
    /// They were not there.
    missing: Vec<CellPath>,
    /// They may be there.
    failed: Vec<CellPath>,
}

/// Deletes files for good. The failure that is told is the one for which they are taken away.
async fn purge(cell: &Cell, files: Vec<CellPath>) -> Purged {
    let deleted = cell.delete_many(&files, false).await;
    let (mut missing, mut failed, mut hidden) = (Vec::new(), Vec::new(), Vec::new());
    for (path, result) in files.into_iter().zip(deleted) {
        match result {
            Ok(name) => hidden.extend(CellPath::parse(&name).ok()),
            Err(error) if error.code() == ErrorCode::NotFound => missing.push(path),
            Err(_) => failed.push(path),
        }
    }
    // P3: by a second deletion, of the hidden name.
    if !hidden.is_empty() {
        cell.delete_many(&hidden, false).await;
    }
    Purged { missing, failed }
}
