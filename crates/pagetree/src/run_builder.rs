//! Builds runs from entries that come in order.
//!
//! - U1 is the caller's: keys ascend strictly. U2 and U3 hold by construction.

use crate::parts::{shared_back, shared_front};
use crate::run::{COUNT_SIZE, GROUP_COUNT, OFFSET_SIZE};
use crate::varint::{put_size, size_of};

/// A run under construction.
#[derive(Debug, Default)]
pub(crate) struct RunBuilder {
    body: Vec<u8>,
    group_starts: Vec<u32>,
    first_key: Vec<u8>,
    reference: Vec<u8>,
    count_in_group: usize,
}

/// What an entry shares with its reference.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Shared {
    /// Bytes at the front.
    pub(crate) front: usize,
    /// Bytes at the back of what is left.
    pub(crate) back: usize,
}

impl Shared {
    /// What `key` shares with `reference`.
    pub(crate) fn of(reference: &[u8], key: &[u8]) -> Self {
        let front = shared_front(reference, key);
        Self { front, back: shared_back(&reference[front..], &key[front..]) }
    }

    /// Bytes of the entry that has `key` and `value`.
    fn entry_size(self, key: &[u8], value: &[u8]) -> usize {
        let middle = key.len() - self.front - self.back;
        size_of(self.front)
            + size_of(self.back)
            + size_of(middle)
            + size_of(value.len())
            + middle
            + value.len()
    }

    /// Appends the entry that has `key` and `value`.
    pub(crate) fn put_entry(self, key: &[u8], value: &[u8], out: &mut Vec<u8>) {
        let middle = &key[self.front..key.len() - self.back];
        let sizes = [self.front, self.back, middle.len(), value.len()];
        if sizes.iter().all(|size| *size < 0x80) {
            out.extend_from_slice(&sizes.map(|size| size.to_le_bytes()[0]));
        } else {
            sizes.iter().for_each(|size| put_size(out, *size));
        }
        out.extend_from_slice(middle);
        out.extend_from_slice(value);
    }
}

impl RunBuilder {
    /// Whether nothing was pushed since the start or the last `finish`.
    pub(crate) fn is_empty(&self) -> bool {
        self.group_starts.is_empty()
    }

    /// Bytes that the run would have now.
    pub(crate) fn size(&self) -> usize {
        COUNT_SIZE + self.group_starts.len() * OFFSET_SIZE + self.body.len()
    }

    /// Appends an entry, unless the run has entries and would have more than `size_max` bytes.
    pub(crate) fn push_within(&mut self, size_max: usize, key: &[u8], value: &[u8]) -> bool {
        let starts_group = self.is_empty() || self.count_in_group == GROUP_COUNT;
        let shared = if starts_group {
            Shared::of(&self.first_key, key)
        } else {
            Shared::of(&self.reference, key)
        };
        let offset_size = if starts_group { OFFSET_SIZE } else { 0 };
        let size = self.size() + offset_size + shared.entry_size(key, value);
        let too_many = starts_group && self.group_starts.len() == usize::from(u16::MAX);
        if !self.is_empty() && (size > size_max || too_many) {
            return false;
        }
        if self.is_empty() {
            self.first_key.extend_from_slice(key);
        }
        if starts_group {
            let start = u32::try_from(self.body.len()).expect("a page is far below 4 GiB");
            self.group_starts.push(start);
            self.reference.clear();
            self.reference.extend_from_slice(key);
            self.count_in_group = 0;
        }
        self.count_in_group += 1;
        shared.put_entry(key, value, &mut self.body);
        true
    }

    /// Appends an entry, however large the run gets.
    pub(crate) fn push(&mut self, key: &[u8], value: &[u8]) {
        let pushed = self.push_within(usize::MAX, key, value);
        assert!(pushed, "a run has fewer than 65536 groups");
    }

    /// The run; the builder is empty again.
    pub(crate) fn finish(&mut self) -> Vec<u8> {
        let mut run = Vec::with_capacity(self.size());
        let groups = u16::try_from(self.group_starts.len()).expect("counted by push");
        run.extend_from_slice(&groups.to_le_bytes());
        let table_end = COUNT_SIZE + self.group_starts.len() * OFFSET_SIZE;
        let table_end = u32::try_from(table_end).expect("65535 groups at most");
        for start in self.group_starts.drain(..) {
            run.extend_from_slice(&(table_end + start).to_le_bytes());
        }
        run.append(&mut self.body);
        self.first_key.clear();
        self.count_in_group = 0;
        run
    }
}
