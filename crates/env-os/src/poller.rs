//! The one epoll that a loop waits on.

use crate::ids::EpollToken;
use rustix::event::epoll::{self, CreateFlags, EventData, EventFlags};
use rustix::fd::{AsFd, BorrowedFd, OwnedFd};
use rustix::fs::Timespec;
use rustix::io::Errno;
use std::mem::MaybeUninit;
use std::time::Duration;

/// Events taken at once.
const EVENT_BATCH: usize = 256;

/// The epoll.
#[derive(Debug)]
pub(crate) struct Poller {
    epoll: OwnedFd,
    /// It watches for something else since the last time that anyone asked.
    has_new_interest: bool,
}

impl Poller {
    pub(crate) fn new() -> Result<Self, Errno> {
        Ok(Self { epoll: epoll::create(CreateFlags::CLOEXEC)?, has_new_interest: false })
    }

    /// Watches a descriptor from now on.
    pub(crate) fn add(
        &self,
        descriptor: impl AsFd,
        token: EpollToken,
        interest: EventFlags,
    ) -> Result<(), Errno> {
        epoll::add(&self.epoll, descriptor, EventData::new_u64(token.to_u64()), interest)
    }

    /// Watches for something else.
    pub(crate) fn change(
        &mut self,
        descriptor: impl AsFd,
        token: EpollToken,
        interest: EventFlags,
    ) -> Result<(), Errno> {
        self.has_new_interest = true;
        epoll::modify(&self.epoll, descriptor, EventData::new_u64(token.to_u64()), interest)
    }

    /// Watches a descriptor no more.
    pub(crate) fn remove(&self, descriptor: impl AsFd) -> Result<(), Errno> {
        epoll::delete(&self.epoll, descriptor)
    }

    /// Whether it watches for something else since this was asked last.
    pub(crate) fn take_new_interest(&mut self) -> bool {
        std::mem::take(&mut self.has_new_interest)
    }

    /// Waits at most so long, and puts what can be done behind what `events` holds; whether there
    /// may be more of it already.
    ///
    /// # Errors
    /// As the system says; never because a signal came.
    pub(crate) fn wait(
        &self,
        at_most: Option<Duration>,
        events: &mut Vec<(EpollToken, EventFlags)>,
    ) -> Result<bool, Errno> {
        let timeout = at_most.map(|span| Timespec {
            tv_sec: i64::try_from(span.as_secs()).unwrap_or(i64::MAX),
            tv_nsec: span.subsec_nanos().into(),
        });
        let mut buffer = [const { MaybeUninit::uninit() }; EVENT_BATCH];
        let ready: &mut [epoll::Event] =
            match epoll::wait(&self.epoll, &mut buffer, timeout.as_ref()) {
                Ok((ready, _)) => ready,
                Err(Errno::INTR) => return Ok(true),
                Err(errno) => return Err(errno),
            };
        events.extend(
            ready.iter().map(|event| (EpollToken::from_u64(event.data.u64()), event.flags)),
        );
        Ok(ready.len() == EVENT_BATCH)
    }
}

impl AsFd for Poller {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.epoll.as_fd()
    }
}
