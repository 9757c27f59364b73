//! `cairn append`: records, or bytes, at the end of a file that many may append to at once.
//!
//! ```text
//!   stdin, files ──(a thread reads and cuts)──► channel ──► record writer, a window of them
//!                                                     or ──► plain appends, whole lines together
//! ```
//! - A1: a file of records gets one record for each line (or piece); a reader is given each once.
//! - A2: a file of bytes gets the bytes; whole lines stay together, and a line that was retried
//!   after a lost answer may stand there twice (GFS §2.7.1).

use crate::complaint::{Complaint, Doing};
use crate::session::{Place, Session};
use bytes::Bytes;
use cairn_client::{CreateOptions, File, RECORD_WINDOW};
use cairn_types::Content;
use clap::Args;
use std::io::{BufRead, BufReader, Read};
use std::path::PathBuf;
use tokio::sync::mpsc;

/// Records that may wait between the reading thread and the cell.
const WAITING_MAX: usize = 4096;
/// Bytes of what waits that are appended at once.
const BATCH_SIZE: usize = 256 << 10;

/// Arguments of `append`.
#[derive(Args, Debug)]
pub(crate) struct Append {
    /// Records end with a NUL instead of a newline
    #[arg(long)]
    null: bool,
    /// Every so many bytes are a record
    #[arg(long, value_name = "BYTES", conflicts_with = "null")]
    record_size: Option<u32>,
    /// A name for who appends; readers know each producer's records by number
    #[arg(long, default_value = "cairn-append", value_name = "NAME")]
    producer: String,
    /// Which file; made as a file of records where there is none
    path: String,
    /// Local files, or - for stdin
    #[arg(default_value = "-")]
    sources: Vec<PathBuf>,
}

/// How a stream is cut into records.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Cut {
    At(u8),
    Every(u32),
}

/// Cuts a stream; a terminator belongs to the record only where all bytes are kept.
#[derive(Clone, Copy, Debug)]
struct Cutter {
    cut: Cut,
    whole: bool,
}

/// Runs it.
pub(crate) async fn run(append: Append, session: &Session) -> Result<(), Complaint> {
    let cut = match append.record_size {
        Some(0) => {
            let advice = "--record-size takes at least 1";
            return Err(Complaint::usage("cutting records", "0 bytes are none", advice));
        }
        Some(size) => Cut::Every(size),
        None => Cut::At(if append.null { 0 } else { b'\n' }),
    };
    let to = session.place(&append.path).await?;
    let doing = || format!("appending to {to}");
    let create = CreateOptions { content: Content::Records, or_open: true, ..Default::default() };
    let file = to.cell.create(&to.path, create).await.doing(doing)?;
    let (sender, receiver) = mpsc::channel(WAITING_MAX);
    let sources = append.sources;
    let records = file.entry().content == Content::Records;
    let cutter = Cutter { cut, whole: !records };
    std::thread::spawn(move || read_all(sources, cutter, &sender));
    if records {
        append_records(&file, &to, &append.producer, receiver).await?;
    } else {
        append_bytes(&file, &to, receiver).await?;
    }
    file.close().await.doing(doing)
}

type Pieces = mpsc::Receiver<Result<Vec<u8>, Complaint>>;

async fn append_records(
    file: &File,
    to: &Place,
    producer: &str,
    mut pieces: Pieces,
) -> Result<(), Complaint> {
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
) -> Result<Option<Vec<u8>>, Complaint> {
    match held.take() {
        Some(piece) => Ok(Some(piece)),
        None => pieces.recv().await.transpose(),
    }
}

async fn append_bytes(file: &File, to: &Place, mut pieces: Pieces) -> Result<(), Complaint> {
    let doing = || format!("appending to {to}");
    let limit = batch_limit(to);
    let mut batch = Vec::new();
    while let Some(piece) = pieces.recv().await {
        let mut piece = piece?;
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
fn batch_limit(to: &Place) -> usize {
    let limit = to.cell.info().config.append_size_max() / 2;
    usize::try_from(limit).unwrap_or(BATCH_SIZE).min(BATCH_SIZE)
}

/// Runs on a thread of its own: reading stdin may wait for ever.
fn read_all(
    sources: Vec<PathBuf>,
    cutter: Cutter,
    sender: &mpsc::Sender<Result<Vec<u8>, Complaint>>,
) {
    for source in sources {
        let shown = source.display().to_string();
        let doing = || format!("reading {shown}");
        let done = if shown == "-" {
            read_one(std::io::stdin().lock(), cutter, sender)
        } else {
            std::fs::File::open(&source)
                .and_then(|file| read_one(BufReader::with_capacity(1 << 18, file), cutter, sender))
        };
        if let Err(error) = done {
            let _ = sender.blocking_send(Err(Complaint::new(doing(), error)));
            return;
        }
    }
}

fn read_one(
    mut reader: impl BufRead,
    cutter: Cutter,
    sender: &mpsc::Sender<Result<Vec<u8>, Complaint>>,
) -> std::io::Result<()> {
    while let Some(piece) = cutter.next(&mut reader)? {
        // Nobody takes it: the other side has failed and says so itself.
        if sender.blocking_send(Ok(piece)).is_err() {
            break;
        }
    }
    Ok(())
}

impl Cutter {
    /// The next piece; a last one without its terminator is one too.
    fn next(self, reader: &mut impl BufRead) -> std::io::Result<Option<Vec<u8>>> {
        let mut piece = Vec::new();
        let size = match self.cut {
            Cut::At(byte) => reader.read_until(byte, &mut piece)?,
            Cut::Every(size) => reader.take(u64::from(size)).read_to_end(&mut piece)?,
        };
        if let Cut::At(byte) = self.cut
            && !self.whole
            && piece.last() == Some(&byte)
        {
            piece.pop();
        }
        Ok((size > 0).then_some(piece))
    }
}

#[cfg(test)]
mod tests {
    use super::{Cut, Cutter};

    fn cut(text: &str, cut: Cut, whole: bool) -> Vec<String> {
        let mut reader = text.as_bytes();
        let next = || Cutter { cut, whole }.next(&mut reader).expect("reads");
        std::iter::from_fn(next).map(|piece| String::from_utf8(piece).expect("text")).collect()
    }

    #[test]
    fn lines_are_records_and_so_is_a_last_one_without_an_end() {
        assert_eq!(cut("a\n\nb", Cut::At(b'\n'), false), ["a", "", "b"]);
        assert_eq!(cut("a\n", Cut::At(b'\n'), false), ["a"]);
        assert_eq!(cut("", Cut::At(b'\n'), false), Vec::<String>::new());
    }

    #[test]
    fn a_size_cuts_anywhere_and_the_rest_is_a_record() {
        assert_eq!(cut("abcde", Cut::Every(2), false), ["ab", "cd", "e"]);
    }

    #[test]
    fn for_a_file_of_bytes_nothing_is_taken_away_and_nothing_added() {
        assert_eq!(cut("a\n\nb", Cut::At(b'\n'), true).concat(), "a\n\nb");
    }
}
