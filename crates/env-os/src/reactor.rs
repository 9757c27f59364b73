//! The loop: it waits for everything and steps the driver, in a thread of its own or as a task.
//!
//! ```text
//!   ┌─► news, commands, finished jobs ─► driver.handle ─► effects ─► queues ┐
//!   └── epoll (network, waker, next alarm) ◄── flush sockets, wake workers ┘
//! ```
//! - L1: the driver is stepped by one thread at a time, with a clock read for that very step (R4).
//! - L2: before the loop sleeps, all that the driver asked for is on its way, and all who gave
//!   commands that are done have been told.

use crate::clock::{self, Wall};
use crate::context::News;
use crate::ids::EpollToken;
use crate::lanes::{FinishedJob, FromWorker, Lanes};
use crate::launch::HaltReason;
use crate::log_sink::LogSink;
use crate::mailbox::{Mailbox, Waker};
use crate::network::OsNetwork;
use crate::outbound::OutgoingCall;
use cairn_env::{Completion, Driver, Effect, EffectId, Event, Lane, LogEvent, Now, Service};
use cairn_protocol::Request;
use rustix::event::epoll::EventFlags;
use std::sync::Arc;
use std::time::Duration;

type JobOf<R> = <<R as Driver>::Service as Service>::Job;
type ResultOf<R> = <<R as Driver>::Service as Service>::JobResult;
type DriverEvent<R> = Event<<R as Driver>::Command, ResultOf<R>>;
pub(crate) type ResultMailbox<R> = Mailbox<FromWorker<FinishedJob<<R as Driver>::Service>>>;

/// Everything that the loop owns.
pub(crate) struct Reactor<R: Driver> {
    pub(crate) driver: R,
    pub(crate) network: OsNetwork,
    pub(crate) lanes: Lanes<R::Service>,
    pub(crate) waker: Arc<Waker>,
    pub(crate) commands: Arc<Mailbox<R::Command>>,
    pub(crate) results: Arc<ResultMailbox<R>>,
    pub(crate) stops: Arc<Mailbox<()>>,
    pub(crate) log: LogSink,
    pub(crate) wall: Wall,
    /// What epoll told, kept from one turn to the next.
    pub(crate) polled: Vec<(EpollToken, EventFlags)>,
}

/// What one turn of the loop collects.
pub(crate) struct Turn<R: Driver> {
    effects: Vec<Effect<JobOf<R>>>,
    jobs: Vec<(EffectId, Lane, JobOf<R>)>,
    commands: Vec<R::Command>,
    results: Vec<FromWorker<FinishedJob<R::Service>>>,
}

impl<R: Driver> Default for Turn<R> {
    fn default() -> Self {
        Self { effects: Vec::new(), jobs: Vec::new(), commands: Vec::new(), results: Vec::new() }
    }
}

/// What is still in the mailboxes when the loop ends, by a panic too, will never be answered
/// (M2).
pub(crate) struct ClosingMailboxes<C> {
    commands: Arc<Mailbox<C>>,
    stops: Arc<Mailbox<()>>,
}

impl<C> Drop for ClosingMailboxes<C> {
    fn drop(&mut self) {
        self.commands.close();
        self.stops.close();
    }
}

impl<R: Driver> Reactor<R> {
    /// Runs until the driver halts or someone stops it.
    pub(crate) fn run(mut self) -> Result<(), HaltReason> {
        let _closing = self.closing();
        let mut turn = Turn::default();
        self.begin(&mut turn)?;
        while self.work(&mut turn)? {
            self.sleep()?;
            self.network.ring();
        }
        Ok(())
    }

    pub(crate) fn closing(&self) -> ClosingMailboxes<R::Command> {
        ClosingMailboxes { commands: Arc::clone(&self.commands), stops: Arc::clone(&self.stops) }
    }

    pub(crate) fn begin(&mut self, turn: &mut Turn<R>) -> Result<(), HaltReason> {
        self.step(Event::Started, turn)
    }

    /// All that there is to do without waiting (L2); false: someone has stopped it.
    pub(crate) fn work(&mut self, turn: &mut Turn<R>) -> Result<bool, HaltReason> {
        self.wall = Wall::look();
        self.network.set_wall(&self.wall);
        self.take_mail(turn)?;
        self.take_news(turn)?;
        self.driver.end_of_batch(self.wall.now(), &mut turn.effects);
        self.carry_out(turn)?;
        self.lanes.submit(&mut turn.jobs);
        self.network.flush();
        Ok(self.stops.is_empty())
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
        while let Some(news) = self.network.next_news() {
            let event = match news {
                News::Request { from, request: Request::RecentRpcs(asked) } => {
                    self.network.reply_recent(from, &asked);
                    continue;
                }
                News::Request { from, request } => Event::Request { from, request },
                News::Identified(connection, credentials) => {
                    Event::Identified { connection, credentials }
                }
                News::Disconnected(connection) => Event::Disconnected { connection },
                News::Answered { id, result } => {
                    Event::Completed { id, result: Completion::Answered(result) }
                }
                News::Woken(id) => Event::Completed { id, result: Completion::Woken },
                News::Log(event) => {
                    self.log(&event);
                    continue;
                }
            };
            self.step(event, turn)?;
        }
        Ok(())
    }

    fn step(&mut self, event: DriverEvent<R>, turn: &mut Turn<R>) -> Result<(), HaltReason> {
        let now: Now = self.wall.now();
        self.network.set_now(now.time);
        self.driver.handle(now, event, &mut turn.effects);
        self.carry_out(turn)
    }

    fn carry_out(&mut self, turn: &mut Turn<R>) -> Result<(), HaltReason> {
        for effect in turn.effects.drain(..) {
            match effect {
                Effect::Call { id, to, server, request, payload, deadline } => {
                    self.network.call(OutgoingCall { id, to, server, request, payload, deadline });
                }
                Effect::Reply { to, answer, payload } => self.network.reply(to, &answer, payload),
                Effect::Wake { id, at } => self.network.wake(id, at),
                Effect::Disk { id, lane, job } => turn.jobs.push((id, lane, job)),
                Effect::Identify(hello) => self.network.identify(hello),
                Effect::Log(event) => self.log(&event),
                Effect::Halt(reason) => return Err(HaltReason(reason)),
            }
        }
        Ok(())
    }

    fn log(&mut self, event: &LogEvent) {
        self.network.tap_event(event);
        self.log.put(self.wall.now().wall, event);
    }

    /// Whether there is something to do that does not come from the network.
    pub(crate) fn has_mail(&self) -> bool {
        !self.results.is_empty() || !self.commands.is_empty() || !self.stops.is_empty()
    }

    /// Sleeps until something happens, and takes what the network brought.
    fn sleep(&mut self) -> Result<(), HaltReason> {
        self.waker.falling_asleep();
        let is_idle = !self.has_mail() && !self.network.has_news();
        let patience = if is_idle { self.network.until_next_alarm() } else { Some(Duration::ZERO) };
        let listened = self.listen(patience);
        self.waker.awake();
        listened.map(drop)
    }

    /// Waits at most so long for the network, and takes what it brought; whether there may be more
    /// of it already.
    pub(crate) fn listen(&mut self, patience: Option<Duration>) -> Result<bool, HaltReason> {
        let mut polled = std::mem::take(&mut self.polled);
        let waited = self.network.poller().wait(patience, &mut polled);
        let mut has_more = waited.map_err(|errno| HaltReason(format!("epoll failed: {errno}")))?;
        self.network.set_now(clock::boot_time());
        for (token, flags) in polled.drain(..) {
            if token == EpollToken::Waker {
                self.waker.rearm();
            } else {
                has_more |= self.network.ready(token, flags);
            }
        }
        self.polled = polled;
        Ok(has_more)
    }
}
