//! A sorted run of entries in one byte string, read in place; docs/formats/pagetree.md.
//!
//! ```text
//!   count of groups u16 │ offset of each group u32 … │ group │ group │ …
//!   group:  entry, entry, …         each relative to another key, its reference:
//!   entry:  front │ back │ size of middle │ size of value │ middle │ value
//!           └ bytes shared with the reference at its front and at its back, never overlapping
//!
//!   run's first entry ◄── reference of each group's first entry ◄── reference of the group's others
//! ```
//! A look-up finds the group by binary search and then walks a few entries; neither puts a key
//! together. `front` alone mostly decides, because of U2: an entry that shares more with its
//! reference than the sought key does lies on the same side of that key as the reference.
//!
//! - U1: keys ascend strictly, within a group and from group to group.
//! - U2: `front` is all that the entry and its reference share at the front; `back` is what they
//!   share at the back of the rest.
//! - U3: groups and entries fill the byte string without a gap. No group is empty.
//!
//! Every reader is total: bytes that are no run give nothing, never a panic.

use crate::parts::{Parts, order_of_front, shared_front};
use crate::varint::take_size;
use std::cmp::Ordering;

/// Bytes of the count of groups.
pub(crate) const COUNT_SIZE: usize = 2;
/// Bytes of one group's offset.
pub(crate) const OFFSET_SIZE: usize = 4;
/// Entries of a group as a run is built. In-place edits may make it larger.
pub(crate) const GROUP_COUNT: usize = 16;

/// An entry as it is stored, without its reference.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Entry<'a> {
    pub(crate) front: usize,
    pub(crate) back: usize,
    pub(crate) middle: &'a [u8],
    pub(crate) value: &'a [u8],
    /// Where the next one starts.
    pub(crate) end: usize,
}

/// Where a key is in a run, or would be.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Spot<'a> {
    /// The last group whose first key is not above the sought one; the first, where all are.
    pub(crate) group: usize,
    /// How many entries of that group lie below.
    pub(crate) index: usize,
    /// The offset of the next entry that does not.
    pub(crate) at: usize,
    /// That entry, if it has the key.
    pub(crate) found: Option<Entry<'a>>,
    /// The group's first key.
    pub(crate) reference: Parts<'a>,
}

/// A run, its table of groups checked against its size.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Run<'a> {
    bytes: &'a [u8],
    groups: usize,
}

impl<'a> Run<'a> {
    /// Looks at the table's size alone.
    pub(crate) fn new(bytes: &'a [u8]) -> Option<Self> {
        let groups = usize::from(u16::from_le_bytes(*bytes.first_chunk()?));
        (bytes.len() >= COUNT_SIZE + groups * OFFSET_SIZE).then_some(Self { bytes, groups })
    }

    /// How many groups.
    pub(crate) fn groups(&self) -> usize {
        self.groups
    }

    /// Where a group starts; for the count of groups, where the run ends.
    pub(crate) fn group_start(&self, group: usize) -> Option<usize> {
        if group == self.groups {
            return Some(self.bytes.len());
        }
        let offset = self.bytes.get(COUNT_SIZE + group * OFFSET_SIZE..)?.first_chunk()?;
        usize::try_from(u32::from_le_bytes(*offset)).ok()
    }

    /// The four bytes at an offset: an entry's sizes, if none is above 127.
    #[inline]
    fn short_head(&self, at: usize) -> Option<[u8; 4]> {
        self.bytes.get(at..)?.first_chunk().copied()
    }

    /// The sizes at an offset, and where they end.
    #[inline]
    fn head(&self, at: usize) -> Option<([usize; 4], usize)> {
        let head = self.short_head(at)?;
        if u32::from_le_bytes(head) & 0x8080_8080 == 0 {
            return Some((head.map(usize::from), at + head.len()));
        }
        self.long_head(at)
    }

    #[cold]
    fn long_head(&self, at: usize) -> Option<([usize; 4], usize)> {
        let (front, at) = take_size(self.bytes, at)?;
        let (back, at) = take_size(self.bytes, at)?;
        let (middle, at) = take_size(self.bytes, at)?;
        let (value, at) = take_size(self.bytes, at)?;
        Some(([front, back, middle, value], at))
    }

    /// The entry at an offset.
    #[inline]
    pub(crate) fn entry(&self, at: usize) -> Option<Entry<'a>> {
        let ([front, back, middle, value], at) = self.head(at)?;
        let middle_end = at.checked_add(middle)?;
        let end = middle_end.checked_add(value)?;
        Some(Entry {
            front,
            back,
            middle: self.bytes.get(at..middle_end)?,
            value: self.bytes.get(middle_end..end)?,
            end,
        })
    }

    /// The run's first key. Nothing where there is none.
    fn first_key(&self) -> Option<&'a [u8]> {
        Some(self.entry(self.group_start(0)?)?.middle)
    }

    /// The first key of a group, and the group's first entry.
    pub(crate) fn group_key(
        &self,
        group: usize,
        first_key: &'a [u8],
    ) -> Option<(Parts<'a>, Entry<'a>)> {
        let entry = self.entry(self.group_start(group)?)?;
        if group == 0 {
            return Some((Parts::whole(entry.middle), entry));
        }
        Some((Parts::within(first_key, entry.front, entry.middle, entry.back)?, entry))
    }

    /// Finds where `key` is or would be. The first key of the run may be above it: then the spot
    /// is the start of the first group. Nothing where the run is empty or malformed.
    pub(crate) fn seek(&self, key: &[u8]) -> Option<Spot<'a>> {
        let first_key = self.first_key()?;
        let shared = shared_front(first_key, key);
        let start = Spot {
            group: 0,
            index: 0,
            at: self.group_start(0)?,
            found: None,
            reference: Parts::whole(first_key),
        };
        if key.get(shared) < first_key.get(shared) {
            return Some(start);
        }
        let group = self.seek_group(key, first_key, shared)?;
        let (reference, first) = self.group_key(group, first_key)?;
        let at = self.group_start(group)?;
        let shared = reference.shared_front(key);
        if shared == key.len() && shared == reference.size() {
            return Some(Spot { group, at, found: Some(first), reference, ..start });
        }
        self.seek_entry(key, shared, Spot { group, index: 1, at: first.end, reference, ..start })
    }

    /// The last group whose first key is not above `key`, which is not below the run's first key
    /// and shares its first `shared` bytes.
    fn seek_group(&self, key: &[u8], first_key: &'a [u8], shared: usize) -> Option<usize> {
        let (mut low, mut high) = (0, self.groups);
        while high - low > 1 {
            let middle = low + (high - low) / 2;
            let entry = self.entry(self.group_start(middle)?)?;
            let order = match entry.front.cmp(&shared) {
                Ordering::Equal => {
                    let rest = first_key.len().checked_sub(entry.back)?;
                    Parts::within(entry.middle, entry.middle.len(), &first_key[rest..], 0)?
                        .order_of(&key[shared..])
                }
                decided => decided,
            };
            if order == Ordering::Less {
                high = middle;
            } else {
                low = middle;
            }
        }
        Some(low)
    }

    /// Walks a group from its second entry on, where `spot` stands. `key` is above the group's
    /// first key and shares its first `shared` bytes.
    fn seek_entry(&self, key: &[u8], shared: usize, mut spot: Spot<'a>) -> Option<Spot<'a>> {
        let end = self.group_start(spot.group + 1)?;
        while spot.at < end {
            // Most entries are passed by: for these, four bytes are all that is looked at.
            if let Some([front, back, middle, value]) = self.short_head(spot.at)
                && usize::from(front) > shared
                && (front | back | middle | value) < 0x80
            {
                spot.index += 1;
                spot.at += 4 + usize::from(middle) + usize::from(value);
                continue;
            }
            let entry = self.entry(spot.at)?;
            if entry.front < shared {
                break;
            }
            if entry.front == shared {
                match order_of_rest(key, shared, &entry, &spot.reference)? {
                    Ordering::Less => break,
                    Ordering::Equal => {
                        spot.found = Some(entry);
                        break;
                    }
                    Ordering::Greater => {}
                }
            }
            spot.index += 1;
            spot.at = entry.end;
        }
        Some(spot)
    }
}

/// How `key` stands to an entry of which the first `shared` bytes are the same.
fn order_of_rest(
    key: &[u8],
    shared: usize,
    entry: &Entry<'_>,
    reference: &Parts<'_>,
) -> Option<Ordering> {
    let key = &key[shared..];
    match order_of_front(key, entry.middle) {
        Ordering::Equal => {
            Some(reference.tail(entry.back)?.order_of(&key[entry.middle.len()..]))
        }
        decided => Some(decided),
    }
}

/// The value of `key`; the outer nothing where the bytes are no run with entries.
pub(crate) fn find<'a>(bytes: &'a [u8], key: &[u8]) -> Option<Option<&'a [u8]>> {
    let spot = Run::new(bytes)?.seek(key)?;
    Some(spot.found.map(|entry| entry.value))
}

/// How many keys of a run are not above `key`, in a run whose groups all have [`GROUP_COUNT`]
/// entries but the last.
pub(crate) fn rank(bytes: &[u8], key: &[u8]) -> Option<usize> {
    let run = Run::new(bytes)?;
    if run.groups == 0 {
        return Some(0);
    }
    let spot = run.seek(key)?;
    Some(spot.group * GROUP_COUNT + spot.index + usize::from(spot.found.is_some()))
}

/// Whether bytes are a run (U1, U2, U3), and of how many entries.
///
/// A checksum says that they are what was written; this says that what was written is a run, so
/// that readers of hostile bytes with a right checksum are safe too.
pub(crate) fn check(bytes: &[u8]) -> Option<usize> {
    let run = Run::new(bytes)?;
    let mut count = 0;
    let mut expected_start = COUNT_SIZE + run.groups * OFFSET_SIZE;
    let first_key = if run.groups == 0 { &[][..] } else { run.first_key()? };
    let (mut reference, mut last) = (Vec::new(), Vec::new());
    let mut key = Vec::new();
    for group in 0..run.groups {
        let (start, end) = (run.group_start(group)?, run.group_start(group + 1)?);
        if start != expected_start || start >= end {
            return None;
        }
        let mut at = start;
        while at < end {
            let entry = run.entry(at)?;
            let base = match (count, at == start) {
                (0, _) => &[][..],
                (_, true) => first_key,
                (_, false) => reference.as_slice(),
            };
            key.clear();
            Parts::within(base, entry.front, entry.middle, entry.back)?.append_to(&mut key);
            if shared_front(base, &key) != entry.front || (count > 0 && key <= last) {
                return None;
            }
            if at == start {
                reference.clone_from(&key);
            }
            std::mem::swap(&mut last, &mut key);
            count += 1;
            at = entry.end;
        }
        expected_start = at;
    }
    (expected_start == bytes.len()).then_some(count)
}
