//! Names come and go in a directory while snapshots of it are taken: each copy has the names of one
//! instant (R34, R35).
//!
//! ```text
//!   name 7:   create ▕██▏        rename to 9 ▕███▏
//!                            │ snapshot │        7 is in it, and 9 is not
//! ```
//! - SN1: a name that came for sure before a snapshot's first record was logged, and was not about
//!   to go, is in the copy; one that began to come later, or was gone for sure, is not.
//! - SN2: of the two names of a thing that was being renamed then, the copy has one.
//! - SN3: no name is made twice, so that what became of it is known though an answer is lost.

use crate::file_model::MutationEnd;
use crate::operations::{ClientOp, OpOutput, OpResult, OpTicket, path};
use crate::simulation::{Simulation, Workload};
use cairn_env_sim::WorldTime;
use cairn_protocol::ErrorCode;
use cairn_types::{Content, EntryId};
use std::collections::{BTreeMap, BTreeSet};

const NAME: &str = "snapped names";
const DIRECTORY: &str = "/instant";
/// Clients that make names, each one after another, and the one that takes snapshots and lists.
const MAKERS: [usize; 3] = [0, 1, 2];
const TAKER: usize = 4;
/// Names of one run, more than one record of a snapshot has; and copies.
const NAMES_MAX: usize = 240;
const COPIES_MAX: usize = 4;

/// A change of a name.
#[derive(Clone, Copy, Debug)]
struct TimedChange {
    began: WorldTime,
    end: MutationEnd,
}

impl TimedChange {
    fn begins(sim: &Simulation) -> Self {
        Self { began: sim.now(), end: MutationEnd::Pending }
    }

    /// Whether it may have been made by then.
    fn may_be_made(&self, at: WorldTime) -> bool {
        self.end != MutationEnd::NotDone && self.began <= at
    }

    fn is_made(&self, at: WorldTime) -> bool {
        matches!(self.end, MutationEnd::Acknowledged(end) if end < at)
    }
}

/// A name, by whom it was made, and what became of it.
#[derive(Debug)]
struct MadeName {
    maker: usize,
    came: TimedChange,
    went: Option<TimedChange>,
    /// What has it from then on.
    renamed_to: Option<usize>,
}

impl MadeName {
    /// It is there, and nobody is about to take it away.
    fn is_settled(&self) -> bool {
        matches!(self.came.end, MutationEnd::Acknowledged(_)) && self.went.is_none()
    }

    fn must_be_there(&self, at: WorldTime) -> bool {
        self.came.is_made(at) && !self.went.is_some_and(|went| went.may_be_made(at))
    }

    fn may_be_there(&self, at: WorldTime) -> bool {
        self.came.may_be_made(at) && !self.went.is_some_and(|went| went.is_made(at))
    }
}

#[derive(Debug)]
enum Doing {
    MakeDirectory,
    Create(usize),
    Delete(usize),
    Rename { from: usize, to: usize },
    Snapshot { name: String },
    List { copy: usize },
}

/// The clients.
#[derive(Debug, Default)]
pub(crate) struct SnappedNames {
    made: bool,
    names: Vec<MadeName>,
    /// Copies that stand: their names, and the entries that they are.
    copies: Vec<(String, EntryId)>,
    taken: usize,
    doing: BTreeMap<OpTicket, Doing>,
    /// Copies that are still to be listed for the last time; none while clients go on.
    left: Option<Vec<usize>>,
    over: bool,
}

fn name_of(number: usize) -> String {
    format!("{DIRECTORY}/{number}")
}

impl SnappedNames {
    fn ask(&mut self, sim: &mut Simulation, client: usize, op: ClientOp, doing: Doing) {
        let ticket = sim.ask(client, op);
        self.doing.insert(ticket, doing);
    }

    fn go_on(&mut self, sim: &mut Simulation) {
        if sim.closing {
            return self.list_last(sim);
        }
        if !self.made {
            if self.doing.is_empty() {
                let op = ClientOp::MakeDirectory { path: path(DIRECTORY) };
                self.ask(sim, TAKER, op, Doing::MakeDirectory);
            }
            return;
        }
        let is_taking = self.doing.values().any(|it| matches!(it, Doing::Snapshot { .. }));
        match sim.random().below(60) {
            0 if self.taken < COPIES_MAX && !is_taking => self.take(sim),
            1 if !self.copies.is_empty() => {
                let copy = sim.random().below(self.copies.len() as u64);
                self.list(sim, usize::try_from(copy).expect("few"));
            }
            _ => self.change(sim),
        }
    }

    fn take(&mut self, sim: &mut Simulation) {
        self.taken += 1;
        let name = format!("{DIRECTORY}-{}", self.taken);
        let op = ClientOp::Snapshot { from: path(DIRECTORY), to: path(&name) };
        self.ask(sim, TAKER, op, Doing::Snapshot { name });
    }

    fn list(&mut self, sim: &mut Simulation, copy: usize) {
        let op = ClientOp::List { path: path(&self.copies[copy].0) };
        self.ask(sim, TAKER, op, Doing::List { copy });
    }

    /// Once nothing breaks any more each copy is listed again.
    fn list_last(&mut self, sim: &mut Simulation) {
        if !self.doing.is_empty() {
            return;
        }
        let all = || (0..self.copies.len()).collect();
        match self.left.get_or_insert_with(all).pop() {
            Some(copy) => self.list(sim, copy),
            None => self.over = true,
        }
    }

    /// A client that has nothing to do makes a name, or changes one of its own.
    fn change(&mut self, sim: &mut Simulation) {
        let busy: BTreeSet<usize> = self.doing.values().filter_map(|it| self.maker(it)).collect();
        let idle: Vec<usize> = MAKERS.into_iter().filter(|it| !busy.contains(it)).collect();
        let Some(maker) = sim.random().pick(&idle).copied() else { return };
        let is_own = |it: &MadeName| it.maker == maker && it.is_settled();
        let own: Vec<usize> = (0..self.names.len()).filter(|at| is_own(&self.names[*at])).collect();
        let (change, old) = (TimedChange::begins(sim), sim.random().pick(&own).copied());
        let new = self.names.len();
        let made = MadeName { maker, came: change, went: None, renamed_to: None };
        match (sim.random().below(8), old) {
            (0, Some(old)) => {
                self.names[old].went = Some(change);
                let op = ClientOp::Delete { path: path(&name_of(old)), recursive: false };
                self.ask(sim, maker, op, Doing::Delete(old));
            }
            _ if new == NAMES_MAX => {}
            (1, Some(old)) => {
                (self.names[old].went, self.names[old].renamed_to) = (Some(change), Some(new));
                self.names.push(made);
                let (from, to) = (path(&name_of(old)), path(&name_of(new)));
                let op = ClientOp::Rename { from, to, replace: false };
                self.ask(sim, maker, op, Doing::Rename { from: old, to: new });
            }
            _ => {
                self.names.push(made);
                let (path, content) = (path(&name_of(new)), Content::Bytes);
                let op = ClientOp::Create { path, content, or_open: false };
                self.ask(sim, maker, op, Doing::Create(new));
            }
        }
    }

    fn maker(&self, doing: &Doing) -> Option<usize> {
        match doing {
            Doing::Create(at) | Doing::Delete(at) | Doing::Rename { from: at, .. } => {
                Some(self.names[*at].maker)
            }
            Doing::MakeDirectory | Doing::Snapshot { .. } | Doing::List { .. } => None,
        }
    }

    /// What a copy has is of the instant at which its first record was logged (SN1, SN2).
    fn judge(&self, sim: &mut Simulation, copy: usize, found: &BTreeSet<String>) {
        let (name, top) = &self.copies[copy];
        let cut = sim.observer.borrow().snapshot_cut(*top).expect("it was copied");
        let has = |at: usize| found.contains(&at.to_string());
        let known: BTreeSet<String> = (0..self.names.len()).map(|at| at.to_string()).collect();
        let mut wrong: Vec<String> =
            found.difference(&known).map(|it| format!("{it} was never made")).collect();
        for (at, made) in self.names.iter().enumerate() {
            let is_wrong = if has(at) { !made.may_be_there(cut) } else { made.must_be_there(cut) };
            let is_torn = made.renamed_to.is_some_and(|to| {
                // The one that it became is there as long as it was not about to go as well.
                let next = self.names[to].went.is_some_and(|went| went.may_be_made(cut));
                made.came.is_made(cut) && !next && has(at) == has(to)
            });
            if is_wrong || is_torn {
                wrong.push(format!("{at}, {}: {made:?}", if has(at) { "there" } else { "not" }));
            }
        }
        sim.reach("names of a snapshot judged");
        if !wrong.is_empty() {
            let why = format!("{name}, of {cut:?}: {}", wrong.join("; "));
            sim.fail(NAME, why);
        }
    }
}

impl Workload for SnappedNames {
    fn start(&mut self, sim: &mut Simulation) {
        // The makers, and who takes snapshots, at the same time.
        (0..=MAKERS.len()).for_each(|_| sim.rest(500));
    }

    fn ended(&mut self, sim: &mut Simulation, ticket: OpTicket, result: OpResult) {
        let doing = self.doing.remove(&ticket).expect("an operation of its own");
        let end = sim.mutation_end(&result);
        let gone = |names: &mut Vec<MadeName>, at: usize| {
            let went = names[at].went.as_mut().expect("it was asked for");
            went.end = end;
            // SN3: nobody else takes it away.
            if end == MutationEnd::NotDone {
                names[at].went = None;
            }
        };
        match (doing, result) {
            (Doing::MakeDirectory, Ok(_)) => self.made = true,
            (Doing::MakeDirectory, Err(failure)) => {
                self.made = failure.code == ErrorCode::AlreadyExists;
            }
            (Doing::Create(at), _) => self.names[at].came.end = end,
            (Doing::Delete(at), _) => gone(&mut self.names, at),
            (Doing::Rename { from, to }, _) => {
                gone(&mut self.names, from);
                self.names[to].came.end = end;
                if end == MutationEnd::NotDone {
                    self.names[from].renamed_to = None;
                }
            }
            (Doing::Snapshot { name }, Ok(OpOutput::Entry(entry))) => {
                self.copies.push((name, entry.id));
            }
            (Doing::List { copy }, Ok(OpOutput::Entries(entries))) => {
                let found = entries.iter().map(|entry| entry.name.clone()).collect();
                self.judge(sim, copy, &found);
            }
            // Nobody knows whether it is there; and what cannot be listed is again.
            (Doing::Snapshot { .. } | Doing::List { .. }, _) => {}
        }
        sim.rest(100);
    }

    fn woken(&mut self, sim: &mut Simulation) {
        let before = self.doing.len();
        self.go_on(sim);
        // Each goes on, though it found nothing to do.
        if self.doing.len() == before && !self.over {
            sim.rest(150);
        }
    }

    fn finished(&self) -> bool {
        self.over
    }
}
