//! A file that is open, and its producer: lines go from one to the other.
//!
//! ```text
//!   file ──(pieces)──► lines ──(each with a cursor)──► producer
//!      ▲                                                  │ opened anew, also after a failure:
//!      └──────── read on behind what is committed ◄───────┘ its cursor says where
//! ```
//! - OS1: what the opening of the producer says is where reading goes on; nothing else is trusted.
//! - OS2: bytes are sent only if the file's first bytes are still the ones that were read.
//! - OS3: a turn may be cut off at any time, by a signal: what it was about to send is unsure then,
//!   and is found out anew by OS1.

use super::line_cutter::LineCutter;
use super::log_directory::{look, read_at, read_head};
use super::source_cursor::{
    BytesSum, FileBytes, FileKey, FileSeen, HEAD_SIZE_MAX, ShippedSoFar, SourceCursor, SourceStart,
    StartUnknown, TAIL_SIZE_MAX, tail_size,
};
use crate::cli_error::{Cause, CliError, Doing, warn};
use crate::exit_codes::{Exit, PRODUCER_ADVICE};
use crate::session::RemotePath;
use bytes::Bytes;
use cairn_client::{PendingAppend, Producer, ProducerOptions, Stream};
use cairn_types::crc32c;
use std::collections::VecDeque;
use std::fs::File;
use std::future::poll_fn;
use std::pin::Pin;
use std::task::Poll;

/// Bytes that are read at once.
const PIECE_SIZE: u64 = 256 << 10;

/// Where lines go.
pub(super) struct ShipTarget {
    /// What it was called when shipping began; for people.
    pub(super) to: RemotePath,
    /// All of a run go to this one, also where its path is another's by now: the cursors are in it.
    pub(super) stream: Stream,
    /// What the producers' names begin with.
    pub(super) name: String,
    pub(super) options: ProducerOptions,
    /// Bytes that a record may have.
    pub(super) line_size_max: usize,
    /// Of a stream of bytes.
    pub(super) keeps_newline: bool,
}

impl ShipTarget {
    /// The producer of a file. Not by its device, whose number may be another after a boot.
    pub(super) fn producer_name(&self, key: FileKey) -> String {
        format!("{}/{}", self.name, key.inode)
    }

    /// How far that file is shipped, as the stream tells without an opening.
    ///
    /// # Errors
    /// Where it does not answer.
    pub(super) async fn so_far(&self, key: FileKey) -> Result<ShippedSoFar, CliError> {
        let name = self.producer_name(key);
        let known = self.stream.producer(&name).await;
        let known = known.doing(|| format!("asking for the producer {name} of {}", self.to))?;
        Ok(known.map_or_else(ShippedSoFar::default, |known| ShippedSoFar {
            number: known.number.get(),
            cursor: known.cursor.map(|it| (it.number.get(), text_of(&it.text))),
            changed_ms: Some(known.changed.as_millis()),
        }))
    }
}

fn text_of(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

/// The one line about a file of which nobody knows how far it is shipped.
pub(super) fn unknown_start(
    why: &StartUnknown,
    name: &str,
    target: &ShipTarget,
    key: FileKey,
) -> CliError {
    let producer = target.producer_name(key);
    let advice =
        format!("'cairn producers {} forget {producer}' has it shipped from its start", target.to);
    CliError::new(format!("shipping {name}"), Cause::new(Exit::Usage, why.to_string(), advice))
}

/// Tells of a file that is begun anew, and what that can cost.
pub(super) fn tell_begun_anew(name: &str, start: SourceStart, size: u64) {
    let (what, shipped) = match start {
        SourceStart::Truncated { shipped } => ("shrank, or was written anew in its place", shipped),
        SourceStart::Replaced { shipped } => {
            ("was cut short and has grown again, or was written anew in its place", shipped)
        }
        SourceStart::New | SourceStart::Behind(_) | SourceStart::InodeUsedAgain => return,
    };
    warn(&format!(
        "{name} {what} ({shipped} bytes of it were shipped, it has {size} now): it is shipped from \
         its start; lines that were shipped of it and that it still has, as after a power loss of \
         this machine, are in the stream twice, and so are those of a copy with a name that is \
         asked for (copytruncate); lines that were cut away and not shipped are lost; rotate by \
         renaming"
    ));
}

/// What a turn has done.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct SourceTurn {
    /// Read up to here, of so many bytes.
    pub(super) offset: u64,
    pub(super) size: u64,
    /// Something was read, or is under way.
    pub(super) is_busy: bool,
    /// There may be more to be read at once.
    pub(super) is_reading: bool,
    /// Something was committed since the producer was opened.
    pub(super) is_committed: bool,
}

/// Lines that are in the stream.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct CommittedLines {
    pub(super) count: u64,
    pub(super) bytes: u64,
}

/// A line that is on its way.
#[derive(Clone, Copy, Debug)]
struct SentLine {
    /// Where in the file it ends.
    end: u64,
    size: u64,
}

/// A file that is open.
pub(super) struct OpenSource {
    key: FileKey,
    file: File,
    cutter: LineCutter,
    /// Its first bytes, of what was read.
    head: Vec<u8>,
    /// Its last bytes, of what was sent.
    tail: Vec<u8>,
    read: u64,
    /// Lines that are not known to be committed, in order.
    under_way: VecDeque<SentLine>,
    /// Those that are, and that nobody has asked for yet.
    committed: CommittedLines,
    producer: Option<Producer>,
    /// How far it is shipped, as the stream told last: of an old cursor it tells once.
    so_far: ShippedSoFar,
    /// Where it was begun anew, as people were told: an opening in vain is not told of again (SI2).
    told: Option<SourceStart>,
    /// Of the last line that was sent: all are committed when it is.
    last: Option<PendingAppend>,
    /// What was sent may not be there: only an opening tells (OS1).
    is_unsure: bool,
    /// The last part that was sent was not a line's last.
    is_in_long_line: bool,
}

impl OpenSource {
    /// Goes on at `offset`, as the stream tells.
    ///
    /// # Errors
    /// Where the file cannot be read.
    pub(super) fn new(
        key: FileKey,
        file: File,
        offset: u64,
        target: &ShipTarget,
    ) -> std::io::Result<Self> {
        let head = read_head(&file, offset)?;
        let cutter = LineCutter::new(target.line_size_max, target.keeps_newline);
        Ok(Self {
            key,
            file,
            cutter,
            head,
            tail: Vec::new(),
            read: offset,
            under_way: VecDeque::new(),
            committed: CommittedLines::default(),
            producer: None,
            so_far: ShippedSoFar::default(),
            told: None,
            last: None,
            is_unsure: false,
            is_in_long_line: false,
        })
    }

    /// Up to where lines were sent.
    fn sent(&self) -> u64 {
        self.read - self.cutter.waiting() as u64
    }

    /// How many bytes wait for their newline.
    pub(super) fn waiting(&self) -> usize {
        self.cutter.waiting()
    }

    /// How many bytes are behind its last newline.
    pub(super) fn unfinished(&self) -> usize {
        self.cutter.unfinished()
    }

    /// How long the file is now.
    ///
    /// # Errors
    /// Where the file cannot be asked.
    pub(super) fn size(&self) -> std::io::Result<u64> {
        Ok(look(&self.file, "")?.size)
    }

    /// Bytes of it that are not known to be in the stream.
    ///
    /// # Errors
    /// Where the file cannot be asked.
    pub(super) fn unshipped(&mut self) -> std::io::Result<u64> {
        self.count_committed();
        let start = |line: &SentLine| line.end.saturating_sub(line.size);
        let from = self.under_way.front().map_or_else(|| self.sent(), start);
        Ok(self.size()?.saturating_sub(from))
    }

    /// The lines that were committed since this was asked the last time.
    pub(super) fn take_committed(&mut self) -> CommittedLines {
        std::mem::take(&mut self.committed)
    }

    /// Whether something that was sent is not known to be there.
    pub(super) fn is_unsure(&self) -> bool {
        self.is_unsure
    }

    /// Reads a piece, up to `limit`, and sends its lines.
    ///
    /// # Errors
    /// Where the file cannot be read, or the stream takes nothing: after [`fail`](Self::fail) it
    /// may be tried again.
    pub(super) async fn turn(
        &mut self,
        target: &ShipTarget,
        name: &str,
        limit: u64,
    ) -> Result<SourceTurn, CliError> {
        let mut turn = SourceTurn::default();
        if self.is_unsure {
            self.fail();
        }
        self.see_to_last(target, name).await?;
        let reading = || format!("reading {name}");
        let mut size = look(&self.file, name).doing(reading)?.size;
        if size < self.read {
            self.truncated(name, size);
        }
        if self.is_unsure {
            self.open_producer(target, name).await?;
            turn.is_busy = true;
        }
        let before = self.read;
        if self.read < size.min(limit) {
            let wanted = (size.min(limit) - self.read).min(PIECE_SIZE);
            let wanted = usize::try_from(wanted).unwrap_or_default();
            let piece = read_at(&self.file, self.read, wanted).doing(reading)?;
            let head = read_head(&self.file, self.read).doing(reading)?;
            size = look(&self.file, name).doing(reading)?.size;
            if head != self.head || size < self.read {
                self.truncated(name, size);
            } else if self.producer.is_none() && self.has_line(&piece, target) {
                // It says where to go on, and the next turn does.
                self.open_producer(target, name).await?;
                turn.is_busy = true;
            } else {
                self.take(&piece);
                self.send_lines(target, name).await?;
            }
        }
        self.count_committed();
        turn.is_reading = turn.is_busy || self.read != before;
        turn.is_busy = turn.is_reading || self.last.is_some();
        (turn.offset, turn.size) = (self.read, size);
        let committed = self.producer.as_ref().map(|producer| producer.committed().0);
        turn.is_committed = committed.is_some_and(|number| number > self.so_far.number);
        Ok(turn)
    }

    /// Whether there is something to be sent once the piece is taken.
    fn has_line(&self, piece: &[u8], target: &ShipTarget) -> bool {
        piece.contains(&b'\n') || self.cutter.waiting() + piece.len() > target.line_size_max
    }

    fn take(&mut self, piece: &[u8]) {
        let room = HEAD_SIZE_MAX.saturating_sub(self.head.len()).min(piece.len());
        self.head.extend_from_slice(&piece[..room]);
        self.cutter.push(piece);
        self.read += piece.len() as u64;
    }

    fn truncated(&mut self, name: &str, size: u64) {
        tell_begun_anew(name, SourceStart::Truncated { shipped: self.sent() }, size);
        self.go_to(0, Vec::new(), Vec::new());
        // No cursor of the new bytes will say what became of these.
        self.count_up_to(u64::MAX);
    }

    /// Counts what is committed by now: the last cursor says up to where.
    fn count_committed(&mut self) {
        let Some(producer) = self.producer.as_ref().filter(|_| !self.under_way.is_empty()) else {
            return;
        };
        let (_, cursor) = producer.committed();
        let cursor = cursor.and_then(|it| SourceCursor::parse(&text_of(&it.text)));
        self.count_up_to(cursor.map_or(0, |cursor| cursor.offset));
    }

    fn count_up_to(&mut self, offset: u64) {
        while let Some(line) = self.under_way.pop_front_if(|line| line.end <= offset) {
            self.committed.count += 1;
            self.committed.bytes += line.size;
        }
    }

    fn go_to(&mut self, offset: u64, head: Vec<u8>, tail: Vec<u8>) {
        self.cutter.clear();
        (self.read, self.head, self.tail) = (offset, head, tail);
    }

    async fn send_lines(&mut self, target: &ShipTarget, name: &str) -> Result<(), CliError> {
        // Without one, there is no line yet.
        let Some(producer) = &self.producer else { return Ok(()) };
        let born = look(&self.file, name).doing(|| format!("reading {name}"))?.born;
        let mut offset = self.read - self.cutter.waiting() as u64;
        // Until the last is taken (OS3).
        self.is_unsure = true;
        while let Some(line) = self.cutter.line() {
            let start = offset;
            offset += line.size;
            let newline: &[u8] = if line.size > line.bytes.len() as u64 { b"\n" } else { b"" };
            grow_tail(&mut self.tail, &[line.bytes, newline]);
            let cursor = cursor_at(born, self.key, (&self.head, &self.tail), offset, name);
            if line.is_part && !self.is_in_long_line {
                let limit = target.line_size_max;
                let why = format!("is longer than {limit} bytes: it goes as several records");
                warn(&format!("{name}: the line at byte {start} {why}"));
            }
            self.is_in_long_line = line.is_part;
            let taken = producer.enqueue_with_cursor(line.bytes, cursor).await;
            self.last = Some(sent(taken, target, name)?);
            self.under_way.push_back(SentLine { end: offset, size: offset - start });
        }
        self.is_unsure = false;
        Ok(())
    }

    /// Sends what waits for a newline that will never come.
    ///
    /// # Errors
    /// As [`turn`](Self::turn).
    pub(super) async fn send_rest(
        &mut self,
        target: &ShipTarget,
        name: &str,
        limit: u64,
    ) -> Result<SourceTurn, CliError> {
        if self.producer.is_none() {
            self.open_producer(target, name).await?;
        }
        let mut turn = self.turn(target, name, limit).await?;
        let Some(producer) = &self.producer else { return Ok(turn) };
        if self.read < turn.size.min(limit) || self.cutter.waiting() == 0 {
            return Ok(turn);
        }
        let born = look(&self.file, name).doing(|| format!("reading {name}"))?.born;
        self.is_unsure = true;
        let mut rest = self.cutter.take_rest();
        let size = rest.len() as u64;
        grow_tail(&mut self.tail, &[&rest]);
        let cursor = cursor_at(born, self.key, (&self.head, &self.tail), self.read, name);
        // What another producer appends next would be of the same line.
        if target.keeps_newline {
            rest.push(b'\n');
        }
        let taken = producer.enqueue_with_cursor(&rest, cursor).await;
        self.last = Some(sent(taken, target, name)?);
        self.under_way.push_back(SentLine { end: self.read, size });
        self.is_unsure = false;
        turn.is_busy = true;
        Ok(turn)
    }

    /// Opens the producer, and goes on behind what it has (OS1). Where nobody will know where that
    /// is, it is not opened: each opening leaves an epoch behind (FT1).
    async fn open_producer(&mut self, target: &ShipTarget, name: &str) -> Result<(), CliError> {
        let so_far = target.so_far(self.key).await?.after(&self.so_far);
        if so_far.number == 0 && self.so_far.number > 0 {
            warn(&format!("the producer of {name} was forgotten: it is shipped from its start"));
        }
        self.so_far = so_far;
        self.start(target, name)?;
        let producer_name = target.producer_name(self.key);
        let opened = target.stream.open_producer(&producer_name, target.options).await;
        let producer = opened.doing(|| sending(target, name))?;
        // From here on an epoch is spent, also where the rest of it fails.
        self.producer = Some(producer);
        self.note_committed();
        let (seen, head, start) = self.start(target, name)?;
        if self.told.replace(start) != Some(start) {
            tell_begun_anew(name, start, seen.size);
        }
        // What is not there is sent anew.
        self.count_up_to(start.offset());
        self.under_way.clear();
        let known = usize::try_from(start.offset()).unwrap_or(HEAD_SIZE_MAX).min(head.len());
        let tail = tail_before(&self.file, start.offset()).doing(|| format!("reading {name}"))?;
        self.go_to(start.offset(), head[..known].to_vec(), tail);
        self.is_unsure = false;
        Ok(())
    }

    /// Takes in how far the open producer is.
    fn note_committed(&mut self) {
        let Some(producer) = &self.producer else { return };
        let (number, cursor) = producer.committed();
        let cursor = cursor.map(|it| (it.number.get(), text_of(&it.text)));
        let changed_ms = self.so_far.changed_ms;
        self.so_far = ShippedSoFar { number, cursor, changed_ms }.after(&self.so_far);
    }

    /// Where the file goes on, as far as it is known, and how the file is.
    fn start(
        &self,
        target: &ShipTarget,
        name: &str,
    ) -> Result<(FileSeen, Vec<u8>, SourceStart), CliError> {
        let found = start_of(&self.so_far, &self.file, name);
        let (seen, head, start) = found.doing(|| format!("reading {name}"))?;
        let start = start.map_err(|why| unknown_start(&why, name, target, self.key))?;
        Ok((seen, head, start))
    }

    /// Whether all that was sent is committed, as far as is known by now.
    async fn see_to_last(&mut self, target: &ShipTarget, name: &str) -> Result<(), CliError> {
        let Some(last) = &mut self.last else { return Ok(()) };
        let told = poll_fn(|cx| match Pin::new(&mut *last).poll(cx) {
            Poll::Ready(told) => Poll::Ready(Some(told)),
            Poll::Pending => Poll::Ready(None),
        });
        match told.await {
            None => Ok(()),
            Some(told) => {
                self.last = None;
                sent(told, target, name).map(drop)
            }
        }
    }

    /// What was sent is not known to be there; the next turn finds out. Whether the producer was
    /// open.
    pub(super) fn fail(&mut self) -> bool {
        self.note_committed();
        let was_open = self.producer.is_some();
        self.is_unsure |= was_open || self.last.is_some();
        (self.producer, self.last) = (None, None);
        was_open
    }

    /// Waits until all is committed, and ends the producer's opening.
    ///
    /// # Errors
    /// What was not committed; it stays as it is in the file, and in no stream.
    pub(super) async fn close(&mut self, target: &ShipTarget, name: &str) -> Result<(), CliError> {
        let Some(producer) = &self.producer else { return Ok(()) };
        let flushed = producer.flush().await;
        self.count_committed();
        let producer = self.producer.take().expect("it was there");
        sent(flushed, target, name)?;
        sent(producer.close().await, target, name)
    }
}

/// What is committed with the line that ends at `offset`: the file's first bytes, and the last ones
/// before that.
fn cursor_at(
    born: Option<u64>,
    key: FileKey,
    (head, tail): (&[u8], &[u8]),
    offset: u64,
    name: &str,
) -> Bytes {
    let head_size = usize::try_from(offset).unwrap_or(HEAD_SIZE_MAX).min(head.len());
    let (head, tail_sum) = (BytesSum::of(&head[..head_size]), Some(crc32c(tail)));
    let name = name.to_owned();
    Bytes::from(SourceCursor { key, born, head, offset, tail_sum, name }.text())
}

/// Where a file goes on that is shipped so far, how it is now, and its first bytes.
///
/// # Errors
/// Where the file cannot be read.
pub(super) fn start_of(
    so_far: &ShippedSoFar,
    file: &File,
    name: &str,
) -> std::io::Result<(FileSeen, Vec<u8>, Result<SourceStart, StartUnknown>)> {
    let seen = look(file, name)?;
    let head = read_head(file, seen.size)?;
    let (from, size) = so_far.tail_place();
    let tail = read_at(file, from, size)?;
    let start = so_far.start(&seen, FileBytes { head: &head, tail: &tail });
    Ok((seen, head, start))
}

/// The last bytes before an offset that a cursor's sum covers.
fn tail_before(file: &File, offset: u64) -> std::io::Result<Vec<u8>> {
    let size = tail_size(offset);
    read_at(file, offset - size as u64, size)
}

/// What was sent last is its end from now on.
fn grow_tail(tail: &mut Vec<u8>, parts: &[&[u8]]) {
    for part in parts {
        tail.extend_from_slice(&part[part.len().saturating_sub(TAIL_SIZE_MAX)..]);
    }
    tail.drain(..tail.len().saturating_sub(TAIL_SIZE_MAX));
}

/// What an open producer answered: one that is unknown is not looked for among paths.
fn sent<T>(
    answer: Result<T, cairn_client::Error>,
    target: &ShipTarget,
    name: &str,
) -> Result<T, CliError> {
    let answer = answer.doing(|| sending(target, name));
    answer.map_err(|error| error.advising(Exit::NotFound, PRODUCER_ADVICE))
}

fn sending(target: &ShipTarget, name: &str) -> String {
    format!("shipping {name} to {}", target.to)
}
