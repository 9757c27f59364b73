//! What callers of a load do.

use super::mix::RequestMix;
use super::tally::LoadTally;
use super::{bytes_jobs, mix, name_jobs};
use crate::meta::population::{Naming, Population};
use cairn_client::Cell;
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
    /// Appends records to one file.
    Append { root: String, operations: u64, record_size: u64 },
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

/// Which caller of how many.
#[derive(Clone, Copy, Debug)]
pub(crate) struct CallerId {
    pub(crate) process: u64,
    pub(crate) caller: u64,
    /// Its number among all.
    pub(crate) number: u64,
    /// How many there are.
    pub(crate) of: u64,
}

/// Why a job ended early.
pub(crate) type JobError = crate::error::BenchCause;

impl CallerJob {
    /// Where its own files go; nowhere for jobs that only look.
    fn root(&self) -> Option<&str> {
        match self {
            Self::Write { root, .. }
            | Self::Read { root }
            | Self::Append { root, .. }
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
    pub(crate) async fn prepare(&self, cell: &Cell, id: CallerId) -> Result<(), JobError> {
        let place = self.place(id)?;
        match self {
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
        Ok(())
    }

    /// The job itself.
    pub(crate) async fn run(&self, cell: &Cell, id: CallerId) -> Result<LoadTally, JobError> {
        let place = self.place(id)?;
        Ok(match self {
            Self::Write { megabytes, .. } => bytes_jobs::write(cell, &place, *megabytes).await?,
            Self::Read { .. } => bytes_jobs::read(cell, &place).await?,
            Self::Append { operations, record_size, .. } => {
                bytes_jobs::append(cell, &place, *operations, *record_size).await?
            }
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
        })
    }
}
