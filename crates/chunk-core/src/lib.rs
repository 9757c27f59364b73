//! A chunkserver's decisions (GFS §3, §4.5, §5.2; design §5 to §7), with no disk and no socket.
//!
//! ```text
//!              Raise, GrantLease               Write, Append, SyncChunk
//!   master ─────────────────────►  replica  ◄───────────────────────── clients
//!          ◄── Heartbeat ────────   │    ▲
//!                           Forward ▼    │ Forward
//!                          secondaries  primary
//! ```
//! One [`ChunkCore`] holds every replica of a server. A replica is a small machine of its own:
//! what changes its bytes or its version waits its turn in one queue (the file `replica.rs`).
//!
//! - C1: a replica obeys only its present version and lease (R7, R12).
//! - C2: mutations are applied in serial order, each once (R13).
//! - C3: the primary acknowledges what every replica of its set has applied, in that order, while
//!   its lease lasts (R14, R15).
//! - C4: readers see acknowledged bytes only (R17).
//!
//! Knows handles, versions and the time it is handed. Never sees files, sockets or paths.

mod core;
mod duplicate_filter;
mod inventory;
mod master_link;
mod mutation_queue;
mod outbox;
mod primary;
mod primary_forward;
mod reads;
mod record_append;
mod replica;
mod secondary;
mod sync;

pub use crate::core::{ChunkCore, ChunkCoreConfig};
