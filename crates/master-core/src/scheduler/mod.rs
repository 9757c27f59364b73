//! The scheduler: it alone owns what is being done about chunks and what holds of them: jobs,
//! calls, proposals and leases.
//!
//! ```text
//!   request ──► rules say what to do ──► a job of its place ──► acts ──► calls · records · leases
//!   answer, applied record ──► the job that waits for it ──► acts ──► …
//!   tick ──► leases run out, jobs that wait are looked at again
//! ```
//! - SC1: a place has one job; who wants something of a place that has one waits for it.
//! - SC2: an answer or a record goes to the job that asked for it and to no other: a job that has
//!   taken the place since is not told.
//! - SC3: nothing here is logged but through a record; all of it can be lost at any time, and is
//!   told anew by chunkservers (A10).
//!
//! Decides nothing: rules and jobs do. Changes what is known only by what servers said.

mod answers;
mod apply;
mod held_leases;
mod in_flight;
mod news;
mod places;
mod raised;
mod settling;
mod snapshots;
mod streams;
mod told_acts;

use crate::chunk_place::ChunkPlace;
use crate::fleet::Fleet;
use crate::frozen_trees::FrozenTrees;
use crate::jobs::PlaceJob;
use crate::jobs::acts::Acts;
use crate::jobs::close;
use crate::jobs::length;
use crate::jobs::probe::ProbeJob;
use crate::jobs::shrink::{self, ShrinkJob};
use crate::jobs::waiters::{ChunkWaiter, ChunkWish};
use crate::leases::Leases;
use crate::rules::explain::JobLine;
use crate::rules::lease_request::{LeaseAdvice, consider};
use crate::state::{ChunkRecord, State};
use crate::step::ChunkStep;
use crate::this_term::ThisTerm;
use crate::troubles::Troubles;
use crate::underway::Activity;
use crate::view::View;
use cairn_env::{Caller, Now};
use cairn_protocol::{
    ChunkClosed, ChunkClosedAnswer, Lease as LeaseRequest, RecordLength, Response, SecondaryFailed,
};
use cairn_types::planted::{Rule, broken};
use cairn_types::{CellConfig, ChunkHandle, EntryId, ServerId, Term, Time};
use in_flight::InFlight;
pub(crate) use news::SetNews;
use places::Places;
use settling::Settling;
pub(crate) use snapshots::{Fences, TreeStilling};
pub(crate) use streams::WrittenChunks;
use told_acts::expire;

/// Jobs, calls, proposals and leases of one term.
#[derive(Debug)]
pub(crate) struct Scheduler {
    term: ThisTerm,
    leases: Leases,
    places: Places,
    in_flight: InFlight,
    troubles: Troubles,
    news: SetNews,
    settling: Settling,
    frozen: FrozenTrees,
}

impl Scheduler {
    pub(crate) fn new(term: Term) -> Self {
        Self {
            term: ThisTerm::new(term),
            leases: Leases::default(),
            places: Places::default(),
            in_flight: InFlight::default(),
            troubles: Troubles::default(),
            news: SetNews::default(),
            settling: Settling::default(),
            frozen: FrozenTrees::default(),
        }
    }

    /// A record of this term is applied: from here on requests come, and time counts.
    pub(crate) fn begin(&mut self, now: Time, config: &CellConfig) {
        assert!(self.leases.is_empty(), "nothing holds before the term is served");
        self.term.begin(now, config);
        self.troubles.begin(config);
    }

    pub(crate) fn term(&self) -> &ThisTerm {
        &self.term
    }

    /// All that is known.
    pub(crate) fn view<'a>(&'a self, now: Now, state: &'a State, fleet: &'a Fleet) -> View<'a> {
        let (term, leases, underway) = (&self.term, &self.leases, self.places.underway());
        let Self { troubles, frozen, .. } = self;
        View { now, state, term, fleet, leases, troubles, underway, frozen }
    }

    /// A client wants a lease.
    pub(crate) fn on_lease(
        &mut self,
        step: &mut ChunkStep<'_>,
        (from, since): (Caller, Time),
        request: LeaseRequest,
    ) {
        let advice = consider(&self.view(step.now, step.state, step.fleet), &request);
        let waiter = ChunkWaiter { from, since, wish: ChunkWish::Lease(request) };
        match advice {
            LeaseAdvice::Answer(answer) => step.out.reply(from, answer.map(Response::Lease)),
            LeaseAdvice::Join(place) => self.join(step, place, waiter),
            LeaseAdvice::Probe(place, handle) => {
                self.places.work_at(place, step.now.time).waiters.push(waiter);
                self.start(step, place, |at, acts| {
                    let lease = at.view.leases.get(handle).expect("it serves, so it is there");
                    Some(PlaceJob::Probe(ProbeJob::start(&at.view, handle, lease, acts)))
                });
            }
        }
    }

    /// Adds a waiter to the job of a place; a job that waits is looked at at once.
    fn join(&mut self, step: &mut ChunkStep<'_>, place: ChunkPlace, waiter: ChunkWaiter) {
        self.places.work_at(place, step.now.time).waiters.push(waiter);
        self.advance(step, place);
    }

    /// A primary lost secondaries (R14).
    pub(crate) fn on_secondary_failed(
        &mut self,
        step: &mut ChunkStep<'_>,
        from: Caller,
        request: &SecondaryFailed,
    ) {
        let (place, chunk) = match shrink::place_of(step.state, request) {
            Ok(found) => found,
            Err(failure) => return step.out.reply(from, Err(failure)),
        };
        let lease = self.leases.serving(request.handle, step.now.time);
        if let Some(lease) = lease.filter(|lease| lease.id == request.lease) {
            self.troubles.note_blame(step.now.time, (request.handle, lease), &request.failed);
        }
        let view = self.view(step.now, step.state, step.fleet);
        let mut acts = Acts::new(step.numbers, step.random);
        let job = ShrinkJob::start(&view, (from, place), (request, chunk), &mut acts);
        let acts = acts.done();
        if let Some(job) = job {
            self.places.begin(place, step.now.time, PlaceJob::Shrink(job));
        }
        self.apply(step, place, acts);
    }

    /// A primary closed its chunk: the record did not fit, every replica holds the mark (R18). The
    /// next chunk is opened, which logs the close; then it is answered.
    pub(crate) fn on_chunk_closed(
        &mut self,
        step: &mut ChunkStep<'_>,
        from: Caller,
        request: &ChunkClosed,
    ) {
        match close::told_by_primary(&self.view(step.now, step.state, step.fleet), request) {
            Ok(Some(next)) => {
                self.leases.give_up(request.handle, request.lease);
                let waiter = ChunkWaiter { from, since: step.now.time, wish: ChunkWish::Closed };
                self.join(step, next, waiter);
            }
            Ok(None) => step.out.reply(from, Ok(Response::ChunkClosed(ChunkClosedAnswer {}))),
            Err(failure) => step.out.reply(from, Err(failure)),
        }
    }

    /// A client wants a file's length to be recorded.
    pub(crate) fn on_record_length(
        &mut self,
        step: &mut ChunkStep<'_>,
        from: Caller,
        wish: &RecordLength,
    ) {
        let next = length::consider(&self.view(step.now, step.state, step.fleet), from, wish);
        self.in_flight.begin_with_length((step.out, &mut self.leases), from, next);
    }

    /// A chunk's set is to change: a clone joins it (R30), or one is left out. Whether that has
    /// begun: what comes of it is news ([`SetNews`]).
    pub(crate) fn change_set(
        &mut self,
        step: &mut ChunkStep<'_>,
        handle: ChunkHandle,
        begin: impl FnOnce(&View<'_>, &ChunkRecord, &mut Acts<'_>) -> Option<PlaceJob>,
    ) -> bool {
        let Some(chunk) = step.state.chunk(handle) else { return false };
        // One that several files have is changed for whoever is not deleted.
        let file = step.state.sharing().live_file_of(handle, &chunk);
        let place = ChunkPlace::new(file, chunk.index);
        let underway = self.places.underway();
        let is_busy = underway.at(place) != Activity::Nothing || underway.is_taken(place, handle);
        // A client's doubts come first.
        let job = self.places.get(place).map(|work| &work.job);
        if is_busy || matches!(job, Some(PlaceJob::Probe(_))) {
            return false;
        }
        let view = self.view(step.now, step.state, step.fleet);
        let mut acts = Acts::new(step.numbers, step.random);
        let job = begin(&view, &chunk, &mut acts);
        let acts = acts.done();
        let Some(job) = job else { return false };
        self.places.begin(place, step.now.time, job);
        self.apply(step, place, acts);
        true
    }

    /// The places for which clients wait and nothing can be done right now.
    pub(crate) fn waiting(&self) -> impl Iterator<Item = ChunkPlace> {
        self.places.waiting()
    }

    /// Time has passed, and these servers have died.
    pub(crate) fn on_tick(&mut self, step: &mut ChunkStep<'_>, dead: &[ServerId]) {
        if broken(Rule::R6) {
            // R6 broken: dead comes before the end of the lease, yet counts as its end.
            dead.iter().for_each(|server| self.leases.end_where(*server, |_| true));
        }
        for (handle, lease) in expire(step.out, &mut self.leases, step.now.time) {
            step.fleet.quiet_since(handle, step.now.time);
            let view = self.view(step.now, step.state, step.fleet);
            if let Some(record) = length::at_end_of_lease(&view, handle, &lease) {
                step.out.propose(record);
            }
        }
        let view = self.view(step.now, step.state, step.fleet);
        self.settling = self.settling.go_on(&view, step.out);
        self.troubles.pass(step.now.time);
        self.leases.keep_fences(|it| step.state.chunk(it).is_some_and(|chunk| !chunk.closed));
        self.go_on_waiting(step);
    }

    /// Looks again at every job that waits, after answering those who waited long enough.
    fn go_on_waiting(&mut self, step: &mut ChunkStep<'_>) {
        for place in self.places.all() {
            // A job before it may have ended this one, too.
            let Some(work) = self.places.get_mut(place) else { continue };
            work.answer_tired(step, place, self.term.config.lease() / 2);
            let waits = matches!(work.job, PlaceJob::Waiting(_));
            if waits && work.waiters.is_empty() {
                self.places.remove(place);
            } else if waits {
                self.advance(step, place);
            }
        }
    }

    /// What is under way for the chunks of a file, for a person.
    pub(crate) fn job_lines(&self, now: Time, file: EntryId) -> Vec<JobLine> {
        self.places.of_file(file).map(|(place, work)| work.line(now, *place)).collect()
    }
}
