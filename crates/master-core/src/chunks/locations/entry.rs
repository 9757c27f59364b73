//! What is known of a settled chunk, packed: what all its replicas are, and who holds them.
//!
//! ```text
//!   flags │ version │ mutated version │ serial │ length │ acknowledged │ ack'ed serial │ servers
//!   1 byte  varints; those that the flags call ordinary are left out                     varints
//! ```
//! - Y1: the same facts are the same bytes, and no facts begin with others: to compare facts is to
//!   compare bytes.
//! - Y2: the servers stand in order of their ids, each once.

use super::Replica;
use super::server_numbers::ServerNumber;
use cairn_types::varint::{put, step, stepped, take};
use cairn_types::{ChunkVersion, SerialNumber, Time};

const CLOSED: u8 = 1;
/// Last mutated under another version than it stands at.
const MUTATED_BEFORE: u8 = 2;
/// Not all of its length is acknowledged.
const LONGER: u8 = 4;
/// Not all that it applied is acknowledged.
const FURTHER: u8 = 8;

/// Appends what all replicas of a chunk are. Versions are written as they differ from `base`.
#[inline]
pub(super) fn put_facts(out: &mut Vec<u8>, base: ChunkVersion, replica: &Replica) {
    let mutated_before = replica.mutated_version != replica.version;
    let longer = replica.acknowledged != replica.length;
    let further = replica.acknowledged_serial != replica.serial;
    let flag = |set: bool, flag: u8| if set { flag } else { 0 };
    out.push(
        flag(replica.closed, CLOSED)
            | flag(mutated_before, MUTATED_BEFORE)
            | flag(longer, LONGER)
            | flag(further, FURTHER),
    );
    put(out, step(base.get(), replica.version.get()));
    if mutated_before {
        put(out, step(replica.version.get(), replica.mutated_version.get()));
    }
    put(out, replica.serial.get());
    put(out, replica.length);
    if longer {
        put(out, replica.acknowledged);
    }
    if further {
        put(out, replica.acknowledged_serial.get());
    }
}

/// Takes the facts that an entry begins with.
#[inline]
pub(super) fn take_facts(entry: &mut &[u8], base: ChunkVersion) -> Replica {
    let flags = entry[0];
    *entry = &entry[1..];
    let mut number = || take(entry).expect("an entry holds what was put");
    let version = stepped(base.get(), number());
    let mutated = if flags & MUTATED_BEFORE == 0 { version } else { stepped(version, number()) };
    let serial = number();
    let length = number();
    let acknowledged = if flags & LONGER == 0 { length } else { number() };
    let acknowledged_serial = if flags & FURTHER == 0 { serial } else { number() };
    Replica {
        version: ChunkVersion::new(version),
        mutated_version: ChunkVersion::new(mutated),
        serial: SerialNumber::new(serial),
        length,
        acknowledged,
        acknowledged_serial: SerialNumber::new(acknowledged_serial),
        closed: flags & CLOSED != 0,
        suspect: false,
        damaged: false,
        reported: Time::default(),
    }
}

/// Appends a server.
#[inline]
pub(super) fn put_server(out: &mut Vec<u8>, number: ServerNumber) {
    put(out, u64::from(number.get()));
}

/// The servers of an entry whose facts are taken.
#[derive(Clone, Copy, Debug)]
pub(super) struct Servers<'a>(pub(super) &'a [u8]);

impl Iterator for Servers<'_> {
    type Item = ServerNumber;

    #[inline]
    fn next(&mut self) -> Option<ServerNumber> {
        let raw = take(&mut self.0)?;
        Some(ServerNumber::new(u16::try_from(raw).expect("an entry holds what was put")))
    }
}
