//! The requests that change names (§4.1): what is refused at once, which locks each needs, and
//! how each is answered.

use crate::applied::Applied;
use crate::path_locks::LockSet;
use crate::policy_work::job_name;
use crate::record::{
    ATTRIBUTES_LEVEL, COMMIT_REPLICAS_LEVEL, QUOTA_LEVEL, SNAPSHOT_LEVEL, STREAM_LEVEL,
};
use crate::state::{HIDDEN_NAME, ROOT, State};
use crate::undelete::{hidden_depth, paths_to_lock};
use cairn_protocol::{
    Create, CreateAnswer, Delete, DeleteAnswer, ErrorCode, Failure, MakeDirectory,
    MakeDirectoryAnswer, Outcome, Rename, RenameAnswer, Response, Rpc, SetAttributes,
    SetAttributesAnswer, SetPolicy, SetPolicyAnswer, SetQuota, SetQuotaAnswer, Snapshot,
    SnapshotAnswer, Undelete, UndeleteAnswer,
};
use cairn_types::{CellPath, EntryId, Layout, MODE_BITS, MutationName, NOBODY, REPLICATION_MAX};
use std::fmt::Display;

/// A request that changes names.
#[derive(Debug)]
pub(crate) enum NameMutation {
    MakeDirectory(MakeDirectory),
    Create(Create),
    Rename(Rename),
    Delete(Delete),
    Undelete(Undelete),
    SetPolicy(SetPolicy),
    SetQuota(SetQuota),
    Snapshot(Snapshot),
    SetAttributes(SetAttributes),
}

macro_rules! from_requests {
    ($($request:ident)*) => { $( impl From<$request> for NameMutation {
        fn from(request: $request) -> Self {
            Self::$request(request)
        }
    } )* };
}

from_requests! {
    MakeDirectory Create Rename Delete Undelete SetPolicy SetQuota Snapshot SetAttributes
}

/// A request that makes no sense, whatever names there are.
pub(crate) fn invalid(line: String) -> Failure {
    Failure::refused(ErrorCode::Invalid, line)
}

impl NameMutation {
    /// How the client calls it (R24).
    pub(crate) fn mutation(&self) -> MutationName {
        match self {
            Self::MakeDirectory(make) => make.mutation,
            Self::Create(create) => create.mutation,
            Self::Rename(rename) => rename.mutation,
            Self::Delete(delete) => delete.mutation,
            Self::Undelete(undelete) => undelete.mutation,
            Self::SetPolicy(set) => set.mutation,
            Self::SetQuota(set) => set.mutation,
            Self::Snapshot(wish) => wish.mutation,
            Self::SetAttributes(set) => set.mutation,
        }
    }

    /// The path that it makes, takes away or changes.
    fn path(&self) -> &CellPath {
        match self {
            Self::MakeDirectory(make) => &make.path,
            Self::Create(create) => &create.path,
            Self::Rename(rename) => &rename.to,
            Self::Delete(delete) => &delete.path,
            Self::Undelete(undelete) => undelete.to.as_ref().unwrap_or(&undelete.path),
            Self::SetPolicy(set) => &set.path,
            Self::SetQuota(set) => &set.path,
            Self::Snapshot(wish) => &wish.to,
            Self::SetAttributes(set) => &set.path,
        }
    }

    /// Refuses what can be refused without looking at any name.
    pub(crate) fn check(&self) -> Result<(), Failure> {
        let path = self.path();
        check_named(self.mutation(), path)?;
        let depth = hidden_depth(path);
        let may = match self {
            Self::Undelete(undelete) => undelete.to.is_none(),
            // Once more: it is kept no longer.
            Self::Delete(_) => depth == Some(1),
            Self::MakeDirectory(_)
            | Self::Create(_)
            | Self::Rename(_)
            | Self::SetPolicy(_)
            | Self::SetQuota(_)
            | Self::Snapshot(_)
            | Self::SetAttributes(_) => false,
        };
        if depth.is_some() && !may {
            let line = format!("{path}: deleted files are read and restored, not changed");
            return Err(invalid(line));
        }
        match self {
            Self::MakeDirectory(make) => check_mode(&make.path, make.mode),
            Self::Create(create) if create.replication > REPLICATION_MAX => {
                let asked = create.replication;
                Err(invalid(format!("{path}: {asked} replicas; the limit is {REPLICATION_MAX}")))
            }
            Self::Create(_) if path.is_root() => {
                Err(Failure::refused(ErrorCode::IsADirectory, "/: the root is a directory"))
            }
            Self::Create(create) => check_mode(&create.path, create.mode),
            Self::Rename(rename) => check_rename(rename),
            Self::Delete(_) if path.is_root() => Err(invalid("/: the root stays".to_owned())),
            Self::Delete(_) => Ok(()),
            Self::Undelete(wish) if hidden_depth(&wish.path) == Some(0) => {
                let path = &wish.path;
                Err(invalid(format!("{path}: the place of deleted files stays where it is")))
            }
            Self::Undelete(_) => Ok(()),
            Self::SetPolicy(set) => check_policy(set),
            Self::SetQuota(set) if set.names.is_none() && set.bytes.is_none() && !set.clears => {
                Err(invalid(format!("{path}: a change of its quota that changes nothing")))
            }
            Self::SetQuota(_) => Ok(()),
            Self::Snapshot(wish) if hidden_depth(&wish.from).is_some() => {
                let line = "no snapshot is taken of what is deleted: bring it back first";
                Err(invalid(format!("{}: {line}", wish.from)))
            }
            Self::Snapshot(wish) if wish.to.is_root() => {
                Err(Failure::refused(ErrorCode::AlreadyExists, "/: exists already"))
            }
            Self::Snapshot(wish) => {
                check_mode(&wish.to, wish.anew.as_ref().and_then(|anew| anew.mode))
            }
            Self::SetAttributes(set) => check_attributes(set),
        }
    }

    /// A refusal that it would take long to wait for the end of: who can copy bytes instead does
    /// not wait.
    pub(crate) fn at_once(&self, failure: Failure) -> Failure {
        match self {
            Self::Snapshot(wish) if wish.anew.is_some() => {
                Failure { outcome: Outcome::Refused, ..failure }
            }
            _ => failure,
        }
    }

    /// Refuses what not all members of the group can apply yet.
    pub(crate) fn check_level(&self, state: &State) -> Result<(), Failure> {
        match self {
            Self::SetAttributes(set) => {
                state.check_level(ATTRIBUTES_LEVEL, &format!("{}: its attributes", set.path))
            }
            Self::Snapshot(wish) => {
                let checked =
                    state.check_level(SNAPSHOT_LEVEL, &format!("{}: a snapshot", wish.from));
                checked.map_err(|failure| self.at_once(failure))
            }
            Self::SetQuota(set) => {
                state.check_level(QUOTA_LEVEL, &format!("{}: its quota", set.path))
            }
            Self::Create(create) if create.commit_replicas.is_some() => {
                let what = format!("{}: how many replicas have to hold a commit", create.path);
                state.check_level(COMMIT_REPLICAS_LEVEL, &what)
            }
            Self::SetPolicy(set) if set.set.commit_replicas.is_some() => {
                let what = format!("{}: how many replicas have to hold a commit", set.path);
                state.check_level(COMMIT_REPLICAS_LEVEL, &what)
            }
            Self::Create(create) if create.layout == Some(Layout::Stream) => {
                state.check_level(STREAM_LEVEL, &format!("{}: a stream", create.path))
            }
            Self::SetPolicy(set) if set.set.layout.is_some() => {
                state.check_level(STREAM_LEVEL, &format!("{}: a layout", set.path))
            }
            _ => Ok(()),
        }
    }

    /// What it has to lock, as the names stand now. Directories that are all there need but stay:
    /// a tree below them may stand still for a snapshot. Whoever changes what a directory says of
    /// itself has it alone, for what is below is judged by that when it is resolved, and not when
    /// it is applied.
    pub(crate) fn locks(&self, state: &State) -> LockSet {
        let locks = LockSet::default();
        match self {
            Self::MakeDirectory(make) if make.parents => match topmost_missing(state, &make.path) {
                Some(topmost) => locks.write(&topmost),
                None => locks.read(&make.path),
            },
            Self::MakeDirectory(make) => locks.write(&make.path),
            Self::Create(create) => locks.write(&create.path),
            Self::Delete(delete) => locks.write(&delete.path),
            Self::Rename(rename) => locks.write(&rename.from).write(&rename.to),
            Self::Undelete(wish) => paths_to_lock(state, wish).iter().fold(locks, LockSet::write),
            Self::SetPolicy(set) => locks.write(&set.path),
            Self::SetQuota(set) => locks.write(&set.path),
            Self::Snapshot(wish) => locks.write(&wish.from).write(&wish.to),
            Self::SetAttributes(set) => locks.write(&set.path),
        }
    }

    /// The answer to it, where this came of its record, or of the one that has its name.
    pub(crate) fn answer(&self, state: &State, applied: &Applied) -> Result<Response, Failure> {
        let entry = |id, path: &CellPath| {
            state.describe(id, path.name().unwrap_or_default()).unwrap_or_default()
        };
        match (self, applied) {
            (_, Applied::Failed(failure)) => Err(failure.clone()),
            (Self::MakeDirectory(make), Applied::DirectoryMade(made)) => {
                let entry = entry(made.id, &make.path);
                Ok(Response::MakeDirectory(MakeDirectoryAnswer { entry }))
            }
            (Self::Create(create), Applied::FileMade(made)) => {
                let entry = entry(made.id, &create.path);
                Ok(Response::Create(CreateAnswer { entry, created: made.created }))
            }
            (Self::Rename(_), Applied::EntryMoved(_)) => {
                Ok(Response::Rename(RenameAnswer::default()))
            }
            (Self::Delete(_), Applied::EntryHidden(hidden)) => {
                Ok(Response::Delete(DeleteAnswer { hidden: hidden.hidden.clone() }))
            }
            (Self::Undelete(_), Applied::EntryMoved(moved)) => {
                // What lay in a deleted directory is where it was wanted.
                let path = Some(&moved.restored).filter(|path| !path.is_empty());
                let path = path.map_or_else(|| self.path().to_string(), Clone::clone);
                Ok(Response::Undelete(UndeleteAnswer { path }))
            }
            (Self::SetPolicy(_), Applied::PolicyChanged(changed)) => {
                let job = Some(changed.job).filter(|job| !job.is_none());
                let job = job.map(job_name).unwrap_or_default();
                Ok(Response::SetPolicy(SetPolicyAnswer { job }))
            }
            (Self::SetQuota(_), Applied::Changed(_)) => Ok(Response::SetQuota(SetQuotaAnswer {})),
            (Self::Snapshot(wish), Applied::SnapshotMade(made)) => {
                let entry = entry(made.id, &wish.to);
                Ok(Response::Snapshot(SnapshotAnswer { entry, entries: made.entries }))
            }
            (Self::SetAttributes(set), Applied::AttributesChanged(changed)) => {
                let entry = entry(changed.id, &set.path);
                Ok(Response::SetAttributes(SetAttributesAnswer { entry }))
            }
            (_, _) => {
                let name = self.name();
                Err(invalid(format!("{name}: its session and number belong to another request")))
            }
        }
    }

    /// The rpc's name.
    fn name(&self) -> &'static str {
        match self {
            Self::MakeDirectory(_) => MakeDirectory::NAME,
            Self::Create(_) => Create::NAME,
            Self::Rename(_) => Rename::NAME,
            Self::Delete(_) => Delete::NAME,
            Self::Undelete(_) => Undelete::NAME,
            Self::SetPolicy(_) => SetPolicy::NAME,
            Self::SetQuota(_) => SetQuota::NAME,
            Self::Snapshot(_) => Snapshot::NAME,
            Self::SetAttributes(_) => SetAttributes::NAME,
        }
    }
}

/// Whether a request about `what` names itself (R24).
pub(crate) fn check_named(mutation: MutationName, what: impl Display) -> Result<(), Failure> {
    if mutation.session.is_none() || mutation.number.get() == 0 {
        return Err(invalid(format!("{what}: the request names no session and number of its own")));
    }
    Ok(())
}

fn check_attributes(set: &SetAttributes) -> Result<(), Failure> {
    let SetAttributes { path, owner, group, mode, modified, .. } = set;
    if owner.is_none() && group.is_none() && mode.is_none() && modified.is_none() {
        return Err(invalid(format!("{path}: a change of attributes that changes nothing")));
    }
    // It would be theirs of whom nothing is known.
    if [*owner, *group].contains(&Some(NOBODY)) {
        return Err(invalid(format!(
            "{path}: {NOBODY} is nobody's number: nothing is given to it"
        )));
    }
    check_mode(path, *mode)
}

fn check_mode(path: &CellPath, mode: Option<u32>) -> Result<(), Failure> {
    match mode.filter(|mode| mode & !MODE_BITS != 0) {
        None => Ok(()),
        Some(mode) => Err(invalid(format!("{path}: {mode:o} is no mode; the most is 7777"))),
    }
}

fn check_policy(set: &SetPolicy) -> Result<(), Failure> {
    let path = &set.path;
    if !set.set.names().any() && !set.inherit.any() && !set.apply {
        return Err(invalid(format!("{path}: a change of its policy that changes nothing")));
    }
    match set.set.replication {
        Some(level) if level == 0 || level > REPLICATION_MAX => {
            Err(invalid(format!("{path}: {level} replicas; from 1 to {REPLICATION_MAX}")))
        }
        _ => Ok(()),
    }
}

fn check_rename(rename: &Rename) -> Result<(), Failure> {
    let (from, to) = (&rename.from, &rename.to);
    if from.is_root() || to.is_root() {
        return Err(invalid(format!("{from} to {to}: the root stays where it is")));
    }
    if from.names().next() == Some(HIDDEN_NAME) && from.names().count() == 1 {
        return Err(invalid(format!("{from}: the place of deleted files stays where it is")));
    }
    if to != from && to.is_within(from) {
        return Err(invalid(format!("{from} to {to}: a directory cannot be moved into itself")));
    }
    Ok(())
}

/// The highest name along a path that is not there; none where all are. Whoever writes that name
/// excludes everyone below it.
pub(crate) fn topmost_missing(state: &State, path: &CellPath) -> Option<CellPath> {
    let (_, missing) = walk(state, path);
    let below = missing.len().checked_sub(1)?;
    let kept = path.names().count() - below;
    let text: String = path.names().take(kept).flat_map(|name| ["/", name]).collect();
    Some(CellPath::parse(&text).expect("a path's beginning is one"))
}

/// How far a path leads, and the names beyond.
pub(crate) fn walk<'a>(state: &State, path: &'a CellPath) -> (EntryId, Vec<&'a str>) {
    // What is made lies mostly where something was made before.
    if let (Some(directory), Some(name)) = (state.directory_of(path), path.name()) {
        return match state.child(directory, name) {
            Some(child) => (child, Vec::new()),
            None => (directory, vec![name]),
        };
    }
    let mut at = ROOT;
    let mut names = path.names();
    while let Some(name) = names.next() {
        match state.child(at, name) {
            Some(child) => at = child,
            None => return (at, std::iter::once(name).chain(names).collect()),
        }
    }
    (at, Vec::new())
}
