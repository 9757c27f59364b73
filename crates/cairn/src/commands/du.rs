//! `cairn du`: the lengths of all files below a directory, summed; with `-s` out of the totals that
//! the master keeps, so that nothing is walked.

use crate::cli_error::{CliError, Doing, Tally};
use crate::many_paths::{Lengths, entries};
use crate::output::{Output, Table, size_text};
use crate::session::{RemotePath, Session};
use cairn_protocol::SubtreeTotals;
use cairn_transfer::{Below, CellWalk};
use cairn_types::{Entry, EntryId, EntryKind};
use clap::Args;
use serde::Serialize;
use std::collections::BTreeMap;

/// Arguments of `du`.
#[derive(Args, Debug)]
pub(crate) struct DuArguments {
    /// One line for each argument
    #[arg(short, long = "summarize")]
    summary: bool,
    /// Of these bytes, those in chunks that other files have too since a snapshot
    #[arg(long)]
    shared: bool,
    /// Sizes for people
    #[arg(short = 'h', long = "human-readable")]
    human: bool,
    /// What to sum
    #[arg(default_value = "/")]
    paths: Vec<String>,
}

/// Of one directory and all below it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
struct LengthSum {
    /// Bytes in files.
    length: u64,
    /// Bytes on disks, all replicas together, where every chunk has its goal.
    stored: u64,
    file_count: u64,
    directory_count: u64,
    /// Bytes in chunks that other files have too, where that was asked.
    #[serde(skip_serializing_if = "Option::is_none")]
    shared: Option<u64>,
    /// The others.
    #[serde(skip_serializing_if = "Option::is_none")]
    own: Option<u64>,
}

impl LengthSum {
    /// What the master keeps of a directory, which counts itself here.
    fn of(totals: &SubtreeTotals) -> Self {
        let SubtreeTotals { length, stored, file_count, .. } = *totals;
        let directory_count = totals.directory_count + 1;
        Self { length, stored, file_count, directory_count, ..Self::default() }
    }
}

#[derive(Serialize)]
struct SumJson<'a> {
    path: &'a str,
    #[serde(flatten)]
    sum: LengthSum,
}

/// Runs it: all paths are looked up together.
pub(crate) async fn run(
    du: DuArguments,
    session: &Session,
    output: &Output,
) -> Result<(), CliError> {
    let all = entries(session, &du.paths, "summing", Lengths::Acknowledged).await;
    let mut tally = Tally::default();
    for found in all {
        let done = match found {
            Ok((place, entry)) => one(&du, place, entry, output).await,
            Err(complaint) => Err(complaint),
        };
        tally.note(done)?;
    }
    tally.finish()
}

async fn one(
    du: &DuArguments,
    place: RemotePath,
    entry: Entry,
    output: &Output,
) -> Result<(), CliError> {
    let mut sums: BTreeMap<String, LengthSum> = BTreeMap::new();
    if du.summary && !du.shared && entry.kind == EntryKind::Directory {
        // Shadow masters are asked for no totals; a master that keeps none is of an earlier
        // version, and of the place of the deleted none are kept.
        let by_shadow = !matches!(place.cell.shadow_notice().await, Ok(None));
        if !by_shadow && let Ok(answer) = place.cell.quota(&place.path).await {
            sums.insert(String::new(), LengthSum::of(&answer.totals));
            return tell(du, &place, &sums, output);
        }
    }
    let mut walk = CellWalk::new(&place.cell, &place.path, entry);
    while let Some(page) = walk.next_page().await.doing(|| format!("listing {place}"))? {
        let shared = if du.shared { Some(shared_of(&place, &page).await?) } else { None };
        for (at, below) in page.iter().enumerate() {
            count(below, shared.as_ref().map(|shared| shared[at]), &mut sums);
        }
    }
    tell(du, &place, &sums, output)
}

fn tell(
    du: &DuArguments,
    place: &RemotePath,
    sums: &BTreeMap<String, LengthSum>,
    output: &Output,
) -> Result<(), CliError> {
    let mut table = Table::new(if du.shared { &[true, true, true, false] } else { &[true, false] });
    if du.shared && !output.json() {
        table.row(["TOTAL", "SHARED", "OWN", "PATH"].map(str::to_owned));
    }
    // Deepest first and the whole at the end, as du does.
    for (relative, sum) in sums.iter().rev() {
        let path = if relative.is_empty() { place.clone() } else { place.join(relative)? };
        if du.summary && !relative.is_empty() {
            continue;
        }
        if output.json() {
            output.value(&SumJson { path: &path.to_string(), sum: *sum })?;
        } else {
            let name = output.name(&path.to_string()).into_owned();
            let size = |bytes: u64| size_text(bytes, du.human);
            match (sum.shared, sum.own) {
                (Some(shared), Some(own)) => {
                    table.row([size(sum.length), size(shared), size(own), name]);
                }
                _ => table.row([size(sum.length), name]),
            }
        }
    }
    table.lines().iter().try_for_each(|line| output.line(line))
}

/// Of each entry of a page, the bytes in chunks that other files have too.
async fn shared_of(place: &RemotePath, page: &[Below]) -> Result<Vec<u64>, CliError> {
    let files = page.iter().filter(|below| below.entry.kind == EntryKind::File);
    let ids: Vec<EntryId> = files.map(|below| below.entry.id).collect();
    let counted = place.cell.shared_bytes(&ids).await;
    let counted = counted.doing(|| format!("looking which chunks of {place} others have"))?;
    let mut counted = counted.into_iter();
    let of_entry = |below: &Below| match below.entry.kind {
        EntryKind::File => counted.next().unwrap_or_default(),
        EntryKind::Directory => 0,
    };
    Ok(page.iter().map(of_entry).collect())
}

/// Adds what stands somewhere to the sums of all directories above it.
fn count(below: &Below, shared: Option<u64>, sums: &mut BTreeMap<String, LengthSum>) {
    let directory = below.entry.kind == EntryKind::Directory;
    let length = if directory { 0 } else { below.entry.length };
    let one = LengthSum {
        length,
        stored: length * u64::from(below.entry.replication),
        file_count: u64::from(!directory),
        directory_count: u64::from(directory),
        // It may have been written to since it was found.
        shared: shared.map(|shared| shared.min(length)),
        own: shared.map(|shared| length - shared.min(length)),
    };
    for above in directories_above(&below.relative, directory) {
        match sums.get_mut(above) {
            Some(sum) => add(sum, one),
            None => drop(sums.insert(above.to_owned(), one)),
        }
    }
}

fn add(sum: &mut LengthSum, one: LengthSum) {
    sum.length += one.length;
    sum.stored += one.stored;
    sum.file_count += one.file_count;
    sum.directory_count += one.directory_count;
    let both = |sum: Option<u64>, one: Option<u64>| sum.zip(one).map(|(sum, one)| sum + one);
    sum.shared = both(sum.shared, one.shared);
    sum.own = both(sum.own, one.own);
}

/// The directories that a path counts for, itself included where it is one; `""` is the root of
/// the walk and always among them.
fn directories_above(relative: &str, itself: bool) -> Vec<&str> {
    let mut above = vec![""];
    above.extend(relative.match_indices('/').map(|(at, _)| &relative[..at]));
    if itself && !relative.is_empty() {
        above.push(relative);
    }
    above
}

#[cfg(test)]
mod tests {
    use super::directories_above;

    #[test]
    fn a_file_counts_for_every_directory_above_it_and_a_directory_for_itself_too() {
        assert_eq!(directories_above("a/b/c", false), ["", "a", "a/b"]);
        assert_eq!(directories_above("a/b", true), ["", "a", "a/b"]);
        assert_eq!(directories_above("", true), [""]);
    }
}
