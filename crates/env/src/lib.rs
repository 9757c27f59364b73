//! The seam between deciding and doing (design §2).
//!
//! ```text
//!             Event                                   Effect
//!   world ──────────────►  Driver::handle(now, event) ──────────────►  world
//!     ▲                    (one thread, never waits)                   │
//!     └────────────── Event::Completed { id, .. } ─────────────────────┘
//! ```
//! A driver is a state machine with one entrance. What it wants done goes out as [`Effect`]s, each
//! with an id that the driver chose; what came of it comes back as [`Event::Completed`] with that
//! id. Two worlds stand behind the seam: `env-os` (epoll, threads, files) and `env-sim` (one
//! queue, one seed). One suite judges both ([`conformance`]).
//!
//! - E1: every `Call`, `Wake` and `Disk` effect completes exactly once, unless the process ends.
//! - E2: a call's completion comes at its deadline at the latest; then it is *unknown*.
//! - E3: jobs of one lane run one after the other, in the order of their effects.
//! - E4: calls from one party to another arrive in the order sent, and so do its own pushes, until
//!   the connection breaks; after that an unknown number of the last ones may or may not have
//!   arrived. A call may overtake pushes, and a push calls: neither waits behind the other.
//! - E5: pushed data is verified before it is kept or passed on; bulk bytes pass below the seam. An
//!   order that a push brings along is a request once all of the chain hold the bytes, of whoever
//!   pushed them and by the same connection; its answer is the push's.

pub mod buffer_pool;
pub mod chunk_jobs;
pub mod conformance;
mod disk;
mod driver;
mod effect;
mod latencies;
mod log;
mod payload;
mod push_buffer;
mod resources;

pub use chunk_jobs::{
    ApplyMutation, ChunkDone, ChunkError, ChunkJob, ChunkResult, CloneWork, GatheredRange,
    JournalEntry, JournalPart, ReadDone,
};
pub use disk::{
    Disk, DiskError, DiskFile, DiskLock, IoFailure, Mapping, OpenMode, Space, SyncError,
    UnreadableBytes,
};
pub use driver::{Driver, Service};
pub use effect::{Answer, Caller, Completion, ConnectionId, Effect, EffectId, Event, Lane, Now};
pub use latencies::{BUCKET_COUNT, LATENCY_BUCKETS, LatencyCounts, LatencyMeter};
pub use log::{LogEvent, LogLevel, LogValue, UnknownLogLevel};
pub use payload::{HeldBytes, Payload};
pub use push_buffer::{PUSH_OVERHEAD, PushBuffer, PushLookupError, PushedData};
pub use resources::{Resources, ServerSpace, sum_of};
