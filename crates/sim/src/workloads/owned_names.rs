//! People of different names make, rename, delete, chmod, chown, look at, read and write the same
//! few files and directories at once; what they are refused, and what not, must be explained by one
//! order of it all (checker `permissions_hold`).

use crate::checkers::permissions_hold::{
    Owned, OwnedAnswer, OwnedEnd, OwnedEvent, OwnedOp, PEOPLE, Person, TOP, TOP_MODE, Wish,
};
use crate::operations::{ClientOp, OpOutput, OpResult, OpTicket, path, speaks_of_names};
use crate::simulation::{Simulation, Workload};
use bytes::Bytes;
use cairn_protocol::{Create, ErrorCode, MakeDirectory, Outcome, Request, SetAttributes};
use cairn_types::{Content, Entry, EntryId};
use std::cell::RefCell;
use std::collections::{BTreeMap, BTreeSet};
use std::rc::Rc;

/// More than so many operations are not asked for: the search over them has to end.
const OPERATIONS_MAX: usize = 300;

const DIRECTORY_MODES: [u32; 9] =
    [0o755, 0o777, 0o1777, 0o2775, 0o700, 0o711, 0o733, 0o750, 0o1770];
const FILE_MODES: [u32; 8] = [0o644, 0o600, 0o640, 0o660, 0o666, 0o400, 0o046, 0o6755];

/// Starts and ends of all operations, in true order, and what all know of it.
#[derive(Debug, Default)]
pub(crate) struct OwnedHistory {
    pub(crate) events: Vec<OwnedEvent>,
    count: usize,
    /// The superuser has made [`TOP`].
    made: bool,
    /// The files that operations made.
    files: BTreeMap<usize, EntryId>,
}

/// One of the people, at a machine of its own.
pub(crate) struct OwnedNames {
    /// Its client, and its number in [`PEOPLE`].
    client: usize,
    who: usize,
    history: Rc<RefCell<OwnedHistory>>,
    doing: Option<(usize, OwnedOp)>,
    /// Of which files it may hold a lease.
    written: BTreeSet<usize>,
    over: bool,
}

impl OwnedNames {
    pub(crate) fn new(client: usize, who: usize, history: Rc<RefCell<OwnedHistory>>) -> Self {
        Self { client, who, history, doing: None, written: BTreeSet::new(), over: false }
    }

    fn make_top(&self, sim: &mut Simulation) {
        let (mutation, mode, path) = (Default::default(), Some(TOP_MODE), path(TOP));
        let make = MakeDirectory { mutation, path, parents: false, mode };
        sim.ask(self.client, ClientOp::Order { order: Box::new(make.into()) });
    }

    /// It was asked for the top. That it has its mode is seen: an earlier build's log has none.
    fn on_top(&self, result: &OpResult) {
        let owned = match result {
            Ok(OpOutput::Entry(entry)) => owned_of(entry),
            _ => return,
        };
        self.history.borrow_mut().made |= owned == Owned { owner: 0, group: 0, mode: TOP_MODE };
    }

    fn go_on(&mut self, sim: &mut Simulation) {
        if sim.closing || self.history.borrow().count >= OPERATIONS_MAX {
            self.over = true;
            return;
        }
        if !self.history.borrow().made {
            match self.who {
                0 if sim.random().chance(500) => self.make_top(sim),
                0 => drop(sim.ask(self.client, ClientOp::Stat { path: path(TOP) })),
                _ => sim.rest(400),
            }
            return;
        }
        let op = self.draw(sim);
        let asked = self.asked(&op);
        let mut history = self.history.borrow_mut();
        let id = history.count;
        history.count += 1;
        history.events.push(OwnedEvent::Began(id, Wish { who: self.who, op: op.clone() }));
        self.doing = Some((id, op));
        sim.ask(self.client, asked);
    }

    fn draw(&self, sim: &mut Simulation) -> OwnedOp {
        let file = {
            let history = self.history.borrow();
            let files: Vec<usize> = history.files.keys().rev().take(6).copied().collect();
            sim.random().pick(&files).copied()
        };
        let path = if sim.random().chance(400) { directory(sim) } else { name(sim) };
        match (sim.random().below(24), file) {
            (0..=2, _) => {
                OwnedOp::MakeDirectory { path: directory(sim), mode: directory_mode(sim) }
            }
            (3..=6, _) => OwnedOp::Create { path, mode: file_mode(sim) },
            (7 | 8, _) => {
                let to = if sim.random().chance(400) { directory(sim) } else { name(sim) };
                match path == to {
                    true => OwnedOp::Stat(path),
                    false => OwnedOp::Rename { from: path, to, replace: sim.random().chance(500) },
                }
            }
            (9 | 10, _) => OwnedOp::Delete { path, recursive: sim.random().chance(500) },
            (11 | 12, _) => OwnedOp::Stat(path),
            (13, _) => OwnedOp::List(path),
            (14..=16, _) => {
                let is_name = path.matches('/').count() > 2;
                let mode = if is_name { file_mode(sim) } else { directory_mode(sim) };
                OwnedOp::SetMode { path, mode }
            }
            (17, _) => OwnedOp::SetOwner { path, owner: some_person(sim).uid },
            (18, _) => OwnedOp::SetGroup { path, group: some_person(sim).gid },
            (19 | 20, Some(made_by)) => OwnedOp::Read { made_by },
            (21 | 22, Some(made_by)) => {
                OwnedOp::Write { made_by, may_hold_lease: self.written.contains(&made_by) }
            }
            _ => OwnedOp::Open(path),
        }
    }

    fn asked(&self, op: &OwnedOp) -> ClientOp {
        let mutation = Default::default();
        let file = |made_by: &usize| self.history.borrow().files[made_by];
        let set = |at: &str| SetAttributes { mutation, path: path(at), ..Default::default() };
        let order = |order: Request| ClientOp::Order { order: Box::new(order) };
        match op {
            OwnedOp::MakeDirectory { path: at, mode } => {
                let (path, mode) = (path(at), Some(*mode));
                order(MakeDirectory { mutation, path, parents: false, mode }.into())
            }
            OwnedOp::Create { path: at, mode } => {
                let (path, mode, content) = (path(at), Some(*mode), Content::Bytes);
                order(Create { mutation, path, mode, content, ..Default::default() }.into())
            }
            OwnedOp::Rename { from, to, replace } => {
                ClientOp::Rename { from: path(from), to: path(to), replace: *replace }
            }
            OwnedOp::Delete { path: at, recursive } => {
                ClientOp::Delete { path: path(at), recursive: *recursive }
            }
            OwnedOp::Stat(at) => ClientOp::Stat { path: path(at) },
            OwnedOp::Open(at) => ClientOp::Open { path: path(at) },
            OwnedOp::List(at) => ClientOp::List { path: path(at) },
            OwnedOp::SetMode { path, mode } => {
                order(SetAttributes { mode: Some(*mode), ..set(path) }.into())
            }
            OwnedOp::SetOwner { path, owner } => {
                order(SetAttributes { owner: Some(*owner), ..set(path) }.into())
            }
            OwnedOp::SetGroup { path, group } => {
                order(SetAttributes { group: Some(*group), ..set(path) }.into())
            }
            OwnedOp::Read { made_by } => {
                ClientOp::Read { file: file(made_by), offset: 0, size: 8, fresh: true }
            }
            OwnedOp::Write { made_by, .. } => {
                let bytes = Bytes::from_static(b"owned");
                ClientOp::Write { file: file(made_by), offset: 0, bytes, sync: false }
            }
        }
    }
}

fn directory(sim: &mut Simulation) -> String {
    format!("{TOP}/d{}", sim.random().below(3))
}

fn name(sim: &mut Simulation) -> String {
    format!("{}/{}", directory(sim), ["a", "b"][sim.random().below(2) as usize])
}

fn directory_mode(sim: &mut Simulation) -> u32 {
    *sim.random().pick(&DIRECTORY_MODES).expect("there are some")
}

fn file_mode(sim: &mut Simulation) -> u32 {
    *sim.random().pick(&FILE_MODES).expect("there are some")
}

fn some_person(sim: &mut Simulation) -> Person {
    *sim.random().pick(&PEOPLE).expect("there are some")
}

fn owned_of(entry: &Entry) -> Owned {
    let it = entry.attributes();
    Owned { owner: it.owner, group: it.group, mode: it.mode }
}

fn end_of(op: &OwnedOp, result: &OpResult) -> OwnedEnd {
    let of_bytes = matches!(op, OwnedOp::Read { .. } | OwnedOp::Write { .. });
    OwnedEnd::Answered(match result {
        Ok(OpOutput::Entry(entry)) => OwnedAnswer::Entry(owned_of(entry)),
        Ok(OpOutput::Entries(entries)) => {
            let mut names: Vec<String> = entries.iter().map(|entry| entry.name.clone()).collect();
            names.sort();
            OwnedAnswer::Names(names)
        }
        Ok(_) => OwnedAnswer::Done,
        Err(failure) if failure.code == ErrorCode::PermissionDenied => OwnedAnswer::Denied,
        // That bytes may have changed says nothing about who may change them.
        Err(_) if of_bytes => return OwnedEnd::NotDone,
        Err(failure) if failure.outcome == Outcome::Unknown => return OwnedEnd::Unknown,
        Err(failure) if speaks_of_names(failure) => OwnedAnswer::Refused,
        Err(_) => return OwnedEnd::NotDone,
    })
}

impl Workload for OwnedNames {
    fn start(&mut self, sim: &mut Simulation) {
        sim.rest(500);
    }

    fn ended(&mut self, sim: &mut Simulation, _: OpTicket, result: OpResult) {
        sim.rest(400);
        let Some((id, op)) = self.doing.take() else { return self.on_top(&result) };
        let end = end_of(&op, &result);
        match (&op, &result) {
            (OwnedOp::Create { .. }, Ok(OpOutput::Entry(entry))) => {
                self.history.borrow_mut().files.insert(id, entry.id);
            }
            // It may have had a lease, whatever came of it.
            (OwnedOp::Write { made_by, .. }, _)
                if end != OwnedEnd::Answered(OwnedAnswer::Denied) =>
            {
                self.written.insert(*made_by);
            }
            _ => {}
        }
        match &end {
            OwnedEnd::Answered(OwnedAnswer::Denied) => sim.reach("a person was denied something"),
            OwnedEnd::Answered(OwnedAnswer::Refused) => {}
            OwnedEnd::Answered(_) if self.who > 0 => sim.reach("a person was allowed something"),
            _ => {}
        }
        self.history.borrow_mut().events.push(OwnedEvent::Ended(id, end));
    }

    fn woken(&mut self, sim: &mut Simulation) {
        self.go_on(sim);
    }

    fn finished(&self) -> bool {
        self.over
    }
}
