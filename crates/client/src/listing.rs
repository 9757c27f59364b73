//! The names of a directory, page by page, from the third on each asked for while the one before is
//! on its way.
//!
//! ```text
//!   asked:   page after "k"      the page behind its thousand      the one behind that …
//!   told:         └─► names l…z        └─► "skipped z": it follows; else it is asked for anew
//! ```
//! - L1: whatever changes in between, the pages are in order, and a name that was there all the
//!   time comes once: a page that was asked for ahead counts only where it follows the last name
//!   that was told.

use crate::cell::Cell;
use crate::error::Error;
use crate::link::{Link, PendingAnswer, wait_for};
use cairn_client_core::Operation;
use cairn_protocol::{List, ListAnswer};
use cairn_types::{CellPath, Entry};
use std::sync::Arc;

/// Names of one page.
const PAGE_SIZE: u32 = 1000;

/// A directory's entries; of [`Cell::listing`].
#[derive(Debug)]
pub struct Listing {
    link: Arc<Link>,
    path: CellPath,
    hidden: bool,
    /// The last name that was told.
    last: String,
    /// The page behind it.
    next: Option<PendingPage>,
    is_over: bool,
}

/// A page on its way.
#[derive(Debug)]
struct PendingPage {
    answer: PendingAnswer,
    /// It was asked for by what it would have to skip.
    is_ahead: bool,
}

impl Cell {
    /// The entries of a directory page by page, in order of their names; with `hidden`, deleted
    /// ones too. However many there are, a few pages are held at most. Lengths are the recorded
    /// ones.
    ///
    /// ```no_run
    /// # async fn example(cell: cairn_client::Cell) -> Result<(), cairn_client::Error> {
    /// # use cairn_client::CellPath;
    /// let mut listing = cell.listing(&CellPath::root(), false);
    /// while let Some(page) = listing.next_page().await? {
    ///     page.iter().for_each(|entry| println!("{}", entry.name));
    /// }
    /// # Ok(()) }
    /// ```
    #[must_use]
    pub fn listing(&self, path: &CellPath, hidden: bool) -> Listing {
        let (link, path, last) = (Arc::clone(&self.link), path.clone(), String::new());
        Listing { link, path, hidden, last, next: None, is_over: false }
    }

    /// All entries of a directory, in order of their names. Lengths are the recorded ones.
    ///
    /// # Errors
    /// `NotFound`, `NotADirectory`.
    pub async fn list(&self, path: &CellPath) -> Result<Vec<Entry>, Error> {
        let mut listing = self.listing(path, false);
        let mut all = Vec::new();
        while let Some(page) = listing.next_page().await? {
            all.extend(page);
        }
        Ok(all)
    }
}

impl Listing {
    /// The next page; none after the last. A name that comes or goes while the pages are read may
    /// be in one of them or in none.
    ///
    /// The deadline is each request's: a page that was asked for earlier and failed, or does not
    /// follow the last one any more, is asked for anew.
    ///
    /// # Errors
    /// `NotFound`, `NotADirectory`; after one, the next call asks for the same page.
    pub async fn next_page(&mut self) -> Result<Option<Vec<Entry>>, Error> {
        if self.is_over {
            return Ok(None);
        }
        let held = self.next.take();
        let fresh = held.is_none().then(|| self.ask(0));
        // Of most directories the first page is all there is.
        let behind = (!self.last.is_empty()).then(|| self.ask(PAGE_SIZE));
        let told = match held {
            Some(held) => held.page_behind(&self.last).await,
            None => None,
        };
        let page = match told {
            Some(page) => page,
            None => fresh.unwrap_or_else(|| self.ask(0)).page().await?,
        };
        match page.entries.last() {
            Some(last) if page.more => {
                self.last.clone_from(&last.name);
                self.next = Some(behind.unwrap_or_else(|| self.ask(0)));
            }
            _ => self.is_over = true,
        }
        Ok(Some(page.entries))
    }

    /// Asks for the page behind the last name that was told and `skip` more.
    fn ask(&self, skip: u32) -> PendingPage {
        let Self { path, hidden, last, .. } = self;
        let (path, after, hidden) = (path.clone(), last.clone(), *hidden);
        let list = List { path, after, limit: PAGE_SIZE, hidden, skip };
        PendingPage { answer: self.link.begin(Operation::Ask(list.into())), is_ahead: skip > 0 }
    }
}

impl PendingPage {
    /// The page, where it came and follows the last name that was told (L1).
    async fn page_behind(self, last: &str) -> Option<ListAnswer> {
        let is_ahead = self.is_ahead;
        self.page().await.ok().filter(|page| !is_ahead || page.skipped == last)
    }

    async fn page(self) -> Result<ListAnswer, Error> {
        wait_for::<List>(self.answer).await
    }
}
