//! What lies below a directory, and which quotas count it.

use crate::state::{HIDDEN_ROOT, Quota, State};
use cairn_protocol::{
    ErrorCode, Failure, GetQuota, GetQuotaAnswer, QUOTAS_TOLD_MAX, QuotaUse, SubtreeTotals,
};
use cairn_types::{EntryId, EntryKind};

/// Of a directory.
pub(crate) fn quota_of(state: &State, wish: &GetQuota) -> Result<GetQuotaAnswer, Failure> {
    let path = &wish.path;
    let (id, kind) = state.resolve_kind(path)?;
    if kind == EntryKind::File {
        let line = format!("{path}: a file; totals and quotas are of directories");
        return Err(Failure::refused(ErrorCode::NotADirectory, line));
    }
    if id == HIDDEN_ROOT {
        let line = format!("{path}: what is deleted counts where it was deleted from");
        return Err(Failure::refused(ErrorCode::Invalid, line));
    }
    let totals = state.subtrees().totals(id);
    let (live, deleted) = (totals.live, totals.deleted);
    let totals = SubtreeTotals {
        file_count: u64::try_from(live.files).unwrap_or_default(),
        directory_count: u64::try_from(live.directories).unwrap_or_default(),
        length: live.recorded(),
        stored: live.on_disks(),
        charged: live.charged(),
        deleted_count: deleted.names(),
        deleted_charged: deleted.charged(),
    };
    let above = state.subtrees().quotas_above(id);
    let told = above.iter().take(QUOTAS_TOLD_MAX);
    let quotas = told.filter_map(|id| quota_use(state, *id)).collect();
    Ok(GetQuotaAnswer { totals, quotas })
}

fn quota_use(state: &State, directory: EntryId) -> Option<QuotaUse> {
    let Quota { limits, names, bytes } = state.subtrees().quota(directory)?;
    let path = state.path_of(directory)?;
    let (names_max, bytes_max) = (limits.names, limits.bytes);
    Some(QuotaUse { path, names_max, bytes_max, names, bytes })
}
