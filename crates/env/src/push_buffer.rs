//! The LRU buffer of pushed data: what waits for its mutation (GFS §3.1, §3.2).
//!
//! - B1: bounded in bytes of memory, not of payload: a push is charged with all that keeping it
//!   takes. What was used longest ago goes first.
//! - B2: a name stands for one content: a second push under it replaces the first, and a mutation
//!   that names other checksums is refused (R15).

use crate::buffer_pool::memory_of;
use bytes::Bytes;
use cairn_types::planted::{self, Rule};
use cairn_types::{BlockChecksums, PushId};
use std::collections::BTreeMap;

/// What keeping one push takes beside its bytes and checksums: its places in the two maps, and the
/// allocations' own. About 360 bytes were measured for the smallest (tests/push_memory.rs).
pub const PUSH_OVERHEAD: u64 = 384;
/// What each segment takes beside its bytes.
const SEGMENT_OVERHEAD: u64 = 64;

/// Pushed bytes, verified on arrival.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PushedData {
    /// The bytes' position within a block; pieces end where blocks do.
    pub block_offset: u32,
    /// The size of the blocks that the pieces were cut at.
    pub block_size: u32,
    /// One per piece.
    pub checksums: BlockChecksums,
    /// The bytes, as they arrived.
    pub segments: Vec<Bytes>,
}

impl PushedData {
    /// How many bytes.
    #[must_use]
    pub fn size(&self) -> u64 {
        self.segments.iter().map(|segment| segment.len() as u64).sum()
    }

    /// How many bytes of memory keeping it takes (B1).
    #[must_use]
    pub fn footprint(&self) -> u64 {
        let segments = self.segments.iter();
        let segments = segments.map(|bytes| memory_of(bytes.len()) as u64 + SEGMENT_OVERHEAD);
        PUSH_OVERHEAD + segments.sum::<u64>() + 4 * self.checksums.0.len() as u64
    }
}

/// Why a push cannot be used.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PushLookupError {
    /// Aged out, or never here.
    Missing,
    /// Other bytes than the mutation names.
    Differs,
}

/// The buffer.
#[derive(Debug)]
pub struct PushBuffer {
    size_max: u64,
    /// Sum of the footprints.
    size: u64,
    clock: u64,
    by_name: BTreeMap<PushId, (u64, PushedData)>,
    by_age: BTreeMap<u64, PushId>,
}

impl PushBuffer {
    /// An empty buffer of at most `size_max` bytes of memory.
    #[must_use]
    pub fn new(size_max: u64) -> Self {
        Self { size_max, size: 0, clock: 0, by_name: BTreeMap::new(), by_age: BTreeMap::new() }
    }

    /// The most bytes of memory that it takes.
    #[must_use]
    pub fn size_max(&self) -> u64 {
        self.size_max
    }

    /// Keeps `data`, dropping what was used longest ago where space is short (B1).
    pub fn keep(&mut self, push: PushId, data: PushedData) {
        self.remove(push);
        self.size += data.footprint();
        self.clock += 1;
        self.by_age.insert(self.clock, push);
        self.by_name.insert(push, (self.clock, data));
        while self.size > self.size_max && self.by_name.len() > 1 {
            let oldest = *self.by_age.first_key_value().expect("as many ages as names").1;
            self.remove(oldest);
        }
    }

    /// The data under this name, if it is what the mutation means; counts as a use.
    ///
    /// # Errors
    /// [`PushLookupError`].
    pub fn get(
        &mut self,
        push: PushId,
        size: u64,
        checksums: &BlockChecksums,
    ) -> Result<PushedData, PushLookupError> {
        let (age, data) = self.by_name.get_mut(&push).ok_or(PushLookupError::Missing)?;
        let same = data.size() == size && data.checksums == *checksums;
        if !same && !planted::broken(Rule::R15) {
            return Err(PushLookupError::Differs);
        }
        self.clock += 1;
        self.by_age.remove(age);
        *age = self.clock;
        self.by_age.insert(self.clock, push);
        Ok(data.clone())
    }

    /// Drops what is no longer needed.
    pub fn remove(&mut self, push: PushId) {
        if let Some((age, data)) = self.by_name.remove(&push) {
            self.by_age.remove(&age);
            self.size -= data.footprint();
        }
    }

    /// Bytes of memory that the buffer takes.
    #[must_use]
    pub fn size(&self) -> u64 {
        self.size
    }
}

#[cfg(test)]
mod tests {
    use super::{PushBuffer, PushLookupError, PushedData};
    use bytes::Bytes;
    use cairn_types::{BlockChecksums, MutationNumber, PushId, SessionId};

    fn push(number: u64) -> PushId {
        PushId { session: SessionId::new(1), number: MutationNumber::new(number) }
    }

    fn data(byte: u8) -> PushedData {
        let bytes = vec![byte; 10];
        PushedData {
            block_offset: 0,
            block_size: 64,
            checksums: BlockChecksums::of(0, &bytes, 64),
            segments: vec![Bytes::from(bytes)],
        }
    }

    #[test]
    fn the_one_used_longest_ago_goes_first() {
        let mut buffer = PushBuffer::new(2 * data(1).footprint());
        buffer.keep(push(1), data(1));
        buffer.keep(push(2), data(2));
        assert!(buffer.get(push(1), 10, &data(1).checksums).is_ok());
        buffer.keep(push(3), data(3));
        assert_eq!(buffer.get(push(2), 10, &data(2).checksums), Err(PushLookupError::Missing));
        assert_eq!(buffer.get(push(1), 10, &data(1).checksums), Ok(data(1)));
        assert_eq!(buffer.size(), 2 * data(1).footprint());
    }

    #[test]
    fn a_mutation_that_names_other_bytes_is_told_so() {
        let mut buffer = PushBuffer::new(100);
        buffer.keep(push(1), data(1));
        assert_eq!(buffer.get(push(1), 10, &data(2).checksums), Err(PushLookupError::Differs));
    }
}
