//! Permissions hold: there is one order of what people of different names asked for, true to time,
//! in which everything that is refused had to be, and nothing else was (PE1, PE2;
//! `linearization.rs`).
//!
//! ```text
//!   who, op ──► the way: search on each directory ──► the op's own rule ──► names ──► Did, Saw …
//!                        └─────── Denied ◄───────────────┘                   └─► Refused
//! ```
//! A model of owners, groups and modes as POSIX has them, of its own: it knows the workload's few
//! people, and nothing of the master's.
//!
//! - PH1: what a change is answered with is what its entry was when it changed, or what it is when
//!   the answer comes: where the first answer is lost, the second is given of what is there by
//!   then (hard seed 1321 of 56ec34b).

use super::linearization::{self, HistoryEnd, HistoryEvent, Judgement, Sequential};
use cairn_types::Identity;
use std::collections::BTreeMap;

/// Somebody: user, first group, a further group.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Person {
    pub(crate) uid: u32,
    pub(crate) gid: u32,
    pub(crate) also: u32,
}

impl Person {
    /// As it says of itself.
    pub(crate) fn identity(self) -> Identity {
        Identity { uid: self.uid, gid: self.gid, groups: vec![self.also] }
    }
}

/// The superuser, who may do everything; and people of whom two share a group.
pub(crate) const PEOPLE: [Person; 4] = [
    Person { uid: 0, gid: 0, also: 0 },
    Person { uid: 1, gid: 10, also: 10 },
    Person { uid: 2, gid: 20, also: 10 },
    Person { uid: 3, gid: 30, also: 30 },
];

/// The directory that all of it happens in.
pub(crate) const TOP: &str = "/people";
/// Its mode: all may make names there, and take away their own.
pub(crate) const TOP_MODE: u32 = 0o1777;

const READ: u32 = 4;
const WRITE: u32 = 2;
const SEARCH: u32 = 1;

/// Who asks for something, by its number in [`PEOPLE`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Wish {
    pub(crate) who: usize,
    pub(crate) op: OwnedOp,
}

/// What is asked for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum OwnedOp {
    MakeDirectory {
        path: String,
        mode: u32,
    },
    Create {
        path: String,
        mode: u32,
    },
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
    Open(String),
    List(String),
    SetMode {
        path: String,
        mode: u32,
    },
    SetOwner {
        path: String,
        owner: u32,
    },
    SetGroup {
        path: String,
        group: u32,
    },
    /// Of the file that operation made, by its id.
    Read {
        made_by: usize,
    },
    /// Likewise; who has written it before may still hold a lease, and need not ask.
    Write {
        made_by: usize,
        may_hold_lease: bool,
    },
}

/// Owner, group and mode.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Owned {
    pub(crate) owner: u32,
    pub(crate) group: u32,
    pub(crate) mode: u32,
}

/// What was answered.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum OwnedAnswer {
    Done,
    Entry(Owned),
    Names(Vec<String>),
    /// Permission denied.
    Denied,
    /// A refusal that says something about the names.
    Refused,
}

/// How it ended.
pub(crate) type OwnedEnd = HistoryEnd<OwnedAnswer>;
/// Its start or its end.
pub(crate) type OwnedEvent = HistoryEvent<Wish, OwnedAnswer>;

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct OwnedNode {
    directory: bool,
    owned: Owned,
    made_by: usize,
}

type OwnedTree = BTreeMap<String, OwnedNode>;

#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum OwnedEffect {
    Denied,
    Refused,
    /// Made or changed.
    Did,
    /// Likewise; what it is then.
    DidTo(OwnedNode),
    Saw(Owned),
    Listed(Vec<String>),
    Used,
    /// Denied, but for a lease that it may hold.
    DeniedUnlessLeased,
    /// The file is gone: nothing is said of who may do what with it.
    Gone,
}

/// Refused, and why.
enum No {
    Permission,
    Names,
}

type Allowed<T> = Result<T, No>;

fn parent(path: &str) -> &str {
    match path.rfind('/') {
        Some(0) | None => "/",
        Some(cut) => &path[..cut],
    }
}

fn below(tree: &OwnedTree, path: &str) -> Vec<String> {
    let prefix = format!("{path}/");
    let names = tree.range(prefix.clone()..).map(|(name, _)| name);
    names.take_while(|name| name.starts_with(&prefix)).cloned().collect()
}

fn allow(may: bool) -> Allowed<()> {
    if may { Ok(()) } else { Err(No::Permission) }
}

/// Somebody before a tree.
struct Judge<'a> {
    person: Person,
    tree: &'a OwnedTree,
}

impl Judge<'_> {
    fn may(&self, owned: Owned, wish: u32) -> bool {
        let Person { uid, gid, also } = self.person;
        let class = if uid == owned.owner {
            owned.mode / 0o100
        } else if gid == owned.group || also == owned.group {
            owned.mode / 0o10
        } else {
            owned.mode
        };
        uid == 0 || class & wish == wish
    }

    fn owns(&self, owned: Owned) -> bool {
        self.person.uid == 0 || self.person.uid == owned.owner
    }

    /// Goes along the directories of a way, from the top; what is missing or a file ends it.
    fn walk(&self, path: &str) -> Allowed<bool> {
        let cuts = path.match_indices('/').map(|(cut, _)| &path[..cut]).skip(1);
        for directory in cuts {
            match self.tree.get(directory) {
                Some(node) if node.directory => allow(self.may(node.owned, SEARCH))?,
                _ => return Ok(false),
            }
        }
        Ok(true)
    }

    fn find(&self, path: &str) -> Allowed<OwnedNode> {
        let leads = self.walk(path)?;
        let node = self.tree.get(path).copied().filter(|_| leads);
        node.ok_or(No::Names)
    }

    /// Names may be made in and taken from the directory of a path.
    fn enter(&self, path: &str) -> Allowed<Owned> {
        let node = self.tree.get(parent(path)).filter(|node| node.directory).ok_or(No::Names)?;
        allow(self.may(node.owned, WRITE | SEARCH))?;
        Ok(node.owned)
    }

    fn make(&self, path: &str) -> Allowed<Owned> {
        if !self.walk(path)? || self.tree.contains_key(path) {
            return Err(No::Names);
        }
        self.enter(path)
    }

    fn take(&self, path: &str) -> Allowed<OwnedNode> {
        let node = self.find(path)?;
        let holder = self.enter(path)?;
        let is_sticky = holder.mode & 0o1000 != 0;
        allow(!is_sticky || self.owns(node.owned) || self.owns(holder))?;
        Ok(node)
    }

    fn made_in(&self, holder: Owned, mode: u32, directory: bool) -> Owned {
        let hands_down = holder.mode & 0o2000 != 0;
        let group = if hands_down { holder.group } else { self.person.gid };
        let mode = if hands_down && directory { mode | 0o2000 } else { mode };
        Owned { owner: self.person.uid, group, mode }
    }

    fn delete(&self, path: &str, recursive: bool) -> Allowed<()> {
        let node = self.take(path)?;
        if below(self.tree, path).is_empty() {
            return Ok(());
        }
        allow(!recursive || self.may(node.owned, WRITE | SEARCH))?;
        if recursive { Ok(()) } else { Err(No::Names) }
    }

    fn rename(&self, (from, to): (&str, &str), replace: bool) -> Allowed<()> {
        // It can never be right, whoever asks.
        if to.starts_with(&format!("{from}/")) {
            return Err(No::Names);
        }
        let from_leads = self.walk(from)?;
        let to_leads = self.walk(to)?;
        if !from_leads {
            return Err(No::Names);
        }
        let node = self.take(from)?;
        if !to_leads {
            return Err(No::Names);
        }
        let fits = match self.tree.get(to).copied() {
            None => self.enter(to).map(|_| true)?,
            Some(there) => {
                self.take(to)?;
                replace && !there.directory && !node.directory
            }
        };
        if fits { Ok(()) } else { Err(No::Names) }
    }

    /// What it is when it has been changed so.
    fn change(&self, path: &str, change: &OwnedOp) -> Allowed<Owned> {
        let node = self.find(path)?;
        let (old, person) = (node.owned, self.person);
        let new = match change {
            OwnedOp::SetMode { mode, .. } => Owned { mode: *mode, ..old },
            OwnedOp::SetOwner { owner, .. } => {
                allow(person.uid == 0 || *owner == old.owner)?;
                Owned { owner: *owner, ..old }
            }
            OwnedOp::SetGroup { group, .. } => {
                let is_in = person.gid == *group || person.also == *group;
                allow(person.uid == 0 || *group == old.group || is_in)?;
                Owned { group: *group, ..old }
            }
            _ => old,
        };
        allow(self.owns(old))?;
        // As chown(2) does: who gets it shall not be whom it runs as.
        let is_handed = (new.owner, new.group) != (old.owner, old.group) && !node.directory;
        let mode = if is_handed && person.uid != 0 { new.mode & !0o6000 } else { new.mode };
        Ok(Owned { mode, ..new })
    }
}

fn moved(tree: &mut OwnedTree, from: &str, to: &str) {
    for name in below(tree, from).into_iter().chain([from.to_owned()]) {
        let node = tree.remove(&name).expect("it is there");
        tree.insert(format!("{to}{}", &name[from.len()..]), node);
    }
}

fn happen(tree: &mut OwnedTree, id: usize, wish: &Wish) -> Allowed<OwnedEffect> {
    let person = PEOPLE[wish.who];
    let judge = Judge { person, tree };
    match &wish.op {
        OwnedOp::MakeDirectory { path, mode } | OwnedOp::Create { path, mode } => {
            let directory = matches!(wish.op, OwnedOp::MakeDirectory { .. });
            let holder = judge.make(path)?;
            let owned = judge.made_in(holder, *mode, directory);
            let node = OwnedNode { directory, owned, made_by: id };
            tree.insert(path.clone(), node);
            Ok(OwnedEffect::DidTo(node))
        }
        OwnedOp::Rename { from, to, replace } => {
            judge.rename((from, to), *replace)?;
            moved(tree, from, to);
            Ok(OwnedEffect::Did)
        }
        OwnedOp::Delete { path, recursive } => {
            judge.delete(path, *recursive)?;
            let gone = below(tree, path);
            tree.retain(|name, _| name != path && !gone.contains(name));
            Ok(OwnedEffect::Did)
        }
        OwnedOp::Stat(path) => judge.find(path).map(|node| OwnedEffect::Saw(node.owned)),
        OwnedOp::Open(path) => {
            let node = judge.find(path)?;
            if node.directory {
                return Err(No::Names);
            }
            allow(judge.may(node.owned, READ) || judge.may(node.owned, WRITE))?;
            Ok(OwnedEffect::Saw(node.owned))
        }
        OwnedOp::List(path) => {
            let node = judge.find(path)?;
            allow(judge.may(node.owned, READ))?;
            if !node.directory {
                return Err(No::Names);
            }
            let children = below(tree, path).into_iter().filter(|name| parent(name) == path);
            Ok(OwnedEffect::Listed(children.map(|it| it[path.len() + 1..].to_owned()).collect()))
        }
        change @ (OwnedOp::SetMode { path, .. }
        | OwnedOp::SetOwner { path, .. }
        | OwnedOp::SetGroup { path, .. }) => {
            let owned = judge.change(path, change)?;
            let node = tree.get_mut(path).expect("it is there");
            node.owned = owned;
            Ok(OwnedEffect::DidTo(*node))
        }
        OwnedOp::Read { made_by } => {
            let Some(node) = file_made_by(tree, *made_by) else { return Ok(OwnedEffect::Gone) };
            allow(judge.may(node.owned, READ) || judge.may(node.owned, WRITE))?;
            Ok(OwnedEffect::Used)
        }
        OwnedOp::Write { made_by, may_hold_lease } => {
            let Some(node) = file_made_by(tree, *made_by) else { return Ok(OwnedEffect::Gone) };
            match judge.may(node.owned, WRITE) {
                true => Ok(OwnedEffect::Used),
                false if *may_hold_lease => Ok(OwnedEffect::DeniedUnlessLeased),
                false => Err(No::Permission),
            }
        }
    }
}

fn file_made_by(tree: &OwnedTree, made_by: usize) -> Option<OwnedNode> {
    tree.values().find(|node| node.made_by == made_by).copied()
}

/// The model.
struct Permissions;

impl Sequential for Permissions {
    type State = OwnedTree;
    type Op = Wish;
    type Effect = OwnedEffect;
    type Answer = OwnedAnswer;

    fn happen(tree: &mut OwnedTree, id: usize, wish: &Wish) -> OwnedEffect {
        happen(tree, id, wish).unwrap_or_else(|no| match no {
            No::Permission => OwnedEffect::Denied,
            No::Names => OwnedEffect::Refused,
        })
    }

    fn changes(effect: &OwnedEffect) -> bool {
        matches!(effect, OwnedEffect::Did | OwnedEffect::DidTo(_))
    }

    fn is_right(&self, effect: &OwnedEffect, answer: &OwnedAnswer, tree: &OwnedTree) -> bool {
        use OwnedAnswer as Answer;
        match (effect, answer) {
            (OwnedEffect::Denied, answer) => *answer == Answer::Denied,
            (OwnedEffect::Refused, answer) => *answer == Answer::Refused,
            (OwnedEffect::Saw(owned), Answer::Entry(told)) => owned == told,
            // PH1
            (OwnedEffect::DidTo(node), Answer::Entry(told)) => {
                let is_now = |it: &OwnedNode| it.made_by == node.made_by && it.owned == *told;
                node.owned == *told || tree.values().any(is_now)
            }
            (OwnedEffect::Listed(there), Answer::Names(told)) => there == told,
            (OwnedEffect::Did | OwnedEffect::Used, Answer::Done) => true,
            (OwnedEffect::DeniedUnlessLeased, Answer::Denied | Answer::Done) => true,
            (OwnedEffect::Gone, _) => true,
            _ => false,
        }
    }
}

/// Judges a whole history, which began with [`TOP`] alone.
pub(crate) fn judge(history: &[OwnedEvent]) -> Judgement {
    let owned = Owned { owner: 0, group: 0, mode: TOP_MODE };
    let top = OwnedNode { directory: true, owned, made_by: usize::MAX };
    linearization::judge(Permissions, OwnedTree::from([(TOP.to_owned(), top)]), history)
}

#[cfg(test)]
mod tests {
    use super::super::linearization::Judgement;
    use super::{Owned, OwnedAnswer, OwnedEnd, OwnedEvent, OwnedOp, Wish, judge};

    fn began(id: usize, who: usize, op: OwnedOp) -> OwnedEvent {
        OwnedEvent::Began(id, Wish { who, op })
    }

    fn answered(id: usize, answer: OwnedAnswer) -> OwnedEvent {
        OwnedEvent::Ended(id, OwnedEnd::Answered(answer))
    }

    fn told(owner: u32, group: u32, mode: u32) -> OwnedAnswer {
        OwnedAnswer::Entry(Owned { owner, group, mode })
    }

    /// Person 1 makes `/people/d`, which nobody else may search.
    fn closed_directory() -> [OwnedEvent; 2] {
        let op = OwnedOp::MakeDirectory { path: "/people/d".to_owned(), mode: 0o700 };
        [began(0, 1, op), answered(0, told(1, 10, 0o700))]
    }

    fn stat(path: &str) -> OwnedOp {
        OwnedOp::Stat(path.to_owned())
    }

    #[test]
    fn what_must_be_refused_and_is_not_is_found_and_what_need_not_be_and_is() {
        let look = |who, answer| {
            let look = [began(1, who, stat("/people/d/x")), answered(1, answer)];
            judge(&[&closed_directory()[..], &look].concat())
        };
        assert_eq!(look(2, OwnedAnswer::Denied), Judgement::Linearizable);
        assert!(matches!(look(2, OwnedAnswer::Refused), Judgement::Not(_)), "it told that");
        assert_eq!(look(1, OwnedAnswer::Refused), Judgement::Linearizable);
        assert!(matches!(look(1, OwnedAnswer::Denied), Judgement::Not(_)));
        assert!(matches!(look(0, OwnedAnswer::Denied), Judgement::Not(_)), "the superuser");
    }

    #[test]
    fn a_look_beside_a_chmod_may_come_before_it_or_after_and_after_it_only_after() {
        let chmod = OwnedOp::SetMode { path: "/people/d".to_owned(), mode: 0o711 };
        let beside = |first: OwnedAnswer, second: OwnedAnswer| {
            let race = [
                began(1, 1, chmod.clone()),
                began(2, 2, stat("/people/d/x")),
                answered(2, first),
                answered(1, told(1, 10, 0o711)),
                began(3, 2, stat("/people/d/x")),
                answered(3, second),
            ];
            judge(&[&closed_directory()[..], &race].concat())
        };
        for first in [OwnedAnswer::Denied, OwnedAnswer::Refused] {
            assert_eq!(beside(first, OwnedAnswer::Refused), Judgement::Linearizable);
        }
        let late = beside(OwnedAnswer::Refused, OwnedAnswer::Denied);
        assert!(matches!(late, Judgement::Not(_)), "{late:?}");
    }

    #[test]
    fn a_creation_whose_answer_was_lost_is_answered_with_what_became_of_it_and_nothing_else() {
        let made = |answer| {
            let path = "/people/f".to_owned();
            let chmod = OwnedOp::SetMode { path: path.clone(), mode: 0o755 };
            judge(&[
                began(0, 1, OwnedOp::Create { path, mode: 0o666 }),
                began(1, 0, chmod),
                answered(1, told(1, 10, 0o755)),
                answered(0, answer),
            ])
        };
        for mode in [0o666, 0o755] {
            assert_eq!(made(told(1, 10, mode)), Judgement::Linearizable);
        }
        assert!(matches!(made(told(1, 10, 0o644)), Judgement::Not(_)));
        assert!(matches!(made(told(0, 10, 0o755)), Judgement::Not(_)));
    }

    #[test]
    fn in_a_sticky_directory_names_of_others_stay() {
        let delete = |who, answer| {
            let op = OwnedOp::Delete { path: "/people/d".to_owned(), recursive: false };
            let delete = [began(1, who, op), answered(1, answer)];
            judge(&[&closed_directory()[..], &delete].concat())
        };
        assert_eq!(delete(2, OwnedAnswer::Denied), Judgement::Linearizable);
        assert!(matches!(delete(2, OwnedAnswer::Done), Judgement::Not(_)));
        assert_eq!(delete(1, OwnedAnswer::Done), Judgement::Linearizable);
    }

    #[test]
    fn who_never_wrote_a_file_needs_its_write_bit_and_who_did_may_hold_a_lease() {
        let path = "/people/f".to_owned();
        let made =
            [began(0, 1, OwnedOp::Create { path, mode: 0o644 }), answered(0, told(1, 10, 0o644))];
        let write = |may_hold_lease| {
            let op = OwnedOp::Write { made_by: 0, may_hold_lease };
            let write = [began(1, 2, op), answered(1, OwnedAnswer::Done)];
            judge(&[&made[..], &write].concat())
        };
        assert!(matches!(write(false), Judgement::Not(_)));
        assert_eq!(write(true), Judgement::Linearizable);
    }
}
