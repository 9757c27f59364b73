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
    under_way: VecDeque<PendingAnswer>,
    failed: Option<Error>,
}

impl Writer {
    pub(crate) fn new(file: Arc<OpenFile>, offset: u64) -> Self {
        let (gathered, under_way) = (BytesMut::new(), VecDeque::new());
        Self { file, offset, gathered, under_way, failed: None }
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
        while !self.under_way.is_empty() {
            self.await_one().await?;
        }
        self.failed.take().map_or(Ok(self.offset), Err)
    }

    async fn send_gathered(&mut self) -> Result<(), Error> {
        let bytes = self.gathered.split().freeze();
        self.send(bytes).await
    }

    async fn send(&mut self, bytes: Bytes) -> Result<(), Error> {
        if let Some(error) = &self.failed {
            return Err(error.clone());
        }
        let (file, sync, offset) = (self.file.entry.id, self.file.entry.synced, self.offset);
        assert!(bytes.len() <= WRITE_SIZE, "a write ends on a multiple of {WRITE_SIZE}");
        self.offset += bytes.len() as u64;
        let write = Operation::Write { file, offset, bytes, sync };
        self.under_way.push_back(self.file.link.begin(write));
        if self.under_way.len() >= WRITE_BEHIND {
            self.await_one().await?;
        }
        Ok(())
    }

    async fn await_one(&mut self) -> Result<(), Error> {
        let came = oldest(&mut self.under_way).await;
        self.failed = came.clone().err();
        came
    }
}

/// What came of the oldest of them, which goes; of whoever gives up waiting it stays, and what
/// came of it is told later.
async fn oldest(under_way: &mut VecDeque<PendingAnswer>) -> Result<(), Error> {
    let answer = under_way.front_mut().expect("whoever waits has sent a write");
    let came = answer.await;
    under_way.pop_front();
    answered(came).map(drop)
}

#[cfg(test)]
mod tests {
    use super::oldest;
    use cairn_protocol::{ErrorCode, Failure};
    use std::collections::VecDeque;
    use std::pin::pin;
    use std::task::{Context, Waker};
    use tokio::sync::oneshot::channel;

    #[test]
    fn what_came_of_a_write_is_told_though_an_earlier_wait_for_it_was_given_up() {
        let (tell, told) = channel();
        let mut under_way = VecDeque::from([told]);
        let mut context = Context::from_waker(Waker::noop());
        assert!(pin!(oldest(&mut under_way)).poll(&mut context).is_pending());
        tell.send(Err(Failure::refused(ErrorCode::DiskFull, "full"))).expect("is waited for");
        let mut again = pin!(oldest(&mut under_way));
        let std::task::Poll::Ready(came) = again.as_mut().poll(&mut context) else {
            panic!("it is there")
        };
        assert_eq!(came.map_err(|error| error.code()), Err(ErrorCode::DiskFull));
    }
}
