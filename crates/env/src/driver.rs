//! A driver (the driver of one state machine) and the service that does its disk work.

use crate::{Effect, Event, Now, PushedData};
use cairn_protocol::{ErrorCode, Failure};
use cairn_types::PushId;

/// What runs beside the driver's thread: jobs on lanes, and pushed data.
///
/// Shared by several threads in the real world; called in turn in the simulated one.
pub trait Service: Send + Sync + 'static {
    /// What it can be asked to do.
    type Job: Send + std::fmt::Debug + 'static;
    /// What comes of it, failures included.
    type JobResult: Send + std::fmt::Debug + 'static;

    /// Does jobs of one lane, in order; what waited together comes together, so that one flush
    /// serves them all (group commit). One result each.
    fn run(&self, jobs: Vec<Self::Job>) -> Vec<Self::JobResult>;

    /// Keeps pushed data, verified already, under its name (R15).
    ///
    /// # Errors
    /// A [`Failure`] for whoever pushed.
    fn keep(&self, push: PushId, data: PushedData) -> Result<(), Failure> {
        let _ = (push, data);
        Err(Failure::refused(ErrorCode::Invalid, "this server takes no pushed data"))
    }
}

/// A state machine with one entrance, as the worlds drive it. Total, bounded, never waits.
pub trait Driver {
    /// Its disk work.
    type Service: Service;
    /// What the program around it may ask of it.
    type Command;

    /// Takes one event; what is to be done is pushed to `effects`.
    fn handle(
        &mut self,
        now: Now,
        event: Event<Self::Command, <Self::Service as Service>::JobResult>,
        effects: &mut Vec<Effect<<Self::Service as Service>::Job>>,
    );

    /// The world has dealt with all that was at hand: does for all of it what is dear to do for
    /// each, such as one append to a log, or to tell those who gave commands what came of them,
    /// who would else wake up one by one, and ask one by one.
    ///
    /// Called after one event or after many, and before the world waits.
    fn end_of_batch(
        &mut self,
        now: Now,
        effects: &mut Vec<Effect<<Self::Service as Service>::Job>>,
    ) {
        let _ = (now, effects);
    }
}
