//! The files of the directory: which are new, renamed, gone, and which of them are open.
//!
//! ```text
//!   Unlooked ── how far is it shipped? ──► Closed { offset } ◄───── room for others ─┐
//!      ▲  └─► Ignored                         └─── a place is free, and ──► Open { offset }
//!      └────── shrank, or made anew ──────────┘    there is more to read      └─► forgotten
//!      └─► Barred: another device's file has that inode, until it is gone
//! ```
//! - ST1: a file is the same under whatever name: a renamed one is read to its end, also where its
//!   new name is none of those that are asked for.
//! - ST2: no more files are open at once than may be. One that is quiet makes room, once all that
//!   was read of it is committed; whoever waits is told of. What is neither open nor held by the
//!   directory (LD4) and vanishes with unread bytes is told of too.
//! - ST3: an open file that vanished is finished once nothing came for a while, and all that was
//!   read of it is committed. Nobody can open it again, so that it makes no room before. When
//!   shipping ends, it is read to its end too, and who may still write to it is not waited for.
//! - ST4: once means: as far as each file went when it was first seen, and no file of later.
//! - ST5: of files that have one inode's number, on several devices, one is shipped for as long as
//!   it is there: the producer is known by the inode, and says how far one file is.
//!
//! Knows names, numbers and the time it is handed. Never sees a disk or a cell.

use super::source_cursor::{FileKey, FileSeen};
use std::collections::BTreeMap;

/// How long a file that vanished is read on: who wrote to it may have it open.
const FAREWELL_MS: u64 = 2_000;
/// How long an open file is quiet before it makes room for another.
const QUIET_MS: u64 = 5_000;

/// A file of the directory, as it was just found.
#[derive(Clone, Debug)]
pub(super) struct ListedFile {
    pub(super) seen: FileSeen,
    /// It has a name that is asked for.
    pub(super) is_wanted: bool,
    /// It is there no more, and held (LD4).
    pub(super) is_gone: bool,
}

/// What a look at the directory has shown that a person may want to know.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum SourceNews {
    Renamed {
        from: String,
        to: String,
    },
    /// It is gone, and was not read to its end.
    Lost {
        name: String,
        unread: u64,
    },
    /// Two files have one inode's number, on two devices: a producer is known by it (ST5).
    InodeTwice {
        name: String,
        other: String,
    },
    /// The other one is gone.
    InodeFree {
        name: String,
    },
}

/// What to do about open files.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct SlotChange {
    pub(super) close: Vec<FileKey>,
    pub(super) open: Vec<FileKey>,
    /// So many have something to read, and no place.
    pub(super) waiting: usize,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum SourceState {
    Unlooked {
        not_before_ms: u64,
    },
    Ignored,
    /// Another file has its inode's number, on another device (ST5).
    Barred,
    /// What lies between is the beginning of a line.
    Closed {
        offset: u64,
        read: u64,
    },
    Open {
        offset: u64,
        active_ms: u64,
        /// What was read is not known to be committed; after a failure it may be read once more.
        is_busy: bool,
    },
}

#[derive(Debug)]
struct SourceEntry {
    seen: FileSeen,
    is_wanted: bool,
    is_gone: bool,
    /// It is gone, and can be opened all the same (LD4).
    is_held: bool,
    /// Not to be read beyond (ST4).
    limit: u64,
    state: SourceState,
}

impl SourceEntry {
    /// Where reading ends as of now.
    fn end(&self) -> u64 {
        self.seen.size.min(self.limit)
    }

    fn unread(&self) -> u64 {
        match self.state {
            SourceState::Unlooked { .. } if self.is_wanted => self.end(),
            SourceState::Unlooked { .. } | SourceState::Ignored | SourceState::Barred => 0,
            SourceState::Closed { read, .. } => self.end().saturating_sub(read),
            SourceState::Open { offset, .. } => self.end().saturating_sub(offset),
        }
    }

    /// Bytes that are lost where it goes, and is not open.
    fn unshipped(&self) -> u64 {
        match self.state {
            SourceState::Closed { offset, .. } => self.end().saturating_sub(offset),
            _ => self.unread(),
        }
    }

    /// Tells of what is lost with it, if anything.
    fn tell_lost(&self, news: &mut Vec<SourceNews>) {
        if self.unshipped() > 0 {
            let (name, unread) = (self.seen.name.clone(), self.unshipped());
            news.push(SourceNews::Lost { name, unread });
        }
    }

    fn is_open(&self) -> bool {
        matches!(self.state, SourceState::Open { .. })
    }

    /// How much it has to do with its inode's producer: the least has it (ST5); none: nothing.
    fn claim(&self) -> Option<u8> {
        match self.state {
            // A wanted one that is ignored has failed, and may have begun to be shipped.
            SourceState::Ignored => self.is_wanted.then_some(0),
            SourceState::Closed { .. } | SourceState::Open { .. } => Some(0),
            SourceState::Unlooked { .. } => Some(if self.is_wanted { 1 } else { 2 }),
            SourceState::Barred => Some(if self.is_wanted { 3 } else { 4 }),
        }
    }
}

/// All files that are followed.
#[derive(Debug)]
pub(super) struct SourceTable {
    sources: BTreeMap<FileKey, SourceEntry>,
    open_max: usize,
    is_once: bool,
    was_listed: bool,
    is_ending: bool,
}

impl SourceTable {
    pub(super) fn new(open_max: usize, is_once: bool) -> Self {
        Self { sources: BTreeMap::new(), open_max, is_once, was_listed: false, is_ending: false }
    }

    /// Takes in what the directory has now.
    pub(super) fn listed(&mut self, all: Vec<ListedFile>) -> Vec<SourceNews> {
        let mut news = Vec::new();
        for source in self.sources.values_mut() {
            (source.is_gone, source.is_held) = (true, false);
        }
        for file in all {
            self.take_in(file, &mut news);
        }
        self.sources.retain(|_, source| {
            let goes = source.is_gone && !source.is_open() && !source.is_held;
            if goes {
                source.tell_lost(&mut news);
            }
            !goes
        });
        self.share_inodes(&mut news);
        self.was_listed = true;
        news
    }

    /// Which of the files with one inode's number is shipped (ST5).
    fn share_inodes(&mut self, news: &mut Vec<SourceNews>) {
        let mut claims: BTreeMap<u64, Vec<(u8, FileKey)>> = BTreeMap::new();
        for (key, source) in &self.sources {
            if let Some(claim) = source.claim() {
                claims.entry(key.inode).or_default().push((claim, *key));
            }
        }
        for mut group in claims.into_values() {
            group.sort_unstable();
            let (_, holder) = group.remove(0);
            let Some(has_it) = self.sources.get_mut(&holder) else { continue };
            let other = has_it.seen.name.clone();
            if has_it.state == SourceState::Barred {
                has_it.state = SourceState::Unlooked { not_before_ms: 0 };
                if has_it.is_wanted {
                    news.push(SourceNews::InodeFree { name: other.clone() });
                }
            }
            for (_, key) in group {
                let Some(source) = self.sources.get_mut(&key) else { continue };
                if source.state != SourceState::Barred {
                    source.state = SourceState::Barred;
                    if source.is_wanted {
                        let (name, other) = (source.seen.name.clone(), other.clone());
                        news.push(SourceNews::InodeTwice { name, other });
                    }
                }
            }
        }
    }

    /// Whether a file is not shipped because another has its inode's number (ST5).
    pub(super) fn is_barred(&self, key: FileKey) -> bool {
        self.sources.get(&key).is_some_and(|source| source.state == SourceState::Barred)
    }

    /// The stream says that it is the file `owner` that is shipped under this one's inode: where
    /// that is there, it is (ST5). What is to be told then; none: it is not there.
    pub(super) fn yield_to(&mut self, key: FileKey, owner: FileKey) -> Option<SourceNews> {
        let owner = self.sources.get_mut(&owner).filter(|it| it.state == SourceState::Barred)?;
        owner.state = SourceState::Unlooked { not_before_ms: 0 };
        let other = owner.seen.name.clone();
        self.set_state(key, SourceState::Barred);
        Some(SourceNews::InodeTwice { name: self.name(key), other })
    }

    fn take_in(&mut self, file: ListedFile, news: &mut Vec<SourceNews>) {
        let ListedFile { seen, is_wanted, is_gone } = file;
        let key = seen.key;
        let Some(source) = self.sources.get_mut(&key) else {
            if !(self.is_once && self.was_listed) {
                self.add(seen, is_wanted, is_gone);
            }
            return;
        };
        if is_gone {
            source.is_held = true;
            source.seen.size = seen.size;
            return;
        }
        // One file with several names is one source, and asked for by any of them.
        if !source.is_gone {
            source.is_wanted |= is_wanted;
            return;
        }
        source.is_gone = false;
        if source.state == SourceState::Barred {
            (source.seen, source.is_wanted) = (seen, is_wanted);
            return;
        }
        if !source.is_open() && seen.born != source.seen.born {
            source.tell_lost(news);
            (source.seen, source.is_wanted) = (seen, is_wanted);
            source.state = SourceState::Unlooked { not_before_ms: 0 };
            return;
        }
        let is_ignored = source.state == SourceState::Ignored;
        if seen.name != source.seen.name && !is_ignored {
            let (from, to) = (source.seen.name.clone(), seen.name.clone());
            news.push(SourceNews::Renamed { from, to });
        }
        // One that was none of ours may have been given a name that is asked for.
        let is_asked_for_now = is_wanted && !source.is_wanted;
        let shrank =
            matches!(source.state, SourceState::Closed { offset, .. } if seen.size < offset);
        if shrank || is_ignored && is_asked_for_now {
            source.state = SourceState::Unlooked { not_before_ms: 0 };
        }
        source.is_wanted = is_wanted;
        source.seen = seen;
    }

    fn add(&mut self, seen: FileSeen, is_wanted: bool, is_gone: bool) {
        let limit = if self.is_once { seen.size } else { u64::MAX };
        let (key, state) = (seen.key, SourceState::Unlooked { not_before_ms: 0 });
        let source = SourceEntry { seen, is_wanted, is_gone, is_held: is_gone, limit, state };
        self.sources.insert(key, source);
    }

    /// A file of which it is not known how far it is shipped, and whether it is asked for.
    pub(super) fn to_look_at(&self, now_ms: u64) -> Option<(FileSeen, bool)> {
        let is_due = |state| match state {
            SourceState::Unlooked { not_before_ms } => not_before_ms <= now_ms,
            _ => false,
        };
        let found = self.sources.values().find(|source| is_due(source.state));
        found.map(|source| (source.seen.clone(), source.is_wanted))
    }

    /// It goes on at that offset; without one it is none of ours.
    pub(super) fn looked(&mut self, key: FileKey, offset: Option<u64>) {
        let closed = |offset| SourceState::Closed { offset, read: offset };
        let state = offset.map_or(SourceState::Ignored, closed);
        self.set_state(key, state);
    }

    /// It could not be looked at, or not be opened: again, after a time.
    pub(super) fn look_later(&mut self, key: FileKey, not_before_ms: u64) {
        self.set_state(key, SourceState::Unlooked { not_before_ms });
    }

    fn set_state(&mut self, key: FileKey, state: SourceState) {
        if let Some(source) = self.sources.get_mut(&key) {
            source.state = state;
        }
    }

    /// Who is opened and closed now (ST2).
    pub(super) fn change_slots(&mut self, now_ms: u64) -> SlotChange {
        let mut change = SlotChange::default();
        let open = self.sources.values().filter(|source| source.is_open()).count();
        let closed = |source: &&SourceEntry| matches!(source.state, SourceState::Closed { .. });
        let mut wanting: Vec<FileKey> = Vec::new();
        let mut quiet: Vec<FileKey> = Vec::new();
        let may_open = |source: &&SourceEntry| source.is_gone || !self.is_ending;
        for source in self.sources.values().filter(closed).filter(may_open) {
            let list = if source.unread() > 0 { &mut wanting } else { &mut quiet };
            list.push(source.seen.key);
        }
        // What is held takes a descriptor already (LD4), and nobody can open it again.
        wanting.sort_by_key(|key| self.sources.get(key).is_some_and(|it| !it.is_held));
        let mut free = self.open_max.saturating_sub(open);
        if wanting.len() > free {
            change.close = self.quiet_open(now_ms, wanting.len() - free);
            free += change.close.len();
        }
        change.waiting = wanting.len().saturating_sub(free);
        // What is open stays readable when it is removed; so the quiet ones are opened too.
        if !self.is_once {
            wanting.append(&mut quiet);
        }
        wanting.truncate(free);
        change.open = wanting;
        change
    }

    /// Open files that make room, the longest quiet first.
    fn quiet_open(&self, now_ms: u64, count: usize) -> Vec<FileKey> {
        let since = |source: &SourceEntry| match source.state {
            SourceState::Open { active_ms, is_busy: false, .. }
                if !source.is_gone
                    && source.unread() == 0
                    && active_ms.saturating_add(QUIET_MS) <= now_ms =>
            {
                Some((active_ms, source.seen.key))
            }
            _ => None,
        };
        let mut all: Vec<_> = self.sources.values().filter_map(since).collect();
        all.sort_unstable();
        all.into_iter().take(count).map(|(_, key)| key).collect()
    }

    /// It is open, and goes on at that offset.
    pub(super) fn opened(&mut self, key: FileKey, now_ms: u64) {
        let offset = self.offset(key);
        self.set_state(key, SourceState::Open { offset, active_ms: now_ms, is_busy: false });
    }

    /// It is open no more: what comes is read by another opening, as are its last `waiting` bytes,
    /// which are no whole line.
    pub(super) fn closed(&mut self, key: FileKey, waiting: u64) {
        let read = self.offset(key);
        self.set_state(key, SourceState::Closed { offset: read.saturating_sub(waiting), read });
    }

    /// Where it goes on.
    pub(super) fn offset(&self, key: FileKey) -> u64 {
        match self.sources.get(&key).map(|source| source.state) {
            Some(SourceState::Closed { offset, .. } | SourceState::Open { offset, .. }) => offset,
            _ => 0,
        }
    }

    /// An open file was read up to `offset` of `size`; `is_busy` where anything is under way.
    pub(super) fn was_read(
        &mut self,
        key: FileKey,
        (offset, size): (u64, u64),
        is_busy: bool,
        now_ms: u64,
    ) {
        let Some(source) = self.sources.get_mut(&key) else { return };
        let SourceState::Open { offset: before, active_ms, is_busy: was_busy } = &mut source.state
        else {
            return;
        };
        if is_busy || *before != offset {
            *active_ms = now_ms;
        }
        (*before, *was_busy) = (offset, is_busy);
        source.seen.size = size;
        // Of what was cut away nothing will come (ST4).
        if self.is_once {
            source.limit = source.limit.min(size);
        }
    }

    /// The cell did not take what was read of an open file, or may not have it: how far it is read
    /// says nothing until a turn of it goes well.
    pub(super) fn failed(&mut self, key: FileKey) {
        let source = self.sources.get_mut(&key);
        if let Some(SourceState::Open { is_busy, .. }) = source.map(|it| &mut it.state) {
            *is_busy = true;
        }
    }

    /// How far an open file is to be read.
    pub(super) fn limit(&self, key: FileKey) -> u64 {
        self.sources.get(&key).map_or(0, |source| source.limit)
    }

    /// Whether it is there, or open.
    pub(super) fn is_followed(&self, key: FileKey) -> bool {
        self.sources.contains_key(&key)
    }

    /// Whether it was there, and is no more.
    pub(super) fn is_gone(&self, key: FileKey) -> bool {
        self.sources.get(&key).is_some_and(|source| source.is_gone)
    }

    /// Whether it is to be held on where it is (LD4): it has no place yet.
    pub(super) fn is_to_be_held(&self, key: FileKey) -> bool {
        self.sources.get(&key).is_none_or(|source| {
            matches!(source.state, SourceState::Unlooked { .. } | SourceState::Closed { .. })
        })
    }

    /// What is gone and is read to its end all the same: it is open, or held and has something.
    pub(super) fn all_gone(&self) -> Vec<FileKey> {
        let is_left = |it: &&SourceEntry| it.is_gone && (it.is_open() || it.unshipped() > 0);
        let gone = self.sources.values().filter(is_left);
        gone.map(|source| source.seen.key).collect()
    }

    /// What is lost of files that are held, if shipping ends now.
    pub(super) fn lost_if_held(&self) -> Vec<SourceNews> {
        let mut news = Vec::new();
        let held = self.sources.values().filter(|source| source.is_held && !source.is_open());
        held.for_each(|source| source.tell_lost(&mut news));
        news
    }

    /// The name that it has now.
    pub(super) fn name(&self, key: FileKey) -> String {
        self.sources.get(&key).map(|source| source.seen.name.clone()).unwrap_or_default()
    }

    /// Shipping ends: of what is gone, the end is where it is now (ST3), whoever still writes to
    /// it, and nothing else gets a place. `sizes` are those that open files have now.
    pub(super) fn end(&mut self, sizes: &BTreeMap<FileKey, u64>) {
        self.is_ending = true;
        for (key, source) in self.sources.iter_mut().filter(|(_, source)| source.is_gone) {
            source.seen.size = sizes.get(key).copied().unwrap_or(source.seen.size);
            source.limit = source.limit.min(source.seen.size);
        }
    }

    /// Open files that are to be closed for good, and whether each is gone (ST3) or, as it is read
    /// once, at its end.
    pub(super) fn finished(&self, now_ms: u64) -> Vec<(FileKey, bool)> {
        let is_over = |source: &&SourceEntry| match source.state {
            SourceState::Open { active_ms, is_busy, .. } if source.unread() == 0 => {
                let is_silent = self.is_ending || active_ms.saturating_add(FAREWELL_MS) <= now_ms;
                self.is_once || source.is_gone && is_silent && !is_busy
            }
            _ => false,
        };
        let over = self.sources.values().filter(is_over);
        over.map(|source| (source.seen.key, source.is_gone)).collect()
    }

    /// It is closed for good; `is_gone` as in [`finished`](Self::finished).
    pub(super) fn forget(&mut self, key: FileKey, is_gone: bool) {
        if is_gone {
            self.sources.remove(&key);
        } else {
            self.closed(key, 0);
        }
    }

    /// Whether nothing is left to be done once (ST4).
    pub(super) fn is_done(&self) -> bool {
        let is_left = |source: &SourceEntry| match source.state {
            SourceState::Unlooked { .. } | SourceState::Open { .. } => true,
            SourceState::Closed { .. } => source.unread() > 0,
            SourceState::Ignored | SourceState::Barred => false,
        };
        !self.sources.values().any(is_left)
    }
}

#[cfg(test)]
mod tests {
    use super::{FileKey, FileSeen, ListedFile, SlotChange, SourceNews, SourceTable};
    use std::collections::BTreeMap;

    const A: FileKey = FileKey { device: 1, inode: 11 };
    const B: FileKey = FileKey { device: 1, inode: 12 };
    const C: FileKey = FileKey { device: 1, inode: 13 };

    fn file(name: &str, key: FileKey, size: u64) -> ListedFile {
        let seen = FileSeen { key, born: Some(key.inode), size, name: name.to_owned() };
        ListedFile { seen, is_wanted: !name.ends_with(".old"), is_gone: false }
    }

    /// One that is there no more, and held.
    fn held(name: &str, key: FileKey, size: u64) -> ListedFile {
        ListedFile { is_gone: true, ..file(name, key, size) }
    }

    #[test]
    fn what_is_gone_and_held_is_read_to_its_end_and_once_it_is_held_no_more_its_rest_is_lost() {
        let mut table = SourceTable::new(4, false);
        assert_eq!(table.listed(vec![held("a", A, 5), file("b", B, 7)]), []);
        assert!(table.is_to_be_held(A) && table.is_to_be_held(C), "nothing is known of it yet");
        let lost = |name: &str, unread| SourceNews::Lost { name: name.to_owned(), unread };
        assert_eq!(table.lost_if_held(), [lost("a", 5)]);
        assert_eq!(open_all(&mut table, 0).open, [A, B]);
        assert!(!table.is_to_be_held(A) && table.lost_if_held().is_empty());
        assert_eq!(table.listed(vec![file("b", B, 7)]), [], "it is open");
        assert_eq!(table.all_gone(), [A]);
        table.was_read(A, (5, 5), false, 0);
        assert_eq!(table.finished(10_000), [(A, true)]);
        table.forget(A, true);
        assert_eq!(table.listed(vec![file("b", B, 7), held("c", C, 0)]), []);
        assert_eq!(table.all_gone(), [], "there is nothing to be read");
        assert_eq!(table.listed(vec![file("b", B, 7), held("c", C, 3)]), []);
        assert_eq!(table.all_gone(), [C]);
        assert_eq!(table.listed(vec![file("b", B, 7)]), [lost("c", 3)]);
    }

    #[test]
    fn what_is_gone_and_held_has_a_place_before_others_and_ends_where_it_is_when_shipping_ends() {
        let mut table = SourceTable::new(1, false);
        assert_eq!(table.listed(vec![file("a", A, 7), held("b", B, 5)]), []);
        assert_eq!(open_all(&mut table, 0).open, [B], "nobody can open it again");
        table.end(&BTreeMap::from([(B, 6)]));
        assert_eq!(table.limit(B), 6);
        // Who still writes to it is not waited for (ST3).
        table.was_read(B, (6, 9), false, 0);
        assert_eq!(table.finished(0), [(B, true)]);
        table.forget(B, true);
        assert_eq!(table.change_slots(0).open, [], "it is there for the next run");
    }

    /// Looks at all that is new: nothing of it is shipped.
    fn look_at_all(table: &mut SourceTable, now_ms: u64) {
        while let Some((seen, is_wanted)) = table.to_look_at(now_ms) {
            table.looked(seen.key, is_wanted.then_some(0));
        }
    }

    fn open_all(table: &mut SourceTable, now_ms: u64) -> SlotChange {
        look_at_all(table, now_ms);
        let change = table.change_slots(now_ms);
        change.close.iter().for_each(|key| table.closed(*key, 0));
        change.open.iter().for_each(|key| table.opened(*key, now_ms));
        change
    }

    fn read(table: &mut SourceTable, key: FileKey, size: u64, now_ms: u64) {
        table.was_read(key, (size, size), false, now_ms);
    }

    fn renamed(from: &str, to: &str) -> SourceNews {
        SourceNews::Renamed { from: from.to_owned(), to: to.to_owned() }
    }

    #[test]
    fn a_rotated_file_is_the_same_under_any_name_and_the_new_one_is_another() {
        let mut table = SourceTable::new(9, false);
        assert_eq!(table.listed(vec![file("a", A, 4)]), []);
        assert_eq!(open_all(&mut table, 0).open, [A]);
        read(&mut table, A, 4, 0);
        let news = table.listed(vec![file("a", B, 2), file("a.old", A, 6)]);
        assert_eq!(news, [renamed("a", "a.old")]);
        assert_eq!(open_all(&mut table, 1).open, [B]);
        assert_eq!((table.name(A), table.name(B)), ("a.old".to_owned(), "a".to_owned()));
        assert_eq!((table.offset(A), table.limit(A)), (4, u64::MAX), "it is read on");
        assert_eq!(table.finished(100_000), [], "it is there, and may grow");
    }

    #[test]
    fn an_open_file_that_vanished_is_finished_when_nothing_came_for_a_while() {
        let mut table = SourceTable::new(9, false);
        table.listed(vec![file("a", A, 4)]);
        open_all(&mut table, 0);
        assert_eq!(table.listed(vec![]), [], "what is open is not lost");
        assert_eq!(table.finished(9_000), [], "not read to its end");
        table.was_read(A, (4, 5), false, 9_000);
        assert_eq!(table.finished(20_000), [], "it has grown");
        read(&mut table, A, 5, 20_000);
        assert_eq!(table.finished(21_999), []);
        assert_eq!(table.finished(22_000), [(A, true)]);
        // It may come back from where it was moved to.
        table.listed(vec![file("b", A, 5)]);
        assert_eq!(table.finished(22_000), []);
        table.listed(vec![]);
        table.forget(A, true);
        assert_eq!(table.listed(vec![]), []);
        assert!(table.sources.is_empty());
    }

    #[test]
    fn what_is_not_open_and_vanishes_unread_is_told_of() {
        let mut table = SourceTable::new(1, false);
        table.listed(vec![file("a", A, 4), file("b", B, 7), file("c.old", C, 7)]);
        assert_eq!(
            open_all(&mut table, 0),
            SlotChange { open: vec![A], waiting: 1, close: vec![] }
        );
        let lost = |unread| SourceNews::Lost { name: "b".to_owned(), unread };
        assert_eq!(table.listed(vec![file("a", A, 4)]), [lost(7)]);
        // Another file has its inode now.
        table.listed(vec![file("b", B, 7)]);
        look_at_all(&mut table, 0);
        let mut other = file("b", B, 9);
        other.seen.born = Some(99);
        assert_eq!(table.listed(vec![other]), [lost(7)]);
        assert!(table.to_look_at(0).is_some_and(|(seen, _)| seen.size == 9));
    }

    #[test]
    fn a_quiet_file_makes_room_for_one_that_waits_and_comes_back_when_it_grows() {
        let mut table = SourceTable::new(2, false);
        let all = |a, b, c| vec![file("a", A, a), file("b", B, b), file("c", C, c)];
        table.listed(all(4, 4, 4));
        assert_eq!(
            open_all(&mut table, 0),
            SlotChange { open: vec![A, B], waiting: 1, close: vec![] }
        );
        read(&mut table, A, 4, 1_000);
        assert_eq!(open_all(&mut table, 5_999).waiting, 1, "not quiet for long enough");
        let change = SlotChange { open: vec![C], waiting: 0, close: vec![A] };
        assert_eq!(open_all(&mut table, 6_000), change);
        read(&mut table, B, 4, 6_000);
        read(&mut table, C, 4, 7_000);
        table.listed(all(5, 4, 4));
        assert_eq!(open_all(&mut table, 10_999).waiting, 1);
        assert_eq!(open_all(&mut table, 11_000).close, [B]);
        assert_eq!(table.offset(A), 4, "where it was");
    }

    #[test]
    fn a_file_of_which_not_all_is_committed_keeps_its_place_and_is_not_taken_for_finished() {
        let mut table = SourceTable::new(1, false);
        table.listed(vec![file("a", A, 4), file("b", B, 4)]);
        assert_eq!(open_all(&mut table, 0).open, [A]);
        // All of it was read and sent; then the cell is away, and no turn goes well.
        table.was_read(A, (4, 4), true, 0);
        table.failed(A);
        let waits = SlotChange { open: vec![], waiting: 1, close: vec![] };
        assert_eq!(open_all(&mut table, 60_000), waits);
        table.listed(vec![file("b", B, 4)]);
        assert_eq!((open_all(&mut table, 60_000), table.finished(60_000)), (waits, vec![]));
        // It goes on behind what the stream has, and all is committed in the end.
        table.was_read(A, (2, 4), true, 70_000);
        table.was_read(A, (4, 4), true, 70_000);
        assert_eq!(table.finished(80_000), []);
        read(&mut table, A, 4, 80_000);
        assert_eq!(table.finished(80_000), [(A, true)]);
        // What was quiet for long may have grown since, where no turn of it went well.
        table.forget(A, true);
        assert_eq!(open_all(&mut table, 80_000).open, [B]);
        read(&mut table, B, 4, 80_000);
        table.failed(B);
        table.listed(vec![file("c", C, 4)]);
        assert_eq!((table.finished(99_000), open_all(&mut table, 99_000).close), (vec![], vec![]));
    }

    #[test]
    fn what_is_gone_makes_no_room_before_a_look_at_it_has_shown_that_it_is_finished() {
        let mut table = SourceTable::new(1, false);
        table.listed(vec![file("a", A, 4), file("b", B, 4)]);
        open_all(&mut table, 0);
        read(&mut table, A, 4, 0);
        // Whether it has grown before it went, its next turn tells.
        table.listed(vec![file("b", B, 4)]);
        assert_eq!(open_all(&mut table, 60_000).close, []);
        table.was_read(A, (4, 6), false, 60_000);
        assert_eq!(table.finished(60_000), []);
        read(&mut table, A, 6, 60_000);
        assert_eq!(table.finished(62_000), [(A, true)]);
    }

    #[test]
    fn the_beginning_of_a_line_keeps_no_place_and_is_not_forgotten() {
        let mut table = SourceTable::new(1, false);
        table.listed(vec![file("a", A, 10)]);
        open_all(&mut table, 0);
        read(&mut table, A, 10, 0);
        table.closed(A, 3);
        assert_eq!((table.offset(A), table.change_slots(0).waiting), (7, 0));
        let lost = SourceNews::Lost { name: "a".to_owned(), unread: 3 };
        assert_eq!(table.listed(vec![]), [lost]);
    }

    #[test]
    fn a_closed_file_that_shrank_is_looked_at_anew_and_so_is_one_with_another_name() {
        let mut table = SourceTable::new(1, false);
        table.listed(vec![file("a", A, 10), file("b.old", B, 5)]);
        look_at_all(&mut table, 0);
        table.looked(A, Some(10));
        table.listed(vec![file("a", A, 3), file("b.old", B, 5)]);
        assert_eq!(table.to_look_at(0).map(|(seen, _)| seen.key), Some(A));
        table.look_later(A, 1_000);
        assert_eq!(table.to_look_at(999), None);
        assert!(table.to_look_at(1_000).is_some());
        table.looked(A, Some(0));
        table.listed(vec![file("a", A, 3), file("b", B, 5)]);
        assert_eq!(table.to_look_at(0).map(|(seen, _)| seen.key), Some(B), "asked for by now");
    }

    #[test]
    fn once_is_as_far_as_each_file_went_at_first() {
        let mut table = SourceTable::new(1, true);
        table.listed(vec![file("a", A, 10), file("b", B, 5)]);
        assert_eq!(open_all(&mut table, 0).open, [A]);
        table.was_read(A, (10, 12), true, 0);
        assert_eq!((table.limit(A), table.finished(0)), (10, vec![(A, false)]));
        table.forget(A, false);
        table.listed(vec![file("a", A, 20), file("b", B, 5), file("c", C, 1)]);
        assert_eq!(open_all(&mut table, 0).open, [B], "no file of later");
        assert!(!table.is_done());
        // It was cut short meanwhile.
        table.was_read(B, (2, 2), false, 0);
        assert_eq!(table.finished(0), [(B, false)]);
        table.forget(B, false);
        assert!(table.is_done());
    }

    #[test]
    fn a_file_with_two_names_is_one_and_two_files_with_one_inode_are_not_both_shipped() {
        let mut table = SourceTable::new(9, false);
        table.listed(vec![file("a.old", A, 10), file("b", A, 10)]);
        assert_eq!(open_all(&mut table, 0).open, [A], "asked for by its other name");
        let other = FileKey { device: 2, inode: 11 };
        let news = table.listed(vec![file("a.old", A, 10), file("c", other, 1)]);
        let (name, a) = ("c".to_owned(), "a.old".to_owned());
        assert_eq!(news, [SourceNews::InodeTwice { name, other: a }]);
        assert_eq!(open_all(&mut table, 0).open, []);
    }

    #[test]
    fn of_two_files_with_one_inode_one_is_shipped_and_the_other_once_that_is_gone() {
        let other = FileKey { device: 0, inode: A.inode };
        let twice = |name: &str, other: &str| {
            let (name, other) = (name.to_owned(), other.to_owned());
            [SourceNews::InodeTwice { name, other }]
        };
        let mut table = SourceTable::new(9, false);
        table.listed(vec![file("a", A, 10)]);
        assert_eq!(open_all(&mut table, 0).open, [A]);
        let both = || vec![file("a", A, 10), file("b", other, 20)];
        assert_eq!(table.listed(both()), twice("b", "a"));
        // Told once, also where it grows or is made anew.
        assert_eq!(table.listed(both()), []);
        let mut anew = both();
        anew[1].seen.born = Some(99);
        assert_eq!(table.listed(anew.clone()), []);
        assert_eq!((open_all(&mut table, 1).open, table.is_barred(other)), (vec![], true));
        // It is gone, and is read to its end before the other has its turn.
        let left = vec![anew[1].clone()];
        assert_eq!(table.listed(left.clone()), []);
        read(&mut table, A, 10, 2);
        assert_eq!(table.finished(9_000), [(A, true)]);
        table.forget(A, true);
        let name = "b".to_owned();
        assert_eq!(table.listed(left), [SourceNews::InodeFree { name }]);
        assert_eq!(open_all(&mut table, 9_000).open, [other]);
        // It comes back, and waits for its part.
        assert_eq!(table.listed(both()), twice("a", "b"));
        assert_eq!(open_all(&mut table, 9_001).open, []);
    }

    #[test]
    fn of_two_files_with_one_inode_that_one_is_shipped_of_which_the_stream_has_lines() {
        let other = FileKey { device: 0, inode: A.inode };
        let mut table = SourceTable::new(9, true);
        let news = table.listed(vec![file("a", A, 10), file("b", other, 20)]);
        let (name, b) = ("a".to_owned(), "b".to_owned());
        assert_eq!(news, [SourceNews::InodeTwice { name: name.clone(), other: b.clone() }]);
        assert_eq!(table.to_look_at(0).map(|(seen, _)| seen.key), Some(other));
        let told = table.yield_to(other, A);
        assert_eq!(told, Some(SourceNews::InodeTwice { name: b, other: name }));
        assert_eq!(open_all(&mut table, 0).open, [A]);
        assert_eq!(table.yield_to(A, C), None, "nobody is there to yield to");
        // One that is none of ours keeps nobody away.
        let mut table = SourceTable::new(9, false);
        table.listed(vec![file("a", A, 10), file("b.old", other, 20)]);
        assert_eq!((open_all(&mut table, 0).open, table.is_barred(other)), (vec![A], true));
    }
}
