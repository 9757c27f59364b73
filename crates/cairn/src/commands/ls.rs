//! `cairn ls`: names in directories.

use crate::cli_error::{CliError, Doing, Tally};
use crate::deleted_list::DeletedForm;
use crate::entry_text::{EntryJson, LONG_COLUMNS, LongForm, long_cells};
use crate::many_paths::{Lengths, entries};
use crate::output::{Output, Table};
use crate::session::{RemotePath, Session};
use cairn_types::{Entry, EntryKind};
use clap::Args;
use std::cmp::Reverse;

/// Arguments of `ls`.
#[derive(Args, Debug)]
pub(crate) struct LsArguments {
    /// Long lines: kind and mode, replication level, owner, group, length, time, name
    #[arg(short)]
    long: bool,
    /// The same, with owners and groups by number
    #[arg(short, long = "numeric-uid-gid")]
    numeric: bool,
    /// The newest first
    #[arg(short = 't', overrides_with = "by_size")]
    by_time: bool,
    /// The largest first
    #[arg(short = 'S', overrides_with = "by_time")]
    by_size: bool,
    /// The other way round
    #[arg(short, long)]
    reverse: bool,
    /// One name a line, which it is always
    #[arg(short = '1')]
    one: bool,
    /// Sizes for people
    #[arg(short = 'h', long = "human-readable")]
    human: bool,
    /// Names that begin with a dot too
    #[arg(short, long)]
    all: bool,
    /// The directory itself, not what is in it
    #[arg(short, long)]
    directory: bool,
    /// Everything below
    #[arg(short = 'R', long)]
    recursive: bool,
    /// What was removed and can be brought back: from these directories, or all of it
    #[arg(long)]
    deleted: bool,
    /// What to list [default: /, with --deleted all]
    paths: Vec<String>,
}

/// Runs it: all paths are looked up together.
pub(crate) async fn run(
    mut ls: LsArguments,
    session: &Session,
    output: &Output,
) -> Result<(), CliError> {
    ls.long |= ls.numeric;
    if ls.deleted {
        let form = DeletedForm { long: ls.long, human: ls.human };
        return form.show(&ls.paths, session, output).await;
    }
    if ls.paths.is_empty() {
        ls.paths.push("/".to_owned());
    }
    // Where no length is shown, no primary needs to be asked for one.
    let shows_lengths = ls.long || ls.by_size || output.json();
    let lengths = if shows_lengths { Lengths::Acknowledged } else { Lengths::Recorded };
    let all = entries(session, &ls.paths, "listing", lengths).await;
    let mut tally = Tally::default();
    for (index, found) in all.into_iter().enumerate() {
        let done = match found {
            Ok((place, entry)) => {
                let is_listed = entry.kind == EntryKind::Directory && !ls.directory;
                if index > 0 && is_listed && !output.json() {
                    output.line("")?;
                }
                one(&ls, place, entry, output).await
            }
            Err(complaint) => Err(complaint),
        };
        tally.note(done)?;
    }
    tally.finish()
}

async fn one(
    ls: &LsArguments,
    place: RemotePath,
    entry: Entry,
    output: &Output,
) -> Result<(), CliError> {
    if entry.kind != EntryKind::Directory || ls.directory {
        return show(ls, &[(place.to_string(), entry)], output);
    }
    let titled = ls.recursive || ls.paths.len() > 1;
    let mut waiting = vec![place];
    while let Some(directory) = waiting.pop() {
        if titled && !output.json() {
            output.line(&format!("{}:", output.name(&directory.to_string())))?;
        }
        let mut below = directory_pages(ls, &directory, output).await?;
        while let Some(name) = below.pop() {
            waiting.push(directory.join(&name)?);
        }
        if titled && !output.json() && !waiting.is_empty() {
            output.line("")?;
        }
    }
    Ok(())
}

/// Shows a directory while its pages come, but where an order or a table's columns need all of it;
/// answers the directories in it where they are wanted.
async fn directory_pages(
    ls: &LsArguments,
    directory: &RemotePath,
    output: &Output,
) -> Result<Vec<String>, CliError> {
    let is_sorted = ls.by_time || ls.by_size || ls.reverse;
    let wants_all = is_sorted || (ls.long && !output.json());
    let (mut rows, mut below) = (Vec::new(), Vec::new());
    let mut listing = directory.cell.listing(&directory.path, false);
    while let Some(mut page) = listing.next_page().await.doing(|| format!("listing {directory}"))? {
        page.retain(|entry| ls.all || !entry.name.starts_with('.'));
        if ls.recursive {
            let directories = page.iter().filter(|entry| entry.kind == EntryKind::Directory);
            below.extend(directories.map(|entry| entry.name.clone()));
        }
        let mut named = named(directory, page, output.json())?;
        if wants_all {
            rows.append(&mut named);
        } else {
            show(ls, &named, output)?;
        }
    }
    ls.sort(&mut rows);
    show(ls, &rows, output)?;
    Ok(below)
}

impl LsArguments {
    /// Puts entries, which come in the order of their names, into the one that was asked for.
    fn sort(&self, entries: &mut [(String, Entry)]) {
        if self.by_time {
            entries.sort_by_key(|(_, entry)| Reverse(entry.modified));
        } else if self.by_size {
            entries.sort_by_key(|(_, entry)| Reverse(entry.length));
        }
        if self.reverse {
            entries.reverse();
        }
    }
}

/// People see names below a directory, programs whole paths.
fn named(
    directory: &RemotePath,
    found: Vec<Entry>,
    whole: bool,
) -> Result<Vec<(String, Entry)>, CliError> {
    let name = |entry: Entry| {
        let name =
            if whole { directory.join(&entry.name)?.to_string() } else { entry.name.clone() };
        Ok((name, entry))
    };
    found.into_iter().map(name).collect()
}

fn show(ls: &LsArguments, entries: &[(String, Entry)], output: &Output) -> Result<(), CliError> {
    if output.json() {
        return entries
            .iter()
            .try_for_each(|(name, entry)| output.value(&EntryJson::new(name, entry)));
    }
    if !ls.long {
        return entries.iter().try_for_each(|(name, _)| output.line(&output.name(name)));
    }
    let form = LongForm { human: ls.human, numeric: ls.numeric };
    let mut table = Table::new(LONG_COLUMNS);
    for (name, entry) in entries {
        table.row(long_cells(entry, output.name(name).into_owned(), form));
    }
    table.lines().iter().try_for_each(|line| output.line(line))
}
