//! What the clones of an open file, its readers and its writers share.

use crate::error::Error;
use crate::link::Link;
use bytes::Bytes;
use cairn_client_core::{HoleRead, Output};
use cairn_protocol::WaitLength;
use cairn_types::{Entry, Layout};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

/// How long a question for more of a stream waits at the master.
const PATIENCE: Duration = Duration::from_secs(10);
/// A stream that grows all the time is asked for no more often: what comes meanwhile is read
/// together, and a follower costs the master 200 answers a second at most.
const LOOK_EVERY: Duration = Duration::from_millis(5);

/// Holes of which it is kept where they are.
const HOLES_KEPT_MAX: usize = 1024;

/// A file that is open; the last who holds it forgets it, unless it was closed.
#[derive(Debug)]
pub(crate) struct OpenFile {
    pub(crate) link: Arc<Link>,
    pub(crate) entry: Entry,
    closed: AtomicBool,
    doubted: AtomicBool,
    holes: Mutex<HolesRead>,
}

/// What readers have passed over, because it is lost (R41).
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct HolesRead {
    /// Bytes.
    pub bytes: u64,
    /// Where they were in the file: each range's start and end. Only the first so many are kept.
    pub ranges: Vec<(u64, u64)>,
}

impl HolesRead {
    fn note(&mut self, hole: HoleRead) {
        let (from, to) = (hole.offset, hole.offset.saturating_add(hole.size));
        // Reads of one reader end and begin anew within a hole; and several may read it.
        if self.ranges.iter().any(|(start, end)| (*start..*end).contains(&from) && to <= *end) {
            return;
        }
        self.bytes = self.bytes.saturating_add(hole.size);
        let has_room = self.ranges.len() < HOLES_KEPT_MAX;
        match self.ranges.iter_mut().find(|(_, end)| *end == from) {
            Some((_, end)) => *end = to,
            None if has_room => self.ranges.push((from, to)),
            None => {}
        }
    }
}

impl OpenFile {
    pub(crate) fn new(link: Arc<Link>, entry: Entry) -> Self {
        let (closed, doubted) = (AtomicBool::new(false), AtomicBool::new(false));
        Self { link, entry, closed, doubted, holes: Mutex::default() }
    }

    /// The bytes of a read and whether the file ends behind them; its warning is kept (R28).
    pub(crate) fn take_read(&self, output: Output) -> Result<(Vec<Bytes>, bool), Error> {
        let Output::Read { pieces, end, suspect, holes } = output else {
            return Err(Error::mismatched());
        };
        if !holes.is_empty() {
            let mut all = self.holes();
            holes.into_iter().for_each(|hole| all.note(hole));
        }
        if suspect {
            self.doubted.store(true, Ordering::Relaxed);
        }
        Ok((pieces, end))
    }

    /// Whether any read so far came with a warning.
    pub(crate) fn is_doubted(&self) -> bool {
        self.doubted.load(Ordering::Relaxed)
    }

    /// What the reads so far have passed over.
    pub(crate) fn holes(&self) -> MutexGuard<'_, HolesRead> {
        self.holes.lock().unwrap_or_else(PoisonError::into_inner)
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
