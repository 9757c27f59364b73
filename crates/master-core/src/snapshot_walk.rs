//! A walk through a tree that is being copied: slice by slice, directories before what is in them.
//!
//! - WK1: the tree is the same from the first slice to the last (SW1).
//! - WK2: no path of the copy is longer than a request can name.
//! - WK3: a file takes as many slices as it has chunks at most, however many of its places are
//!   holes.

use crate::applied::StreamCopied;
use crate::numbers::TermNumbers;
use crate::record::{CopiedAnew, CopiedEntry};
use crate::state::{COPIED_MAX, EntryRecord, HIDDEN_ROOT, State};
use cairn_protocol::{ErrorCode, Failure};
use cairn_types::{ChunkIndex, EntryId, EntryKind, Layout, PATH_SIZE_MAX};
use std::collections::VecDeque;

/// Names and places of a slice: a look-up waits for one slice at most, for the driver takes
/// requests between two. Fewer cost more each.
const SLICE_MAX: u64 = 48;
/// And of one behind the first [`LARGE`] names: whoever makes one in a tree that is so large has
/// waited for some time, and a look-up can spare a few tenths of a millisecond.
const SLICE_MAX_OF_LARGE: u64 = 192;
/// Names from which on a tree is large.
const LARGE: u64 = 120_000;
const _: () = assert!(SLICE_MAX_OF_LARGE <= COPIED_MAX, "every slice is taken");

/// A directory whose names are to be copied.
#[derive(Debug)]
struct DirectoryToCopy {
    source: EntryId,
    copy: EntryId,
    /// Bytes of the copy's path.
    path_size: usize,
    /// Names up to this one are.
    after: String,
}

/// A file with more places than go into a slice.
#[derive(Debug)]
struct FileToCopy {
    /// Places from its `first` on are left.
    entry: CopiedEntry,
    /// Behind the last place.
    end: u64,
}

/// A stream that is copied, and how far it is.
#[derive(Clone, Debug, Default)]
pub(crate) struct StreamToCopy {
    pub(crate) source: EntryId,
    pub(crate) copy: EntryId,
    pub(crate) from: u64,
    pub(crate) after: String,
}

/// How far the walk is.
#[derive(Debug)]
pub(crate) struct SnapshotWalk {
    source: EntryId,
    path_size: usize,
    /// Of a file that is copied alone.
    anew: Option<CopiedAnew>,
    top: Option<EntryId>,
    directories: VecDeque<DirectoryToCopy>,
    file: Option<FileToCopy>,
    /// Streams with their copies, whose extents and producers come after all names.
    streams: Vec<StreamToCopy>,
    failure: Option<Failure>,
}

impl SnapshotWalk {
    /// Of a tree whose copy will have a path of so many bytes.
    pub(crate) fn new(source: EntryId, path_size: usize, anew: Option<CopiedAnew>) -> Self {
        let (top, directories, file, streams, failure) = Default::default();
        Self { source, path_size, anew, top, directories, file, streams, failure }
    }

    /// The top of the copy; none before the first slice.
    pub(crate) fn top(&self) -> Option<EntryId> {
        self.top
    }

    /// The stream that is copied next, once all names are.
    pub(crate) fn next_stream(&self) -> Option<&StreamToCopy> {
        self.streams.last()
    }

    /// A slice of that is copied.
    pub(crate) fn copied(&mut self, copied: &StreamCopied) {
        match self.streams.last_mut().filter(|_| !copied.whole) {
            Some(stream) => (stream.from, stream.after) = (copied.from, copied.after.clone()),
            None => drop(self.streams.pop()),
        }
    }

    /// A slice came to nothing.
    pub(crate) fn fail(&mut self, failure: Failure) {
        self.failure.get_or_insert(failure);
    }

    /// Why the copy comes to nothing.
    pub(crate) fn failure(&self) -> Option<Failure> {
        self.failure.clone()
    }

    /// The next names and places, behind so many; none: all are copied. The top is called so.
    pub(crate) fn next_slice(
        &mut self,
        (state, numbers): (&State, &mut TermNumbers),
        name: &str,
        copied: u64,
    ) -> Result<Vec<CopiedEntry>, Failure> {
        let most = if copied < LARGE { SLICE_MAX } else { SLICE_MAX_OF_LARGE };
        let (mut slice, mut left) = (Vec::new(), most);
        if self.top.is_none() {
            let top = numbers.entry();
            self.top = Some(top);
            let entry = CopiedEntry {
                source: self.source,
                id: top,
                parent: HIDDEN_ROOT,
                name: name.to_owned(),
                anew: self.anew.clone(),
                ..CopiedEntry::default()
            };
            let found = state.entry(self.source);
            self.take((state, found), (entry, self.path_size), &mut slice, &mut left)?;
        }
        while left > 0 {
            if let Some(file) = self.file.take() {
                self.take_places(state, file, &mut slice, &mut left);
            } else if let Some(directory) = self.directories.pop_front() {
                self.take_names((state, numbers), directory, &mut slice, &mut left)?;
            } else {
                break;
            }
        }
        assert!(slice.len() as u64 <= most, "a slice is small (SW2)");
        Ok(slice)
    }

    /// Names of a directory, as many as there is room for.
    fn take_names(
        &mut self,
        (state, numbers): (&State, &mut TermNumbers),
        mut directory: DirectoryToCopy,
        slice: &mut Vec<CopiedEntry>,
        left: &mut u64,
    ) -> Result<(), Failure> {
        let after = std::mem::take(&mut directory.after);
        let room = usize::try_from(*left).unwrap_or(usize::MAX);
        let names: Vec<_> = state.children(directory.source, &after).take(room).collect();
        let is_last = names.len() < room;
        let ids: Vec<EntryId> = names.iter().map(|(_, source, _)| *source).collect();
        for ((name, source, _), found) in names.into_iter().zip(state.entry_each(&ids)) {
            if *left == 0 || self.file.is_some() {
                self.directories.push_front(directory);
                return Ok(());
            }
            let path_size = directory.path_size + 1 + name.len();
            if path_size > PATH_SIZE_MAX {
                let line = format!(
                    "{name}: its path would have {path_size} bytes in the snapshot; the limit is \
                     {PATH_SIZE_MAX}"
                );
                return Err(Failure::refused(ErrorCode::Invalid, line));
            }
            directory.after.clone_from(&name);
            let (id, parent) = (numbers.entry(), directory.copy);
            let entry = CopiedEntry { source, id, parent, name, ..CopiedEntry::default() };
            self.take((state, found), (entry, path_size), slice, left)?;
        }
        if !is_last {
            self.directories.push_front(directory);
        }
        Ok(())
    }

    fn take(
        &mut self,
        (state, source): (&State, Option<EntryRecord>),
        (entry, path_size): (CopiedEntry, usize),
        slice: &mut Vec<CopiedEntry>,
        left: &mut u64,
    ) -> Result<(), Failure> {
        // Nothing is known of what is damaged, which was noted: a copy would lack it.
        let Some(source) = source else {
            let (name, id) = (&entry.name, entry.source.short());
            let line = format!(
                "{name}: the master cannot read its record of entry {id}; nothing has changed"
            );
            return Err(Failure::refused(ErrorCode::Io, line));
        };
        if source.kind == EntryKind::Directory {
            let (source, copy, after) = (entry.source, entry.id, String::new());
            self.directories.push_back(DirectoryToCopy { source, copy, path_size, after });
            slice.push(entry);
            *left = left.saturating_sub(1);
            return Ok(());
        }
        if source.layout == Layout::Stream {
            let (source, copy) = (entry.source, entry.id);
            self.streams.push(StreamToCopy { source, copy, ..StreamToCopy::default() });
        }
        let file = FileToCopy { entry, end: source.chunk_count };
        self.take_places(state, file, slice, left);
        Ok(())
    }

    /// Places of a file, as many as there is room for: holes beyond what goes into a slice are
    /// passed over (WK3).
    fn take_places(
        &mut self,
        state: &State,
        file: FileToCopy,
        slice: &mut Vec<CopiedEntry>,
        left: &mut u64,
    ) {
        let FileToCopy { entry, end } = file;
        let first = entry.first.get();
        if *left < 2 && first < end {
            // It would be made without any of its places, and once more then.
            *left = 0;
            self.file = Some(FileToCopy { entry, end });
            return;
        }
        *left = left.saturating_sub(1);
        let count = end.saturating_sub(first).min(*left);
        *left -= count;
        slice.push(CopiedEntry { count, ..entry.clone() });
        if first + count >= end {
            return;
        }
        let next = state
            .places(entry.source, ChunkIndex::new(first + count))
            .next()
            .map(|(index, _)| index);
        if let Some(first) = next.filter(|next| next.get() < end) {
            let entry = CopiedEntry { first, anew: None, ..entry };
            self.file = Some(FileToCopy { entry, end });
        }
    }
}

#[cfg(test)]
mod tests {
    use super::{LARGE, SLICE_MAX, SLICE_MAX_OF_LARGE, SnapshotWalk};
    use crate::numbers::TermNumbers;
    use crate::record::{AddFile, Record};
    use crate::state::{ROOT, State};
    use cairn_protocol::ErrorCode;
    use cairn_types::{EntryId, LogIndex, MutationName, MutationNumber, SessionId, Term};

    #[test]
    fn the_slices_of_a_large_tree_are_larger_behind_its_first_names() {
        let (mut state, term) = (State::default(), Term::new(1));
        for number in 1..=500 {
            let (name, id) = (number.to_string(), EntryId::of(term, 10 + number));
            let mutation =
                MutationName { session: SessionId::new(1), number: MutationNumber::new(number) };
            let add = AddFile { mutation, parent: ROOT, name, id, ..AddFile::default() };
            state.apply(LogIndex::new(number), term, &Record::from(add));
        }
        let (mut walk, mut numbers) = (SnapshotWalk::new(ROOT, 2, None), TermNumbers::new(term));
        let mut taken = |copied| {
            let slice = walk.next_slice((&state, &mut numbers), "s", copied).expect("names");
            slice.len() as u64
        };
        let sizes = [0, LARGE - 1, LARGE, LARGE + 1, u64::MAX].map(&mut taken);
        let (small, large) = (SLICE_MAX, SLICE_MAX_OF_LARGE);
        assert_eq!(sizes, [small, small, large, large, 501 - 2 * (small + large)]);
        assert_eq!(taken(u64::MAX), 0, "all are copied");
    }

    #[test]
    fn a_record_that_cannot_be_read_is_told_and_no_copy_is_made_without_it() {
        let (state, source) = (State::default(), EntryId::of(Term::new(1), 7));
        let mut walk = SnapshotWalk::new(source, 2, None);
        let mut numbers = TermNumbers::new(Term::new(1));
        let failure =
            walk.next_slice((&state, &mut numbers), "s", 0).expect_err("nothing is known");
        assert_eq!(failure.code, ErrorCode::Io);
        let line = "s: the master cannot read its record of entry 1-7; nothing has changed";
        assert_eq!(failure.message, line);
    }
}
