//! All pages of settled chunks, by handle.
//!
//! ```text
//!   handle ─► group of 64 pages (an ordered map: handles begin anew with each term)
//!               └─► page of 128 handles (by index) ─► entry
//! ```
//! Ten million chunks are 1 221 groups: the map of them stays in the processor's cache, and a
//! chunk that nobody asked for lately costs two or three lines of memory.
//!
//! - PG1: no page is empty, and no group without a page.

use super::entry::HolderNumbers;
use super::page::{HANDLES, Page, Slot};
use super::replica::KnownReplica;
use super::server_numbers::ServerNumber;
use cairn_types::{ChunkHandle, ChunkVersion};
use std::collections::BTreeMap;
use std::hint::black_box;
use std::ops::RangeInclusive;

/// Pages of one group.
const PAGES: usize = 64;

/// Which group.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct GroupNumber(u64);

type Group = Box<[Option<Page>; PAGES]>;

/// All pages.
#[derive(Debug, Default)]
pub(super) struct Pages {
    groups: BTreeMap<GroupNumber, Group>,
}

#[inline]
fn page_number(handle: ChunkHandle) -> u64 {
    handle.get() / u64::from(HANDLES)
}

/// The group of a handle, the index of its page there, and its slot in the page.
#[inline]
fn place_of(handle: ChunkHandle) -> (GroupNumber, usize, Slot) {
    let page = page_number(handle);
    let index = usize::try_from(page % PAGES as u64).expect("less than a group");
    (GroupNumber(page / PAGES as u64), index, Slot::of(handle))
}

/// The handles of a handle's page.
pub(super) fn page_around(handle: ChunkHandle) -> RangeInclusive<ChunkHandle> {
    let first = handle.get() - handle.get() % u64::from(HANDLES);
    ChunkHandle::new(first)..=ChunkHandle::new(first + u64::from(HANDLES - 1))
}

/// Whether two chunks come to the same page.
#[inline]
pub(super) fn in_one_page(one: ChunkHandle, other: ChunkHandle) -> bool {
    page_number(one) == page_number(other)
}

impl Pages {
    /// Which handles of a handle's page the chunk table is known to have, a bit each.
    pub(super) fn listed(&self, handle: ChunkHandle) -> u128 {
        let (group, index, _) = place_of(handle);
        let page = self.groups.get(&group).and_then(|group| group[index].as_ref());
        page.map_or(0, Page::listed)
    }

    /// What is known of a chunk: what its replicas are, and who holds them.
    #[inline]
    pub(super) fn get(&self, handle: ChunkHandle) -> Option<(KnownReplica, HolderNumbers<'_>)> {
        let (group, index, slot) = place_of(handle);
        self.groups.get(&group)?[index].as_ref()?.get(slot)
    }

    /// Has what is known of these chunks fetched from memory: their pages, then the pages' sizes,
    /// then the entries. Each wait is one for all of them.
    pub(super) fn touch(&self, handles: &[ChunkHandle]) {
        let page = |handle: &ChunkHandle| {
            let (group, index, slot) = place_of(*handle);
            Some((self.groups.get(&group)?[index].as_ref()?, slot))
        };
        let pages: Vec<(&Page, Slot)> = handles.iter().filter_map(page).collect();
        let touch = |what: fn(&Page, Slot) -> u8| {
            let bytes = pages.iter().map(|(page, slot)| what(page, *slot));
            black_box(bytes.fold(0, |sum, byte| sum ^ byte));
        };
        touch(Page::touch_sizes);
        touch(Page::touch_entry);
    }

    /// The page that a chunk is to come to, a new one where there is none; `version` is the
    /// chunk's.
    ///
    /// Something must be put there (PG1).
    pub(super) fn page_of(&mut self, handle: ChunkHandle, version: ChunkVersion) -> &mut Page {
        let (group, index, _) = place_of(handle);
        let group = self.groups.entry(group).or_insert_with(|| Box::new([const { None }; PAGES]));
        group[index].get_or_insert_with(|| Page::new(version))
    }

    /// Forgets a chunk.
    pub(super) fn remove(&mut self, handle: ChunkHandle) {
        let (number, index, slot) = place_of(handle);
        let page = self.groups.get_mut(&number).and_then(|group| group[index].as_mut());
        let Some(page) = page else { unreachable!("only a chunk that is there is forgotten") };
        page.remove(slot);
        let group = self.groups.get_mut(&number).expect("its page was there just now");
        if drop_empty(group) {
            self.groups.remove(&number);
        }
    }

    /// Looks at the page of a chunk, or the first after it: the page's first handle, and the page.
    pub(super) fn page_from(&self, handle: ChunkHandle) -> Option<(ChunkHandle, &Page)> {
        let (first, index, _) = place_of(handle);
        self.groups.range(first..).find_map(|(number, group)| {
            let from = if *number == first { index } else { 0 };
            let pages = group.iter().enumerate().skip(from);
            pages.filter_map(|(at, page)| Some((at, page.as_ref()?))).next().map(|(at, page)| {
                let page_number = number.0 * PAGES as u64 + at as u64;
                (ChunkHandle::new(page_number * u64::from(HANDLES)), page)
            })
        })
    }

    /// The chunk table has it no more; it is not here.
    pub(super) fn unlist(&mut self, handle: ChunkHandle) {
        let (group, index, slot) = place_of(handle);
        // Where there is no page, nothing is listed.
        if let Some(page) = self.groups.get_mut(&group).and_then(|group| group[index].as_mut()) {
            page.unlist(slot);
        }
    }

    /// Bytes of memory, but for what the allocator adds.
    #[cfg(test)]
    pub(super) fn memory_size(&self) -> usize {
        let pages = self.groups.values().flat_map(|group| group.iter().flatten());
        self.groups.len() * size_of::<[Option<Page>; PAGES]>()
            + pages.map(Page::bytes_size).sum::<usize>()
    }

    /// Removes servers from the entries of so many groups from one on, and entries that have none
    /// left; tells of each one. Answers where to go on, from the start after the last.
    pub(super) fn retain(
        &mut self,
        (from, count): (GroupNumber, usize),
        stays: impl Fn(ServerNumber) -> bool,
        removed: &mut Vec<ServerNumber>,
    ) -> GroupNumber {
        let mut empty = Vec::new();
        let mut groups = self.groups.range_mut(from..);
        for (number, group) in groups.by_ref().take(count) {
            group.iter_mut().flatten().for_each(|page| page.retain(&stays, removed));
            if drop_empty(group) {
                empty.push(*number);
            }
        }
        let next = groups.next().map(|(number, _)| *number).unwrap_or_default();
        empty.into_iter().for_each(|number| {
            self.groups.remove(&number);
        });
        next
    }
}

/// Drops a group's pages that are empty; tells whether none is left (PG1).
fn drop_empty(group: &mut Group) -> bool {
    for page in group.iter_mut() {
        if page.as_ref().is_some_and(Page::is_empty) {
            *page = None;
        }
    }
    group.iter().all(Option::is_none)
}
