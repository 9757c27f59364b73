//! Applying records about quotas, and refusing what a quota does not allow (R36).

use super::entry_record::EntryRecord;
use super::names::{HIDDEN_ROOT, NameTree};
use super::quotas::{Exceeded, QuotaLimits};
use super::totals::SubtreeSum;
use crate::applied::{Applied, Changed};
use crate::record::ChangeQuota;
use cairn_protocol::{ErrorCode, Failure};
use cairn_types::EntryId;

/// Refuses what quotas have no room for.
#[derive(Clone, Copy)]
pub(super) struct QuotaCheck<'a>(pub(super) &'a NameTree);

/// A directory has other limits from now on.
pub(super) fn change_quota(names: &mut NameTree, record: &ChangeQuota) -> Result<Applied, Failure> {
    let id = record.entry;
    if !names.is_live_directory(id) || id == HIDDEN_ROOT {
        let line = format!("directory {}: no such directory, or deleted", id.short());
        return Err(Failure::refused(ErrorCode::NotFound, line));
    }
    let former = names.accounts().quota(id).filter(|_| !record.clears);
    let former = former.map(|quota| quota.limits).unwrap_or_default();
    let limits =
        QuotaLimits { names: record.names.or(former.names), bytes: record.bytes.or(former.bytes) };
    let (accounts, ways) = names.accounts_mut();
    accounts.set_quota(ways, id, limits);
    Ok(Applied::Changed(Changed::default()))
}

impl QuotaCheck<'_> {
    /// Refuses what would make more names in a directory than quotas allow.
    pub(super) fn names(&self, directory: EntryId, count: usize) -> Result<(), Failure> {
        let more = SubtreeSum { files: count as i64, ..SubtreeSum::default() };
        let checked = self.0.accounts().check(self.0.ways(), directory, more);
        checked.map_err(|exceeded| self.refusal(exceeded))
    }

    /// Refuses to charge a file of a directory more bytes than quotas allow.
    fn bytes(&self, directory: EntryId, more: u64) -> Result<(), Failure> {
        let more = SubtreeSum { bytes: more.into(), ..SubtreeSum::default() };
        let checked = self.0.accounts().check(self.0.ways(), directory, more);
        checked.map_err(|exceeded| self.refusal(exceeded))
    }

    /// Refuses to move into a directory what its quotas have no room for.
    pub(super) fn moved(&self, entry: (EntryId, &EntryRecord), to: EntryId) -> Result<(), Failure> {
        let checked = self.0.accounts().check_move(self.0.ways(), entry, to);
        checked.map_err(|exceeded| self.refusal(exceeded))
    }

    /// Up to where a file is charged once its chunks up to `end` may be written (TO4), where that
    /// is more than it is charged now.
    pub(super) fn charge_up_to(
        &self,
        id: EntryId,
        file: &EntryRecord,
        end: u64,
    ) -> Result<Option<u64>, Failure> {
        let charged = self.0.accounts().charged(id).unwrap_or_default().max(file.length);
        let Some(more) = end.checked_sub(charged).filter(|more| *more > 0) else { return Ok(None) };
        assert!(end > file.length, "a charge is of what is not there yet (TO4)");
        self.bytes(file.parent, more)?;
        Ok(Some(end))
    }

    /// What a person is told of a quota that would be exceeded.
    fn refusal(&self, exceeded: Exceeded) -> Failure {
        let Exceeded { directory, what, limit, used, wanted } = exceeded;
        let path = self.0.path_of(directory).unwrap_or_default();
        let line = format!(
            "{path}: its quota is {limit} {what}, {used} are in use, {wanted} more are wanted; \
             nothing was done"
        );
        Failure::refused(ErrorCode::QuotaExceeded, line)
    }
}
