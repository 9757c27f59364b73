//! The master's decisions: namespace, chunks, leases (design §4).
//!
//! ```text
//!   Event ──► MasterCore::step ──► Propose(record) · Call · Reply · Wake
//!                 ▲                     │
//!                 └── applied ◄── State::apply ◄── committed
//! ```
//! Pure: no clock, disk, thread or randomness but what is handed in.

pub mod applied;
mod batch_looks;
mod batches;
mod callers;
mod chunk_place;
mod chunks;
mod core;
mod find;
mod fleet;
mod frozen_trees;
mod job_pace;
mod jobs;
mod leases;
mod log_jobs;
mod moves;
mod mutations;
mod name_count;
mod name_mutation;
mod numbers;
mod outbox;
mod parked_followers;
mod path_locks;
#[cfg(test)]
mod permission_tests;
mod permissions;
mod permitted;
mod policy_of;
mod policy_work;
mod quota_of;
mod reads;
mod reclaim;
pub mod record;
mod repair;
mod resolve_names;
mod room;
mod rules;
mod scheduler;
mod setting_changes;
mod shadow;
mod snapshot_walk;
mod snapshot_work;
pub mod state;
mod step;
mod stream_extents;
pub mod stream_records;
mod streams;
mod this_term;
mod told;
mod troubles;
mod undelete;
mod underway;
mod view;

pub use crate::core::MasterCore;
pub use applied::Applied;
pub use callers::Callers;
pub use log_jobs::{Checkpointed, LogDone, LogJob, LogResult, TakenOver};
pub use outbox::{MasterEffect, MasterOutbox, ProposalId};
pub use permitted::{check_member_request, may_know_all_names};
pub use record::Record;
pub use room::LogSpace;
pub use rules::file_paths::{FilePath, FilePaths};
pub use shadow::ShadowCore;
pub use state::State;
