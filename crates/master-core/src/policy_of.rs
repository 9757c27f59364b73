//! What policy holds for a path, and who says each part of it.

use crate::state::State;
use cairn_protocol::{Failure, GetPolicy, GetPolicyAnswer, PolicyOrigin, PolicySource};
use cairn_types::{EntryId, EntryKind, PolicyParts};

/// What holds for a file, or for what is made in a directory.
pub(crate) fn policy_of(state: &State, wish: &GetPolicy) -> Result<GetPolicyAnswer, Failure> {
    let (id, kind) = state.resolve_kind(&wish.path)?;
    let policies = state.policies();
    let own = policies.said(id);
    // A file cannot be gone: its name was found just now.
    let record = state.entry(id).filter(|_| kind == EntryKind::File);
    let above = record.map_or(id, |file| file.parent);
    let mut policy = own.over(policies.in_directory(above));
    let origin =
        |says: &dyn Fn(PolicyParts) -> bool| Box::new(origin(state, (id, own), above, says));
    let mut replication = origin(&|parts| parts.replication.is_some());
    let keep_deleted = origin(&|parts| parts.keep_deleted_ms.is_some());
    let mut durability = origin(&|parts| parts.synced.is_some());
    let mut layout = origin(&|parts| parts.layout.is_some());
    let mut commit_replicas = origin(&|parts| parts.commit_replicas.is_some());
    if let Some(file) = record {
        // It has these since it was made, or was brought to them.
        policy.replication = file.replication;
        (policy.synced, policy.layout) = (file.synced, file.layout);
        policy.commit_replicas = file.commit_replicas;
        for part in [&mut replication, &mut durability, &mut layout, &mut commit_replicas] {
            if part.source != PolicySource::Itself {
                **part = PolicyOrigin { source: PolicySource::Made, path: String::new() };
            }
        }
    }
    Ok(GetPolicyAnswer {
        kind,
        policy,
        own,
        replication,
        keep_deleted,
        durability,
        layout,
        commit_replicas,
    })
}

/// Who says a part: the entry itself, the nearest above, or nobody.
fn origin(
    state: &State,
    (id, own): (EntryId, PolicyParts),
    above: EntryId,
    says: &dyn Fn(PolicyParts) -> bool,
) -> PolicyOrigin {
    if says(own) {
        return PolicyOrigin { source: PolicySource::Itself, path: String::new() };
    }
    let mut sayers = state.policies().sayers(above);
    let sayer = sayers.find(|(sayer, parts)| *sayer != id && says(*parts));
    match sayer.and_then(|(sayer, _)| state.path_of(sayer)) {
        Some(path) => PolicyOrigin { source: PolicySource::Above, path },
        None => PolicyOrigin::default(),
    }
}
