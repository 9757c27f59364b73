//! What is left of a master: a backup, or the directory of one whose group is lost; and an empty
//! directory made that of a master which goes on from it, in a new history (R3).
//!
//! ```text
//!   source: checkpoint ── all records behind it ──► state ── Begin(new history) ──► checkpoint,
//!           (untouched but for damage that is marked)                    mark, identity: `into`
//! ```
//! - RE1: all records that are durable count, those too of which nobody knows whether a majority
//!   had them: somebody may have been told that they are done.
//! - RE2: the new directory is another member's. Members of the old group that live, if there are
//!   any, have nothing to do with it, and it does not with them.
//! - RE3: the identity comes last: what was left half made is nobody's, and nothing is founded in
//!   it (`member_directory`, MD2).

use crate::master_disk::write_checkpoint;
use crate::member_directory::begin_log;
use crate::open::LOCK_FILE;
use crate::recovery::{RecoveryError, decoded, newest, replay, set_aside};
use cairn_env::{Disk, DiskError, DiskLock, IoFailure};
use cairn_format::{GroupMark, Identity, IdentityKind};
use cairn_master_core::record::Begin;
use cairn_master_core::{Record, State};
use cairn_pagetree::CheckpointError;
use cairn_store::{
    Checkpoints, IdentityError, LogOpenError, OperationLog, PageFileLimits, RecoveredLog,
    SEGMENT_SIZE_STANDARD, cell_of_checkpoints, read_identity, write_identity,
};
use cairn_types::wire::Message;
use cairn_types::{
    CellId, LogIndex, Member, MemberStanding, Members, Random, ReignId, ServerId, Term, WallTime,
};
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
    /// Something is in the way where a directory is to be made.
    #[error("{0} is not empty: '{1}' is in it")]
    NotEmpty(String, String),
    /// There is no term after the one that is lost.
    #[error("no term comes after {0}")]
    TermsSpent(Term),
    /// Pages of the checkpoint are not what was written.
    #[error("the checkpoint is damaged, and none before it reads")]
    Damaged,
    /// The disk refused.
    #[error("{0}")]
    Disk(#[from] DiskError),
    /// Whose directory it is cannot be told.
    #[error("{0}")]
    Identity(#[from] IdentityError),
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
    /// The group that it belonged to; nobody where it was alone.
    pub members: Members,
    /// Records up to here are committed for certain, as far as is known there.
    pub committed: LogIndex,
    /// The highest term that it has taken part in.
    pub term: Term,
    state: State,
    checkpoints: Checkpoints,
    page_file: Option<u64>,
    /// Nobody else writes there meanwhile.
    _lock: Box<dyn DiskLock>,
}

fn lock(disk: &dyn Disk) -> Result<Box<dyn DiskLock>, RemainsError> {
    disk.lock(LOCK_FILE).map_err(|failure| match failure {
        IoFailure::Locked => RemainsError::Running(disk.describe()),
        other => DiskError::from(other).into(),
    })
}

impl Remains {
    /// Looks at a directory. `without_log`: for one whose log does not read, what its newest
    /// checkpoint has.
    ///
    /// # Errors
    /// [`RemainsError`].
    pub fn of(disk: &Arc<dyn Disk>, without_log: bool) -> Result<Self, RemainsError> {
        let identity = read_identity(disk.as_ref())?;
        let is_backup = identity.as_ref().is_some_and(|it| it.kind == IdentityKind::Backup);
        let cell = match &identity {
            Some(it) if it.kind == IdentityKind::Chunkserver => None,
            Some(it) => Some(it.cell),
            // A lone checkpoint.
            None => cell_of_checkpoints(disk.as_ref())?,
        };
        let cell = cell.ok_or_else(|| RemainsError::Nothing(disk.describe()))?;
        let lock = lock(disk.as_ref())?;
        let limits = PageFileLimits::standard();
        let mut checkpoints = Checkpoints::open(Arc::clone(disk), cell, limits)?;
        checkpoints.mark_unreadable()?;
        loop {
            let (from, mut state) = newest(&mut checkpoints, &mut Vec::new())?;
            let log = match without_log {
                true => RecoveredLog::default(),
                false => OperationLog::read(disk.as_ref(), cell, from.index)?,
            };
            let records = decoded(state.applied(), &log.records)?;
            replay(&mut state, &records, LogIndex::new(u64::MAX))?;
            if let Some(damaged) = state.damage() {
                let page_file = from.page_file.expect("a state that reads no file meets no damage");
                set_aside(&checkpoints, page_file, &damaged, &mut Vec::new())?;
                continue;
            }
            if state.cell().is_none() {
                return Err(RemainsError::Nothing(disk.describe()));
            }
            let mark = log.mark.as_deref().map(GroupMark::decode).transpose();
            let mark = mark.map_err(|_| RecoveryError::UndecodableMark)?;
            let alone = GroupMark { committed: state.applied(), ..GroupMark::default() };
            let GroupMark { term, committed, members, .. } = mark.unwrap_or(alone);
            let (page_file, term) = (from.page_file, term.max(state.applied_term()));
            let committed = committed.max(from.index);
            return Ok(Self {
                cell,
                is_backup,
                members,
                committed,
                term,
                state,
                checkpoints,
                page_file,
                _lock: lock,
            });
        }
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
        let identity = Identity { kind: IdentityKind::Master, cell: self.cell, id: me.get() };
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
        let identity = Identity { kind: IdentityKind::Backup, cell: self.cell, id: 0 };
        Ok(write_identity(into.as_ref(), &identity)?)
    }

    /// Writes all of a state; each page is verified on its way.
    fn write(&self, into: &Arc<dyn Disk>, state: &State) -> Result<(), RemainsError> {
        let limits = PageFileLimits::standard();
        let mut checkpoints = Checkpoints::open(Arc::clone(into), self.cell, limits)?;
        match write_checkpoint(&mut checkpoints, state) {
            Ok(_) => Ok(()),
            Err(CheckpointError::Sink(error)) => Err(error.into()),
            Err(CheckpointError::Damaged(damaged)) => {
                let page_file = self.page_file.expect("a state that reads no file has no damage");
                set_aside(&self.checkpoints, page_file, &damaged, &mut Vec::new())?;
                Err(RemainsError::Damaged)
            }
        }
    }
}

/// Takes a directory that has nothing in it.
fn begin_directory(disk: &dyn Disk) -> Result<Box<dyn DiskLock>, RemainsError> {
    let there = disk.list("").map_err(DiskError::from)?;
    // What a file system makes by itself, and what was left by somebody who took it before.
    let strange = there.iter().find(|name| !["lost+found", LOCK_FILE].contains(&name.as_str()));
    match strange {
        Some(name) => Err(RemainsError::NotEmpty(disk.describe(), name.clone())),
        None => lock(disk),
    }
}
