//! Names are linearizable: there is one order of all namespace operations, true to time, in which
//! each answer is right (`linearization.rs`; R23, R24, R35).
//!
//! Knows the workload's own small model of a namespace, and nothing of the master's.

use super::linearization::{self, HistoryEnd, HistoryEvent, Judgement, Sequential};
use cairn_types::EntryId;
use std::collections::BTreeMap;

/// An operation on names.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum NameOp {
    MakeDirectory(String),
    Create(String),
    Rename {
        from: String,
        to: String,
        replace: bool,
    },
    Delete {
        path: String,
        recursive: bool,
    },
    Stat(String),
    /// Of a file.
    Open(String),
    List(String),
}

/// What it answered.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum NameAnswer {
    Done,
    /// Of a creation, a `Stat` or an `Open`.
    Entry {
        id: EntryId,
        directory: bool,
    },
    Names(Vec<String>),
    /// A refusal that says something about the names.
    Refused,
}

/// How it ended.
pub(crate) type NameEnd = HistoryEnd<NameAnswer>;

/// Its start or its end.
pub(crate) type NameEvent = HistoryEvent<NameOp, NameAnswer>;

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct NameNode {
    directory: bool,
    /// The operation that made it.
    made_by: usize,
}

type NameTree = BTreeMap<String, NameNode>;

/// What an operation saw or did where it happened.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum NameEffect {
    Nothing,
    Did,
    Saw(NameNode),
    Listed(Vec<String>),
}

fn parent(path: &str) -> &str {
    match path.rfind('/') {
        Some(0) | None => "/",
        Some(cut) => &path[..cut],
    }
}

fn below<'a>(names: &'a NameTree, path: &str) -> impl Iterator<Item = (&'a String, &'a NameNode)> {
    let prefix = format!("{path}/");
    names.range(prefix.clone()..).take_while(move |(name, _)| name.starts_with(&prefix))
}

fn is_directory(names: &NameTree, path: &str) -> bool {
    path == "/" || names.get(path).is_some_and(|thing| thing.directory)
}

/// Lets an operation happen.
fn happen(names: &mut NameTree, id: usize, op: &NameOp) -> NameEffect {
    let changed = match op {
        NameOp::Stat(path) => {
            return names.get(path).map_or(NameEffect::Nothing, |it| NameEffect::Saw(*it));
        }
        NameOp::Open(path) => {
            let file = names.get(path).filter(|it| !it.directory);
            return file.map_or(NameEffect::Nothing, |it| NameEffect::Saw(*it));
        }
        NameOp::List(path) => return list(names, path),
        NameOp::MakeDirectory(path) | NameOp::Create(path) => {
            let free = !names.contains_key(path) && is_directory(names, parent(path));
            if free {
                let directory = matches!(op, NameOp::MakeDirectory(_));
                names.insert(path.clone(), NameNode { directory, made_by: id });
            }
            free
        }
        NameOp::Rename { from, to, replace } => rename(names, from, to, *replace),
        NameOp::Delete { path, recursive } => {
            let empty = below(names, path).next().is_none();
            let fits = names.contains_key(path) && (empty || *recursive);
            if fits {
                let gone: Vec<String> = below(names, path).map(|(name, _)| name.clone()).collect();
                names.remove(path);
                names.retain(|name, _| !gone.contains(name));
            }
            fits
        }
    };
    if changed { NameEffect::Did } else { NameEffect::Nothing }
}

fn list(names: &NameTree, path: &str) -> NameEffect {
    if !is_directory(names, path) {
        return NameEffect::Nothing;
    }
    let children = below(names, path).filter(|(name, _)| parent(name) == path);
    NameEffect::Listed(children.map(|(name, _)| name[path.len() + 1..].to_owned()).collect())
}

fn rename(names: &mut NameTree, from: &str, to: &str, replace: bool) -> bool {
    let Some(thing) = names.get(from).copied() else { return false };
    let into_itself = to == from || to.starts_with(&format!("{from}/"));
    if into_itself || !is_directory(names, parent(to)) {
        return false;
    }
    if let Some(there) = names.get(to)
        && (!replace || there.directory || thing.directory)
    {
        return false;
    }
    let moved: Vec<(String, NameNode)> = below(names, from)
        .map(|(name, thing)| (format!("{to}{}", &name[from.len()..]), *thing))
        .collect();
    let gone: Vec<String> = below(names, from).map(|(name, _)| name.clone()).collect();
    names.retain(|name, _| !gone.contains(name));
    names.remove(from);
    names.insert(to.to_owned(), thing);
    names.extend(moved);
    true
}

/// What answers have told of the names so far.
#[derive(Default)]
struct NamesTold {
    /// Entry ids, by the operation that made them.
    ids: BTreeMap<usize, EntryId>,
}

impl NamesTold {
    fn is(&self, thing: NameNode, id: EntryId) -> bool {
        match self.ids.get(&thing.made_by) {
            Some(made) => *made == id,
            None => !self.ids.values().any(|made| *made == id),
        }
    }
}

impl Sequential for NamesTold {
    type State = NameTree;
    type Op = NameOp;
    type Effect = NameEffect;
    type Answer = NameAnswer;

    fn happen(names: &mut NameTree, id: usize, op: &NameOp) -> NameEffect {
        happen(names, id, op)
    }

    fn changes(effect: &NameEffect) -> bool {
        *effect == NameEffect::Did
    }

    fn told(&mut self, id: usize, op: &NameOp, answer: &NameAnswer) {
        if let (NameAnswer::Entry { id: entry, .. }, false) =
            (answer, matches!(op, NameOp::Stat(_) | NameOp::Open(_)))
        {
            self.ids.insert(id, *entry);
        }
    }

    fn is_right(&self, effect: &NameEffect, answer: &NameAnswer, _: &NameTree) -> bool {
        match (effect, answer) {
            (NameEffect::Nothing, answer) => *answer == NameAnswer::Refused,
            (NameEffect::Did, NameAnswer::Done | NameAnswer::Entry { .. }) => true,
            (NameEffect::Saw(thing), NameAnswer::Entry { id, directory }) => {
                thing.directory == *directory && self.is(*thing, *id)
            }
            (NameEffect::Listed(there), NameAnswer::Names(listed)) => there == listed,
            _ => false,
        }
    }
}

/// Judges a whole history, which began with no names at all.
pub(crate) fn judge(history: &[NameEvent]) -> Judgement {
    linearization::judge(NamesTold::default(), NameTree::new(), history)
}

#[cfg(test)]
mod tests {
    use super::super::linearization::Judgement;
    use super::{NameAnswer, NameEnd, NameEvent, NameOp, judge};
    use cairn_types::EntryId;

    fn began(id: usize, op: NameOp) -> NameEvent {
        NameEvent::Began(id, op)
    }

    fn answered(id: usize, answer: NameAnswer) -> NameEvent {
        NameEvent::Ended(id, NameEnd::Answered(answer))
    }

    fn entry(id: u64) -> NameAnswer {
        NameAnswer::Entry { id: EntryId::new(id), directory: false }
    }

    fn create() -> NameOp {
        NameOp::Create("/a".to_owned())
    }

    fn stat() -> NameOp {
        NameOp::Stat("/a".to_owned())
    }

    fn delete() -> NameOp {
        NameOp::Delete { path: "/a".to_owned(), recursive: false }
    }

    #[test]
    fn overlapping_operations_may_happen_in_either_order() {
        let seen = |answer| {
            judge(&[
                began(0, create()),
                began(1, stat()),
                answered(1, answer),
                answered(0, entry(7)),
            ])
        };
        assert_eq!(seen(NameAnswer::Refused), Judgement::Linearizable);
        assert_eq!(seen(entry(7)), Judgement::Linearizable);
    }

    #[test]
    fn an_answer_that_no_order_explains_is_found() {
        let history = [
            began(0, create()),
            answered(0, entry(7)),
            began(1, stat()),
            answered(1, NameAnswer::Refused),
        ];
        assert!(matches!(judge(&history), Judgement::Not(_)));
    }

    #[test]
    fn an_unknown_operation_happens_once_or_not_at_all() {
        let start = [
            began(0, create()),
            answered(0, entry(7)),
            began(1, delete()),
            NameEvent::Ended(1, NameEnd::Unknown),
            began(2, stat()),
        ];
        let with = |tail: &[NameEvent]| judge(&[&start[..], tail].concat());
        assert_eq!(with(&[answered(2, entry(7))]), Judgement::Linearizable);
        assert_eq!(with(&[answered(2, NameAnswer::Refused)]), Judgement::Linearizable);
        let twice = [
            answered(2, NameAnswer::Refused),
            began(3, create()),
            answered(3, entry(8)),
            began(4, stat()),
            answered(4, NameAnswer::Refused),
        ];
        assert!(matches!(with(&twice), Judgement::Not(_)), "the retry deleted the new file (R24)");
    }

    #[test]
    fn a_stat_that_tells_another_file_s_id_is_found() {
        let history = [
            began(0, create()),
            answered(0, entry(7)),
            began(1, delete()),
            answered(1, NameAnswer::Done),
            began(2, create()),
            answered(2, entry(8)),
            began(3, stat()),
            answered(3, entry(7)),
        ];
        assert!(matches!(judge(&history), Judgement::Not(_)));
    }
}
