//! The master's driver: the core, the group's consensus and the operation log as one driver.
//!
//! ```text
//!   Event ──► core.step ──► records ──► consensus ──► Disk(Append) ──► durable
//!                 ▲                                                      │
//!                 └────────── applied ◄──────── committed ◄──────────────┘
//! ```
//! Start: lock, identity, newest good checkpoint, the log since then; then a new term, or in a
//! group of several whatever the others say.

mod backlog;
mod backups;
mod busiest;
mod checkpoint_fetch;
mod checkpoint_pace;
mod checkpoint_reads;
mod damage_mark;
mod driver;
#[cfg(test)]
mod driver_test;
mod gauges;
mod group_link;
mod group_member;
mod incoming_backup;
mod log_room;
mod master_disk;
mod member_change;
mod member_directory;
mod open;
mod primary;
mod recovery;
mod reigns;
mod remains;
mod role;
mod seed;
mod shadow;
mod waiting_member;

pub use cairn_store::PageFileLimits;
pub use driver::Master;
pub use gauges::{MasterGauges, MasterStanding, MasterTold};
pub use group_member::{STOPPED, TAKEN_OUT};
pub use incoming_backup::IncomingBackup;
pub use master_disk::{CHECKPOINT_LANE, MasterDisk};
pub use member_change::VOTERS;
pub use member_directory::{MakeMemberError, make_member};
pub use open::{MasterConfig, MasterOpenError};
pub use recovery::RecoveryError;
pub use remains::{Remains, RemainsError};
pub use seed::{SEED_TERM, SeedError, seed};
pub use waiting_member::{EmptyDisk, JOINED, WaitingMember};
