//! An open file.

use crate::error::Error;
use crate::link::Link;
use crate::open_file::{HolesRead, OpenFile};
use crate::reader::{Reader, Tail};
use crate::record_reader::RecordReader;
use crate::record_writer::RecordWriter;
use crate::writer::Writer;
use bytes::{Bytes, BytesMut};
use cairn_client_core::{Operation, Output};
use cairn_types::Entry;
use std::sync::Arc;

/// An open file; clones share it. Offsets and sizes are bytes.
///
/// Consistency is the paper's (§2.7.1): what one write or append at a time has put down is
/// *defined*; concurrent writes of one range may leave it *undefined* but the same on all
/// replicas; of concurrent appends each stands whole at least once.
#[derive(Clone, Debug)]
pub struct File {
    open: Arc<OpenFile>,
}

impl File {
    pub(crate) fn new(link: Arc<Link>, entry: Entry) -> Self {
        Self { open: Arc::new(OpenFile::new(link, entry)) }
    }

    /// The entry as it was when the file was opened; its length is the recorded one.
    #[must_use]
    pub fn entry(&self) -> &Entry {
        &self.open.entry
    }

    /// The acknowledged length now. Where the last chunk is being appended to, its primary is
    /// asked; where it may hold more than is known, the master levels its replicas first.
    ///
    /// # Errors
    /// `NotFound` where the file is gone; no replica of the last chunk answers within the
    /// deadline.
    pub async fn length(&self) -> Result<u64, Error> {
        let file = self.open.entry.id;
        match self.open.link.run(Operation::Length { file }).await? {
            Output::Length(length) => Ok(length),
            _ => Err(Error::mismatched()),
        }
    }

    /// Reads `size` bytes from `offset`; fewer only where the file ends. In a stream that has lost
    /// some of them this fails (`LostBytes`), though it could read what stands before. Holes, and
    /// the rest of a chunk that appends have left, read as zeros (§3.3). Every byte has passed its
    /// checksum.
    ///
    /// # Errors
    /// `NotFound`; no good replica of a chunk answers within the deadline. Nothing has happened.
    ///
    /// ```no_run
    /// # async fn example(file: cairn_client::File) -> Result<(), cairn_client::Error> {
    /// let head = file.read_at(0, 4096).await?;
    /// println!("{} bytes", head.len());
    /// # Ok(()) }
    /// ```
    pub async fn read_at(&self, offset: u64, size: u64) -> Result<Bytes, Error> {
        let file = self.open.entry.id;
        let (mut all, mut got) = (Vec::new(), 0);
        loop {
            let (offset, size) = (offset.saturating_add(got), size - got);
            let read = Operation::Read { file, offset, size, fresh: false };
            let (pieces, end) = self.open.take_read(self.open.link.run(read).await?)?;
            let more: u64 = pieces.iter().map(|piece| piece.len() as u64).sum();
            all.extend(pieces);
            got += more;
            // A read of a stream ends before what is lost (R41): the next one says so.
            if end || more >= size || more == 0 {
                return Ok(joined(all));
            }
        }
    }

    /// Whether any bytes that were read through this handle, its clones or its readers came from
    /// a replica that may have lost acknowledged bytes in a power failure, because no better one
    /// was there. What is missing reads as an earlier state of the file or as its end; the cell
    /// finds out, or a person decides, which replica is the truth.
    ///
    /// ```no_run
    /// # async fn example(file: cairn_client::File) -> Result<(), cairn_client::Error> {
    /// let head = file.read_at(0, 4096).await?;
    /// if file.is_doubted() {
    ///     eprintln!("not sure that these are the last bytes written");
    /// }
    /// # Ok(()) }
    /// ```
    #[must_use]
    pub fn is_doubted(&self) -> bool {
        self.open.is_doubted()
    }

    /// What was read through this handle, its clones or its readers as zeros, or passed over by
    /// readers of records, because it is lost and a person has made a hole of it
    /// ([`Stream::skip_lost`](crate::Stream::skip_lost)).
    #[must_use]
    pub fn holes_read(&self) -> HolesRead {
        self.open.holes().clone()
    }

    /// Bytes of [`Self::holes_read`].
    #[must_use]
    pub fn bytes_passed_over(&self) -> u64 {
        self.open.holes().bytes()
    }

    /// Writes `bytes` at `offset`; done when every replica holds them (§3.1), on disk where the
    /// file is a synced one. Split at chunk boundaries and into pieces of 1 MiB: another client's
    /// concurrent write may fall between two pieces.
    ///
    /// # Errors
    /// With outcome `Unknown`, any part may have been written; writing the same again is safe
    /// unless someone else has written there since.
    pub async fn write_at(&self, offset: u64, bytes: Bytes) -> Result<(), Error> {
        let (file, sync) = (self.open.entry.id, self.open.entry.synced);
        self.open.link.run(Operation::Write { file, offset, bytes, sync }).await.map(drop)
    }

    /// Appends `bytes` atomically at an offset that the cell chooses, and answers it (§3.3). At
    /// most a quarter of a chunk. They stand there at least once: after a failure with outcome
    /// `Unknown`, or a retry inside, they may stand elsewhere too. Whoever minds uses
    /// [`record_writer`](Self::record_writer).
    ///
    /// # Errors
    /// `RecordTooLarge`; otherwise as the outcome says.
    ///
    /// ```no_run
    /// # async fn example(file: cairn_client::File) -> Result<(), cairn_client::Error> {
    /// let offset = file.append("one event".into()).await?;
    /// # Ok(()) }
    /// ```
    pub async fn append(&self, bytes: Bytes) -> Result<u64, Error> {
        let (file, sync) = (self.open.entry.id, self.open.entry.synced);
        match self.open.link.run(Operation::Append { file, bytes, sync }).await? {
            Output::Appended { offset } => Ok(offset),
            _ => Err(Error::mismatched()),
        }
    }

    /// Makes everything that this client has written to the file so far durable on every replica,
    /// and has the master record the length, which it answers.
    ///
    /// # Errors
    /// Then some of it may be on disk; sync again.
    pub async fn sync(&self) -> Result<u64, Error> {
        self.recorded(Operation::Sync { file: self.open.entry.id }).await
    }

    /// Has the master record the length. Clones stay usable.
    ///
    /// # Errors
    /// The length is recorded later then, when the last chunk's lease ends. What was written
    /// stays written.
    pub async fn close(&self) -> Result<(), Error> {
        let file = self.open.entry.id;
        if !self.open.close() {
            return Ok(());
        }
        self.recorded(Operation::Close { file, sync: false }).await.map(drop)
    }

    async fn recorded(&self, operation: Operation) -> Result<u64, Error> {
        match self.open.link.run(operation).await? {
            Output::Recorded { length } => Ok(length),
            _ => Err(Error::mismatched()),
        }
    }

    /// Streams the file from `offset` to its end, with several reads under way ahead of the
    /// caller, across chunk boundaries too.
    ///
    /// ```no_run
    /// # async fn example(file: cairn_client::File) -> Result<(), cairn_client::Error> {
    /// let mut reader = file.reader(0);
    /// while let Some(piece) = reader.next().await? {
    ///     println!("{} bytes more", piece.len());
    /// }
    /// # Ok(()) }
    /// ```
    #[must_use]
    pub fn reader(&self, offset: u64) -> Reader {
        Reader::new(Arc::clone(&self.open), offset)
    }

    /// Streams bytes into the file from `offset` on, with several writes under way behind the
    /// caller.
    ///
    /// ```no_run
    /// # async fn example(file: cairn_client::File) -> Result<(), cairn_client::Error> {
    /// let mut writer = file.writer(0);
    /// writer.write("a long ".into()).await?;
    /// writer.write("story".into()).await?;
    /// assert_eq!(writer.finish().await?, 12);
    /// # Ok(()) }
    /// ```
    #[must_use]
    pub fn writer(&self, offset: u64) -> Writer {
        Writer::new(Arc::clone(&self.open), offset)
    }

    /// Follows the file as it grows.
    #[must_use]
    pub fn tail(&self, offset: u64) -> Tail {
        Tail::new(Arc::clone(&self.open), offset)
    }

    /// Appends records under `producer`'s name, each delivered once to every reader (§2.7.2).
    #[must_use]
    pub fn record_writer(&self, producer: &str) -> RecordWriter {
        RecordWriter::new(Arc::clone(&self.open), producer)
    }

    /// The records from `offset` (which need not be the start of one) to the end of the file, each
    /// once.
    ///
    /// ```no_run
    /// # async fn example(file: cairn_client::File) -> Result<(), cairn_client::Error> {
    /// let mut records = file.records(0);
    /// while let Some(record) = records.next().await? {
    ///     println!("{} of {}: {:?}", record.number, record.producer, record.payload);
    /// }
    /// # Ok(()) }
    /// ```
    #[must_use]
    pub fn records(&self, offset: u64) -> RecordReader {
        RecordReader::new(Arc::clone(&self.open), offset, false)
    }

    /// The same, without an end: waits for records to come.
    #[must_use]
    pub fn records_follow(&self, offset: u64) -> RecordReader {
        RecordReader::new(Arc::clone(&self.open), offset, true)
    }
}

fn joined(mut pieces: Vec<Bytes>) -> Bytes {
    match pieces.len() {
        0 => Bytes::new(),
        1 => pieces.swap_remove(0),
        _ => {
            let mut whole = BytesMut::with_capacity(pieces.iter().map(Bytes::len).sum());
            pieces.iter().for_each(|piece| whole.extend_from_slice(piece));
            whole.freeze()
        }
    }
}
