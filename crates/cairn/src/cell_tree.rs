//! Directories of a cell, page by page, and trees.

use crate::complaint::{Complaint, Doing};
use crate::session::Place;
use cairn_types::{Entry, EntryKind};

const PAGE_ENTRIES: u32 = 1000;

/// All entries of a directory in order of names; `hidden`: deleted ones too.
pub(crate) async fn entries(place: &Place, hidden: bool) -> Result<Vec<Entry>, Complaint> {
    let mut all: Vec<Entry> = Vec::new();
    loop {
        let after = all.last().map(|entry| entry.name.clone()).unwrap_or_default();
        let page = place
            .cell
            .list_page(&place.path, &after, PAGE_ENTRIES, hidden)
            .await
            .doing(|| format!("listing {place}"))?;
        let (more, empty) = (page.more, page.entries.is_empty());
        all.extend(page.entries);
        if !more || empty {
            return Ok(all);
        }
    }
}

/// What stands somewhere below the root of a walk.
pub(crate) struct Below {
    /// Where.
    pub(crate) place: Place,
    /// Its path from the root of the walk; empty for the root itself.
    pub(crate) relative: String,
    /// What.
    pub(crate) entry: Entry,
}

/// Everything below a directory: a directory before what is in it, in order of names.
pub(crate) async fn walk(root: &Place, entry: Entry) -> Result<Vec<Below>, Complaint> {
    let first = Below { place: root.clone(), relative: String::new(), entry };
    let (mut waiting, mut done) = (vec![first], Vec::new());
    while let Some(next) = waiting.pop() {
        if next.entry.kind == EntryKind::Directory {
            let mut below = Vec::new();
            for entry in entries(&next.place, false).await? {
                let relative = match next.relative.as_str() {
                    "" => entry.name.clone(),
                    above => format!("{above}/{}", entry.name),
                };
                below.push(Below { place: next.place.join(&entry.name)?, relative, entry });
            }
            // The last one waiting comes next.
            waiting.extend(below.into_iter().rev());
        }
        done.push(next);
    }
    Ok(done)
}
