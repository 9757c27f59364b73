//! Builds runs from entries that come in order.
//!
//! - U1 is the caller's: keys ascend strictly. U2 and U3 hold by construction.

use crate::parts::{shared_back, shared_front};
use crate::run::{BODY_SIZE_SIZE, GROUP_COUNT, TABLE_SIZE};
use crate::varint::{put_size, size_of};

/// A run under construction.
#[derive(Debug, Default)]
pub(crate) struct RunBuilder {
    heads: Vec<u8>,
    bodies: Vec<u8>,
    group_count: u16,
    /// Where in `heads` the last group's body size goes, and where in `bodies` that body starts.
    last_group: (usize, usize),
    first_key: Vec<u8>,
    reference: Vec<u8>,
    count_in_group: usize,
}

/// What an entry shares with its reference.
#[derive(Clone, Copy, Debug)]
pub(crate) struct SharedEnds {
    /// Bytes at the front.
    pub(crate) front: usize,
    /// Bytes at the back of what is left.
    pub(crate) back: usize,
}

impl SharedEnds {
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

    /// Appends the head of a group whose first key is `key`; answers where the body's size goes.
    fn put_head(self, key: &[u8], out: &mut Vec<u8>) -> usize {
        let middle = &key[self.front..key.len() - self.back];
        for size in [self.front, self.back, middle.len()] {
            put_size(out, size);
        }
        let size_at = out.len();
        out.extend_from_slice(&[0; BODY_SIZE_SIZE]);
        out.extend_from_slice(middle);
        size_at
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

/// Appends what a body begins with: the value of the group's first key.
pub(crate) fn put_first(value: &[u8], out: &mut Vec<u8>) {
    put_size(out, 1 + value.len());
    out.extend_from_slice(value);
}

impl RunBuilder {
    /// Whether nothing was pushed since the start or the last `finish`.
    pub(crate) fn is_empty(&self) -> bool {
        self.group_count == 0
    }

    /// Bytes that the run would have now.
    pub(crate) fn size(&self) -> usize {
        TABLE_SIZE + self.heads.len() + self.bodies.len()
    }

    /// Appends an entry, unless the run has entries and would have more than `size_max` bytes.
    pub(crate) fn push_within(&mut self, size_max: usize, key: &[u8], value: &[u8]) -> bool {
        let starts_group = self.is_empty() || self.count_in_group == GROUP_COUNT;
        let base = if starts_group { &self.first_key } else { &self.reference };
        let shared = SharedEnds::of(base, key);
        // A first value's size may take a byte more than another's.
        let head_size = if starts_group { BODY_SIZE_SIZE + 1 } else { 0 };
        let size = self.size() + head_size + shared.entry_size(key, value);
        let too_many = starts_group && self.group_count == u16::MAX;
        if !self.is_empty() && (size > size_max || too_many) {
            return false;
        }
        if self.is_empty() {
            self.first_key.extend_from_slice(key);
        }
        if starts_group {
            self.end_group();
            self.last_group = (shared.put_head(key, &mut self.heads), self.bodies.len());
            put_first(value, &mut self.bodies);
            self.reference.clear();
            self.reference.extend_from_slice(key);
            self.group_count += 1;
            self.count_in_group = 0;
        } else {
            shared.put_entry(key, value, &mut self.bodies);
        }
        self.count_in_group += 1;
        true
    }

    /// Appends a whole group with its body as it is.
    pub(crate) fn push_group(&mut self, key: &[u8], body: &[u8]) {
        assert!(self.group_count < u16::MAX, "a run has fewer than 65536 groups");
        let shared = SharedEnds::of(&self.first_key, key);
        if self.is_empty() {
            self.first_key.extend_from_slice(key);
        }
        self.end_group();
        self.last_group = (shared.put_head(key, &mut self.heads), self.bodies.len());
        self.bodies.extend_from_slice(body);
        self.group_count += 1;
        // The next entry begins another.
        self.count_in_group = GROUP_COUNT;
    }

    /// Notes the size of the last group's body.
    fn end_group(&mut self) {
        if !self.is_empty() {
            let (size_at, body) = self.last_group;
            let size = u32::try_from(self.bodies.len() - body).expect("far below 4 GiB");
            self.heads[size_at..size_at + BODY_SIZE_SIZE].copy_from_slice(&size.to_le_bytes());
        }
    }

    /// Appends an entry, however large the run gets.
    pub(crate) fn push(&mut self, key: &[u8], value: &[u8]) {
        let pushed = self.push_within(usize::MAX, key, value);
        assert!(pushed, "a run has fewer than 65536 groups");
    }

    /// The run; the builder is empty again.
    pub(crate) fn finish(&mut self) -> Vec<u8> {
        self.end_group();
        let mut run = Vec::with_capacity(self.size());
        run.extend_from_slice(&self.group_count.to_le_bytes());
        let bodies = u32::try_from(TABLE_SIZE + self.heads.len()).expect("far below 4 GiB");
        run.extend_from_slice(&bodies.to_le_bytes());
        run.append(&mut self.heads);
        run.append(&mut self.bodies);
        self.first_key.clear();
        (self.group_count, self.count_in_group) = (0, 0);
        run
    }
}
