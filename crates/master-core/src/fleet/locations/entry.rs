//! What is known of a settled chunk, packed: what all its replicas are, and who holds them.
//!
//! ```text
//!   flags │ version │ mutated version │ serial │ length │ acknowledged │ ack'ed serial │ servers
//!   ─────────────── as a server tells them (protocol's report_slice.rs) ───────────────  varints
//! ```
//! - EN1: the same facts are the same bytes, and no facts begin with others (S2 there): to compare
//!   facts is to compare bytes.
//! - EN2: the servers stand in order of their ids, each once.

use super::replica::KnownReplica;
use super::server_numbers::ServerNumber;
use cairn_protocol::{put_report, take_report};
use cairn_types::varint::{put, take};
use cairn_types::{ChunkVersion, Time};

/// Servers that one settled chunk may be held by: as many as fit an entry, whatever is in it.
pub(super) const HOLDERS_MAX: usize = 60;

/// Appends what all replicas of a chunk are. Versions are written as they differ from `base`.
#[inline]
pub(super) fn put_facts(out: &mut Vec<u8>, base: ChunkVersion, replica: &KnownReplica) {
    put_report(out, (None, base), &replica.to_report());
}

/// Takes the facts that an entry begins with.
#[inline]
pub(super) fn take_facts(entry: &mut &[u8], base: ChunkVersion) -> KnownReplica {
    let report = take_report(entry, (None, base)).expect("an entry holds what was put");
    KnownReplica::of(&report, Time::default())
}

/// Appends a server.
#[inline]
pub(super) fn put_server(out: &mut Vec<u8>, number: ServerNumber) {
    put(out, u64::from(number.get()));
}

/// The servers of an entry whose facts are taken.
#[derive(Clone, Copy, Debug)]
pub(super) struct HolderNumbers<'a>(pub(super) &'a [u8]);

impl Iterator for HolderNumbers<'_> {
    type Item = ServerNumber;

    #[inline]
    fn next(&mut self) -> Option<ServerNumber> {
        let raw = take(&mut self.0)?;
        Some(ServerNumber::new(u16::try_from(raw).expect("an entry holds what was put")))
    }
}
