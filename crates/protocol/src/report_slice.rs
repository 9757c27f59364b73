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
//! The master keeps what it is told in the same way, each replica without its handle.
//!
//! - S1: no more than [`SLICE_COUNT_MAX`] replicas, so that a slice is a bounded piece of work.
//! - S2: over the same base the same facts are the same bytes, and no facts begin with others'.

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

/// What the next replica's handle and version are steps from; no handle where it is not told.
pub type ReportBase = (Option<ChunkHandle>, ChunkVersion);

/// Appends what is told of a replica (S2).
#[inline]
pub fn put_report(out: &mut Vec<u8>, base: ReportBase, report: &ReplicaReport) {
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
    if let Some(handle) = base.0 {
        put(out, step(handle.get(), report.handle.get()));
    }
    put(out, step(base.1.get(), report.version.get()));
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

/// Takes what was put over the same base; none where that is not what is there.
// Always: else reading a slice takes half as long again (measured: 16 ns a replica, not 10).
#[inline(always)]
pub fn take_report(input: &mut &[u8], base: ReportBase) -> Option<ReplicaReport> {
    let (flags, rest) = input.split_first()?;
    *input = rest;
    if flags & !ALL != 0 {
        return None;
    }
    let handle = match base.0 {
        Some(handle) => ChunkHandle::new(stepped(handle.get(), take(input)?)),
        None => ChunkHandle::default(),
    };
    let version = stepped(base.1.get(), take(input)?);
    let mutated =
        if flags & MUTATED_BEFORE == 0 { version } else { stepped(version, take(input)?) };
    let serial = take(input)?;
    let length = take(input)?;
    let acknowledged = if flags & LONGER == 0 { length } else { take(input)? };
    let acknowledged_serial = if flags & FURTHER == 0 { serial } else { take(input)? };
    Some(ReplicaReport {
        handle,
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
        let (mut packed, mut before) = (Vec::new(), Default::default());
        for report in &self.0 {
            let (handle, version) = before;
            put_report(&mut packed, (Some(handle), version), report);
            before = (report.handle, report.version);
        }
        encode_slice(tag, &packed, out);
    }

    fn merge(&mut self, wire: WireType, input: &mut &[u8]) -> Result<(), WireError> {
        let (mut packed, mut before) = (take_slice(wire, input)?, Default::default());
        self.0.clear();
        while !packed.is_empty() {
            let (handle, version) = before;
            let report = take_report(&mut packed, (Some(handle), version));
            let report = report.ok_or(WireError::Malformed)?;
            if self.0.len() == SLICE_COUNT_MAX {
                return Err(WireError::Malformed);
            }
            before = (report.handle, report.version);
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
    use super::{ReportSlice, SLICE_COUNT_MAX, put_report, take_report};
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

    /// All that a flag tells of, each there and not there.
    fn all_kinds() -> impl Iterator<Item = ReplicaReport> {
        (0..32).map(|kind: u32| {
            let (is, mut report) = (|bit: u32| kind >> bit & 1 == 1, settled(9));
            (report.closed, report.suspect) = (is(0), is(1));
            report.mutated_version = ChunkVersion::new(report.version.get() - u64::from(is(2)));
            report.acknowledged -= u64::from(is(3));
            report.acknowledged_serial = SerialNumber::new(90 - u64::from(is(4)));
            report
        })
    }

    #[test]
    fn facts_without_a_handle_come_back_and_none_begin_with_others() {
        let base = (None, ChunkVersion::of(Term::new(3), 7));
        let put = |report: &ReplicaReport| {
            let mut out = Vec::new();
            put_report(&mut out, base, report);
            out
        };
        let all: Vec<Vec<u8>> = all_kinds().map(|report| put(&report)).collect();
        for (raw, report) in all.iter().zip(all_kinds()) {
            assert_eq!(all.iter().filter(|other| other.starts_with(raw)).count(), 1);
            let (mut rest, handle) = (raw.as_slice(), ChunkHandle::default());
            let taken = take_report(&mut rest, base);
            assert_eq!(taken, Some(ReplicaReport { handle, ..report }));
            assert!(rest.is_empty());
        }
    }

    #[test]
    fn the_bytes_of_a_slice_are_as_told() {
        let (first, mut second) = (settled(1), settled(2));
        (second.suspect, second.length) = (true, 300);
        let replicas = ReportSlice(vec![first, second]);
        let raw = Inventory { replicas, ..Inventory::default() }.to_bytes();
        // Flags, handle, version, serial number, length; then those, and the acknowledged length.
        let first = [
            &[1][..],
            &[130, 128, 128, 128, 128, 192, 1],
            &[132, 128, 128, 128, 128, 192, 1],
            &[90],
            &[128, 128, 128, 32],
        ];
        let second = [&[1 | 2 | 8][..], &[2], &[4], &[90], &[172, 2], &[128, 128, 128, 32]];
        let tag_and_size = [26, 30];
        assert_eq!(raw, [&tag_and_size[..], &first.concat(), &second.concat()].concat());
    }

    #[test]
    fn a_slice_of_more_than_the_most_is_refused() {
        assert!(Inventory::decode(&inventory(SLICE_COUNT_MAX).to_bytes()).is_ok());
        assert!(Inventory::decode(&inventory(SLICE_COUNT_MAX + 1).to_bytes()).is_err());
    }
}
