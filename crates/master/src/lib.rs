//! The master's driver: the core, the group's consensus and the operation log as one driver.
//!
//! ```text
//!   Event ──► core.step ──► records ──► consensus ──► Disk(Append) ──► durable
//!                 ▲                                                      │
//!                 └────────── applied ◄──────── committed ◄──────────────┘
//! ```
//! Start: lock, identity, newest good checkpoint, the log since then; then a new term.

mod driver;
#[cfg(test)]
mod driver_test;
mod log_room;
mod master_disk;
mod open;
mod recovery;
mod seed;

pub use cairn_store::PageFileLimits;
pub use driver::Master;
pub use master_disk::{CHECKPOINT_LANE, MasterDisk};
pub use open::{MasterConfig, MasterOpenError};
pub use recovery::RecoveryError;
pub use seed::{SEED_TERM, SeedError, seed};
