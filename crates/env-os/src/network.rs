//! All sockets of a process, waited for by one epoll: the rooms of the network, and the ways
//! between them.
//!
//! ```text
//!   epoll ─► ready(token) ─┬─► inbound ──► news (for the driver) ◄── outbound ◄─┬─ call
//!                          │      │ relay events                │               │
//!                          │      └─────────► relays ◄──────────┘               │
//!                          └────────────────────────────────────────────────────┘
//!   effects ─► call / reply ─► out-queues ─► flush, once per turn of the loop
//! ```
//! - G1: a connection that is lost completes all that hung on it, once (E1).
//! - G2: news stand in the order in which their frames came (E4).
//! - G3: each room owns its things: `inbound` the accepted connections, `outbound` the dialled
//!   ones, `relays` the pushes. What one has for another is an event, dealt with before anybody
//!   else is let in.

use crate::clock::Wall;
use crate::context::{NetworkContext, News};
use crate::ids::EpollToken;
use crate::inbound::Inbound;
use crate::limits::LaunchLimits;
use crate::outbound::{Outbound, OutgoingCall};
use crate::poller::Poller;
use crate::process_meter::ProcessMeter;
use crate::relays::{BothSides, KeepPush, Relays};
use crate::rpc_tap::RpcTap;
use crate::timers::LoopAlarm;
use cairn_env::{Caller, EffectId, LogEvent, Payload};
use cairn_protocol::{ErrorCode, Failure, Hello, RecentRpcs, Response};
use cairn_types::Time;
use rustix::event::epoll::EventFlags;
use rustix::fd::{AsFd, BorrowedFd};
use std::net::TcpListener;
use std::sync::Arc;
use std::time::Duration;

/// All sockets.
#[derive(Debug)]
pub(crate) struct OsNetwork {
    cx: NetworkContext,
    inbound: Inbound,
    outbound: Outbound,
    relays: Relays,
}

impl OsNetwork {
    pub(crate) fn new(
        (poller, tap): (Poller, RpcTap),
        listener: Option<TcpListener>,
        (limits, untaken_max, meter): (LaunchLimits, Duration, Arc<ProcessMeter>),
        keep: KeepPush,
    ) -> Self {
        Self {
            cx: NetworkContext::new(poller, tap),
            inbound: Inbound::new(listener, limits, meter),
            outbound: Outbound::new(limits.dialled_max, untaken_max),
            relays: Relays::new(keep),
        }
    }

    /// The descriptor that is readable where something can be done.
    pub(crate) fn epoll(&self) -> BorrowedFd<'_> {
        self.cx.poller.as_fd()
    }

    /// What it is waited for with.
    pub(crate) fn poller(&mut self) -> &mut Poller {
        &mut self.cx.poller
    }

    /// The time of what happens from now on.
    pub(crate) fn set_now(&mut self, now: Time) {
        self.cx.now = now;
    }

    /// The clocks were looked at.
    pub(crate) fn set_wall(&mut self, wall: &Wall) {
        self.cx.tap.set_wall(wall);
    }

    /// What the driver says of itself in handshakes from now on.
    pub(crate) fn identify(&mut self, hello: Hello) {
        self.cx.tap.identify(self.cx.now, &hello);
        self.outbound.identify(hello.clone());
        self.inbound.identify(&mut self.cx, hello);
    }

    /// Sends a request, or completes it at once where that cannot be.
    pub(crate) fn call(&mut self, call: OutgoingCall) {
        self.outbound.call(&mut self.cx, call);
        self.tell_relays();
    }

    /// Answers a request, where its connection is still there.
    pub(crate) fn reply(
        &mut self,
        to: Caller,
        answer: &Result<Response, Failure>,
        payload: Payload,
    ) {
        self.inbound.reply(&mut self.cx, to, answer, payload);
    }

    /// Answers what the diagnostic log has in memory, past the driver: to the superuser alone, for
    /// the names in it are everybody's.
    pub(crate) fn reply_recent(&mut self, to: Caller, asked: &RecentRpcs) {
        let answer = if self.inbound.is_superuser(to) {
            self.cx.tap.recent(self.cx.now, asked).map(Response::RecentRpcs)
        } else {
            let why = "the diagnostic log: only the superuser may read what others asked for";
            Err(Failure::refused(ErrorCode::PermissionDenied, why))
        };
        self.reply(to, &answer, Payload::default());
    }

    /// What the diagnostic log is told of, beside requests and replies.
    pub(crate) fn tap_event(&mut self, event: &LogEvent) {
        self.cx.tap.event(self.cx.now, event);
    }

    /// The driver wants to be woken.
    pub(crate) fn wake(&mut self, id: EffectId, at: Time) {
        self.cx.timers.set(at, LoopAlarm::Wake(id));
    }

    /// Epoll says that something can be done. Whether it might say so again at once.
    pub(crate) fn ready(&mut self, token: EpollToken, flags: EventFlags) -> bool {
        let may_have_more = match token {
            EpollToken::Waker => unreachable!("the loop's own"),
            EpollToken::Listener => {
                self.inbound.accept(&mut self.cx);
                true
            }
            EpollToken::Inbound(id) => self.inbound.ready(&mut self.cx, id, flags),
            EpollToken::Outbound(id) => self.outbound.ready(&mut self.cx, id, flags),
        };
        self.tell_relays();
        may_have_more
    }

    /// Deals with what the connections have for the relays (G3).
    fn tell_relays(&mut self) {
        let Self { cx, inbound, outbound, relays } = self;
        while let Some(event) = cx.relay_events.pop_front() {
            relays.on_event(cx, &mut BothSides { inbound, outbound }, event);
        }
    }

    /// What the driver is to be told next.
    pub(crate) fn next_news(&mut self) -> Option<News> {
        self.cx.news.pop_front()
    }

    /// Whether there is something to tell the driver.
    pub(crate) fn has_news(&self) -> bool {
        !self.cx.news.is_empty()
    }

    /// Whether there is something to tell the driver, or to write.
    pub(crate) fn has_work(&self) -> bool {
        self.has_news() || self.inbound.has_work() || self.outbound.has_work()
    }

    /// Writes all that waits, as far as the kernel takes it.
    pub(crate) fn flush(&mut self) {
        self.cx.tap.end_turn(self.cx.now);
        self.inbound.end_turn();
        while self.inbound.has_work() || self.outbound.has_work() {
            self.outbound.flush(&mut self.cx);
            self.inbound.flush(&mut self.cx);
            self.tell_relays();
        }
    }

    /// Lets everything happen whose time has come.
    pub(crate) fn ring(&mut self) {
        while let Some(alarm) = self.cx.timers.pop_due(self.cx.now) {
            let Self { cx, inbound, outbound, relays } = self;
            match alarm {
                LoopAlarm::Wake(id) => cx.news.push_back(News::Woken(id)),
                LoopAlarm::CallDeadline(connection, request) => {
                    outbound.call_overdue(cx, connection, request);
                }
                LoopAlarm::InboundPatience(id) => inbound.lose(cx, id),
                LoopAlarm::OutboundPatience(id) => {
                    outbound.lose(cx, id, "no answer to the handshake in time");
                }
                LoopAlarm::RelayPatience(id) => {
                    relays.overdue(cx, &mut BothSides { inbound, outbound }, id);
                }
                LoopAlarm::AcceptAgain => inbound.listen(cx),
                LoopAlarm::Shortage => inbound.relieve(cx),
            }
            self.tell_relays();
        }
    }

    /// How long it is until the next alarm rings.
    pub(crate) fn until_next_alarm(&self) -> Option<Duration> {
        let at = self.cx.timers.next_at()?;
        Some(at.since(crate::clock::boot_time()))
    }
}
