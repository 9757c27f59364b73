//! One opening of a producer: its bundles, the chunks that it writes, and what the master says
//! (R38 to R40).
//!
//! - PR1: bundles are committed in the order of their numbers, one request at a time; that very
//!   request is repeated until it is answered (R39).
//! - PR2: a bundle goes to another chunk only where it was not put to the master with this one, or
//!   the master has said that it never will be in the file by it.
//! - PR3: once one bundle has failed, none behind it is sent: it would leave a gap. What was put to
//!   the master, and not answered, is *unknown*, and only another opening tells what became of it.
//! - PR4: what is answered to a repeated commit may be overtaken by the try before it: that its
//!   chunk is lost says nothing of the bundle then, until a later answer does.

use crate::context::ClientContext;
use crate::ids::{OperationId, TaskId};
use crate::operation::{Output, ProducerMode};
use crate::producers::bundle_queue::{BundleQueue, BundleState, WaitingBundle};
use crate::producers::producer_chunks::{AllocationWish, BundleNeeds, ProducerChunks};
use crate::producers::producer_context::ProducerContext;
use crate::retry::{at_deadline, is_silence};
use crate::tasks::bundle_store::{BundleStore, StoredBundle};
use crate::tasks::master_call::{MasterAnswer, MasterCall};
use crate::tasks::task::{Task, TaskResult};
use crate::tasks::task_context::TaskInput;
use crate::tasks::task_table::TaskTable;
use crate::timers::TimerKey;
use cairn_protocol::{
    AllocateChunks, BUNDLES_MAX, CommitBundles, CommitBundlesAnswer, CommitOutcome, ErrorCode,
    Failure, OpenProducerAnswer, Outcome, Rpc,
};
use cairn_types::{ChunkHandle, EntryId, Epoch, ProducerId, RecordNumber};
use std::time::Duration;

/// Bundles that have a place and are not committed, at the most.
const BUNDLES_UNDER_WAY: usize = 8;
/// How long a chunk is asked for that no bundle waits for.
const AHEAD_PATIENCE: Duration = Duration::from_secs(10);

/// A commit under way.
#[derive(Clone, Copy, Debug)]
struct CommitUnderWay {
    task: TaskId,
    /// Of how many bundles, the oldest ones.
    count: usize,
}

/// Chunks are asked for.
#[derive(Clone, Copy, Debug)]
struct AllocationUnderWay {
    task: TaskId,
    /// There will be one more than there was.
    brings_one: bool,
}

/// One opening.
#[derive(Debug)]
pub(crate) struct ProducerEpoch {
    file: EntryId,
    mode: ProducerMode,
    id: ProducerId,
    epoch: Epoch,
    /// The last record that is known to be committed.
    committed: RecordNumber,
    bundles: BundleQueue,
    chunks: ProducerChunks,
    allocation: Option<AllocationUnderWay>,
    commit: Option<CommitUnderWay>,
    /// No chunk is asked for before this rings.
    rest: Option<TimerKey>,
    /// Chunks that did not do since the last commit.
    attempts: u32,
    /// It takes nothing more, and why (PR3).
    over: Option<Failure>,
    last_failure: Option<Failure>,
}

impl ProducerEpoch {
    pub(crate) fn new((file, mode): (EntryId, ProducerMode), opened: &OpenProducerAnswer) -> Self {
        Self {
            file,
            mode,
            id: opened.producer,
            epoch: opened.epoch,
            committed: opened.number,
            bundles: BundleQueue::new(opened.number),
            chunks: ProducerChunks::default(),
            allocation: None,
            commit: None,
            rest: None,
            attempts: 0,
            over: None,
            last_failure: None,
        }
    }

    /// As the master knows it.
    pub(crate) fn names(&self) -> (EntryId, ProducerId, Epoch) {
        (self.file, self.id, self.epoch)
    }

    /// Whether nothing of it is on its way.
    pub(crate) fn is_idle(&self) -> bool {
        self.bundles.len() == 0
    }

    /// Why it takes nothing more, if that is so.
    pub(crate) fn over(&self) -> Option<&Failure> {
        self.over.as_ref()
    }

    /// The number of the last record that it was given.
    pub(crate) fn last(&self) -> RecordNumber {
        self.bundles.last()
    }

    /// Takes the next bundle.
    pub(crate) fn send(&mut self, cx: &mut ProducerContext<'_>, bundle: WaitingBundle) {
        assert!(self.over.is_none(), "PR3: a bundle behind one that has failed");
        self.bundles.push(bundle);
        self.go_on(cx);
    }

    /// Does what can be done.
    fn go_on(&mut self, cx: &mut ProducerContext<'_>) {
        if self.over.is_some() {
            return;
        }
        let lacks_chunk = self.place(cx);
        self.commit(cx);
        self.allocate(cx, lacks_chunk);
    }

    /// Gives the next bundles their places, in order; whether one found none.
    fn place(&mut self, cx: &mut ProducerContext<'_>) -> bool {
        let cell = cx.client.cell();
        let (chunk_size, block_size) = (cell.chunk_size, cell.block_size);
        while self.bundles.placed_count() < BUNDLES_UNDER_WAY
            && let Some(next) = self.bundles.first_waiting()
        {
            let bundle = self.bundles.get(next);
            let (first, last, size) = (bundle.first, bundle.last, bundle.bytes.len() as u64);
            let needs = BundleNeeds { first, last, size, chunk_size };
            let Some(place) = self.chunks.place(needs) else { return true };
            let servers = self.chunks.servers(place.handle);
            let has_turn = self.bundles.first_storing_in(place.handle).is_none();
            let bytes = bundle.bytes.clone();
            let modes = (bundle.sync, has_turn);
            let store = BundleStore::new(place, servers, bytes, block_size, modes);
            let task = cx.start(bundle.deadline, Task::BundleStore(store));
            self.bundles.set_state(next, BundleState::Storing { task, place });
        }
        false
    }

    /// Puts what is stored to the master (PR1).
    fn commit(&mut self, cx: &mut ProducerContext<'_>) {
        if self.commit.is_some() {
            return;
        }
        let (bundles, deadline) = self.bundles.to_commit(BUNDLES_MAX);
        let count = bundles.len();
        if count > 0 {
            let (file, producer, epoch) = self.names();
            let commit = CommitBundles { file, producer, epoch, bundles };
            let call = MasterCall::new(commit).waits_for_lock(!self.mode.fails_if_locked);
            let task = cx.start(deadline, Task::MasterCall(call));
            self.commit = Some(CommitUnderWay { task, count });
        }
    }

    /// Asks for chunks where one lacks, or will soon (R42).
    fn allocate(&mut self, cx: &mut ProducerContext<'_>, lacks_chunk: bool) {
        let waiting = self.bundles.first_waiting().filter(|_| lacks_chunk);
        let waiting = waiting.map(|place| self.bundles.get(place).deadline);
        if let (Some(allocation), Some(deadline)) = (self.allocation, waiting) {
            if allocation.brings_one {
                cx.tasks.extend_deadline(allocation.task, deadline);
            } else {
                // It asks for less than is needed by now.
                cx.cancel(allocation.task);
                self.allocation = None;
            }
        }
        if self.allocation.is_some() || self.rest.is_some() {
            return;
        }
        let (chunk_size, now) = (cx.client.cell().chunk_size, cx.client.now);
        let Some(wanted) = self.chunks.wanted(lacks_chunk, chunk_size, now) else { return };
        let AllocationWish { count, leaves, unreachable, brings_one } = wanted;
        let (file, producer, epoch) = self.names();
        let ask = AllocateChunks { file, producer, epoch, count, leaves, unreachable };
        let deadline = waiting.unwrap_or(now + AHEAD_PATIENCE);
        let task = cx.start(deadline, Task::MasterCall(MasterCall::new(ask)));
        self.allocation = Some(AllocationUnderWay { task, brings_one });
    }

    /// Asks for no chunk for a while, longer each time.
    fn rest(&mut self, cx: &mut ProducerContext<'_>) {
        let rest = cx.client.backoff(self.attempts);
        self.attempts += 1;
        if !rest.is_zero() && self.rest.is_none() {
            self.rest = Some(cx.set_alarm(rest));
        }
    }

    /// The rest is over.
    pub(crate) fn ring(&mut self, cx: &mut ProducerContext<'_>) {
        let rung = self.rest.take();
        assert!(rung.is_some(), "an alarm that nobody set");
        self.go_on(cx);
    }

    /// One of its tasks is over.
    pub(crate) fn task_over(
        &mut self,
        cx: &mut ProducerContext<'_>,
        task: TaskId,
        result: Result<TaskResult, Failure>,
    ) {
        if self.allocation.is_some_and(|allocation| allocation.task == task) {
            self.allocation = None;
            self.allocated(cx, result.map(answer_of));
        } else if let Some(commit) = self.commit.filter(|commit| commit.task == task) {
            self.commit = None;
            self.committed(cx, commit.count, result.map(answer_of));
        } else {
            let place = self.bundles.stored_by(task).expect("it stores a bundle that waits");
            match result {
                Ok(TaskResult::Stored(stored)) => self.stored(cx, place, stored),
                Ok(other) => unreachable!("it stores a bundle: {other:?}"),
                Err(failure) => self.end(cx, failure),
            }
        }
        self.go_on(cx);
    }

    fn allocated(&mut self, cx: &mut ProducerContext<'_>, result: Result<MasterAnswer, Failure>) {
        let answer = result.and_then(|answer| AllocateChunks::answer(Ok(answer.response)));
        match answer {
            Ok(answer) => {
                let is_left = self.chunks.allocated(answer);
                // What still waits after that waits for something that only time brings.
                if !is_left || self.place(cx) {
                    self.rest(cx);
                }
            }
            // What was put to the master is answered, and tells when that was.
            Err(failure) if failure.code == ErrorCode::ProducerFenced && self.commit.is_some() => {
                self.last_failure = Some(failure);
                self.rest(cx);
            }
            // All that this one has committed is known.
            Err(failure) if failure.code == ErrorCode::ProducerFenced => {
                self.fenced(cx, self.committed);
            }
            // Nobody waits for it, or whoever does has time yet: once more after a rest.
            Err(failure)
                if failure.outcome != Outcome::Refused && failure.code != ErrorCode::NotFound =>
            {
                self.last_failure = Some(failure);
                self.rest(cx);
            }
            Err(failure) => self.end_behind_commit(cx, failure),
        }
    }

    /// A bundle is in its place, on enough servers or not.
    fn stored(&mut self, cx: &mut ProducerContext<'_>, place: usize, stored: StoredBundle) {
        let StoredBundle { holders, failed } = stored;
        let at = self.bundles.get(place).place().expect("it was on its way there");
        let (_, enough) = self.chunks.servers(at.handle);
        let failed_count = failed.len();
        for (server, failure) in failed {
            if is_silence(&failure) {
                self.chunks.missed(server, cx.client.now);
            }
            self.last_failure = Some(failure);
        }
        if holders.len() < enough {
            self.break_off(cx, at.handle, place);
            self.rest(cx);
            return;
        }
        self.bundles.set_state(place, BundleState::Stored { place: at, holders });
        if failed_count > 0 {
            self.break_off(cx, at.handle, place + 1);
        } else if let Some(next) = self.bundles.first_storing_in(at.handle) {
            cx.tasks.wake(next, TaskInput::Passed);
        }
    }

    /// A chunk takes nothing more, and the bundles from the `from`-th on leave it (R40, PR2).
    fn break_off(&mut self, cx: &mut ProducerContext<'_>, chunk: ChunkHandle, from: usize) {
        assert!(from >= self.commit.map_or(0, |commit| commit.count), "PR2");
        self.chunks.break_off(chunk);
        let (count, tasks) = self.bundles.leave(chunk, from);
        self.chunks.resolved(chunk, count);
        for task in tasks {
            cx.cancel(task);
        }
    }

    /// The master has answered a commit of the `count` oldest bundles.
    fn committed(
        &mut self,
        cx: &mut ProducerContext<'_>,
        count: usize,
        result: Result<MasterAnswer, Failure>,
    ) {
        let is_repeated = result.as_ref().is_ok_and(|answer| answer.by.is_repeated);
        let answer = result.and_then(|answer| CommitBundles::answer(Ok(answer.response)));
        if is_repeated {
            self.bundles.set_may_be_there(count);
        }
        let CommitBundlesAnswer { bundles, number } = match answer {
            Ok(answer) => answer,
            Err(failure) => return self.commit_failed(cx, count, failure),
        };
        if bundles.is_empty() {
            let why = "the master has answered a commit with nothing";
            return self.commit_failed(cx, count, Failure::unknown(ErrorCode::Internal, why));
        }
        // What went wrong before is over.
        self.last_failure = None;
        for told in bundles.into_iter().take(count) {
            match told.outcome {
                CommitOutcome::Committed => self.bundle_committed(cx, Some(told.offset)),
                CommitOutcome::DoneBefore => self.bundle_committed(cx, None),
                CommitOutcome::Fenced => {
                    // That number is the log's word for all of them.
                    self.bundles.clear_may_be_there();
                    return self.fenced(cx, number);
                }
                CommitOutcome::ChunkLost => {
                    let lost = self.bundles.get(0).place().expect("it was put to the master");
                    self.break_off(cx, lost.handle, 0);
                    self.rest(cx);
                    break;
                }
                CommitOutcome::NotNext => {
                    let first = self.bundles.get(0).first;
                    let why = format!(
                        "the master has {number} records of the producer, and record {first} does \
                         not follow: open the producer anew"
                    );
                    return self.end(cx, Failure::not_done(ErrorCode::Internal, why));
                }
            }
        }
        self.end_if_over(cx);
    }

    /// The oldest bundle is in the file.
    fn bundle_committed(&mut self, cx: &mut ProducerContext<'_>, offset: Option<u64>) {
        let bundle = self.bundles.pop().expect("it was put to the master");
        let place = bundle.place().expect("it was stored");
        self.chunks.resolved(place.handle, 1);
        (self.committed, self.attempts) = (bundle.last, 0);
        cx.finish(bundle.operation, Ok(Output::BundleCommitted { offset }));
    }

    /// Another opening has taken over when so much was committed.
    fn fenced(&mut self, cx: &mut ProducerContext<'_>, number: RecordNumber) {
        while self.bundles.iter().next().is_some_and(|bundle| bundle.last <= number) {
            let bundle = self.bundles.pop().expect("there is one");
            // It may be on its way to another chunk by now.
            if let BundleState::Storing { task, .. } = bundle.state {
                cx.cancel(task);
            }
            cx.finish(bundle.operation, Ok(Output::BundleCommitted { offset: None }));
        }
        let why = if self.mode.exclusive {
            "the exclusive opening is over: its lease ran out; what it was told of as replaced is \
             replaced, and nothing else will be by it"
                .to_owned()
        } else {
            format!(
                "another opening of the producer has taken over; records up to {number} are in the \
                 stream, and none behind that will be by this one"
            )
        };
        self.end(cx, Failure::refused(ErrorCode::ProducerFenced, why));
    }

    /// Nobody knows, or the master refuses for good.
    fn commit_failed(&mut self, cx: &mut ProducerContext<'_>, count: usize, failure: Failure) {
        let of_the_rest = Outcome::NotDone;
        let outcome_of = |place| if place < count { failure.outcome } else { of_the_rest };
        self.fail_from(cx, 0, &failure, outcome_of);
        self.end(cx, failure);
    }

    /// The bundles from the `from`-th on fail.
    fn fail_from(
        &mut self,
        cx: &mut ProducerContext<'_>,
        from: usize,
        why: &Failure,
        outcome_of: impl Fn(usize) -> Outcome,
    ) {
        for (place, bundle) in (from..).zip(self.bundles.take_from(from)) {
            if let BundleState::Storing { task, .. } = bundle.state {
                cx.cancel(task);
            }
            let outcome = if bundle.may_be_there { Outcome::Unknown } else { outcome_of(place) };
            cx.finish(bundle.operation, Err(Failure { outcome, ..why.clone() }));
        }
    }

    /// Its time is over: whether that is a bundle of this producer's.
    pub(crate) fn expire(&mut self, cx: &mut ProducerContext<'_>, operation: OperationId) -> bool {
        if !self.has(operation) {
            return false;
        }
        let why = self.last_failure(cx.client, cx.tasks).cloned();
        self.end(cx, at_deadline(why, false));
        true
    }

    /// Whether that is a bundle of this producer's.
    pub(crate) fn has(&self, operation: OperationId) -> bool {
        self.bundles.iter().any(|bundle| bundle.operation == operation)
    }

    /// What went wrong last of what it waits for.
    pub(crate) fn last_failure<'a>(
        &'a self,
        client: &'a ClientContext,
        tasks: &'a TaskTable,
    ) -> Option<&'a Failure> {
        let allocation = self.allocation.map(|allocation| allocation.task);
        let asked = [self.commit.map(|commit| commit.task), allocation];
        let met = asked.into_iter().flatten().find_map(|task| tasks.get(task).last_failure());
        met.or(client.masters.why_held()).or(self.last_failure.as_ref())
    }

    /// It takes nothing more: all that is under way fails (PR3).
    pub(crate) fn end(&mut self, cx: &mut ProducerContext<'_>, why: Failure) {
        let commit = self.commit.take();
        let maybe = commit.filter(|commit| cx.tasks.get(commit.task).may_have_happened());
        let unknown_count = maybe.map_or(0, |commit| commit.count);
        let allocation = self.allocation.take().map(|allocation| allocation.task);
        let asked = commit.map(|commit| commit.task).into_iter().chain(allocation);
        asked.for_each(|task| cx.cancel(task));
        let of_the_rest = unless_refused(&why);
        let outcome_of = |place| if place < unknown_count { Outcome::Unknown } else { of_the_rest };
        self.fail_from(cx, 0, &why, outcome_of);
        if let Some(rest) = self.rest.take() {
            cx.client.outbox.cancel_alarm(rest);
        }
        self.over.get_or_insert(why);
        assert!(self.is_idle(), "PR3: nothing is under way that nobody sends");
    }

    /// It takes nothing more; what is put to the master already will be answered.
    fn end_behind_commit(&mut self, cx: &mut ProducerContext<'_>, why: Failure) {
        let Some(commit) = self.commit else { return self.end(cx, why) };
        let outcome = unless_refused(&why);
        self.fail_from(cx, commit.count, &why, |_| outcome);
        self.over = Some(why);
    }

    /// What the last commit left of a producer that takes nothing more.
    fn end_if_over(&mut self, cx: &mut ProducerContext<'_>) {
        if let Some(why) = self.over.clone() {
            self.end(cx, why);
        }
    }
}

/// What became of a bundle that no master heard of.
fn unless_refused(why: &Failure) -> Outcome {
    if why.outcome == Outcome::Refused { Outcome::Refused } else { Outcome::NotDone }
}

/// What came of a question to the masters.
fn answer_of(result: TaskResult) -> MasterAnswer {
    match result {
        TaskResult::Answered(answer) => answer,
        other => unreachable!("it asks the masters: {other:?}"),
    }
}
