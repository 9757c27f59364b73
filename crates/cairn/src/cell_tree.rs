//! Directories of a cell, page by page, and trees.

use crate::cli_error::{CliError, Doing};
use crate::session::Place;
use cairn_client::Found;
use cairn_types::{CellPath, Entry, EntryKind};

const PAGE_ENTRIES: u32 = 1000;

/// Hands over the entries of a directory page by page, in order of names; `hidden`: deleted ones
/// too. No more than a few pages are held, however many there are.
pub(crate) async fn pages(
    place: &Place,
    hidden: bool,
    mut take: impl FnMut(Vec<Entry>) -> Result<(), CliError>,
) -> Result<(), CliError> {
    let mut listing = place.cell.listing(&place.path, hidden);
    while let Some(page) = listing.next_page().await.doing(|| format!("listing {place}"))? {
        take(page)?;
    }
    Ok(())
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

/// Hands over everything below a directory, the directory itself first: a directory before what is
/// in it, in order of names. One request brings a page, however many directories it is from.
pub(crate) async fn visit(
    root: &Place,
    entry: Entry,
    mut take: impl FnMut(Below) -> Result<(), CliError>,
) -> Result<(), CliError> {
    let is_file = entry.kind == EntryKind::File;
    take(Below { place: root.clone(), relative: String::new(), entry })?;
    if is_file {
        return Ok(());
    }
    let mut after = String::new();
    loop {
        let doing = || format!("listing {root}");
        let page = root.cell.find(&root.path, "", &after, PAGE_ENTRIES).await.doing(doing)?;
        for Found { path, entry } in page.found {
            let path = CellPath::parse(&path).doing(|| format!("naming {path}"))?;
            let above = if root.path.is_root() { "" } else { root.path.as_str() };
            let relative = path.as_str().strip_prefix(above).unwrap_or(path.as_str());
            let relative = relative.trim_start_matches('/').to_owned();
            take(Below { place: root.with_path(path), relative, entry })?;
        }
        if page.resume.is_empty() {
            return Ok(());
        }
        after = page.resume;
    }
}

/// The same, all at once.
pub(crate) async fn walk(root: &Place, entry: Entry) -> Result<Vec<Below>, CliError> {
    let mut all = Vec::new();
    visit(root, entry, |below| {
        all.push(below);
        Ok(())
    })
    .await?;
    Ok(all)
}
