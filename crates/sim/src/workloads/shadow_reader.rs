//! A reader that takes what may be behind: it asks masters that are not in charge, whoever is, and
//! must be answered what once was (A26). What they say of names is judged by `shadow_is_prefix`.

use super::record_file::RecordFile;
use crate::file_model::MutationEnd;
use crate::operations::{ClientOp, OpOutput, OpResult, OpTicket, path};
use crate::simulation::{Simulation, Workload};
use bytes::Bytes;
use cairn_client_core::{ReadSpec, RecordCursor};
use std::cell::RefCell;
use std::rc::Rc;

/// Between two questions.
const PAUSE_MS: u64 = 300;

/// The reader.
pub(crate) struct ShadowReader {
    client: usize,
    file: Rc<RefCell<RecordFile>>,
    asked: u64,
    /// The read that is under way.
    reading: Option<(RecordCursor, ReadSpec)>,
    over: bool,
}

impl ShadowReader {
    pub(crate) fn new(client: usize, file: Rc<RefCell<RecordFile>>) -> Self {
        Self { client, file, asked: 0, reading: None, over: false }
    }

    fn go_on(&mut self, sim: &mut Simulation) {
        self.over = sim.closing;
        if self.over {
            return;
        }
        self.asked += 1;
        let file = self.file.borrow().id;
        let ask = match (self.asked % 4, file) {
            (0, Some(file)) => {
                let cursor = RecordCursor::new(0);
                let spec = cursor.next_read();
                let (offset, size, fresh) = (spec.offset, spec.size, spec.fresh);
                self.reading = Some((cursor, spec));
                ClientOp::Read { file, offset, size, fresh }
            }
            (1, _) => ClientOp::Stat { path: path(&self.file.borrow().name) },
            (2, _) => ClientOp::Stat { path: path("/shared") },
            _ => ClientOp::List { path: path("/") },
        };
        sim.ask(self.client, ask);
    }

    /// Each record that is read was once tried, and did not fail for certain.
    fn judge(&self, sim: &mut Simulation, mut cursor: RecordCursor, spec: ReadSpec, bytes: Bytes) {
        let mut records = Vec::new();
        cursor.take(spec, &[bytes], &mut records);
        let file = self.file.borrow();
        for record in records {
            let id = (record.producer, record.number);
            let tried = file.tried.get(&id);
            if tried.is_none_or(|tried| tried.ended == MutationEnd::NotDone) {
                sim.fail("records", format!("{}: {id:?} was never written", file.name));
            }
            sim.reach("record read by way of a shadow");
        }
    }
}

impl Workload for ShadowReader {
    fn start(&mut self, sim: &mut Simulation) {
        sim.rest(PAUSE_MS);
    }

    fn woken(&mut self, sim: &mut Simulation) {
        self.go_on(sim);
    }

    fn ended(&mut self, sim: &mut Simulation, _: OpTicket, result: OpResult) {
        let reading = self.reading.take();
        // While things break a reader may get nothing.
        if let (Some((cursor, spec)), Ok(OpOutput::Bytes(bytes, _))) = (reading, result) {
            self.judge(sim, cursor, spec, bytes);
        }
        sim.rest(PAUSE_MS);
    }

    fn finished(&self) -> bool {
        self.over
    }
}
