//! The files of a disk, and how many pages they take.
//!
//! - FT1: the sum is that of all files that have a name, at every moment: whoever changes a file
//!   does it through this room. Each page that is written asks for it.

use super::inode::{Inode, InodeNumber, Kept};
use std::collections::BTreeSet;

/// All files.
#[derive(Clone, Debug, Default)]
pub(super) struct FileTable {
    /// By number, which count up and are used once: a file is looked for with each read and write.
    files: Vec<Option<Box<Inode>>>,
    used_pages: u64,
}

fn used_by(inode: &Inode) -> u64 {
    if inode.unlinked { 0 } else { inode.footprint() }
}

fn place_of(number: InodeNumber) -> usize {
    usize::try_from(number).expect("a simulated disk fits into memory")
}

impl FileTable {
    /// Pages that all of them take.
    pub(super) fn used_pages(&self) -> u64 {
        self.used_pages
    }

    pub(super) fn get(&self, number: InodeNumber) -> Option<&Inode> {
        self.files.get(place_of(number))?.as_deref()
    }

    /// The highest number of a file.
    pub(super) fn last(&self) -> InodeNumber {
        self.files.iter().rposition(Option::is_some).map_or(0, |at| at as InodeNumber)
    }

    /// Adds an empty file.
    pub(super) fn add(&mut self, number: InodeNumber) {
        let place = place_of(number);
        self.files.resize_with(self.files.len().max(place + 1), Option::default);
        let other = self.files[place].replace(Box::default());
        assert!(other.is_none(), "a file's number is its own");
    }

    /// Changes a file, if it is there.
    pub(super) fn change<T>(
        &mut self,
        number: InodeNumber,
        change: impl FnOnce(&mut Inode) -> T,
    ) -> Option<T> {
        let inode = self.files.get_mut(place_of(number))?.as_deref_mut()?;
        let before = used_by(inode);
        let result = change(inode);
        // FT1
        self.used_pages = self.used_pages - before + used_by(inode);
        Some(result)
    }

    /// Whatever is in the page cache is on the disk.
    pub(super) fn write_back(&mut self) {
        self.files.iter_mut().flatten().for_each(|inode| inode.write_back());
    }

    /// Keeps of each unsynced change of each file what `kept` says.
    pub(super) fn lose_unsynced(&mut self, kept: &mut dyn FnMut() -> Kept) {
        self.files.iter_mut().flatten().for_each(|inode| inode.lose_unsynced(kept));
        self.count();
    }

    /// Forgets those that are not to be reached any more; those that are not named are unlinked.
    pub(super) fn keep(
        &mut self,
        reachable: &BTreeSet<InodeNumber>,
        named: &BTreeSet<InodeNumber>,
    ) {
        for (at, slot) in self.files.iter_mut().enumerate() {
            let number = at as InodeNumber;
            if !reachable.contains(&number) {
                *slot = None;
            } else if let Some(inode) = slot {
                inode.unlinked = !named.contains(&number);
            }
        }
        self.count();
    }

    fn count(&mut self) {
        self.used_pages = self.files.iter().flatten().map(|inode| used_by(inode)).sum();
    }
}

#[cfg(test)]
mod tests {
    use super::FileTable;
    use crate::disk::inode::{Kept, PAGE_SIZE};

    #[test]
    fn the_sum_follows_each_change_of_a_file() {
        let mut table = FileTable::default();
        table.add(1);
        table.add(2);
        let page = PAGE_SIZE as u64;
        table.change(1, |inode| inode.write_in_page(b"a", 3 * page)).expect("added");
        table.change(2, |inode| inode.allocate(2 * page)).expect("added");
        assert_eq!(table.used_pages(), 3);
        table.change(1, |inode| inode.write_in_page(b"b", 0)).expect("added");
        table.change(2, |inode| inode.set_size(page)).expect("added");
        assert_eq!(table.used_pages(), 3);
        table.change(1, |inode| inode.unlinked = true).expect("added");
        assert_eq!((table.used_pages(), table.last()), (1, 2));
        table.keep(&[1, 2].into(), &[1, 2].into());
        assert_eq!(table.used_pages(), 3, "it has a name again");
        table.lose_unsynced(&mut || Kept::Nothing);
        assert_eq!(table.used_pages(), 1, "what is reserved stays so");
        table.keep(&[1].into(), &[1].into());
        assert_eq!((table.used_pages(), table.last()), (0, 1));
    }
}
