//! A plan carried out against a cell: the same kinds of operations, sizes and spacing.
//!
//! - RY1: what had been answered before something else was asked is answered before that is asked
//!   again: as many things go on at once as did, and no more.
//! - RY2: nothing begins before its time, counted from the first and divided by the speed.
//! - RY3: names lie under one directory, data is made up. What is removed is removed there.

use crate::replay_plan::{Plan, PlanFile, ReplayAct, ReplayStep};
use bytes::Bytes;
use cairn_client::{Cell, CreateOptions, Error, File};
use cairn_protocol::{ErrorCode, Failure, List};
use cairn_types::{CellPath, EntryId};
use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};
use tokio::task::JoinSet;

/// The longest write of made-up bytes.
const PIECE_SIZE: u64 = 1 << 20;
/// Errors that are kept to be shown.
const SHOWN_ERRORS_MAX: usize = 5;

/// What was done of one kind.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Done {
    /// As it was in the log: successes, and what failed there too.
    pub done: u64,
    /// Failed, and had not.
    pub failed: u64,
    /// Succeeded, and had failed.
    pub succeeded_anyway: u64,
    /// Bytes moved by what succeeded.
    pub bytes: u64,
    /// How long they took together, in microseconds.
    pub took_us: u64,
}

/// What came of it.
#[derive(Clone, Debug, Default)]
pub struct ReplayReport {
    /// By the act's name.
    pub kinds: BTreeMap<&'static str, Done>,
    /// The first failures, in words.
    pub errors: Vec<String>,
    /// How long it took.
    pub took: Duration,
    /// The most that something began behind its time.
    pub late: Duration,
}

/// Where names of the log lie in the cell, and what is open.
struct Place {
    cell: Cell,
    under: CellPath,
    files: Mutex<BTreeMap<PlanFile, Arc<File>>>,
}

/// Puts what has to be there first.
///
/// # Errors
/// What could not be made, and why.
pub async fn prepare(
    plan: &Plan,
    cell: &Cell,
    under: &CellPath,
) -> Result<Replay, (String, Error)> {
    let place = Place { cell: cell.clone(), under: under.clone(), files: Mutex::default() };
    let made = |path: CellPath| move |error| (path.to_string(), error);
    cell.make_directory(under, true).await.map_err(made(under.clone()))?;
    for directory in &plan.directories {
        let path = place.path(directory).map_err(made(directory.clone()))?;
        cell.make_directory(&path, true).await.map_err(made(path.clone()))?;
    }
    for (id, name, length) in &plan.files {
        let path = place.path(name).map_err(made(name.clone()))?;
        let file =
            cell.create(&path, CreateOptions::default()).await.map_err(made(path.clone()))?;
        let mut writer = file.writer(0);
        let mut left = *length;
        while left > 0 {
            let size = left.min(PIECE_SIZE);
            writer.write(made_up(size)).await.map_err(made(path.clone()))?;
            left -= size;
        }
        writer.finish().await.map_err(made(path.clone()))?;
        if let Some(id) = id {
            place.keep(*id, file);
        }
    }
    Ok(Replay { place: Arc::new(place) })
}

/// A plan whose ground is laid.
pub struct Replay {
    place: Arc<Place>,
}

impl std::fmt::Debug for Replay {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Replay").field("under", &self.place.under).finish_non_exhaustive()
    }
}

/// What came of one step.
struct StepOutcome {
    end_us: u64,
    name: &'static str,
    failed_before: bool,
    took: Duration,
    /// Bytes moved.
    result: Result<u64, Error>,
}

impl Replay {
    /// Does all steps; `speed` none: as fast as their order lets them (RY1, RY2).
    pub async fn run(&self, plan: &Plan, speed: Option<f64>) -> ReplayReport {
        let (began, mut report) = (Instant::now(), ReplayReport::default());
        let (first_us, _) = plan.span_us();
        let mut on_its_way: JoinSet<StepOutcome> = JoinSet::new();
        // When those were answered that are on their way, by how many.
        let mut ends: BTreeMap<u64, u64> = BTreeMap::new();
        for step in &plan.steps {
            while ends.first_key_value().is_some_and(|(end, _)| *end <= step.begin_us) {
                let Some(Ok(outcome)) = on_its_way.join_next().await else { break };
                forget(&mut ends, outcome.end_us);
                report.take(outcome);
            }
            if let Some(speed) = speed {
                #[allow(clippy::cast_precision_loss, reason = "microseconds of some days")]
                let due = Duration::from_secs_f64((step.begin_us - first_us) as f64 / 1e6 / speed);
                let now = began.elapsed();
                report.late = report.late.max(now.saturating_sub(due));
                tokio::time::sleep(due.saturating_sub(now)).await;
            }
            *ends.entry(step.end_us).or_default() += 1;
            let (place, step) = (Arc::clone(&self.place), step.clone());
            on_its_way.spawn(async move { place.take_step(step).await });
        }
        while let Some(Ok(outcome)) = on_its_way.join_next().await {
            report.take(outcome);
        }
        report.took = began.elapsed();
        report
    }
}

fn forget(ends: &mut BTreeMap<u64, u64>, end_us: u64) {
    if let Some(count) = ends.get_mut(&end_us) {
        *count -= 1;
        if *count == 0 {
            ends.remove(&end_us);
        }
    }
}

impl ReplayReport {
    fn take(&mut self, outcome: StepOutcome) {
        let kind = self.kinds.entry(outcome.name).or_default();
        kind.took_us += u64::try_from(outcome.took.as_micros()).unwrap_or(u64::MAX);
        match (outcome.result, outcome.failed_before) {
            (Ok(size), false) => {
                kind.done += 1;
                kind.bytes += size;
            }
            (Err(_), true) => kind.done += 1,
            (Ok(_), true) => kind.succeeded_anyway += 1,
            (Err(error), false) => {
                kind.failed += 1;
                if self.errors.len() < SHOWN_ERRORS_MAX {
                    self.errors.push(format!("{}: {error}", outcome.name));
                }
            }
        }
    }

    /// All that was done as it had been.
    #[must_use]
    pub fn done(&self) -> u64 {
        self.kinds.values().map(|kind| kind.done).sum()
    }

    /// All that failed and had not.
    #[must_use]
    pub fn failed(&self) -> u64 {
        self.kinds.values().map(|kind| kind.failed).sum()
    }
}

impl Place {
    fn path(&self, path: &CellPath) -> Result<CellPath, Error> {
        let mut at = self.under.clone();
        for name in path.names() {
            // A name of another cell may be too long below a directory of this one.
            at = at.join(name).map_err(|error| {
                Error::from(Failure::refused(ErrorCode::Invalid, error.to_string()))
            })?;
        }
        Ok(at)
    }

    fn keep(&self, id: PlanFile, file: File) -> Arc<File> {
        let file = Arc::new(file);
        let mut files = self.files.lock().unwrap_or_else(PoisonError::into_inner);
        files.insert(id, Arc::clone(&file));
        file
    }

    fn keep_known(&self, id: Option<EntryId>, file: File) {
        if let Some(id) = id {
            self.keep(PlanFile::Known(id), file);
        }
    }

    /// The file that is meant. One that the log never opened was prepared; so it is there, but
    /// where its creation has failed here.
    fn file(&self, id: PlanFile) -> Result<Arc<File>, Error> {
        let files = self.files.lock().unwrap_or_else(PoisonError::into_inner);
        files.get(&id).cloned().ok_or_else(|| {
            let why = "the file was not made or opened here";
            Error::from(Failure::refused(ErrorCode::NotFound, why))
        })
    }

    async fn take_step(&self, step: ReplayStep) -> StepOutcome {
        let (name, began) = (step.act.name(), Instant::now());
        let result = self.act(step.act).await;
        let (end_us, failed_before) = (step.end_us, step.failed);
        StepOutcome { end_us, name, failed_before, took: began.elapsed(), result }
    }

    /// Does it; how many bytes it moved.
    async fn act(&self, act: ReplayAct) -> Result<u64, Error> {
        let cell = &self.cell;
        match act {
            ReplayAct::MakeDirectory(path, parents) => {
                cell.make_directory(&self.path(&path)?, parents).await?;
            }
            ReplayAct::Create(path, id, (replication, or_open)) => {
                let options = CreateOptions { replication, or_open, ..CreateOptions::default() };
                let file = cell.create(&self.path(&path)?, options).await?;
                self.keep_known(id, file);
            }
            ReplayAct::Open(path, id) => {
                let file = cell.open(&self.path(&path)?).await?;
                self.keep_known(id, file);
            }
            ReplayAct::Stat(path) => {
                cell.stat(&self.path(&path)?).await?;
            }
            ReplayAct::List(path, limit) => {
                let path = self.path(&path)?;
                cell.ask(List { path, limit, ..List::default() }).await?;
            }
            ReplayAct::Find(root, pattern, limit) => {
                cell.find(&self.path(&root)?, &pattern, "", limit).await?;
            }
            ReplayAct::Rename(from, to, replace) => {
                cell.rename(&self.path(&from)?, &self.path(&to)?, replace).await?;
            }
            ReplayAct::Delete(path, recursive) => {
                cell.delete(&self.path(&path)?, recursive).await?;
            }
            ReplayAct::Undelete(path, to) => {
                let to = to.as_ref().map(|to| self.path(to)).transpose()?;
                cell.undelete(&self.path(&path)?, to.as_ref()).await?;
            }
            ReplayAct::Snapshot(from, to) => {
                cell.snapshot(&self.path(&from)?, &self.path(&to)?).await?;
            }
            ReplayAct::Read(id, offset, size) => {
                return Ok(self.file(id)?.read_at(offset, size).await?.len() as u64);
            }
            ReplayAct::Write(id, offset, size) => {
                self.file(id)?.write_at(offset, made_up(size)).await?;
                return Ok(size);
            }
            ReplayAct::Append(id, size) => {
                self.file(id)?.append(made_up(size)).await?;
                return Ok(size);
            }
        }
        Ok(0)
    }
}

/// Bytes that are nobody's. They are not all alike, lest a disk or a link makes less of them.
fn made_up(size: u64) -> Bytes {
    let size = usize::try_from(size).unwrap_or(usize::MAX);
    let mut random = cairn_types::Random::new(size as u64);
    let mut bytes = Vec::with_capacity(size + 8);
    while bytes.len() < size {
        bytes.extend_from_slice(&random.next_u64().to_le_bytes());
    }
    bytes.truncate(size);
    Bytes::from(bytes)
}

#[cfg(test)]
mod tests {
    use super::{forget, made_up};
    use std::collections::BTreeMap;

    #[test]
    fn made_up_bytes_are_as_many_as_asked_for_and_differ() {
        for size in [0, 1, 7, 8, 1000] {
            assert_eq!(made_up(size).len() as u64, size);
        }
        let bytes = made_up(1000);
        assert!(bytes.iter().any(|byte| *byte != bytes[0]));
    }

    #[test]
    fn ends_are_forgotten_one_by_one() {
        let mut ends = BTreeMap::from([(5, 2), (7, 1)]);
        forget(&mut ends, 5);
        assert_eq!(ends.first_key_value(), Some((&5, &1)));
        forget(&mut ends, 5);
        forget(&mut ends, 5);
        assert_eq!(ends.first_key_value(), Some((&7, &1)));
    }
}
