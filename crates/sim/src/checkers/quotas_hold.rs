//! Quotas hold: no record makes more names or bytes below a directory than its quota allows, and
//! what the state keeps of subtrees is what a walk over all names finds (R36).
//!
//! ```text
//!   the log, replayed record by record ──► after each: within the limits, or no more than before
//!                                     └──► at its end: totals and use ║ equal ║ a walk
//! ```

use super::checker::Verdict;
use cairn_master_core::state::{HIDDEN_ROOT, ROOT, SubtreeSum};
use cairn_master_core::{Record, State};
use cairn_types::{EntryId, EntryKind};
use std::collections::BTreeMap;

/// What counted in each quota.
pub(crate) type QuotaUses = BTreeMap<EntryId, (u64, u64)>;

/// What counts in each quota now; nothing is looked at where there is none.
pub(crate) fn uses(state: &State) -> QuotaUses {
    let quota = |id| state.subtrees().quota(id).map(|quota| (id, (quota.names, quota.bytes)));
    state.subtrees().quotas_after(EntryId::default()).filter_map(quota).collect()
}

/// A record has been applied to a state in which so much counted before.
pub(crate) fn judge(state: &State, before: &QuotaUses, record: &Record) -> Verdict {
    // What was said of a length is recorded, whatever it is: only the charge before it is refused.
    if matches!(record, Record::SetLength(_) | Record::CloseChunk(_) | Record::ChangeQuota(_)) {
        return Ok(());
    }
    for (id, (names_before, bytes_before)) in before {
        let Some(quota) = state.subtrees().quota(*id) else { continue };
        let over = |limit: Option<u64>, was: u64, is: u64| limit.is_some_and(|it| is > it.max(was));
        if over(quota.limits.names, *names_before, quota.names)
            || over(quota.limits.bytes, *bytes_before, quota.bytes)
        {
            let path = state.path_of(*id).unwrap_or_default();
            return Err(format!(
                "the quota of {path} is exceeded: {quota:?} after {names_before} names and \
                 {bytes_before} bytes, by {record:?}"
            ));
        }
    }
    Ok(())
}

/// Whether all that is kept is what a walk finds.
pub(crate) fn judge_totals(state: &State) -> Verdict {
    let walked = walk(state);
    let of = |id: &EntryId| walked.get(id).copied().unwrap_or_default();
    let quotas: Vec<EntryId> = state.subtrees().quotas_after(EntryId::default()).collect();
    let below = walked.keys().filter(|id| **id != HIDDEN_ROOT);
    for id in [ROOT].iter().chain(below) {
        let (kept, found) = (state.subtrees().totals(*id).all(), of(id));
        if kept != found {
            let path = state.path_of(*id).unwrap_or_default();
            return Err(format!("the total of {path} is {kept:?}, and a walk finds {found:?}"));
        }
    }
    for id in &quotas {
        let (kept, found) = (state.subtrees().quota(*id).unwrap_or_default(), of(id));
        if (kept.names, kept.bytes) != (found.names(), found.charged()) {
            let path = state.path_of(*id).unwrap_or_default();
            return Err(format!(
                "in the quota of {path} count {kept:?}, and a walk finds {found:?}"
            ));
        }
    }
    Ok(())
}

fn walk(state: &State) -> BTreeMap<EntryId, SubtreeSum> {
    let mut sums: BTreeMap<EntryId, SubtreeSum> = BTreeMap::new();
    let mut left = vec![ROOT, HIDDEN_ROOT];
    while let Some(directory) = left.pop() {
        for (_, id, kind) in state.children(directory, "") {
            if kind == EntryKind::Directory {
                left.push(id);
            }
            let own = own(state, id, kind);
            let mut at = state.subtrees().counts_in(id);
            while let Some(above) = at {
                *sums.entry(above).or_default() += own;
                at = state.subtrees().counts_in(above);
            }
        }
    }
    sums
}

fn own(state: &State, id: EntryId, kind: EntryKind) -> SubtreeSum {
    let file = state.entry(id).filter(|_| kind == EntryKind::File);
    let Some(file) = file else { return SubtreeSum { directories: 1, ..SubtreeSum::default() } };
    let lengths = i128::from(file.length);
    SubtreeSum {
        files: 1,
        directories: 0,
        lengths,
        stored: lengths * i128::from(file.replication),
        bytes: lengths.max(state.subtrees().charged(id).unwrap_or_default().into()),
    }
}
