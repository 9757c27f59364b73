//! Who waits for a job: clients for a lease, primaries for a close to be logged.
//!
//! Many clients that ask for one chunk at once share its job. When a job is over, each one's wish
//! is looked at anew: the usual answer is the lease that now serves.

use cairn_env::Caller;
use cairn_protocol::{Lease as LeaseRequest, LeasePurpose};
use cairn_types::Time;
use std::time::Duration;

/// What is waited for.
#[derive(Debug)]
pub(crate) enum ChunkWish {
    /// A client wants a lease.
    Lease(LeaseRequest),
    /// A primary wants its chunk's close to be logged.
    Closed,
}

/// One request that waits for a job.
#[derive(Debug)]
pub(crate) struct ChunkWaiter {
    pub(crate) from: Caller,
    pub(crate) since: Time,
    pub(crate) wish: ChunkWish,
}

impl ChunkWaiter {
    /// Wants the next chunk rather than this one where this one takes no appends.
    fn goes_on(&self) -> bool {
        match &self.wish {
            ChunkWish::Lease(request) => request.purpose == LeasePurpose::Append,
            ChunkWish::Closed => true,
        }
    }

    /// Wants to write, or to append.
    pub(crate) fn mutates(&self) -> bool {
        match &self.wish {
            ChunkWish::Lease(request) => request.purpose != LeasePurpose::Level,
            ChunkWish::Closed => false,
        }
    }

    fn is_client(&self) -> bool {
        matches!(self.wish, ChunkWish::Lease(_))
    }
}

/// What those who wait want, all together.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Wants {
    /// Somebody wants a lease.
    pub(crate) lease: bool,
    /// Somebody wants to append.
    pub(crate) appends: bool,
    /// Somebody wants to write or to append: bytes change, and the file may become longer.
    pub(crate) mutates: bool,
    /// Somebody wants a close to be logged.
    pub(crate) close: bool,
}

/// Those who wait for one job, in the order in which they came.
#[derive(Debug, Default)]
pub(crate) struct ChunkWaiters(Vec<ChunkWaiter>);

impl ChunkWaiters {
    pub(crate) fn push(&mut self, waiter: ChunkWaiter) {
        self.0.push(waiter);
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    pub(crate) fn into_iter(self) -> impl Iterator<Item = ChunkWaiter> {
        self.0.into_iter()
    }

    /// What they want.
    pub(crate) fn wants(&self) -> Wants {
        let any = |of: fn(&ChunkWaiter) -> bool| self.0.iter().any(of);
        Wants {
            lease: any(ChunkWaiter::is_client),
            appends: any(|waiter| waiter.is_client() && waiter.goes_on()),
            mutates: any(ChunkWaiter::mutates),
            close: any(|waiter| !waiter.is_client()),
        }
    }

    /// Takes out those whom the chunk after this one serves as well.
    pub(crate) fn take_going_on(&mut self) -> Vec<ChunkWaiter> {
        self.take(ChunkWaiter::goes_on)
    }

    /// Takes out those who want to write or to append.
    pub(crate) fn take_writers(&mut self) -> Vec<ChunkWaiter> {
        self.take(ChunkWaiter::mutates)
    }

    /// Takes out those who want a close to be logged.
    pub(crate) fn take_closers(&mut self) -> Vec<ChunkWaiter> {
        self.take(|waiter| !waiter.is_client())
    }

    /// Takes out those who have waited for so long.
    pub(crate) fn take_tired(&mut self, now: Time, patience: Duration) -> Vec<ChunkWaiter> {
        self.take(|waiter| now.since(waiter.since) >= patience)
    }

    pub(crate) fn extend(&mut self, waiters: Vec<ChunkWaiter>) {
        self.0.extend(waiters);
    }

    fn take(&mut self, which: impl Fn(&ChunkWaiter) -> bool) -> Vec<ChunkWaiter> {
        let (taken, left) = std::mem::take(&mut self.0).into_iter().partition(which);
        self.0 = left;
        taken
    }
}
