//! From a request that changes names to the record that does it: ids are looked up while its locks
//! are held (R35, MU1 of the mutations).

use crate::name_mutation::{NameMutation, invalid, topmost_missing, walk};
use crate::path_locks::LockSet;
use crate::permissions::Asker;
use crate::record::{
    self, ATTRIBUTES_LEVEL, AddDirectories, AddFile, ChangeAttributes, ChangePolicy, CopiedAnew,
    Expedite, HideEntry, MoveEntry, NewDirectory, Record,
};
use crate::snapshot_work::SnapshotPlan;
use crate::state::{EntryRecord, HIDDEN_ROOT, State};
use crate::step::Step;
use crate::undelete::restore;
use cairn_protocol::{
    Create, Delete, ErrorCode, Failure, MakeDirectory, Rename, SetAttributes, SetPolicy, SetQuota,
    Snapshot,
};
use cairn_types::{
    Attributes, CellPath, EntryId, EntryKind, Identity, Layout, MODE_BITS, SET_GROUP, SET_USER,
};
use std::sync::Arc;

/// What the locks being held leads to.
pub(crate) enum Resolved {
    Propose(Record),
    /// All below is copied first.
    Snapshot(SnapshotPlan),
    /// The names have moved meanwhile: other locks are needed.
    LockAgain,
}

/// Looks ids up and says what to do, `locked` being held.
pub(crate) fn resolve(
    step: &mut Step<'_>,
    (who, change): (&Arc<Identity>, &NameMutation),
    locked: &LockSet,
) -> Result<Resolved, Failure> {
    Asker { state: step.state, who }.check_change(change)?;
    match change {
        NameMutation::MakeDirectory(make) => resolve_make_directory(step, (who, make), locked),
        NameMutation::Create(create) => resolve_create(step, who, create),
        NameMutation::SetAttributes(set) => resolve_set_attributes(step, who, set),
        NameMutation::Rename(rename) => resolve_rename(step, rename),
        NameMutation::Delete(delete) => resolve_delete(step, delete),
        NameMutation::SetPolicy(set) => resolve_set_policy(step, set),
        NameMutation::SetQuota(set) => resolve_set_quota(step, set),
        NameMutation::Snapshot(wish) => resolve_snapshot(step, who, wish),
        // UD2: what is meant now may be another than was locked.
        NameMutation::Undelete(_) if change.locks(step.state) != *locked => Ok(Resolved::LockAgain),
        NameMutation::Undelete(wish) => restore(step, wish).map(Resolved::Propose),
    }
}

/// The directory that shall hold `path`, and the last name of it.
fn parent<'a>(state: &State, path: &'a CellPath) -> Result<(EntryId, &'a str), Failure> {
    let (Some(directory), Some(name)) = (path.parent(), path.name()) else {
        return Err(invalid(format!("{path}: the root stays as it is")));
    };
    let (id, kind) = state.resolve_kind(&directory).map_err(|failure| Failure {
        message: format!("{path}: {}", failure.message),
        ..failure
    })?;
    if kind == EntryKind::File {
        let line = format!("{path}: {directory} is a file and holds no names");
        return Err(Failure::refused(ErrorCode::NotADirectory, line));
    }
    Ok((id, name))
}

/// An entry, the directory that holds it, and its name there.
fn standing<'a>(
    state: &State,
    path: &'a CellPath,
) -> Result<(EntryId, (EntryId, &'a str)), Failure> {
    if let Ok(place) = parent(state, path)
        && let Some(entry) = state.child(place.0, place.1)
    {
        return Ok((entry, place));
    }
    let entry = state.resolve(path)?;
    Ok((entry, parent(state, path)?))
}

fn resolve_make_directory(
    step: &mut Step<'_>,
    (who, make): (&Identity, &MakeDirectory),
    locked: &LockSet,
) -> Result<Resolved, Failure> {
    let (parent, names) = if make.parents {
        walk(step.state, &make.path)
    } else if make.path.is_root() {
        return Err(Failure::refused(ErrorCode::AlreadyExists, "/: exists already"));
    } else {
        let (parent, name) = parent(step.state, &make.path)?;
        (parent, vec![name])
    };
    let is_file = |entry: EntryRecord| entry.kind == EntryKind::File;
    if step.state.entry(parent).is_some_and(is_file) {
        let below: usize = names.iter().map(|name| 1 + name.len()).sum();
        let file = &make.path.as_str()[..make.path.as_str().len() - below];
        let line = format!("{}: {file} is a file where a directory is meant", make.path);
        return Err(Failure::refused(ErrorCode::NotADirectory, line));
    }
    // The lock is on the topmost name that was missing then; one above it may be missing now.
    let topmost = topmost_missing(step.state, &make.path);
    if topmost.is_some_and(|topmost| !locked.excludes_others_from(&topmost)) {
        return Ok(Resolved::LockAgain);
    }
    let attributes = made_in(step.state, parent, who, (EntryKind::Directory, make.mode));
    let mut directory =
        |name: &&str| NewDirectory { id: step.numbers.entry(), name: (*name).to_owned() };
    Ok(Resolved::Propose(Record::from(AddDirectories {
        time: step.now.wall,
        mutation: make.mutation,
        parent,
        directories: names.iter().map(&mut directory).collect(),
        existing_is_fine: make.parents,
        attributes,
    })))
}

/// What is made in a directory has these; none: the usual ones, and all that the log can have.
fn made_in(
    state: &State,
    directory: EntryId,
    who: &Identity,
    (kind, mode): (EntryKind, Option<u32>),
) -> Option<Attributes> {
    let holder = state.entry(directory).filter(|_| state.level() >= ATTRIBUTES_LEVEL)?;
    let made = state.attributes(&holder).made_in(who, kind, mode);
    Some(made).filter(|made| *made != Attributes::usual(kind))
}

fn resolve_create(
    step: &mut Step<'_>,
    who: &Identity,
    create: &Create,
) -> Result<Resolved, Failure> {
    let (parent, name) = parent(step.state, &create.path)?;
    let policy = step.state.policies().in_directory(parent);
    let replication = if create.replication == 0 { policy.replication } else { create.replication };
    let layout = create.layout.unwrap_or(policy.layout);
    check_commit_replicas(create, (layout, replication))?;
    let commit_replicas = create.commit_replicas.unwrap_or(policy.commit_replicas);
    Ok(Resolved::Propose(Record::from(AddFile {
        time: step.now.wall,
        mutation: create.mutation,
        parent,
        name: name.to_owned(),
        id: step.numbers.entry(),
        content: create.content,
        replication,
        synced: create.synced || policy.synced,
        or_open: create.or_open,
        attributes: made_in(step.state, parent, who, (EntryKind::File, create.mode)),
        layout,
        commit_replicas: if layout == Layout::Stream { commit_replicas } else { 0 },
    })))
}

/// Refuses what no stream of so many replicas can have.
fn check_commit_replicas(
    create: &Create,
    (layout, replication): (Layout, u32),
) -> Result<(), Failure> {
    let Some(wanted) = create.commit_replicas else { return Ok(()) };
    let why = match (layout, wanted) {
        (Layout::Chunks, _) => "it is no stream, and commits nothing".to_owned(),
        (Layout::Stream, wanted) if wanted <= replication => return Ok(()),
        (Layout::Stream, wanted) => {
            format!("{wanted} replicas that have to hold a commit, of {replication}")
        }
    };
    Err(Failure::refused(ErrorCode::Invalid, format!("{}: {why}", create.path)))
}

fn resolve_rename(step: &mut Step<'_>, rename: &Rename) -> Result<Resolved, Failure> {
    let (entry, (from_parent, from_name)) = standing(step.state, &rename.from)?;
    let (to_parent, to_name) = match rename.to.name() {
        Some(name) if rename.to.parent() == rename.from.parent() => (from_parent, name),
        _ => parent(step.state, &rename.to)?,
    };
    let gives_way = || step.state.child(to_parent, to_name);
    let keeps_ms = step.state.policies().keep_deleted_ms(to_parent, gives_way);
    Ok(Resolved::Propose(Record::from(MoveEntry {
        time: step.now.wall,
        mutation: rename.mutation,
        entry,
        from_parent,
        from_name: from_name.to_owned(),
        to_parent,
        to_name: to_name.to_owned(),
        replace: rename.replace,
        keeps_ms,
    })))
}

fn resolve_delete(step: &mut Step<'_>, delete: &Delete) -> Result<Resolved, Failure> {
    let (entry, (parent, name)) = standing(step.state, &delete.path)?;
    if parent == HIDDEN_ROOT {
        // R24: under its hidden name it is nothing that was made anew.
        let (time, mutation, name) = (step.now.wall, delete.mutation, name.to_owned());
        return Ok(Resolved::Propose(Record::from(Expedite { time, mutation, entry, name })));
    }
    Ok(Resolved::Propose(Record::from(HideEntry {
        time: step.now.wall,
        mutation: delete.mutation,
        entry,
        parent,
        name: name.to_owned(),
        recursive: delete.recursive,
        keeps_ms: step.state.policies().keep_deleted_ms(parent, || Some(entry)),
    })))
}

fn resolve_snapshot(
    step: &mut Step<'_>,
    who: &Identity,
    wish: &Snapshot,
) -> Result<Resolved, Failure> {
    let source = step.state.resolve(&wish.from)?;
    let (to_parent, to_name) = parent(step.state, &wish.to)?;
    if step.state.child(to_parent, to_name).is_some() {
        let line = format!("{}: exists already", wish.to);
        return Err(Failure::refused(ErrorCode::AlreadyExists, line));
    }
    let (mutation, to_name) = (wish.mutation, to_name.to_owned());
    let path_size = wish.to.as_str().len();
    let anew = match &wish.anew {
        Some(anew) => Some(copied_anew(step.state, (source, wish), (to_parent, who, anew.mode))?),
        None => None,
    };
    Ok(Resolved::Snapshot(SnapshotPlan { mutation, source, to_parent, to_name, path_size, anew }))
}

/// What the copy of a file is that is as if it had been made in that directory.
fn copied_anew(
    state: &State,
    (source, wish): (EntryId, &Snapshot),
    (directory, who, mode): (EntryId, &Identity, Option<u32>),
) -> Result<CopiedAnew, Failure> {
    let file = state.entry(source).filter(|entry| entry.kind == EntryKind::File);
    let Some(file) = file else {
        let line = format!("{}: a directory; files are copied so, one by one", wish.from);
        return Err(Failure::refused(ErrorCode::IsADirectory, line));
    };
    let policy = state.policies().in_directory(directory);
    if (file.replication, file.synced) != (policy.replication, policy.synced) {
        return Err(invalid(format!("{}: it is kept otherwise than {}", wish.to, wish.from)));
    }
    let attributes = made_in(state, directory, who, (EntryKind::File, mode));
    Ok(CopiedAnew { attributes })
}

fn resolve_set_policy(step: &mut Step<'_>, set: &SetPolicy) -> Result<Resolved, Failure> {
    let entry = step.state.resolve(&set.path)?;
    // A job takes the place of the one before, of which nothing may be lost. That of a file has but
    // one part.
    let named = set.set.names().and(set.inherit);
    let lacks = |parts| set.apply && named.any() && named.and(parts) != named;
    let is_directory = step.state.entry(entry).is_some_and(|it| it.kind == EntryKind::Directory);
    let mut jobs = step.state.policies().jobs();
    if is_directory && jobs.any(|job| job.top == entry && lacks(job.parts)) {
        let line = format!(
            "{}: another part of its policies is being applied there: wait until 'cairn jobs' \
             lists it no more, or name that part, too",
            set.path
        );
        return Err(Failure::refused(ErrorCode::Busy, line));
    }
    Ok(Resolved::Propose(Record::from(ChangePolicy {
        time: step.now.wall,
        mutation: set.mutation,
        entry,
        set: set.set,
        inherit: set.inherit,
        apply: set.apply,
        job: step.numbers.job(),
    })))
}

fn resolve_set_quota(step: &mut Step<'_>, set: &SetQuota) -> Result<Resolved, Failure> {
    let path = &set.path;
    let (entry, kind) = step.state.resolve_kind(path)?;
    if kind == EntryKind::File {
        let line = format!("{path}: a file; quotas are of directories");
        return Err(Failure::refused(ErrorCode::NotADirectory, line));
    }
    Ok(Resolved::Propose(Record::from(record::ChangeQuota {
        time: step.now.wall,
        mutation: set.mutation,
        entry,
        names: set.names,
        bytes: set.bytes,
        clears: set.clears,
    })))
}

fn resolve_set_attributes(
    step: &mut Step<'_>,
    who: &Identity,
    set: &SetAttributes,
) -> Result<Resolved, Failure> {
    let entry = step.state.resolve(&set.path)?;
    let record = step.state.entry(entry).ok_or_else(|| {
        Failure::refused(ErrorCode::NotFound, format!("{}: no such file or directory", set.path))
    })?;
    let old = step.state.attributes(&record);
    let owner = set.owner.unwrap_or(old.owner);
    let group = set.group.unwrap_or(old.group);
    let is_handed = (owner, group) != (old.owner, old.group) && record.kind == EntryKind::File;
    // As chown(2) does: who gets it shall not be whom it runs as.
    let kept = if is_handed && !who.is_superuser() { !(SET_USER | SET_GROUP) } else { MODE_BITS };
    let mode = set.mode.unwrap_or(old.mode & kept);
    let new = Attributes { owner, group, mode };
    Ok(Resolved::Propose(Record::from(ChangeAttributes {
        time: step.now.wall,
        mutation: set.mutation,
        entry,
        attributes: Some(new).filter(|new| *new != old),
        modified: set.modified,
    })))
}
