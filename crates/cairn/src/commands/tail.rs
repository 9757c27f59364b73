//! `cairn tail`: the end of a file, and with `-f` what is added to it from then on.
//!
//! A record is delivered once also where the end and what follows meet: one reader delivers both,
//! from an offset that a first pass has found.

use crate::cli_error::{CliError, Doing};
use crate::output::Output;
use crate::reading::{RecordFlags, open, warn_of_doubts};
use crate::session::{RemotePath, Session};
use cairn_client::File;
use cairn_transfer::RecordForm;
use clap::Args;
use std::collections::VecDeque;

/// Bytes by which the search for the last lines or records goes back at first.
const STEP_SIZE: u64 = 64 << 10;

/// Arguments of `tail`.
#[derive(Args, Debug)]
pub(crate) struct TailArguments {
    /// Lines or records
    #[arg(short = 'n', default_value_t = 10, value_name = "COUNT")]
    lines: u64,
    /// Bytes instead of lines
    #[arg(short = 'c', value_name = "COUNT", conflicts_with = "lines")]
    bytes: Option<u64>,
    /// Go on with what is added, until interrupted
    #[arg(short)]
    follow: bool,
    #[command(flatten)]
    records: RecordFlags,
    /// Of which file
    path: String,
}

/// Runs it.
pub(crate) async fn run(
    tail: TailArguments,
    session: &Session,
    output: &Output,
) -> Result<(), CliError> {
    let from = session.remote_path(&tail.path).await?;
    let file = open(&from).await?;
    let length = file.length().await.doing(|| format!("asking for the length of {from}"))?;
    if tail.records.form(&file) != RecordForm::Stored && tail.bytes.is_none() {
        let start = start_of_records(&from, &file, length, tail.lines).await?;
        return records(&tail, &from, &file, start, output).await;
    }
    let start = match tail.bytes {
        Some(count) => length.saturating_sub(count),
        None => start_of_lines(&from, &file, length, tail.lines).await?,
    };
    bytes(&tail, &from, &file, start, output).await
}

async fn records(
    tail: &TailArguments,
    from: &RemotePath,
    file: &File,
    start: u64,
    output: &Output,
) -> Result<(), CliError> {
    let doing = || format!("reading {from}");
    let mut warned = false;
    let mut reader = if tail.follow { file.records_follow(start) } else { file.records(start) };
    while let Some(record) = reader.next().await.doing(doing)? {
        output.bytes(&record.payload)?;
        output.bytes(&[tail.records.terminator()])?;
        if tail.follow {
            output.flush()?;
        }
        if file.is_doubted() && !std::mem::replace(&mut warned, true) {
            warn_of_doubts(from, file);
        }
    }
    Ok(())
}

async fn bytes(
    tail: &TailArguments,
    from: &RemotePath,
    file: &File,
    start: u64,
    output: &Output,
) -> Result<(), CliError> {
    let doing = || format!("reading {from}");
    if tail.follow {
        let mut follower = file.tail(start);
        let mut warned = false;
        loop {
            output.bytes(&follower.next().await.doing(doing)?)?;
            output.flush()?;
            if file.is_doubted() && !std::mem::replace(&mut warned, true) {
                warn_of_doubts(from, file);
            }
        }
    }
    let mut reader = file.reader(start);
    while let Some(piece) = reader.next().await.doing(doing)? {
        output.bytes(&piece)?;
    }
    warn_of_doubts(from, file);
    Ok(())
}

/// The offset behind the newline before the last `count` lines.
async fn start_of_lines(
    from: &RemotePath,
    file: &File,
    length: u64,
    count: u64,
) -> Result<u64, CliError> {
    // A newline at the very end ends the last line and begins none.
    let (mut end, mut wanted) = (length, count + 1);
    while end > 0 {
        let start = end.saturating_sub(STEP_SIZE);
        let piece = file.read_at(start, end - start).await.doing(|| format!("reading {from}"))?;
        if end == length && piece.last() != Some(&b'\n') {
            wanted = wanted.saturating_sub(1);
        }
        if let Some(at) = nth_newline_from_end(&piece, wanted) {
            return Ok(start + at as u64 + 1);
        }
        wanted -= piece.iter().filter(|byte| **byte == b'\n').count() as u64;
        end = start;
    }
    Ok(0)
}

/// Where the `nth` newline from the end is, counted from 1.
fn nth_newline_from_end(piece: &[u8], nth: u64) -> Option<usize> {
    if nth == 0 {
        return piece.len().checked_sub(1);
    }
    let newlines = piece.iter().enumerate().rev().filter(|(_, byte)| **byte == b'\n');
    newlines.map(|(at, _)| at).nth(usize::try_from(nth - 1).ok()?)
}

/// The offset of the first of the last `count` records. How long records are is not known, so the
/// search goes back twice as far each time that too few are found.
async fn start_of_records(
    from: &RemotePath,
    file: &File,
    length: u64,
    count: u64,
) -> Result<u64, CliError> {
    if count == 0 {
        return Ok(length);
    }
    let mut step = STEP_SIZE;
    loop {
        let start = length.saturating_sub(step);
        let mut last: VecDeque<u64> = VecDeque::new();
        let mut reader = file.records(start);
        while let Some(record) = reader.next().await.doing(|| format!("reading {from}"))? {
            if last.len() as u64 == count {
                last.pop_front();
            }
            last.push_back(record.offset);
        }
        match last.front() {
            Some(offset) if last.len() as u64 == count => return Ok(*offset),
            _ if start == 0 => return Ok(0),
            _ => step = step.saturating_mul(2),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::nth_newline_from_end;

    #[test]
    fn newlines_are_counted_from_the_end() {
        assert_eq!(nth_newline_from_end(b"a\nb\nc\n", 1), Some(5));
        assert_eq!(nth_newline_from_end(b"a\nb\nc\n", 3), Some(1));
        assert_eq!(nth_newline_from_end(b"a\nb\nc\n", 4), None);
        assert_eq!(nth_newline_from_end(b"abc", 0), Some(2));
    }
}
