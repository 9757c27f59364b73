//! Producers of streams: each record in the file exactly once (R38 to R40).
//!
//! ```text
//!   bundle ──► placed in a chunk ──► stored by its servers ──► committed, in order ──► its caller
//!                ▲   │ none has room           │ too few
//!                │   ▼                         ▼
//!                └─ chunks allocated ◄── the chunk is left for good
//! ```
//!
//! ```text
//!   producer_table ──► producer ──┬─► bundle_queue
//!                                 └─► producer_chunks
//! ```

mod bundle_queue;
mod producer;
mod producer_chunks;
mod producer_context;
pub(crate) mod producer_table;
#[cfg(test)]
mod tests;

/// One opening of a producer, as this client calls it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct ProducerKey(u64);
