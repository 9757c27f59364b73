//! What a server holds, many replicas at once: the slices that inventories are told in.
//!
//! ```text
//!   each replica:  flags · handle · version · (mutated version) · serial · length
//!                  · (acknowledged) · (acknowledged serial number)
//! ```
//! One byte of flags, then varints. Handle and version stand as steps from the replica before,
//! which are small in handle order; what stands in brackets is left out where it is what it usually
//! is, and a flag says so. A replica is told in a dozen bytes, and read in as many nanoseconds as
//! a message of its own would take to be found.
//!
//! - S1: no more than [`SLICE_COUNT_MAX`] replicas, so that a slice is a bounded piece of work.

use crate::ReplicaReport;
use cairn_types::varint::{put, step, stepped, take};
use cairn_types::wire::{Field, WireError, WireType, encode_slice, take_slice};
use cairn_types::{ChunkHandle, ChunkVersion, SerialNumber};

/// Replicas that a slice may have.
pub const SLICE_COUNT_MAX: usize = 4096;

const CLOSED: u8 = 1;
const SUSPECT: u8 = 2;
/// Last mutated under another version than it stands at.
const MUTATED_BEFORE: u8 = 4;
/// Its acknowledged length is not its length.
const LONGER: u8 = 8;
/// Its acknowledged serial number is not its last.
const FURTHER: u8 = 16;
const ALL: u8 = CLOSED | SUSPECT | MUTATED_BEFORE | LONGER | FURTHER;

/// Replicas, packed on the wire.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ReportSlice(pub Vec<ReplicaReport>);

fn put_report(out: &mut Vec<u8>, before: (u64, u64), report: &ReplicaReport) {
    let mutated_before = report.mutated_version != report.version;
    let longer = report.acknowledged != report.length;
    let further = report.acknowledged_serial != report.serial;
    let flag = |set: bool, flag: u8| if set { flag } else { 0 };
    out.push(
        flag(report.closed, CLOSED)
            | flag(report.suspect, SUSPECT)
            | flag(mutated_before, MUTATED_BEFORE)
            | flag(longer, LONGER)
            | flag(further, FURTHER),
    );
    put(out, step(before.0, report.handle.get()));
    put(out, step(before.1, report.version.get()));
    if mutated_before {
        put(out, step(report.version.get(), report.mutated_version.get()));
    }
    put(out, report.serial.get());
    put(out, report.length);
    if longer {
        put(out, report.acknowledged);
    }
    if further {
        put(out, report.acknowledged_serial.get());
    }
}

fn take_report(input: &mut &[u8], before: (u64, u64)) -> Option<ReplicaReport> {
    let (flags, rest) = input.split_first()?;
    *input = rest;
    if flags & !ALL != 0 {
        return None;
    }
    let handle = stepped(before.0, take(input)?);
    let version = stepped(before.1, take(input)?);
    let mutated =
        if flags & MUTATED_BEFORE == 0 { version } else { stepped(version, take(input)?) };
    let serial = take(input)?;
    let length = take(input)?;
    let acknowledged = if flags & LONGER == 0 { length } else { take(input)? };
    let acknowledged_serial = if flags & FURTHER == 0 { serial } else { take(input)? };
    Some(ReplicaReport {
        handle: ChunkHandle::new(handle),
        version: ChunkVersion::new(version),
        mutated_version: ChunkVersion::new(mutated),
        serial: SerialNumber::new(serial),
        length,
        closed: flags & CLOSED != 0,
        suspect: flags & SUSPECT != 0,
        acknowledged,
        acknowledged_serial: SerialNumber::new(acknowledged_serial),
    })
}

impl Field for ReportSlice {
    const PROTO: &'static str = "bytes";

    fn is_default(&self) -> bool {
        self.0.is_empty()
    }

    fn encode_present(&self, tag: u32, out: &mut Vec<u8>) {
        let (mut packed, mut before) = (Vec::new(), (0, 0));
        for report in &self.0 {
            put_report(&mut packed, before, report);
            before = (report.handle.get(), report.version.get());
        }
        encode_slice(tag, &packed, out);
    }

    fn merge(&mut self, wire: WireType, input: &mut &[u8]) -> Result<(), WireError> {
        let (mut packed, mut before) = (take_slice(wire, input)?, (0, 0));
        self.0.clear();
        while !packed.is_empty() {
            let report = take_report(&mut packed, before).ok_or(WireError::Malformed)?;
            if self.0.len() == SLICE_COUNT_MAX {
                return Err(WireError::Malformed);
            }
            before = (report.handle.get(), report.version.get());
            self.0.push(report);
        }
        Ok(())
    }
}

cairn_types::for_samples! {
    impl cairn_types::sample::Sample for ReportSlice {
        fn sample(random: &mut cairn_types::Random) -> Self {
            Self(cairn_types::sample::Sample::sample(random))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::{ReportSlice, SLICE_COUNT_MAX};
    use crate::{Inventory, ReplicaReport};
    use cairn_types::wire::Message;
    use cairn_types::{ChunkHandle, ChunkVersion, SerialNumber, Term};

    fn settled(counter: u64) -> ReplicaReport {
        let version = ChunkVersion::of(Term::new(3), 2 * counter);
        ReplicaReport {
            handle: ChunkHandle::of(Term::new(3), counter),
            version,
            mutated_version: version,
            serial: SerialNumber::new(90),
            length: 1 << 26,
            closed: true,
            suspect: false,
            acknowledged: 1 << 26,
            acknowledged_serial: SerialNumber::new(90),
        }
    }

    fn inventory(count: usize) -> Inventory {
        let replicas = (0..count as u64).map(|at| settled(5 * at)).collect();
        Inventory { replicas: ReportSlice(replicas), ..Inventory::default() }
    }

    #[test]
    fn a_settled_replica_in_handle_order_takes_a_dozen_bytes() {
        let slice = inventory(1000);
        let raw = slice.to_bytes();
        assert!(raw.len() <= 12 * 1000, "{} bytes", raw.len());
        assert_eq!(Inventory::decode(&raw), Ok(slice));
    }

    #[test]
    fn a_slice_of_more_than_the_most_is_refused() {
        assert!(Inventory::decode(&inventory(SLICE_COUNT_MAX).to_bytes()).is_ok());
        assert!(Inventory::decode(&inventory(SLICE_COUNT_MAX + 1).to_bytes()).is_err());
    }
}
