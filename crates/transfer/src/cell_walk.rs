//! A tree of a cell, page by page.

use cairn_client::{Cell, Error};
use cairn_protocol::{ErrorCode, Failure, Found};
use cairn_types::{CellPath, Entry, EntryKind};

const PAGE_ENTRIES: u32 = 1000;

/// What stands somewhere below the root of a walk.
#[derive(Clone, Debug)]
pub struct Below {
    /// Where.
    pub path: CellPath,
    /// Its path from the root of the walk; empty for the root itself.
    pub relative: String,
    /// What.
    pub entry: Entry,
}

/// Everything below a directory, the directory itself first: a directory before what is in it, in
/// order of names. One request brings a page, however many directories it is from.
#[derive(Debug)]
pub struct CellWalk<'c> {
    cell: &'c Cell,
    root: CellPath,
    next: NextPage,
}

/// What the next page is.
#[derive(Debug)]
enum NextPage {
    /// The root alone.
    Root(Entry),
    /// What is behind this path.
    After(String),
    /// There is none.
    None,
}

impl<'c> CellWalk<'c> {
    /// A walk from `root`, which is `entry`: a directory, or a file with nothing below it.
    #[must_use]
    pub fn new(cell: &'c Cell, root: &CellPath, entry: Entry) -> Self {
        Self { cell, root: root.clone(), next: NextPage::Root(entry) }
    }

    /// The next page; none at the end.
    ///
    /// # Errors
    /// As [`Cell::find`].
    pub async fn next_page(&mut self) -> Result<Option<Vec<Below>>, Error> {
        match std::mem::replace(&mut self.next, NextPage::None) {
            NextPage::None => Ok(None),
            NextPage::Root(entry) => {
                if entry.kind == EntryKind::Directory {
                    self.next = NextPage::After(String::new());
                }
                Ok(Some(vec![Below { path: self.root.clone(), relative: String::new(), entry }]))
            }
            NextPage::After(after) => {
                let page = self.cell.find(&self.root, "", &after, PAGE_ENTRIES).await?;
                if !page.resume.is_empty() {
                    self.next = NextPage::After(page.resume);
                }
                page.found
                    .into_iter()
                    .map(|found| self.below(found))
                    .collect::<Result<_, _>>()
                    .map(Some)
            }
        }
    }

    /// All pages that are left, as one.
    ///
    /// # Errors
    /// As [`Cell::find`].
    pub async fn rest(mut self) -> Result<Vec<Below>, Error> {
        let mut all = Vec::new();
        while let Some(page) = self.next_page().await? {
            all.extend(page);
        }
        Ok(all)
    }

    fn below(&self, Found { path, entry }: Found) -> Result<Below, Error> {
        let strange = |why: String| Error::from(Failure::unknown(ErrorCode::Internal, why));
        let path =
            CellPath::parse(&path).map_err(|e| strange(format!("a path that is none: {e}")))?;
        let above = if self.root.is_root() { "" } else { self.root.as_str() };
        let relative = path.as_str().strip_prefix(above).and_then(|rest| rest.strip_prefix('/'));
        let outside = || strange(format!("{path} is not below {}", self.root));
        let relative = relative.ok_or_else(outside)?.to_owned();
        Ok(Below { path, relative, entry })
    }
}
