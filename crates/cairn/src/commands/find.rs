//! `cairn find`: paths by name, kind, size and age, in order, as far below as they go.

use crate::cli_error::{CliError, Doing, Tally};
use crate::entry_text::EntryJson;
use crate::exit_codes::Exit;
use crate::find_tests::{Amount, FindTests, FoundKind, days};
use crate::many_paths::sources;
use crate::output::Output;
use crate::session::{RemotePath, Session};
use cairn_types::{Entry, EntryKind};
use clap::Args;
use std::time::SystemTime;

const PAGE_PATHS: u32 = 1000;

/// Arguments of `find`; those with two dashes are also written with one.
#[derive(Args, Debug)]
pub(crate) struct FindArguments {
    /// A pattern for names: * ? [a-z]
    #[arg(long, value_name = "PATTERN")]
    name: Option<String>,
    /// Only files (f) or only directories (d)
    #[arg(long = "type", value_name = "KIND")]
    kind: Option<FoundKind>,
    /// More (+N), less (-N) or just so many units: c bytes, k, M, G, or 512 bytes each
    #[arg(long, value_name = "[+-]N[ckMG]", allow_hyphen_values = true)]
    size: Option<Amount>,
    /// Changed more (+N), less (-N) or just so many days ago
    #[arg(long, value_name = "[+-]N", allow_hyphen_values = true, value_parser = days)]
    mtime: Option<Amount>,
    /// How far below a starting point to go: 0 is the point itself
    #[arg(long, value_name = "LEVELS")]
    maxdepth: Option<usize>,
    /// A NUL after each path instead of a newline
    #[arg(long)]
    print0: bool,
    /// A newline after each path, as always
    #[arg(long, overrides_with = "print0")]
    print: bool,
    /// Below which directories [default: /]; a last word without a / is a pattern for names
    #[arg(value_name = "PATH")]
    paths: Vec<String>,
}

/// Runs it.
pub(crate) async fn run(
    mut find: FindArguments,
    session: &Session,
    output: &Output,
) -> Result<(), CliError> {
    let bare = find.paths.pop_if(|last| !last.contains('/'));
    if find.name.is_some()
        && let Some(bare) = &bare
    {
        let why = format!("'{bare}' is neither a path nor a test");
        return Err(CliError::usage("reading the command line", why, "a path starts with '/'"));
    }
    if find.paths.is_empty() {
        find.paths.push("/".to_owned());
    }
    let tests = FindTests {
        name: find.name.clone().or(bare),
        kind: find.kind,
        size: find.size,
        age: find.mtime,
        now: SystemTime::now(),
    };
    let mut tally = Tally::default();
    for start in sources(session, &find.paths, &mut tally).await? {
        tally.note(below(&find, &tests, &start, output).await)?;
    }
    tally.finish()
}

async fn below(
    find: &FindArguments,
    tests: &FindTests,
    start: &RemotePath,
    output: &Output,
) -> Result<(), CliError> {
    let doing = || format!("looking below {start}");
    let seen = start.cell.look_many(std::slice::from_ref(&start.path)).await;
    let mut seen = seen.into_iter();
    let entry = seen.next().expect("an answer for the one path").doing(doing)?;
    let directory = entry.kind == EntryKind::Directory;
    // `find /` names the root too, which has no name to match.
    find.show(start.path.as_str(), start.path.name().unwrap_or("/"), &entry, tests, output)?;
    match find.maxdepth {
        Some(depth_max) if directory => to_depth(find, tests, start, depth_max, output).await,
        None if directory => all(find, tests, start, output).await,
        _ => Ok(()),
    }
}

/// Everything below; the master matches the names.
async fn all(
    find: &FindArguments,
    tests: &FindTests,
    start: &RemotePath,
    output: &Output,
) -> Result<(), CliError> {
    let pattern = tests.name.as_deref().unwrap_or("*");
    let doing = || format!("looking for {pattern} below {start}");
    let mut after = String::new();
    loop {
        let page = start.cell.find(&start.path, pattern, &after, PAGE_PATHS).await.doing(doing)?;
        for found in page.found {
            let name = found.path.rsplit('/').next().unwrap_or_default();
            find.show(&found.path, name, &found.entry, tests, output)?;
        }
        if page.resume.is_empty() {
            return Ok(());
        }
        after = page.resume;
    }
}

/// What is at most `depth_max` levels below, directory by directory.
async fn to_depth(
    find: &FindArguments,
    tests: &FindTests,
    start: &RemotePath,
    depth_max: usize,
    output: &Output,
) -> Result<(), CliError> {
    // Entries that are still to be shown, each level's last first.
    let mut levels = Vec::new();
    if depth_max > 0 {
        levels.push((start.clone(), listed(start).await?));
    }
    loop {
        let depth = levels.len();
        let Some((directory, entries)) = levels.last_mut() else { return Ok(()) };
        let Some(entry) = entries.pop() else {
            levels.pop();
            continue;
        };
        let place = directory.join(&entry.name)?;
        find.show(place.path.as_str(), &entry.name, &entry, tests, output)?;
        if entry.kind == EntryKind::Directory && depth < depth_max {
            let below = listed(&place).await?;
            levels.push((place, below));
        }
    }
}

/// A directory's entries, the last name first.
async fn listed(directory: &RemotePath) -> Result<Vec<Entry>, CliError> {
    let mut listing = directory.cell.listing(&directory.path, false);
    let mut all = Vec::new();
    loop {
        match listing.next_page().await.doing(|| format!("listing {directory}")) {
            Ok(Some(page)) => all.extend(page),
            Ok(None) => break,
            // Removed since it was seen.
            Err(gone) if gone.exit() == Exit::NotFound => break,
            Err(error) => return Err(error),
        }
    }
    all.reverse();
    Ok(all)
}

impl FindArguments {
    fn show(
        &self,
        path: &str,
        name: &str,
        entry: &Entry,
        tests: &FindTests,
        output: &Output,
    ) -> Result<(), CliError> {
        if !tests.hold(name, entry) {
            return Ok(());
        }
        if output.json() {
            output.value(&EntryJson::new(path, entry))
        } else if self.print0 {
            output.bytes(path.as_bytes())?;
            output.bytes(&[0])
        } else {
            output.line(&output.name(path))
        }
    }
}
