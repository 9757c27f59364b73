//! The way from an async caller to the client's loop and back: one command, one answer.
//!
//! Within a tokio runtime the loop is a task of it: on a runtime of one thread a question costs no
//! change of threads, on one of several the loop works beside its callers. Elsewhere it has a
//! thread of its own.

use crate::error::Error;
use cairn_client_core::{
    ClientCore, ClientSettings, Command, NoDisk, OnDone, Operation, Output, ShadowReads,
};
use cairn_env_os::{
    Attached, LaunchOptions, Running, Sender, Turned, attach, behind_names, clock, launch,
};
use cairn_protocol::{ErrorCode, Failure, Rpc};
use cairn_types::{Address, EntryId, Identity, Rack, Time};
use std::future::poll_fn;
use std::hash::{BuildHasher, RandomState};
use std::net::SocketAddr;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::task::Poll;
use std::time::Duration;
use tokio::io::Interest;
use tokio::io::unix::AsyncFd;
use tokio::runtime::Handle;
use tokio::sync::oneshot;
use tokio::time::{Instant, Sleep, sleep};

/// An answer on its way.
pub(crate) type PendingAnswer = oneshot::Receiver<Result<Output, Failure>>;

/// The client's loop, ended with the last holder of this, or with its runtime.
#[derive(Debug)]
pub(crate) struct Link {
    sender: Sender<Command>,
    deadline: Duration,
    tickets: AtomicU64,
    // Dropping it stops the loop.
    _running: Running<Command>,
}

impl Link {
    pub(crate) fn start(
        masters: Vec<Address>,
        (rack, identity): (Rack, Identity),
        shadow_reads: ShadowReads,
        deadline: Duration,
    ) -> Result<Arc<Self>, Error> {
        let names = masters.iter().filter(|one| one.as_str().parse::<SocketAddr>().is_err());
        let names: Vec<Address> = names.cloned().collect();
        let seed = random_seed();
        let core = ClientCore::new(ClientSettings { masters, rack, seed, shadow_reads, identity });
        let internal = |why: String| Error::from(Failure::not_done(ErrorCode::Internal, why));
        let options = LaunchOptions { workers: 0, ..LaunchOptions::new("cairn-client") };
        let disk = Arc::new(NoDisk);
        let running = if let Ok(runtime) = Handle::try_current() {
            let attached = attach(core, disk, options);
            let (attached, running) = attached.map_err(|error| internal(error.to_string()))?;
            #[expect(deprecated, reason = "its heir is unsafe; this descriptor lives as long")]
            let attached = AsyncFd::with_interest(attached, Interest::READABLE)
                .map_err(|error| internal(error.to_string()))?;
            runtime.spawn(turn_on(attached, Box::pin(sleep(Duration::ZERO))));
            running
        } else {
            launch(core, disk, options).map_err(|error| internal(error.to_string()))?
        };
        let (sender, tickets) = (running.sender(), AtomicU64::new(0));
        if !names.is_empty() {
            learn_what_is_behind(names, sender.clone());
        }
        Ok(Arc::new(Self { sender, deadline, tickets, _running: running }))
    }

    /// Hands over an operation; it is under way whether or not the answer is waited for.
    pub(crate) fn submit(&self, operation: Operation, within: Duration) -> PendingAnswer {
        let (tell, answer) = oneshot::channel();
        // Nobody may be waiting any more; that is the caller's choice.
        let done = Box::new(move |result| drop(tell.send(result)));
        // Where the loop has stopped, the command is dropped and `answer` with it says so.
        self.hand_over(operation, within, done);
        answer
    }

    /// As `submit`; the loop calls `done`, or drops it where it has stopped. It must not wait.
    pub(crate) fn hand_over(&self, operation: Operation, within: Duration, done: OnDone) {
        let ticket = self.tickets.fetch_add(1, Ordering::Relaxed);
        let deadline = clock::boot_time() + within;
        let _ = self.sender.send(Command { ticket, operation, deadline, done });
    }

    /// How long an operation may take.
    pub(crate) fn deadline(&self) -> Duration {
        self.deadline
    }

    /// As `submit`, within the deadline that the cell's options set.
    pub(crate) fn begin(&self, operation: Operation) -> PendingAnswer {
        self.submit(operation, self.deadline)
    }

    pub(crate) async fn run(&self, operation: Operation) -> Result<Output, Error> {
        wait(self.begin(operation)).await
    }

    /// Asks the master.
    pub(crate) async fn ask<R: Rpc>(&self, request: R) -> Result<R::Answer, Error> {
        wait_for::<R>(self.begin(Operation::Ask(request.into()))).await
    }

    /// As `ask`, of a request that opens files.
    pub(crate) async fn open<R: Rpc>(&self, request: R) -> Result<R::Answer, Error> {
        wait_for::<R>(self.begin(Operation::Open(request.into()))).await
    }

    /// Takes back one opening of a file.
    pub(crate) fn forget(&self, file: EntryId) {
        let (operation, deadline) = (Operation::Forget { file }, Time::default());
        let ticket = self.tickets.fetch_add(1, Ordering::Relaxed);
        let forget = Command { ticket, operation, deadline, done: Box::new(drop) };
        // Where the loop has stopped, there is nothing to forget.
        let _ = self.sender.send_later(forget);
    }

    /// Waits for `span`.
    pub(crate) async fn pause(&self, span: Duration) -> Result<(), Error> {
        wait(self.submit(Operation::Pause(span), span)).await.map(drop)
    }
}

/// Tells the client of all masters that stand behind the names: in a thread that nobody waits for,
/// as a name server may take its time. The loop dials the names as they are meanwhile.
fn learn_what_is_behind(names: Vec<Address>, sender: Sender<Command>) {
    std::thread::spawn(move || {
        let operation = Operation::LearnMasters { masters: behind_names(&names) };
        let (ticket, deadline, done) = (0, Time::default(), Box::new(drop));
        // Where the loop has stopped, there is nobody to tell.
        let _ = sender.send(Command { ticket, operation, deadline, done });
    });
}

/// Turns the loop until it stops. Whoever waits for an answer then learns that none comes.
async fn turn_on(mut attached: AsyncFd<Attached<ClientCore>>, mut alarm: Pin<Box<Sleep>>) {
    let mut is_set = false;
    poll_fn(|cx| {
        loop {
            // Cleared before the turn that looks: what becomes ready from here on is told anew.
            let is_readable = match attached.poll_read_ready(cx) {
                Poll::Ready(Ok(mut ready)) => {
                    ready.clear_ready();
                    true
                }
                Poll::Ready(Err(_)) => return Poll::Ready(()),
                Poll::Pending => false,
            };
            match attached.get_mut().turn(cx.waker(), is_readable) {
                Ok(Turned::Waits(Some(span))) => {
                    let at = Instant::now() + span;
                    // One that rings too early only costs a turn; alarms are set all the time.
                    if !is_set || at < alarm.deadline() {
                        alarm.as_mut().reset(at);
                        is_set = true;
                    }
                }
                Ok(Turned::Waits(None)) => {}
                Ok(Turned::Again) => {
                    cx.waker().wake_by_ref();
                    return Poll::Pending;
                }
                Ok(Turned::Stopped) | Err(_) => return Poll::Ready(()),
            }
            let rings = is_set && alarm.as_mut().poll(cx).is_ready();
            is_set &= !rings;
            // Once more where it was readable: who waits must have been told that it is not.
            if !is_readable && !rings {
                return Poll::Pending;
            }
        }
    })
    .await;
}

pub(crate) async fn wait(answer: PendingAnswer) -> Result<Output, Error> {
    answered(answer.await)
}

/// What came of an operation; of one that the client's end has cut off, that.
pub(crate) fn answered(came: <PendingAnswer as Future>::Output) -> Result<Output, Error> {
    Ok(came.map_err(|_| Error::stopped())??)
}

/// Waits for the masters' answer to a request `R`.
pub(crate) async fn wait_for<R: Rpc>(answer: PendingAnswer) -> Result<R::Answer, Error> {
    match wait(answer).await? {
        Output::Answered(response) => Ok(R::answer(Ok(response))?),
        _ => Err(Error::mismatched()),
    }
}

/// 128 bits that no other client draws: the standard library keys its hashers from the system.
fn random_seed() -> u128 {
    let half = || RandomState::new().hash_one((std::process::id(), clock::boot_time()));
    u128::from(half()) << 64 | u128::from(half())
}
