//! Jobs: what is under way for one place of a file, a type and a file for each kind.
//!
//! ```text
//!              ┌─► ProbeJob ─┐
//!   Waiting ◄──┤─► GrantJob ─┼─► (waiters are answered)
//!      ▲       ├─► FenceJob ─┤
//!      │       ├─► OpenJob ──┼─► GrantJob
//!      │       ├─► CloseJob ─┤
//!      ├───────┼─► ShrinkJob ┤
//!      ├───────┼─► GrowJob ──┤
//!      ├───────┼─► CopyOnWriteJob ─► GrantJob
//!      └───────┼─► LeaveOutJob
//!              └─► AllocateJob, SealJob, AssembleJob (of streams)
//! ```
//! - JB1: a job changes nothing but itself: it looks at what is known, takes an event and says what
//!   is to be done (`acts.rs`).
//! - JB2: an event that a job is not waiting for does not reach it: calls and records are its own.

pub(crate) mod acts;
pub(crate) mod allocate;
pub(crate) mod assemble;
pub(crate) mod close;
pub(crate) mod copy_on_write;
mod creation;
pub(crate) mod events;
pub(crate) mod fence;
pub(crate) mod grant;
pub(crate) mod grow;
pub(crate) mod leave_out;
pub(crate) mod length;
pub(crate) mod open;
pub(crate) mod probe;
pub(crate) mod raise;
pub(crate) mod revoke;
pub(crate) mod seal;
pub(crate) mod shrink;
pub(crate) mod wait_cause;
pub(crate) mod waiters;

use crate::underway::Activity;
use acts::Acts;
use allocate::AllocateJob;
use assemble::AssembleJob;
use close::CloseJob;
use copy_on_write::CopyOnWriteJob;
use events::{JobEvent, PlaceView};
use fence::FenceJob;
use grant::GrantJob;
use grow::GrowJob;
use leave_out::LeaveOutJob;
use open::OpenJob;
use probe::ProbeJob;
use seal::SealJob;
use shrink::ShrinkJob;
use wait_cause::WaitCause;

/// What is under way for a place.
#[derive(Debug)]
pub(crate) enum PlaceJob {
    /// Nothing can be done right now; why.
    Waiting(WaitCause),
    Probe(ProbeJob),
    Grant(GrantJob),
    Fence(FenceJob),
    Open(OpenJob),
    Close(CloseJob),
    Shrink(ShrinkJob),
    Grow(GrowJob),
    LeaveOut(LeaveOutJob),
    Copy(CopyOnWriteJob),
    Allocate(AllocateJob),
    Seal(SealJob),
    Assemble(AssembleJob),
}

impl From<CopyOnWriteJob> for PlaceJob {
    fn from(job: CopyOnWriteJob) -> Self {
        Self::Copy(job)
    }
}

impl PlaceJob {
    /// Takes an event, and says what is to be done.
    pub(crate) fn on(&mut self, at: &PlaceView<'_>, event: JobEvent<'_>, acts: &mut Acts<'_>) {
        match self {
            Self::Waiting(why) => unreachable!("who waits ({why:?}) has asked for nothing (JB2)"),
            Self::Probe(job) => job.on(event, acts),
            Self::Grant(job) => job.on(at, event, acts),
            Self::Fence(job) => job.on(event, acts),
            Self::Open(job) => job.on(at, event, acts),
            Self::Close(job) => job.on(event, acts),
            Self::Shrink(job) => job.on(at, event, acts),
            Self::Grow(job) => job.on(at, event, acts),
            Self::LeaveOut(job) => job.on(at, event, acts),
            Self::Copy(job) => job.on(at, event, acts),
            Self::Allocate(job) => job.on(at, event, acts),
            Self::Seal(job) => job.on(at, event, acts),
            Self::Assemble(job) => job.on(at, event, acts),
        }
    }

    /// What other jobs, and the rules, must know of it.
    pub(crate) fn doing(&self) -> Activity {
        match self {
            Self::Waiting(_) | Self::Probe(_) => Activity::Nothing,
            Self::Grant(job) => Activity::Changing(job.handle()),
            Self::Fence(job) => Activity::Changing(job.handle()),
            Self::Open(job) => Activity::Making(job.handle()),
            Self::Close(job) => Activity::Closing(job.handle()),
            Self::Shrink(job) => Activity::Shrinking(job.handle()),
            Self::Grow(job) => Activity::Changing(job.handle()),
            Self::LeaveOut(job) => Activity::Changing(job.handle()),
            Self::Copy(job) => job.doing(),
            Self::Allocate(job) => Activity::Making(job.handle()),
            Self::Seal(job) => Activity::Changing(job.handle()),
            Self::Assemble(job) => job.doing(),
        }
    }

    /// What a person is told.
    pub(crate) fn describe(&self) -> String {
        match self {
            Self::Waiting(reason) => reason.why().to_owned(),
            Self::Probe(_) => "asking the primary whether it is there".to_owned(),
            Self::Grant(job) => job.describe(),
            Self::Fence(job) => job.describe(),
            Self::Open(job) => job.describe(),
            Self::Close(_) => "logging the close".to_owned(),
            Self::Shrink(job) => job.describe(),
            Self::Grow(job) => job.describe(),
            Self::LeaveOut(job) => job.describe(),
            Self::Copy(job) => job.describe(),
            Self::Allocate(job) => job.describe(),
            Self::Seal(job) => job.describe(),
            Self::Assemble(job) => job.describe(),
        }
    }
}
