//! The permissions against a plain model of them: random trees, people and requests.

use crate::name_mutation::NameMutation;
use crate::permissions::Asker;
use crate::record::{AddDirectories, AddFile, HideEntry, NewDirectory, RaiseLevel, Record};
use crate::state::{ROOT, State};
use cairn_protocol::{
    ClientToMaster, Create, Delete, ErrorCode, Explain, Failure, List, ListDegraded, ListLost,
    MakeDirectory, Open, OpenAnswer, RecordLength, Rename, SetAttributes, Stat,
};
use cairn_types::{
    Attributes, CellPath, EntryId, EntryKind, Identity, LogIndex, MutationName, MutationNumber,
    Random, SessionId, Term,
};
use std::collections::BTreeMap;
use std::sync::Arc;

/// What a tree is, in plain maps: by path.
#[derive(Default)]
struct Model {
    tree: BTreeMap<String, (EntryKind, Attributes)>,
}

const READ: u32 = 4;
const WRITE: u32 = 2;
const SEARCH: u32 = 1;

fn parent_of(path: &str) -> &str {
    match path.rsplit_once('/') {
        Some(("", _)) | None => "/",
        Some((parent, _)) => parent,
    }
}

impl Model {
    /// Whether somebody may do something with what is at a path, the way not looked at.
    fn may(&self, who: &Identity, path: &str, wish: u32) -> bool {
        let Some((_, it)) = self.tree.get(path) else { return true };
        let class = match () {
            () if who.uid == 0 => return true,
            () if who.uid == it.owner => it.mode >> 6,
            () if who.gid == it.group || who.groups.contains(&it.group) => it.mode >> 3,
            () => it.mode,
        };
        class & wish == wish
    }

    /// Whether somebody may go to the place of a name.
    fn reaches(&self, who: &Identity, path: &str) -> bool {
        let mut at = path;
        while at != "/" {
            at = parent_of(at);
            // That a file is in the way is said by who goes on.
            let is_file = self.tree.get(at).is_some_and(|(kind, _)| *kind == EntryKind::File);
            if !is_file && !self.may(who, at, SEARCH) {
                return false;
            }
        }
        true
    }

    fn owns(&self, who: &Identity, path: &str) -> bool {
        who.uid == 0 || self.tree.get(path).is_none_or(|(_, it)| it.owner == who.uid)
    }

    fn makes(&self, who: &Identity, path: &str) -> bool {
        self.may(who, parent_of(path), WRITE | SEARCH)
    }

    fn takes(&self, who: &Identity, path: &str) -> bool {
        let parent = parent_of(path);
        let sticky = self.tree.get(parent).is_some_and(|(_, it)| it.mode & 0o1000 != 0);
        let mine = self.owns(who, path) || self.owns(who, parent);
        self.makes(who, path) && (!sticky || mine)
    }

    fn has_below(&self, path: &str) -> bool {
        self.tree.keys().any(|other| other != "/" && parent_of(other) == path)
    }
}

/// A state and its model, built alike.
struct Pair {
    state: State,
    model: Model,
    index: u64,
    random: Random,
}

impl Pair {
    fn new(seed: u64) -> Self {
        let mut model = Model::default();
        let root = Attributes::usual(EntryKind::Directory);
        model.tree.insert("/".to_owned(), (EntryKind::Directory, root));
        let (state, random) = (State::default(), Random::new(seed));
        let mut pair = Self { state, model, index: 0, random };
        pair.apply(RaiseLevel { level: 1, ..RaiseLevel::default() }.into());
        for _ in 0..24 {
            pair.grow();
        }
        pair
    }

    fn apply(&mut self, record: Record) {
        self.index += 1;
        let applied = self.state.apply(LogIndex::new(self.index), Term::new(1), &record);
        assert!(!matches!(applied, crate::Applied::Failed(_)), "{applied:?}");
    }

    fn mutation(&self) -> MutationName {
        MutationName { session: SessionId::new(1), number: MutationNumber::new(self.index + 1) }
    }

    fn small(&mut self, of: u64) -> u32 {
        u32::try_from(self.random.below(of)).expect("small")
    }

    fn attributes(&mut self) -> Attributes {
        let mode = self.small(0o2000);
        // Mostly such as let one go on.
        let mode = if self.random.chance(600) { mode | 0o111 } else { mode };
        Attributes { owner: self.small(4), group: self.small(4), mode }
    }

    fn who(&mut self) -> Arc<Identity> {
        let groups = (0..self.small(3)).map(|_| self.small(4)).collect();
        Arc::new(Identity { uid: self.small(4), gid: self.small(4), groups })
    }

    /// A path that is there, mostly.
    fn path(&mut self) -> String {
        let all: Vec<String> = self.model.tree.keys().cloned().collect();
        let path = self.random.pick(&all).expect("the root").clone();
        if self.random.chance(700) {
            return path;
        }
        format!("{}/n{}", path.trim_end_matches('/'), self.small(4))
    }

    /// What is found at a path, whoever asks.
    fn opened(&self, open: &Open) -> Result<OpenAnswer, Failure> {
        let id = self.state.resolve(&open.path)?;
        let record = self.state.entry(id).expect("it stands there");
        if record.kind == EntryKind::Directory {
            return Err(Failure::refused(ErrorCode::IsADirectory, "a directory"));
        }
        let entry = self.state.described((id, &record), open.path.name().unwrap_or_default());
        Ok(OpenAnswer { entry, ..OpenAnswer::default() })
    }

    /// Makes a file or directory somewhere.
    fn grow(&mut self) {
        let directories: Vec<String> = (self.model.tree.iter())
            .filter(|(path, (kind, _))| {
                *kind == EntryKind::Directory && path.matches('/').count() < 4
            })
            .map(|(path, _)| path.clone())
            .collect();
        let parent = self.random.pick(&directories).expect("the root").clone();
        let name = format!("n{}", self.small(4));
        let path = format!("{}/{name}", parent.trim_end_matches('/'));
        if self.model.tree.contains_key(&path) {
            return;
        }
        let parsed = CellPath::parse(&parent).expect("a path");
        let parent = self.state.resolve(&parsed).expect("there");
        let (mutation, id) = (self.mutation(), EntryId::new(100 + self.index));
        let own = self.attributes();
        let attributes = Some(own);
        let kind = if self.random.chance(600) { EntryKind::Directory } else { EntryKind::File };
        self.apply(match kind {
            EntryKind::Directory => {
                let directories = vec![NewDirectory { id, name }];
                AddDirectories { mutation, parent, directories, attributes, ..Default::default() }
                    .into()
            }
            EntryKind::File => {
                AddFile { mutation, parent, name, id, attributes, ..Default::default() }.into()
            }
        });
        self.model.tree.insert(path, (kind, own));
    }
}

fn is_denied<T>(checked: &Result<T, Failure>) -> bool {
    checked.as_ref().is_err_and(|failure| failure.code == ErrorCode::PermissionDenied)
}

fn at(path: &str) -> CellPath {
    CellPath::parse(path).expect("a path")
}

/// Looks are judged by the model.
fn check_looks(pair: &Pair, who: &Arc<Identity>, path: &str) {
    let (model, state) = (&pair.model, &pair.state);
    let asker = Asker { state, who };
    let denied = |request: ClientToMaster| is_denied(&asker.check_client(&request));
    let reaches = model.reaches(who, path);
    let kind = model.tree.get(path).map(|(kind, _)| *kind);
    let told = format!("{who:?} {path}");
    assert_eq!(denied(ClientToMaster::Stat(Stat { path: at(path) })), !reaches, "{told}");
    let opens = match kind {
        Some(EntryKind::File) => model.may(who, path, READ) || model.may(who, path, WRITE),
        _ => true,
    };
    let open = Open { path: at(path), ..Open::default() };
    let opened = asker.opened(&open, pair.opened(&open));
    assert_eq!(is_denied(&opened), !(reaches && opens), "{told}");
    if let (Some(EntryKind::File), Ok(file)) = (kind, state.resolve(&at(path))) {
        let heeded = asker.heeded(RecordLength { file, closes: true });
        assert_eq!((heeded.file, heeded.closes), (file, model.may(who, path, WRITE)), "{told}");
    }
    let list = List { path: at(path), ..List::default() };
    let lists = reaches && model.may(who, path, READ);
    assert_eq!(denied(ClientToMaster::List(list)), !lists, "{told}");
    let explain = Explain { subject: path.to_owned() };
    assert_eq!(denied(ClientToMaster::Explain(explain)), !lists, "explain {told}");
    for of_all in [
        ClientToMaster::Explain(Explain { subject: "1.1".to_owned() }),
        ClientToMaster::ListDegraded(ListDegraded::default()),
        ClientToMaster::ListLost(ListLost::default()),
    ] {
        assert_eq!(denied(of_all.clone()), who.uid != 0, "{of_all:?} {told}");
    }
}

/// So are changes.
fn check_changes(pair: &Pair, who: &Arc<Identity>, (path, other): (&str, &str)) {
    let (model, state) = (&pair.model, &pair.state);
    let asker = Asker { state, who };
    let denied = |change: NameMutation| is_denied(&asker.check_change(&change));
    let there = |path: &str| model.tree.contains_key(path);
    let has_parent = |path: &str| {
        let parent = model.tree.get(parent_of(path));
        parent.is_some_and(|(kind, _)| *kind == EntryKind::Directory)
    };
    let reaches = model.reaches(who, path);
    let told = format!("{who:?} {path} {other}");
    let makes = reaches && (there(path) || !has_parent(path) || model.makes(who, path));
    let make = MakeDirectory { path: at(path), ..MakeDirectory::default() };
    assert_eq!(denied(make.into()), !makes, "mkdir {told}");
    let creates = makes && (!there(path) || model.may(who, path, WRITE));
    let create = Create { path: at(path), or_open: true, ..Create::default() };
    assert_eq!(denied(create.into()), !creates, "create {told}");
    if path != "/" {
        let below = model.has_below(path) && !model.may(who, path, WRITE | SEARCH);
        let deletes = reaches && (!there(path) || (model.takes(who, path) && !below));
        let delete = Delete { path: at(path), recursive: true, ..Delete::default() };
        assert_eq!(denied(delete.into()), !deletes, "rm {told}");
    }
    if path != "/" && other != "/" {
        let both = reaches && model.reaches(who, other);
        let gives_way = !there(other) || other == path || model.takes(who, other);
        let enters = there(other) || !has_parent(other) || model.makes(who, other);
        let moves = both && (!there(path) || (model.takes(who, path) && gives_way && enters));
        let (from, to) = (at(path), at(other));
        let rename = Rename { from, to, replace: true, ..Rename::default() };
        assert_eq!(denied(rename.into()), !moves, "mv {told}");
    }
    let set = |set: SetAttributes| denied(SetAttributes { path: at(path), ..set }.into());
    let owns = reaches && (!there(path) || model.owns(who, path));
    assert_eq!(set(SetAttributes { mode: Some(0), ..Default::default() }), !owns, "{told}");
    let group = 2;
    let same = model.tree.get(path).is_none_or(|(_, it)| it.group == group);
    let is_in = who.uid == 0 || who.gid == group || who.groups.contains(&group);
    let regroups = owns && (same || is_in);
    let wish = SetAttributes { group: Some(group), ..Default::default() };
    assert_eq!(set(wish), !regroups, "chgrp {told}");
    let wish = SetAttributes { owner: Some(9), ..Default::default() };
    assert_eq!(set(wish), !(reaches && (!there(path) || who.uid == 0)), "chown {told}");
    let writes = model.owns(who, path) || model.may(who, path, WRITE);
    let wish = SetAttributes { modified: Some(Default::default()), ..Default::default() };
    assert_eq!(set(wish), !(reaches && (!there(path) || writes)), "touch {told}");
}

#[test]
fn whoever_asks_for_whatever_is_refused_what_a_plain_model_refuses() {
    for seed in 0..60 {
        let mut pair = Pair::new(seed);
        for _ in 0..120 {
            let (who, path, other) = (pair.who(), pair.path(), pair.path());
            check_looks(&pair, &who, &path);
            check_changes(&pair, &who, (&path, &other));
            if pair.random.chance(100) {
                pair.grow();
            }
            // What is remembered of ways must not outlive a change of a directory.
            if pair.random.chance(100) && pair.model.tree.contains_key(&path) {
                let attributes = pair.attributes();
                let entry = pair.state.resolve(&at(&path)).expect("there");
                let mutation = pair.mutation();
                let change = crate::record::ChangeAttributes {
                    mutation,
                    entry,
                    attributes: Some(attributes),
                    ..Default::default()
                };
                pair.apply(change.into());
                pair.model.tree.get_mut(&path).expect("there").1 = attributes;
            }
        }
    }
}

#[test]
fn while_the_log_can_have_no_attributes_nothing_is_refused_and_then_it_is() {
    let (mut state, who) = (State::default(), Arc::new(Identity { uid: 7, ..Default::default() }));
    let make = MakeDirectory { path: at("/d"), ..MakeDirectory::default() };
    let change = NameMutation::from(make);
    let check = |state: &State| Asker { state, who: &who }.check_change(&change);
    assert_eq!(check(&state), Ok(()));
    let raise = RaiseLevel { level: 1, ..RaiseLevel::default() };
    state.apply(LogIndex::new(1), Term::new(1), &raise.into());
    let told = check(&state).expect_err("the root is the superuser's").to_string();
    let wanted = "/d: uid 7, group 0 may not write and search / (owner 0, group 0, mode 0755)";
    assert_eq!(told, wanted);
}

#[test]
fn what_is_deleted_is_reached_by_who_could_reach_it_before_and_by_its_owner() {
    let mut pair = Pair::new(0);
    let (parent, mutation) = (ROOT, pair.mutation());
    let closed = Attributes { owner: 7, group: 7, mode: 0o700 };
    let (id, name) = (EntryId::new(5000), "closed".to_owned());
    let directories = vec![NewDirectory { id, name }];
    let attributes = Some(closed);
    pair.apply(
        AddDirectories { mutation, parent, directories, attributes, ..Default::default() }.into(),
    );
    let (mutation, name) = (pair.mutation(), "f".to_owned());
    let attributes = Some(Attributes { owner: 8, group: 8, mode: 0o644 });
    let file = EntryId::new(5001);
    let add = AddFile { mutation, parent: id, name, id: file, attributes, ..Default::default() };
    pair.apply(add.into());
    let (mutation, name) = (pair.mutation(), "f".to_owned());
    let hide = HideEntry { mutation, entry: file, parent: id, name, ..Default::default() };
    pair.apply(hide.into());
    let hidden = pair.state.path_of(file).expect("it is kept");
    let may = |uid| {
        let who = Arc::new(Identity { uid, gid: uid, groups: Vec::new() });
        Asker { state: &pair.state, who: &who }.check_way(&at(&hidden)).is_ok()
    };
    assert_eq!([0, 7, 8, 9].map(may), [true, true, true, false]);
}
