//! What the clones of an open file, its readers and its writers share.

use crate::error::Error;
use crate::link::Link;
use bytes::Bytes;
use cairn_client_core::Output;
use cairn_protocol::WaitLength;
use cairn_types::{Entry, Layout};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

/// How long a question for more of a stream waits at the master.
const PATIENCE: Duration = Duration::from_secs(10);
/// A stream that grows all the time is asked for no more often: what comes meanwhile is read
/// together, and a follower costs the master 200 answers a second at most.
const LOOK_EVERY: Duration = Duration::from_millis(5);

/// A file that is open; the last who holds it forgets it, unless it was closed.
#[derive(Debug)]
pub(crate) struct OpenFile {
    pub(crate) link: Arc<Link>,
    pub(crate) entry: Entry,
    closed: AtomicBool,
    doubted: AtomicBool,
}

impl OpenFile {
    pub(crate) fn new(link: Arc<Link>, entry: Entry) -> Self {
        Self { link, entry, closed: AtomicBool::new(false), doubted: AtomicBool::new(false) }
    }

    /// The bytes of a read and whether the file ends behind them; its warning is kept (R28).
    pub(crate) fn take_read(&self, output: Output) -> Result<(Vec<Bytes>, bool), Error> {
        let Output::Read { pieces, end, suspect } = output else { return Err(Error::mismatched()) };
        if suspect {
            self.doubted.store(true, Ordering::Relaxed);
        }
        Ok((pieces, end))
    }

    /// Whether any read so far came with a warning.
    pub(crate) fn is_doubted(&self) -> bool {
        self.doubted.load(Ordering::Relaxed)
    }

    /// Waits at the end of the file, which is at `offset`: of a stream until more is committed, or
    /// some seconds are over; of another file for `rest`.
    pub(crate) async fn wait_for_more(&self, offset: u64, rest: Duration) -> Result<(), Error> {
        if self.entry.layout == Layout::Stream {
            let patience = PATIENCE.min(self.link.deadline() / 2);
            let patience_ms = u64::try_from(patience.as_millis()).unwrap_or(u64::MAX);
            let (file, length) = (self.entry.id, offset);
            let wait = WaitLength { file, length, patience_ms, ..WaitLength::default() };
            let asked = Instant::now();
            self.link.ask(wait).await?;
            // One that stood still until now is read at once.
            return match LOOK_EVERY.checked_sub(asked.elapsed()) {
                Some(rest) if !rest.is_zero() => self.link.pause(rest).await,
                _ => Ok(()),
            };
        }
        self.link.pause(rest).await
    }

    /// Marks it closed; true the first time.
    pub(crate) fn close(&self) -> bool {
        !self.closed.swap(true, Ordering::Relaxed)
    }
}

impl Drop for OpenFile {
    fn drop(&mut self) {
        if !*self.closed.get_mut() {
            self.link.forget(self.entry.id);
        }
    }
}
