//! Which names a log takes for granted: what clients met and never made (RP3).
//!
//! ```text
//!   the log:    rename /old → /out/new,  open /out/new        made before it:  /old
//! ```
//! - ON1: the first request that succeeded about a name decides: either it made the name, or the
//!   name was there before.
//! - ON2: a name is followed through renames and snapshots: what is met under its later name is
//!   made under the one that it had at first.
//! - ON3: what the log makes itself is not made first, nor anything below it: it would be in the
//!   way. A name that would have to be, because the log has a gap, is left to fail.
//!
//! Knows acts and what was answered. Never sees chunks or bytes.

use crate::replay_plan::ReplayAct;
use cairn_types::{CellPath, EntryId, EntryKind};
use std::collections::{BTreeMap, BTreeSet};
use std::ops::Bound;

/// What an answer tells of the file or directory that was asked about.
#[derive(Clone, Copy, Debug)]
pub(crate) struct ToldEntry {
    pub(crate) id: EntryId,
    pub(crate) kind: EntryKind,
    /// The request made it.
    pub(crate) is_new: bool,
}

/// Where a name comes from.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Whence {
    /// It was there under this name when the log began, or would not be in the way if it were.
    Older(CellPath),
    /// The log makes it.
    Made,
    /// The log does not tell, and it cannot be made first (ON3).
    Untold,
}

/// What became of an id.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum FileOf<'a> {
    /// The file is made first, under this name.
    Older(&'a CellPath),
    /// The log makes the file.
    Made,
    /// No name of it is known, or none under which it can be made.
    Untold,
}

/// The names of a log, as far as it was followed.
#[derive(Default)]
pub(crate) struct OlderNames {
    /// Names as they are by now, with where they come from (ON2).
    there: BTreeMap<String, Whence>,
    /// Names that would be in the way of the log if they were there before (ON3).
    made: BTreeSet<CellPath>,
    /// What is to be made first, and what it is as far as known.
    older: BTreeMap<CellPath, Option<EntryKind>>,
    /// Files, under the name that each had at first; none: the log makes it.
    ids: BTreeMap<EntryId, Option<CellPath>>,
}

impl OlderNames {
    /// The next act that succeeded.
    pub(crate) fn follow(&mut self, act: &ReplayAct, told: Option<ToldEntry>) {
        let kind = told.map(|told| told.kind);
        match act {
            ReplayAct::MakeDirectory(path, true) => self.make_all(path),
            ReplayAct::MakeDirectory(path, false) => self.make(path, None),
            ReplayAct::Create(path, ..) if told.is_none_or(|told| told.is_new) => {
                self.make(path, told.map(|told| told.id));
            }
            ReplayAct::Create(path, ..) | ReplayAct::Open(path, _) | ReplayAct::Stat(path) => {
                self.meet(path, kind, told.map(|told| told.id));
            }
            ReplayAct::List(path, _) | ReplayAct::Find(path, ..) => {
                self.meet(path, Some(EntryKind::Directory), None);
            }
            ReplayAct::Rename(from, to, _) => {
                self.meet(from, None, None);
                self.bring(from, to);
                self.forget(from);
            }
            ReplayAct::Snapshot(from, to) => {
                self.meet(from, kind, None);
                self.bring(from, to);
            }
            // What was deleted is met again where it is brought back: so it is not forgotten.
            ReplayAct::Delete(path, _) => self.meet(path, None, None),
            ReplayAct::Undelete(path, Some(to)) => self.bring(path, to),
            ReplayAct::Undelete(_, None)
            | ReplayAct::Read(..)
            | ReplayAct::Write(..)
            | ReplayAct::Append(..) => {}
        }
    }

    /// Where a file comes from.
    pub(crate) fn file(&self, id: EntryId) -> FileOf<'_> {
        match self.ids.get(&id) {
            Some(Some(path)) if self.older.get(path) != Some(&Some(EntryKind::Directory)) => {
                FileOf::Older(path)
            }
            Some(None) => FileOf::Made,
            _ => FileOf::Untold,
        }
    }

    /// The oldest file of each name that is to be made first.
    pub(crate) fn by_name(&self) -> BTreeMap<&CellPath, EntryId> {
        let named = self.ids.iter().rev();
        named.filter_map(|(id, path)| Some((path.as_ref()?, *id))).collect()
    }

    /// What is to be made first, directories before what is in them; those that may be either are
    /// files.
    pub(crate) fn older(&self) -> impl Iterator<Item = (&CellPath, EntryKind)> {
        self.older.iter().map(|(path, kind)| (path, kind.unwrap_or(EntryKind::File)))
    }

    /// The log makes a name that was free.
    fn make(&mut self, path: &CellPath, id: Option<EntryId>) {
        self.meet_above(path);
        self.there.insert(path.to_string(), Whence::Made);
        self.made.insert(path.clone());
        if let Some(id) = id {
            self.ids.entry(id).or_insert(None);
        }
    }

    /// The log makes a directory and those above it, as far as they are not there: they may be, and
    /// have to be where something older lies in them.
    fn make_all(&mut self, path: &CellPath) {
        for directory in path.ancestors().iter().chain([path]) {
            let whence = match self.whence(directory) {
                Whence::Untold => Whence::Made,
                known => known,
            };
            self.there.entry(directory.to_string()).or_insert(whence);
        }
    }

    /// A name was there; where nothing tells why, it was before (ON1).
    fn meet(&mut self, path: &CellPath, kind: Option<EntryKind>, id: Option<EntryId>) {
        if path.is_root() {
            return;
        }
        let whence = match self.there.get(path.as_str()) {
            Some(known) => known.clone(),
            None => match self.whence(path) {
                Whence::Older(first) if self.can_be_older(&first) => {
                    let above = first.ancestors().into_iter().filter(|it| !it.is_root());
                    self.older.extend(above.map(|it| (it, Some(EntryKind::Directory))));
                    self.older.entry(first.clone()).or_default();
                    Whence::Older(first)
                }
                _ => Whence::Untold,
            },
        };
        self.there.insert(path.to_string(), whence.clone());
        let of_id = match whence {
            Whence::Older(first) => {
                let known = self.older.get_mut(&first);
                let is_older = known.is_some();
                known.into_iter().for_each(|known| *known = known.or(kind));
                is_older.then_some(first)
            }
            Whence::Made => None,
            Whence::Untold => return,
        };
        if let Some(id) = id {
            self.ids.entry(id).or_insert(of_id);
        }
    }

    fn meet_above(&mut self, path: &CellPath) {
        if let Some(parent) = path.parent() {
            self.meet(&parent, Some(EntryKind::Directory), None);
        }
    }

    /// Whether a name can be made first: the log makes neither it nor a directory above it.
    fn can_be_older(&self, path: &CellPath) -> bool {
        let is_free = |path: &CellPath| self.older.contains_key(path) || !self.made.contains(path);
        let is_directory = |path: &CellPath| self.older.get(path) != Some(&Some(EntryKind::File));
        is_free(path) && path.ancestors().iter().all(|it| is_free(it) && is_directory(it))
    }

    /// Where a name comes from by what is known of it, or of the nearest directory above it.
    fn whence(&self, path: &CellPath) -> Whence {
        let mut above = Some(path.clone());
        while let Some(known) = above {
            match self.there.get(known.as_str()) {
                Some(whence) if known == *path => return whence.clone(),
                Some(Whence::Older(first)) => {
                    let rest = &path.as_str()[known.as_str().len()..];
                    let first = CellPath::parse(&format!("{first}{rest}"));
                    return first.map_or(Whence::Untold, Whence::Older);
                }
                Some(Whence::Made | Whence::Untold) => return Whence::Untold,
                None => above = known.parent(),
            }
        }
        Whence::Older(path.clone())
    }

    /// What is at `from`, and all below it, is at `to` as well (ON2).
    fn bring(&mut self, from: &CellPath, to: &CellPath) {
        self.meet_above(to);
        let top = (to.to_string(), self.whence(from));
        let below: Vec<_> = self
            .below(from)
            .map(|(name, whence)| (format!("{to}{}", &name[from.as_str().len()..]), whence.clone()))
            .collect();
        self.forget(to);
        self.there.extend(below.into_iter().chain([top]));
        self.made.insert(to.clone());
    }

    /// A name is free, with all below it.
    fn forget(&mut self, path: &CellPath) {
        let below: Vec<_> = self.below(path).map(|(name, _)| name.clone()).collect();
        for name in below {
            self.there.remove(&name);
        }
        self.there.remove(path.as_str());
    }

    fn below(&self, path: &CellPath) -> impl Iterator<Item = (&String, &Whence)> {
        let prefix = format!("{path}/");
        let from = (Bound::Included(prefix.as_str()), Bound::Unbounded);
        let names = self.there.range::<str, _>(from);
        names.take_while(move |(name, _)| name.starts_with(&prefix))
    }
}

#[cfg(test)]
mod tests {
    use super::{FileOf, OlderNames, ToldEntry};
    use crate::replay_plan::ReplayAct;
    use cairn_types::{CellPath, EntryId, EntryKind};

    fn path(text: &str) -> CellPath {
        CellPath::parse(text).expect("a path")
    }

    fn told(id: u64, kind: EntryKind) -> Option<ToldEntry> {
        Some(ToldEntry { id: EntryId::new(id), kind, is_new: false })
    }

    fn rename(from: &str, to: &str) -> ReplayAct {
        ReplayAct::Rename(path(from), path(to), false)
    }

    /// What is to be there first; a directory ends with a slash.
    fn older(acts: &[(ReplayAct, Option<ToldEntry>)]) -> (Vec<String>, OlderNames) {
        let mut names = OlderNames::default();
        for (act, told) in acts {
            names.follow(act, *told);
        }
        let shown = |(path, kind)| match kind {
            EntryKind::File => format!("{path}"),
            EntryKind::Directory => format!("{path}/"),
        };
        (names.older().map(shown).collect(), names)
    }

    #[test]
    fn names_that_are_looked_at_moved_and_removed_and_never_made_were_there_as_what_they_are() {
        let (names, _) = older(&[
            (ReplayAct::Stat(path("/d/stat")), told(1, EntryKind::File)),
            (ReplayAct::Open(path("/opened"), None), told(2, EntryKind::Directory)),
            (rename("/from", "/to"), None),
            (ReplayAct::Delete(path("/gone"), true), None),
            (ReplayAct::Snapshot(path("/tree"), path("/copy")), told(3, EntryKind::Directory)),
            (ReplayAct::Create(path("/c"), None, (0, true)), told(4, EntryKind::File)),
            (ReplayAct::Stat(CellPath::root()), told(0, EntryKind::Directory)),
        ]);
        assert_eq!(names, ["/c", "/d/", "/d/stat", "/from", "/gone", "/opened/", "/tree/"]);
    }

    #[test]
    fn what_was_moved_is_made_under_its_first_name_with_all_that_is_met_in_it() {
        let file = EntryId::new(5);
        let (names, all) = older(&[
            (ReplayAct::MakeDirectory(path("/out"), false), None),
            (rename("/old", "/out/new"), None),
            (ReplayAct::Open(path("/out/new/f"), Some(file)), told(5, EntryKind::File)),
            (rename("/out", "/last"), None),
            (ReplayAct::Stat(path("/last/new/g")), told(6, EntryKind::File)),
        ]);
        assert_eq!(names, ["/old/", "/old/f", "/old/g"]);
        assert_eq!(all.file(file), FileOf::Older(&path("/old/f")));
    }

    #[test]
    fn what_the_log_makes_is_not_made_first_nor_anything_below_it() {
        let made = Some(ToldEntry { id: EntryId::new(1), kind: EntryKind::File, is_new: true });
        let (names, all) = older(&[
            (ReplayAct::MakeDirectory(path("/out"), false), None),
            (ReplayAct::Open(path("/out/untold"), None), told(2, EntryKind::File)),
            (ReplayAct::Create(path("/f"), None, (0, false)), made),
            (rename("/f", "/out/g"), None),
            (ReplayAct::Open(path("/out/g"), None), told(1, EntryKind::File)),
            (ReplayAct::Delete(path("/out/g"), false), None),
            (ReplayAct::Undelete(path("/out/g"), Some(path("/back"))), None),
            (ReplayAct::Stat(path("/back")), told(1, EntryKind::File)),
        ]);
        assert!(names.is_empty(), "{names:?}");
        let files = [1, 2].map(|id| all.file(EntryId::new(id)));
        assert_eq!(files, [FileOf::Made, FileOf::Untold]);
    }

    #[test]
    fn directories_that_are_made_where_they_are_missing_may_be_older_where_something_in_them_is() {
        let (names, _) = older(&[
            (ReplayAct::MakeDirectory(path("/a/b"), true), None),
            (ReplayAct::MakeDirectory(path("/c/d"), true), None),
            (ReplayAct::List(path("/c/d"), 0), None),
            (ReplayAct::Open(path("/a/f"), None), told(2, EntryKind::File)),
        ]);
        assert_eq!(names, ["/a/", "/a/f"]);
    }
}
