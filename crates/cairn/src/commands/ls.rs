//! `cairn ls`: names in directories.

use crate::cell_tree::entries;
use crate::complaint::{Complaint, Doing, Tally};
use crate::entry_text::{EntryJson, LONG_COLUMNS, long_cells};
use crate::output::{Output, Table};
use crate::session::{Place, Session};
use cairn_types::{Entry, EntryKind};
use clap::Args;

/// Where deleted names lie.
const DELETED: &str = "/.deleted";

/// Arguments of `ls`.
#[derive(Args, Debug)]
pub(crate) struct Ls {
    /// Long lines: kind, replication level, length, time, name
    #[arg(short)]
    long: bool,
    /// Sizes for people
    #[arg(short = 'h')]
    human: bool,
    /// Names that begin with a dot too
    #[arg(short)]
    all: bool,
    /// The directory itself, not what is in it
    #[arg(short)]
    directory: bool,
    /// Everything below
    #[arg(short = 'R')]
    recursive: bool,
    /// Deleted names; without a path all of them
    #[arg(long)]
    deleted: bool,
    /// What to list [default: /, with --deleted /.deleted]
    paths: Vec<String>,
}

/// Runs it.
pub(crate) async fn run(mut ls: Ls, session: &Session, output: &Output) -> Result<(), Complaint> {
    if ls.paths.is_empty() {
        ls.paths.push(if ls.deleted { DELETED } else { "/" }.to_owned());
    }
    let mut tally = Tally::default();
    let titled = ls.recursive || ls.paths.len() > 1;
    for text in &ls.paths {
        tally.note(one(&ls, text, titled, session, output).await)?;
    }
    tally.finish()
}

async fn one(
    ls: &Ls,
    text: &str,
    titled: bool,
    session: &Session,
    output: &Output,
) -> Result<(), Complaint> {
    let place = session.place(text).await?;
    let entry = place.cell.stat(&place.path).await.doing(|| format!("listing {place}"))?;
    if entry.kind != EntryKind::Directory || ls.directory {
        return show(ls, &[(place.to_string(), entry)], output);
    }
    let mut waiting = vec![place];
    while let Some(directory) = waiting.pop() {
        let mut found = entries(&directory, ls.deleted).await?;
        found.retain(|entry| ls.all || ls.deleted || !entry.name.starts_with('.'));
        if ls.recursive {
            let below = found.iter().filter(|entry| entry.kind == EntryKind::Directory).rev();
            for entry in below {
                waiting.push(directory.join(&entry.name)?);
            }
        }
        if titled && !output.json() {
            output.line(&format!("{}:", output.name(&directory.to_string())))?;
        }
        show(ls, &named(&directory, found, output.json())?, output)?;
        if titled && !output.json() && !waiting.is_empty() {
            output.line("")?;
        }
    }
    Ok(())
}

/// People see names below a directory, programs whole paths.
fn named(
    directory: &Place,
    found: Vec<Entry>,
    whole: bool,
) -> Result<Vec<(String, Entry)>, Complaint> {
    let name = |entry: Entry| {
        let name =
            if whole { directory.join(&entry.name)?.to_string() } else { entry.name.clone() };
        Ok((name, entry))
    };
    found.into_iter().map(name).collect()
}

fn show(ls: &Ls, entries: &[(String, Entry)], output: &Output) -> Result<(), Complaint> {
    if output.json() {
        return entries
            .iter()
            .try_for_each(|(name, entry)| output.value(&EntryJson::new(name, entry)));
    }
    if !ls.long {
        return entries.iter().try_for_each(|(name, _)| output.line(&output.name(name)));
    }
    let mut table = Table::new(LONG_COLUMNS);
    for (name, entry) in entries {
        table.row(long_cells(entry, output.name(name).into_owned(), ls.human));
    }
    table.lines().iter().try_for_each(|line| output.line(line))
}
