//! State from disk: the newest good checkpoint, and the log since then (§2.6.3).
//!
//! ```text
//!   newest root that reads ──► mapped state ── log since then ──► damage met? ──► the state
//!         ▲                                                           │ that root is marked
//!         └───────────────────── the one before ──────────────────────┘
//! ```
//! A page is verified when it is first touched: what replay does not touch may show itself damaged
//! while the master runs, which then stops and marks the checkpoint (`driver`, D4). A page that the
//! disk cannot read ends the process that looks at it; the next one marks the checkpoint first.

use bytes::Bytes;
use cairn_consensus::StoredRecord;
use cairn_env::{Disk, DiskError, LogEvent, UnreadableBytes};
use cairn_format::GroupMark;
use cairn_master_core::state::ImageError;
use cairn_master_core::{Record, State};
use cairn_pagetree::Damaged;
use cairn_store::{Checkpoints, LogOpenError, OperationLog, has_checkpoints};
use cairn_types::wire::Message;
use cairn_types::{CellId, LogIndex, ServerId, Term};
use std::sync::Arc;

/// Why what is on disk gives no state.
#[derive(Debug, thiserror::Error)]
pub enum RecoveryError {
    /// The disk refused.
    #[error("{0}")]
    Disk(#[from] DiskError),
    /// The operation log cannot be read.
    #[error("{0}")]
    Log(#[from] LogOpenError),
    /// A checkpoint whose checksums are right makes no sense.
    #[error("checkpoint {index}: {error}; start the build that wrote it")]
    Checkpoint {
        /// As of which record.
        index: LogIndex,
        /// What is wrong with it.
        error: ImageError,
    },
    /// A record whose checksum is right makes no sense.
    #[error("operation log: record {index} does not decode; was it written by a newer build?")]
    Undecodable {
        /// Which.
        index: LogIndex,
    },
    /// Which group it belongs to cannot be told.
    #[error("operation log: its mark does not decode; was it written by a newer build?")]
    UndecodableMark,
    /// There was a checkpoint once, and none of those there are reads.
    #[error(
        "no checkpoint reads, and the operation log does not go back to the first record; restore \
         a backup of the directory"
    )]
    NoCheckpoint,
    /// There is a checkpoint, and no operation log at all.
    #[error(
        "there are checkpoints and no operation log: what was changed since the newest one is in \
         the files of the directory 'log'; put them back, or go on without it: 'cairn masters \
         recover --without-log' says what is lost by that"
    )]
    NoLog,
    /// Records between checkpoint and log are missing.
    #[error("operation log: records {from} to {to} are missing; restore a backup of the directory")]
    Gap {
        /// The first that is missing.
        from: LogIndex,
        /// The first that is there again.
        to: LogIndex,
    },
}

/// The checkpoint that a state was taken from; by default, none.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct TakenFrom {
    pub(crate) index: LogIndex,
    /// The number of the page file that the state reads from.
    pub(crate) page_file: Option<u64>,
}

/// What is on disk, recovered.
#[derive(Debug)]
pub(crate) struct RecoveredState {
    /// As of the last record that is committed for certain.
    pub(crate) state: State,
    pub(crate) log: OperationLog,
    pub(crate) from: TakenFrom,
    /// The group that it belongs to; none where it has always been alone.
    pub(crate) mark: Option<GroupMark>,
    /// Where its log begins, as a group needs it, and what is in it.
    pub(crate) base: (LogIndex, Term),
    pub(crate) records: Vec<(LogIndex, StoredRecord)>,
    /// What a person should know of it.
    pub(crate) told: Vec<LogEvent>,
}

/// The state on a disk, made of the newest checkpoint in which no damage shows.
pub(crate) fn recover(
    disk: &Arc<dyn Disk>,
    (cell, me): (CellId, ServerId),
    segment_size: u64,
    checkpoints: &mut Checkpoints,
) -> Result<RecoveredState, RecoveryError> {
    let mut told = Vec::new();
    if let Some(UnreadableBytes { path, offset }) = checkpoints.mark_unreadable()? {
        let event = LogEvent::error(SET_ASIDE).with("file", path).with_number("from", offset);
        told.push(event.with("why", "the disk cannot read it, which ended the process before"));
    }
    if has_checkpoints(disk.as_ref())? && !OperationLog::has_segments(disk.as_ref())? {
        return Err(RecoveryError::NoLog);
    }
    let (mut from, mut state) = newest(checkpoints, &mut told)?;
    let (log, found) = OperationLog::open(Arc::clone(disk), cell, segment_size, from.index)?;
    let mark = found.mark.as_deref().map(GroupMark::decode).transpose();
    let mark = mark.map_err(|_| RecoveryError::UndecodableMark)?;
    let is_alone = mark.as_ref().is_none_or(|mark| mark.members.is_alone(me));
    let mut records = found.records;
    loop {
        if from.index == LogIndex::default() && !log.reaches_the_beginning() {
            return Err(RecoveryError::NoCheckpoint);
        }
        let base = (state.applied(), state.applied_term());
        let records_after = decoded(base.0, &records)?;
        let last = records_after.last().map_or(base.0, |(index, _)| *index);
        // What was another master's checkpoint has no log before it (CT1).
        if mark.as_ref().is_some_and(|mark| mark.committed > last) {
            return Err(RecoveryError::NoCheckpoint);
        }
        // Of one that is alone all that is durable is committed, and its state holds it before it
        // begins. But a change of members that the mark does not have is for consensus.
        let known = mark.as_ref().map_or(LogIndex::default(), |mark| mark.members.as_of);
        let is_news =
            |(index, stored): &&(LogIndex, StoredRecord)| *index > known && stored.change.is_some();
        let changes = records_after.iter().find(is_news).map(|(index, _)| *index);
        let is_alone = is_alone && changes.is_none();
        let before_change = || LogIndex::new(changes.map_or(u64::MAX, |index| index.get() - 1));
        let sure = match &mark {
            Some(mark) if !mark.members.is_alone(me) => mark.committed.min(before_change()),
            _ => before_change(),
        };
        replay(&mut state, &records_after, sure)?;
        let Some(damaged) = state.damage() else {
            let (base, records) = if is_alone {
                ((state.applied(), state.applied_term()), Vec::new())
            } else {
                (base, records_after)
            };
            return Ok(RecoveredState { state, log, from, mark, base, records, told });
        };
        let page_file = from.page_file.expect("a state that reads no file meets no damage");
        set_aside(checkpoints, page_file, &damaged, &mut told)?;
        (from, state) = newest(checkpoints, &mut told)?;
        records = OperationLog::read(disk.as_ref(), cell, from.index)?.records;
    }
}

/// The event of a checkpoint that is not read again.
const SET_ASIDE: &str = "checkpoint set aside";

pub(crate) fn set_aside(
    checkpoints: &mut Checkpoints,
    page_file: u64,
    damaged: &Damaged,
    told: &mut Vec<LogEvent>,
) -> Result<(), DiskError> {
    checkpoints.mark_damaged(page_file, damaged)?;
    let event = LogEvent::error(SET_ASIDE).with_number("page_file", page_file);
    told.push(event.with_number("from", damaged.offset).with("why", damaged));
    Ok(())
}

/// The newest checkpoint that opens, and its state; empty where there is none.
pub(crate) fn newest(
    checkpoints: &mut Checkpoints,
    told: &mut Vec<LogEvent>,
) -> Result<(TakenFrom, State), RecoveryError> {
    for index in checkpoints.list()? {
        let Some(found) = checkpoints.load(index)? else {
            let event = LogEvent::warn("checkpoint passed over").with_number("index", index.get());
            told.push(event.with("why", "its root does not read, or its page file is not there"));
            continue;
        };
        let (backing, file) = (Arc::clone(&found.mapped.backing), found.mapped.file);
        let page_file = found.root.page_file;
        match State::open_image(backing, file, &found.root.root) {
            Ok(state) => {
                checkpoints.go_on_from(found);
                return Ok((TakenFrom { index, page_file: Some(page_file) }, state));
            }
            Err(ImageError::Damaged(damaged)) => {
                set_aside(checkpoints, page_file, &damaged, told)?;
            }
            Err(error) => return Err(RecoveryError::Checkpoint { index, error }),
        }
    }
    checkpoints.begin_afresh();
    Ok((TakenFrom::default(), State::default()))
}

/// The records behind a checkpoint, one after the other.
pub(crate) fn decoded(
    behind: LogIndex,
    records: &[(LogIndex, Bytes)],
) -> Result<Vec<(LogIndex, StoredRecord)>, RecoveryError> {
    let mut from = behind.next();
    let mut decoded = Vec::with_capacity(records.len());
    for (index, bytes) in records.iter().filter(|(index, _)| *index > behind) {
        if *index != from {
            return Err(RecoveryError::Gap { from, to: *index });
        }
        let undecodable = |_| RecoveryError::Undecodable { index: *index };
        decoded.push((*index, StoredRecord::decode(bytes).map_err(undecodable)?));
        from = index.next();
    }
    Ok(decoded)
}

/// Applies records up to one of them, until the state shows damage.
pub(crate) fn replay(
    state: &mut State,
    records: &[(LogIndex, StoredRecord)],
    until: LogIndex,
) -> Result<(), RecoveryError> {
    for (index, stored) in records.iter().take_while(|(index, _)| *index <= until) {
        if state.damage().is_some() {
            return Ok(());
        }
        if stored.data.is_empty() {
            state.skip_to(*index, stored.term);
        } else {
            let undecodable = |_| RecoveryError::Undecodable { index: *index };
            let record = Record::decode(&stored.data).map_err(undecodable)?;
            state.apply(*index, stored.term, &record);
        }
    }
    Ok(())
}
