//! After the faults: every operation works again, and everything acknowledged is read back.
//!
//! Demanded of chunks of which enough intact replicas are left to be levelled (R11); a chunk with
//! fewer waits for repair, which is not in this cell yet.

use super::record_file::RecordFile;
use super::shared_file::SharedFile;
use crate::file_model::{MutationEnd, ReadNote};
use crate::operations::{ClientOp, OpOutput, OpResult, OpTicket, path};
use crate::simulation::{Simulation, Workload, told};
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

enum FinalStep {
    ReadBytes(Rc<RefCell<SharedFile>>),
    ReadRecords(Rc<RefCell<RecordFile>>),
    /// What was copied can be read; what it has to be, others judge.
    ReadCopy(EntryId),
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

/// One of the last readers.
pub(crate) struct FinalReads {
    client: usize,
    steps: VecDeque<FinalStep>,
    tries: u32,
    from: WorldTime,
    fresh: EntryId,
    over: bool,
}

impl FinalReads {
    /// A reader on each of so many clients, with a part of the files: each try to read what nobody
    /// has any more takes its whole deadline, and meanwhile the others get on.
    pub(crate) fn on_clients(
        clients: usize,
        bytes: Vec<Rc<RefCell<SharedFile>>>,
        records: Vec<Rc<RefCell<RecordFile>>>,
        copies: &[EntryId],
    ) -> Vec<Self> {
        let fresh = [
            FreshStep::Create,
            FreshStep::Write,
            FreshStep::Read,
            FreshStep::Append,
            FreshStep::Rename,
            FreshStep::Delete,
        ];
        let bytes = bytes.into_iter().filter(|f| f.borrow().id.is_some());
        let records = records.into_iter().filter(|f| f.borrow().id.is_some());
        let reads = (bytes.map(FinalStep::ReadBytes))
            .chain(records.map(FinalStep::ReadRecords))
            .chain(copies.iter().copied().map(FinalStep::ReadCopy));
        let mut readers: Vec<Self> = (0..clients).map(Self::on).collect();
        readers[0].steps.extend(fresh.map(FinalStep::Fresh));
        for (at, read) in reads.enumerate() {
            readers[at % clients].steps.push_back(read);
        }
        readers
    }

    fn on(client: usize) -> Self {
        let (from, fresh) = (WorldTime(0), EntryId::default());
        Self { client, steps: VecDeque::new(), tries: 0, from, fresh, over: false }
    }

    fn go_on(&mut self, sim: &mut Simulation) {
        // Each try takes its whole deadline, and there are many copies.
        while let Some(FinalStep::ReadCopy(file)) = self.steps.front()
            && sim.waits_for_repair(*file)
        {
            self.steps.pop_front();
        }
        self.from = sim.now();
        let read = |file| ClientOp::Read { file, offset: 0, size: WHOLE, fresh: true };
        let op = match self.steps.front() {
            None => {
                self.over = true;
                return;
            }
            Some(FinalStep::ReadBytes(file)) => {
                read(file.borrow().id.expect("filtered at the start"))
            }
            Some(FinalStep::ReadRecords(file)) => {
                read(file.borrow().id.expect("filtered at the start"))
            }
            Some(FinalStep::ReadCopy(file)) => read(*file),
            Some(FinalStep::Fresh(step)) => self.fresh_op(*step),
        };
        sim.ask(self.client, op);
    }

    fn fresh_op(&self, step: FreshStep) -> ClientOp {
        let (file, bytes) = (self.fresh, Bytes::from_static(FRESH_BYTES));
        match step {
            FreshStep::Create => {
                ClientOp::Create { path: path(FRESH_NAME), content: Content::Bytes, or_open: true }
            }
            FreshStep::Write => ClientOp::Write { file, offset: 0, bytes, sync: true },
            FreshStep::Read => ClientOp::Read { file, offset: 0, size: 1000, fresh: false },
            FreshStep::Append => ClientOp::Append { file, bytes, sync: false },
            FreshStep::Rename => ClientOp::Rename {
                from: path(FRESH_NAME),
                to: path("/fresh-renamed"),
                replace: false,
            },
            FreshStep::Delete => {
                ClientOp::Delete { path: path("/fresh-renamed"), recursive: false }
            }
        }
    }

    fn judge(&mut self, sim: &mut Simulation, done: OpOutput) {
        let (from, until) = (self.from, sim.now());
        match (self.steps.front(), done) {
            (Some(FinalStep::ReadBytes(file)), OpOutput::Bytes(bytes, _)) => {
                let read = ReadNote { client: self.client, offset: 0, size: WHOLE, from, until };
                file.borrow().judge(sim, read, &bytes);
            }
            (Some(FinalStep::ReadRecords(file)), OpOutput::Bytes(bytes, _)) => {
                judge_records(sim, &file.borrow(), &bytes);
            }
            (Some(FinalStep::Fresh(FreshStep::Create)), OpOutput::Entry(entry)) => {
                self.fresh = entry.id
            }
            (Some(FinalStep::Fresh(FreshStep::Read)), OpOutput::Bytes(bytes, _))
                if bytes != FRESH_BYTES =>
            {
                sim.fail("it_heals", "a fresh file does not read back".to_owned());
            }
            _ => {}
        }
    }

    /// Why a failure is no complaint, if it is none.
    fn excuse(&self, sim: &Simulation) -> bool {
        let file = match self.steps.front() {
            Some(FinalStep::ReadBytes(file)) => file.borrow().id,
            Some(FinalStep::ReadRecords(file)) => file.borrow().id,
            Some(FinalStep::ReadCopy(file)) => Some(*file),
            _ => None,
        };
        file.is_some_and(|file| sim.waits_for_repair(file) || sim.has_lost_chunk(file))
    }

    fn failed(&mut self, sim: &mut Simulation, why: &str) {
        self.tries += 1;
        if self.tries < TRIES_MAX {
            return sim.rest(1000);
        }
        if self.excuse(sim) {
            sim.reach("final read excused: too few intact replicas");
        } else {
            let what = match self.steps.front() {
                Some(FinalStep::ReadBytes(file)) => format!("reading {}", file.borrow().name),
                Some(FinalStep::ReadRecords(file)) => format!("reading {}", file.borrow().name),
                Some(FinalStep::ReadCopy(file)) => format!("reading copy {}", file.short()),
                Some(FinalStep::Fresh(step)) => format!("{step:?} of a fresh file"),
                None => "nothing".to_owned(),
            };
            sim.fail("it_heals", format!("{what}: {why}"));
        }
        self.next(sim);
    }

    fn next(&mut self, sim: &mut Simulation) {
        self.tries = 0;
        self.steps.pop_front();
        self.go_on(sim);
    }
}

/// Each acknowledged record stands whole at its offset, and no record that nobody wrote.
fn judge_records(sim: &mut Simulation, file: &RecordFile, bytes: &[u8]) {
    let id = file.id.expect("a file that is read is known");
    for (record, tried) in &file.tried {
        let Some(offset) = tried.offset else { continue };
        let size = tried.framed.len();
        let start = usize::try_from(offset).expect("a small file");
        let there = bytes.get(start..start + size);
        if there == Some(&tried.framed[..]) {
            continue;
        }
        if file.may_be_lost(sim, tried) {
            sim.reach("record excused: no intact replica is alive");
            continue;
        }
        let missing = there.is_none();
        let message = format!(
            "{}: record {record:?} ({size} bytes, {:?}) acknowledged at {offset} ({}) is {}; the \
             file reads as {} bytes",
            file.name,
            tried.ended,
            sim.describe(id, offset),
            if missing { "beyond the end" } else { "not there" },
            bytes.len(),
        );
        return sim.fail("records", message);
    }
    judge_others(sim, file, bytes);
}

/// What stands there was tried and has not failed; and where a reader was given a record, stands
/// that one or none: nothing has taken its place (R17). One that was never acknowledged may stand
/// on one replica and not on another (Table 1: inconsistent; decision 28).
fn judge_others(sim: &mut Simulation, file: &RecordFile, bytes: &[u8]) {
    let id = file.id.expect("a file that is read is known");
    let mut scanner = cairn_format::RecordScanner::new(0);
    scanner.push(bytes);
    while let Some(scanned) = scanner.next() {
        let cairn_format::Scanned::Record(record) = scanned else { continue };
        let name = (record.producer, record.number);
        let complaint = match file.tried.get(&name) {
            None => "was never tried".to_owned(),
            Some(tried) if tried.ended == MutationEnd::NotDone => "failed as not done".to_owned(),
            Some(tried) => {
                let size = tried.framed.len() as u64;
                let Some((other, at)) = file.delivered_over(name, record.offset, size) else {
                    continue;
                };
                if sim.excused(id, record.offset, size) {
                    continue;
                }
                let place = sim.describe(id, record.offset);
                format!("stands at {} ({place}), where {other:?} was read at {at}", record.offset)
            }
        };
        return sim.fail("records", format!("{}: {name:?} {complaint}", file.name));
    }
}

impl Workload for FinalReads {
    fn start(&mut self, sim: &mut Simulation) {
        self.go_on(sim);
    }

    fn ended(&mut self, sim: &mut Simulation, _: OpTicket, result: OpResult) {
        match result {
            Ok(done) => {
                self.judge(sim, done);
                self.next(sim);
            }
            Err(failure) => self.failed(sim, &told(&failure)),
        }
    }

    fn woken(&mut self, sim: &mut Simulation) {
        self.go_on(sim);
    }

    fn finished(&self) -> bool {
        self.over
    }
}
