//! What the clones of an open file, its readers and its writers share.

use crate::error::Error;
use crate::link::Link;
use bytes::Bytes;
use cairn_client_core::{HoleRead, Output};
use cairn_protocol::WaitLength;
use cairn_types::{Entry, Layout};
use std::collections::BTreeMap;
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
    /// In order, none beside another: where each begins in the file, and where it ends. Of very
    /// many the first so many that were met.
    ranges: BTreeMap<u64, u64>,
    /// Bytes of those that had no room, each time that they were met.
    more: u64,
}

impl HolesRead {
    /// Bytes.
    #[must_use]
    pub fn bytes(&self) -> u64 {
        self.ranges.iter().map(|(from, to)| to - from).sum::<u64>().saturating_add(self.more)
    }

    /// Where they were in the file, in order: each range's start and end.
    pub fn ranges(&self) -> impl Iterator<Item = (u64, u64)> + '_ {
        self.ranges.iter().map(|(from, to)| (*from, *to))
    }

    /// Several readers may read a hole, and one more than once, each time from elsewhere on.
    fn note(&mut self, hole: HoleRead) {
        let (mut from, mut to) = (hole.offset, hole.offset.saturating_add(hole.size));
        while let Some((start, end)) = self.ranges.range(..=to).next_back()
            && *end >= from
        {
            (from, to) = (from.min(*start), to.max(*end));
            let start = *start;
            self.ranges.remove(&start);
        }
        if self.ranges.len() < HOLES_KEPT_MAX {
            self.ranges.insert(from, to);
        } else {
            self.more = self.more.saturating_add(to - from);
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

#[cfg(test)]
mod tests {
    use super::HolesRead;
    use cairn_client_core::HoleRead;

    #[test]
    fn what_is_passed_over_counts_once_however_it_is_read() {
        let mut holes = HolesRead::default();
        let mut note = |offset, size| {
            holes.note(HoleRead { offset, size });
            (holes.bytes(), holes.ranges().collect::<Vec<_>>())
        };
        assert_eq!(note(100, 50), (50, vec![(100, 150)]));
        assert_eq!(note(100, 80), (80, vec![(100, 180)]), "a longer read of it");
        assert_eq!(note(120, 10), (80, vec![(100, 180)]));
        assert_eq!(note(200, 20), (100, vec![(100, 180), (200, 220)]));
        assert_eq!(note(180, 20), (120, vec![(100, 220)]), "side by side");
        assert_eq!(note(0, 10), (130, vec![(0, 10), (100, 220)]));
        assert_eq!(note(5, 300), (305, vec![(0, 305)]));
    }
}
