//! Making an empty directory that of a member of a group (R25).
//!
//! - MD1: the mark comes before the identity: a directory with an identity and without a mark would
//!   be taken for one that has always been alone, and found a cell by itself. One that was left
//!   half made is nobody's.
//! - MD2: a directory without an identity that has records or checkpoints in it is what is left of
//!   a master: nothing is made of it, and nothing written to it, but by a person (`remains`).
//! - MD3: an identity says whether a log was begun beside it. Where there is none any more, because
//!   the disk lied about it or it was removed, a master that founded its cell once more would be in
//!   charge of an empty one beside the group's, under the same id: it does not start.

use cairn_env::{Disk, DiskError};
use cairn_format::{GroupMark, Identity, IdentityKind};
use cairn_store::{
    IdentityError, LogOpenError, OperationLog, has_checkpoints, read_identity, write_identity,
};
use cairn_types::planted::{Rule, broken};
use cairn_types::wire::Message;
use cairn_types::{CellId, LogIndex, Members, ServerId};
use std::sync::Arc;

/// Why a directory is not made a member's.
#[derive(Debug, thiserror::Error)]
pub enum MakeMemberError {
    /// It is in use already.
    #[error("{0}: it belongs to a server already; name an empty directory")]
    Taken(String),
    /// It is what is left of a master (MD2).
    #[error("{0}: records or checkpoints of a master are in it; name an empty directory")]
    Remains(String),
    /// The disk refused.
    #[error("{0}")]
    Disk(#[from] DiskError),
    /// Whose directory it is cannot be told.
    #[error("{0}")]
    Identity(#[from] IdentityError),
    /// What was left of an operation log is in the way.
    #[error("{0}")]
    Log(#[from] LogOpenError),
}

/// Makes an empty directory that of member `me` of the group `members` of a cell, durably.
///
/// # Errors
/// [`MakeMemberError`].
pub fn make_member(
    disk: &Arc<dyn Disk>,
    segment_size: u64,
    cell: CellId,
    (me, members): (ServerId, &Members),
) -> Result<(), MakeMemberError> {
    // R25 broken: one that is a member becomes one again.
    let is_anew = broken(Rule::R25);
    if read_identity(disk.as_ref())?.is_some() && !is_anew {
        return Err(MakeMemberError::Taken(disk.describe()));
    }
    if !is_anew && has_remains(disk.as_ref())? {
        return Err(MakeMemberError::Remains(disk.describe()));
    }
    assert!(members.get(me).is_some(), "a member is one of its group");
    OperationLog::remove_unowned(disk.as_ref())?;
    let mark = GroupMark { members: members.clone(), ..GroupMark::default() };
    begin_log(disk, segment_size, cell, &mark)?;
    // MD3
    let identity = Identity { kind: IdentityKind::Master, cell, id: me.get(), begun: true };
    write_identity(disk.as_ref(), &identity)?;
    Ok(())
}

/// Begins an operation log with a mark and nothing else, durably.
pub(crate) fn begin_log(
    disk: &Arc<dyn Disk>,
    segment_size: u64,
    cell: CellId,
    mark: &GroupMark,
) -> Result<(), LogOpenError> {
    let nothing = LogIndex::default();
    let (mut log, _) = OperationLog::open(Arc::clone(disk), cell, segment_size, nothing)?;
    Ok(log.append(&[(nothing, mark.to_bytes().into())])?)
}

/// Whether a directory without an identity has more in it than what somebody left who was ended
/// while he made it a member's (MD2).
pub(crate) fn has_remains(disk: &dyn Disk) -> Result<bool, LogOpenError> {
    if has_checkpoints(disk)? {
        return Ok(true);
    }
    let Some(cell) = OperationLog::cell_of(disk)? else { return Ok(false) };
    match OperationLog::read(disk, cell, LogIndex::default()) {
        Ok(log) => Ok(!log.records.is_empty()),
        Err(LogOpenError::Disk(error)) => Err(error.into()),
        // Something is there, and does not read.
        Err(_) => Ok(true),
    }
}

/// Whether a directory without an identity has nothing of a master in it: a cell may be founded
/// there (MD2).
pub(crate) fn is_untouched(disk: &dyn Disk) -> Result<bool, DiskError> {
    Ok(!has_checkpoints(disk)? && OperationLog::cell_of(disk)?.is_none())
}
