//! A driver that has no thread of its own: somebody's task turns its loop.
//!
//! ```text
//!   task polled ─► turn: epoll, without waiting ─► work ─┬─► there may be more: Again
//!        ▲         (where its descriptor is readable)    └─► nothing: Waits
//!        └── the epoll's descriptor is readable, an alarm is due, a command has come ◄┘
//! ```
//! The epoll is asked only when its descriptor became readable, when the last time did not take
//! all, or when it watches for something else: an answer then costs one such call, where asking
//! until nothing came took four.
//!
//! - A1: what is ready already when epoll is told to watch for it need not make the descriptor
//!   readable anew, where epoll had something of that connection before. So it is asked then.
//!
//! For a caller on the same thread a question costs no change of threads: it gives the command,
//! and the loop that answers it is what runs next.

use crate::clock;
use crate::launch::HaltReason;
use crate::reactor::{ClosingMailboxes, Reactor, Turn};
use cairn_env::Driver;
use rustix::fd::{AsFd, AsRawFd, BorrowedFd, RawFd};
use std::fmt;
use std::task::Waker;
use std::time::Duration;

/// How a turn ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Turned {
    /// There is more to do; others go first.
    Again,
    /// To be turned again when the descriptor becomes readable, and to be told so then; when the
    /// waker is woken; or after this time.
    Waits(Option<Duration>),
    /// Somebody has stopped it.
    Stopped,
}

/// A room to be turned by whoever holds this; dropped, it stops. Its descriptor is readable where
/// the network has something for it.
pub struct Attached<R: Driver> {
    reactor: Reactor<R>,
    turn: Turn<R>,
    has_begun: bool,
    /// The network may have more than was taken.
    has_more: bool,
    _closing: ClosingMailboxes<R::Command>,
}

impl<R: Driver> fmt::Debug for Attached<R> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Attached").field("has_begun", &self.has_begun).finish_non_exhaustive()
    }
}

impl<R: Driver> Attached<R> {
    pub(crate) fn new(reactor: Reactor<R>) -> Self {
        let closing = reactor.closing();
        Self { reactor, turn: Turn::default(), has_begun: false, has_more: true, _closing: closing }
    }

    /// Takes what has come, where the descriptor became readable since the last turn, and does what
    /// there is to do; never waits. It does not go on with what else may be there: whoever was
    /// answered goes first, uses bytes that are still in the cache, and asks again before the next
    /// message leaves. Where it `Waits`, `waker` is woken by commands.
    ///
    /// # Errors
    /// The driver has halted; it is not to be turned again.
    pub fn turn(&mut self, waker: &Waker, is_readable: bool) -> Result<Turned, HaltReason> {
        let Self { reactor, turn, has_more, .. } = self;
        if !std::mem::replace(&mut self.has_begun, true) {
            reactor.begin(turn)?;
        }
        reactor.waker.awake();
        if is_readable || *has_more {
            *has_more = reactor.listen(Some(Duration::ZERO))?;
        }
        reactor.network.set_now(clock::boot_time());
        reactor.network.ring();
        if !reactor.work(turn)? {
            return Ok(Turned::Stopped);
        }
        // A1
        *has_more |= reactor.network.poller().take_new_interest();
        if *has_more || reactor.network.has_work() {
            return Ok(Turned::Again);
        }
        // M1: what is put from now on wakes; what was put before is seen here.
        reactor.waker.wakes(waker);
        reactor.waker.falling_asleep();
        if reactor.has_mail() {
            return Ok(Turned::Again);
        }
        Ok(Turned::Waits(reactor.network.until_next_alarm()))
    }
}

impl<R: Driver> AsFd for Attached<R> {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.reactor.network.epoll()
    }
}

impl<R: Driver> AsRawFd for Attached<R> {
    fn as_raw_fd(&self) -> RawFd {
        self.as_fd().as_raw_fd()
    }
}
