//! Where checkers look through the seam: what was asked, what was answered, what the disks did.
//!
//! Watchers see and never touch. They run at the instant of what they see, in true time.

use crate::clock::WorldTime;
use crate::node::NodeId;
use cairn_env::Answer;
use cairn_protocol::{Failure, Request, Response};

/// One message at the instant when a driver gets it or gives it.
#[derive(Debug)]
pub struct SeenRequest<'a> {
    /// True time.
    pub at: WorldTime,
    /// Who asks.
    pub from: NodeId,
    /// Who is asked.
    pub to: NodeId,
    /// The question.
    pub request: &'a Request,
}

/// One answer on its last step to whoever asked.
#[derive(Debug)]
pub struct SeenAnswer<'a> {
    /// Who answers.
    pub from: NodeId,
    /// Who asked.
    pub to: NodeId,
    /// The answer, as it was given.
    pub answer: &'a Answer,
}

/// Sees the messages of all drivers.
pub trait MessageWatch {
    /// A driver is about to get this request.
    fn delivered(&mut self, seen: &SeenRequest<'_>);
    /// A driver has given its answer; it may yet be lost on the way.
    fn answered(&mut self, seen: &SeenRequest<'_>, answer: &Result<Response, Failure>);
    /// A process begins its life, or ended it.
    fn lives(&mut self, at: WorldTime, node: NodeId, alive: bool);
}

/// Sees the disk work of one kind of driver.
pub trait JobWatch<J, R> {
    /// A job ran: its effect is on the disk as of now, the driver hears of it later.
    fn ran(&mut self, at: WorldTime, node: NodeId, job: &J, result: &R);
}
