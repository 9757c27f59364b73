//! The client library: an async face over `client-core` (GFS §2.3; design §11).
//!
//! ```text
//!   Cell ──► File ──► read_at · write_at · append · reader · writer · tail · records
//!     │ commands                        ▲ one answer each
//!     ▼                                 │
//!   ClientCore behind env-os's loop: a task of the caller's tokio runtime, or a thread
//! ```
//! Works under any async runtime. In one of tokio's, which must have I/O and time enabled
//! (`enable_all`), [`Cell::connect`] spawns one task, and nothing moves where that runtime does not
//! run: with a single thread no change of threads is paid for, and whatever blocks it blocks the
//! client too. Under any other, it starts a thread. Either ends with the last clone of the cell and
//! its files, the task also with its runtime: a [`Cell`] that outlives it answers nothing.
//!
//! - E1: each error says what may have happened ([`Error::outcome`]); a mutation that ran into its
//!   deadline is unknown unless it cannot have been carried out.
//! - E2: bytes are verified against checksums made where they were written, before a caller sees
//!   them (§5.2).
//!
//! ```no_run
//! # async fn example() -> Result<(), cairn_client::Error> {
//! use cairn_client::{Cell, CellPath, CreateOptions, Options};
//!
//! let cell = Cell::connect("127.0.0.1:7400", Options::default()).await?;
//! let path = CellPath::parse("/logs/today").expect("an absolute path");
//! let file = cell.create(&path, CreateOptions::default()).await?;
//! let offset = file.append("hello".into()).await?;
//! assert_eq!(&file.read_at(offset, 5).await?[..], b"hello");
//! file.close().await?;
//! # Ok(()) }
//! ```
//! A stream is written by producers, each record exactly once ([`Cell::open_producer`]), and read
//! as any file, or as a [`Stream`].
//!
//! Many names at once go together: [`Cell::create_many`], [`Cell::stat_many`],
//! [`Cell::delete_many`].

mod attributes;
mod batch;
mod bundle_rate;
mod cell;
mod error;
mod exclusive;
mod file;
mod link;
mod listing;
mod masters;
mod notices;
mod open_file;
mod policy;
mod producer;
mod quota;
mod reader;
mod record_reader;
mod record_search;
mod record_writer;
mod snapshot;
mod stream;
mod writer;

pub use cairn_client_core::{ShadowNotice, ShadowReads, TroubleNotice};
pub use cairn_format::{RECORD_WINDOW, Record, RecordSource};
pub use cairn_protocol::{
    BalanceAnswer, BelowGoalCount, CellInfoAnswer, ChangeSettings, ChosenReplica, ChunkLocations,
    Cursor, DegradedChunk, DeletedEntry, DeletedMark, DiskStatus, DrainAnswer, ErrorCode,
    ExplainAnswer, Failure, FindAnswer, FindPrimaryAnswer, Found, GetPolicyAnswer, GetQuotaAnswer,
    JobKind, JobState, JobStatus, JobUnit, JoinGroup, ListMastersAnswer, ListedChunk, LostChunk,
    Outcome, ProducerStatus, ReadExtentsAnswer, RecentRpcsAnswer, RecoverAnswer,
    RepairStatusAnswer, ResourceUse, ResourcesAnswer, Rpc, ServerDisks, ServerDuty,
    ServerResources, ServerState, ServerStatus, SnapshotAnswer, StatusAnswer,
};
pub use cairn_types::{
    Address, Attributes, CellConfig, CellPath, ChunkHandle, ChunkIndex, Content, Entry, EntryId,
    EntryKind, Epoch, Identity, Layout, LogIndex, MemberChange, Members, PathError,
    PolicyPartNames, PolicyParts, Rack, ReplicaAt, ServerId, WallTime,
};

pub use crate::attributes::AttributeChange;
pub use crate::cell::{Cell, CreateOptions, Options};
pub use crate::error::Error;
pub use crate::exclusive::{ExclusiveOptions, ExclusiveStream};
pub use crate::file::File;
pub use crate::listing::Listing;
pub use crate::masters::Masters;
pub use crate::open_file::HolesRead;
pub use crate::policy::PolicyChange;
pub use crate::producer::{Committed, PendingAppend, Producer, ProducerOptions};
pub use crate::quota::QuotaChange;
pub use crate::reader::{Reader, Tail};
pub use crate::record_reader::RecordReader;
pub use crate::record_search::{RecordEpoch, RecordPlace, epoch_of};
pub use crate::record_writer::RecordWriter;
pub use crate::snapshot::may_copy_bytes;
pub use crate::stream::{LostRange, Stream, StreamSplit};
pub use crate::writer::Writer;
