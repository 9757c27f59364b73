//! After the faults: every operation works again, and everything acknowledged is read back.
//!
//! Demanded of chunks of which enough intact replicas are left to be levelled (R11); a chunk with
//! fewer waits for repair, which is not in this cell yet.

use super::random_writes::SharedFile;
use super::{RecordFile, path};
use crate::file_model::{Ended, ReadNote};
use crate::operations::{Done, Op, OpResult, Ticket};
use crate::stage::{Actor, Stage, told};
use bytes::Bytes;
use cairn_env_sim::WorldTime;
use cairn_types::{Content, EntryId};
use std::cell::RefCell;
use std::collections::VecDeque;
use std::rc::Rc;

/// More than any file of a run has.
const WHOLE: u64 = 4 << 20;
/// An operation that fails once after all faults have ended may be tried again so often.
const TRIES_MAX: u32 = 2;

enum Step {
    ReadBytes(Rc<RefCell<SharedFile>>),
    ReadRecords(Rc<RefCell<RecordFile>>),
    Fresh(FreshStep),
}

/// What a new file must be able to do.
#[derive(Clone, Copy, Debug)]
enum FreshStep {
    Create,
    Write,
    Read,
    Append,
    Rename,
    Delete,
}

const FRESH_NAME: &str = "/fresh-after-all";
const FRESH_BYTES: &[u8] = b"written after all faults";

/// The last reader.
pub(crate) struct FinalReads {
    steps: VecDeque<Step>,
    tries: u32,
    from: WorldTime,
    fresh: EntryId,
    over: bool,
}

impl FinalReads {
    pub(crate) fn new(
        bytes: Vec<Rc<RefCell<SharedFile>>>,
        records: Vec<Rc<RefCell<RecordFile>>>,
    ) -> Self {
        let fresh = [
            FreshStep::Create,
            FreshStep::Write,
            FreshStep::Read,
            FreshStep::Append,
            FreshStep::Rename,
            FreshStep::Delete,
        ];
        let steps = fresh
            .map(Step::Fresh)
            .into_iter()
            .chain(bytes.into_iter().filter(|f| f.borrow().id.is_some()).map(Step::ReadBytes))
            .chain(records.into_iter().filter(|f| f.borrow().id.is_some()).map(Step::ReadRecords))
            .collect();
        let (from, fresh) = (WorldTime(0), EntryId::default());
        Self { steps, tries: 0, from, fresh, over: false }
    }

    fn go_on(&mut self, stage: &mut Stage) {
        self.from = stage.now();
        let read = |file| Op::Read { file, offset: 0, size: WHOLE, fresh: true };
        let op = match self.steps.front() {
            None => {
                self.over = true;
                return;
            }
            Some(Step::ReadBytes(file)) => read(file.borrow().id.expect("filtered at the start")),
            Some(Step::ReadRecords(file)) => read(file.borrow().id.expect("filtered at the start")),
            Some(Step::Fresh(step)) => self.fresh_op(*step),
        };
        stage.ask(0, op);
    }

    fn fresh_op(&self, step: FreshStep) -> Op {
        let (file, bytes) = (self.fresh, Bytes::from_static(FRESH_BYTES));
        match step {
            FreshStep::Create => {
                Op::Create { path: path(FRESH_NAME), content: Content::Bytes, or_open: true }
            }
            FreshStep::Write => Op::Write { file, offset: 0, bytes, sync: true },
            FreshStep::Read => Op::Read { file, offset: 0, size: 1000, fresh: false },
            FreshStep::Append => Op::Append { file, bytes, sync: false },
            FreshStep::Rename => {
                Op::Rename { from: path(FRESH_NAME), to: path("/fresh-renamed"), replace: false }
            }
            FreshStep::Delete => Op::Delete { path: path("/fresh-renamed"), recursive: false },
        }
    }

    fn judge(&mut self, stage: &mut Stage, done: Done) {
        let (from, until) = (self.from, stage.now());
        match (self.steps.front(), done) {
            (Some(Step::ReadBytes(file)), Done::Bytes(bytes, _)) => {
                let read = ReadNote { client: 0, offset: 0, size: WHOLE, from, until };
                file.borrow().judge(stage, read, &bytes);
            }
            (Some(Step::ReadRecords(file)), Done::Bytes(bytes, _)) => {
                judge_records(stage, &file.borrow(), &bytes);
            }
            (Some(Step::Fresh(FreshStep::Create)), Done::Entry(entry)) => self.fresh = entry.id,
            (Some(Step::Fresh(FreshStep::Read)), Done::Bytes(bytes, _)) if bytes != FRESH_BYTES => {
                stage.fail("it_heals", "a fresh file does not read back".to_owned());
            }
            _ => {}
        }
    }

    /// Why a failure is no complaint, if it is none.
    fn excuse(&self, stage: &Stage) -> bool {
        let file = match self.steps.front() {
            Some(Step::ReadBytes(file)) => file.borrow().id,
            Some(Step::ReadRecords(file)) => file.borrow().id,
            _ => None,
        };
        file.is_some_and(|file| stage.waits_for_repair(file))
    }

    fn failed(&mut self, stage: &mut Stage, why: &str) {
        self.tries += 1;
        if self.tries < TRIES_MAX {
            return stage.rest(1000);
        }
        if self.excuse(stage) {
            stage.reach("final read excused: too few intact replicas");
        } else {
            let what = match self.steps.front() {
                Some(Step::ReadBytes(file)) => format!("reading {}", file.borrow().name),
                Some(Step::ReadRecords(file)) => format!("reading {}", file.borrow().name),
                Some(Step::Fresh(step)) => format!("{step:?} of a fresh file"),
                None => "nothing".to_owned(),
            };
            stage.fail("it_heals", format!("{what}: {why}"));
        }
        self.next(stage);
    }

    fn next(&mut self, stage: &mut Stage) {
        self.tries = 0;
        self.steps.pop_front();
        self.go_on(stage);
    }
}

/// Each acknowledged record stands whole at its offset, and no record that nobody wrote.
fn judge_records(stage: &mut Stage, file: &RecordFile, bytes: &[u8]) {
    let id = file.id.expect("a file that is read is known");
    for (record, tried) in &file.tried {
        let Some(offset) = tried.offset else { continue };
        let size = tried.framed.len();
        let start = usize::try_from(offset).expect("a small file");
        let there = bytes.get(start..start + size);
        if there == Some(&tried.framed[..]) {
            continue;
        }
        if file.may_be_lost(stage, tried) {
            stage.reach("record excused: no intact replica is alive");
            continue;
        }
        let missing = there.is_none();
        let message = format!(
            "{}: record {record:?} ({size} bytes, {:?}) acknowledged at {offset} ({}) is {}; the \
             file reads as {} bytes",
            file.name,
            tried.ended,
            stage.describe(id, offset),
            if missing { "beyond the end" } else { "not there" },
            bytes.len(),
        );
        return stage.fail("records", message);
    }
    judge_others(stage, file, bytes);
}

/// What stands there was tried and has not failed; and where a reader was given a record, stands
/// that one or none: nothing has taken its place (R17). One that was never acknowledged may stand
/// on one replica and not on another (Table 1: inconsistent; decision 28).
fn judge_others(stage: &mut Stage, file: &RecordFile, bytes: &[u8]) {
    let id = file.id.expect("a file that is read is known");
    let mut scanner = cairn_format::RecordScanner::new(0);
    scanner.push(bytes);
    while let Some(scanned) = scanner.next() {
        let cairn_format::Scanned::Record(record) = scanned else { continue };
        let name = (record.producer, record.number);
        let complaint = match file.tried.get(&name) {
            None => "was never tried".to_owned(),
            Some(tried) if tried.ended == Ended::NotDone => "failed as not done".to_owned(),
            Some(tried) => {
                let size = tried.framed.len() as u64;
                let Some((other, at)) = file.delivered_over(name, record.offset, size) else {
                    continue;
                };
                if stage.excused(id, record.offset, size) {
                    continue;
                }
                let place = stage.describe(id, record.offset);
                format!("stands at {} ({place}), where {other:?} was read at {at}", record.offset)
            }
        };
        return stage.fail("records", format!("{}: {name:?} {complaint}", file.name));
    }
}

impl Actor for FinalReads {
    fn start(&mut self, stage: &mut Stage) {
        self.go_on(stage);
    }

    fn ended(&mut self, stage: &mut Stage, _: Ticket, result: OpResult) {
        match result {
            Ok(done) => {
                self.judge(stage, done);
                self.next(stage);
            }
            Err(failure) => self.failed(stage, &told(&failure)),
        }
    }

    fn woken(&mut self, stage: &mut Stage) {
        self.go_on(stage);
    }

    fn finished(&self) -> bool {
        self.over
    }
}
