//! The nouns of a cell, and how a value is written down.
//!
//! Lowest floor: ids and counters as newtypes, paths, limits, settings that a whole cell shares,
//! checksums, and the protobuf codec that messages ([`wire`]) and records are made of.
//! Knows no socket, disk or clock.

mod address;
mod attributes;
mod cell_config;
mod checksum;
mod entry;
mod ids;
mod members;
mod name_pattern;
mod path;
pub mod planted;
mod policy;
mod random;
mod range;
#[cfg(any(test, feature = "samples"))]
pub mod sample;
mod text;
mod time;
pub mod varint;
pub mod wire;

pub use address::{Address, Rack, ReplicaAt};
pub use attributes::{
    Access, Attributes, GROUPS_MAX, Identity, MODE_BITS, NOBODY, SET_GROUP, SET_USER, STICKY,
};
pub use cell_config::{
    BLOCK_SIZE_MAX, BLOCKS_PER_CHUNK_MAX, CHUNK_SIZE_MAX, CLONES_OF_SERVER_MAX, CellConfig,
    ConfigError,
};
pub use checksum::{BLOCK_SIZE, BlockChecksums, Crc32c, crc32c, crc32c_append};
pub use entry::{Content, Entry, EntryKind, Layout};
pub use ids::{
    CellId, ChunkHandle, ChunkIndex, ChunkVersion, EntryId, Epoch, Incarnation, JobId, JoinId,
    LeaseId, LogIndex, MutationName, MutationNumber, ProducerId, PushId, RecordNumber, ReignId,
    SerialNumber, ServerId, SessionId, Term,
};
pub use members::{Member, MemberChange, MemberStanding, Members, MembersChange};
pub use name_pattern::{NamePattern, is_name_pattern, name_matches};
pub use path::{CellPath, NAME_SIZE_MAX, PATH_SIZE_MAX, PathError};
pub use policy::{KEEP_FOR_EVER_MS, Policy, PolicyPartNames, PolicyParts, REPLICATION_MAX};
pub use random::Random;
pub use range::ByteRange;
pub use time::{Time, WallTime};
