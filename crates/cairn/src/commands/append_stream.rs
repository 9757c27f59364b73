//! `cairn append` to a stream: each line is in it exactly once, whatever is killed meanwhile.
//!
//! - AS1: with each line goes a cursor: so many lines of this input are in the stream, and their
//!   sum. Both are committed in one step, so `--resume-lines` goes on behind the last committed
//!   line, and passes over no lines of another input.
//! - AS2: `--cursor TEXT` goes with the last line, and with no other: once it is there, all are.
//! - AS3: where the input is resumed, a last line without its end, or a last piece that is shorter
//!   than the others, is not appended: who wrote it may have been killed, and what takes its place
//!   the next time would be passed over as that line.

use crate::cli_error::{Cause, CliError, Doing, warn};
use crate::commands::append::{Cut, InputPiece, Pieces};
use crate::commands::line_cursor::{LineCursor, SummedLines};
use crate::exit_codes::Exit;
use crate::output::Output;
use crate::session::RemotePath;
use bytes::Bytes;
use cairn_client::{Error, Producer, ProducerOptions};
use cairn_protocol::{ErrorCode, Outcome};
use clap::Args;
use serde_json::json;

/// What to do where this input is not the one that was begun.
const OTHER_INPUT_ADVICE: &str =
    "without --resume-lines all lines are appended; another --producer begins anew";

/// What to do where some lines may be in the stream.
const UNKNOWN_ADVICE: &str = "the last lines may be in the stream: 'cairn producers' shows how \
                              many are, and the last cursor; where none was given, the same input \
                              with --resume-lines goes on behind them";

/// What to do with a record that a stream does not take.
pub(super) const TOO_LARGE_ADVICE: &str = "cut it up: a record of a stream has at most 8 MiB with \
                                           its frame, or a quarter of a chunk where that is less";

/// How large a record of a stream may be, its frame included, of which a file takes so much.
pub(super) fn record_size_max(of_file: u64) -> u64 {
    let bundle_size = ProducerOptions::default().bundle_size;
    u64::try_from(bundle_size).unwrap_or(u64::MAX).min(of_file)
}

/// Arguments that only a stream knows.
#[derive(Args, Debug)]
pub(crate) struct StreamFlags {
    /// Of a stream: stored with the last line, and shown by 'cairn producers'
    #[arg(long, value_name = "TEXT", conflicts_with = "resume_lines")]
    cursor: Option<String>,
    /// Of a stream: the input is the same as before, from its start, and cut in the same way; go on
    /// behind the last line, or piece of --record-size, that is in the stream
    #[arg(long)]
    resume_lines: bool,
    /// Of a stream: say how many lines were skipped and appended
    #[arg(short, long)]
    verbose: bool,
}

impl StreamFlags {
    /// Whether what is asked for only a stream can do.
    pub(super) fn want_stream(&self) -> bool {
        self.resume_lines || self.cursor.is_some()
    }

    /// Refuses what no file takes, before any is made or opened.
    ///
    /// # Errors
    /// A name or a cursor of another size than they may have.
    pub(super) fn check_sizes(
        &self,
        producer: Option<&str>,
        to: &RemotePath,
    ) -> Result<(), CliError> {
        let doing = || format!("appending to {to}");
        producer.map_or(Ok(()), Producer::check_name).doing(doing)?;
        let cursor = self.cursor.as_ref().map(String::as_bytes);
        cursor.map_or(Ok(()), Producer::check_cursor).doing(doing)
    }

    /// Refuses what cannot be.
    ///
    /// # Errors
    /// A stream without a producer's name, or flags of a stream where there is none.
    pub(super) fn check(
        &self,
        is_stream: bool,
        producer: Option<&str>,
        to: &RemotePath,
    ) -> Result<(), CliError> {
        let doing = || format!("appending to {to}");
        if is_stream && producer.is_none() {
            let why = "a stream knows its producers by name";
            let advice = "--producer NAME: one that no other process has at the same time";
            return Err(CliError::usage(doing(), why, advice));
        }
        if !is_stream && self.want_stream() {
            let why = "it is no stream, and knows no cursors";
            let advice = "'cairn create --layout stream' makes one";
            return Err(CliError::usage(doing(), why, advice));
        }
        Ok(())
    }
}

/// How many lines of this input went how.
#[derive(Clone, Copy, Debug)]
struct Lines {
    summed: SummedLines,
    skipped: u64,
    appended: u64,
    /// Bytes of a last line or piece without its end (AS3).
    waiting: usize,
}

/// Appends all pieces.
///
/// # Errors
/// What is committed stays, and `--resume-lines` goes on behind it.
pub(super) async fn run(
    flags: &StreamFlags,
    (to, name): (&RemotePath, &str),
    (cut, mut pieces): (Cut, Pieces),
    output: &Output,
) -> Result<(), CliError> {
    let doing = || format!("appending to {to} as {name}");
    let opened = to.cell.open_producer(&to.path, name, ProducerOptions::default()).await;
    let producer = opened.doing(doing)?;
    let end = match cut {
        Cut::At(end) => Some(end),
        Cut::Every(_) => None,
    };
    let mut lines = Lines { summed: SummedLines::new(end), skipped: 0, appended: 0, waiting: 0 };
    if flags.resume_lines {
        let there = lines_there(&producer).map_err(|cause| CliError::new(doing(), cause))?;
        let skipped = skip(&mut pieces, there, &mut lines.summed).await?;
        skipped.map_err(|cause| CliError::new(doing(), cause))?;
        lines.skipped = there.lines;
    }
    let done = append_all(flags, &producer, &mut pieces, &mut lines, &doing).await;
    // What was taken before a failure counts all the same.
    let flushed = producer.flush().await.map_err(cause_of).doing(doing);
    // Where both fail, the flush knows what became of all that was taken.
    flushed.and(done)?;
    let (number, _) = producer.committed();
    producer.close().await.map_err(cause_of).doing(doing)?;
    let Lines { skipped, appended, waiting, .. } = lines;
    if waiting > 0 {
        warn(&waits_for_its_end(cut, waiting));
    }
    if flags.cursor.is_some() && appended == 0 {
        warn("the input is empty: the cursor is not stored, for it goes with a line");
    }
    let value = json!({
        "path": to.path.as_str(),
        "producer": name,
        "number": number,
        "skipped": skipped,
        "appended": appended,
        "waiting": waiting,
    });
    output.done(flags.verbose, &value, || {
        format!("{to}: {skipped} lines were there, {appended} are appended; the last is {number}")
    })
}

/// Tells of what is left out (AS3).
fn waits_for_its_end(cut: Cut, waiting: usize) -> String {
    let bytes = if waiting == 1 { "byte" } else { "bytes" };
    match cut {
        Cut::At(_) => format!(
            "the last line of the input has no end, and waits for it ({waiting} {bytes}): it is \
             not appended"
        ),
        Cut::Every(size) => format!(
            "the last record of the input has {waiting} {bytes}, and waits until it has {size}: it \
             is not appended"
        ),
    }
}

/// A failure of an append, with what to do. Whatever the master said at last: where it is not known
/// what became of a line, that is what counts.
fn cause_of(error: Error) -> Cause {
    let is_too_large = error.code() == ErrorCode::RecordTooLarge;
    let is_unknown =
        error.outcome() == Outcome::Unknown && error.code() != ErrorCode::ProducerFenced;
    let cause = Cause::from(error);
    if is_unknown {
        return Cause { exit: Exit::Unknown, advice: UNKNOWN_ADVICE.to_owned(), ..cause };
    }
    if is_too_large { Cause { advice: TOO_LARGE_ADVICE.to_owned(), ..cause } } else { cause }
}

async fn append_all(
    flags: &StreamFlags,
    producer: &Producer,
    pieces: &mut Pieces,
    lines: &mut Lines,
    doing: &impl Fn() -> String,
) -> Result<(), CliError> {
    // The last one is known by there being none behind it (AS2).
    let mut held: Option<Vec<u8>> = None;
    while let Some(piece) = pieces.recv().await {
        let InputPiece { bytes: piece, is_ended, .. } = piece?;
        if flags.resume_lines && !is_ended {
            lines.waiting = piece.len();
            break;
        }
        let next = if flags.cursor.is_some() { held.replace(piece) } else { Some(piece) };
        let Some(piece) = next else { continue };
        let taken = if flags.cursor.is_some() {
            producer.enqueue(&piece).await
        } else {
            lines.summed.add(&piece);
            let cursor = Bytes::from(lines.summed.cursor().to_string());
            producer.enqueue_with_cursor(&piece, cursor).await
        };
        // It tells its end to the flush behind all of them.
        drop(taken.map_err(cause_of).doing(doing)?);
        lines.appended += 1;
    }
    if let (Some(piece), Some(cursor)) = (held, &flags.cursor) {
        let taken = producer.enqueue_with_cursor(&piece, Bytes::from(cursor.clone())).await;
        drop(taken.map_err(cause_of).doing(doing)?);
        lines.appended += 1;
    }
    Ok(())
}

/// How many lines of the input that was begun are in the stream, and which (AS1).
fn lines_there(producer: &Producer) -> Result<LineCursor, Cause> {
    let (number, cursor) = producer.committed();
    let why = match &cursor {
        None if number == 0 => return Ok(LineCursor { lines: 0, sum: None }),
        None if producer.is_cursor_gone() => {
            "its cursor is too old, and has gone: nobody knows which line was the last".to_owned()
        }
        None => format!("it has {number} records, and no cursor says which lines these are"),
        Some(cursor) => {
            let text = String::from_utf8_lossy(&cursor.text);
            match LineCursor::parse(&text) {
                Some(there) if cursor.number.get() == number => return Ok(there),
                Some(there) => {
                    format!("behind line {} it has records of another source", there.lines)
                }
                None => format!("its cursor is {text:?}, and no line of an input"),
            }
        }
    };
    Err(Cause::new(Exit::Usage, why, OTHER_INPUT_ADVICE))
}

/// Passes over lines that are in the stream; none of an input that has others there (AS1).
async fn skip(
    pieces: &mut Pieces,
    there: LineCursor,
    summed: &mut SummedLines,
) -> Result<Result<(), Cause>, CliError> {
    let count = there.lines;
    let mut whole = 0;
    for _ in 0..count {
        let Some(piece) = pieces.recv().await.transpose()? else {
            return Ok(Err(too_few(whole, count)));
        };
        summed.add(&piece.bytes);
        whole += u64::from(piece.is_ended);
    }
    let found = summed.cursor();
    if there.sum.is_none() || found == there {
        return Ok(Ok(()));
    }
    // Who writes it may not be done with the last one, or was killed there.
    if whole < count {
        return Ok(Err(too_few(whole, count)));
    }
    let why = format!(
        "the first lines of the input are not those that are in the stream ({found}; in the \
         stream: {there}): it is another input"
    );
    Ok(Err(Cause::new(Exit::Usage, why, OTHER_INPUT_ADVICE)))
}

fn too_few(lines: u64, there: u64) -> Cause {
    let why =
        format!("the input has {lines} lines, and {there} are in the stream: it is another input");
    Cause::new(Exit::Usage, why, "leave --resume-lines out to append all of it")
}

#[cfg(test)]
mod tests {
    use super::cause_of;
    use crate::exit_codes::Exit;
    use cairn_client::Error;
    use cairn_protocol::{ErrorCode, Failure};

    #[test]
    fn what_may_be_in_the_stream_counts_before_why_the_last_try_was_refused() {
        let exit = |failure: Failure| cause_of(Error::from(failure)).exit;
        assert_eq!(exit(Failure::refused(ErrorCode::QuotaExceeded, "full")), Exit::Quota);
        assert_eq!(exit(Failure::unknown(ErrorCode::QuotaExceeded, "full")), Exit::Unknown);
        assert_eq!(exit(Failure::unknown(ErrorCode::NotFound, "deleted")), Exit::Unknown);
        assert_eq!(exit(Failure::unknown(ErrorCode::ProducerFenced, "over")), Exit::Fenced);
    }
}
