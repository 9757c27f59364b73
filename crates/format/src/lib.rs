//! Bytes at rest: log records, checkpoints, chunk sidecars, journals, record framing.
//!
//! Bytes go in and values come out; no I/O. Every decoder is total: no bytes make it panic or take
//! memory that the input does not itself fill. A page of docs/formats/ for each.

#[cfg(test)]
mod any_damage_test;
mod checkpoint;
mod chunk_journal;
mod error;
mod fields;
mod group_mark;
mod identity;
mod log_segment;
mod record;
mod record_scanner;
mod record_window;
mod redo;
mod rpc_log;
mod sealed;
mod sidecar;
pub mod stream;
mod unreadable_note;

pub use checkpoint::{CheckpointRoot, PAGE_FILE_HEADER_SIZE, PageFileHeader};
pub use chunk_journal::{
    JOURNAL_HEADER_SIZE, JournalHeader, JournalLine, ReplicaLine, ScrubPosition,
    decode_journal_header, encode_journal_header, guess_journal_header, journal_seed,
};
pub use error::FormatError;
pub use group_mark::GroupMark;
pub use identity::{IDENTITY_SIZE, Identity, IdentityKind};
pub use log_segment::{
    SEGMENT_HEADER_SIZE, SegmentHeader, SegmentRecord, SegmentScan, log_record_size,
    put_log_record, scan_segment, segment_seed,
};
pub use record::{RECORD_OVERHEAD, RECORD_SIZE_MAX, RecordSource, encode_record};
pub use record_scanner::{Record, RecordScanner, Scanned};
pub use record_window::{RECORD_WINDOW, RecordWindow};
pub use redo::{RedoEntry, redo_seed};
pub use rpc_log::{
    BatchHead, BatchReader, BatchWriter, LinkLine, RPC_LOG_DIRECTORY, RPC_LOG_EXTENSION,
    RPC_LOG_HEADER_SIZE, RPC_LOG_MESSAGE_MAX, RPC_LOG_TEXT_MAX, RpcLine, RpcLogEntry, RpcLogHeader,
    RpcWay,
};
pub use sidecar::{
    BLOCK_CHECKSUMS_OFFSET, ChunkHead, HEAD_SLOT_SIZE, block_checksum_offset,
    decode_block_checksum, decode_block_checksums, encode_block_checksums,
};
pub use stream::Corruption;
pub use unreadable_note::{UNREADABLE_NOTE_SIZE, UNREADABLE_PATH_MAX, UnreadableNote};
