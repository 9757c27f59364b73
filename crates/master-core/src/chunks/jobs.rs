//! Jobs: what is under way for one place of a file, and who waits for it.
//!
//! ```text
//!   Waiting ─► Probing ─► Raising ─► Logging ─► Granting ─► (waiters are answered)
//!      │                                ▲
//!      └──► Fencing ──► Creating ───────┘            Shrinking ─► LoggingShrunk
//! ```
//! Many clients that ask for one chunk at once share its job. When a job is over, each waiter's
//! wish is looked at anew: the usual answer is the lease that now serves.

use super::raise::{Raise, Raised};
use super::{Chunks, Place};
use crate::step::Step;
use cairn_env::{Caller, EffectId};
use cairn_protocol::{
    ChunkClosedAnswer, ErrorCode, Failure, Lease as LeaseRequest, LeasePurpose, Response,
};
use cairn_types::{ChunkHandle, ChunkVersion, LeaseId, ServerId, Time};
use std::collections::BTreeSet;

/// Who waits.
#[derive(Debug)]
pub(super) enum Wish {
    /// A client for a lease.
    Lease(LeaseRequest),
    /// A primary for its chunk's close to be logged.
    Closed,
}

/// One request that waits for a job.
#[derive(Debug)]
pub(super) struct Waiter {
    pub(super) from: Caller,
    pub(super) since: Time,
    pub(super) wish: Wish,
}

impl Waiter {
    pub(super) fn client(from: Caller, since: Time, request: LeaseRequest) -> Self {
        Self { from, since, wish: Wish::Lease(request) }
    }

    /// Wants the next chunk rather than this one where this one takes no appends.
    pub(super) fn goes_on(&self) -> bool {
        match &self.wish {
            Wish::Lease(request) => request.purpose == LeasePurpose::Append,
            Wish::Closed => true,
        }
    }

    fn is_client(&self) -> bool {
        matches!(self.wish, Wish::Lease(_))
    }
}

/// A secondary's failure that a primary reported (R14).
#[derive(Debug)]
pub(super) struct Shrink {
    pub(super) from: Caller,
    pub(super) lease: LeaseId,
    pub(super) primary: ServerId,
}

/// How far a job is.
#[derive(Debug)]
pub(super) enum Phase {
    /// Nothing can be done right now; why.
    Waiting(String),
    /// The primary is asked by the master itself whether it is there (R18).
    Probing { effect: EffectId, handle: ChunkHandle },
    /// The set is raised, to grant a lease on it.
    Raising(Raise),
    /// The chunk before this place is closed to appends by raising it with the mark.
    Fencing(Raise),
    /// A new chunk is being made; who was asked so far.
    Creating { raise: Raise, tried: BTreeSet<ServerId> },
    /// The version, or the new chunk, is on its way into the log.
    Logging { handle: ChunkHandle, raised: Vec<Raised> },
    /// The close alone is on its way into the log: nobody can take a next chunk.
    LoggingClose { handle: ChunkHandle },
    /// The primary levels the replicas.
    Granting { effect: EffectId, handle: ChunkHandle, lease: LeaseId },
    /// The set is raised without those that failed.
    Shrinking { raise: Raise, shrink: Shrink },
    /// The smaller set is on its way into the log.
    LoggingShrunk {
        handle: ChunkHandle,
        version: ChunkVersion,
        raised: Vec<Raised>,
        shrink: Shrink,
    },
}

impl Phase {
    /// The chunk whose replicas or lease it changes.
    pub(super) fn handle(&self) -> Option<ChunkHandle> {
        match self {
            Self::Waiting(_) | Self::Probing { .. } => None,
            Self::Raising(raise)
            | Self::Fencing(raise)
            | Self::Creating { raise, .. }
            | Self::Shrinking { raise, .. } => Some(raise.kind().handle),
            Self::Logging { handle, .. }
            | Self::LoggingClose { handle }
            | Self::Granting { handle, .. }
            | Self::LoggingShrunk { handle, .. } => Some(*handle),
        }
    }

    /// What a person is told.
    pub(super) fn describe(&self) -> String {
        match self {
            Self::Waiting(why) => why.clone(),
            Self::Probing { .. } => "asking the primary whether it is there".to_owned(),
            Self::Raising(raise) => format!("raising {} replicas for a lease", raise.size()),
            Self::Fencing(raise) => format!("fencing {} replicas", raise.size()),
            Self::Creating { raise, .. } => format!("creating {} replicas", raise.size()),
            Self::Logging { .. } | Self::LoggingShrunk { .. } => "logging the version".to_owned(),
            Self::LoggingClose { .. } => "logging the close".to_owned(),
            Self::Granting { .. } => "the primary levels the replicas".to_owned(),
            Self::Shrinking { raise, .. } => {
                format!("raising {} replicas without one that failed", raise.size())
            }
        }
    }
}

/// What is under way for one place.
#[derive(Debug)]
pub(super) struct Job {
    pub(super) phase: Phase,
    pub(super) waiters: Vec<Waiter>,
    pub(super) since: Time,
    /// Grants that failed so far; the next one tries another primary.
    pub(super) failed_grants: usize,
}

impl Job {
    pub(super) fn new(since: Time, phase: Phase) -> Self {
        Self { phase, waiters: Vec::new(), since, failed_grants: 0 }
    }

    /// Somebody wants to append.
    pub(super) fn appends(&self) -> bool {
        self.waiters.iter().any(|waiter| waiter.is_client() && waiter.goes_on())
    }

    /// A lease goes on while its set is made smaller.
    pub(super) fn shrinks(&self) -> bool {
        matches!(self.phase, Phase::Shrinking { .. } | Phase::LoggingShrunk { .. })
    }

    /// Somebody wants a lease.
    pub(super) fn wants_lease(&self) -> bool {
        self.waiters.iter().any(Waiter::is_client)
    }
}

/// What every waiter of a file that is gone is told.
pub(super) fn no_file(place: Place) -> Failure {
    let line = format!("file {}: no such file, or it is deleted", place.0.short());
    Failure::refused(ErrorCode::NotFound, line)
}

impl Chunks {
    /// Adds a waiter to the job of a place, which is made if there is none; a job that waits is
    /// looked at at once.
    pub(super) fn join_job(&mut self, step: &mut Step<'_>, place: Place, waiter: Waiter) {
        let since = step.now.time;
        let fresh = || Job::new(since, Phase::Waiting(String::new()));
        let job = self.jobs.entry(place).or_insert_with(fresh);
        job.waiters.push(waiter);
        self.advance(step, place);
    }

    pub(super) fn set_phase(&mut self, place: Place, phase: Phase) {
        if let Some(job) = self.jobs.get_mut(&place) {
            job.phase = phase;
        }
    }

    pub(super) fn wait(&mut self, place: Place, why: String) {
        self.set_phase(place, Phase::Waiting(why));
    }

    /// The job is over: every waiter's wish is looked at anew.
    pub(super) fn finish(&mut self, step: &mut Step<'_>, place: Place) {
        let Some(job) = self.jobs.remove(&place) else { return };
        for waiter in job.waiters {
            match waiter.wish {
                Wish::Lease(request) => {
                    // What the client reported of a primary has been looked into by now.
                    let request = LeaseRequest { failed: ServerId::default(), ..request };
                    self.serve(step, Waiter::client(waiter.from, waiter.since, request));
                }
                Wish::Closed => {
                    let answer = Response::ChunkClosed(ChunkClosedAnswer {});
                    step.out.reply(waiter.from, Ok(answer));
                }
            }
        }
    }

    /// The job is over and came to nothing.
    pub(super) fn fail_job(&mut self, step: &mut Step<'_>, place: Place, failure: &Failure) {
        let Some(job) = self.jobs.remove(&place) else { return };
        for waiter in job.waiters {
            step.out.reply(waiter.from, Err(failure.clone()));
        }
    }

    /// Whether another job changes this chunk right now (K2).
    pub(super) fn is_taken(&self, place: Place, handle: ChunkHandle) -> bool {
        let of_file =
            (place.0, Default::default())..=(place.0, cairn_types::ChunkIndex::new(u64::MAX));
        let mut others = self.jobs.range(of_file).filter(|(other, _)| **other != place);
        others.any(|(_, job)| job.phase.handle() == Some(handle))
    }

    /// Looks again at every job that waits, after answering those who waited long enough.
    pub(super) fn go_on_waiting(&mut self, step: &mut Step<'_>) {
        let places: Vec<Place> = self.jobs.keys().copied().collect();
        for place in places {
            self.answer_the_tired(step, place);
            let Some(job) = self.jobs.get(&place) else { continue };
            match &job.phase {
                Phase::Waiting(_) if job.waiters.is_empty() => {
                    self.jobs.remove(&place);
                }
                Phase::Waiting(_) => self.advance(step, place),
                _ => {}
            }
        }
    }

    /// A client that waited for half a lease is told why, and may ask again.
    fn answer_the_tired(&mut self, step: &mut Step<'_>, place: Place) {
        let patience = self.config.lease() / 2;
        let now = step.now.time;
        let Some(job) = self.jobs.get_mut(&place) else { return };
        let tired = |waiter: &Waiter| now.since(waiter.since) >= patience;
        if !job.waiters.iter().any(tired) {
            return;
        }
        let (tired, patient) = std::mem::take(&mut job.waiters).into_iter().partition(tired);
        job.waiters = patient;
        let tired: Vec<Waiter> = tired;
        let line =
            format!("chunk {} of file {}: {}", place.1, place.0.short(), job.phase.describe());
        for waiter in tired {
            step.out.reply(waiter.from, Err(Failure::not_done(ErrorCode::Busy, line.clone())));
        }
    }
}
