//! The loop: one thread waits for everything and steps the room.
//!
//! ```text
//!   ┌─► news, commands, finished jobs ─► room.handle ─► effects ─► queues ┐
//!   └── epoll (network, waker, next alarm) ◄── flush sockets, wake workers ┘
//! ```
//! - L1: the room is stepped by this thread alone, with a clock read for that very step (R4).
//! - L2: before the loop sleeps, all that the room asked for is on its way, and all who gave
//!   commands that are done have been told.

use crate::calls::Call;
use crate::clock;
use crate::lanes::{Finished, FromWorker, Lanes};
use crate::launch::HaltReason;
use crate::mailbox::{Mailbox, Waker};
use crate::network::{Network, News, WAKER_TOKEN};
use cairn_env::{Completion, Effect, EffectId, Event, Lane, Now, Room, Service};
use rustix::buffer::spare_capacity;
use rustix::event::epoll;
use rustix::fs::Timespec;
use rustix::io::Errno;
use std::sync::Arc;
use std::time::Duration;

/// Events taken from epoll at once.
const EVENT_BATCH: usize = 256;

type Job<R> = <<R as Room>::Service as Service>::Job;
type Done<R> = <<R as Room>::Service as Service>::Done;
type RoomEvent<R> = Event<<R as Room>::Command, Done<R>>;
pub(crate) type Results<R> = Mailbox<FromWorker<Finished<<R as Room>::Service>>>;

/// Everything that the loop owns.
pub(crate) struct Reactor<R: Room> {
    pub(crate) room: R,
    pub(crate) network: Network,
    pub(crate) lanes: Lanes<R::Service>,
    pub(crate) waker: Arc<Waker>,
    pub(crate) commands: Arc<Mailbox<R::Command>>,
    pub(crate) results: Arc<Results<R>>,
    pub(crate) stops: Arc<Mailbox<()>>,
    pub(crate) say: fn(&str),
}

/// What one turn of the loop collects.
struct Turn<R: Room> {
    effects: Vec<Effect<Job<R>>>,
    jobs: Vec<(EffectId, Lane, Job<R>)>,
    commands: Vec<R::Command>,
    results: Vec<FromWorker<Finished<R::Service>>>,
}

/// What is still in the mailboxes when the loop ends, by a panic too, will never be answered
/// (M2).
struct Closing<C> {
    commands: Arc<Mailbox<C>>,
    stops: Arc<Mailbox<()>>,
}

impl<C> Drop for Closing<C> {
    fn drop(&mut self) {
        self.commands.close();
        self.stops.close();
    }
}

impl<R: Room> Reactor<R> {
    /// Runs until the room halts or someone stops it.
    pub(crate) fn run(mut self) -> Result<(), HaltReason> {
        let _closing =
            Closing { commands: Arc::clone(&self.commands), stops: Arc::clone(&self.stops) };
        self.turns()
    }

    fn turns(&mut self) -> Result<(), HaltReason> {
        let mut turn = Turn {
            effects: Vec::new(),
            jobs: Vec::new(),
            commands: Vec::new(),
            results: Vec::new(),
        };
        let mut events = Vec::with_capacity(EVENT_BATCH);
        self.step(Event::Started, &mut turn)?;
        loop {
            self.take_mail(&mut turn)?;
            self.take_news(&mut turn)?;
            self.lanes.submit(&mut turn.jobs);
            self.network.flush();
            self.room.tell_callers();
            if !self.stops.is_empty() {
                return Ok(());
            }
            self.wait(&mut events)?;
            self.network.ring();
        }
    }

    fn take_mail(&mut self, turn: &mut Turn<R>) -> Result<(), HaltReason> {
        let mut results = std::mem::take(&mut turn.results);
        self.results.take(&mut results);
        for result in results.drain(..) {
            match result {
                FromWorker::Finished((id, result)) => {
                    let result = Completion::Disk(result);
                    self.step(Event::Completed { id, result }, turn)?;
                }
                FromWorker::Panicked => {
                    return Err(HaltReason("a disk worker has panicked".to_owned()));
                }
            }
        }
        turn.results = results;
        let mut commands = std::mem::take(&mut turn.commands);
        self.commands.take(&mut commands);
        for command in commands.drain(..) {
            self.step(Event::Command(command), turn)?;
        }
        turn.commands = commands;
        Ok(())
    }

    fn take_news(&mut self, turn: &mut Turn<R>) -> Result<(), HaltReason> {
        while let Some(news) = self.network.news.pop_front() {
            let event = match news {
                News::Request { from, request } => Event::Request { from, request },
                News::Disconnected(connection) => Event::Disconnected { connection },
                News::Answered { id, result } => {
                    Event::Completed { id, result: Completion::Answered(result) }
                }
                News::Woken(id) => Event::Completed { id, result: Completion::Woken },
            };
            self.step(event, turn)?;
        }
        Ok(())
    }

    fn step(&mut self, event: RoomEvent<R>, turn: &mut Turn<R>) -> Result<(), HaltReason> {
        let now: Now = clock::now();
        self.network.now = now.time;
        self.room.handle(now, event, &mut turn.effects);
        for effect in turn.effects.drain(..) {
            match effect {
                Effect::Call { id, to, server, request, payload, deadline } => {
                    self.network.call(Call { id, to, server, request, payload, deadline });
                }
                Effect::Reply { to, answer, payload } => self.network.reply(to, answer, payload),
                Effect::Wake { id, at } => self.network.wake(id, at),
                Effect::Disk { id, lane, job } => turn.jobs.push((id, lane, job)),
                Effect::Identify(hello) => self.network.identify(hello),
                Effect::Say(line) => (self.say)(&line),
                Effect::Halt(reason) => return Err(HaltReason(reason)),
            }
        }
        Ok(())
    }

    /// Sleeps until something happens, and takes what the network brought.
    fn wait(&mut self, events: &mut Vec<epoll::Event>) -> Result<(), HaltReason> {
        self.waker.falling_asleep();
        let has_mail = !self.results.is_empty()
            || !self.commands.is_empty()
            || !self.stops.is_empty()
            || !self.network.news.is_empty();
        let timeout = if has_mail { Some(Duration::ZERO) } else { self.until_next_alarm() };
        let timeout = timeout.map(|span| Timespec {
            tv_sec: i64::try_from(span.as_secs()).unwrap_or(i64::MAX),
            tv_nsec: span.subsec_nanos().into(),
        });
        let waited = epoll::wait(&self.network.epoll, spare_capacity(events), timeout.as_ref());
        self.waker.awake();
        match waited {
            Ok(_) | Err(Errno::INTR) => {}
            Err(errno) => return Err(HaltReason(format!("epoll failed: {errno}"))),
        }
        self.network.now = clock::boot_time();
        for event in events.drain(..) {
            let (token, flags) = (event.data.u64(), event.flags);
            if token == WAKER_TOKEN {
                self.waker.rearm();
            } else {
                self.network.ready(token, flags);
            }
        }
        Ok(())
    }

    fn until_next_alarm(&self) -> Option<Duration> {
        let at = self.network.timers.next_at()?;
        Some(at.since(clock::boot_time()))
    }
}
