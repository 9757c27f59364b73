//! "Replay is state": random records, checkpoints at random points, and the same state either way.
use std::sync::Arc;

use super::any_record_test::{KINDS, kind_of};
use super::growing_snapshots::GrowingSnapshot;
use super::policies::of_cell;
use super::{HIDDEN_ROOT, ROOT, State};
use crate::applied::Applied;
use crate::record::{
    AddDirectories, AddFile, ApplyPolicy, Begin, ChangeAttributes, ChangePolicy, ChangeQuota,
    CloseChunk, CopiedAnew, CopiedEntry, CopyEntries, CopyOnWrite, DiscardSnapshot, EndPolicyJob,
    Expedite, ForgetServer, FoundCell, HideEntry, KnowServer, LetGo, MoveEntry, NewDirectory,
    OpenChunk, Purge, RaiseLevel, Record, Refuse, SetLength, SetVersion, SnapshotTree,
};
use cairn_pagetree::FileId;
use cairn_protocol::{ErrorCode, Failure};
use cairn_types::wire::Message;
use cairn_types::{
    Address, Attributes, CellConfig, CellId, CellPath, ChunkHandle, ChunkIndex, ChunkVersion,
    EntryId, EntryKind, JobId, LogIndex, MutationName, MutationNumber, PolicyPartNames,
    PolicyParts, Rack, Random, ReplicaAt, ServerId, SessionId, Term, WallTime,
};

pub(super) const TERM: Term = Term::new(3);
const NAMES: [&str; 4] = ["a", "b", "c", "d"];

pub(super) fn founding() -> [Record; 2] {
    let config = CellConfig { retry_window_ms: 300, ..CellConfig::tiny() };
    let found = FoundCell { time: WallTime::default(), cell: CellId::new(5), config };
    [found.into(), Begin { term: TERM, ..Begin::default() }.into()]
}

/// Draws records that fit the state often enough to change it.
pub(super) struct Drawer {
    pub(super) random: Random,
    counter: u64,
    clock: u64,
    /// Snapshots are drawn, too.
    snapshots: bool,
}

impl Drawer {
    pub(super) fn new(seed: u64) -> Self {
        Self { random: Random::new(seed), counter: 10, clock: 1000, snapshots: false }
    }

    /// The same, of snapshots and what comes of them too.
    pub(super) fn with_snapshots(seed: u64) -> Self {
        Self { snapshots: true, ..Self::new(seed) }
    }

    fn fresh(&mut self) -> u64 {
        self.counter += 1;
        self.counter
    }

    fn name(&mut self) -> String {
        (*self.random.pick(&NAMES).expect("some")).to_owned()
    }

    fn entry(&mut self, state: &State, kind: EntryKind) -> EntryId {
        let all: Vec<EntryId> =
            state.names.entries().filter(|(_, e)| e.kind == kind).map(|(id, _)| id).collect();
        self.random.pick(&all).copied().unwrap_or(ROOT)
    }

    fn chunk(&mut self, state: &State) -> ChunkHandle {
        let all: Vec<ChunkHandle> = state.chunks().map(|(handle, _)| handle).collect();
        self.random.pick(&all).copied().unwrap_or_default()
    }

    fn mutation(&mut self) -> MutationName {
        // Few names, so that repeats are common.
        let session = SessionId::new(1 + u128::from(self.random.below(3)));
        // Now and then beyond what is remembered of a session at once.
        let leap = if self.random.chance(20) { 2000 * self.random.below(3) } else { 0 };
        MutationName { session, number: MutationNumber::new(1 + leap + self.random.below(400)) }
    }

    pub(super) fn draw(&mut self, state: &State) -> Record {
        // The clock also goes back: log time does not.
        self.clock = (self.clock + self.random.below(8)).saturating_sub(self.random.below(4));
        let time = WallTime::from_millis(self.clock);
        if self.random.chance(20) {
            // A new term, by another clock.
            self.clock = self.random.below(5000);
            let time = WallTime::from_millis(self.clock);
            return Begin { time, term: TERM, ..Begin::default() }.into();
        }
        let mutation = self.mutation();
        let parent = self.entry(state, EntryKind::Directory);
        let file = self.entry(state, EntryKind::File);
        let (id, name) = (EntryId::of(TERM, self.fresh()), self.name());
        if let Some(other) = self.draw_other(state, time, mutation) {
            return other;
        }
        match self.random.below(10) {
            0 => {
                let second =
                    NewDirectory { id: EntryId::of(TERM, self.fresh()), name: self.name() };
                let directories = vec![NewDirectory { id, name }, second];
                let existing_is_fine = self.random.chance(700);
                let attributes = self.random.chance(300).then(|| self.attributes());
                AddDirectories { time, mutation, parent, directories, existing_is_fine, attributes }
                    .into()
            }
            1 | 2 => {
                let or_open = self.random.chance(500);
                let replication = 3;
                let file =
                    AddFile { time, mutation, parent, name, id, replication, ..Default::default() };
                let attributes = self.random.chance(300).then(|| self.attributes());
                AddFile { or_open, attributes, ..file }.into()
            }
            3 => self.draw_move(state, time, mutation),
            4 => self.draw_hide(state, (time, mutation), (file, parent)),
            5 | 6 => {
                let last = state.last_chunk(file);
                // Chunks are logged out of order, and none below the floor.
                let handle = self.fresh() + self.random.below(3);
                self.counter += 3;
                OpenChunk {
                    time,
                    file,
                    index: ChunkIndex::new(last.map_or(0, |(index, _)| index.get() + 1)),
                    floor: ChunkHandle::of(TERM, handle.saturating_sub(self.random.below(20))),
                    handle: ChunkHandle::of(TERM, handle),
                    version: ChunkVersion::of(TERM, self.fresh()),
                    set_size: 3,
                    closes: last.map(|(_, handle)| handle),
                    charges: self.random.chance(700),
                }
                .into()
            }
            7 => self.draw_version(state, time),
            8 => {
                let failure = Failure::refused(ErrorCode::NotFound, "not there");
                Refuse { time, mutation, failure }.into()
            }
            _ if self.random.chance(500) => CloseChunk { time, handle: self.chunk(state) }.into(),
            _ => {
                let (length, settles) = (self.random.below(9000), self.random.chance(500));
                SetLength { time, file, length, settles }.into()
            }
        }
    }

    /// A record that is not of names and chunks as such, now and then.
    fn draw_other(
        &mut self,
        state: &State,
        time: WallTime,
        mutation: MutationName,
    ) -> Option<Record> {
        if self.random.chance(40) {
            return Some(self.draw_server(time));
        }
        if self.random.chance(120) {
            return Some(self.draw_purge(state, time, mutation));
        }
        if self.random.chance(150) {
            return Some(self.draw_policy(state, time, mutation));
        }
        if self.random.chance(80) {
            return Some(self.draw_quota(state, time, mutation));
        }
        if self.snapshots && state.level() == 0 {
            return Some(RaiseLevel { time, level: 1 }.into());
        }
        if self.snapshots && self.random.chance(250) {
            return Some(self.draw_snapshot(state, time, mutation));
        }
        (state.level() > 0 && self.random.chance(60))
            .then(|| self.draw_attributes(state, time, mutation))
    }

    fn draw_attributes(&mut self, state: &State, time: WallTime, mutation: MutationName) -> Record {
        let is_file = self.random.chance(500);
        let kind = if is_file { EntryKind::File } else { EntryKind::Directory };
        let entry = self.entry(state, kind);
        let attributes = self.random.chance(750).then(|| self.attributes());
        let modified = WallTime::from_millis(self.random.below(5000));
        let modified = Some(modified).filter(|_| self.random.chance(500));
        ChangeAttributes { time, mutation, entry, attributes, modified }.into()
    }

    fn attributes(&mut self) -> Attributes {
        let mut draw = |of: u64| u32::try_from(self.random.below(of)).expect("small");
        let mode = [0o600, 0o644, 0o755, 0o2770][draw(4) as usize];
        Attributes { owner: draw(3), group: draw(3), mode }
    }

    fn draw_version(&mut self, state: &State, time: WallTime) -> Record {
        let (handle, version) = (self.chunk(state), ChunkVersion::of(TERM, self.fresh()));
        let charges = self.random.chance(500);
        SetVersion { time, handle, version, set_size: 2, charges, ..Default::default() }.into()
    }

    fn draw_hide(
        &mut self,
        state: &State,
        (time, mutation): (WallTime, MutationName),
        (file, directory): (EntryId, EntryId),
    ) -> Record {
        let entry = if self.random.chance(800) { file } else { directory };
        let there = state.entry(entry).expect("picked from there");
        let (parent, name) = (there.parent, state.name_of(entry).expect("picked from there"));
        let recursive = self.random.chance(500);
        let keeps_ms = self.random.below(400);
        HideEntry { time, mutation, entry, parent, name, recursive, keeps_ms }.into()
    }

    /// Few servers, which come, come back elsewhere, and are forgotten.
    fn draw_server(&mut self, time: WallTime) -> Record {
        let server = ServerId::new(1 + self.random.below(4));
        if self.random.chance(300) {
            return ForgetServer { time, server }.into();
        }
        let address = Address::new(format!("h{}:1", self.random.below(3)));
        let (at, since) = (ReplicaAt { server, address, rack: Rack::default() }, TERM);
        KnowServer { time, at, since }.into()
    }

    /// The end of something deleted, or of a chunk that nobody knows.
    fn draw_purge(&mut self, state: &State, time: WallTime, mutation: MutationName) -> Record {
        if self.random.chance(150) {
            return LetGo { time, handle: ChunkHandle::of(TERM, self.fresh()) }.into();
        }
        let hidden: Vec<EntryId> =
            state.deleted().after(EntryId::default()).map(|(id, _)| id).collect();
        let entry = self.random.pick(&hidden).copied().unwrap_or(ROOT);
        if self.random.chance(300) {
            let name = state.deleted().get(entry).map(|hidden| hidden.hidden_name(entry));
            return Expedite { time, mutation, entry, name: name.unwrap_or_default() }.into();
        }
        let floor = ChunkHandle::of(TERM, self.counter.saturating_sub(self.random.below(20)));
        let count = u32::try_from(1 + self.random.below(4)).expect("a few");
        let due = state.deleted().due(state.log_time()).unwrap_or(entry);
        Purge { time, entry: due, count, floor }.into()
    }

    /// A quota, mostly a small one, or none any more.
    fn draw_quota(&mut self, state: &State, time: WallTime, mutation: MutationName) -> Record {
        if state.level() == 0 {
            return RaiseLevel { time, level: 1 }.into();
        }
        let entry = self.entry(state, EntryKind::Directory);
        let random = &mut self.random;
        let names = random.chance(600).then(|| random.below(12));
        let bytes = random.chance(600).then(|| random.below(40_000));
        ChangeQuota { time, mutation, entry, names, bytes, clears: random.chance(400) }.into()
    }

    /// Something said, a slice of what it means, or the end of that.
    fn draw_policy(&mut self, state: &State, time: WallTime, mutation: MutationName) -> Record {
        let jobs: Vec<JobId> = state.policies().jobs().map(|job| job.id).collect();
        if let Some(job) = self.random.pick(&jobs).copied()
            && self.random.chance(600)
        {
            if self.random.chance(150) {
                return EndPolicyJob { time, job }.into();
            }
            let count = u32::try_from(1 + self.random.below(4)).expect("a few");
            return ApplyPolicy { time, job, count }.into();
        }
        let kind = if self.random.chance(400) { EntryKind::File } else { EntryKind::Directory };
        let entry = self.entry(state, kind);
        let random = &mut self.random;
        let set = PolicyParts {
            replication: random.chance(500).then(|| 1 + random.below(5) as u32),
            keep_deleted_ms: random.chance(300).then(|| random.below(500)),
            synced: random.chance(300).then(|| random.chance(500)),
            layout: None,
            commit_replicas: None,
        };
        let inherit = PolicyPartNames {
            replication: random.chance(200),
            keep_deleted: random.chance(200),
            durability: random.chance(200),
            layout: false,
            commit_replicas: false,
        };
        let (apply, job) = (random.chance(600), JobId::of(TERM, self.fresh()));
        ChangePolicy { time, mutation, entry, set, inherit, apply, job }.into()
    }

    /// A slice of a snapshot, its end, or a file's first write after one.
    fn draw_snapshot(&mut self, state: &State, time: WallTime, mutation: MutationName) -> Record {
        let growing: Vec<_> = state.snapshots.iter().copied().collect();
        if let Some(GrowingSnapshot { top, entries }) = self.random.pick(&growing).copied()
            && self.random.chance(600)
        {
            if self.random.chance(100) {
                return DiscardSnapshot { time, top }.into();
            }
            if self.random.chance(500) {
                let (to_parent, to_name) = (self.entry(state, EntryKind::Directory), self.name());
                return SnapshotTree { time, mutation, top, entries, to_parent, to_name }.into();
            }
            // Another name below the top.
            let entry = self.copied(state, top);
            return CopyEntries { time, top, entries: vec![entry] }.into();
        }
        if self.random.chance(400) {
            let top = self.copied(state, HIDDEN_ROOT);
            let mut entries = vec![top.clone()];
            for (name, source, _) in state.children(top.source, "") {
                let id = EntryId::of(TERM, self.fresh());
                let (parent, count) = (top.id, self.random.below(3));
                let first = ChunkIndex::default();
                entries.push(CopiedEntry { source, id, parent, name, first, count, anew: None });
            }
            return CopyEntries { time, top: top.id, entries }.into();
        }
        let shared: Vec<ChunkHandle> = state
            .chunks()
            .map(|(handle, _)| handle)
            .filter(|it| state.sharing().is_shared(*it))
            .collect();
        let shared = self.random.pick(&shared).copied().unwrap_or_default();
        let chunk = state.chunk(shared).unwrap_or_default();
        let files: Vec<EntryId> = state.sharing().files_of(shared, &chunk).collect();
        CopyOnWrite {
            time,
            file: self.random.pick(&files).copied().unwrap_or_default(),
            index: chunk.index,
            shared,
            shared_version: ChunkVersion::of(TERM, self.fresh()),
            shared_set_size: 2,
            handle: ChunkHandle::of(TERM, self.fresh()),
            version: ChunkVersion::of(TERM, self.fresh()),
            set_size: 2,
            floor: ChunkHandle::of(TERM, self.counter.saturating_sub(self.random.below(20))),
            charges: self.random.chance(500),
        }
        .into()
    }

    fn anew(&mut self) -> Option<CopiedAnew> {
        let attributes = self.random.chance(500).then(|| self.attributes());
        self.random.chance(500).then_some(CopiedAnew { attributes })
    }

    fn copied(&mut self, state: &State, parent: EntryId) -> CopiedEntry {
        let kind = if self.random.chance(500) { EntryKind::File } else { EntryKind::Directory };
        let (source, id) = (self.entry(state, kind), EntryId::of(TERM, self.fresh()));
        let (name, first) = (self.name(), ChunkIndex::default());
        CopiedEntry {
            source,
            id,
            parent,
            name,
            first,
            count: self.random.below(3),
            anew: self.anew(),
        }
    }

    fn draw_move(&mut self, state: &State, time: WallTime, mutation: MutationName) -> Record {
        let kind = if self.random.chance(500) { EntryKind::File } else { EntryKind::Directory };
        let entry = self.entry(state, kind);
        let there = state.entry(entry).expect("picked from there");
        MoveEntry {
            time,
            mutation,
            entry,
            from_parent: there.parent,
            from_name: state.name_of(entry).expect("picked from there"),
            to_parent: self.entry(state, EntryKind::Directory),
            to_name: self.name(),
            replace: self.random.chance(500),
            keeps_ms: self.random.below(400),
        }
        .into()
    }
}

pub(super) fn reloaded(state: &State) -> State {
    let mut pages = Vec::new();
    let root = state.write_image(FileId::fresh(), &mut pages).expect("memory takes it").root;
    State::open_image(Arc::new(pages), FileId::fresh(), &root).expect("as written")
}

/// What stands in the hidden root is noted as hidden, and nothing else (hidden.rs, HD1).
fn check_hidden(state: &State) {
    let mut standing: Vec<EntryId> = state.children(HIDDEN_ROOT, "").map(|(_, id, _)| id).collect();
    standing.sort();
    let noted: Vec<EntryId> = state.deleted().after(EntryId::default()).map(|(id, _)| id).collect();
    assert_eq!(noted, standing);
    for id in noted {
        let record = state.deleted().get(id).expect("noted");
        assert_eq!(state.child(HIDDEN_ROOT, &record.hidden_name(id)), Some(id));
        assert!(state.deleted().of_directory(record.parent, None).any(|other| other == id));
        let newest = state.deleted().newest(record.parent, &record.name).expect("there is one");
        assert!(state.deleted().get(newest).expect("noted").deleted >= record.deleted);
    }
}

/// Whoever says something is there, and what is inherited is so for a state that remembers nothing
/// (policies.rs, PO1 and PO2).
pub(super) fn check_policies(state: &State) {
    let fresh = state.clone();
    let mut sayers = 0;
    for (id, entry) in state.names.entries() {
        sayers += u64::from(state.policies().said(id).names().any());
        if entry.kind == EntryKind::Directory {
            let all = state.policies().sayers(id).map(|(_, parts)| parts);
            let parts = all.fold(PolicyParts::default(), PolicyParts::or);
            let policy = parts.over(of_cell(state.config()));
            assert_eq!(state.policies().in_directory(id), policy, "{id:?}");
            assert_eq!(fresh.policies().in_directory(id), policy, "{id:?}");
        }
    }
    assert_eq!(sayers, state.policies.map().len(), "what nobody says is gone");
}

/// Every entry is reached from one of the roots, under its own name; counts add up.
pub(super) fn check_tree(state: &State) {
    let mut seen = 0;
    let mut files = 0;
    let mut ahead = vec![ROOT, HIDDEN_ROOT];
    while let Some(directory) = ahead.pop() {
        seen += 1;
        for (name, id, kind) in state.children(directory, "") {
            let entry = state.entry(id).expect("a name stands for something");
            assert_eq!((entry.parent, state.name_of(id)), (directory, Some(name)));
            assert_eq!(entry.kind, kind);
            if entry.kind == EntryKind::File {
                files += 1;
                seen += 1;
            } else {
                ahead.push(id);
            }
        }
    }
    assert_eq!(seen, state.names.entries().count(), "something hangs loose");
    assert_eq!(files, state.file_count());
}

/// Paths lead where they do for a state that remembers none of them; answers how many were deep
/// and led somewhere.
fn check_ways(state: &State, random: &mut Random) -> u64 {
    let mut led = 0;
    for _ in 0..8 {
        let names = (0..2 + random.below(3)).map(|_| *random.pick(&NAMES).expect("some"));
        let path: String = names.flat_map(|name| ["/", name]).collect();
        let path = CellPath::parse(&path).expect("a path");
        let found = state.resolve(&path);
        assert_eq!(found, state.clone().resolve(&path), "{path}");
        led += u64::from(found.is_ok());
    }
    let fresh = state.clone();
    for (id, _) in state.names.entries() {
        assert_eq!(state.is_hidden(id), fresh.is_hidden(id), "{id:?}");
    }
    led
}

#[test]
fn checkpoint_and_later_log_give_the_state_of_the_whole_log() {
    let mut changed = [0u64; KINDS];
    let mut led = 0;
    for seed in 0..26 {
        let (mut live, mut restored) = (State::default(), State::default());
        let mut drawer = Drawer::with_snapshots(seed);
        for step in 1..400 {
            let record = match founding().get(step - 1) {
                Some(first) => first.clone(),
                None => drawer.draw(&live),
            };
            let record = Record::decode(&record.to_bytes()).expect("as written");
            let index = LogIndex::new(step as u64);
            let before = live.clone();
            let outcome = live.apply(index, TERM, &record);
            assert_eq!(restored.apply(index, TERM, &record), outcome);
            if let Applied::Failed(_) = outcome {
                assert_eq!(before.names, live.names, "a failed record changes nothing");
                assert_eq!(before.chunks, live.chunks, "a failed record changes nothing");
            } else {
                changed[kind_of(&record)] += 1;
            }
            check_tree(&live);
            check_hidden(&live);
            check_policies(&live);
            led += check_ways(&live, &mut Random::new(index.get()));
            if drawer.random.chance(50) {
                restored = reloaded(&restored);
            }
            assert_eq!(restored, live, "seed {seed}, record {step}");
        }
    }
    // Each kind of record has changed something, or the test shows nothing.
    let wanted = [1..=10, 14..=19, 40..=43, 50..=50, 60..=60];
    let mut kinds = wanted.into_iter().flat_map(|kinds| &changed[kinds]);
    assert!(kinds.all(|count| *count >= 20), "{changed:?}");
    assert!(led >= 1000, "{led}");
}

#[test]
fn a_hidden_file_gets_no_chunk_and_a_file_that_is_replaced_is_hidden() {
    let mut state = State::default();
    let mut at = 0;
    let mut apply = |state: &mut State, record: Record| {
        at += 1;
        state.apply(LogIndex::new(at), TERM, &record)
    };
    let file = |number: u64, name: &str| {
        let number = MutationNumber::new(number);
        let mutation = MutationName { session: SessionId::new(9), number };
        let (parent, id) = (ROOT, EntryId::of(TERM, number.get()));
        AddFile { mutation, parent, id, name: name.to_owned(), ..Default::default() }.into()
    };
    apply(&mut state, file(11, "old"));
    apply(&mut state, file(12, "new"));
    let (old, new) = (EntryId::of(TERM, 11), EntryId::of(TERM, 12));
    let number = MutationNumber::new(13);
    let rename = MoveEntry {
        mutation: MutationName { session: SessionId::new(9), number },
        entry: new,
        from_parent: ROOT,
        from_name: "new".to_owned(),
        to_parent: ROOT,
        to_name: "old".to_owned(),
        replace: true,
        ..Default::default()
    };
    apply(&mut state, rename.into());
    assert_eq!(state.child(ROOT, "old"), Some(new));
    assert!(state.is_hidden(old) && !state.is_hidden(new), "R20");
    let open = OpenChunk { file: old, handle: ChunkHandle::of(TERM, 20), ..Default::default() };
    assert!(matches!(apply(&mut state, open.into()), Applied::Failed(_)), "R20");
}
