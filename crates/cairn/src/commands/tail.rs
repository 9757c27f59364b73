//! `cairn tail`: the end of a file, and with `-f` what is added to it from then on.
//!
//! A record is delivered once also where the end and what follows meet: one reader delivers both,
//! from an offset that a first pass has found. A cell that does not answer is waited for: whoever
//! began anew would not know where this one was.

use crate::cli_error::{CliError, Doing, warn};
use crate::exit_codes::Exit;
use crate::many_paths::the_one;
use crate::output::Output;
use crate::reading::{RecordFlags, open, warn_of_doubts};
use crate::session::{RemotePath, Session};
use cairn_client::File;
use cairn_transfer::RecordForm;
use clap::Args;
use std::collections::VecDeque;
use std::pin::pin;
use std::time::Duration;

/// Bytes by which the search for the last lines or records goes back at first.
const STEP_SIZE: u64 = 64 << 10;

/// How often `-F` looks whether another file has taken the name.
const LOOK_EVERY: Duration = Duration::from_secs(1);
/// How much longer a file is followed that has lost its name: what is added last still comes. Then
/// it is read to its end, however far that is.
const FAREWELL: Duration = Duration::from_millis(500);
/// How long after a failure a follower asks again.
const AGAIN_AFTER: Duration = Duration::from_secs(1);

/// A number of last ones; `+N`, from the Nth on, is something else.
fn count(text: &str) -> Result<u64, String> {
    match text.strip_prefix('+') {
        Some(_) => Err("it counts from the end".to_owned()),
        None => text.parse().map_err(|error: std::num::ParseIntError| error.to_string()),
    }
}

/// Arguments of `tail`.
#[derive(Args, Debug)]
pub(crate) struct TailArguments {
    /// Lines or records
    #[arg(short = 'n', long, default_value_t = 10, value_name = "COUNT", value_parser = count)]
    lines: u64,
    /// Bytes instead of lines
    #[arg(short = 'c', long, value_name = "COUNT", conflicts_with = "lines", value_parser = count)]
    bytes: Option<u64>,
    /// Go on with what is added, until interrupted
    #[arg(short, long)]
    follow: bool,
    /// As -f, and go on with whatever file takes the name, now or later
    #[arg(short = 'F')]
    follow_name: bool,
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
    let from = the_one(session, &tail.path).await?;
    let mut file = if tail.follow_name { named_now(&from).await? } else { open(&from).await? };
    let mut start = start(&tail, &from, &file).await?;
    loop {
        let next = match tail.records.form(&file) {
            RecordForm::Stored => bytes(&tail, &from, &file, start.offset, output).await?,
            RecordForm::EndedBy(_) => records(&tail, &from, &file, start, output).await?,
        };
        match next {
            Some(another) => (file, start) = (another, TailStart::default()),
            None => return Ok(()),
        }
    }
}

impl TailArguments {
    fn follows(&self) -> bool {
        self.follow || self.follow_name
    }
}

/// Where the end of a file begins that is wanted.
#[derive(Clone, Copy, Debug, Default)]
struct TailStart {
    offset: u64,
    /// Bytes of the first record there that are not wanted.
    skipped: u64,
}

async fn start(
    tail: &TailArguments,
    from: &RemotePath,
    file: &File,
) -> Result<TailStart, CliError> {
    let length = file.length().await.doing(|| format!("asking for the length of {from}"))?;
    let offset = match (tail.bytes, tail.records.form(file)) {
        (Some(count), RecordForm::Stored) => length.saturating_sub(count),
        (None, RecordForm::Stored) => start_of_lines(from, file, length, tail.lines).await?,
        (bytes, RecordForm::EndedBy(_)) => {
            let wanted = bytes.map_or(LastWanted::Records(tail.lines), LastWanted::Bytes);
            return start_of_records(from, file, length, wanted).await;
        }
    };
    Ok(TailStart { offset, skipped: 0 })
}

/// The file that has the name, once there is one.
async fn named_now(from: &RemotePath) -> Result<File, CliError> {
    loop {
        match open(from).await {
            Err(gone) if gone.exit() == Exit::NotFound => tokio::time::sleep(LOOK_EVERY).await,
            opened => return opened,
        }
    }
}

/// Another file, once it has taken the name; never where nobody asked for that.
async fn replacement(tail: &TailArguments, from: &RemotePath, file: &File) -> File {
    if !tail.follow_name {
        return std::future::pending().await;
    }
    loop {
        tokio::time::sleep(LOOK_EVERY).await;
        // Whatever fails here is no failure of the file that is followed.
        if let Ok(another) = open(from).await
            && another.entry().id != file.entry().id
        {
            tokio::time::sleep(FAREWELL).await;
            return another;
        }
    }
}

/// What a follower makes of a cell that does not answer: that is told once, and it asks again.
struct FollowerPatience {
    follows: bool,
    is_told: bool,
}

impl FollowerPatience {
    fn of(tail: &TailArguments) -> Self {
        Self { follows: tail.follows(), is_told: false }
    }

    /// What came; none where it is to be asked for again.
    ///
    /// # Errors
    /// What no time mends, or nobody follows.
    async fn heed<T>(&mut self, came: Result<T, CliError>) -> Result<Option<T>, CliError> {
        let error = match came {
            Ok(value) => {
                if std::mem::take(&mut self.is_told) {
                    warn("following goes on");
                }
                return Ok(Some(value));
            }
            Err(error) => error,
        };
        let is_passing = matches!(error.exit(), Exit::Unreachable | Exit::NotNow | Exit::Unknown);
        if !self.follows || !is_passing {
            return Err(error);
        }
        if !std::mem::replace(&mut self.is_told, true) {
            warn(&format!("{error}; tried again every second, from where it was"));
        }
        tokio::time::sleep(AGAIN_AFTER).await;
        Ok(None)
    }
}

/// Delivers records from `start` on; the file that then took the name.
async fn records(
    tail: &TailArguments,
    from: &RemotePath,
    file: &File,
    TailStart { offset, mut skipped }: TailStart,
    output: &Output,
) -> Result<Option<File>, CliError> {
    let doing = || format!("reading {from}");
    let mut warned = FollowerWarnings::default();
    let mut patience = FollowerPatience::of(tail);
    let mut reader =
        if tail.follows() { file.records_follow(offset) } else { file.records(offset) };
    let mut replaced = pin!(replacement(tail, from, file));
    let mut next_file = None;
    loop {
        let record = tokio::select! {
            record = reader.next() => record.doing(doing),
            another = &mut replaced, if next_file.is_none() => {
                next_file = Some(another);
                reader.follow_no_more();
                continue;
            }
        };
        if next_file.is_some() && is_gone(from, &record) {
            return Ok(next_file);
        }
        let Some(record) = patience.heed(record).await? else { continue };
        let Some(record) = record else {
            warned.heed(from, file);
            return Ok(next_file);
        };
        let size = usize::try_from(std::mem::take(&mut skipped)).unwrap_or(usize::MAX);
        // Where only its end is left, that is the terminator.
        output.bytes(&record.payload[size.min(record.payload.len())..])?;
        output.bytes(&[tail.records.terminator()])?;
        if tail.follows() {
            output.flush()?;
        }
        warned.heed(from, file);
    }
}

/// Whether a file that lost its name is not there any more, which is told: not all of it was read.
fn is_gone<T>(from: &RemotePath, came: &Result<T, CliError>) -> bool {
    let is_gone = matches!(came, Err(gone) if gone.exit() == Exit::NotFound);
    if is_gone {
        warn(&format!("{from}: the file that had this name is gone before all of it was read"));
    }
    is_gone
}

/// What a follower was warned of so far.
#[derive(Default)]
struct FollowerWarnings {
    doubted: bool,
    /// Bytes that were passed over.
    passed: u64,
}

impl FollowerWarnings {
    /// Warns where there is more to warn of.
    fn heed(&mut self, from: &RemotePath, file: &File) {
        let (doubted, passed) = (file.is_doubted(), file.bytes_passed_over());
        if (doubted && !self.doubted) || passed > self.passed {
            warn_of_doubts(from, file);
        }
        (self.doubted, self.passed) = (doubted, passed);
    }
}

/// Delivers bytes from `start` on; the file that then took the name.
async fn bytes(
    tail: &TailArguments,
    from: &RemotePath,
    file: &File,
    start: u64,
    output: &Output,
) -> Result<Option<File>, CliError> {
    let doing = || format!("reading {from}");
    if tail.follows() {
        return followed_bytes(tail, from, file, start, output).await.map(Some);
    }
    let mut reader = file.reader(start);
    while let Some(piece) = reader.next().await.doing(doing)? {
        output.bytes(&piece)?;
    }
    warn_of_doubts(from, file);
    Ok(None)
}

/// Delivers bytes from `at` on, to the end of a file that has lost its name; the one that took it.
async fn followed_bytes(
    tail: &TailArguments,
    from: &RemotePath,
    file: &File,
    mut at: u64,
    output: &Output,
) -> Result<File, CliError> {
    let doing = || format!("reading {from}");
    let mut follower = file.tail(at);
    let mut patience = FollowerPatience::of(tail);
    let mut warned = FollowerWarnings::default();
    let mut replaced = pin!(replacement(tail, from, file));
    let mut deliver = |piece: &[u8]| {
        output.bytes(piece)?;
        output.flush()?;
        warned.heed(from, file);
        Ok::<u64, CliError>(piece.len() as u64)
    };
    let another = loop {
        let piece = tokio::select! {
            piece = follower.next() => piece.doing(doing),
            another = &mut replaced => break another,
        };
        let Some(piece) = patience.heed(piece).await? else { continue };
        at += deliver(&piece)?;
    };
    let mut rest = file.reader(at);
    loop {
        let piece = rest.next().await.doing(doing);
        if is_gone(from, &piece) {
            return Ok(another);
        }
        match patience.heed(piece).await? {
            None => {}
            Some(Some(piece)) => drop(deliver(&piece)?),
            Some(None) => return Ok(another),
        }
    }
}

/// The offset behind the newline before the last `count` lines.
async fn start_of_lines(
    from: &RemotePath,
    file: &File,
    length: u64,
    count: u64,
) -> Result<u64, CliError> {
    // A newline at the very end ends the last line and begins none.
    let (mut end, mut wanted) = (length, count.saturating_add(1));
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

/// How much of the end of a file of records is wanted.
#[derive(Clone, Copy, Debug)]
enum LastWanted {
    Records(u64),
    /// As they are delivered, with what stands after each.
    Bytes(u64),
}

/// Where the last records begin that are wanted. How long records are is not known, so the search
/// goes back twice as far each time that too few are found.
async fn start_of_records(
    from: &RemotePath,
    file: &File,
    length: u64,
    wanted: LastWanted,
) -> Result<TailStart, CliError> {
    let (count, of) = match wanted {
        LastWanted::Records(count) => (count, (|_| 1) as fn(usize) -> u64),
        LastWanted::Bytes(count) => (count, (|size| size as u64 + 1) as fn(usize) -> u64),
    };
    if count == 0 {
        return Ok(TailStart { offset: length, skipped: 0 });
    }
    let mut step = STEP_SIZE;
    loop {
        let start = length.saturating_sub(step);
        let mut last = LastOnes { count, has: 0, ones: VecDeque::new() };
        let mut reader = file.records(start);
        while let Some(record) = reader.next().await.doing(|| format!("reading {from}"))? {
            last.push(record.offset, of(record.payload.len()));
        }
        match last.start() {
            Some(found) => return Ok(found),
            None if start == 0 => return Ok(TailStart::default()),
            None => step = step.saturating_mul(2),
        }
    }
}

/// The last records so far, as many as are needed for what is wanted.
struct LastOnes {
    count: u64,
    has: u64,
    ones: VecDeque<(u64, u64)>,
}

impl LastOnes {
    /// One more, at that offset, which counts for so much.
    fn push(&mut self, offset: u64, worth: u64) {
        self.ones.push_back((offset, worth));
        self.has += worth;
        while let Some((_, first)) = self.ones.front().filter(|it| self.has - it.1 >= self.count) {
            self.has -= first;
            self.ones.pop_front();
        }
    }

    /// Where they begin, if they are enough.
    fn start(&self) -> Option<TailStart> {
        let (offset, _) = self.ones.front().filter(|_| self.has >= self.count)?;
        Some(TailStart { offset: *offset, skipped: self.has - self.count })
    }
}

#[cfg(test)]
mod tests {
    use super::{LastOnes, nth_newline_from_end};
    use std::collections::VecDeque;

    #[test]
    fn newlines_are_counted_from_the_end() {
        assert_eq!(nth_newline_from_end(b"a\nb\nc\n", 1), Some(5));
        assert_eq!(nth_newline_from_end(b"a\nb\nc\n", 3), Some(1));
        assert_eq!(nth_newline_from_end(b"a\nb\nc\n", 4), None);
        assert_eq!(nth_newline_from_end(b"abc", 0), Some(2));
    }

    #[test]
    fn as_many_of_the_last_are_kept_as_are_needed_and_none_where_they_are_too_few() {
        let last = |count: u64, worths: &[u64]| {
            let mut last = LastOnes { count, has: 0, ones: VecDeque::new() };
            (0..).zip(worths).for_each(|(at, worth)| last.push(10 * at, *worth));
            last.start().map(|start| (start.offset, start.skipped))
        };
        assert_eq!(last(2, &[1, 1, 1]), Some((10, 0)), "records");
        assert_eq!(last(3, &[4, 4, 2]), Some((10, 3)), "bytes: the end of the one before");
        assert_eq!(last(2, &[4, 4, 2]), Some((20, 0)));
        assert_eq!(last(11, &[4, 4, 2]), None);
    }
}
