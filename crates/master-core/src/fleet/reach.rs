//! Whether a chunkserver is reached at the address that it gives: its heartbeats come from it, and
//! say nothing of the way there (a wrong `--advertise`, a closed port).
//!
//! - RK1: each is asked when it has joined and then now and then; one that did not answer, with
//!   each heartbeat.
//! - RK2: of one that has answered nothing for as long as makes a server silent nobody wants
//!   anything new, and a person is told. Any answer that is its own ends that.

use cairn_protocol::{ErrorCode, Failure};
use cairn_types::Time;
use std::time::Duration;

/// Bytes of what is told of a failure.
const WHY_SIZE_MAX: usize = 200;

/// What asking one server has come to.
#[derive(Clone, Debug)]
pub(crate) struct Reach {
    /// When it is asked next; none: it is being asked.
    next: Option<Time>,
    fails: Option<FailingReach>,
    /// It was asked, and answered the last time.
    is_reached: bool,
}

#[derive(Clone, Debug)]
struct FailingReach {
    since: Time,
    /// It was still so after `silent_ms` (RK2).
    lasts: bool,
    why: String,
}

/// What has changed with an answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ReachNews {
    Nothing,
    Unreached,
    ReachedAgain,
}

impl Reach {
    /// One that has just joined.
    pub(super) fn begun(now: Time) -> Self {
        Self { next: Some(now), fails: None, is_reached: false }
    }

    /// One that joins again at the same address, which it may be reached at by now.
    pub(super) fn joined_again(&self, now: Time) -> Self {
        Self { next: Some(now), fails: self.fails.clone(), is_reached: false }
    }

    pub(super) fn is_due(&self, now: Time) -> bool {
        self.next.is_some_and(|next| now >= next)
    }

    pub(super) fn is_asked(&mut self) {
        assert!(self.next.is_some(), "it is asked once at a time");
        self.next = None;
    }

    /// It answered, or did not. The spans: of a heartbeat, until it is silent, until it is dead.
    pub(super) fn note(
        &mut self,
        now: Time,
        (heartbeat, silent, dead): (Duration, Duration, Duration),
        result: Result<(), &Failure>,
    ) -> ReachNews {
        assert!(self.next.is_none(), "an answer comes to a question");
        let was_unreached = self.is_unreached();
        self.fails = result.err().filter(|failure| !is_its_own(failure)).map(|failure| {
            let since = self.fails.as_ref().map_or(now, |fails| fails.since);
            let mut failure = failure.clone();
            failure.shorten(WHY_SIZE_MAX);
            FailingReach { since, lasts: now >= since + silent, why: failure.message }
        });
        self.is_reached = self.fails.is_none();
        self.next = Some(now + if self.is_reached { dead } else { heartbeat });
        match (was_unreached, self.is_unreached()) {
            (false, true) => ReachNews::Unreached,
            (true, false) => ReachNews::ReachedAgain,
            _ => ReachNews::Nothing,
        }
    }

    /// Whether it answered when it was asked last: of one that joined a moment ago nobody knows.
    pub(crate) fn is_reached(&self) -> bool {
        self.is_reached
    }

    /// Whether nobody is to want anything new of it (RK2).
    pub(crate) fn is_unreached(&self) -> bool {
        self.why().is_some()
    }

    /// Why it is not reached; none: it is, as far as anybody knows (RK2).
    pub(crate) fn why(&self) -> Option<&str> {
        self.fails.as_ref().filter(|fails| fails.lasts).map(|fails| fails.why.as_str())
    }
}

/// Whether the server itself refuses: then it is there. Who answers in its place is another one.
fn is_its_own(failure: &Failure) -> bool {
    !matches!(
        failure.code,
        ErrorCode::Unreachable
            | ErrorCode::DeadlineExceeded
            | ErrorCode::WrongServer
            | ErrorCode::WrongCell
            | ErrorCode::VersionUnsupported
    )
}
