//! A stream that one process has for itself, to replace ranges of it (TFS §2.5, R46).
//!
//! - XL1: each replaced piece is one commit under the opening's number: readers see all of it or
//!   nothing, and an opening that is over replaces nothing more.

use crate::cell::Cell;
use crate::error::Error;
use crate::file::File;
use crate::link::Link;
use crate::producer::check_stream;
use bytes::Bytes;
use cairn_client_core::{OpenedProducer, Operation, Output, ProducerKey, ProducerMode};
use cairn_protocol::{ErrorCode, Failure, OpenProducer, PAYLOAD_SIZE_MAX};
use cairn_types::{CellPath, Content, EntryId, Epoch, RecordNumber};
use std::sync::Arc;
use std::time::{Duration, Instant};

/// How often a stream that another has is asked for.
const ASKED_EVERY: Duration = Duration::from_millis(200);
/// So many words of a holder fit in its lease.
const WORDS_PER_LEASE: u32 = 4;

/// How a stream is opened exclusively.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ExclusiveOptions {
    /// Where another has it, wait as long as operations may take, and do not fail at once.
    pub waits: bool,
    /// A piece is replaced only once it is on the disks of all who hold it, also where the file
    /// does not say so.
    pub sync: bool,
}

/// A stream of bytes that this process has for itself: nobody else replaces ranges of it, or
/// appends to it, until it is closed or dropped, or its lease runs out because nothing was heard
/// of it. Made by [`Cell::open_exclusive`].
#[derive(Debug)]
pub struct ExclusiveStream {
    link: Arc<Link>,
    key: ProducerKey,
    epoch: u64,
    next: u64,
    piece_size: usize,
    sync: bool,
    /// Nothing is renewed any more once it is dropped.
    _renewal: Arc<Renewal>,
    file: File,
}

impl Cell {
    /// Opens a stream of bytes exclusively, to replace ranges of it. Its producers wait meanwhile,
    /// or are told (`ProducerOptions::fails_if_locked`); its readers mind nothing.
    ///
    /// # Errors
    /// `NotFound`; `Invalid` where the file is no stream of bytes; `StreamLocked` where somebody
    /// else has it, and is not waited for, or not for so long.
    ///
    /// ```no_run
    /// # async fn example(cell: cairn_client::Cell) -> Result<(), cairn_client::Error> {
    /// # use cairn_client::{CellPath, ExclusiveOptions};
    /// let path = CellPath::parse("/pages").expect("a path");
    /// let mut pages = cell.open_exclusive(&path, ExclusiveOptions::default()).await?;
    /// pages.replace(4096, vec![0; 4096].into()).await?;
    /// pages.close().await
    /// # }
    /// ```
    pub async fn open_exclusive(
        &self,
        path: &CellPath,
        options: ExclusiveOptions,
    ) -> Result<ExclusiveStream, Error> {
        let file = self.open(path).await?;
        check_stream(path, &file)?;
        if file.entry().content == Content::Records {
            let why = format!(
                "{path} is a stream of records, which stand for ever; ranges are replaced in \
                 streams of bytes"
            );
            return Err(Error::invalid(why));
        }
        let began = Instant::now();
        let opened = loop {
            // Each asking is a mutation of its own: a refusal is remembered as the answer to it.
            match self.open_now(file.entry().id).await {
                Err(error)
                    if options.waits
                        && error.code() == ErrorCode::StreamLocked
                        && began.elapsed() < self.link.deadline() =>
                {
                    self.link.pause(ASKED_EVERY).await?;
                }
                opened => break opened?,
            }
        };
        let OpenedProducer { producer: key, epoch, number, lease_ms, .. } = opened;
        let size_max = self.info().config.append_size_max().min(u64::from(PAYLOAD_SIZE_MAX));
        let renewal = Arc::new(Renewal {
            link: Arc::clone(&self.link),
            file: file.entry().id,
            epoch,
            every: Duration::from_millis(lease_ms.max(1)) / WORDS_PER_LEASE,
        });
        renewal.wait();
        Ok(ExclusiveStream {
            link: Arc::clone(&self.link),
            key,
            epoch: epoch.get(),
            next: number.get().saturating_add(1),
            piece_size: usize::try_from(size_max).unwrap_or(usize::MAX),
            sync: options.sync || file.entry().synced,
            _renewal: renewal,
            file,
        })
    }

    async fn open_now(&self, file: EntryId) -> Result<OpenedProducer, Error> {
        let mode = ProducerMode { exclusive: true, ..ProducerMode::default() };
        let open = Operation::OpenProducer { file, name: String::new(), mode };
        match self.link.run(open).await? {
            Output::ProducerOpened(opened) => Ok(opened),
            _ => Err(Error::mismatched()),
        }
    }
}

/// Has an exclusive opening go on, until it is over or this is dropped. The client's own loop
/// counts the time, so that it does under any runtime.
#[derive(Debug)]
struct Renewal {
    link: Arc<Link>,
    file: EntryId,
    epoch: Epoch,
    every: Duration,
}

impl Renewal {
    fn wait(self: &Arc<Self>) {
        let renewal = Arc::downgrade(self);
        let rung = Box::new(move |rung: Result<Output, Failure>| {
            // It fails where the loop ends; nobody is left then whose opening it is.
            if let (Ok(_), Some(renewal)) = (rung, renewal.upgrade()) {
                renewal.ask();
            }
        });
        self.link.hand_over(Operation::Pause(self.every), self.every, rung);
    }

    fn ask(self: &Arc<Self>) {
        let (file, renews) = (self.file, self.epoch);
        let request = OpenProducer { file, exclusive: true, renews, ..OpenProducer::default() };
        let renewal = Arc::downgrade(self);
        let told = Box::new(move |told: Result<Output, Failure>| {
            let is_over = told.is_err_and(|failure| failure.code == ErrorCode::ProducerFenced);
            // A master that does not answer now may do so yet, and heed it still.
            if let (false, Some(renewal)) = (is_over, renewal.upgrade()) {
                renewal.wait();
            }
        });
        self.link.hand_over(Operation::Ask(request.into()), self.link.deadline(), told);
    }
}

impl ExclusiveStream {
    /// As any file.
    #[must_use]
    pub fn file(&self) -> &File {
        &self.file
    }

    /// The number of this opening: every later one's is higher.
    #[must_use]
    pub fn fencing_number(&self) -> u64 {
        self.epoch
    }

    /// So many bytes are replaced in one step; readers may see a longer range replaced in part.
    #[must_use]
    pub fn piece_size(&self) -> usize {
        self.piece_size
    }

    /// Replaces as many bytes as these are, from `offset` on; done when it is committed.
    ///
    /// # Errors
    /// `Invalid` where the stream has not so many; `ProducerFenced` where the lease ran out. Of a
    /// range of several pieces those before the failed one are replaced.
    pub async fn replace(&mut self, offset: u64, mut bytes: Bytes) -> Result<(), Error> {
        let length = self.file.length().await?;
        let size = bytes.len() as u64;
        if bytes.is_empty() || offset.checked_add(size).is_none_or(|end| end > length) {
            let why = format!(
                "{size} bytes at {offset} of a stream that is {length} bytes long: as many are \
                 replaced as there are"
            );
            return Err(Error::invalid(why));
        }
        let mut at = offset;
        while !bytes.is_empty() {
            let piece = bytes.split_to(bytes.len().min(self.piece_size));
            let size = piece.len() as u64;
            self.replace_piece(at, piece).await?;
            at += size;
        }
        Ok(())
    }

    /// XL1
    async fn replace_piece(&mut self, at: u64, bytes: Bytes) -> Result<(), Error> {
        let first = RecordNumber::new(self.next);
        self.next += 1;
        let send = Operation::SendBundle {
            producer: self.key,
            first,
            count: 1,
            bytes,
            cursor: None,
            sync: self.sync,
            replaces: Some(at),
        };
        match self.link.run(send).await? {
            Output::BundleCommitted { .. } => Ok(()),
            _ => Err(Error::mismatched()),
        }
    }

    /// Lets others have it.
    ///
    /// # Errors
    /// That could not be told: its lease runs out by itself.
    pub async fn close(self) -> Result<(), Error> {
        let close = Operation::CloseProducer { producer: self.key };
        self.link.run(close).await.map(drop)
    }
}

impl Drop for ExclusiveStream {
    fn drop(&mut self) {
        // Where nothing is on its way others can have it at once; else when its lease is over.
        let close = Operation::CloseProducer { producer: self.key };
        self.link.hand_over(close, self.link.deadline(), Box::new(drop));
        let forget = Operation::DropProducer { producer: self.key };
        self.link.hand_over(forget, Duration::ZERO, Box::new(drop));
    }
}
