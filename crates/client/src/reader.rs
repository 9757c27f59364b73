//! Streaming reads: several under way ahead of the caller (A7, design §7).

use crate::error::Error;
use crate::link::{PendingAnswer, wait};
use crate::open_file::OpenFile;
use bytes::Bytes;
use cairn_client_core::Operation;
use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Duration;

/// Bytes of one read; reads end on multiples of it.
const READ_SIZE: u64 = 1 << 20;
/// Reads under way at once.
const READ_AHEAD: usize = 6;
/// Rests of a follower at the end of a file: from the first, doubling to the last.
pub(crate) const REST_MIN: Duration = Duration::from_millis(10);
pub(crate) const REST_MAX: Duration = Duration::from_millis(250);

/// A stream of a file's bytes. Made by [`File::reader`](crate::File::reader).
#[derive(Debug)]
pub struct Reader {
    file: Arc<OpenFile>,
    /// Where the next read to be sent starts.
    ahead: u64,
    /// Reads under way: where each starts, and its bytes.
    under_way: VecDeque<(u64, u64, PendingAnswer)>,
    ready: VecDeque<Bytes>,
    ended: bool,
}

impl Reader {
    pub(crate) fn new(file: Arc<OpenFile>, offset: u64) -> Self {
        let (under_way, ready) = (VecDeque::new(), VecDeque::new());
        Self { file, ahead: offset, under_way, ready, ended: false }
    }

    /// The next bytes, in order; nothing at the end of the file. Pieces have any size.
    ///
    /// # Errors
    /// As [`File::read_at`](crate::File::read_at). The stream can be asked again and goes on
    /// where it failed.
    pub async fn next(&mut self) -> Result<Option<Bytes>, Error> {
        loop {
            if let Some(piece) = self.ready.pop_front() {
                return Ok(Some(piece));
            }
            self.send_reads();
            let Some((at, size, answer)) = self.under_way.front_mut() else { return Ok(None) };
            let (at, size) = (*at, *size);
            let result = answer.await.map_err(|_| Error::stopped());
            self.under_way.pop_front();
            match result.and_then(|result| self.file.take_read(result?)) {
                Ok((pieces, end)) => {
                    self.ended |= end;
                    let got: u64 = pieces.iter().map(|piece| piece.len() as u64).sum();
                    self.ready.extend(pieces);
                    if end {
                        self.under_way.clear();
                    } else if got < size {
                        // A stream ends a read before what is lost (R41).
                        self.under_way.clear();
                        self.ahead = at + got;
                    }
                }
                Err(error) => {
                    self.under_way.clear();
                    self.ahead = at;
                    return Err(error);
                }
            }
        }
    }

    fn send_reads(&mut self) {
        while !self.ended && self.under_way.len() < READ_AHEAD {
            let (file, offset) = (self.file.entry.id, self.ahead);
            let size = READ_SIZE - offset % READ_SIZE;
            let read = Operation::Read { file, offset, size, fresh: false };
            self.under_way.push_back((offset, size, self.file.link.begin(read)));
            self.ahead = offset.saturating_add(size);
        }
        assert!(self.ended || !self.under_way.is_empty(), "reads go ahead up to the end");
    }
}

/// A file's bytes as they come. Made by [`File::tail`](crate::File::tail).
#[derive(Debug)]
pub struct Tail {
    file: Arc<OpenFile>,
    offset: u64,
    ready: VecDeque<Bytes>,
}

impl Tail {
    pub(crate) fn new(file: Arc<OpenFile>, offset: u64) -> Self {
        Self { file, offset, ready: VecDeque::new() }
    }

    /// The next bytes; waits until there are some.
    ///
    /// # Errors
    /// As [`File::read_at`](crate::File::read_at); it can be asked again.
    pub async fn next(&mut self) -> Result<Bytes, Error> {
        let mut rest = REST_MIN;
        loop {
            if let Some(piece) = self.ready.pop_front() {
                self.offset += piece.len() as u64;
                return Ok(piece);
            }
            let (file, offset) = (self.file.entry.id, self.offset);
            let read = Operation::Read { file, offset, size: READ_SIZE, fresh: false };
            let output = wait(self.file.link.begin(read)).await?;
            let (pieces, _) = self.file.take_read(output)?;
            self.ready.extend(pieces);
            if self.ready.is_empty() {
                self.file.wait_for_more(offset, rest).await?;
                rest = (rest * 2).min(REST_MAX);
            }
        }
    }
}
