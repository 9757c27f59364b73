//! The client as a driver: no disk, no requests to serve.

use crate::core::ClientCore;
use crate::operation::Command;
use cairn_env::{Driver, Effect, Event, Now, Service};

/// A client has no disk work: there is no such job.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NoJob {}

/// The service of a driver without a disk.
#[derive(Clone, Copy, Debug, Default)]
pub struct NoDisk;

impl Service for NoDisk {
    type Job = NoJob;
    type JobResult = NoJob;

    fn run(&self, jobs: Vec<NoJob>) -> Vec<NoJob> {
        jobs
    }
}

impl Driver for ClientCore {
    type Service = NoDisk;
    type Command = Command;

    fn handle(&mut self, now: Now, event: Event<Command, NoJob>, effects: &mut Vec<Effect<NoJob>>) {
        self.step(now, event, effects);
    }

    fn end_of_batch(&mut self, now: Now, effects: &mut Vec<Effect<NoJob>>) {
        ClientCore::end_of_batch(self, now, effects);
    }
}
