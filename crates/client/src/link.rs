//! The way from an async caller to the client's thread and back: one command, one answer.

use crate::error::Error;
use cairn_client_core::{ClientCore, ClientSettings, Command, NoDisk, Operation, Output};
use cairn_env_os::{LaunchOptions, Running, Sender, clock, launch};
use cairn_protocol::{ErrorCode, Failure, Request, Response};
use cairn_types::{Address, EntryId, Rack, Time};
use std::hash::{BuildHasher, RandomState};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;
use tokio::sync::oneshot;

/// An answer on its way.
pub(crate) type Answer = oneshot::Receiver<Result<Output, Failure>>;

/// The client's thread, ended with the last holder of this.
#[derive(Debug)]
pub(crate) struct Link {
    sender: Sender<Command>,
    deadline: Duration,
    tickets: AtomicU64,
    // Dropping it stops the thread.
    _running: Running<Command>,
}

impl Link {
    pub(crate) fn start(
        masters: Vec<Address>,
        rack: Rack,
        deadline: Duration,
    ) -> Result<Arc<Self>, Error> {
        let core = ClientCore::new(ClientSettings { masters, rack, seed: random_seed() });
        let options = LaunchOptions::new("cairn-client");
        let running = launch(core, Arc::new(NoDisk), options).map_err(|error| {
            Error::from(Failure::not_done(ErrorCode::Internal, error.to_string()))
        })?;
        let (sender, tickets) = (running.sender(), AtomicU64::new(0));
        Ok(Arc::new(Self { sender, deadline, tickets, _running: running }))
    }

    /// Hands over an operation; it is under way whether or not the answer is waited for.
    pub(crate) fn submit(&self, operation: Operation, within: Duration) -> Answer {
        let (tell, answer) = oneshot::channel();
        // Nobody may be waiting any more; that is the caller's choice.
        let done = Box::new(move |result| drop(tell.send(result)));
        let ticket = self.tickets.fetch_add(1, Ordering::Relaxed);
        let deadline = clock::boot_time() + within;
        // Where the thread has stopped, the command is dropped and `answer` with it says so.
        let _ = self.sender.send(Command { ticket, operation, deadline, done });
        answer
    }

    /// The same, within the deadline that the cell's options set.
    pub(crate) fn begin(&self, operation: Operation) -> Answer {
        self.submit(operation, self.deadline)
    }

    pub(crate) async fn run(&self, operation: Operation) -> Result<Output, Error> {
        wait(self.begin(operation)).await
    }

    pub(crate) async fn ask(&self, request: impl Into<Request>) -> Result<Response, Error> {
        answered(self.run(Operation::Ask(request.into())).await?)
    }

    /// The same, of a request that opens files.
    pub(crate) async fn open(&self, request: impl Into<Request>) -> Result<Response, Error> {
        answered(self.run(Operation::Open(request.into())).await?)
    }

    /// Takes back one opening of a file.
    pub(crate) fn forget(&self, file: EntryId) {
        let (operation, deadline) = (Operation::Forget { file }, Time::default());
        let ticket = self.tickets.fetch_add(1, Ordering::Relaxed);
        let forget = Command { ticket, operation, deadline, done: Box::new(drop) };
        // Where the thread has stopped, there is nothing to forget.
        let _ = self.sender.send_later(forget);
    }

    /// Waits for `span`.
    pub(crate) async fn pause(&self, span: Duration) -> Result<(), Error> {
        wait(self.submit(Operation::Pause(span), span)).await.map(drop)
    }
}

/// The response in an output.
pub(crate) fn answered(output: Output) -> Result<Response, Error> {
    match output {
        Output::Answered(response) => Ok(response),
        _ => Err(Error::mismatched()),
    }
}

pub(crate) async fn wait(answer: Answer) -> Result<Output, Error> {
    Ok(answer.await.map_err(|_| Error::stopped())??)
}

/// 128 bits that no other client draws: the standard library keys its hashers from the system.
fn random_seed() -> u128 {
    let half = || RandomState::new().hash_one((std::process::id(), clock::boot_time()));
    u128::from(half()) << 64 | u128::from(half())
}
