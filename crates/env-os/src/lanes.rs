//! Worker threads for disk jobs, which wait where the loop must not.
//!
//! ```text
//!   lane 0   [job job job] ─► one worker takes all that wait: one flush for them (group commit)
//!   lane 7   [job]         ─► another worker, at the same time
//!   background lane  [job] ─► a worker of its own, of lower priority
//! ```
//! - J1: jobs of one lane run one after the other, in order; a lane is with one worker at most
//!   (E3).
//! - J2: each job that was taken completes once (E1).

use crate::mailbox::Mailbox;
use cairn_env::{EffectId, Lane, Service};
use std::collections::{BTreeMap, VecDeque};
use std::io::Error;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::{Builder, JoinHandle};

/// A finished job.
pub(crate) type FinishedJob<S> = (EffectId, <S as Service>::JobResult);

/// What a worker tells the loop.
#[derive(Debug)]
pub(crate) enum FromWorker<F> {
    Finished(F),
    /// A worker has panicked: its lane's jobs will never complete.
    Panicked,
}

type LaneBatch<S> = Vec<(EffectId, <S as Service>::Job)>;

/// How much less a background lane's worker gets where others want the processors too: about a
/// third (`nice`). Less would let a checkpoint starve beside a busy master.
const BACKGROUND_NICENESS: i32 = 5;

/// Which workers serve a lane.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum WorkerKind {
    Common,
    Background,
}

struct LaneQueues<S: Service> {
    /// Lanes that have jobs, or are with a worker.
    lanes: BTreeMap<Lane, LaneBatch<S>>,
    /// Lanes that have jobs and are with no worker, for each [`WorkerKind`].
    ready: [VecDeque<Lane>; 2],
    is_stopping: bool,
}

struct WorkerPool<S: Service> {
    queues: Mutex<LaneQueues<S>>,
    something: [Condvar; 2],
    background: Option<Lane>,
    service: Arc<S>,
    results: Arc<Mailbox<FromWorker<FinishedJob<S>>>>,
}

impl<S: Service> WorkerPool<S> {
    fn kind(&self, lane: Lane) -> WorkerKind {
        if self.background == Some(lane) { WorkerKind::Background } else { WorkerKind::Common }
    }
}

/// The workers.
pub(crate) struct Lanes<S: Service> {
    shared: Arc<WorkerPool<S>>,
    workers: Vec<JoinHandle<()>>,
}

impl<S: Service> Lanes<S> {
    pub(crate) fn start(
        service: Arc<S>,
        name: &str,
        count: usize,
        background: Option<Lane>,
        results: Arc<Mailbox<FromWorker<FinishedJob<S>>>>,
    ) -> Result<Self, Error> {
        let ready = [VecDeque::new(), VecDeque::new()];
        let queues = Mutex::new(LaneQueues { lanes: BTreeMap::new(), ready, is_stopping: false });
        let something = [Condvar::new(), Condvar::new()];
        let shared = Arc::new(WorkerPool { queues, something, background, service, results });
        // Dropping `lanes` on an error ends those that were started.
        let mut lanes = Self { shared, workers: Vec::new() };
        for number in 0..count {
            lanes.add_worker(format!("{name}-disk-{number}"), WorkerKind::Common)?;
        }
        if background.is_some() {
            lanes.add_worker(format!("{name}-back"), WorkerKind::Background)?;
        }
        Ok(lanes)
    }

    fn add_worker(&mut self, name: String, kind: WorkerKind) -> Result<(), Error> {
        let shared = Arc::clone(&self.shared);
        self.workers.push(Builder::new().name(name).spawn(move || work(&shared, kind))?);
        Ok(())
    }

    /// LaneQueues jobs in order, all at once, so that those of one lane are taken together.
    pub(crate) fn submit(&self, jobs: &mut Vec<(EffectId, Lane, S::Job)>) {
        if jobs.is_empty() {
            return;
        }
        assert!(!self.workers.is_empty(), "a driver without workers has no disk jobs");
        let mut woken = Vec::new();
        let mut queues = lock(&self.shared.queues);
        for (id, lane, job) in jobs.drain(..) {
            let kind = self.shared.kind(lane);
            let LaneQueues { lanes, ready, .. } = &mut *queues;
            lanes
                .entry(lane)
                .or_insert_with(|| {
                    ready[kind as usize].push_back(lane);
                    woken.push(kind);
                    Vec::new()
                })
                .push((id, job));
        }
        drop(queues);
        for kind in woken {
            self.shared.something[kind as usize].notify_one();
        }
    }
}

/// Each worker finishes what it has at hand; the rest is dropped.
impl<S: Service> Drop for Lanes<S> {
    fn drop(&mut self) {
        lock(&self.shared.queues).is_stopping = true;
        self.shared.something.iter().for_each(Condvar::notify_all);
        for worker in self.workers.drain(..) {
            // A worker's panic has been told through the results already.
            let _ = worker.join();
        }
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Tells the loop where a worker dies.
struct LastWord<'a, S: Service>(&'a WorkerPool<S>);

impl<S: Service> Drop for LastWord<'_, S> {
    fn drop(&mut self) {
        if std::thread::panicking() {
            self.0.results.put([FromWorker::Panicked]);
        }
    }
}

fn work<S: Service>(shared: &WorkerPool<S>, kind: WorkerKind) {
    let _last_word = LastWord(shared);
    if kind == WorkerKind::Background {
        // It works as well at full priority, where the system refuses.
        let _ = rustix::process::nice(BACKGROUND_NICENESS);
    }
    while let Some((lane, batch)) = next_batch(shared, kind) {
        let (ids, jobs): (Vec<_>, Vec<_>) = batch.into_iter().unzip();
        let results = shared.service.run(jobs);
        assert_eq!(results.len(), ids.len(), "a service gives one result for each job");
        shared.results.put(ids.into_iter().zip(results).map(FromWorker::Finished));
        give_back(shared, lane);
    }
}

fn next_batch<S: Service>(
    shared: &WorkerPool<S>,
    kind: WorkerKind,
) -> Option<(Lane, LaneBatch<S>)> {
    let mut queues = lock(&shared.queues);
    loop {
        if queues.is_stopping {
            return None;
        }
        if let Some(lane) = queues.ready[kind as usize].pop_front() {
            let jobs = queues.lanes.get_mut(&lane).map(std::mem::take).unwrap_or_default();
            return Some((lane, jobs));
        }
        queues =
            shared.something[kind as usize].wait(queues).unwrap_or_else(PoisonError::into_inner);
    }
}

/// The lane is with nobody now; what came meanwhile is next (J1). This worker takes it, or one
/// that is awake, so nobody has to be woken.
fn give_back<S: Service>(shared: &WorkerPool<S>, lane: Lane) {
    let mut queues = lock(&shared.queues);
    if queues.lanes.get(&lane).is_some_and(Vec::is_empty) {
        queues.lanes.remove(&lane);
    } else {
        queues.ready[shared.kind(lane) as usize].push_back(lane);
    }
}

#[cfg(test)]
mod tests {
    use super::{FromWorker, Lanes};
    use crate::mailbox::{Mailbox, Waker};
    use cairn_env::{EffectId, Lane, Service};
    use std::sync::mpsc::{Receiver, Sender, channel};
    use std::sync::{Arc, Barrier, Mutex};

    /// A job that tells when it starts, and ends when it is let go.
    #[derive(Debug)]
    struct Gated {
        number: u64,
        gate: Option<Receiver<()>>,
    }

    struct Recorder {
        batches: Mutex<Vec<Vec<u64>>>,
        started: Mutex<Sender<u64>>,
        together: Option<Barrier>,
    }

    impl Service for Recorder {
        type Job = Gated;
        type JobResult = u64;
        fn run(&self, jobs: Vec<Gated>) -> Vec<u64> {
            let numbers: Vec<u64> = jobs.iter().map(|job| job.number).collect();
            self.batches.lock().expect("unpoisoned").push(numbers.clone());
            self.started.lock().expect("unpoisoned").send(numbers[0]).expect("test listens");
            if let Some(together) = &self.together {
                together.wait();
            }
            for job in &jobs {
                if let Some(gate) = &job.gate {
                    gate.recv().expect("test lets go");
                }
            }
            numbers
        }
    }

    const BACKGROUND: Lane = Lane(77);

    type Results = Arc<Mailbox<FromWorker<super::FinishedJob<Recorder>>>>;

    fn start(count: usize, together: Option<Barrier>) -> (Lanes<Recorder>, Results, Receiver<u64>) {
        let results = Arc::new(Mailbox::new(Arc::new(Waker::new().expect("an eventfd"))));
        let (started, starts) = channel();
        let (batches, started) = (Mutex::default(), Mutex::new(started));
        let service = Arc::new(Recorder { batches, started, together });
        let lanes = Lanes::start(service, "test", count, Some(BACKGROUND), Arc::clone(&results));
        let lanes = lanes.expect("threads");
        (lanes, results, starts)
    }

    fn job(number: u64, lane: u64, gate: Option<Receiver<()>>) -> (EffectId, Lane, Gated) {
        (EffectId(number), Lane(lane), Gated { number, gate })
    }

    #[test]
    fn what_waits_on_a_lane_is_taken_together_and_in_order() {
        let (lanes, results, starts) = start(2, None);
        let (let_go, gate) = channel();
        lanes.submit(&mut vec![job(1, 0, Some(gate))]);
        assert_eq!(starts.recv(), Ok(1));
        for number in 2..6 {
            lanes.submit(&mut vec![job(number, 0, None)]);
        }
        let_go.send(()).expect("the worker waits");
        assert_eq!(starts.recv(), Ok(2));
        let service = Arc::clone(&lanes.shared.service);
        drop(lanes);
        let batches = service.batches.lock().expect("unpoisoned").clone();
        assert_eq!(batches, [vec![1], vec![2, 3, 4, 5]]);
        let mut finished = Vec::new();
        results.take(&mut finished);
        let done = finished.iter().map(|result| match result {
            FromWorker::Finished((id, number)) if id.0 == *number => *number,
            other => panic!("{other:?}"),
        });
        assert_eq!(done.collect::<Vec<_>>(), [1, 2, 3, 4, 5]);
    }

    #[test]
    fn different_lanes_run_side_by_side() {
        // Neither job ends before the other has started.
        let (lanes, _, starts) = start(2, Some(Barrier::new(2)));
        lanes.submit(&mut vec![job(1, 0, None), job(2, 9, None)]);
        let mut both = [starts.recv().expect("a start"), starts.recv().expect("another")];
        both.sort_unstable();
        assert_eq!(both, [1, 2]);
    }

    #[test]
    fn a_background_lane_has_a_worker_of_its_own() {
        // The only other worker waits for the background one, and takes none of its jobs.
        let (lanes, _, starts) = start(1, Some(Barrier::new(2)));
        lanes.submit(&mut vec![job(1, BACKGROUND.0, None), job(2, 0, None)]);
        let mut both = [starts.recv().expect("a start"), starts.recv().expect("another")];
        both.sort_unstable();
        assert_eq!(both, [1, 2]);
    }

    #[test]
    fn a_panicking_worker_has_a_last_word() {
        let (lanes, results, starts) = start(1, None);
        let (let_go, gate) = channel();
        lanes.submit(&mut vec![job(1, 0, Some(gate))]);
        assert_eq!(starts.recv(), Ok(1));
        drop(let_go);
        drop(lanes);
        let mut told = Vec::new();
        results.take(&mut told);
        assert!(matches!(told[..], [FromWorker::Panicked]));
    }
}
