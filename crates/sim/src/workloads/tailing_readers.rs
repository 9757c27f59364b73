//! Readers that tail a file of records while everything breaks: every acknowledged record reaches
//! a reader that started before it, once (R17, R19, R37).

use super::record_file::{RecordFile, RecordId};
use crate::file_model::MutationEnd;
use crate::operations::{ClientOp, OpOutput, OpResult, OpTicket};
use crate::simulation::{Simulation, Workload, told};
use cairn_client_core::{ReadSpec, RecordCursor};
use cairn_env_sim::WorldTime;
use cairn_protocol::Failure;
use std::cell::RefCell;
use std::collections::BTreeSet;
use std::rc::Rc;
use std::time::Duration;

/// One reader.
pub(crate) struct TailingReader {
    client: usize,
    file: Rc<RefCell<RecordFile>>,
    cursor: RecordCursor,
    given: BTreeSet<RecordId>,
    asked: Option<ReadSpec>,
    /// When the last read began: what was acknowledged before, it has to give.
    asked_at: WorldTime,
    /// Reads in a row that gave nothing, after the writers have stopped.
    idle: u32,
    /// Reads in a row that failed, after the faults.
    failures: u32,
    over: bool,
}

/// So many failures in a row, after the faults, are no accident.
const FAILURES_MAX: u32 = 3;
/// So many empty reads in a row, after the faults, are the end.
const IDLE_MAX: u32 = 5;

impl TailingReader {
    pub(crate) fn new(client: usize, file: Rc<RefCell<RecordFile>>) -> Self {
        Self {
            client,
            file,
            cursor: RecordCursor::new(0),
            given: BTreeSet::new(),
            asked: None,
            asked_at: WorldTime(0),
            idle: 0,
            failures: 0,
            over: false,
        }
    }

    fn go_on(&mut self, sim: &mut Simulation) {
        if self.over {
            return;
        }
        let Some(file) = self.file.borrow().id else {
            if sim.closing {
                self.over = true;
                return;
            }
            return sim.rest(500);
        };
        let spec = self.cursor.next_read();
        let (offset, size, fresh) = (spec.offset, spec.size, spec.fresh);
        (self.asked, self.asked_at) = (Some(spec), sim.now());
        sim.ask(self.client, ClientOp::Read { file, offset, size, fresh });
    }

    fn take(&mut self, sim: &mut Simulation, id: RecordId, offset: u64) {
        let mut file = self.file.borrow_mut();
        file.deliver(id, offset);
        let complaint = match file.tried.get(&id) {
            None => Some("was never tried"),
            Some(tried) if tried.ended == MutationEnd::NotDone => Some("failed as not done"),
            Some(_) => None,
        };
        if let Some(complaint) = complaint {
            return sim.fail("records", format!("{}: {id:?} {complaint}", file.name));
        }
        if !self.given.insert(id) {
            sim.fail("records", format!("{}: {id:?} reaches a reader twice", file.name));
        }
    }

    /// A read failed: it is tried again, and once the faults are over it has to work.
    fn failed(&mut self, sim: &mut Simulation, failure: &Failure) {
        if !sim.closing {
            return sim.rest(500);
        }
        self.failures += 1;
        if self.failures < FAILURES_MAX {
            return sim.rest(500);
        }
        self.over = true;
        let file = self.file.borrow();
        if sim.waits_for_repair(file.id.expect("it was read")) {
            return sim.reach("tailing reader excused: too few intact replicas");
        }
        sim.fail("it_heals", format!("tailing {}: {}", file.name, told(failure)));
    }

    /// At the end: whatever was acknowledged has come by.
    fn judge(&mut self, sim: &mut Simulation) {
        let file = self.file.borrow();
        let missing = file.tried.iter().find(|(id, tried)| {
            let told = matches!(tried.ended, MutationEnd::Acknowledged(at) if at < self.asked_at);
            told && !self.given.contains(id)
        });
        if let Some((id, tried)) = missing {
            let offset = tried.offset.unwrap_or_default();
            if file.may_be_lost(sim, tried) {
                return sim.reach("record excused: no intact replica is alive");
            }
            sim.fail(
                "records",
                format!(
                    "{}: {id:?} acknowledged at {offset} ({}) never reached a reader that started \
                     before it; it stands at {}",
                    file.name,
                    sim.describe(file.id.expect("it was read"), offset),
                    self.cursor.consumed(),
                ),
            );
        }
    }
}

impl Workload for TailingReader {
    fn start(&mut self, sim: &mut Simulation) {
        sim.rest(500);
    }

    fn ended(&mut self, sim: &mut Simulation, _: OpTicket, result: OpResult) {
        let asked = self.asked.take().expect("one read at a time");
        let bytes = match result {
            Ok(OpOutput::Bytes(bytes, _)) => bytes,
            Ok(_) => return sim.rest(500),
            Err(failure) => return self.failed(sim, &failure),
        };
        self.failures = 0;
        let got = !bytes.is_empty();
        let mut records = Vec::new();
        if !self.cursor.take(asked, &[bytes], &mut records) {
            sim.reach("record reader doubts what it would skip");
        }
        for record in records {
            self.take(sim, (record.producer, record.number), record.offset);
        }
        self.idle = if got || !sim.closing { 0 } else { self.idle + 1 };
        if sim.closing && self.idle >= IDLE_MAX {
            self.over = true;
            return self.judge(sim);
        }
        sim.wake_after(Duration::from_millis(if got { 100 } else { 500 }));
    }

    fn woken(&mut self, sim: &mut Simulation) {
        self.go_on(sim);
    }

    fn finished(&self) -> bool {
        self.over
    }
}
