//! What is left of a master: a backup, or the directory of one whose group is lost; and an empty
//! directory made that of a master which goes on from it, in a new history (R3).
//!
//! ```text
//!   source: checkpoint ── all records behind it ──► state ── Begin(new history) ──► checkpoint,
//!           (looked at, every page; not changed)                     mark, identity: `into`
//! ```
//! - RE1: all records that are durable count, those too of which nobody knows whether a majority
//!   had them: somebody may have been told that they are done.
//! - RE2: the new directory is another member's. Members of the old group that live, if there are
//!   any, have nothing to do with it, and it does not with them.
//! - RE3: the identity comes last: what was left half made is nobody's, and nothing is founded in
//!   it (`member_directory`, MD2).
//! - RE4: what is said of a source before anything is done is all that will be lost: every page has
//!   been verified, and what is passed over is told.

use crate::master_disk::write_checkpoint;
use crate::member_directory::begin_log;
use crate::open::LOCK_FILE;
use crate::recovery::{RecoveryError, decoded, newest, replay, set_aside};
use cairn_env::{Disk, DiskError, DiskLock, IoFailure, LogEvent};
use cairn_format::{GroupMark, Identity, IdentityKind};
use cairn_master_core::record::Begin;
use cairn_master_core::{Record, State};
use cairn_pagetree::{CheckpointError, Damaged, FileId, PageSink};
use cairn_store::{
    Checkpoints, IdentityError, LogOpenError, OperationLog, PageFileLimits, RecoveredLog,
    SEGMENT_SIZE_STANDARD, cell_of_checkpoints, read_identity, write_identity,
};
use cairn_types::wire::Message;
use cairn_types::{
    CellId, LogIndex, Member, MemberStanding, Members, Random, ReignId, ServerId, Term, WallTime,
};
use std::convert::Infallible;
use std::sync::Arc;

/// Why nothing can be made of a directory, or no directory of it.
#[derive(Debug, thiserror::Error)]
pub enum RemainsError {
    /// A server runs on it.
    #[error("{0}: a server is running on this directory; stop it first")]
    Running(String),
    /// There is nothing of a master in it.
    #[error("{0}: neither a master's directory nor a backup")]
    Nothing(String),
    /// There was a state once, and nothing that gives it.
    #[error("{0}: no checkpoint reads, and no operation log goes back to the first record")]
    NoState(String),
    /// Something is in the way where a directory is to be made.
    #[error("{0} is not empty: '{1}' is in it")]
    NotEmpty(String, String),
    /// There is no term after the one that is lost.
    #[error("no term comes after {0}")]
    TermsSpent(Term),
    /// A page that was whole a moment before is not what was written.
    #[error("the disk gives other bytes each time: {0}")]
    Damaged(Damaged),
    /// Another master sends what was not asked for.
    #[error("more bytes came than were asked for")]
    TooMuch,
    /// The disk refused.
    #[error("{0}")]
    Disk(#[from] DiskError),
    /// The operation log cannot be used.
    #[error("{0}")]
    Log(#[from] LogOpenError),
    /// What is on disk gives no state.
    #[error("{0}")]
    Recovery(#[from] RecoveryError),
}

/// What a directory has.
#[derive(Debug)]
pub struct Remains {
    /// Whose.
    pub cell: CellId,
    /// Whether it is a backup.
    pub is_backup: bool,
    /// The group that it belonged to, nobody where it was alone; none where that is not known.
    pub group: Option<Members>,
    /// Records up to here are committed for certain, as far as is known there.
    pub committed: LogIndex,
    /// The highest term that it has taken part in.
    pub term: Term,
    /// What does not read of it, and was passed over.
    pub told: Vec<LogEvent>,
    state: State,
    /// Nobody else writes there meanwhile.
    _lock: Option<Box<dyn DiskLock>>,
}

/// Takes pages that are verified, and keeps none.
#[derive(Debug, Default)]
struct NoSink(u64);

impl PageSink for NoSink {
    type Error = Infallible;

    fn append(&mut self, page: &[u8]) -> Result<u64, Infallible> {
        let offset = self.0;
        self.0 += page.len() as u64;
        Ok(offset)
    }
}

/// The damage that a state meets where all of it is read.
fn damage_of(state: &State) -> Option<Damaged> {
    if let Some(damaged) = state.damage() {
        return Some(damaged);
    }
    match state.write_image(FileId::fresh(), &mut NoSink::default()) {
        Ok(_) => None,
        Err(CheckpointError::Damaged(damaged)) => Some(damaged),
        Err(CheckpointError::Sink(never)) => match never {},
    }
}

fn lock(disk: &dyn Disk) -> Result<Box<dyn DiskLock>, RemainsError> {
    disk.lock(LOCK_FILE).map_err(|failure| match failure {
        IoFailure::Locked => RemainsError::Running(disk.describe()),
        other => DiskError::from(other).into(),
    })
}

/// Whose a directory is, and whether it is a backup. One that has lost its identity is known by
/// its checkpoints, or by its log.
fn whose(disk: &dyn Disk, told: &mut Vec<LogEvent>) -> Result<(CellId, bool), RemainsError> {
    let identity = match read_identity(disk) {
        Ok(identity) => identity,
        Err(IdentityError::Disk(error)) => return Err(error.into()),
        Err(malformed @ IdentityError::Malformed { .. }) => {
            told.push(LogEvent::error("identity passed over").with("why", malformed));
            None
        }
    };
    let cell = match &identity {
        Some(it) if it.kind == IdentityKind::Chunkserver => None,
        Some(it) => Some(it.cell),
        None => match cell_of_checkpoints(disk)? {
            None => OperationLog::cell_of(disk)?,
            known => known,
        },
    };
    let cell = cell.ok_or_else(|| RemainsError::Nothing(disk.describe()))?;
    Ok((cell, identity.is_some_and(|it| it.kind == IdentityKind::Backup)))
}

impl Remains {
    /// Looks at a directory, all of it, and changes nothing there but for its lock. `without_log`:
    /// for one whose log does not read, what its newest checkpoint has.
    ///
    /// # Errors
    /// [`RemainsError`].
    pub fn of(disk: &Arc<dyn Disk>, without_log: bool) -> Result<Self, RemainsError> {
        let mut told = Vec::new();
        let (cell, is_backup) = whose(disk.as_ref(), &mut told)?;
        // Nobody runs on a backup, and it may lie where nothing can be written.
        let lock = (!is_backup).then(|| lock(disk.as_ref())).transpose()?;
        let mut checkpoints = Checkpoints::look(Arc::clone(disk), cell);
        if let Some(unreadable) = checkpoints.mark_unreadable()? {
            let event = LogEvent::error("checkpoint passed over").with("file", unreadable.path);
            told.push(event.with("why", "the disk cannot read it"));
        }
        let (from, state, mark) = loop {
            let (from, mut state) = newest(&mut checkpoints, &mut told)?;
            let log = match without_log {
                true => RecoveredLog::default(),
                false => OperationLog::read(disk.as_ref(), cell, from.index)?,
            };
            if from.index == LogIndex::default()
                && log.records.first().is_none_or(|(index, _)| index.get() > 1)
            {
                return Err(RemainsError::NoState(disk.describe()));
            }
            let records = decoded(state.applied(), &log.records)?;
            replay(&mut state, &records, LogIndex::new(u64::MAX))?;
            let Some(damaged) = damage_of(&state) else { break (from, state, log.mark) };
            let page_file = from.page_file.expect("a state that reads no file meets no damage");
            set_aside(&mut checkpoints, page_file, &damaged, &mut told)?;
        };
        let mark = mark.as_deref().map(GroupMark::decode).transpose();
        let mark = mark.map_err(|_| RecoveryError::UndecodableMark)?;
        let is_known = mark.is_some() || is_backup || !without_log;
        let alone = GroupMark { committed: state.applied(), ..GroupMark::default() };
        let GroupMark { term, committed, members, .. } = mark.unwrap_or(alone);
        Ok(Self {
            cell,
            is_backup,
            group: is_known.then_some(members),
            committed: committed.max(from.index),
            term: term.max(state.applied_term()),
            told,
            state,
            _lock: lock,
        })
    }

    /// What it has.
    #[must_use]
    pub fn state(&self) -> &State {
        &self.state
    }

    /// Makes an empty directory that of a master that is alone and goes on from this, with the
    /// first term after `past` and a history that begins with it. `seed` feeds what is drawn.
    ///
    /// # Errors
    /// [`RemainsError`]; the directory is nobody's then.
    pub fn begin_history(
        &self,
        into: &Arc<dyn Disk>,
        past: Term,
        (now, seed): (WallTime, u64),
    ) -> Result<(), RemainsError> {
        let past = past.max(self.term);
        if past >= Term::LAST {
            return Err(RemainsError::TermsSpent(past));
        }
        let _lock = begin_directory(into.as_ref())?;
        let mut random = Random::new(seed);
        let me = ServerId::new(random.next_u64() | 1);
        let (term, reign) = (Term::new(past.get() + 1), ReignId::new(random.next_u64() | 1));
        let mut state = self.state.clone();
        let index = state.applied().next();
        let begin = Begin { time: now, term, reign, new_history: true };
        state.apply(index, term, &Record::Begin(begin));
        // It says that there is no log before the checkpoint.
        let alone = Member { id: me, standing: MemberStanding::Voter, ..Member::default() };
        let members = Members { all: vec![alone], as_of: index, ..Members::default() };
        let mark = GroupMark { term, committed: index, members, ..GroupMark::default() };
        begin_log(into, SEGMENT_SIZE_STANDARD, self.cell, &mark)?;
        self.write(into, &state)?;
        let (kind, cell) = (IdentityKind::Master, self.cell);
        let identity = Identity { kind, cell, id: me.get(), begun: true };
        Ok(write_identity(into.as_ref(), &identity)?)
    }

    /// Makes an empty directory a backup of this: a checkpoint of which every page has been looked
    /// at, and no more.
    ///
    /// # Errors
    /// [`RemainsError`]; the directory is nobody's then.
    pub fn back_up(&self, into: &Arc<dyn Disk>) -> Result<(), RemainsError> {
        let _lock = begin_directory(into.as_ref())?;
        self.write(into, &self.state)?;
        let (kind, cell) = (IdentityKind::Backup, self.cell);
        let identity = Identity { kind, cell, id: 0, begun: false };
        Ok(write_identity(into.as_ref(), &identity)?)
    }

    fn write(&self, into: &Arc<dyn Disk>, state: &State) -> Result<(), RemainsError> {
        let limits = PageFileLimits::standard();
        let mut checkpoints = Checkpoints::open(Arc::clone(into), self.cell, limits)?;
        match write_checkpoint(&mut checkpoints, state) {
            Ok(_) => Ok(()),
            Err(CheckpointError::Sink(error)) => Err(error.into()),
            Err(CheckpointError::Damaged(damaged)) => Err(RemainsError::Damaged(damaged)),
        }
    }
}

/// Takes a directory that has nothing in it.
fn begin_directory(disk: &dyn Disk) -> Result<Box<dyn DiskLock>, RemainsError> {
    let held = lock(disk)?;
    let there = disk.list("").map_err(DiskError::from)?;
    // What a file system makes by itself, and the lock.
    let strange = there.iter().find(|name| !["lost+found", LOCK_FILE].contains(&name.as_str()));
    match strange {
        Some(name) => Err(RemainsError::NotEmpty(disk.describe(), name.clone())),
        None => Ok(held),
    }
}
