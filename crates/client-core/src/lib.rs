//! A client's decisions (GFS §2.3, §2.7, §3.1 to §3.3): whom to ask, what to believe, when to try
//! again, and what to say when it did not work.
//!
//! ```text
//!   Command ──► operation ──► tasks ──────────────────────► calls (env::Effect::Call)
//!               (one done     Ask        one answer of the masters, shared where many want it
//!                each)        ReadPiece  ≤ 1 MiB of one chunk, from one replica after another
//!                             Mutation   push, then write or append at the primary; or a sync
//! ```
//! - K1: an operation is done exactly once, at its deadline at the latest; then a mutation is
//!   *unknown* unless none of its requests can have been carried out.
//! - K2: bytes that fail their checksum reach no caller (§5.2).
//! - K3: a short answer is the end of the file only under R19.
//! - K4: a retried namespace mutation carries its first number (R24); a mutation retried at the
//!   lease it went to carries its first push (R15).
//!
//! Knows ids, addresses and the time it is handed. Never sees sockets, threads or clocks.

mod ask;
mod ask_operation;
mod chain;
mod context;
mod core;
mod driver;
mod file_state;
mod joined_opens;
mod length_operation;
mod locations;
mod mutation;
mod mutation_window;
mod operation;
mod read_operation;
mod read_piece;
mod record_cursor;
mod retry;
mod settings;
mod shared_asks;
mod sync_operation;
mod task;
#[cfg(test)]
mod test_client;
mod timers;
mod write_operation;
mod write_order;

pub use crate::core::ClientCore;
pub use crate::driver::{NoDisk, NoJob};
pub use crate::operation::{Command, Done, Operation, Output};
pub use crate::record_cursor::{ReadSpec, RecordCursor};
pub use crate::settings::ClientSettings;
