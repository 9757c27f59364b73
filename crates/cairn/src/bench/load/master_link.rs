//! Requests to the master as they are, for those that the library makes by itself only: where a
//! file's chunks lie, who orders a chunk's mutations.

use cairn_client_core::{ClientCore, ClientSettings, Command, NoDisk, Operation, Output};
use cairn_env_os::{LaunchError, LaunchOptions, Running, clock, launch};
use cairn_protocol::{ErrorCode, Failure, Request, Response};
use cairn_types::{Address, Rack};
use std::hash::{BuildHasher, RandomState};
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::oneshot;

/// The client's state machine in a thread of its own, as the library has it; ends with its last
/// clone.
#[derive(Clone, Debug)]
pub(crate) struct MasterLink {
    running: Arc<Running<Command>>,
    deadline: Duration,
}

impl MasterLink {
    /// A client of the cell at this address.
    ///
    /// # Errors
    /// Where no thread can be started.
    pub(crate) fn start(cell: &str, deadline: Duration) -> Result<Self, LaunchError> {
        let half = || u128::from(RandomState::new().hash_one(std::process::id()));
        let seed = half() << 64 | half();
        let masters = cell.split(',').map(Address::new).collect();
        let core = ClientCore::new(ClientSettings { masters, rack: Rack::default(), seed });
        let running = launch(core, Arc::new(NoDisk), LaunchOptions::new("bench-client"))?;
        Ok(Self { running: Arc::new(running), deadline })
    }

    /// Asks, again where that may help, until the deadline.
    ///
    /// # Errors
    /// The master's, or that none answered.
    pub(crate) async fn ask(&self, request: impl Into<Request>) -> Result<Response, Failure> {
        let (tell, answer) = oneshot::channel();
        let done = Box::new(move |result| drop(tell.send(result)));
        let operation = Operation::Ask(request.into());
        let deadline = clock::boot_time() + self.deadline;
        let stopped = || Failure::unknown(ErrorCode::Internal, "the bench's client has stopped");
        let command = Command { ticket: 0, operation, deadline, done };
        self.running.sender().send(command).map_err(|_| stopped())?;
        match answer.await.map_err(|_| stopped())?? {
            Output::Answered(response) => Ok(response),
            _ => Err(Failure::unknown(ErrorCode::Internal, "an answer of another kind")),
        }
    }
}
