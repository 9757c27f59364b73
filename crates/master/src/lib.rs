//! The master's room: the core, the group's consensus and the operation log as one driver.
//!
//! ```text
//!   Event ──► core.step ──► records ──► consensus ──► Disk(Append) ──► durable
//!                 ▲                                                      │
//!                 └────────── applied ◄──────── committed ◄──────────────┘
//! ```
//! Start: lock, identity, newest good checkpoint, the log since then; then a new reign.

mod master_disk;
mod open;
mod recovery;
mod room;
#[cfg(test)]
mod room_test;
mod seed;

pub use cairn_store::PageFileLimits;
pub use master_disk::{CHECKPOINT_LANE, MasterDisk};
pub use open::{MasterConfig, MasterOpenError};
pub use recovery::RecoveryError;
pub use room::Master;
pub use seed::{SEED_TERM, SeedError, seed};
