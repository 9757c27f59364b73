//! The places at which something is under way, each with its job and with who waits for it.
//!
//! - PW1: what rules and other jobs may know of it (`underway.rs`) is written down with every
//!   change.

use crate::chunk_place::ChunkPlace;
use crate::jobs::PlaceJob;
use crate::jobs::events::PlaceView;
use crate::jobs::wait_cause::WaitCause;
use crate::jobs::waiters::ChunkWaiters;
use crate::rules::explain::JobLine;
use crate::step::ChunkStep;
use crate::underway::Underway;
use crate::view::View;
use cairn_protocol::{ErrorCode, Failure};
use cairn_types::{EntryId, Time};
use std::collections::BTreeMap;
use std::time::Duration;

/// Names a job within one term (SC2).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct JobNumber(u64);

/// The job of a place, in one of its lives.
#[derive(Clone, Copy, Debug)]
pub(super) struct JobName {
    pub(super) place: ChunkPlace,
    pub(super) number: JobNumber,
}

/// What is under way for one place, and who waits for it.
#[derive(Debug)]
pub(super) struct PlaceWork {
    pub(super) job: PlaceJob,
    number: JobNumber,
    pub(super) waiters: ChunkWaiters,
    pub(super) since: Time,
}

impl PlaceWork {
    fn new(since: Time) -> Self {
        let (job, number) = (PlaceJob::Waiting("".into()), JobNumber::default());
        Self { job, number, waiters: ChunkWaiters::default(), since }
    }

    /// A client that has waited for so long is told why, and may ask again.
    pub(super) fn answer_tired(
        &mut self,
        step: &mut ChunkStep<'_>,
        place: ChunkPlace,
        patience: Duration,
    ) {
        for waiter in self.waiters.take_tired(step.now.time, patience) {
            let failure = match &self.job {
                PlaceJob::Waiting(reason) => reason.failure(place),
                at_work => WaitCause::from(at_work.describe()).failure(place),
            };
            step.out.reply(waiter.from, Err(failure));
        }
    }

    /// What is under way, for a person.
    pub(super) fn line(&self, now: Time, place: ChunkPlace) -> JobLine {
        let (age, what) = (now.since(self.since).as_millis(), self.job.describe());
        let waits = matches!(self.job, PlaceJob::Waiting(_));
        JobLine { index: place.index, waits, line: format!("for {age} ms: {what}") }
    }

    /// What its job sees.
    pub(super) fn seen<'a>(&self, view: View<'a>, place: ChunkPlace) -> PlaceView<'a> {
        let (since, wants) = (self.since, self.waiters.wants());
        PlaceView { view, place, since, wants }
    }
}

/// All places at which something is under way.
#[derive(Debug, Default)]
pub(super) struct Places {
    works: BTreeMap<ChunkPlace, PlaceWork>,
    underway: Underway,
    last_job: JobNumber,
}

impl Places {
    pub(super) fn underway(&self) -> &Underway {
        &self.underway
    }

    /// All of them, in order of file and index.
    pub(super) fn all(&self) -> Vec<ChunkPlace> {
        self.works.keys().copied().collect()
    }

    /// Those that wait, and for which a client does.
    pub(super) fn waiting(&self) -> impl Iterator<Item = ChunkPlace> {
        let waits =
            |work: &PlaceWork| matches!(work.job, PlaceJob::Waiting(_)) && !work.waiters.is_empty();
        self.works.iter().filter(move |(_, work)| waits(work)).map(|(place, _)| *place)
    }

    /// Those at which somebody waits for the chunk before to be closed.
    pub(super) fn closing(&self) -> impl Iterator<Item = ChunkPlace> {
        let closes = |(_, work): &(&ChunkPlace, &PlaceWork)| work.waiters.wants().close;
        self.works.iter().filter(closes).map(|(place, _)| *place)
    }

    pub(super) fn of_file(&self, file: EntryId) -> impl Iterator<Item = (&ChunkPlace, &PlaceWork)> {
        self.works.range(ChunkPlace::all_of(file))
    }

    pub(super) fn get(&self, place: ChunkPlace) -> Option<&PlaceWork> {
        self.works.get(&place)
    }

    pub(super) fn get_mut(&mut self, place: ChunkPlace) -> Option<&mut PlaceWork> {
        self.works.get_mut(&place)
    }

    /// Whether that job is still the one of its place.
    pub(super) fn is_present(&self, job: JobName) -> bool {
        self.get(job.place).is_some_and(|work| work.number == job.number)
    }

    /// The present job of a place.
    pub(super) fn name_of(&self, place: ChunkPlace) -> JobName {
        let work = self.works.get(&place).expect("whoever asks has a place");
        JobName { place, number: work.number }
    }

    /// What is under way at a place, which from now on waits if it is nothing.
    pub(super) fn work_at(&mut self, place: ChunkPlace, since: Time) -> &mut PlaceWork {
        let work = self.works.entry(place).or_insert_with(|| PlaceWork::new(since));
        self.underway.set(place, Some(work.job.doing()));
        work
    }

    /// Begins a job at a place, where something may wait.
    pub(super) fn begin(&mut self, place: ChunkPlace, since: Time, job: PlaceJob) {
        self.work_at(place, since);
        self.set_job(place, job);
    }

    /// Gives a place another job, with a number of its own (SC2).
    pub(super) fn set_job(&mut self, place: ChunkPlace, job: PlaceJob) {
        let work = self.works.get_mut(&place).expect("a job has a place");
        self.last_job = JobNumber(self.last_job.0 + 1);
        work.number = self.last_job;
        work.job = job;
        self.underway.set(place, Some(work.job.doing()));
    }

    /// A quota has no room for what some want to write (R36): they are told. What the others want
    /// is looked at with the next tick.
    pub(super) fn fail_writers(
        &mut self,
        step: &mut ChunkStep<'_>,
        place: ChunkPlace,
        failure: &Failure,
    ) {
        assert_eq!(failure.code, ErrorCode::QuotaExceeded, "nothing else is for writers alone");
        self.set_job(place, PlaceJob::Waiting("a quota has no room for more".into()));
        let work = self.works.get_mut(&place).expect("a job has a place");
        for waiter in work.waiters.take_writers() {
            step.out.reply(waiter.from, Err(failure.clone()));
        }
        assert!(!work.waiters.wants().mutates, "all of them are told");
    }

    pub(super) fn remove(&mut self, place: ChunkPlace) -> PlaceWork {
        self.underway.set(place, None);
        self.works.remove(&place).expect("a job ends once")
    }

    /// Takes the work of a place into hand, so that its job can look at all others.
    pub(super) fn take(&mut self, place: ChunkPlace) -> PlaceWork {
        self.works.remove(&place).expect("whoever acts has a place")
    }

    /// Puts what was taken back.
    pub(super) fn put(&mut self, place: ChunkPlace, work: PlaceWork) {
        self.underway.set(place, Some(work.job.doing()));
        let other = self.works.insert(place, work);
        assert!(other.is_none(), "a place has one job (SC1)");
    }
}
