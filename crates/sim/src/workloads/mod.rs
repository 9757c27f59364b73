//! Workloads, one file each: what clients do while things break, and what they check themselves.

mod concurrent_appends;
mod final_reads;
mod namespace_churn;
mod random_writes;
mod sequential_files;
mod tailing_readers;

pub(crate) use concurrent_appends::{Appender, RecordFile};
pub(crate) use final_reads::FinalReads;
pub(crate) use namespace_churn::{Churn, NameHistory};
pub(crate) use random_writes::{RandomWriter, SharedFile};
pub(crate) use sequential_files::SequentialFiles;
pub(crate) use tailing_readers::TailingReader;

use crate::file_model::Ended;
use crate::operations::OpResult;
use crate::stage::Stage;
use cairn_protocol::Outcome;
use cairn_types::CellPath;

/// A path that the workload itself makes.
pub(crate) fn path(text: &str) -> CellPath {
    CellPath::parse(text).expect("a workload's paths are well formed")
}

/// What a mutation's end says about whether it happened.
pub(crate) fn ended(stage: &Stage, result: &OpResult) -> Ended {
    match result {
        Ok(_) => Ended::Acknowledged(stage.now()),
        Err(failure) if failure.outcome == Outcome::Unknown => Ended::Unknown(stage.now()),
        Err(_) => Ended::NotDone,
    }
}
