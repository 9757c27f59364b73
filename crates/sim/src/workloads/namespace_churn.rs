//! Clients make, rename, delete, look at and list the same few names at once; what they see must
//! be explained by one order of it all (checker `linearizable_names`). Some of it they ask in
//! batches: then each entry is an operation, begun at the ask and ended at the answer. Some files
//! they open several at a time, which the client may put into one question.

use super::path;
use crate::checkers::linearizable_names::{NameAnswer, NameEnd, NameEvent, NameOp};
use crate::operations::{Done, Op, OpResult, Ticket};
use crate::stage::{Actor, Stage};
use cairn_protocol::{ErrorCode, Failure, Outcome};
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
pub(crate) struct Churn {
    client: usize,
    history: Rc<RefCell<NameHistory>>,
    /// Whether to ask in batches too.
    batches: bool,
    /// What is under way: an operation, or the entries of a batch.
    doing: Vec<(Ticket, Vec<usize>)>,
    over: bool,
}

impl Churn {
    pub(crate) fn new(client: usize, history: Rc<RefCell<NameHistory>>, batches: bool) -> Self {
        Self { client, history, batches, doing: Vec::new(), over: false }
    }

    fn go_on(&mut self, stage: &mut Stage) {
        if stage.closing || self.history.borrow().count >= OPERATIONS_MAX {
            self.over = true;
            return;
        }
        if stage.random().chance(OPENS_PERMILLE) {
            return self.open_several(stage);
        }
        let batch = self.batches && stage.random().chance(BATCH_PERMILLE);
        let drawn = if batch { draw_batch(stage) } else { vec![draw(stage)] };
        let ids = drawn.iter().map(|op| self.begin(op)).collect();
        let mut asked: Vec<Op> = drawn.into_iter().map(asked).collect();
        let op = if batch { Op::Batch { entries: asked } } else { asked.remove(0) };
        self.doing.push((stage.ask(self.client, op), ids));
    }

    fn open_several(&mut self, stage: &mut Stage) {
        for _ in 0..2 + stage.random().below(2) {
            let op = NameOp::Open(name(stage));
            let id = self.begin(&op);
            self.doing.push((stage.ask(self.client, asked(op)), vec![id]));
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
fn draw_batch(stage: &mut Stage) -> Vec<NameOp> {
    let count = 2 + stage.random().below(2);
    let looked = |op| match op {
        NameOp::List(at) => NameOp::Stat(at),
        other => other,
    };
    (0..count).map(|_| looked(draw(stage))).collect()
}

fn directory(stage: &mut Stage) -> String {
    format!("/n{}", stage.random().below(3))
}

fn name(stage: &mut Stage) -> String {
    format!("{}/{}", directory(stage), ["a", "b", "c"][stage.random().below(3) as usize])
}

fn draw(stage: &mut Stage) -> NameOp {
    match stage.random().below(20) {
        0..=2 => NameOp::MakeDirectory(directory(stage)),
        3..=7 => NameOp::Create(name(stage)),
        8 => NameOp::MakeDirectory(name(stage)),
        9 => {
            let (from, to) = (directory(stage), directory(stage));
            if from == to {
                return NameOp::List(from);
            }
            NameOp::Rename { from, to, replace: false }
        }
        10..=12 => {
            let (from, to) = (name(stage), name(stage));
            if from == to {
                return NameOp::Stat(from);
            }
            NameOp::Rename { from, to, replace: stage.random().chance(400) }
        }
        13..=15 => NameOp::Delete { path: name(stage), recursive: false },
        16 => {
            let recursive = stage.random().chance(500);
            NameOp::Delete { path: directory(stage), recursive }
        }
        17 => NameOp::Stat(name(stage)),
        18 => NameOp::Open(name(stage)),
        _ => NameOp::List(directory(stage)),
    }
}

fn asked(op: NameOp) -> Op {
    match op {
        NameOp::MakeDirectory(at) => Op::MakeDirectory { path: path(&at) },
        NameOp::Create(at) => {
            Op::Create { path: path(&at), content: Content::Bytes, or_open: false }
        }
        NameOp::Rename { from, to, replace } => {
            Op::Rename { from: path(&from), to: path(&to), replace }
        }
        NameOp::Delete { path: at, recursive } => Op::Delete { path: path(&at), recursive },
        NameOp::Stat(at) => Op::Stat { path: path(&at) },
        NameOp::Open(at) => Op::Open { path: path(&at) },
        NameOp::List(at) => Op::List { path: path(&at) },
    }
}

/// Whether a refusal says something about the names.
fn speaks_of_names(failure: &Failure) -> bool {
    matches!(
        failure.code,
        ErrorCode::NotFound
            | ErrorCode::AlreadyExists
            | ErrorCode::NotADirectory
            | ErrorCode::IsADirectory
            | ErrorCode::DirectoryNotEmpty
            | ErrorCode::Invalid
    )
}

fn end_of(result: &OpResult) -> NameEnd {
    let entry = |entry: &cairn_types::Entry| NameAnswer::Entry {
        id: entry.id,
        directory: entry.kind == EntryKind::Directory,
    };
    NameEnd::Answered(match result {
        Ok(Done::Entry(it)) => entry(it),
        Ok(Done::Entries(entries)) => {
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

impl Actor for Churn {
    fn start(&mut self, stage: &mut Stage) {
        stage.rest(500);
    }

    fn ended(&mut self, stage: &mut Stage, ticket: Ticket, result: OpResult) {
        let at = self.doing.iter().position(|(asked, _)| *asked == ticket);
        let (_, ids) = self.doing.remove(at.expect("asked before"));
        let results = match result {
            Ok(Done::Many(results)) => {
                stage.reach(if results.iter().all(Result::is_ok) {
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
            stage.rest(600);
        }
    }

    fn woken(&mut self, stage: &mut Stage) {
        self.go_on(stage);
    }

    fn finished(&self) -> bool {
        self.over
    }
}
