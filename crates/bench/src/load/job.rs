//! What callers of a load do.

use super::caller::{CallerId, JobError};
use super::commit_jobs::{ChunkOperation, Committer};
use super::mix::RequestMix;
use super::tally::LoadTally;
use super::{bytes_jobs, commit_jobs, mix, name_jobs, producer_jobs};
use crate::meta::population::{Naming, Population};
use cairn_client::{Cell, Producer};
use cairn_types::{CellPath, PathError};
use serde::{Deserialize, Serialize};
use std::time::Duration;

/// One caller's job.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) enum CallerJob {
    /// Writes a stream.
    Write { root: String, megabytes: u64 },
    /// Reads it.
    Read { root: String },
    /// Appends records to one file, `batch` at once.
    Append { root: String, operations: u64, batch: u64, record_size: u64 },
    /// Appends records to one stream as fast as they are taken, each caller a producer.
    Produce { root: String, operations: u64, record_size: u64 },
    /// The same, each record awaited before the next one.
    ProduceAwaited { root: String, operations: u64, record_size: u64 },
    /// Each caller a producer that appends `a_second` records that hold when they were.
    ProducePaced { root: String, seconds: u64, a_second: f64, record_size: u64 },
    /// Follows such a stream until it stands still: from a record's append to each reader.
    Follow { root: String, seconds: u64 },
    /// Each caller `producers` producers that put a bundle to the master every second; no bytes.
    Commits { root: String, producers: u64, seconds: u64 },
    /// Each caller `waiters` who wait until such a stream is longer.
    WaitLength { root: String, waiters: u64, seconds: u64 },
    /// What is asked of the master for chunks of a stream (TFS Table 1).
    ChunkOperations { root: String, what: ChunkOperation, operations: u64 },
    /// Creates empty files in a directory of its own, `batch` with each request, until it has made
    /// so many or so much time has passed.
    Create { root: String, naming: Naming, operations: u64, batch: u64, at_most: Option<Duration> },
    /// Renames them, each within its directory.
    Rename { root: String, naming: Naming, operations: u64 },
    /// Deletes them under their new names.
    Delete { root: String, naming: Naming, operations: u64 },
    /// Opens files of the population at random: path, entry, locations.
    LookUp { population: Population, operations: u64, at_most: Option<Duration> },
    /// Opens every file of the population once, the callers together.
    LookUpAll { population: Population },
    /// The master's requests of a whole cell (GFS Table 6).
    Mix { root: String, population: Population, mix: RequestMix, operations: u64 },
}

/// What a caller has before the clock starts.
#[derive(Debug)]
pub(crate) enum PreparedCaller {
    Nothing,
    Producer(Producer),
    Committers(Vec<Committer>),
}

impl CallerJob {
    /// Where its own files go; nowhere for jobs that only look.
    fn root(&self) -> Option<&str> {
        match self {
            Self::Write { root, .. }
            | Self::Read { root }
            | Self::Append { root, .. }
            | Self::Produce { root, .. }
            | Self::ProduceAwaited { root, .. }
            | Self::ProducePaced { root, .. }
            | Self::Follow { root, .. }
            | Self::Commits { root, .. }
            | Self::WaitLength { root, .. }
            | Self::ChunkOperations { root, .. }
            | Self::Create { root, .. }
            | Self::Rename { root, .. }
            | Self::Delete { root, .. }
            | Self::Mix { root, .. } => Some(root),
            Self::LookUp { .. } | Self::LookUpAll { .. } => None,
        }
    }

    fn place(&self, id: CallerId) -> Result<CellPath, PathError> {
        let root = CellPath::parse(self.root().unwrap_or("/"))?;
        root.join(&format!("{}-{}", id.process, id.caller))
    }

    /// Before the clock starts.
    pub(crate) async fn prepare(
        &self,
        cell: &Cell,
        id: CallerId,
    ) -> Result<PreparedCaller, JobError> {
        let place = self.place(id)?;
        match self {
            Self::Produce { .. } | Self::ProduceAwaited { .. } | Self::ProducePaced { .. } => {
                return Ok(PreparedCaller::Producer(producer_jobs::open(cell, &place).await?));
            }
            Self::Follow { .. } => {
                producer_jobs::make_stream(cell, &place).await?;
            }
            Self::Commits { producers, .. } => {
                return Ok(PreparedCaller::Committers(
                    commit_jobs::open_many(cell, &place, ("producer", *producers)).await?,
                ));
            }
            Self::WaitLength { .. } => {
                return Ok(PreparedCaller::Committers(
                    commit_jobs::open_many(cell, &place, ("probe", 1)).await?,
                ));
            }
            Self::ChunkOperations { what, .. } => {
                return Ok(PreparedCaller::Committers(
                    commit_jobs::prepare_operation(cell, &place, *what, id).await?,
                ));
            }
            Self::Create { .. } => drop(cell.make_directory(&place, true).await?),
            Self::Mix { mix, operations, .. } => {
                mix::prepare(cell, &place, *mix, *operations).await?;
            }
            _ => {
                if let Some(parent) = self.root().and(place.parent()) {
                    cell.make_directory(&parent, true).await?;
                }
            }
        }
        Ok(PreparedCaller::Nothing)
    }

    /// The job itself.
    pub(crate) async fn run(
        &self,
        cell: &Cell,
        id: CallerId,
        prepared: PreparedCaller,
    ) -> Result<LoadTally, JobError> {
        let place = self.place(id)?;
        match prepared {
            PreparedCaller::Nothing => {}
            PreparedCaller::Producer(producer) => return self.produce(producer, id).await,
            PreparedCaller::Committers(all) => return self.commit(cell, all, id).await,
        }
        Ok(match self {
            Self::Write { megabytes, .. } => bytes_jobs::write(cell, &place, *megabytes).await?,
            Self::Read { .. } => bytes_jobs::read(cell, &place).await?,
            Self::Append { operations, batch, record_size, .. } => {
                bytes_jobs::append(cell, &place, (*operations, *batch), *record_size).await?
            }
            Self::Follow { seconds, .. } => producer_jobs::follow(cell, &place, *seconds).await?,
            Self::Create { naming, operations, batch, at_most, .. } => {
                name_jobs::create(cell, &place, *naming, (*operations, *at_most), *batch).await?
            }
            Self::Rename { naming, operations, .. } => {
                name_jobs::rename(cell, &place, *naming, *operations).await?
            }
            Self::Delete { naming, operations, .. } => {
                name_jobs::delete(cell, &place, *naming, *operations).await?
            }
            Self::LookUp { population, operations, at_most } => {
                name_jobs::look_up(cell, *population, (*operations, *at_most), id).await?
            }
            Self::LookUpAll { population } => name_jobs::look_up_all(cell, *population, id).await?,
            Self::Mix { population, mix, operations, .. } => {
                mix::run(cell, &place, *population, *mix, *operations, id).await?
            }
            other => unreachable!("it was prepared: {other:?}"),
        })
    }

    /// A job of one producer.
    async fn produce(&self, producer: Producer, id: CallerId) -> Result<LoadTally, JobError> {
        Ok(match self {
            Self::Produce { operations, record_size, .. } => {
                producer_jobs::produce(producer, *operations, *record_size).await?
            }
            Self::ProduceAwaited { operations, record_size, .. } => {
                producer_jobs::produce_awaited(producer, *operations, *record_size).await?
            }
            Self::ProducePaced { seconds, a_second, record_size, .. } => {
                let pace = (*seconds, *a_second);
                producer_jobs::produce_paced(producer, pace, *record_size, id).await?
            }
            other => unreachable!("it has no producer: {other:?}"),
        })
    }

    /// A job of producers that have no bytes.
    async fn commit(
        &self,
        cell: &Cell,
        mut all: Vec<Committer>,
        id: CallerId,
    ) -> Result<LoadTally, JobError> {
        Ok(match self {
            Self::Commits { seconds, .. } => commit_jobs::commits(cell, all, *seconds, id).await?,
            Self::WaitLength { waiters, seconds, .. } => {
                let probe = all.pop().expect("one was opened");
                commit_jobs::wait_length(cell, probe, *waiters, *seconds).await?
            }
            Self::ChunkOperations { what, operations, .. } => {
                let one = all.pop().expect("one was opened");
                commit_jobs::chunk_operations(cell, one, *what, *operations).await?
            }
            other => unreachable!("it commits nothing: {other:?}"),
        })
    }
}
