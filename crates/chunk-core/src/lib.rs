//! A chunkserver's decisions (GFS §3, §4.5, §5.2; design §5 to §7), with no disk and no socket.
//!
//! ```text
//!              Raise, GrantLease               Write, Append, SyncChunk
//!   master ─────────────────────►  replica  ◄───────────────────────── clients
//!          ◄── Heartbeat ────────   │    ▲
//!                           Forward ▼    │ Forward
//!                          secondaries  primary
//! ```
//! One [`ChunkCore`] holds every replica of a server. A replica is a small machine of its own: what
//! is stored (`stored_replica.rs`), its role in a lease (`replica_role.rs`), and one queue in which
//! what changes its bytes or its version waits its turn (`replica.rs`).
//!
//! ```text
//!   write.rs ──────────┐                                    ┌─► secondaries.rs ──► Forward
//!                      ├─► primary.rs ─► mutation_pipeline ─┤
//!   record_append.rs ──┘                                    └─► closing.rs, when it is full
//!   Forward ──► secondary.rs         what one lacks comes by catch_up.rs, before its lease
//!   CloneChunk ──► cloning.rs ──► a replica, by a raise
//! ```
//! - C1: a replica obeys only its present version and lease (R7, R12).
//! - C2: mutations are applied in serial order, each once (R13).
//! - C3: the primary acknowledges what every replica of its set has applied, in that order, while
//!   its lease lasts (R14, R15).
//! - C4: readers see acknowledged bytes only (R17).
//!
//! Knows handles, versions and the time it is handed. Never sees files, sockets or paths.

mod assembling;
mod catch_up;
mod checks;
mod chunk_core_config;
mod client_load;
mod clone_order;
mod clone_pace;
mod cloning;
mod closing;
mod core;
mod draining;
mod duplicate_filter;
mod extending;
mod fetched_blocks;
mod idle_sync;
mod inventory;
mod local_copies;
mod master_link;
mod master_search;
mod mutation_pipeline;
mod obeyed_term;
mod outbox;
mod primary;
mod primary_mutation;
mod reach_notice;
mod reads;
mod record_append;
mod replica;
mod replica_calls;
mod replica_change;
mod replica_context;
mod replica_role;
mod replica_table;
mod scrub;
mod second_looks;
mod secondaries;
mod secondary;
mod shadow_reports;
mod standing;
mod stored_replica;
mod sync;
mod told;
mod traffic;
mod trash_rounds;
mod write;

pub use crate::chunk_core_config::ChunkCoreConfig;
pub use crate::core::ChunkCore;
pub use crate::core::gauges::ChunkGauges;
pub use crate::outbox::TRASH_LANE;
pub use crate::scrub::ScrubSettings;
