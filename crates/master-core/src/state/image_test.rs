//! The state against plain maps, over random records, with images written, opened and adopted in
//! between; and images that were changed: a right answer or a mark, never a wrong answer.

use super::outcomes::{BLOCK_NUMBERS, SESSION_BLOCK_SPAN};
use super::policies::of_cell;
use super::replay_test::{Drawer, TERM, founding};
use super::{AttributesNumber, EntryRecord, HIDDEN_NAME, HIDDEN_ROOT, ROOT, Remembered, State};
use crate::applied::Applied;
use crate::record::{AddDirectories, AddFile, OpenChunk, RaiseLevel, Record};
use cairn_pagetree::{Backing, FileId};
use cairn_types::{
    Attributes, CellConfig, CellPath, ChunkHandle, ChunkIndex, EntryId, EntryKind, MutationName,
    MutationNumber, Policy, PolicyParts, ReplicaAt, ServerId, SessionId, WallTime,
};
use proptest::prelude::{ProptestConfig, proptest};
use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

/// What a state holds, in plain maps. It is told what came of each record.
#[derive(Clone, Default)]
struct Model {
    entries: BTreeMap<EntryId, (EntryRecord, String)>,
    chunks: BTreeMap<ChunkHandle, super::ChunkRecord>,
    kept: BTreeMap<MutationName, (Duration, Applied)>,
    floors: BTreeMap<SessionId, MutationNumber>,
    servers: BTreeMap<ServerId, ReplicaAt>,
    said: BTreeMap<EntryId, PolicyParts>,
    level: u32,
    /// In the order of their numbers.
    attributes: Vec<Attributes>,
}

impl Model {
    fn new() -> Self {
        let root = |id| EntryRecord::directory(id, WallTime::default());
        let named = |id, name: &str| (id, (root(id), name.to_owned()));
        let entries = BTreeMap::from([named(ROOT, ""), named(HIDDEN_ROOT, HIDDEN_NAME)]);
        Self { entries, ..Self::default() }
    }

    fn child(&self, parent: EntryId, name: &str) -> Option<EntryId> {
        let is_it = |(entry, own): &(EntryRecord, String)| entry.parent == parent && own == name;
        let mut found = self.entries.iter().filter(|(_, entry)| is_it(entry));
        found.next().map(|(id, _)| *id)
    }

    /// The number of attributes, where the log may have them.
    fn number(&mut self, kind: EntryKind, told: Option<Attributes>) -> AttributesNumber {
        let told = told.filter(|told| self.level > 0 && *told != Attributes::usual(kind));
        let Some(told) = told else { return AttributesNumber::USUAL };
        let known = self.attributes.iter().position(|known| *known == told);
        let at = known.unwrap_or_else(|| {
            self.attributes.push(told);
            self.attributes.len() - 1
        });
        AttributesNumber::new(at as u32 + 1)
    }

    fn place(&mut self, id: EntryId, parent: EntryId, name: &str) {
        let entry = self.entries.get_mut(&id).expect("there");
        entry.0.parent = parent;
        name.clone_into(&mut entry.1);
    }

    /// Forgets the blocks of outcomes that are older than `window` before log time `now`.
    fn forget(&mut self, now: Duration, window: Duration) {
        let block = |name: &MutationName| (name.session, name.number.get() / BLOCK_NUMBERS);
        let mut last = BTreeMap::new();
        for (name, (time, _)) in &self.kept {
            let last = last.entry(block(name)).or_insert(*time);
            *last = (*last).max(*time);
        }
        let expired = self.kept.iter().filter(|(name, _)| last[&block(name)] + window < now);
        for name in expired.map(|(name, _)| *name).collect::<Vec<_>>() {
            self.kept.remove(&name);
            let floor = self.floors.entry(name.session).or_default();
            *floor = name.number.max(*floor);
        }
    }

    /// Keeps an outcome; what lies a whole span of blocks below it goes.
    fn keep(&mut self, mutation: MutationName, now: Duration, outcome: Applied) {
        let block = mutation.number.get() / BLOCK_NUMBERS;
        if let Some(beyond) = block.checked_sub(SESSION_BLOCK_SPAN) {
            let last = MutationNumber::new((beyond + 1) * BLOCK_NUMBERS - 1);
            self.kept.retain(|name, _| name.session != mutation.session || name.number > last);
            let floor = self.floors.entry(mutation.session).or_default();
            *floor = last.max(*floor);
        }
        self.kept.insert(mutation, (now, outcome));
    }

    fn remembered(&self, mutation: MutationName) -> Remembered {
        match self.kept.get(&mutation) {
            Some((_, outcome)) => Remembered::Done(outcome.clone()),
            None if self.floors.get(&mutation.session).is_some_and(|f| mutation.number <= *f) => {
                Remembered::TooOld
            }
            None => Remembered::New,
        }
    }

    fn take(&mut self, record: &Record, outcome: &Applied, chunk_size: u64) {
        match (record, outcome) {
            (Record::AddDirectories(add), Applied::DirectoryMade(_)) => {
                let mut parent = add.parent;
                for new in &add.directories {
                    parent = self.child(parent, &new.name).unwrap_or_else(|| {
                        let attributes = self.number(EntryKind::Directory, add.attributes);
                        let record = EntryRecord::directory(parent, add.time);
                        let record = EntryRecord { attributes, ..record };
                        self.entries.insert(new.id, (record, new.name.clone()));
                        new.id
                    });
                }
            }
            (Record::AddFile(add), Applied::FileMade(made)) if made.created => {
                let file = EntryRecord {
                    kind: EntryKind::File,
                    content: add.content,
                    replication: add.replication,
                    synced: add.synced,
                    attributes: self.number(EntryKind::File, add.attributes),
                    ..EntryRecord::directory(add.parent, add.time)
                };
                self.entries.insert(add.id, (file, add.name.clone()));
            }
            (Record::RaiseLevel(raise), _) => self.level = self.level.max(raise.level),
            (Record::ChangeAttributes(change), Applied::AttributesChanged(_)) => {
                let kind = self.entries[&change.entry].0.kind;
                let new = change.attributes.map(|new| self.number(kind, Some(new)));
                let (entry, _) = self.entries.get_mut(&change.entry).expect("there");
                entry.attributes = new.unwrap_or(entry.attributes);
                entry.modified = change.modified.unwrap_or(entry.modified);
            }
            _ => self.take_rest(record, outcome, chunk_size),
        }
    }

    /// What makes no entry, and changes none's attributes.
    fn take_rest(&mut self, record: &Record, outcome: &Applied, chunk_size: u64) {
        match (record, outcome) {
            (Record::MoveEntry(moved), Applied::EntryMoved(what)) => {
                if let Some(gone) = what.replaced {
                    let time = moved.time.as_millis();
                    let hidden = format!("{HIDDEN_NAME}-{}-{time}-{}", gone.short(), moved.to_name);
                    self.place(gone, HIDDEN_ROOT, &hidden);
                }
                self.place(moved.entry, moved.to_parent, &moved.to_name);
            }
            (Record::HideEntry(hide), Applied::EntryHidden(hidden)) => {
                let name = hidden.hidden.rsplit('/').next().expect("a path");
                self.place(hide.entry, HIDDEN_ROOT, name);
            }
            (Record::OpenChunk(open), Applied::ChunkOpened(opened)) => {
                self.open_chunk(open, opened.handle, chunk_size);
            }
            (Record::KnowServer(know), Applied::Changed(_)) => {
                self.servers.insert(know.at.server, know.at.clone());
            }
            (Record::ForgetServer(forget), Applied::Changed(_)) => {
                assert!(self.servers.remove(&forget.server).is_some(), "it was there");
            }
            (Record::Purge(purge), Applied::EntryPurged(_)) => {
                self.purge(purge.entry, purge.count.clamp(1, 4096));
            }
            (Record::CloseChunk(close), Applied::Changed(_)) => {
                self.close(close.handle, chunk_size)
            }
            (Record::SetVersion(set), Applied::Changed(_)) => {
                let chunk = self.chunks.get_mut(&set.handle).expect("there");
                (chunk.version, chunk.set_size) = (set.version, set.set_size);
            }
            (Record::SetLength(set), Applied::Changed(_)) => {
                let (file, _) = self.entries.get_mut(&set.file).expect("there");
                if set.length > file.length {
                    (file.length, file.modified) = (set.length, set.time);
                }
            }
            (Record::ChangePolicy(change), Applied::PolicyChanged(_)) => {
                let said = self.said.get(&change.entry).copied().unwrap_or_default();
                self.said.insert(change.entry, change.set.or(said.without(change.inherit)));
                self.said.retain(|_, said| said.names().any());
            }
            _ => {}
        }
    }

    /// What a file inherits, or says itself.
    fn policy(&self, config: &CellConfig, id: EntryId) -> Policy {
        let said = |id| self.said.get(&id).copied().unwrap_or_default();
        let (mut at, mut parts) = (id, said(id));
        while self.entries[&at].0.parent != at {
            at = self.entries[&at].0.parent;
            parts = parts.or(said(at));
        }
        parts.over(of_cell(config))
    }

    /// Takes over what a policy has made of files and chunks, each of which is as before or as it
    /// was to become.
    fn take_policy(&mut self, state: &State) {
        let ids: Vec<EntryId> = self.entries.keys().copied().collect();
        for id in ids {
            let (before, told) = (self.entries[&id].0, state.entry(id).expect("there"));
            let wanted = self.policy(state.config(), id);
            let kept = told.replication == before.replication && told.synced == before.synced;
            let brought = [before.replication, wanted.replication].contains(&told.replication)
                && [before.synced, wanted.synced].contains(&told.synced);
            assert!(kept || (brought && told.kind == EntryKind::File), "{told:?}: {wanted:?}");
            let EntryRecord { replication, synced, .. } = told;
            self.entries.get_mut(&id).expect("there").0 =
                EntryRecord { replication, synced, ..before };
        }
        for (handle, chunk) in &mut self.chunks {
            let goal = state.chunk(*handle).expect("there").goal;
            let level = self.entries[&chunk.file].0.replication;
            assert!(goal == chunk.goal || goal == level, "{goal} of {level}");
            chunk.goal = goal;
        }
    }

    fn open_chunk(&mut self, open: &OpenChunk, handle: ChunkHandle, chunk_size: u64) {
        if let Some(closes) = open.closes {
            self.close(closes, chunk_size);
        }
        if handle != open.handle || self.chunks.contains_key(&handle) {
            return;
        }
        let (file, _) = self.entries.get_mut(&open.file).expect("there");
        file.chunk_count = file.chunk_count.max(open.index.get() + 1);
        file.modified = open.time;
        if open.index == ChunkIndex::default() {
            file.first = Some(handle);
        }
        let chunk = super::ChunkRecord {
            file: open.file,
            index: open.index,
            version: open.version,
            set_size: open.set_size,
            closed: false,
            goal: file.replication,
        };
        self.chunks.insert(handle, chunk);
    }

    /// The first name below an entry that has nothing below it.
    fn deepest_first(&self, top: EntryId) -> EntryId {
        let below = self.entries.iter().filter(|(_, (entry, _))| entry.parent == top);
        let first = below.min_by_key(|(_, (_, name))| name);
        first.map_or(top, |(id, _)| self.deepest_first(*id))
    }

    fn purge(&mut self, top: EntryId, mut left: u32) {
        while left > 0 {
            let id = self.deepest_first(top);
            let of_file = self.chunks.iter().filter(|(_, chunk)| chunk.file == id);
            let mut chunks: Vec<(ChunkIndex, ChunkHandle)> =
                of_file.map(|(handle, chunk)| (chunk.index, *handle)).collect();
            // The first goes last.
            chunks.sort_by_key(|(index, _)| index.get().wrapping_sub(1));
            for (_, handle) in chunks.into_iter().take(left as usize) {
                self.chunks.remove(&handle);
                left -= 1;
            }
            if left == 0 {
                let has_first = |chunk: &super::ChunkRecord| {
                    chunk.file == id && chunk.index == ChunkIndex::default()
                };
                let has_first = self.chunks.values().any(has_first);
                let (entry, _) = self.entries.get_mut(&id).expect("there");
                let first = entry.first.filter(|_| has_first);
                if entry.kind == EntryKind::File {
                    *entry = EntryRecord { length: 0, chunk_count: 0, first, ..*entry };
                }
                return;
            }
            self.entries.remove(&id);
            self.said.remove(&id);
            left -= 1;
            if id == top {
                return;
            }
        }
    }

    fn close(&mut self, handle: ChunkHandle, chunk_size: u64) {
        let chunk = self.chunks.get_mut(&handle).expect("there");
        chunk.closed = true;
        let (file, _) = self.entries.get_mut(&chunk.file).expect("there");
        file.length = file.length.max((chunk.index.get() + 1) * chunk_size);
    }

    /// Asks the state all that it can be asked; each answer is right, or there is a mark.
    fn check(&self, state: &State) {
        let right = |is_right: bool, what: &str| {
            assert!(
                is_right || state.damage().is_some(),
                "{what} is wrong, and no damage is noted"
            );
        };
        for (id, (entry, name)) in &self.entries {
            right(state.entry(*id) == Some(*entry), "an entry");
            right(state.name_of(*id).as_ref() == Some(name), "a name");
            let said = self.said.get(id).copied().unwrap_or_default();
            right(state.policies().said(*id) == said, "what is said");
            let child = *id == ROOT || state.child(entry.parent, name) == Some(*id);
            right(child || *id == HIDDEN_ROOT, "a child");
            let chunks = self.chunks.iter().filter(|(_, chunk)| chunk.file == *id);
            let mut places: Vec<(ChunkIndex, ChunkHandle)> =
                chunks.map(|(handle, chunk)| (chunk.index, *handle)).collect();
            places.sort_unstable();
            right(
                state.chunks_of(*id, ChunkIndex::default()).eq(places.clone()),
                "a file's chunks",
            );
            // What is purged in part is empty already.
            let last = places.last().filter(|_| entry.chunk_count > 0);
            right(state.last_chunk(*id) == last.copied(), "a last chunk");
            for first in 0..3 {
                let indexes = first..2 * first + 1;
                let indexes = indexes.start..indexes.end.min(entry.chunk_count.max(indexes.start));
                let between = places.iter().filter(|(index, _)| indexes.contains(&index.get()));
                let told = state.chunks_between(*id, entry, indexes.clone());
                right(told.eq(between.map(|(_, handle)| *handle)), "chunks between");
            }
        }
        let mut listed: BTreeMap<EntryId, BTreeMap<&str, EntryId>> = BTreeMap::new();
        let roots = [ROOT, HIDDEN_ROOT];
        for (id, (entry, name)) in self.entries.iter().filter(|(id, _)| !roots.contains(id)) {
            listed.entry(entry.parent).or_default().insert(name, *id);
        }
        for (directory, names) in &listed {
            let list = state.list(*directory, "").map(|entry| (entry.name, entry.id));
            let expected = names.iter().map(|(name, id)| ((*name).to_owned(), *id));
            right(list.eq(expected), "a directory");
        }
        right(state.chunks().eq(self.chunks.iter().map(|(handle, c)| (*handle, *c))), "chunks");
        for (handle, chunk) in &self.chunks {
            right(state.chunk(*handle) == Some(*chunk), "a chunk");
            right(state.chunk_at(chunk.file, chunk.index) == Some(*handle), "a place");
        }
        let handles: Vec<ChunkHandle> = self.chunks.keys().copied().collect();
        let told = state.chunk_each(&handles).into_iter().flatten();
        right(told.eq(self.chunks.values().copied()), "chunks together");
        let ids: Vec<EntryId> = self.entries.keys().copied().collect();
        let told = state.entry_each(&ids).into_iter().flatten();
        right(told.eq(self.entries.values().map(|(entry, _)| *entry)), "entries together");
        self.check_paths(state, right);
        for (mutation, (_, outcome)) in &self.kept {
            right(state.remembered(*mutation) == Remembered::Done(outcome.clone()), "an outcome");
        }
        for (session, number) in &self.floors {
            let forgotten = MutationName { session: *session, number: *number };
            right(state.remembered(forgotten) == Remembered::TooOld, "a floor");
        }
        let files = self.entries.values().filter(|(e, _)| e.kind == EntryKind::File).count() as u64;
        let hidden = listed.get(&HIDDEN_ROOT).map_or(0, BTreeMap::len) as u64;
        right(state.servers().eq(self.servers.values()), "the servers");
        right(state.file_count() == files, "the count of files");
        right(state.directory_count() == self.entries.len() as u64 - files - 1, "of directories");
        right(state.hidden_count() == hidden, "the count of hidden names");
        right(state.chunk_count() == self.chunks.len() as u64, "the count of chunks");
    }

    /// Each path leads to its entry, and what is none to nothing, in whatever company.
    fn check_paths(&self, state: &State, right: impl Fn(bool, &str)) {
        let paths = self.entries.keys().filter_map(|id| Some((*id, state.path_of(*id)?)));
        let absent = |path: &CellPath| path.join("absent").expect("a name");
        let paths: Vec<(Option<EntryId>, CellPath)> = paths
            .map(|(id, path)| (id, CellPath::parse(&path).expect("a path")))
            .flat_map(|(id, path)| [(None, absent(&path)), (Some(id), path)])
            .collect();
        let told = state.resolve_each(paths.iter().map(|(_, path)| path));
        right(told.len() == paths.len(), "how many paths are told of");
        for ((id, path), told) in std::iter::zip(paths, told) {
            right(told.as_ref().ok() == id.as_ref(), "a path among others");
            right(told == state.resolve(&path), "a path among others and alone");
        }
    }
}

/// A state, the maps that it must be, and what is on disk.
struct World {
    state: State,
    model: Model,
    drawer: Drawer,
    file: FileId,
    bytes: Vec<u8>,
    /// Root bytes of the file, and what they must open as.
    roots: Vec<(Vec<u8>, Model)>,
    /// What the last one reaches.
    live_bytes: u64,
}

impl World {
    fn new(seed: u64) -> Self {
        let mut world = Self {
            state: State::default(),
            model: Model::new(),
            drawer: Drawer::new(seed),
            file: FileId::fresh(),
            bytes: b"a header of the caller's".to_vec(),
            roots: Vec::new(),
            live_bytes: 0,
        };
        founding().iter().for_each(|record| world.apply(record));
        world
    }

    fn apply(&mut self, record: &Record) {
        let index = self.state.applied().next();
        let outcome = self.state.apply(index, TERM, record);
        let (now, config) = (self.state.log_time(), self.state.config().clone());
        self.model.forget(now, Duration::from_millis(config.retry_window_ms));
        if let Some(mutation) = record.mutation() {
            match self.model.remembered(mutation) {
                Remembered::New => {}
                Remembered::Done(known) => return assert_eq!(outcome, known),
                Remembered::TooOld => return assert!(matches!(outcome, Applied::Failed(_))),
            }
            self.model.keep(mutation, now, outcome.clone());
        }
        self.model.take(record, &outcome, config.chunk_size);
        if matches!(outcome, Applied::PolicyChanged(_) | Applied::PolicyApplied(_)) {
            self.model.take_policy(&self.state);
        }
    }

    /// Files of one chunk in one directory, so that trees come to have many pages.
    fn add_files(&mut self, count: u64) {
        let time = WallTime::from_millis(self.drawer.random.below(5000));
        let base = 1_000_000 + self.state.applied().get() * 1000;
        let mutation = |number| MutationName {
            session: SessionId::new(u128::from(base)),
            number: MutationNumber::new(number),
        };
        let parent = EntryId::of(TERM, base);
        let directory =
            crate::record::NewDirectory { id: parent, name: format!("directory-{base}") };
        let make = AddDirectories {
            time,
            mutation: mutation(1),
            parent: ROOT,
            directories: vec![directory],
            ..Default::default()
        };
        self.apply(&make.into());
        for number in 1..=count {
            let id = EntryId::of(TERM, base + 2 * number);
            let add = AddFile {
                time,
                mutation: mutation(1 + number),
                parent,
                name: format!("part-{number:05}-0198f0a4.snappy.parquet"),
                id,
                replication: 3,
                ..Default::default()
            };
            self.apply(&add.into());
            let handle = ChunkHandle::of(TERM, base + 2 * number + 1);
            let open = OpenChunk { time, file: id, handle, set_size: 3, ..Default::default() };
            self.apply(&open.into());
        }
    }

    fn write(&mut self) {
        let image = self.state.write_image(self.file, &mut self.bytes).expect("memory");
        self.live_bytes = image.live_bytes;
        assert!(0 < self.live_bytes && self.live_bytes <= self.bytes.len() as u64);
        self.roots.push((image.root, self.model.clone()));
    }

    /// A process ends, and another opens one of the last two images.
    fn crash(&mut self) {
        let lost = self.drawer.random.below(2).min(self.roots.len().saturating_sub(1) as u64);
        for _ in 0..lost {
            self.roots.pop();
        }
        let Some((root, model)) = self.roots.last() else { return };
        self.file = FileId::fresh();
        let opened = State::open_image(Arc::new(self.bytes.clone()), self.file, root);
        self.state = opened.expect("as written");
        self.model = model.clone();
    }

    fn step(&mut self) {
        match self.drawer.random.below(40) {
            0 | 1 => self.write(),
            2 => {
                (self.file, self.bytes) = (FileId::fresh(), Vec::new());
                self.roots.clear();
                self.write();
            }
            3 if !self.roots.is_empty() => {
                let bytes: Arc<dyn Backing> = Arc::new(self.bytes.clone());
                let before = self.state.adopt_image(&bytes, self.file).expect("its own file");
                assert_eq!(before, self.state);
            }
            4 => self.crash(),
            5 => self.add_files(60),
            _ => {
                let record = self.drawer.draw(&self.state);
                self.apply(&record);
            }
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(24))]

    #[test]
    fn a_state_is_the_maps_whatever_becomes_of_its_images(seed: u64) {
        let mut world = World::new(seed);
        for step in 0..120 {
            world.step();
            if step % 10 == 0 {
                world.model.check(&world.state);
            }
        }
        world.model.check(&world.state);
        assert_eq!(world.state.damage(), None);
        world.write();
        let (root, _) = world.roots.last().expect("just written");
        let opened = State::open_image(Arc::new(world.bytes.clone()), FileId::fresh(), root);
        assert_eq!(opened, Ok(world.state));
    }
}

/// A state of many pages, its image, and what it must be.
fn imaged() -> World {
    let mut world = World::new(7);
    for _ in 0..3 {
        world.add_files(150);
    }
    (world.file, world.bytes) = (FileId::fresh(), Vec::new());
    world.write();
    world
}

#[test]
fn an_altered_image_is_no_image_or_gives_a_mark_and_no_wrong_answer() {
    let world = imaged();
    let (root, model) = world.roots.last().expect("written");
    let open = |bytes: Vec<u8>| State::open_image(Arc::new(bytes), FileId::fresh(), root);
    let (mut refused, mut marked) = (0, 0);
    let last = world.bytes.len() - 1;
    for at in (0..last).step_by(1013).chain([last]) {
        let mut altered = world.bytes.clone();
        altered[at] ^= 1 << (at % 8);
        let Ok(state) = open(altered) else {
            refused += 1;
            continue;
        };
        model.check(&state);
        // What only time asks for.
        assert!(state == state.clone() || state.damage().is_some());
        assert!(state.damage().is_some(), "byte {at} was never verified");
        assert_eq!(state.clone().damage(), state.damage(), "clones know it too");
        marked += 1;
    }
    assert!(refused > 0 && marked > 20, "{refused} refused, {marked} marked");
    let cut = world.bytes[..world.bytes.len() / 2].to_vec();
    assert!(open(cut).is_err(), "the last trees' roots lie beyond");
}

#[test]
fn records_that_meet_damage_leave_a_mark() {
    let world = imaged();
    let (root, _) = world.roots.last().expect("written");
    let mut altered = world.bytes.clone();
    // The first page is the leaf that has the names of the root.
    altered[0] ^= 1;
    let opened = State::open_image(Arc::new(altered), FileId::fresh(), root);
    let mut state = opened.expect("its roots are whole");
    let mut drawer = Drawer::new(1);
    for _ in 0..50 {
        let record = drawer.draw(&world.state);
        state.apply(state.applied().next(), TERM, &record);
    }
    assert!(state.damage().is_some());
}

/// A bad page stands for what need not be looked at.
#[test]
fn no_directory_is_searched_for_a_name_that_the_question_has() {
    let mut state = State::default();
    let (directory, last) = (EntryId::of(TERM, 1), EntryId::of(TERM, 2001));
    let new = crate::record::NewDirectory { id: directory, name: "d".to_owned() };
    let named = |number| MutationName {
        session: SessionId::new(u128::from(number)),
        number: MutationNumber::new(1),
    };
    let directories = vec![new];
    let make =
        AddDirectories { mutation: named(1), parent: ROOT, directories, ..Default::default() };
    state.apply(state.applied().next(), TERM, &make.into());
    let add = |number: u64| AddFile {
        mutation: named(number),
        parent: directory,
        name: format!("part-{number:05}"),
        id: EntryId::of(TERM, number),
        ..Default::default()
    };
    for number in 2..=2001 {
        state.apply(state.applied().next(), TERM, &add(number).into());
    }
    let (mut bytes, file) = (Vec::new(), FileId::fresh());
    let root = state.write_image(file, &mut bytes).expect("memory").root;
    let exists = AddFile { mutation: named(2002), id: EntryId::of(TERM, 2002), ..add(2001) };
    let below = CellPath::parse("/d/part-02001/x").expect("a path");
    let mut spared = 0;
    for at in (0..bytes.len()).step_by(1013) {
        let mut altered = bytes.clone();
        altered[at] ^= 1;
        let opened = State::open_image(Arc::new(altered), FileId::fresh(), &root);
        let Ok(mut state) = opened else { continue };
        let told = state.apply(state.applied().next(), TERM, &exists.clone().into());
        let missed = state.resolve(&below).map_err(|failure| failure.message);
        if state.damage().is_some() {
            continue;
        }
        let Applied::Failed(told) = told else { panic!("{told:?}") };
        assert_eq!(told.message, "/d/part-02001: exists already");
        let line = "/d/part-02001/x: /d/part-02001 is a file and holds no names";
        assert_eq!(missed, Err(line.to_owned()));
        let _ = state.path_of(last);
        spared += u64::from(state.damage().is_some());
    }
    assert!(spared > 10, "{spared}: a search by number meets each of them");
}

#[test]
fn root_bytes_altered_or_cut_anywhere_are_refused() {
    let world = imaged();
    let (root, _) = world.roots.last().expect("written");
    let bytes = Arc::new(world.bytes.clone());
    let open = |root: &[u8]| State::open_image(Arc::clone(&bytes) as _, FileId::fresh(), root);
    assert!(open(root).is_ok());
    for at in 0..root.len() {
        assert!(open(&root[..at]).is_err(), "cut at {at}");
        let mut altered = root.clone();
        altered[at] ^= 1 << (at % 8);
        assert!(open(&altered).is_err(), "altered at {at}");
    }
    let mut earlier = root.clone();
    earlier[8] = 8;
    let told = open(&earlier).expect_err("of another build").to_string();
    assert_eq!(told, "an image of version 8; this build reads 9 to 13");
    assert_eq!(world.live_bytes, world.bytes.len() as u64, "one image, and no garbage");
}

#[test]
fn up_to_the_raise_of_the_level_an_image_is_one_that_the_build_before_reads() {
    let mut world = imaged();
    let version = |world: &World| world.roots.last().expect("written").0[8];
    let reopened = |world: &World| {
        let (root, _) = world.roots.last().expect("written");
        State::open_image(Arc::new(world.bytes.clone()), FileId::fresh(), root).expect("whole")
    };
    assert_eq!((version(&world), world.state.level()), (9, 0));
    assert!(reopened(&world) == world.state);
    world.apply(&RaiseLevel { level: 1, ..RaiseLevel::default() }.into());
    world.write();
    assert_eq!((version(&world), reopened(&world).level()), (10, 1));
    assert!(reopened(&world) == world.state);
    world.apply(&RaiseLevel::default().into());
    assert_eq!(world.state.level(), 1, "it never goes down");
}
