//! Workloads, one file each: what clients do while things break, and what they check themselves.

mod concurrent_appends;
mod final_reads;
mod level_changes;
mod namespace_churn;
mod owned_names;
mod peoples_acts;
mod progress;
mod quota_pressure;
mod random_writes;
mod record_file;
mod replaced_pieces;
mod sequential_files;
mod shadow_reader;
mod shared_file;
mod snapped_names;
mod snapshots;
mod stream_copies;
mod stream_file;
mod stream_producers;
mod stream_readers;
mod tailing_readers;

pub(crate) use concurrent_appends::Appender;
pub(crate) use final_reads::FinalReads;
pub(crate) use level_changes::LevelChanges;
pub(crate) use namespace_churn::{NameHistory, NamespaceChurn};
pub(crate) use owned_names::{OwnedHistory, OwnedNames};
pub(crate) use peoples_acts::PeoplesActs;
pub(crate) use progress::Progress;
pub(crate) use quota_pressure::QuotaPressure;
pub(crate) use random_writes::RandomWriter;
pub(crate) use record_file::RecordFile;
#[cfg(test)]
pub(crate) use record_file::TriedRecord;
pub(crate) use replaced_pieces::{PiecesFile, PiecesReader, Replacer};
pub(crate) use sequential_files::SequentialFiles;
pub(crate) use shadow_reader::ShadowReader;
pub(crate) use shared_file::SharedFile;
pub(crate) use snapped_names::SnappedNames;
pub(crate) use snapshots::Snapshots;
pub(crate) use stream_copies::StreamCopies;
pub(crate) use stream_file::StreamFile;
pub(crate) use stream_producers::StreamProducer;
pub(crate) use stream_readers::StreamReader;
pub(crate) use tailing_readers::TailingReader;
