//! What is deleted, and how it is brought back (§4.4): found by where it was or by its hidden
//! name, and put there again, or elsewhere.
//!
//! - UD1: of several that were deleted from the same place, the last is meant.
//! - UD2: both paths are locked, and looked up again once they are: what is meant may be brought
//!   back, or its old directory moved, by somebody who came first (R35).

use crate::permissions::Asker;
use crate::reads::page_size;
use crate::record::{MoveEntry, Record};
use crate::state::{DeletedFrom, HIDDEN_NAME, HIDDEN_ROOT, HiddenRecord, State};
use crate::step::Step;
use cairn_env::Now;
use cairn_protocol::{
    DeletedEntry, DeletedMark, ErrorCode, Failure, ListDeleted, ListDeletedAnswer,
    MESSAGE_SIZE_MAX, Undelete,
};
use cairn_types::{CellPath, EntryId, EntryKind, PATH_SIZE_MAX};

/// Entries that one answer tells of.
const TOLD_MAX: usize = 256;

// A hidden path is longer than any other by its hidden name.
const _: () = assert!(TOLD_MAX * 2 * (PATH_SIZE_MAX + 1024) < MESSAGE_SIZE_MAX as usize);

/// What is brought back, from where and to where, as the names stand.
#[derive(Debug)]
struct Restoration {
    entry: EntryId,
    from: (EntryId, String),
    to: (EntryId, String),
    /// The paths of both.
    paths: [CellPath; 2],
}

fn not_found(line: String) -> Failure {
    Failure::refused(ErrorCode::NotFound, line)
}

/// Whether it is a path at or below the place of deleted files, and how deep below.
pub(crate) fn hidden_depth(path: &CellPath) -> Option<usize> {
    let mut names = path.names();
    (names.next() == Some(HIDDEN_NAME)).then(|| names.count())
}

impl Restoration {
    fn find(state: &State, wish: &Undelete) -> Result<Self, Failure> {
        let path = &wish.path;
        let (entry, from, source) = match hidden_depth(path) {
            None => {
                let (entry, name) = last_deleted(state, path)?;
                let source = hidden_path(&name, path)?;
                (entry, (HIDDEN_ROOT, name), source)
            }
            // What lies in a deleted directory is brought back by a place of its own.
            Some(_) => {
                let (parent, name) = path.parent().zip(path.name()).ok_or_else(|| gone(path))?;
                let parent = state.resolve(&parent)?;
                let entry = state.child(parent, name).ok_or_else(|| gone(path))?;
                (entry, (parent, name.to_owned()), path.clone())
            }
        };
        let (to, target) = match &wish.to {
            Some(to) => (named_place(state, to)?, to.clone()),
            None => old_place(state, entry, path)?,
        };
        assert_ne!(from, to, "no path that can be named leads there and is deleted");
        Ok(Self { entry, from, to, paths: [source, target] })
    }
}

fn gone(path: &CellPath) -> Failure {
    not_found(format!("{path}: nothing of this name is deleted (any more)"))
}

/// What was deleted last at a path, and its hidden name.
fn last_deleted(state: &State, path: &CellPath) -> Result<(EntryId, String), Failure> {
    let nothing = || {
        let line = "nothing was deleted there that is still kept; 'ls --deleted' lists what is";
        not_found(format!("{path}: {line}"))
    };
    let (directory, name) = path.parent().zip(path.name()).ok_or_else(nothing)?;
    let directory = state.resolve(&directory).map_err(|_| nothing())?;
    let entry = state.deleted().newest(directory, name).ok_or_else(nothing)?;
    let hidden = state.deleted().get(entry).ok_or_else(nothing)?;
    Ok((entry, hidden.hidden_name(entry)))
}

fn hidden_path(name: &str, path: &CellPath) -> Result<CellPath, Failure> {
    CellPath::parse(&format!("/{HIDDEN_NAME}/{name}")).map_err(|_| gone(path))
}

/// The directory and the name that somebody named.
fn named_place(state: &State, to: &CellPath) -> Result<(EntryId, String), Failure> {
    let root = || Failure::refused(ErrorCode::AlreadyExists, "/: exists already");
    let (directory, name) = to.parent().zip(to.name()).ok_or_else(root)?;
    match state.resolve_kind(&directory)? {
        (id, EntryKind::Directory) => Ok((id, name.to_owned())),
        (_, EntryKind::File) => {
            let line = format!("{to}: {directory} is a file and holds no names");
            Err(Failure::refused(ErrorCode::NotADirectory, line))
        }
    }
}

/// Where something deleted was, and the path of that now.
fn old_place(
    state: &State,
    entry: EntryId,
    path: &CellPath,
) -> Result<((EntryId, String), CellPath), Failure> {
    let Some(HiddenRecord { parent, name, .. }) = state.deleted().get(entry) else {
        let line = format!("{path}: it was deleted with the directory that it is in: say where to");
        return Err(Failure::refused(ErrorCode::Invalid, line));
    };
    if state.is_hidden(parent) {
        let line = format!("{path}: the directory that it was in is deleted too: say where to");
        return Err(not_found(line));
    }
    let target = was_at(state, parent, &name).and_then(|path| CellPath::parse(&path).ok());
    let target = target.ok_or_else(|| {
        let line = format!("{path}: the path where it was is too long by now: say where to");
        Failure::refused(ErrorCode::Invalid, line)
    })?;
    Ok(((parent, name), target))
}

/// The path of a name in a directory, hidden or not; none where the directory is gone.
fn was_at(state: &State, parent: EntryId, name: &str) -> Option<String> {
    let above = state.path_of(parent)?;
    Some(format!("{}/{name}", above.trim_end_matches('/')))
}

/// The paths that have to be locked, as the names stand now.
pub(crate) fn paths_to_lock(state: &State, wish: &Undelete) -> Vec<CellPath> {
    match Restoration::find(state, wish) {
        Ok(restoration) => restoration.paths.to_vec(),
        // It will be refused, unless that changes before it has its locks.
        Err(_) => std::iter::once(&wish.path).chain(&wish.to).cloned().collect(),
    }
}

/// What is brought back, the directory that it is in, and the one that it comes to.
pub(crate) fn what_is_meant(
    state: &State,
    wish: &Undelete,
) -> Result<(EntryId, EntryId, EntryId), Failure> {
    let meant = Restoration::find(state, wish)?;
    Ok((meant.entry, meant.from.0, meant.to.0))
}

/// The record that does it, the locks being held.
pub(crate) fn restore(step: &Step<'_>, wish: &Undelete) -> Result<Record, Failure> {
    let Restoration { entry, from, to, .. } = Restoration::find(step.state, wish)?;
    Ok(Record::from(MoveEntry {
        time: step.now.wall,
        mutation: wish.mutation,
        entry,
        from_parent: from.0,
        from_name: from.1,
        to_parent: to.0,
        to_name: to.1,
        replace: false,
        keeps_ms: 0,
    }))
}

/// What is deleted and can be brought back, page by page.
pub(crate) fn list(
    now: Now,
    asker: Asker<'_>,
    wish: &ListDeleted,
) -> Result<ListDeletedAnswer, Failure> {
    let state = asker.state;
    let limit = page_size(wish.limit).min(TOLD_MAX);
    let after = wish.after.as_ref();
    let ids: Vec<EntryId> = match &wish.directory {
        Some(path) => {
            let directory = state.resolve(path)?;
            let from = after.map(|DeletedMark { id, name, deleted }| DeletedFrom {
                name,
                deleted: *deleted,
                id: *id,
            });
            let known = after.map(|mark| mark.id);
            let behind = state.deleted().of_directory(directory, from);
            behind.filter(|id| Some(*id) != known).take(limit + 1).collect()
        }
        None => {
            let after = after.map(|mark| mark.id).unwrap_or_default();
            state.deleted().after(after).map(|(id, _)| id).take(limit + 1).collect()
        }
    };
    let mut answer = ListDeletedAnswer::default();
    for id in ids.iter().take(limit) {
        let Some(record) = state.deleted().get(*id) else { continue };
        if ids.len() > limit {
            let HiddenRecord { name, deleted, .. } = record.clone();
            answer.resume = Some(DeletedMark { id: *id, name, deleted });
        }
        // Of what somebody could not have seen there nothing is said.
        if asker.check_deleted(*id, &CellPath::root()).is_ok() {
            answer.entries.extend(told(now, state, *id, &record));
        }
    }
    Ok(answer)
}

fn told(now: Now, state: &State, id: EntryId, record: &HiddenRecord) -> Option<DeletedEntry> {
    // A snapshot that is being made was never anybody's to delete.
    if record.parent == HIDDEN_ROOT {
        return None;
    }
    let left = record.until.saturating_sub(state.log_time_at(now.wall));
    Some(DeletedEntry {
        hidden: format!("/{HIDDEN_NAME}/{}", record.hidden_name(id)),
        path: was_at(state, record.parent, &record.name).unwrap_or_default(),
        entry: state.describe(id, &record.name)?,
        deleted: record.deleted,
        left_ms: u64::try_from(left.as_millis()).unwrap_or(u64::MAX),
    })
}
