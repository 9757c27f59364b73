//! Applying a record: the one way in which durable state changes (S1).

use super::apply_chunks::{ChunkChanges, handle_taken};
use super::apply_policy::PolicyChanges;
use super::apply_purge::Purges;
use super::apply_quota::change_quota;
use super::apply_settings::change_settings;
use super::apply_snapshot::SnapshotChanges;
use super::apply_streams::StreamChanges;
use super::purged::DecidedSet;
use super::{Remembered, State};
use crate::applied::{Applied, Changed, ChunkAbandoned, RangeReplaced};
use crate::record::{
    ATTRIBUTES_LEVEL, Begin, CURSORS_KEPT_LEVEL, EXCLUSIVE_LEVEL, FoundCell, HEIR_LEVEL,
    LOST_LEVEL, QUOTA_LEVEL, RANGE_LEVEL, Record, SHARED_GOAL_LEVEL, SNAPSHOT_LEVEL, STREAM_LEVEL,
    SetCellSettings,
};
use cairn_protocol::{ErrorCode, Failure};
use cairn_types::planted::{Rule, broken};
use cairn_types::{Attributes, ChunkHandle, ChunkIndex, EntryId, LogIndex, Term, WallTime};
use std::collections::BTreeSet;
use std::time::Duration;

/// Log time ends where a checkpoint can no longer say it, which no honest clock comes near to.
pub(super) const LOG_TIME_MAX: Duration = Duration::from_millis(u64::MAX);

/// Answered where the record of a mutation may have come a second time: its outcome, if there was
/// one, is gone.
fn too_old() -> Failure {
    let line = "this mutation is older than what the master remembers; it may have been done";
    Failure::unknown(ErrorCode::TooOld, line)
}

impl State {
    /// Applies the record at `index`, proposed in `term`, and says what came of it.
    ///
    /// Total: a record whose preconditions no longer hold changes nothing but the remembered
    /// outcome (R23).
    pub fn apply(&mut self, index: LogIndex, term: Term, record: &Record) -> Applied {
        self.skip_to(index, term);
        self.pass_time(record);
        self.outcomes.forget(self.log_time, Duration::from_millis(self.config.retry_window_ms));
        let mutation = record.mutation().filter(|_| !broken(Rule::R24));
        if let Some(mutation) = mutation {
            match self.outcomes.get(mutation) {
                Remembered::New => {}
                Remembered::Done(outcome) => return outcome,
                Remembered::TooOld => return Applied::Failed(too_old()),
            }
        }
        let outcome = change(self, record).unwrap_or_else(Applied::Failed);
        if let Some(mutation) = mutation {
            self.outcomes.keep(self.log_time, mutation, outcome.clone());
        }
        outcome
    }

    /// Passes an entry of the log that holds no record (the consensus library's own).
    pub fn skip_to(&mut self, index: LogIndex, term: Term) {
        assert!(index > self.applied, "the log is applied in order");
        self.applied = index;
        self.applied_term = term;
    }

    /// Log time goes by between the records of one term (S2).
    fn pass_time(&mut self, record: &Record) {
        let time = record.time();
        if matches!(record, Record::Begin(_) | Record::FoundCell(_)) {
            self.last_record = time;
            return;
        }
        self.log_time = self.log_time_at(time);
        self.last_record = self.last_record.max(time);
    }

    fn begin(&mut self, record: &Begin) -> Applied {
        self.term = record.term;
        self.term_began = record.time;
        let reign = (record.term, record.reign);
        self.history.begin(reign, record.new_history, self.applied);
        // R34: who was making one is no master any more.
        snapshot_changes(self).discard_all();
        Applied::Changed(Changed::default())
    }

    fn found_cell(&mut self, record: &FoundCell) -> Result<Applied, Failure> {
        if !self.cell.is_none() {
            let line = format!("cell {} is founded already", self.cell);
            return Err(Failure::refused(ErrorCode::AlreadyExists, line));
        }
        self.cell = record.cell;
        self.config = record.config.clone().completed();
        Ok(Applied::Changed(Changed::default()))
    }
}

/// What a record changes.
fn change(state: &mut State, record: &Record) -> Result<Applied, Failure> {
    match record {
        Record::Begin(record) => Ok(state.begin(record)),
        Record::FoundCell(record) => state.found_cell(record),
        Record::AddDirectories(record) => {
            let attributes = attributes_of(state, record.attributes);
            state.names.add_directories(record, attributes)
        }
        Record::AddFile(record) => {
            let attributes = attributes_of(state, record.attributes);
            state.names.add_file(record, attributes)
        }
        Record::ChangeAttributes(record) => {
            state.check_level(ATTRIBUTES_LEVEL, "attributes")?;
            state.names.change_attributes(record)
        }
        Record::MoveEntry(record) => state.names.move_entry(record, state.log_time),
        Record::HideEntry(record) => state.names.hide_entry(record, state.log_time),
        Record::OpenChunk(record) => {
            purges(state).raise_floor(record.floor);
            // What was let go of is garbage somewhere.
            if state.is_purged(record.handle) && !broken(Rule::R1) {
                return Err(handle_taken(record.handle));
            }
            chunk_changes(state).open_chunk(record)
        }
        Record::CloseChunk(record) => chunk_changes(state).close_chunk(record),
        Record::SetVersion(record) => {
            check_held(state, record.held)?;
            let set = chunk_changes(state).set_version(record)?;
            if let Some(serial) = record.keeps_above {
                let decision = DecidedSet { serial, version: record.version };
                state.purged.keep_above(record.handle, decision);
            }
            Ok(set)
        }
        Record::SetLength(record) => chunk_changes(state).set_length(record),
        Record::Refuse(record) => Err(record.failure.clone()),
        Record::KnowServer(record) => state.servers.know_server(record),
        Record::ForgetServer(record) => state.servers.forget_server(record),
        Record::SetDrain(record) => state.servers.set_drain(record),
        Record::SetBalance(record) => Ok(state.servers.set_balance(record)),
        Record::Expedite(record) => purges(state).expedite(record),
        Record::Purge(record) => purges(state).purge(record),
        Record::LetGo(record) => purges(state).let_go(record),
        Record::ChangePolicy(record) => policy_changes(state).change_policy(record),
        Record::ApplyPolicy(record) => policy_changes(state).apply_policy(record),
        Record::EndPolicyJob(record) => policy_changes(state).end_job(record),
        Record::ChangeQuota(record) => {
            state.check_level(QUOTA_LEVEL, "quotas")?;
            change_quota(&mut state.names, record)
        }
        Record::CopyEntries(_)
        | Record::SnapshotTree(_)
        | Record::DiscardSnapshot(_)
        | Record::CopyStream(_)
        | Record::CopyOnWrite(_) => change_snapshots(state, record),
        Record::OpenProducer(_)
        | Record::CloseProducer(_)
        | Record::ForgetProducer(_)
        | Record::AllocateChunk(_)
        | Record::CommitBundles(_)
        | Record::SealChunk(_)
        | Record::SkipLost(_)
        | Record::AbandonChunk(_) => change_streams(state, record),
        Record::ReplaceRange(_) | Record::NoteSettled(_) => change_ranges(state, record),
        Record::SetCellSettings(record) => set_cell_settings(state, record),
        Record::RaiseLevel(record) => {
            state.level = state.level.max(record.level);
            Ok(Applied::Changed(Changed::default()))
        }
    }
}

fn set_cell_settings(state: &mut State, record: &SetCellSettings) -> Result<Applied, Failure> {
    if record.settle_rate.is_some() || record.settle_after_ms.is_some() {
        state.check_level(RANGE_LEVEL, "settling")?;
    }
    if record.cursors_kept_ms.is_some() {
        state.check_level(CURSORS_KEPT_LEVEL, "how long cursors are kept")?;
    }
    change_settings(&mut state.config, record)
}

/// Those of a record, where the log may have them: an image of a lower level has no room.
fn attributes_of(state: &State, told: Option<Attributes>) -> Option<Attributes> {
    told.filter(|_| state.level >= ATTRIBUTES_LEVEL)
}

fn policy_changes(state: &mut State) -> PolicyChanges<'_> {
    let (names, chunks) = (&mut state.names, &mut state.chunks);
    let shared = &state.shared;
    PolicyChanges { names, chunks, shared, policies: &mut state.policies, config: &state.config }
}

fn purges(state: &mut State) -> Purges<'_> {
    Purges {
        names: &mut state.names,
        chunks: &mut state.chunks,
        shared: &mut state.shared,
        policies: &mut state.policies,
        purged: &mut state.purged,
        streams: &mut state.streams,
        history: &mut state.history,
        log_time: state.log_time,
        lowers_goals: state.level >= SHARED_GOAL_LEVEL,
        has_heirs: state.level >= HEIR_LEVEL,
    }
}

fn chunk_changes(state: &mut State) -> ChunkChanges<'_> {
    let chunk_size = state.config.chunk_size;
    let charges = state.level >= QUOTA_LEVEL;
    let (names, chunks) = (&mut state.names, &mut state.chunks);
    ChunkChanges { names, chunks, shared: &state.shared, chunk_size, charges }
}

fn change_snapshots(state: &mut State, record: &Record) -> Result<Applied, Failure> {
    // An image of level 0 has no room for what comes of it.
    state.check_level(SNAPSHOT_LEVEL, "a snapshot")?;
    match record {
        Record::CopyEntries(record) => snapshot_changes(state).copy_entries(record),
        Record::SnapshotTree(record) => snapshot_changes(state).finish(record),
        Record::DiscardSnapshot(record) => snapshot_changes(state).discard(record),
        Record::CopyStream(record) => snapshot_changes(state).copy_stream(record),
        Record::CopyOnWrite(record) => {
            purges(state).raise_floor(record.floor);
            if state.is_purged(record.handle) {
                return Err(handle_taken(record.handle));
            }
            snapshot_changes(state).copy_on_write(record)
        }
        other => unreachable!("{other:?} is not about snapshots"),
    }
}

fn change_streams(state: &mut State, record: &Record) -> Result<Applied, Failure> {
    // An image of a lower level has no room for what comes of it.
    state.check_level(STREAM_LEVEL, "a stream")?;
    match record {
        Record::OpenProducer(record) => {
            if record.name.is_empty() {
                state.check_level(EXCLUSIVE_LEVEL, "an exclusive opening")?;
            }
            stream_changes(state).open_producer(record)
        }
        Record::CloseProducer(record) => stream_changes(state).close_producer(record),
        Record::ForgetProducer(record) => stream_changes(state).forget_producer(record),
        Record::AllocateChunk(record) => {
            purges(state).raise_floor(record.floor);
            if state.is_purged(record.handle) {
                return Err(handle_taken(record.handle));
            }
            stream_changes(state).allocate(record)
        }
        Record::CommitBundles(record) => {
            let (mut committed, unnamed) = stream_changes(state).commit(record)?;
            committed.gone = let_go(state, (record.file, record.time), unnamed);
            Ok(Applied::BundlesCommitted(committed))
        }
        Record::SealChunk(record) => {
            check_held(state, record.held)?;
            let sealed = stream_changes(state).seal(record)?;
            if let Some(serial) = record.keeps_above {
                let decision = DecidedSet { serial, version: record.version };
                state.purged.keep_above(record.handle, decision);
            }
            Ok(sealed)
        }
        Record::SkipLost(record) => {
            state.check_level(LOST_LEVEL, "a hole in a stream")?;
            stream_changes(state).skip_lost(record)
        }
        Record::AbandonChunk(record) => {
            let place = stream_changes(state).abandon(record)?;
            purges(state).take_abandoned(place, record.handle);
            // A snapshot may have it, too.
            Ok(match state.chunks.contains(record.handle) {
                true => Applied::Changed(Changed::default()),
                false => Applied::ChunkAbandoned(ChunkAbandoned { handle: record.handle }),
            })
        }
        other => unreachable!("{other:?} is not about streams"),
    }
}

/// An image of a lower level has no room for what was lost.
fn check_held(state: &State, held: Option<u64>) -> Result<(), Failure> {
    held.map_or(Ok(()), |_| state.check_level(LOST_LEVEL, "what a stream has lost"))
}

/// Chunks that no extent of the file names any more leave it (R46); those that nobody else has.
fn let_go(
    state: &mut State,
    (file, time): (EntryId, WallTime),
    unnamed: BTreeSet<ChunkIndex>,
) -> Vec<ChunkHandle> {
    let mut gone = Vec::new();
    for index in unnamed {
        // None where its page cannot be read, which was noted.
        let Some(handle) = state.chunk_at(file, index) else { continue };
        let writer = state.streams.open_chunk(handle).map(|row| row.file);
        if writer == Some(file) || state.level < HEIR_LEVEL {
            stream_changes(state).stop_writing(handle, time);
        }
        purges(state).take_abandoned((file, index), handle);
        if !state.chunks.contains(handle) {
            gone.push(handle);
        }
    }
    gone
}

fn stream_changes(state: &mut State) -> StreamChanges<'_> {
    StreamChanges {
        names: &mut state.names,
        chunks: &mut state.chunks,
        streams: &mut state.streams,
        chunk_size: state.config.chunk_size,
        cursors_kept_ms: state.config.cursors_kept_ms,
        settles: state.level >= RANGE_LEVEL,
    }
}

/// A range of a stream gets another chunk, or how far it is settled is noted (R45).
fn change_ranges(state: &mut State, record: &Record) -> Result<Applied, Failure> {
    // An image of a lower level has no room for what comes of it.
    state.check_level(RANGE_LEVEL, "another chunk for a range of a stream")?;
    match record {
        Record::ReplaceRange(record) => {
            purges(state).raise_floor(record.floor);
            if state.is_purged(record.handle) {
                return Err(handle_taken(record.handle));
            }
            let left = stream_changes(state).replace_range(record)?;
            for (index, handle) in &left {
                purges(state).take_abandoned((record.file, *index), *handle);
            }
            let places = left.iter().map(|(index, _)| *index).collect();
            // Snapshots may have some of them, too.
            let gone = left.into_iter().map(|(_, handle)| handle);
            let chunks = gone.filter(|handle| !state.chunks.contains(*handle)).collect();
            Ok(Applied::RangeReplaced(RangeReplaced { chunks, places }))
        }
        Record::NoteSettled(record) => stream_changes(state).note_settled(record),
        other => unreachable!("{other:?} is not about ranges of streams"),
    }
}

fn snapshot_changes(state: &mut State) -> SnapshotChanges<'_> {
    SnapshotChanges {
        names: &mut state.names,
        chunks: &mut state.chunks,
        shared: &mut state.shared,
        snapshots: &mut state.snapshots,
        policies: &mut state.policies,
        streams: &mut state.streams,
        chunk_size: state.config.chunk_size,
        settles: state.level >= RANGE_LEVEL,
        lowers_goals: state.level >= SHARED_GOAL_LEVEL,
    }
}
