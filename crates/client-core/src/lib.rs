//! A client's decisions (GFS §2.3, §2.7, §3.1 to §3.3): whom to ask, what to believe, when to try
//! again, and what to say when it did not work.
//!
//! ```text
//!   Command ──► operation ──► tasks ──────────────────────────► calls (env::Effect::Call)
//!               (one result   MasterCall     one answer of the masters, shared where many want it
//!                each)        ReadPiece      ≤ 1 MiB of a chunk, from one replica after another
//!                             ChunkMutation  push, then write or append at the primary; or a sync
//! ```
//! - K1: an operation is done exactly once, at its deadline at the latest; then a mutation is
//!   *unknown* unless none of its requests can have been carried out.
//! - K2: bytes that fail their checksum reach no caller (§5.2).
//! - K3: a short answer is the end of the file only under R19.
//! - K4: a retried namespace mutation carries its first number (R24); a mutation retried at the
//!   lease it went to carries its first push (R15).
//!
//! Knows ids, addresses and the time it is handed. Never sees sockets, threads or clocks.

mod context;
mod core;
mod driver;
mod file_cache;
mod file_state;
mod ids;
mod locations;
mod masters;
mod nearness;
mod no_disk;
mod operation;
mod operations;
mod outbox;
mod pieces;
mod producers;
mod record_cursor;
mod retry;
mod settings;
mod stream_extents;
mod tasks;
#[cfg(test)]
mod test_client;
mod timers;
#[cfg(test)]
mod trouble_test;

pub use crate::core::ClientCore;
pub use crate::masters::shadow_choice::ShadowNotice;
pub use crate::no_disk::{NoDisk, NoJob};
pub use crate::operation::{
    Command, HoleRead, OnDone, OpenedProducer, Operation, Output, ProducerMode, TroubleNotice,
};
pub use crate::producers::ProducerKey;
pub use crate::record_cursor::{ReadSpec, RecordCursor};
pub use crate::settings::{ClientSettings, ShadowReads};
