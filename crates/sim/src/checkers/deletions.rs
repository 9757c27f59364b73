//! What may have been deleted, by what clients asked and saw: an oracle of its own, which knows
//! nothing of the log.
//!
//! ```text
//!   a file was seen at a path ──► Delete of that path, or one above, is asked ──► kept so long
//!        ▲                                                                            ──► may go
//!        └──── seen again after that was answered: it was brought back
//! ```
//! - DO1: what was seen and never deleted may never go; nor what was deleted and seen again since;
//!   nor what was deleted a shorter while ago than deleted files are kept, but where its hidden
//!   name, which somebody was told, was deleted once more.
//! - DO2: what somebody was told is brought back is deleted no more, seen again or not; where
//!   several deletions of one path are open, nobody can tell which of them that was.
//! - DO3: where a move is asked for and not answered, what is seen where it begins may be where it
//!   ends a moment later.

use cairn_env_sim::{SeenRequest, WorldTime};
use cairn_protocol::{BatchEntry, BatchResult, Failure, Rename, Request, Response};
use cairn_types::{CellPath, EntryId, MutationName};
use std::collections::BTreeMap;
use std::time::Duration;

/// Hidden names lie below.
const HIDDEN: &str = "/.deleted/";

/// What may be at so many places may be anywhere.
const PLACES_MAX: usize = 32;

/// A deletion that somebody asked for.
#[derive(Debug)]
struct AskedDeletion {
    path: CellPath,
    asked: WorldTime,
    /// When the master answered; none: its answer is not known, and it may be done at any time.
    answered: Option<WorldTime>,
    /// When it was asked for under its hidden name, which was told.
    expedited: Option<WorldTime>,
    /// Somebody was told that it is brought back (DO2).
    undone: bool,
    /// The same word asks for it again (R24).
    mutation: MutationName,
}

/// What is at one of these paths may be elsewhere, too, if that is done.
fn may_move(paths: &mut Vec<CellPath>, rename: &Rename) {
    if paths.len() >= PLACES_MAX {
        return;
    }
    let moved = paths.iter().filter(|path| path.is_within(&rename.from)).map(|path| {
        let below = &path.as_str()[rename.from.as_str().len()..];
        CellPath::parse(&format!("{}{below}", rename.to)).expect("a path of short names")
    });
    let moved: Vec<CellPath> = moved.filter(|path| !paths.contains(path)).collect();
    paths.extend(moved);
}

/// What clients saw and asked.
#[derive(Debug, Default)]
pub(super) struct Deletions {
    now: WorldTime,
    /// Where it may be, and when it was seen last.
    seen: BTreeMap<EntryId, (Vec<CellPath>, WorldTime)>,
    asked: Vec<AskedDeletion>,
    /// Moves that nobody was told the end of (DO3).
    moves: Vec<Rename>,
    /// Which path stands behind a hidden name.
    hidden: BTreeMap<String, CellPath>,
    /// Words that brought something back: each does so once, however often it is answered (R24).
    brought_back: Vec<MutationName>,
}

impl Deletions {
    /// When the last request was seen.
    pub(super) fn now(&self) -> WorldTime {
        self.now
    }

    /// A request reaches the master.
    pub(super) fn delivered(&mut self, seen: &SeenRequest<'_>) {
        self.now = self.now.max(seen.at);
        match seen.request {
            Request::Delete(delete) => self.deletion_asked(&delete.path, delete.mutation),
            Request::Rename(rename) => self.move_asked(rename),
            Request::Batch(batch) => {
                for entry in &batch.entries {
                    match entry {
                        BatchEntry::Delete(delete) => {
                            self.deletion_asked(&delete.path, delete.mutation);
                        }
                        BatchEntry::Rename(rename) => self.move_asked(rename),
                        _ => {}
                    }
                }
            }
            _ => {}
        }
    }

    /// Whether it is done, or has been done before, nobody knows: from now on it may be at either.
    fn move_asked(&mut self, rename: &Rename) {
        if rename.replace {
            self.deletion_asked(&rename.to, rename.mutation);
        }
        if rename.from.is_root() {
            return;
        }
        self.seen.values_mut().for_each(|(paths, _)| may_move(paths, rename));
        if self.moves.iter().all(|it| it.mutation != rename.mutation) {
            self.moves.push(rename.clone());
        }
    }

    fn move_answered(&mut self, rename: &Rename) {
        self.moves.retain(|it| it.mutation != rename.mutation);
        if rename.replace {
            self.deletion_answered(&rename.to);
        }
    }

    fn deletion_asked(&mut self, path: &CellPath, mutation: MutationName) {
        let now = self.now;
        if path.as_str().starts_with(HIDDEN) {
            // Of a name that nobody was told, nothing is known.
            let Some(path) = self.hidden.get(path.as_str()) else { return };
            for deletion in self.asked.iter_mut().filter(|deletion| deletion.path == *path) {
                deletion.expedited.get_or_insert(now);
            }
            return;
        }
        if self.asked.iter().any(|it| it.mutation == mutation && it.path == *path) {
            return;
        }
        self.asked.push(AskedDeletion {
            path: path.clone(),
            asked: now,
            answered: None,
            expedited: None,
            undone: false,
            mutation,
        });
    }

    /// DO2
    fn bring_back(&mut self, path: &CellPath) {
        let path = self.hidden.get(path.as_str()).unwrap_or(path).clone();
        let mut open = self.asked.iter_mut().filter(|it| it.path == path && !it.undone);
        if let (Some(deletion), None) = (open.next(), open.next()) {
            deletion.undone = true;
        }
    }

    /// The master answers.
    pub(super) fn answered(&mut self, seen: &SeenRequest<'_>, answer: &Result<Response, Failure>) {
        self.now = self.now.max(seen.at);
        match (seen.request, answer) {
            (Request::Delete(delete), answer) => {
                self.deletion_answered(&delete.path);
                if let Ok(Response::Delete(done)) = answer {
                    self.hidden.insert(done.hidden.clone(), delete.path.clone());
                }
            }
            (Request::Rename(rename), _) => self.move_answered(rename),
            (Request::Undelete(undelete), Ok(_))
                if undelete.to.is_none() && !self.brought_back.contains(&undelete.mutation) =>
            {
                self.brought_back.push(undelete.mutation);
                self.bring_back(&undelete.path);
            }
            (Request::Create(create), Ok(Response::Create(done))) => {
                self.saw(&create.path, done.entry.id);
            }
            (Request::Open(open), Ok(Response::Open(done))) => self.saw(&open.path, done.entry.id),
            (Request::Stat(stat), Ok(Response::Stat(done))) => self.saw(&stat.path, done.entry.id),
            (Request::Batch(batch), Ok(Response::Batch(done))) => {
                for both in batch.entries.iter().zip(&done.results) {
                    self.entry_answered(both);
                }
            }
            _ => {}
        }
    }

    fn entry_answered(&mut self, both: (&BatchEntry, &BatchResult)) {
        match both {
            (BatchEntry::Delete(delete), _) => self.deletion_answered(&delete.path),
            (BatchEntry::Rename(rename), _) => self.move_answered(rename),
            (BatchEntry::Create(create), BatchResult::Create(done)) => {
                self.saw(&create.path, done.entry.id);
            }
            (BatchEntry::Open(open), BatchResult::Open(done)) => {
                self.saw(&open.path, done.entry.id);
            }
            (BatchEntry::Stat(stat), BatchResult::Stat(looked)) => {
                self.saw(&stat.path, looked.entry.id);
            }
            _ => {}
        }
    }

    fn deletion_answered(&mut self, path: &CellPath) {
        let now = self.now;
        let open =
            |deletion: &&mut AskedDeletion| deletion.path == *path && deletion.answered.is_none();
        // Which of several is answered nobody knows: the last is left longest.
        if let Some(deletion) = self.asked.iter_mut().find(open) {
            deletion.answered = Some(now);
        }
    }

    fn saw(&mut self, path: &CellPath, id: EntryId) {
        if !path.as_str().starts_with(HIDDEN) {
            let mut paths = vec![path.clone()];
            self.moves.iter().for_each(|rename| may_move(&mut paths, rename));
            self.seen.insert(id, (paths, self.now));
        }
    }

    /// Whether anybody was ever told of a file.
    pub(super) fn has_seen(&self, file: EntryId) -> bool {
        self.seen.contains_key(&file)
    }

    /// Whether a file's chunks may go, deleted files being kept so long; why not.
    pub(super) fn may_go(&self, file: EntryId, kept: Duration) -> Result<(), String> {
        let Some((paths, seen)) = self.seen.get(&file) else {
            return Err("nobody was told that it is gone".to_owned());
        };
        let kept = u64::try_from(kept.as_nanos()).unwrap_or(u64::MAX);
        let goes = self.asked.iter().any(|deletion| {
            let since = deletion.expedited.map_or(deletion.asked.0 + kept, |at| at.0);
            let seen_again = deletion.answered.is_some_and(|answered| answered < *seen);
            let undone = deletion.undone || seen_again;
            let is_it = paths.len() >= PLACES_MAX
                || paths.iter().any(|path| path.is_within(&deletion.path));
            is_it && !undone && since <= self.now.0
        });
        if goes {
            return Ok(());
        }
        let (path, seen) = (&paths[0], seen.seconds());
        Err(format!("{path} was seen at {seen:.3}s, and not deleted long enough ago"))
    }
}

#[cfg(test)]
mod tests {
    use super::Deletions;
    use cairn_env_sim::{NodeId, SeenRequest, WorldTime};
    use cairn_protocol::{Delete, Rename, Request, Response, Stat, StatAnswer};
    use cairn_types::{CellPath, Entry, EntryId, MutationName, MutationNumber, SessionId};
    use std::time::Duration;

    fn path(text: &str) -> CellPath {
        CellPath::parse(text).expect("a path")
    }

    fn mutation(number: u64) -> MutationName {
        MutationName { session: SessionId::new(1), number: MutationNumber::new(number) }
    }

    #[test]
    fn what_is_seen_while_it_is_moved_may_be_deleted_where_it_goes() {
        let file = EntryId::new(7);
        let mut deletions = Deletions::default();
        let at = |seconds: u64| WorldTime(seconds * 1_000_000_000);
        let seen = |at, request| SeenRequest { at, from: NodeId(1), to: NodeId(0), request };
        let rename = Rename { from: path("/a"), to: path("/b"), ..Rename::default() };
        let moved = Request::from(Rename { mutation: mutation(1), ..rename });
        let stat = Request::from(Stat { path: path("/a") });
        let entry = Entry { id: file, ..Entry::default() };
        deletions.delivered(&seen(at(1), &moved));
        deletions.answered(
            &seen(at(2), &stat),
            &Ok(Response::Stat(StatAnswer { entry, ..StatAnswer::default() })),
        );
        let delete = Delete { path: path("/b"), mutation: mutation(2), ..Delete::default() };
        let deleted = Request::from(delete);
        deletions.delivered(&seen(at(3), &deleted));
        deletions.delivered(&seen(at(9), &stat));
        assert_eq!(deletions.may_go(file, Duration::from_secs(5)), Ok(()));
        assert!(deletions.may_go(file, Duration::from_secs(7)).is_err(), "a shorter while ago");
    }
}
