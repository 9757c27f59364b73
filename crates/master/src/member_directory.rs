//! Making an empty directory that of a member of a group (R25).
//!
//! - MD1: the mark comes before the identity: a directory with an identity and without a mark would
//!   be taken for one that has always been alone, and found a cell by itself. One that was left
//!   half made is nobody's.

use cairn_env::{Disk, DiskError};
use cairn_format::{GroupMark, Identity, IdentityKind};
use cairn_store::{IdentityError, LogOpenError, OperationLog, read_identity, write_identity};
use cairn_types::wire::Message;
use cairn_types::{CellId, LogIndex, Members, ServerId};
use std::sync::Arc;

/// Why a directory is not made a member's.
#[derive(Debug, thiserror::Error)]
pub enum MakeMemberError {
    /// It is in use already.
    #[error("{0}: it belongs to a server already; name an empty directory")]
    Taken(String),
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
    if read_identity(disk.as_ref())?.is_some() {
        return Err(MakeMemberError::Taken(disk.describe()));
    }
    assert!(members.get(me).is_some(), "a member is one of its group");
    OperationLog::remove_unowned(disk.as_ref())?;
    let mark = GroupMark { members: members.clone(), ..GroupMark::default() };
    begin_log(disk, segment_size, cell, &mark)?;
    let identity = Identity { kind: IdentityKind::Master, cell, id: me.get() };
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
