//! `cairn head`: the start of files.

use crate::cli_error::{CliError, Doing, Tally};
use crate::many_paths::places;
use crate::output::Output;
use crate::reading::{RecordFlags, open, warn_of_doubts};
use crate::session::{RemotePath, Session};
use cairn_client::File;
use cairn_transfer::RecordForm;
use clap::Args;

/// Arguments of `head`.
#[derive(Args, Debug)]
pub(crate) struct HeadArguments {
    /// Lines or records
    #[arg(short = 'n', long, default_value_t = 10, value_name = "COUNT")]
    lines: u64,
    /// Bytes instead of lines
    #[arg(short = 'c', long, value_name = "COUNT", conflicts_with = "lines")]
    bytes: Option<u64>,
    #[command(flatten)]
    records: RecordFlags,
    /// Of which files
    #[arg(required = true)]
    paths: Vec<String>,
}

/// Runs it.
pub(crate) async fn run(
    head: HeadArguments,
    session: &Session,
    output: &Output,
) -> Result<(), CliError> {
    let places = places(session, &head.paths).await;
    let titled = places.len() > 1;
    let mut tally = Tally::default();
    for (index, place) in places.into_iter().enumerate() {
        let done = match place {
            Ok(from) => {
                let title = titled.then(|| title(&from, index > 0));
                one(&head, &from, title, output).await
            }
            Err(error) => Err(error),
        };
        tally.note(done)?;
    }
    tally.finish()
}

/// What stands above each of several files, as with `head`.
fn title(from: &RemotePath, parted: bool) -> String {
    format!("{}==> {from} <==\n", if parted { "\n" } else { "" })
}

async fn one(
    head: &HeadArguments,
    from: &RemotePath,
    title: Option<String>,
    output: &Output,
) -> Result<(), CliError> {
    let file = open(from).await?;
    output.bytes(title.unwrap_or_default().as_bytes())?;
    match head.records.form(&file) {
        RecordForm::EndedBy(terminator) => {
            records(head, terminator, from, &file, output).await?;
        }
        RecordForm::Stored => bytes(head, from, &file, output).await?,
    }
    warn_of_doubts(from, &file);
    Ok(())
}

/// The first records, or the first bytes of what these are delivered as.
async fn records(
    head: &HeadArguments,
    terminator: u8,
    from: &RemotePath,
    file: &File,
    output: &Output,
) -> Result<(), CliError> {
    let mut records = file.records(0);
    let mut left = head.bytes.unwrap_or(head.lines);
    while left > 0 {
        let record = records.next().await.doing(|| format!("reading {from}"))?;
        let Some(record) = record else { break };
        let line = [&record.payload[..], &[terminator]].concat();
        let size = match head.bytes {
            Some(_) => usize::try_from(left).unwrap_or(usize::MAX).min(line.len()),
            None => line.len(),
        };
        output.bytes(&line[..size])?;
        left -= if head.bytes.is_some() { size as u64 } else { 1 };
    }
    Ok(())
}

/// The first bytes, or the bytes up to and with the last of the first newlines.
async fn bytes(
    head: &HeadArguments,
    from: &RemotePath,
    file: &File,
    output: &Output,
) -> Result<(), CliError> {
    let mut left = head.bytes.unwrap_or(head.lines);
    let mut reader = file.reader(0);
    while left > 0 {
        let piece = reader.next().await.doing(|| format!("reading {from}"))?;
        let Some(piece) = piece else { break };
        let size = match head.bytes {
            Some(_) => usize::try_from(left).unwrap_or(usize::MAX).min(piece.len()),
            None => size_of_lines(&piece, left),
        };
        output.bytes(&piece[..size])?;
        left -= match head.bytes {
            Some(_) => size as u64,
            None => piece[..size].iter().filter(|byte| **byte == b'\n').count() as u64,
        };
    }
    Ok(())
}

/// The size of the first `count` lines, or of all where there are fewer.
fn size_of_lines(piece: &[u8], count: u64) -> usize {
    let newlines = piece.iter().enumerate().filter(|(_, byte)| **byte == b'\n');
    let last =
        usize::try_from(count - 1).ok().and_then(|skip| newlines.map(|(at, _)| at).nth(skip));
    last.map_or(piece.len(), |at| at + 1)
}

#[cfg(test)]
mod tests {
    use super::size_of_lines;

    #[test]
    fn lines_are_counted_from_the_start() {
        assert_eq!(size_of_lines(b"a\nb\nc", 1), 2);
        assert_eq!(size_of_lines(b"a\nb\nc", 2), 4);
        assert_eq!(size_of_lines(b"a\nb\nc", 9), 5);
    }
}
