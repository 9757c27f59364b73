//! Sees everything at the seam, keeps the ledger, and asks each checker.

use crate::checkers::group_agrees::GroupAgrees;
use crate::checkers::it_heals::{Amiss, CellAtRest, Excused, ServerAtRest};
use crate::checkers::replay_is_state::ReplayIsState;
use crate::checkers::shadow_is_prefix::ShadowIsPrefix;
use crate::checkers::{Checker, Verdict};
use crate::committed_state::CommittedState;
use crate::ledger::Ledger;
use crate::rare_branches::rare_branch;
use crate::report::CheckFailure;
use crate::server_book::ServerBook;
use crate::set_back_master::SetBackMaster;
use bytes::Bytes;
use cairn_consensus::StoredRecord;
use cairn_env::{ChunkDone, ChunkError, ChunkJob, ChunkResult, DiskError};
use cairn_env_sim::{JobWatch, MessageWatch, NodeId, SeenRequest, WorldTime};
use cairn_master::Master;
use cairn_master_core::record::CopyEntries;
use cairn_master_core::{Applied, LogDone, LogJob, LogResult, Record};
use cairn_protocol::{ErrorCode, Failure, Request, Response};
use cairn_store::RecoveredLog;
use cairn_types::wire::Message;
use cairn_types::{ChunkHandle, EntryId, LogIndex, ServerId, Term};
use std::cell::RefCell;
use std::collections::BTreeMap;
use std::rc::Rc;

/// Each record of a stream is in it once (R38 to R44), as reports name it.
pub(crate) const EXACTLY_ONCE: &str = "exactly_once";

/// What checkers share.
pub(crate) struct Observer {
    pub(crate) ledger: Ledger,
    pub(crate) failure: Option<CheckFailure>,
    /// Of whom alone a complaint counts, where it is asked what this one sees by itself.
    pub(crate) only: Option<&'static str>,
    pub(crate) reached: BTreeMap<&'static str, u64>,
    /// Reads answered by replicas that a later logged version had left behind.
    pub(crate) stale_answers: Vec<StaleAnswer>,
    /// Reads answered with the warning that bytes may have been lost (R28): to whom and when.
    pub(crate) suspect_answers: Vec<(NodeId, WorldTime)>,
    /// Who accepted the last lease on each chunk.
    pub(crate) primaries: BTreeMap<ChunkHandle, NodeId>,
    /// When the first record of the snapshot was logged that made an entry.
    snapshot_cuts: BTreeMap<EntryId, WorldTime>,
    /// What the master is started with: the term up to which changes are lost (R3).
    pub(crate) recover_past: Option<Term>,
    /// Which machine is which server.
    pub(crate) servers: ServerBook,
    /// A master that runs with an old copy of its directory.
    pub(crate) set_back: SetBackMaster,
    replay: BTreeMap<NodeId, ReplayIsState>,
    group: GroupAgrees,
    shadows: ShadowIsPrefix,
    committed: CommittedState,
    checkers: Vec<Box<dyn Checker>>,
}

/// A replica that did not know that it is stale answered a read: at its old version, or from an
/// old image of its disk.
#[derive(Clone, Copy, Debug)]
pub(crate) struct StaleAnswer {
    pub(crate) client: NodeId,
    pub(crate) at: WorldTime,
    /// When the version that left it behind was logged, or the old image came back.
    pub(crate) since: WorldTime,
}

impl Observer {
    pub(crate) fn new(checkers: Vec<Box<dyn Checker>>) -> Self {
        Self {
            ledger: Ledger::default(),
            failure: None,
            only: None,
            reached: BTreeMap::new(),
            stale_answers: Vec::new(),
            suspect_answers: Vec::new(),
            primaries: BTreeMap::new(),
            snapshot_cuts: BTreeMap::new(),
            recover_past: None,
            servers: ServerBook::default(),
            set_back: SetBackMaster::default(),
            replay: BTreeMap::new(),
            group: GroupAgrees::default(),
            shadows: ShadowIsPrefix::default(),
            committed: CommittedState::default(),
            checkers,
        }
    }

    pub(crate) fn fail(&mut self, at: WorldTime, checker: &'static str, message: String) {
        if self.only.is_none_or(|only| only == checker) {
            self.failure.get_or_insert(CheckFailure { checker, message, at });
        }
    }

    /// Those checkers watch no more that believe what the members of a set say to each other: one
    /// of them lies. The others go on.
    pub(crate) fn somebody_lies(&mut self) {
        let kept = [
            "one_primary",
            "terms_fence",
            "version_first",
            "spent_numbers",
            "no_live_chunk_collected",
        ];
        self.checkers.retain(|checker| kept.contains(&checker.name()));
    }

    pub(crate) fn reach(&mut self, what: &'static str) {
        self.reach_times(what, 1);
    }

    pub(crate) fn reach_times(&mut self, what: &'static str, times: u64) {
        *self.reached.entry(what).or_default() += times;
    }

    fn ask(&mut self, at: WorldTime, question: impl Fn(&mut dyn Checker, &Ledger) -> Verdict) {
        let mut complaints = Vec::new();
        for checker in &mut self.checkers {
            if let Err(message) = question(checker.as_mut(), &self.ledger) {
                complaints.push((checker.name(), message));
            }
        }
        for (name, message) in complaints {
            self.fail(at, name, message);
        }
    }

    /// A master has recovered its state; its life begins next.
    pub(crate) fn master_opened(
        &mut self,
        (node, id): (NodeId, ServerId),
        in_group: bool,
        master: Rc<RefCell<Master>>,
    ) {
        if self.set_back.is(node) {
            return;
        }
        {
            let opened = master.borrow();
            self.group.opened(node, id, in_group.then(|| opened.members()));
        }
        self.replay.entry(node).or_default().opened(in_group, master);
    }

    /// Whether it is not known what failed appends have left on a master's disk.
    pub(crate) fn doubts_log(&self, node: NodeId) -> bool {
        !self.set_back.is(node) && self.group.is_doubtful(node)
    }

    /// When the first record of the snapshot was logged that made this entry.
    pub(crate) fn snapshot_cut(&self, entry: EntryId) -> Option<WorldTime> {
        self.snapshot_cuts.get(&entry).copied()
    }

    /// The record that a master's own history begins behind: up to there it has a checkpoint that
    /// was another's, and no log.
    pub(crate) fn begun(&self, master: NodeId) -> LogIndex {
        self.replay.get(&master).map_or(LogIndex::default(), ReplayIsState::begun)
    }

    /// The term of a master that runs, as far as it has begun it.
    pub(crate) fn term_of(&self, master: NodeId) -> Option<Term> {
        self.replay.get(&master)?.term()
    }

    /// From now on a master runs with an old copy of its directory: what it does is in no history,
    /// until it has its own again.
    pub(crate) fn master_set_back(&mut self, master: NodeId) {
        self.set_back.begin(master, self.replay.remove(&master));
    }

    /// A master has its own directory again.
    pub(crate) fn master_put_forward(&mut self, master: NodeId) {
        self.replay.extend(self.set_back.end(master).map(|replay| (master, replay)));
    }

    /// A master of a group has started, and this is in its log: now it is known.
    pub(crate) fn found_in_log(&mut self, node: NodeId, log: RecoveredLog) {
        let mark = log.mark.into_iter().map(|mark| (LogIndex::default(), mark));
        self.group.found(node, &log.records.into_iter().chain(mark).collect::<Vec<_>>());
    }

    /// A master's disk has been emptied: who it was is no more.
    pub(crate) fn master_emptied(&mut self, node: NodeId) {
        self.group.emptied(node);
        self.replay.remove(&node);
    }

    /// Whether the cell of a master stands as its log says, with these servers.
    pub(crate) fn judge_at_rest(
        &mut self,
        master: NodeId,
        servers: Vec<ServerAtRest>,
    ) -> Result<Excused, Amiss> {
        let replay = self.replay.get_mut(&master);
        match replay.map_or(Ok(None), ReplayIsState::state)? {
            Some(state) => CellAtRest { state, ledger: &self.ledger, servers }.judge(),
            None => Err("no master runs".to_owned().into()),
        }
    }

    /// Chunks of the cell of a master that wait for a person's decision, with these servers.
    pub(crate) fn undecided_at_rest(
        &mut self,
        master: NodeId,
        servers: Vec<ServerAtRest>,
    ) -> Vec<ChunkHandle> {
        let replay = self.replay.get_mut(&master);
        let state = replay.and_then(|replay| replay.state().ok().flatten());
        let cell = state.map(|state| CellAtRest { state, ledger: &self.ledger, servers });
        cell.map(|cell| cell.undecided()).unwrap_or_default()
    }

    /// A backup of the master's disk came back: its log begins again somewhere in the past.
    pub(crate) fn master_restored(&mut self) {
        self.replay.values_mut().for_each(ReplayIsState::give_up);
        self.committed.give_up();
    }

    /// Compares all masters' states with what their logs say, and with each other.
    pub(crate) fn check_replay_of_all(&mut self, at: WorldTime) {
        for node in self.replay.keys().copied().collect::<Vec<_>>() {
            self.check_replay(at, node, ReplayIsState::check);
        }
    }

    /// Compares a master's state with what its log says, and what it has applied with the others.
    fn check_replay(
        &mut self,
        at: WorldTime,
        node: NodeId,
        check: impl Fn(&mut ReplayIsState) -> Verdict,
    ) {
        let Some(replay) = self.replay.get_mut(&node) else { return };
        let verdict = check(replay);
        let seen = replay.take_seen();
        self.settle(at);
        if let Err(message) = verdict {
            self.fail(at, ReplayIsState::NAME, message);
        }
        if let Err(message) = self.group.applied(node, seen) {
            self.fail(at, GroupAgrees::NAME, message);
        }
    }

    /// A master's log has these entries durably.
    fn appended(&mut self, at: WorldTime, node: NodeId, entries: &[(LogIndex, Bytes)]) {
        match self.group.appended(node, entries) {
            Ok(committed) => {
                for record in committed.iter().filter_map(|entry| record_of(entry)) {
                    self.logged(at, &record);
                }
            }
            Err(message) => self.fail(at, GroupAgrees::NAME, message),
        }
    }

    /// What is committed by who votes now, and not by what a disk has got.
    fn settle(&mut self, at: WorldTime) {
        for record in self.group.settle().iter().filter_map(|entry| record_of(entry)) {
            self.logged(at, &record);
        }
    }

    fn logged(&mut self, at: WorldTime, record: &Record) {
        let applied = self.committed.apply(record);
        if let Some(Applied::Failed(why)) = &applied {
            if why.code == ErrorCode::QuotaExceeded {
                self.reach("record refused for a quota");
            }
            return;
        }
        if let Some(applied) = &applied {
            self.logged_of_stream(at, record, applied);
        }
        match record {
            Record::OpenChunk(open) => {
                if let Some(closes) = open.closes {
                    self.ledger.chunk(closes).closed = true;
                    self.reach("chunk closed");
                }
                if self.ledger.by_place.contains_key(&(open.file, open.index)) {
                    return;
                }
                self.ledger.by_place.insert((open.file, open.index), open.handle);
                let chunk = self.ledger.chunk(open.handle);
                (chunk.file, chunk.index) = (open.file, open.index);
                chunk.logged.insert(open.version, open.set_size);
                chunk.logged_at.insert(open.version, at);
                self.reach("chunk opened");
            }
            Record::CopyEntries(copies) => self.copied(at, copies),
            Record::SnapshotTree(last) => self.ledger.snapshot_over(last.top, true),
            Record::DiscardSnapshot(given_up) => self.ledger.snapshot_over(given_up.top, false),
            Record::Begin(_) => {
                self.ledger.snapshots_given_up();
                self.ledger.stopped.term_begins(at);
            }
            Record::CopyOnWrite(own) => {
                let place = (own.file, own.index);
                if self.ledger.by_place.get(&place) != Some(&own.shared) {
                    return;
                }
                self.ledger.by_place.insert(place, own.handle);
                self.ledger.copied_on_write(own.shared, own.handle);
                for (handle, version, set_size) in [
                    (own.shared, own.shared_version, own.shared_set_size),
                    (own.handle, own.version, own.set_size),
                ] {
                    let chunk = self.ledger.chunk(handle);
                    chunk.logged.insert(version, set_size);
                    chunk.logged_at.insert(version, at);
                }
                let chunk = self.ledger.chunk(own.handle);
                (chunk.file, chunk.index) = place;
                self.reach("chunk copied on write");
            }
            Record::CloseChunk(close) => self.ledger.chunk(close.handle).closed = true,
            Record::SetVersion(set) => {
                let before = self.ledger.chunk(set.handle).version().map_or(0, |(_, size)| size);
                let chunk = self.ledger.chunk(set.handle);
                chunk.logged.insert(set.version, set.set_size);
                chunk.logged_at.insert(set.version, at);
                if set.keeps_above.is_some() {
                    (chunk.decided, chunk.decided_at) = (true, set.version);
                }
                self.ledger.note_went_on(set, at);
                self.reach(if set.set_size < before { "set shrunk" } else { "version raised" });
            }
            Record::SetDrain(set) => self.servers.drains(set.server, set.drains),
            Record::ForgetServer(forget) => self.servers.forgotten(forget.server),
            _ => {}
        }
        self.ask(at, |checker, ledger| checker.logged(record, ledger));
    }
}

impl Observer {
    /// All of a chunk was replaced (R46): it is nobody's any more.
    fn let_go_of(&mut self, gone: ChunkHandle) {
        let chunk = self.ledger.chunk(gone);
        let place = (chunk.file, chunk.index);
        self.ledger.by_place.remove(&place);
        self.reach("replaced chunk let go of");
    }

    /// What a record of the log says of a stream.
    fn logged_of_stream(&mut self, at: WorldTime, record: &Record, applied: &Applied) {
        let committed = match self.ledger.streams.take(record, applied) {
            Ok(committed) => committed,
            Err(message) => return self.fail(at, EXACTLY_ONCE, message),
        };
        for note in committed {
            self.reach("bundle committed");
            if let Err(message) = self.ledger.bundle_committed(&note, at) {
                self.fail(at, EXACTLY_ONCE, message);
            }
        }
        match record {
            Record::OpenProducer(_) => self.reach("producer opened"),
            Record::AllocateChunk(new) => {
                self.ledger.by_place.insert((new.file, new.index), new.handle);
                let chunk = self.ledger.chunk(new.handle);
                (chunk.file, chunk.index) = (new.file, new.index);
                chunk.raised(new.version, new.set_size, at);
                self.reach("stream's chunk allocated");
            }
            Record::SealChunk(seal) => {
                let chunk = self.ledger.chunk(seal.handle);
                chunk.closed = true;
                chunk.raised(seal.version, seal.set_size, at);
                let lost = seal.serial.is_none();
                chunk.decided |= lost;
                self.reach(if lost {
                    "stream's chunk sealed by decision"
                } else {
                    "stream's chunk sealed"
                });
            }
            Record::ReplaceRange(replace) => {
                let Applied::RangeReplaced(done) = applied else { return };
                self.ledger.range_replaced(replace, &done.places, at);
                self.reach("range of a stream settled");
                if !done.chunks.is_empty() {
                    self.reach("settled chunk let go of");
                }
            }
            Record::CommitBundles(_) => {
                let Applied::BundlesCommitted(done) = applied else { return };
                done.gone.iter().for_each(|gone| self.let_go_of(*gone));
            }
            Record::NoteSettled(_) => self.reach("stream found settled"),
            Record::AbandonChunk(abandon) => {
                // Nothing is in it, as the books of streams judge: a copy that has it, too, next
                // lets go of it.
                self.ledger.by_place.retain(|_, chunk| *chunk != abandon.handle);
                self.reach("stream's chunk abandoned");
            }
            _ => {}
        }
    }
}

impl JobWatch<ChunkJob, ChunkResult> for Observer {
    fn ran(&mut self, at: WorldTime, node: NodeId, job: &ChunkJob, result: &ChunkResult) {
        self.ask(at, |checker, ledger| checker.chunk_job(node, job, result, ledger));
        if result.is_ok() && !matches!(result, Ok(ChunkDone::Trashed { gone: false })) {
            self.ledger.disk_did(node, job);
        }
        if let Err(ChunkError::Disk(_)) = result {
            self.ledger.disk_failed_at(node, job);
        }
        if let Err(ChunkError::Disk(DiskError::SyncFailed(_))) = result {
            self.ledger.sync_failed(node);
        }
    }
}

impl JobWatch<LogJob, LogResult> for Observer {
    fn ran(&mut self, at: WorldTime, node: NodeId, job: &LogJob, result: &LogResult) {
        if self.set_back.is(node) {
            return;
        }
        self.replay.entry(node).or_default().ran(job, result.is_ok());
        if result.is_err() {
            if let LogJob::Append(entries) = job {
                self.group.may_have(node, entries);
            }
            return self.reach("log write failed");
        }
        match job {
            LogJob::Append(entries) => self.appended(at, node, entries),
            LogJob::Checkpoint(_) => {
                self.reach("checkpoint");
                self.check_replay(at, node, ReplayIsState::check);
            }
            LogJob::Free(_) => {
                self.reach("state reads from its checkpoint");
                self.check_replay(at, node, ReplayIsState::check);
            }
            LogJob::TakeRoom => self.reach("room for the log asked for"),
            LogJob::MarkDamaged { .. } => self.reach("checkpoint marked as damaged"),
            LogJob::ReadCheckpoint(_) => self.reach("piece of a checkpoint read"),
            LogJob::KeepPiece { .. } => self.reach("piece of a checkpoint kept"),
            LogJob::TakeOver(_) => self.take_over(at, node, result),
        }
    }
}

impl Observer {
    /// A slice of a snapshot is logged.
    fn copied(&mut self, at: WorldTime, copies: &CopyEntries) {
        let cut = *self.snapshot_cuts.entry(copies.top).or_insert(at);
        for entry in &copies.entries {
            self.snapshot_cuts.insert(entry.id, cut);
            let places = (entry.first, entry.count);
            self.ledger.copied(copies.top, (entry.source, entry.id), places);
        }
        self.reach("tree copied");
    }

    /// A master has another's checkpoint on its disk.
    fn take_over(&mut self, at: WorldTime, node: NodeId, result: &LogResult) {
        let Ok(LogDone::TakenOver(Some(taken))) = result else {
            if result.is_ok() {
                self.replay.entry(node).or_default().may_take_over();
            }
            return self.reach("checkpoint of another master does not read");
        };
        self.reach("checkpoint of another master taken over");
        self.took_over(at, node, taken.state.applied());
    }

    /// What a master has begins with a checkpoint as of this record, which was another's.
    fn took_over(&mut self, at: WorldTime, node: NodeId, index: LogIndex) {
        self.settle(at);
        match self.group.stood_for(index) {
            Ok(committed) => self.replay.entry(node).or_default().take_over(committed),
            Err(message) => self.fail(at, GroupAgrees::NAME, message),
        }
    }
}

impl MessageWatch for Observer {
    fn delivered(&mut self, seen: &SeenRequest<'_>) {
        if let Request::Heartbeat(beat) = seen.request {
            self.ledger.told_of(seen.from, beat);
            self.ledger.stopped.heard(seen.from, seen.at);
            self.set_back.note_served(seen.from, (beat.served.term, seen.at));
        }
        if let Request::Inventory(slice) = seen.request {
            self.ledger.inventory(seen.from, slice);
        }
        if let Request::Join(join) = seen.request {
            self.servers.wants_to_join(seen.from, join);
        }
        self.ask(seen.at, |checker, ledger| checker.delivered(seen, ledger));
    }

    fn answered(&mut self, seen: &SeenRequest<'_>, answer: &Result<Response, Failure>) {
        rare_branch(seen, answer).into_iter().for_each(|branch| self.reach(branch));
        self.note_stale(seen, answer);
        match self.set_back.judge(seen, answer) {
            Ok(Some(reached)) => self.reach(reached),
            Ok(None) => {}
            Err(message) => self.fail(seen.at, SetBackMaster::NAME, message),
        }
        if let (Request::GrantLease(grant), Ok(_)) = (seen.request, answer) {
            self.primaries.insert(grant.handle, seen.to);
        }
        if let (Request::AskShadow(ask), Ok(Response::AskShadow(word))) = (seen.request, answer) {
            let by = (seen.at, seen.to);
            for applied in self.replay.values().filter_map(ReplayIsState::applied_by_now) {
                self.shadows.applied(seen.at, applied);
            }
            self.settle(seen.at);
            if let Err(message) = self.shadows.answered(by, ask, word, &self.group) {
                self.fail(seen.at, ShadowIsPrefix::NAME, message);
            }
            self.reach("a shadow master answered");
        }
        if answer.is_ok() {
            self.ledger.note_synced(seen.request);
        }
        if let Ok(Response::Raise(raised)) = answer {
            self.ledger.raised(seen.to, &raised.replica);
        }
        if let (Request::Join(join), Ok(_)) = (seen.request, answer) {
            self.servers.joined(seen.from, join);
        }
        if let (Request::Fetch(fetch), Ok(_)) = (seen.request, answer) {
            self.ledger.fetched(seen.from, seen.to, fetch);
        }
        let applied = crate::acknowledged_mutation::acknowledges(seen.request, answer);
        if let Some((handle, push, serial)) = applied {
            self.ledger.acknowledge(handle, push, serial, seen.at);
        }
        self.ask(seen.at, |checker, ledger| checker.answered(seen, answer, ledger));
    }

    fn lives(&mut self, at: WorldTime, node: NodeId, alive: bool) {
        if let Some(replay) = self.replay.get(&node) {
            if alive {
                for record in replay.found_on_disk().iter().filter_map(|it| record_of(it)) {
                    self.reach("record found whose append had failed");
                    self.logged(at, &record);
                }
                let may_have = self.group.take_may_have(node);
                self.appended(at, node, &may_have);
                if let Some(index) = self.replay[&node].took_over_after_all() {
                    self.reach("checkpoint of another master reads after a restart");
                    self.took_over(at, node, index);
                }
            }
            let check = if alive { ReplayIsState::recovered } else { ReplayIsState::check };
            self.check_replay(at, node, check);
        }
        if alive {
            self.ledger.started(node);
        } else {
            self.ledger.stopped.note(node, at);
            self.servers.stopped(node);
        }
        for checker in &mut self.checkers {
            checker.lives(node, alive);
        }
    }
}

impl Observer {
    fn note_stale(&mut self, seen: &SeenRequest<'_>, answer: &Result<Response, Failure>) {
        let (Request::Read(read), Ok(Response::Read(given))) = (seen.request, answer) else {
            return;
        };
        if given.suspect {
            self.suspect_answers.push((seen.from, seen.at));
            self.reach("read answered by a suspect replica, with a warning");
        }
        // A chunk that was never logged has no version that left the replica behind.
        let Some(chunk) = self.ledger.chunks.get(&read.handle) else { return };
        let left_behind = chunk.logged_at.iter().find(|(logged, _)| **logged > read.version);
        let turned_back = chunk.replicas.get(&seen.to).and_then(|replica| replica.turned_back);
        if let Some(since) = left_behind.map(|(_, since)| *since).or(turned_back) {
            let stale = StaleAnswer { client: seen.from, at: seen.at, since };
            self.stale_answers.push(stale);
            self.reach("read answered by a replica left behind");
        }
    }
}

/// The record in an entry of the operation log, where there is one.
fn record_of(entry: &[u8]) -> Option<Record> {
    let stored = StoredRecord::decode(entry).ok()?;
    Record::decode(&stored.data).ok()
}
