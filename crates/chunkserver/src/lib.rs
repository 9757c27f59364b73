//! The chunkserver's driver: [`ChunkCore`](cairn_chunk_core::ChunkCore) over a
//! [`ChunkDisk`](cairn_store::ChunkDisk).
//!
//! ```text
//!   data directories ──► recovery ──► ChunkCore ◄── events ── world
//!                            │            └──────── effects ─► world ──► ChunkDisk (jobs)
//!                            └─► ChunkDisk ◄─── block size, once the cell is known
//! ```
//! Knows how a server starts: whose directories these are, and what lies in them. Decides nothing.

mod driver;
mod gauges;
mod open;

pub use cairn_chunk_core::{ChunkGauges, ScrubSettings, TRASH_LANE};
pub use driver::Chunkserver;
pub use gauges::{ChunkserverGauges, SpaceTold};
pub use open::{ChunkserverConfig, ChunkserverOpenError};
