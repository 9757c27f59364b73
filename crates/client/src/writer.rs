//! Streaming writes: gathered into pieces of 1 MiB, several under way behind the caller.

use crate::error::Error;
use crate::link::{PendingAnswer, answered};
use crate::open_file::OpenFile;
use bytes::{Bytes, BytesMut};
use cairn_client_core::Operation;
use std::collections::VecDeque;
use std::sync::Arc;

/// Bytes of one write; writes end on multiples of it.
const WRITE_SIZE: usize = 1 << 20;
/// Writes under way at once.
const WRITE_BEHIND: usize = 8;

/// A stream into a file. Made by [`File::writer`](crate::File::writer).
///
/// Dropped without [`finish`](Self::finish), the last bytes may not have been written.
#[derive(Debug)]
pub struct Writer {
    file: Arc<OpenFile>,
    /// Where the gathered bytes go.
    offset: u64,
    gathered: BytesMut,
    under_way: WritesUnderWay,
}

impl Writer {
    pub(crate) fn new(file: Arc<OpenFile>, offset: u64) -> Self {
        let (gathered, under_way) = (BytesMut::new(), WritesUnderWay::default());
        Self { file, offset, gathered, under_way }
    }

    /// Takes the next bytes. They are under way, not done, when this returns.
    ///
    /// # Errors
    /// That of any write before: what was taken since the start may be there or not, and this
    /// writer takes no more.
    pub async fn write(&mut self, mut bytes: Bytes) -> Result<(), Error> {
        while !bytes.is_empty() {
            let end = self.offset + self.gathered.len() as u64;
            let room = WRITE_SIZE - (end % WRITE_SIZE as u64) as usize;
            assert!(self.gathered.len() < WRITE_SIZE, "what fills a write is sent at once");
            let part = bytes.split_to(room.min(bytes.len()));
            if part.len() < room {
                self.gathered.extend_from_slice(&part);
            } else if self.gathered.is_empty() {
                self.send(part).await?;
            } else {
                self.gathered.extend_from_slice(&part);
                self.send_gathered().await?;
            }
        }
        Ok(())
    }

    /// Waits until all that was taken is written, and answers the offset behind it.
    ///
    /// # Errors
    /// That of any write before.
    pub async fn finish(mut self) -> Result<u64, Error> {
        if !self.gathered.is_empty() {
            self.send_gathered().await?;
        }
        self.under_way.all_but(0).await?;
        Ok(self.offset)
    }

    async fn send_gathered(&mut self) -> Result<(), Error> {
        let bytes = self.gathered.split().freeze();
        self.send(bytes).await
    }

    async fn send(&mut self, bytes: Bytes) -> Result<(), Error> {
        self.under_way.check()?;
        let (file, sync, offset) = (self.file.entry.id, self.file.entry.synced, self.offset);
        assert!(bytes.len() <= WRITE_SIZE, "a write ends on a multiple of {WRITE_SIZE}");
        self.offset += bytes.len() as u64;
        let write = Operation::Write { file, offset, bytes, sync };
        self.under_way.answers.push_back(self.file.link.begin(write));
        self.under_way.all_but(WRITE_BEHIND - 1).await
    }
}

/// Writes whose end nobody has seen yet, the oldest first.
#[derive(Debug, Default)]
struct WritesUnderWay {
    answers: VecDeque<PendingAnswer>,
    /// How the first of them failed that did.
    failed: Option<Error>,
}

impl WritesUnderWay {
    /// Fails where one has failed.
    fn check(&self) -> Result<(), Error> {
        self.failed.clone().map_or(Ok(()), Err)
    }

    /// Waits until so many are left; fails where one has failed. What somebody gave up waiting for
    /// stays: how it ended is told later.
    async fn all_but(&mut self, left: usize) -> Result<(), Error> {
        while self.answers.len() > left {
            let oldest = self.answers.front_mut().expect("there are more");
            let came = oldest.await;
            self.answers.pop_front();
            if let Err(error) = answered(came) {
                self.failed.get_or_insert(error);
            }
            self.check()?;
        }
        self.check()
    }
}

#[cfg(test)]
mod tests {
    use super::WritesUnderWay;
    use cairn_client_core::Output;
    use cairn_protocol::{ErrorCode, Failure};
    use std::pin::pin;
    use std::task::{Context, Poll, Waker};
    use tokio::sync::oneshot::channel;

    /// What comes of waiting for all but so many; none where it is given up.
    fn wait(under_way: &mut WritesUnderWay, left: usize) -> Option<Result<(), ErrorCode>> {
        let mut context = Context::from_waker(Waker::noop());
        match pin!(under_way.all_but(left)).poll(&mut context) {
            Poll::Ready(came) => Some(came.map_err(|error| error.code())),
            Poll::Pending => None,
        }
    }

    #[test]
    fn what_failed_is_told_though_waiting_was_given_up_and_others_did_not_fail() {
        let mut under_way = WritesUnderWay::default();
        let tell = [0; 3].map(|_| {
            let (tell, told) = channel();
            under_way.answers.push_back(told);
            tell
        });
        assert_eq!(wait(&mut under_way, 0), None);
        let full = || Failure::refused(ErrorCode::DiskFull, "full");
        for (tell, came) in tell.into_iter().zip([Err(full()), Ok(Output::Written), Err(full())]) {
            tell.send(came).expect("is waited for");
        }
        assert_eq!(wait(&mut under_way, 2), Some(Err(ErrorCode::DiskFull)), "the first");
        assert_eq!(wait(&mut under_way, 1), Some(Err(ErrorCode::DiskFull)), "it stays so");
        assert_eq!(
            (wait(&mut under_way, 0), under_way.answers.len()),
            (Some(Err(ErrorCode::DiskFull)), 0)
        );
    }
}
