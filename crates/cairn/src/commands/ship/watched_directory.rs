//! The directory as it is followed: listed again and again, whatever becomes of it.
//!
//! - WD1: one that is gone has no files any more, so that what is open of it is read to its end.
//! - WD2: a listing that fails for another reason is told of once, and tried again. The first one
//!   has to go well: nothing is open yet that would be lost.
//! - WD3: new files are held (LD4) beside all else, also while that waits for the cell.

use super::log_directory::{LogDirectory, is_gone};
use super::source_cursor::FileKey;
use super::source_table::ListedFile;
use crate::cli_error::{Cause, CliError, warn};
use crate::exit_codes::Exit;
use std::cell::RefCell;
use std::collections::BTreeSet;
use std::convert::Infallible;
use std::fs::File;
use std::io;
use std::rc::Rc;
use std::time::Duration;

/// From one look at the directory to the next.
pub(super) const LOOK_EVERY: Duration = Duration::from_millis(200);

/// How the last look at the directory went.
#[derive(Debug)]
enum LastList {
    Never,
    Well,
    /// It is tried again (WD2).
    Failed,
    /// The directory is gone (WD1).
    Gone(CliError),
}

/// The directory, and how it is.
#[derive(Debug)]
pub(super) struct WatchedDirectory {
    /// Shared with who holds new files (WD3): it is borrowed by nobody who waits.
    directory: Rc<RefCell<LogDirectory>>,
    last_list: LastList,
    is_once: bool,
}

impl WatchedDirectory {
    pub(super) fn new(directory: LogDirectory, is_once: bool) -> Self {
        let directory = Rc::new(RefCell::new(directory));
        Self { directory, last_list: LastList::Never, is_once }
    }

    /// Holds what is new, without an end (WD3); with once, nothing: no file of later is shipped.
    pub(super) fn hold_new(&self) -> impl Future<Output = Infallible> + use<> {
        let (directory, is_once) = (Rc::clone(&self.directory), self.is_once);
        async move {
            if is_once {
                return std::future::pending().await;
            }
            loop {
                tokio::time::sleep(LOOK_EVERY).await;
                directory.borrow_mut().hold_new(LOOK_EVERY);
            }
        }
    }

    /// What it has now, and what is held of it; none where nobody knows.
    ///
    /// # Errors
    /// Where it cannot be listed at all; with once, whatever fails but that it is gone.
    pub(super) fn list(&mut self) -> Result<Option<Vec<ListedFile>>, CliError> {
        let listed = self.directory.borrow_mut().list();
        let mut all = match listed {
            Ok(all) => {
                self.last_list = LastList::Well;
                all
            }
            Err(error) if self.is_gone_since(&error) => Vec::new(),
            Err(error) => return self.not_listed(error).map(|()| None),
        };
        for name in self.directory.borrow_mut().take_links() {
            warn(&format!(
                "{name} is a symbolic link, and not followed: its file is shipped from the \
                 directory that it is in"
            ));
        }
        all.extend(self.directory.borrow().held_and_gone());
        Ok(Some(all))
    }

    /// Whether it was there, and is no more; told of once (WD1).
    fn is_gone_since(&mut self, error: &io::Error) -> bool {
        if !is_gone(error) || matches!(self.last_list, LastList::Never) {
            return false;
        }
        if !matches!(self.last_list, LastList::Gone(_)) {
            let shown = self.directory.borrow().path().display().to_string();
            warn(&format!("{shown} is gone: what is open of it is read to its end"));
            let advice = "make it anew, or name another, and start again";
            let cause = Cause::new(Exit::Local, "the directory is gone", advice);
            let error = CliError::new(format!("shipping the files of {shown}"), cause);
            self.last_list = LastList::Gone(error);
        }
        true
    }

    fn not_listed(&mut self, error: io::Error) -> Result<(), CliError> {
        let shown = self.directory.borrow().path().display().to_string();
        let error = CliError::new(format!("listing {shown}"), error);
        if self.is_once || matches!(self.last_list, LastList::Never) {
            return Err(error);
        }
        if !matches!(self.last_list, LastList::Failed) {
            warn(&format!("{error}; tried again, and what is open is shipped meanwhile"));
        }
        self.last_list = LastList::Failed;
        Ok(())
    }

    /// Opens a file; none where its name has gone to another since the last list.
    ///
    /// # Errors
    /// Where it cannot be opened.
    pub(super) fn open(&self, wanted: FileKey) -> io::Result<Option<File>> {
        self.directory.borrow().open(wanted)
    }

    /// As [`LogDirectory::settle`].
    pub(super) fn settle(&self, open: BTreeSet<FileKey>, is_needed: impl Fn(FileKey) -> bool) {
        self.directory.borrow_mut().settle(open, is_needed);
    }

    pub(super) fn is_any_held(&self) -> bool {
        self.directory.borrow().is_any_held()
    }

    /// The error with which shipping ends once nothing of it is open or held any more (WD1).
    pub(super) fn gone(&self) -> Option<CliError> {
        match &self.last_list {
            LastList::Gone(error) if !self.is_any_held() => Some(error.clone()),
            _ => None,
        }
    }
}
