//! `cairn append`: records, or bytes, at the end of a file that many may append to at once.
//!
//! ```text
//!   stdin, files ──(a thread reads and cuts)──► channel ──► record writer, a window of them
//!                                                     or ──► plain appends, whole lines together
//! ```
//! A stream has a way of its own (`append_stream.rs`): each record is in it exactly once.
//!
//! - A1: a file of records gets one record for each line (or piece); a reader is given each once.
//! - A2: a file of bytes gets the bytes; whole lines stay together, and a line that was retried
//!   after a lost answer may stand there twice (GFS §2.7.1).
//! - A3: a line without an end is refused once it is longer than any record; it is never read
//!   into memory whole.
//! - A4: what was read and not taken has 64 MiB at the most, however long its lines are.

use crate::cli_error::{Cause, CliError, Doing};
use crate::commands::append_stream::{self, StreamFlags};
use crate::exit_codes::{Exit, advice};
use crate::output::Output;
use crate::session::{RemotePath, Session};
use bytes::Bytes;
use cairn_client::{CreateOptions, File, RECORD_WINDOW};
use cairn_protocol::{ErrorCode, Outcome};
use cairn_types::{Content, Layout};
use clap::Args;
use std::io::{BufRead, BufReader, Read};
use std::path::PathBuf;
use std::sync::Arc;
use tokio::runtime::Handle;
use tokio::sync::{OwnedSemaphorePermit, Semaphore, mpsc};

/// Records that may wait between the reading thread and the cell.
const WAITING_MAX: usize = 4096;
/// Bytes that may wait there.
const WAITING_SIZE_MAX: usize = 64 << 20;
/// Bytes of what waits that are appended at once.
const BATCH_SIZE: usize = 256 << 10;

/// Who appends where nobody says so.
const PRODUCER_DEFAULT: &str = "cairn-append";

/// Arguments of `append`.
#[derive(Args, Debug)]
pub(crate) struct AppendArguments {
    /// Records end with a NUL instead of a newline
    #[arg(long)]
    null: bool,
    /// Every so many bytes are a record
    #[arg(long, value_name = "BYTES", conflicts_with = "null")]
    record_size: Option<u32>,
    /// A name for who appends; readers know each producer's records by number. A stream keeps it
    /// for ever: whoever appends to it has a name of its own [default: cairn-append]
    #[arg(long, value_name = "NAME")]
    producer: Option<String>,
    #[command(flatten)]
    stream: StreamFlags,
    /// Which file; made as a file of records where there is none, and as a stream with --cursor or
    /// --resume-lines
    path: String,
    /// Local files, or - for stdin
    #[arg(default_value = "-")]
    sources: Vec<PathBuf>,
}

/// How a stream is cut into records.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Cut {
    At(u8),
    Every(u32),
}

/// Cuts a stream; a terminator belongs to the record only where all bytes are kept.
#[derive(Clone, Copy, Debug)]
struct Cutter {
    cut: Cut,
    whole: bool,
    /// Bytes that a piece may have.
    size_max: u64,
    /// Of the file: what has more is told what may be there.
    layout: Layout,
}

/// Runs it.
pub(crate) async fn run(
    append: AppendArguments,
    session: &Session,
    output: &Output,
) -> Result<(), CliError> {
    let cut = match append.record_size {
        Some(0) => {
            let advice = "--record-size takes at least 1";
            return Err(CliError::usage("cutting records", "0 bytes are none", advice));
        }
        Some(size) => Cut::Every(size),
        None => Cut::At(if append.null { 0 } else { b'\n' }),
    };
    let to = session.remote_path(&append.path).await?;
    let doing = || format!("appending to {to}");
    let size_max = to.cell.info().config.append_size_max();
    // What is refused makes no file.
    check_size(cut, size_max, Layout::Chunks).map_err(|cause| CliError::new(doing(), cause))?;
    let producer = append.producer.as_deref();
    append.stream.check_sizes(producer, &to)?;
    let layout = append.stream.want_stream().then_some(Layout::Stream);
    // What is refused makes no file; what is there is opened, whatever its layout is.
    if layout.is_some() {
        append.stream.check(true, producer, &to)?;
    }
    check_sources(&append.sources)?;
    let file = open_or_make(&append, &to, layout).await?;
    let is_stream = file.entry().layout == Layout::Stream;
    append.stream.check(is_stream, producer, &to)?;
    let layout = file.entry().layout;
    let size_max = if is_stream { append_stream::record_size_max(size_max) } else { size_max };
    check_size(cut, size_max, layout).map_err(|cause| CliError::new(doing(), cause))?;
    let (sender, receiver) = mpsc::channel(WAITING_MAX);
    let sources = append.sources;
    let records = file.entry().content == Content::Records;
    let cutter = Cutter { cut, whole: !records, size_max, layout };
    let (room, runtime) = (Arc::new(Semaphore::new(WAITING_SIZE_MAX)), Handle::current());
    let reader = InputReader { cutter, sender, room, runtime };
    std::thread::spawn(move || reader.read_all(sources));
    let producer = producer.unwrap_or(PRODUCER_DEFAULT);
    if is_stream {
        append_stream::run(&append.stream, (&to, producer), (cut, receiver), output).await?;
    } else if records {
        append_records(&file, &to, producer, receiver).await?;
    } else {
        append_bytes(&file, &to, receiver).await?;
    }
    file.close().await.doing(doing)
}

/// What cannot be read is told before a file is made for it, and before whoever appends under the
/// same name is fenced off.
fn check_sources(sources: &[PathBuf]) -> Result<(), CliError> {
    for source in sources.iter().filter(|source| source.as_os_str() != "-") {
        let doing = || format!("reading {}", source.display());
        let about = std::fs::metadata(source).doing(doing)?;
        if about.is_dir() {
            let cause = Cause::new(Exit::Local, "it is a directory", "name a file");
            return Err(CliError::new(doing(), cause));
        }
        // To open a pipe would wait for who writes into it.
        if about.is_file() {
            std::fs::File::open(source).doing(doing)?;
        }
    }
    Ok(())
}

/// The file, which is made where there is none; but no stream for who has no name there.
async fn open_or_make(
    append: &AppendArguments,
    to: &RemotePath,
    layout: Option<Layout>,
) -> Result<File, CliError> {
    let doing = || format!("appending to {to}");
    if append.producer.is_none() {
        match to.cell.open(&to.path).await {
            Err(error) if error.code() == ErrorCode::NotFound => {}
            opened => return opened.doing(doing),
        }
        if let Some(above) = to.path.parent() {
            // Where it cannot be asked, making the file says why.
            let policy = to.cell.policy(&above).await;
            let makes_stream = policy.is_ok_and(|it| it.policy.layout == Layout::Stream);
            append.stream.check(makes_stream, None, to)?;
        }
    }
    let (content, or_open) = (Content::Records, true);
    let create = CreateOptions { content, or_open, layout, ..Default::default() };
    to.cell.create(&to.path, create).await.doing(doing)
}

pub(super) type Pieces = mpsc::Receiver<Result<InputPiece, CliError>>;

/// A line, or whatever else is to be a record.
#[derive(Debug)]
pub(super) struct InputPiece {
    pub(super) bytes: Vec<u8>,
    /// All of it is there. Of the last piece of the input nobody knows, where its terminator or
    /// some of its bytes lack: who wrote it may have been killed.
    pub(super) is_ended: bool,
    // What it takes of the room of those that wait (A4).
    _room: OwnedSemaphorePermit,
}

/// The thread that reads, and where it hands pieces over.
struct InputReader {
    cutter: Cutter,
    sender: mpsc::Sender<Result<InputPiece, CliError>>,
    /// Bytes that may wait there (A4).
    room: Arc<Semaphore>,
    runtime: Handle,
}

async fn append_records(
    file: &File,
    to: &RemotePath,
    producer: &str,
    mut pieces: Pieces,
) -> Result<(), CliError> {
    let writer = file.record_writer(producer);
    let limit = batch_limit(to);
    let mut held = None;
    while let Some(first) = next(&mut held, &mut pieces).await? {
        let mut size = first.len();
        let mut batch = vec![first];
        // What is there already goes together; nothing waits for what is not there yet. The next
        // batch waits for this one, so that the order stays (R37).
        while (batch.len() as u64) < RECORD_WINDOW && !pieces.is_empty() {
            let Some(piece) = next(&mut held, &mut pieces).await? else { break };
            size += piece.len();
            if size > limit {
                held = Some(piece);
                break;
            }
            batch.push(piece);
        }
        let batch: Vec<&[u8]> = batch.iter().map(Vec::as_slice).collect();
        writer.append_all(&batch).await.doing(|| format!("appending to {to}"))?;
    }
    Ok(())
}

/// The piece that did not fit before, or the next one.
async fn next(
    held: &mut Option<Vec<u8>>,
    pieces: &mut Pieces,
) -> Result<Option<Vec<u8>>, CliError> {
    match held.take() {
        Some(piece) => Ok(Some(piece)),
        None => Ok(pieces.recv().await.transpose()?.map(|piece| piece.bytes)),
    }
}

async fn append_bytes(file: &File, to: &RemotePath, mut pieces: Pieces) -> Result<(), CliError> {
    let doing = || format!("appending to {to}");
    let limit = batch_limit(to);
    let mut batch = Vec::new();
    while let Some(piece) = pieces.recv().await {
        let mut piece = piece?.bytes;
        if !batch.is_empty() && batch.len() + piece.len() > limit {
            file.append(Bytes::from(std::mem::take(&mut batch))).await.doing(doing)?;
        }
        batch.append(&mut piece);
        if pieces.is_empty() {
            file.append(Bytes::from(std::mem::take(&mut batch))).await.doing(doing)?;
        }
    }
    Ok(())
}

/// Half of what one append may have, at most: frames and escapes take room too.
fn batch_limit(to: &RemotePath) -> usize {
    let limit = to.cell.info().config.append_size_max() / 2;
    usize::try_from(limit).unwrap_or(BATCH_SIZE).min(BATCH_SIZE)
}

impl InputReader {
    /// Runs on a thread of its own: reading stdin may wait for ever.
    fn read_all(&self, sources: Vec<PathBuf>) {
        let last = sources.len().saturating_sub(1);
        for (nth, source) in sources.into_iter().enumerate() {
            let shown = source.display().to_string();
            let is_last = nth == last;
            let done = if shown == "-" {
                self.read_one(std::io::stdin().lock(), is_last)
            } else {
                std::fs::File::open(&source).map_err(Cause::from).and_then(|file| {
                    self.read_one(BufReader::with_capacity(1 << 18, file), is_last)
                })
            };
            if let Err(error) = done {
                let doing = format!("reading {shown}");
                let _ = self.sender.blocking_send(Err(CliError::new(doing, error)));
                return;
            }
        }
    }

    /// Mostly there is some, and to wait costs more than a short line.
    fn room_for(&self, size: u32) -> OwnedSemaphorePermit {
        let room = Arc::clone(&self.room).try_acquire_many_owned(size);
        room.unwrap_or_else(|_| {
            let awaited = Arc::clone(&self.room).acquire_many_owned(size);
            self.runtime.block_on(awaited).expect("nobody closes it")
        })
    }

    fn read_one(&self, mut reader: impl BufRead, is_last: bool) -> Result<(), Cause> {
        while let Some((bytes, is_ended)) = self.cutter.next(&mut reader)? {
            let size = u32::try_from(bytes.len().min(WAITING_SIZE_MAX)).unwrap_or(u32::MAX);
            let room = self.room_for(size);
            let is_ended = is_ended || !is_last;
            let piece = InputPiece { bytes, is_ended, _room: room };
            // Nobody takes it: the other side has failed and says so itself.
            if self.sender.blocking_send(Ok(piece)).is_err() {
                break;
            }
        }
        Ok(())
    }
}

/// Refuses a size of records that none may have.
fn check_size(cut: Cut, size_max: u64, layout: Layout) -> Result<(), Cause> {
    match cut {
        Cut::Every(size) if u64::from(size) > size_max => {
            Err(too_large("--record-size", size_max, layout))
        }
        Cut::Every(_) | Cut::At(_) => Ok(()),
    }
}

fn too_large(what: &str, size_max: u64, layout: Layout) -> Cause {
    let why = format!("{what} has more than {size_max} bytes");
    let advice = match layout {
        Layout::Stream => append_stream::TOO_LARGE_ADVICE,
        Layout::Chunks => advice(ErrorCode::RecordTooLarge, Outcome::Refused),
    };
    Cause::new(Exit::Usage, why, advice)
}

impl Cutter {
    /// The next piece, and whether all of it is there; a last one without its terminator is one.
    ///
    /// # Errors
    /// Where reading fails, or a line is longer than any record (A3).
    fn next(self, reader: &mut impl BufRead) -> Result<Option<(Vec<u8>, bool)>, Cause> {
        let mut piece = Vec::new();
        let size = match self.cut {
            // One byte more than may be: the terminator, or the proof that there is none.
            Cut::At(byte) => reader.take(self.size_max + 1).read_until(byte, &mut piece)?,
            Cut::Every(size) => reader.take(u64::from(size)).read_to_end(&mut piece)?,
        };
        let is_ended = match self.cut {
            Cut::At(byte) => piece.last() == Some(&byte),
            Cut::Every(size) => piece.len() as u64 == u64::from(size),
        };
        if is_ended && !self.whole && matches!(self.cut, Cut::At(_)) {
            piece.pop();
        }
        if piece.len() as u64 > self.size_max {
            return Err(too_large("a line of it", self.size_max, self.layout));
        }
        Ok((size > 0).then_some((piece, is_ended)))
    }
}

#[cfg(test)]
mod tests {
    use super::{Cut, Cutter, InputReader, WAITING_SIZE_MAX};
    use cairn_types::Layout;
    use std::io::Read;
    use std::sync::Arc;
    use tokio::sync::Semaphore;

    fn cut(text: &str, cut: Cut, whole: bool) -> Vec<String> {
        let mut reader = text.as_bytes();
        let cutter = Cutter { cut, whole, size_max: 8, layout: Layout::Chunks };
        let next = || cutter.next(&mut reader).expect("reads");
        let text = |(piece, _)| String::from_utf8(piece).expect("text");
        std::iter::from_fn(next).map(text).collect()
    }

    #[test]
    fn lines_are_records_and_so_is_a_last_one_without_an_end() {
        assert_eq!(cut("a\n\nb", Cut::At(b'\n'), false), ["a", "", "b"]);
        assert_eq!(cut("a\n", Cut::At(b'\n'), false), ["a"]);
        assert_eq!(cut("", Cut::At(b'\n'), false), Vec::<String>::new());
    }

    #[test]
    fn of_a_last_piece_without_its_end_more_may_come_and_of_nothing_else() {
        let ends = |text: &str, cut, whole| {
            let mut reader = text.as_bytes();
            let cutter = Cutter { cut, whole, size_max: 8, layout: Layout::Chunks };
            let next = || cutter.next(&mut reader).expect("reads");
            std::iter::from_fn(next).map(|(_, is_ended)| is_ended).collect::<Vec<_>>()
        };
        for whole in [false, true] {
            assert_eq!(ends("a\n\nb", Cut::At(b'\n'), whole), [true, true, false]);
            assert_eq!(ends("a\n", Cut::At(b'\n'), whole), [true]);
            assert_eq!(ends("abcde", Cut::Every(2), whole), [true, true, false]);
            assert_eq!(ends("abcd", Cut::Every(2), whole), [true; 2]);
        }
    }

    #[test]
    fn a_size_cuts_anywhere_and_the_rest_is_a_record() {
        assert_eq!(cut("abcde", Cut::Every(2), false), ["ab", "cd", "e"]);
    }

    #[test]
    fn a_line_without_an_end_is_refused_once_it_is_longer_than_any_record() {
        assert_eq!(cut("12345678\n", Cut::At(b'\n'), false), ["12345678"]);
        for whole in [false, true] {
            let mut endless = std::io::BufReader::new(std::io::repeat(b'x'));
            let (cut, layout) = (Cut::At(b'\n'), Layout::Chunks);
            let cutter = Cutter { cut, whole, size_max: 1 << 20, layout };
            let cause = cutter.next(&mut endless).expect_err("no end");
            assert!(cause.why.contains("more than 1048576 bytes"), "{}", cause.why);
            assert!(cause.advice.contains("at most a quarter of a chunk: cut"), "{}", cause.advice);
            let of_stream = Cutter { layout: Layout::Stream, ..cutter };
            let cause = of_stream.next(&mut endless).expect_err("no end");
            assert!(cause.advice.contains("at most 8 MiB with its frame"), "{}", cause.advice);
        }
    }

    #[test]
    fn what_was_read_and_not_taken_has_so_many_bytes_at_the_most_and_a_large_line_passes() {
        let runtime = tokio::runtime::Builder::new_current_thread().build().expect("a runtime");
        let (sender, mut receiver) = tokio::sync::mpsc::channel(super::WAITING_MAX);
        let room = Arc::new(Semaphore::new(WAITING_SIZE_MAX));
        let (size_max, layout) = (1 << 20, Layout::Chunks);
        let cutter = Cutter { cut: Cut::Every(1 << 20), whole: true, size_max, layout };
        let (room_seen, runtime_of_thread) = (room.clone(), runtime.handle().clone());
        let reader = InputReader { cutter, sender, room, runtime: runtime_of_thread };
        let count = WAITING_SIZE_MAX / (1 << 20) + 6;
        let bytes = std::io::repeat(b'x').take((count as u64) << 20);
        let read = std::thread::spawn(move || {
            reader.read_one(std::io::BufReader::new(bytes), true).expect("reads");
        });
        let mut taken = 0;
        // The last that has room is waited for, and no more come than have.
        while taken < count {
            let piece = runtime.block_on(receiver.recv()).expect("a piece").expect("it reads");
            let waiting = receiver.len() + 1;
            assert!(waiting <= WAITING_SIZE_MAX >> 20, "{waiting} MiB wait");
            assert_eq!(piece.bytes.len(), 1 << 20);
            taken += 1;
        }
        read.join().expect("ends");
        assert!(runtime.block_on(receiver.recv()).is_none());
        assert_eq!(room_seen.available_permits(), WAITING_SIZE_MAX, "all is given back");
    }

    #[test]
    fn for_a_file_of_bytes_nothing_is_taken_away_and_nothing_added() {
        assert_eq!(cut("a\n\nb", Cut::At(b'\n'), true).concat(), "a\n\nb");
    }
}
