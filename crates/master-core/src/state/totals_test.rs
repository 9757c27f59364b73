//! R36 against a walk over all entries: totals, and what counts in quotas, after any record.

use super::replay_test::{Drawer, TERM, founding, reloaded};
use super::{HIDDEN_ROOT, Quota, ROOT, State, SubtreeSum, Totals};
use crate::applied::Applied;
use crate::record::{
    AddDirectories, AddFile, ChangeQuota, Expedite, HideEntry, MoveEntry, NewDirectory, OpenChunk,
    Purge, RaiseLevel, Record, SetLength, SetVersion,
};
use cairn_protocol::ErrorCode;
use cairn_types::{
    ChunkHandle, ChunkIndex, ChunkVersion, EntryId, EntryKind, LogIndex, MutationName,
    MutationNumber,
};
use std::collections::BTreeMap;

/// The directory that an entry counts in, and whether it was deleted from there.
fn place(state: &State, id: EntryId) -> Option<(EntryId, bool)> {
    let parent = state.entry(id)?.parent;
    match parent {
        HIDDEN_ROOT => state.deleted().get(id).map(|hidden| (hidden.parent, true)),
        _ => Some((parent, false)),
    }
}

fn walked(state: &State) -> BTreeMap<EntryId, Totals> {
    let mut totals: BTreeMap<EntryId, Totals> = BTreeMap::new();
    for (id, entry) in state.names.entries() {
        let is_file = entry.kind == EntryKind::File;
        let bytes = state.subtrees().charged(id).unwrap_or_default().max(entry.length);
        let own = SubtreeSum {
            files: i64::from(is_file),
            directories: i64::from(!is_file),
            lengths: if is_file { entry.length.into() } else { 0 },
            stored: if is_file {
                i128::from(entry.length) * i128::from(entry.replication)
            } else {
                0
            },
            bytes: if is_file { bytes.into() } else { 0 },
        };
        let (mut at, mut deleted) = (id, false);
        while at != ROOT && at != HIDDEN_ROOT {
            let Some((above, crossed)) = place(state, at) else { break };
            if state.entry(above).is_none() {
                break;
            }
            deleted |= crossed;
            let total = totals.entry(above).or_default();
            if deleted {
                total.deleted += own;
            } else {
                total.live += own;
            }
            at = above;
        }
    }
    totals
}

/// What is kept is what a walk finds (totals.rs, TO1; quotas.rs, QU1).
pub(super) fn check_totals(state: &State) {
    let walked = walked(state);
    let of = |id| walked.get(&id).copied().unwrap_or_default();
    for (id, entry) in state.names.entries() {
        if entry.kind == EntryKind::Directory && id != HIDDEN_ROOT {
            assert_eq!(state.subtrees().totals(id), of(id), "{id:?}");
        }
    }
    for id in state.subtrees().quotas_after(EntryId::default()) {
        let quota = state.subtrees().quota(id).expect("it has one");
        let all = of(id).all();
        assert_eq!((quota.names, quota.bytes), (all.names(), all.charged()), "{id:?}");
        assert!(state.entry(id).is_some(), "a quota goes with its directory");
    }
}

/// Whether no quota is exceeded further than before by a record that makes more.
fn check_limits(before: &State, after: &State, record: &Record) {
    let checked = matches!(
        record,
        Record::AddFile(_)
            | Record::AddDirectories(_)
            | Record::MoveEntry(_)
            | Record::OpenChunk(OpenChunk { closes: None, .. })
            | Record::SetVersion(_)
    );
    if !checked {
        return;
    }
    for id in after.subtrees().quotas_after(EntryId::default()) {
        let (Some(was), Some(is)) = (before.subtrees().quota(id), after.subtrees().quota(id))
        else {
            continue;
        };
        let within = |limit: Option<u64>, was: u64, is: u64| is <= limit.unwrap_or(is).max(was);
        let names = within(is.limits.names, was.names, is.names);
        let bytes = within(is.limits.bytes, was.bytes, is.bytes);
        assert!(names && bytes, "{was:?} became {is:?} by {record:?}");
    }
}

#[test]
fn after_any_record_totals_are_what_a_walk_finds_and_no_quota_is_exceeded() {
    let (mut refused, mut quotas) = (0, 0);
    for seed in 0..60 {
        let mut drawer = Drawer::new(seed);
        let mut state = State::default();
        for step in 1..250_u64 {
            let first = founding().get(step as usize - 1).cloned();
            let record = first.unwrap_or_else(|| drawer.draw(&state));
            let before = state.clone();
            let outcome = state.apply(LogIndex::new(step), TERM, &record);
            if let Applied::Failed(failure) = &outcome {
                refused += u64::from(failure.code == ErrorCode::QuotaExceeded);
            }
            check_limits(&before, &state, &record);
            if step % 5 == 0 {
                check_totals(&state);
            }
            if step % 50 == 0 {
                assert_eq!(reloaded(&state), state);
                let mut counted = state.clone();
                let (accounts, ways) = counted.names.accounts_mut();
                accounts.forget_totals();
                accounts.count_all(ways);
                assert_eq!(counted, state, "an image without totals gets the same");
            }
        }
        quotas += state.subtrees().quotas_after(EntryId::default()).count();
    }
    assert!(refused > 100 && quotas > 50, "{refused} refused, {quotas} quotas");
}

struct Cell {
    state: State,
    counter: u64,
}

impl Cell {
    fn new() -> Self {
        let mut cell = Self { state: State::default(), counter: 100 };
        founding().into_iter().for_each(|record| drop(cell.apply(record)));
        cell.done(RaiseLevel { level: 1, ..RaiseLevel::default() });
        cell
    }

    fn apply(&mut self, record: impl Into<Record>) -> Applied {
        let index = self.state.applied().next();
        let number = MutationNumber::new(index.get());
        let name = MutationName { number, ..MutationName::default() };
        let mut record = record.into();
        match &mut record {
            Record::AddFile(it) => it.mutation = name,
            Record::AddDirectories(it) => it.mutation = name,
            Record::MoveEntry(it) => it.mutation = name,
            Record::HideEntry(it) => it.mutation = name,
            Record::Expedite(it) => it.mutation = name,
            Record::ChangeQuota(it) => it.mutation = name,
            _ => {}
        }
        let applied = self.state.apply(index, TERM, &record);
        check_totals(&self.state);
        applied
    }

    fn done(&mut self, record: impl Into<Record>) -> Applied {
        let applied = self.apply(record);
        assert!(!matches!(applied, Applied::Failed(_)), "{applied:?}");
        applied
    }

    fn refused(&mut self, record: impl Into<Record>) -> String {
        match self.apply(record) {
            Applied::Failed(failure) if failure.code == ErrorCode::QuotaExceeded => failure.message,
            other => panic!("not for a quota: {other:?}"),
        }
    }

    fn fresh(&mut self) -> u64 {
        self.counter += 1;
        self.counter
    }

    fn directories(&mut self, parent: EntryId, names: &[&str]) -> AddDirectories {
        let mut directories = Vec::new();
        for name in names {
            let id = EntryId::of(TERM, self.fresh());
            directories.push(NewDirectory { id, name: (*name).to_owned() });
        }
        AddDirectories { parent, directories, existing_is_fine: true, ..Default::default() }
    }

    fn mkdir(&mut self, parent: EntryId, name: &str) -> EntryId {
        let make = self.directories(parent, &[name]);
        let id = make.directories[0].id;
        self.done(make);
        id
    }

    fn file(&mut self, parent: EntryId, name: &str) -> AddFile {
        let id = EntryId::of(TERM, self.fresh());
        AddFile { parent, name: name.to_owned(), id, replication: 3, ..Default::default() }
    }

    fn create(&mut self, parent: EntryId, name: &str) -> EntryId {
        let file = self.file(parent, name);
        let id = file.id;
        self.done(file);
        id
    }

    fn open(&mut self, file: EntryId, index: u64) -> OpenChunk {
        OpenChunk {
            file,
            index: ChunkIndex::new(index),
            handle: ChunkHandle::of(TERM, self.fresh()),
            version: ChunkVersion::of(TERM, self.fresh()),
            charges: true,
            ..Default::default()
        }
    }

    fn limit(&mut self, entry: EntryId, names: Option<u64>, bytes: Option<u64>) {
        self.done(ChangeQuota { entry, names, bytes, ..Default::default() });
    }

    fn hide(&mut self, entry: EntryId, name: &str) {
        let parent = self.state.entry(entry).expect("there").parent;
        let (name, keeps_ms) = (name.to_owned(), 1000);
        self.done(HideEntry {
            entry,
            parent,
            name,
            recursive: true,
            keeps_ms,
            ..Default::default()
        });
    }

    fn used(&self, directory: EntryId) -> (u64, u64) {
        let Quota { names, bytes, .. } =
            self.state.subtrees().quota(directory).expect("it has one");
        (names, bytes)
    }

    fn rename(&mut self, entry: EntryId, name: &str, to_parent: EntryId) -> MoveEntry {
        let from_parent = self.state.entry(entry).expect("there").parent;
        let (from_name, to_name) = (name.to_owned(), name.to_owned());
        MoveEntry { entry, from_parent, from_name, to_parent, to_name, ..Default::default() }
    }
}

#[test]
fn names_are_refused_at_the_limit_and_the_line_names_directory_limit_and_use() {
    let mut cell = Cell::new();
    let home = cell.mkdir(ROOT, "home");
    let anna = cell.mkdir(home, "anna");
    cell.limit(home, Some(3), None);
    assert_eq!(cell.used(home), (1, 0), "what was there counts");
    cell.create(anna, "a");
    cell.create(anna, "b");
    let file = cell.file(anna, "c");
    let line = cell.refused(file);
    assert_eq!(
        line,
        "/home: its quota is 3 names, 3 are in use, 1 more are wanted; nothing was done"
    );
    let deeper = cell.directories(anna, &["x", "y"]);
    assert!(cell.refused(deeper).contains("2 more are wanted"));
    let there = cell.directories(home, &["anna"]);
    cell.done(there);
    let outside = cell.file(ROOT, "c");
    cell.done(outside);
    cell.done(ChangeQuota { entry: home, clears: true, ..Default::default() });
    cell.create(anna, "c");
}

#[test]
fn a_chunk_is_charged_whole_until_the_file_is_settled_and_anew_when_it_is_written_again() {
    let mut cell = Cell::new();
    let chunk = cell.state.config().chunk_size;
    let home = cell.mkdir(ROOT, "home");
    cell.limit(home, None, Some(2 * chunk));
    let file = cell.create(home, "f");
    let first = cell.open(file, 0);
    cell.done(first.clone());
    assert_eq!(cell.used(home), (1, chunk));
    let other = cell.create(home, "g");
    let second = cell.open(other, 0);
    cell.done(second);
    let third = cell.open(file, 1);
    let line = cell.refused(third);
    let limit = 2 * chunk;
    assert!(line.starts_with(&format!("/home: its quota is {limit} bytes, {limit} are in use")));
    cell.done(SetLength { file, length: 10, ..Default::default() });
    assert_eq!(cell.used(home), (2, 2 * chunk), "somebody may write it yet");
    cell.done(SetLength { file, length: 10, settles: true, ..Default::default() });
    assert_eq!(cell.used(home), (2, chunk + 10));
    let version = ChunkVersion::of(TERM, 5000);
    let (handle, charges) = (first.handle, true);
    cell.done(SetVersion { handle, version, charges, ..Default::default() });
    assert_eq!(cell.used(home), (2, 2 * chunk), "it may grow again");
    cell.done(SetLength { file, length: 20, settles: true, ..Default::default() });
    cell.limit(home, None, Some(chunk + 30));
    let version = ChunkVersion::of(TERM, 5001);
    cell.refused(SetVersion { handle, version, charges, ..Default::default() });
    assert_ne!(cell.state.chunk(handle).expect("there").version, version, "nothing was done");
    cell.done(SetVersion { handle, version, ..Default::default() });
}

#[test]
fn what_is_deleted_counts_where_it_was_until_it_is_purged() {
    let mut cell = Cell::new();
    let home = cell.mkdir(ROOT, "home");
    let inner = cell.mkdir(home, "inner");
    cell.limit(home, Some(3), None);
    let one = cell.create(inner, "one");
    cell.create(inner, "two");
    cell.hide(one, "one");
    cell.hide(inner, "inner");
    assert_eq!(cell.used(home), (3, 0));
    assert_eq!(cell.state.subtrees().totals(home).live, SubtreeSum::default());
    let file = cell.file(home, "more");
    cell.refused(file);
    let hidden = cell.state.deleted().get(inner).expect("deleted").hidden_name(inner);
    cell.done(Expedite { entry: inner, name: hidden, ..Default::default() });
    cell.done(Purge { entry: inner, count: 100, ..Default::default() });
    assert_eq!(cell.used(home), (0, 0), "what it had deleted counts nowhere without it");
    cell.create(home, "more");
}

#[test]
fn what_is_moved_must_fit_into_the_quotas_that_it_did_not_count_in() {
    let mut cell = Cell::new();
    let home = cell.mkdir(ROOT, "home");
    let (anna, berta) = (cell.mkdir(home, "anna"), cell.mkdir(home, "berta"));
    let work = cell.mkdir(anna, "work");
    for name in ["a", "b"] {
        cell.create(work, name);
    }
    cell.limit(home, Some(5), None);
    cell.limit(berta, Some(2), None);
    let line = {
        let to_berta = cell.rename(work, "work", berta);
        cell.refused(to_berta)
    };
    assert!(line.starts_with("/home/berta: its quota is 2 names, 0 are in use, 3 more"), "{line}");
    cell.limit(berta, Some(3), None);
    let to_berta = cell.rename(work, "work", berta);
    cell.done(to_berta);
    assert_eq!((cell.used(home), cell.used(berta)), ((5, 0), (3, 0)), "home is full, and may");
    cell.hide(work, "work");
    let hidden = cell.state.deleted().get(work).expect("deleted").hidden_name(work);
    let back = MoveEntry {
        entry: work,
        from_parent: HIDDEN_ROOT,
        from_name: hidden,
        to_parent: ROOT,
        to_name: "work".to_owned(),
        ..Default::default()
    };
    cell.done(back);
    assert_eq!((cell.used(home), cell.used(berta)), ((2, 0), (0, 0)));
}

#[test]
fn many_directories_wait_and_are_taken_up_together() {
    let mut cell = Cell::new();
    let top = cell.mkdir(ROOT, "top");
    let mut directories = Vec::new();
    for number in 0..400 {
        let id = EntryId::of(TERM, 10_000 + number);
        let directories_of = vec![NewDirectory { id, name: format!("d{number}") }];
        let make =
            AddDirectories { parent: top, directories: directories_of, ..Default::default() };
        let index = cell.state.applied().next();
        let mut make: Record = make.into();
        if let Record::AddDirectories(make) = &mut make {
            make.mutation.number = MutationNumber::new(index.get());
        }
        cell.state.apply(index, TERM, &make);
        directories.push(id);
    }
    for (number, parent) in directories.iter().enumerate() {
        let index = cell.state.applied().next();
        let mut file = cell.file(*parent, &format!("f{number}"));
        file.mutation.number = MutationNumber::new(index.get());
        cell.state.apply(index, TERM, &file.into());
    }
    assert_eq!(cell.state.subtrees().totals(top).live.names(), 800);
    check_totals(&cell.state);
}
