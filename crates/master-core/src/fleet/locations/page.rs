//! A page of settled chunks: neighbouring handles in one byte string.
//!
//! ```text
//!   present   which of the 128 handles are here, one bit each
//!   listed    which of the 128 the chunk table is known to have
//!   bytes     ┌──────────────────────┬───────────────────────────────┐
//!             │ size of each entry   │ the entries, in order         │
//!             └──────────────────────┴───────────────────────────────┘
//!               1 byte each            `entry.rs`
//! ```
//! An entry is found by counting the bits before its own and adding up as many sizes.
//!
//! - Z1: what is present is listed.
//! - Z2: as many sizes as bits are set, and the sizes add up to the entries' bytes.

use super::entry::HOLDERS_MAX;
use super::entry::{HolderNumbers, put_server, take_facts};
use super::replica::KnownReplica;
use super::server_numbers::ServerNumber;
use cairn_types::{ChunkHandle, ChunkVersion, varint};

/// Handles of one page.
pub(super) const HANDLES: u32 = 128;
/// Bytes that one entry may have.
const ENTRY_SIZE_MAX: usize = u8::MAX as usize;
/// Bytes that a page takes in reserve, besides one in so many of what it holds.
const RESERVE: usize = 32;
const RESERVE_SHARE: usize = 16;

const _: () = assert!(HANDLES == u128::BITS);
// Flags, six numbers of ten bytes at most, and servers of three.
const _: () = assert!(1 + 6 * varint::SIZE_MAX + 3 * HOLDERS_MAX <= ENTRY_SIZE_MAX);
// Sizes are added up in 16 bits.
const _: () = assert!(HANDLES as usize * ENTRY_SIZE_MAX <= u16::MAX as usize);

/// Which of its page's handles one is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Slot(u32);

impl Slot {
    #[inline]
    pub(super) fn of(handle: ChunkHandle) -> Self {
        Self(u32::try_from(handle.get() % u64::from(HANDLES)).expect("less than a page"))
    }

    /// Its handle in the page that begins with this one.
    pub(super) fn handle(self, first: ChunkHandle) -> ChunkHandle {
        ChunkHandle::new(first.get() + u64::from(self.0))
    }

    /// Its bit.
    #[inline]
    pub(super) fn bit(self) -> u128 {
        1 << self.0
    }

    /// Whether it is one of these.
    #[inline]
    pub(super) fn is_in(self, present: u128) -> bool {
        present & self.bit() != 0
    }
}

/// Where the entry of a slot lies in its page, or would lie.
#[derive(Clone, Copy, Debug)]
struct Spot {
    /// Entries before it.
    rank: usize,
    /// Where in the page's bytes it begins.
    start: usize,
    /// None: there is none.
    size: Option<usize>,
}

/// What a page is written anew in.
#[derive(Debug, Default)]
pub(super) struct Scratch {
    sizes: Vec<u8>,
    entries: Vec<u8>,
}

/// Neighbouring settled chunks.
#[derive(Debug)]
pub(super) struct Page {
    present: u128,
    listed: u128,
    /// What versions are written against: that of the first chunk that came here.
    base: ChunkVersion,
    bytes: Vec<u8>,
}

impl Page {
    pub(super) fn new(base: ChunkVersion) -> Self {
        Self { present: 0, listed: 0, base, bytes: Vec::new() }
    }

    pub(super) fn base(&self) -> ChunkVersion {
        self.base
    }

    /// Which of its handles the chunk table is known to have, a bit each.
    pub(super) fn listed(&self) -> u128 {
        self.listed
    }

    /// The chunk table has these.
    pub(super) fn list(&mut self, listed: u128) {
        self.listed |= listed;
    }

    /// The chunk table has this one no more.
    pub(super) fn unlist(&mut self, slot: Slot) {
        assert!(!self.has(slot), "it was forgotten before (Z1)");
        self.listed &= !slot.bit();
    }

    pub(super) fn is_empty(&self) -> bool {
        self.present == 0
    }

    fn count(&self) -> usize {
        self.present.count_ones() as usize
    }

    /// Where a slot's entry lies, or would lie.
    #[inline]
    fn find(&self, slot: Slot) -> Spot {
        self.find_on((0, self.count()), slot)
    }

    /// The same, where so many entries below it end there.
    #[inline]
    fn find_on(&self, (passed, end): (usize, usize), slot: Slot) -> Spot {
        let rank = (self.present & (slot.bit() - 1)).count_ones() as usize;
        let sizes = self.bytes[passed..rank].iter().map(|size| u16::from(*size)).sum::<u16>();
        let start = end + usize::from(sizes);
        let size = self.has(slot).then(|| usize::from(self.bytes[rank]));
        Spot { rank, start, size }
    }

    #[inline]
    fn has(&self, slot: Slot) -> bool {
        slot.is_in(self.present)
    }

    /// The bytes of an entry.
    #[inline]
    fn entry(&self, spot: &Spot) -> Option<&[u8]> {
        spot.size.map(|size| &self.bytes[spot.start..spot.start + size])
    }

    /// What is known of a chunk: what its replicas are, and who holds them.
    #[inline]
    pub(super) fn get(&self, slot: Slot) -> Option<(KnownReplica, HolderNumbers<'_>)> {
        let mut entry = self.entry(&self.find(slot))?;
        let facts = take_facts(&mut entry, self.base);
        Some((facts, HolderNumbers(entry)))
    }

    /// Looks at who holds each of its chunks.
    pub(super) fn each(&self, mut see: impl FnMut(Slot, HolderNumbers<'_>)) {
        let mut start = self.count();
        let slots = (0..HANDLES).map(Slot).filter(|slot| self.has(*slot));
        for (rank, slot) in slots.enumerate() {
            let end = start + usize::from(self.bytes[rank]);
            let mut entry = &self.bytes[start..end];
            take_facts(&mut entry, self.base);
            see(slot, HolderNumbers(entry));
            start = end;
        }
        assert_eq!(start, self.bytes.len(), "the sizes add up to the entries (Z2)");
    }

    /// Bytes that its sizes and entries take.
    #[cfg(test)]
    pub(super) fn bytes_size(&self) -> usize {
        self.bytes.capacity()
    }

    /// A byte of the sizes, so that they are fetched.
    pub(super) fn touch_sizes(&self, slot: Slot) -> u8 {
        let rank = (self.present & (slot.bit() - 1)).count_ones() as usize;
        let byte = |at: usize| self.bytes.get(at).copied().unwrap_or_default();
        byte(0) ^ byte(rank)
    }

    /// A byte of an entry, so that it is fetched.
    pub(super) fn touch_entry(&self, slot: Slot) -> u8 {
        self.bytes.get(self.find(slot).start).copied().unwrap_or_default()
    }

    /// Writes entries of several slots, in ascending order, in one pass over the page. `write` is
    /// given what came with the slot and the entry that is there; it appends what is to be there,
    /// or answers no: then that one stays as it is.
    ///
    /// # Panics
    /// Where an entry is longer than [`ENTRY_SIZE_MAX`].
    pub(super) fn rewrite<T>(
        &mut self,
        slots: impl Iterator<Item = (Slot, T)>,
        scratch: &mut Scratch,
        mut write: impl FnMut(T, Option<&[u8]>, &mut Vec<u8>) -> bool,
    ) {
        let Scratch { sizes, entries } = scratch;
        sizes.clear();
        entries.clear();
        let (mut present, mut copied, mut start) = (self.present, 0, self.count());
        let (mut any, mut passed) = (false, (0, start));
        for (slot, with) in slots {
            let spot = self.find_on(passed, slot);
            passed = (spot.rank, spot.start);
            sizes.extend_from_slice(&self.bytes[copied..spot.rank]);
            entries.extend_from_slice(&self.bytes[start..spot.start]);
            let (known, new_start) = (self.entry(&spot), entries.len());
            if !write(with, known, entries) {
                // What it has begun to write does not count; what is there is copied by and by.
                entries.truncate(new_start);
                (copied, start) = (spot.rank, spot.start);
                continue;
            }
            any = true;
            let size = entries.len() - new_start;
            sizes.push(u8::try_from(size).expect("no entry has more holders than fit it"));
            present |= slot.bit();
            copied = spot.rank + usize::from(spot.size.is_some());
            start = spot.start + spot.size.unwrap_or(0);
        }
        if !any {
            return;
        }
        let count = self.count();
        sizes.extend_from_slice(&self.bytes[copied..count]);
        entries.extend_from_slice(&self.bytes[start..]);
        assert_eq!(sizes.len(), present.count_ones() as usize, "a size for each entry (Z2)");
        self.present = present;
        self.listed |= present;
        let size = sizes.len() + entries.len();
        if self.bytes.capacity() < size {
            self.bytes = Vec::with_capacity(size + RESERVE + size / RESERVE_SHARE);
        }
        self.bytes.clear();
        self.bytes.extend_from_slice(sizes);
        self.bytes.extend_from_slice(entries);
    }

    pub(super) fn remove(&mut self, slot: Slot) {
        // An entry that is not there is as good as removed.
        let Spot { rank, start, size: Some(size), .. } = self.find(slot) else { return };
        self.bytes.drain(start..start + size);
        self.bytes.remove(rank);
        self.present &= !slot.bit();
    }

    /// Removes servers from all entries, and entries that have none left; tells of each one.
    pub(super) fn retain(
        &mut self,
        stays: impl Fn(ServerNumber) -> bool,
        removed: &mut Vec<ServerNumber>,
    ) {
        let (mut present, mut sizes, mut entries) = (0, Vec::new(), Vec::new());
        let (before, mut start) = (removed.len(), self.count());
        let slots = (0..HANDLES).map(Slot).filter(|slot| self.has(*slot));
        for (rank, slot) in slots.enumerate() {
            let end = start + usize::from(self.bytes[rank]);
            let (whole, new_start) = (&self.bytes[start..end], entries.len());
            let mut servers = whole;
            take_facts(&mut servers, self.base);
            entries.extend_from_slice(&whole[..whole.len() - servers.len()]);
            let facts_end = entries.len();
            for server in HolderNumbers(servers) {
                if stays(server) {
                    put_server(&mut entries, server);
                } else {
                    removed.push(server);
                }
            }
            if entries.len() == facts_end {
                entries.truncate(new_start);
            } else {
                let size = entries.len() - new_start;
                sizes.push(u8::try_from(size).expect("no more than there was"));
                present |= slot.bit();
            }
            start = end;
        }
        assert_eq!(start, self.bytes.len(), "the sizes add up to the entries (Z2)");
        if removed.len() > before {
            sizes.append(&mut entries);
            (self.present, self.bytes) = (present, sizes);
            self.bytes.shrink_to_fit();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::{Page, Scratch, Slot};
    use cairn_types::{ChunkVersion, Random};
    use proptest::prelude::proptest;
    use std::collections::BTreeMap;

    proptest! {
        #[test]
        fn a_page_holds_what_a_map_holds(seed: u64) {
            let random = &mut Random::new(seed);
            let mut page = Page::new(ChunkVersion::default());
            let mut model = BTreeMap::new();
            for _ in 0..400 {
                let slot = u32::try_from(random.below(128)).unwrap();
                if random.below(4) == 0 {
                    page.remove(Slot(slot));
                    model.remove(&slot);
                } else {
                    let size = usize::try_from(random.below(30)).unwrap();
                    let entry = vec![random.next_u64().to_le_bytes()[0]; size];
                    let slots = [(Slot(slot), &entry)].into_iter();
                    page.rewrite(slots, &mut Scratch::default(), |entry, _, out| {
                        out.extend_from_slice(entry);
                        true
                    });
                    model.insert(slot, entry);
                }
                for slot in 0..128 {
                    let spot = page.find(Slot(slot));
                    assert_eq!(page.entry(&spot), model.get(&slot).map(Vec::as_slice));
                }
                assert_eq!(page.is_empty(), model.is_empty());
            }
        }
    }
}
