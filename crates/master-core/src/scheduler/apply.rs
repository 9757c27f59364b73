//! Jobs begin, take events and end; what they want done is done here, in their order.

use super::Scheduler;
use super::in_flight::AwaitedRecord;
use super::places::JobName;
use super::told_acts::tell_act;
use crate::chunk_place::ChunkPlace;
use crate::jobs::PlaceJob;
use crate::jobs::acts::{Act, Acts};
use crate::jobs::close::CloseJob;
use crate::jobs::copy_on_write::CopyOnWriteJob;
use crate::jobs::events::{JobEvent, PlaceView};
use crate::jobs::fence::FenceJob;
use crate::jobs::grant::GrantJob;
use crate::jobs::open::OpenJob;
use crate::jobs::waiters::ChunkWish;
use crate::rules::next_step::{NextStep, next_step};
use crate::step::ChunkStep;
use cairn_protocol::{ChunkClosedAnswer, Failure, Lease as LeaseRequest, Response};
use cairn_types::ServerId;

impl Scheduler {
    /// Lets a place's job, or what begins one, look at everything and say what is to be done.
    fn with_work<T>(
        &mut self,
        step: &mut ChunkStep<'_>,
        place: ChunkPlace,
        act: impl FnOnce(&mut PlaceJob, &PlaceView<'_>, &mut Acts<'_>) -> T,
    ) -> (T, Vec<Act>) {
        let mut work = self.places.take(place);
        let mut acts = Acts::new(step.numbers, step.random);
        let seen = work.seen(self.view(step.now, step.state, step.fleet), place);
        let done = act(&mut work.job, &seen, &mut acts);
        let acts = acts.done();
        self.places.put(place, work);
        (done, acts)
    }

    /// Begins a job at a place; none: nothing can begin, and its acts say why.
    pub(super) fn start(
        &mut self,
        step: &mut ChunkStep<'_>,
        place: ChunkPlace,
        begin: impl FnOnce(&PlaceView<'_>, &mut Acts<'_>) -> Option<PlaceJob>,
    ) {
        let (job, acts) = self.with_work(step, place, |_, seen, acts| begin(seen, acts));
        if let Some(job) = job {
            self.places.set_job(place, job);
        }
        self.apply(step, place, acts);
    }

    /// Tells a job what has come of something that it wanted done (SC2).
    pub(super) fn tell(&mut self, step: &mut ChunkStep<'_>, job: JobName, event: JobEvent<'_>) {
        // A probe is dropped where a primary shrinks its set meanwhile; all others wait to their
        // end.
        if !self.places.is_present(job) {
            return;
        }
        let place = job.place;
        let ((), acts) = self.with_work(step, place, |job, seen, acts| job.on(seen, event, acts));
        self.apply(step, place, acts);
    }

    /// Takes the next step of a job that waits.
    pub(super) fn advance(&mut self, step: &mut ChunkStep<'_>, place: ChunkPlace) {
        let Some(work) = self.places.get(place) else { return };
        // One that is at work goes on by itself.
        if !matches!(work.job, PlaceJob::Waiting(_)) {
            return;
        }
        let (since, wants) = (work.since, work.waiters.wants());
        let view = self.view(step.now, step.state, step.fleet);
        match next_step(&view, (place, since), wants) {
            NextStep::Fail(failure) => self.fail(step, place, &failure),
            NextStep::FailWriters(failure) => self.places.fail_writers(step, place, &failure),
            NextStep::Finish => self.finish(step, place),
            NextStep::GoOnInNext => self.go_on_in_next(step, place),
            NextStep::Wait { why, want } => {
                if let Some(handle) = want {
                    step.fleet.want(step.now.time, handle);
                }
                self.places.set_job(place, PlaceJob::Waiting(why.into()));
            }
            NextStep::Raise(handle, chunk, members) => {
                self.start(step, place, |at, acts| {
                    let job = GrantJob::start(&at.view, (handle, &chunk), members, acts);
                    Some(PlaceJob::Grant(job))
                });
            }
            NextStep::Copy(handle, chunk, members) => self.start(step, place, |at, acts| {
                Some(CopyOnWriteJob::start(at, (handle, &chunk), members, acts).into())
            }),
            NextStep::Fence(handle, members) => self.start(step, place, |at, acts| {
                Some(PlaceJob::Fence(FenceJob::start(&at.view, handle, members, acts)))
            }),
            NextStep::Open => {
                self.start(step, place, |at, acts| OpenJob::start(at, acts).map(PlaceJob::Open))
            }
        }
    }

    /// Does what a job wants done.
    pub(super) fn apply(&mut self, step: &mut ChunkStep<'_>, place: ChunkPlace, acts: Vec<Act>) {
        acts.into_iter().for_each(|act| self.apply_one(step, place, act));
    }

    fn apply_one(&mut self, step: &mut ChunkStep<'_>, place: ChunkPlace, act: Act) {
        tell_act(step.out, &self.leases, step.state, &act);
        let now = step.now.time;
        match act {
            Act::Ask { at, question, deadline } => {
                let job = (now, self.places.name_of(place));
                self.in_flight.ask(step.out, job, at, question, deadline);
            }
            Act::Propose(record) => {
                let purpose = AwaitedRecord::Job(self.places.name_of(place));
                self.in_flight.propose(step.out, record, purpose);
            }
            Act::Record(record) => {
                step.out.propose(record);
            }
            Act::InsertLease(handle, lease) => self.leases.insert(handle, lease),
            Act::ConfirmLease(handle, lease) => {
                self.leases.confirm(handle, lease);
                if let Some(lease) = self.leases.get(handle) {
                    self.troubles.note_serving(handle, lease);
                }
            }
            Act::BlameFor { handle, primary, blamed } => {
                let set_size = step.state.chunk(handle).map_or(1, |chunk| chunk.set_size);
                // Who is not of the set is no answer to why it failed.
                let of_set = self.leases.has_secondary(handle, blamed);
                let blamed = if of_set { blamed } else { primary };
                self.troubles.note_failed((now, handle), (primary, blamed), set_size);
            }
            Act::DoubtLease(handle, lease, status) => self.leases.set_status(handle, lease, status),
            Act::ShrinkLease(handle, lease, version, secondaries) => {
                self.leases.shrink(handle, lease, (version, secondaries));
            }
            Act::Fence(handle) => self.leases.fence(handle),
            Act::Chosen(server) => step.fleet.placed_on(now, server),
            Act::Placed(handle, server, report) => {
                step.note_replica(handle, server, &report);
            }
            Act::MarkDamaged(handle, server) => step.fleet.mark_damaged(handle, server),
            Act::Grown(handle, result) => self.news.grown.push((handle, result)),
            Act::LeftOut(handle, result) => self.news.left_out.push((handle, result)),
            Act::Allocated(result) => self.news.allocated.push((place, result)),
            Act::Assembled(result) => self.news.assembled.push((place, result)),
            Act::Sealed(handle, result) => self.news.sealed.push((handle, result)),
            Act::AnswerClosed => self.answer_closed(step, place),
            Act::AnswerShrink(from, answer) => {
                step.out.reply(from, answer.map(Response::SecondaryFailed));
            }
            Act::Wait(why) => self.places.set_job(place, PlaceJob::Waiting(why)),
            Act::LookAgain(why) => {
                self.places.set_job(place, PlaceJob::Waiting(why));
                self.advance(step, place);
            }
            Act::GrantLease(handle, raised) => self.start(step, place, |at, acts| {
                GrantJob::start_granting(at, handle, raised, acts).map(PlaceJob::Grant)
            }),
            Act::LevelFirst(to, raised, planned) => self.start(step, place, |at, acts| {
                GrantJob::start_logging(at, to, (raised, planned), acts).map(PlaceJob::Grant)
            }),
            Act::FailWriters(failure) => self.places.fail_writers(step, place, &failure),
            Act::CloseAlone(handle) => self.start(step, place, |at, acts| {
                Some(PlaceJob::Close(CloseJob::start(&at.view, handle, acts)))
            }),
            Act::GoOnInNext => self.go_on_in_next(step, place),
            Act::Finish => self.finish(step, place),
            Act::Fail(failure) => self.fail(step, place, &failure),
        }
    }

    /// Takes the waiters that append to the place after this one.
    fn go_on_in_next(&mut self, step: &mut ChunkStep<'_>, place: ChunkPlace) {
        self.places.set_job(place, PlaceJob::Waiting("the chunk is being closed".into()));
        assert!(place.next() > place, "no chunk is the last that there can be");
        let work = self.places.work_at(place, step.now.time);
        let appends = work.waiters.take_going_on();
        if work.waiters.is_empty() {
            self.places.remove(place);
        }
        self.places.work_at(place.next(), step.now.time).waiters.extend(appends);
        self.advance(step, place.next());
    }

    /// The job is over: every waiter's wish is looked at anew.
    fn finish(&mut self, step: &mut ChunkStep<'_>, place: ChunkPlace) {
        for waiter in self.places.remove(place).waiters.into_iter() {
            match waiter.wish {
                ChunkWish::Lease(request) => {
                    // What the client reported of a primary has been looked into by now.
                    let request = LeaseRequest { failed: ServerId::default(), ..request };
                    self.on_lease(step, (waiter.from, waiter.since), request);
                }
                ChunkWish::Closed => {
                    let answer = Response::ChunkClosed(ChunkClosedAnswer {});
                    step.out.reply(waiter.from, Ok(answer));
                }
            }
        }
    }

    /// The job is over and came to nothing.
    fn fail(&mut self, step: &mut ChunkStep<'_>, place: ChunkPlace, failure: &Failure) {
        for waiter in self.places.remove(place).waiters.into_iter() {
            step.out.reply(waiter.from, Err(failure.clone()));
        }
    }

    /// Tells the primary that its chunk's close is logged.
    fn answer_closed(&mut self, step: &mut ChunkStep<'_>, place: ChunkPlace) {
        let work = self.places.get_mut(place).expect("its job has just said so");
        for waiter in work.waiters.take_closers() {
            step.out.reply(waiter.from, Ok(Response::ChunkClosed(ChunkClosedAnswer {})));
        }
    }
}
