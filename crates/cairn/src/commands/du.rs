//! `cairn du`: the lengths of all files below a directory, summed.

use crate::cell_tree::walk;
use crate::complaint::{Complaint, Doing, Tally};
use crate::output::{Output, Table, size_text};
use crate::session::Session;
use cairn_types::EntryKind;
use clap::Args;
use serde::Serialize;
use std::collections::BTreeMap;

/// Arguments of `du`.
#[derive(Args, Debug)]
pub(crate) struct Du {
    /// One line for each argument
    #[arg(short)]
    summary: bool,
    /// Sizes for people
    #[arg(short = 'h')]
    human: bool,
    /// What to sum
    #[arg(default_value = "/")]
    paths: Vec<String>,
}

/// Of one directory and all below it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
struct Sum {
    /// Bytes in files.
    length: u64,
    /// Bytes on disks, all replicas together, where every chunk has its goal.
    stored: u64,
    file_count: u64,
    directory_count: u64,
}

#[derive(Serialize)]
struct SumJson<'a> {
    path: &'a str,
    #[serde(flatten)]
    sum: Sum,
}

/// Runs it.
pub(crate) async fn run(du: Du, session: &Session, output: &Output) -> Result<(), Complaint> {
    let mut tally = Tally::default();
    for text in &du.paths {
        tally.note(one(&du, text, session, output).await)?;
    }
    tally.finish()
}

async fn one(du: &Du, text: &str, session: &Session, output: &Output) -> Result<(), Complaint> {
    let place = session.place(text).await?;
    let entry = place.cell.stat(&place.path).await.doing(|| format!("summing {place}"))?;
    let mut sums: BTreeMap<String, Sum> = BTreeMap::new();
    for below in walk(&place, entry).await? {
        let directory = below.entry.kind == EntryKind::Directory;
        let length = if directory { 0 } else { below.entry.length };
        let one = Sum {
            length,
            stored: length * u64::from(below.entry.replication),
            file_count: u64::from(!directory),
            directory_count: u64::from(directory),
        };
        for above in directories_above(&below.relative, directory) {
            add(sums.entry(above.to_owned()).or_default(), one);
        }
    }
    let mut table = Table::new(&[true, false]);
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
            table.row([size_text(sum.length, du.human), name]);
        }
    }
    table.lines().iter().try_for_each(|line| output.line(line))
}

fn add(sum: &mut Sum, one: Sum) {
    sum.length += one.length;
    sum.stored += one.stored;
    sum.file_count += one.file_count;
    sum.directory_count += one.directory_count;
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
