//! Clients make, rename, delete, look at and list the same few names at once; what they see must
//! be explained by one order of it all (checker `linearizable_names`). Some of it they ask in
//! batches: then each entry is an operation, begun at the ask and ended at the answer. Some files
//! they open several at a time, which the client may put into one question.

use crate::checkers::linearizable_names::{NameAnswer, NameEnd, NameEvent, NameOp};
use crate::operations::{ClientOp, OpOutput, OpResult, OpTicket, path, speaks_of_names};
use crate::simulation::{Simulation, Workload};
use cairn_protocol::Outcome;
use cairn_types::{Content, EntryKind};
use std::cell::RefCell;
use std::rc::Rc;

/// Starts and ends of all operations on the churned names, in true order.
#[derive(Debug, Default)]
pub(crate) struct NameHistory {
    pub(crate) events: Vec<NameEvent>,
    count: usize,
}

/// More than so many operations are not asked for: the search over them has to end.
const OPERATIONS_MAX: usize = 250;

/// So many asks of a thousand are batches.
const BATCH_PERMILLE: u64 = 150;

/// So many asks of a thousand are of several files to be opened.
const OPENS_PERMILLE: u64 = 80;

/// One of the clients.
pub(crate) struct NamespaceChurn {
    client: usize,
    history: Rc<RefCell<NameHistory>>,
    /// Whether to ask in batches too.
    batches: bool,
    /// What is under way: an operation, or the entries of a batch.
    doing: Vec<(OpTicket, Vec<usize>)>,
    over: bool,
}

impl NamespaceChurn {
    pub(crate) fn new(client: usize, history: Rc<RefCell<NameHistory>>, batches: bool) -> Self {
        Self { client, history, batches, doing: Vec::new(), over: false }
    }

    fn go_on(&mut self, sim: &mut Simulation) {
        if sim.closing || self.history.borrow().count >= OPERATIONS_MAX {
            self.over = true;
            return;
        }
        if sim.random().chance(OPENS_PERMILLE) {
            return self.open_several(sim);
        }
        let batch = self.batches && sim.random().chance(BATCH_PERMILLE);
        let drawn = if batch { draw_batch(sim) } else { vec![draw(sim)] };
        let ids = drawn.iter().map(|op| self.begin(op)).collect();
        let mut asked: Vec<ClientOp> = drawn.into_iter().map(asked).collect();
        let op = if batch { ClientOp::Batch { entries: asked } } else { asked.remove(0) };
        self.doing.push((sim.ask(self.client, op), ids));
    }

    fn open_several(&mut self, sim: &mut Simulation) {
        for _ in 0..2 + sim.random().below(2) {
            let op = NameOp::Open(name(sim));
            let id = self.begin(&op);
            self.doing.push((sim.ask(self.client, asked(op)), vec![id]));
        }
    }

    fn begin(&self, op: &NameOp) -> usize {
        let mut history = self.history.borrow_mut();
        let id = history.count;
        history.count += 1;
        history.events.push(NameEvent::Began(id, op.clone()));
        id
    }
}

/// A batch of a few entries: each multiplies what the search has to try.
fn draw_batch(sim: &mut Simulation) -> Vec<NameOp> {
    let count = 2 + sim.random().below(2);
    let looked = |op| match op {
        NameOp::List(at) => NameOp::Stat(at),
        other => other,
    };
    (0..count).map(|_| looked(draw(sim))).collect()
}

fn directory(sim: &mut Simulation) -> String {
    format!("/n{}", sim.random().below(3))
}

fn name(sim: &mut Simulation) -> String {
    format!("{}/{}", directory(sim), ["a", "b", "c"][sim.random().below(3) as usize])
}

fn draw(sim: &mut Simulation) -> NameOp {
    match sim.random().below(20) {
        0..=2 => NameOp::MakeDirectory(directory(sim)),
        3..=7 => NameOp::Create(name(sim)),
        8 => NameOp::MakeDirectory(name(sim)),
        9 => {
            let (from, to) = (directory(sim), directory(sim));
            if from == to {
                return NameOp::List(from);
            }
            NameOp::Rename { from, to, replace: false }
        }
        10..=12 => {
            let (from, to) = (name(sim), name(sim));
            if from == to {
                return NameOp::Stat(from);
            }
            NameOp::Rename { from, to, replace: sim.random().chance(400) }
        }
        13..=15 => NameOp::Delete { path: name(sim), recursive: false },
        16 => {
            let recursive = sim.random().chance(500);
            NameOp::Delete { path: directory(sim), recursive }
        }
        17 => NameOp::Stat(name(sim)),
        18 => NameOp::Open(name(sim)),
        _ => NameOp::List(directory(sim)),
    }
}

fn asked(op: NameOp) -> ClientOp {
    match op {
        NameOp::MakeDirectory(at) => ClientOp::MakeDirectory { path: path(&at) },
        NameOp::Create(at) => {
            ClientOp::Create { path: path(&at), content: Content::Bytes, or_open: false }
        }
        NameOp::Rename { from, to, replace } => {
            ClientOp::Rename { from: path(&from), to: path(&to), replace }
        }
        NameOp::Delete { path: at, recursive } => ClientOp::Delete { path: path(&at), recursive },
        NameOp::Stat(at) => ClientOp::Stat { path: path(&at) },
        NameOp::Open(at) => ClientOp::Open { path: path(&at) },
        NameOp::List(at) => ClientOp::List { path: path(&at) },
    }
}

fn end_of(result: &OpResult) -> NameEnd {
    let entry = |entry: &cairn_types::Entry| NameAnswer::Entry {
        id: entry.id,
        directory: entry.kind == EntryKind::Directory,
    };
    NameEnd::Answered(match result {
        Ok(OpOutput::Entry(it)) => entry(it),
        Ok(OpOutput::Entries(entries)) => {
            let mut names: Vec<String> = entries.iter().map(|entry| entry.name.clone()).collect();
            names.sort();
            NameAnswer::Names(names)
        }
        Ok(_) => NameAnswer::Done,
        Err(failure) if failure.outcome == Outcome::Unknown => return NameEnd::Unknown,
        Err(failure) if speaks_of_names(failure) => NameAnswer::Refused,
        Err(_) => return NameEnd::NotDone,
    })
}

impl Workload for NamespaceChurn {
    fn start(&mut self, sim: &mut Simulation) {
        sim.rest(500);
    }

    fn ended(&mut self, sim: &mut Simulation, ticket: OpTicket, result: OpResult) {
        let at = self.doing.iter().position(|(asked, _)| *asked == ticket);
        let (_, ids) = self.doing.remove(at.expect("asked before"));
        let results = match result {
            Ok(OpOutput::Many(results)) => {
                sim.reach(if results.iter().all(Result::is_ok) {
                    "a batch of names done"
                } else {
                    "a batch of names done in part"
                });
                results
            }
            one => vec![one; ids.len()],
        };
        assert_eq!(results.len(), ids.len(), "a result for each entry");
        for (id, result) in ids.into_iter().zip(&results) {
            self.history.borrow_mut().events.push(NameEvent::Ended(id, end_of(result)));
        }
        if self.doing.is_empty() {
            sim.rest(600);
        }
    }

    fn woken(&mut self, sim: &mut Simulation) {
        self.go_on(sim);
    }

    fn finished(&self) -> bool {
        self.over
    }
}
