//! Many clients append framed records to one file at once (GFS §3.3).

use super::record_file::{RecordFile, RecordId, TriedRecord};
use crate::file_model::MutationEnd;
use crate::operations::{ClientOp, OpOutput, OpResult, OpTicket, path};
use crate::simulation::{Simulation, Workload};
use bytes::Bytes;
use cairn_format::{RecordSource, encode_record};
use cairn_types::{Content, EntryId};
use std::cell::RefCell;
use std::collections::BTreeMap;
use std::rc::Rc;

/// A client that appends.
pub(crate) struct Appender {
    client: usize,
    file: Rc<RefCell<RecordFile>>,
    producer: RecordSource,
    next: u64,
    window: usize,
    /// With the end of what was acknowledged when it began.
    under_way: BTreeMap<OpTicket, (RecordId, u64)>,
    creating: bool,
    over: bool,
}

impl Appender {
    pub(crate) fn new(
        client: usize,
        producer: u128,
        window: usize,
        file: Rc<RefCell<RecordFile>>,
    ) -> Self {
        Self {
            client,
            file,
            producer: RecordSource::new(producer),
            next: 0,
            window,
            under_way: BTreeMap::new(),
            creating: false,
            over: false,
        }
    }

    fn go_on(&mut self, sim: &mut Simulation) {
        if sim.closing {
            self.over = true;
            return;
        }
        let Some(file) = self.file.borrow().id else {
            self.creating = true;
            let path = path(&self.file.borrow().name);
            sim.ask(
                self.client,
                ClientOp::Create { path, content: Content::Records, or_open: true },
            );
            return;
        };
        while self.under_way.len() < self.window {
            self.append(sim, file);
        }
    }

    fn append(&mut self, sim: &mut Simulation, file: EntryId) {
        self.next += 1;
        let room = sim.cell_config.append_size_max() as usize - cairn_format::RECORD_OVERHEAD;
        let size =
            if sim.random().chance(50) { room / 2 } else { 1 + sim.random().below(120) as usize };
        let payload: Vec<u8> = (0..size).map(|_| sim.random().next_u64() as u8).collect();
        let mut framed = Vec::new();
        encode_record(self.producer, self.next, &payload, &mut framed);
        let framed = Bytes::from(framed);
        let sync = sim.random().chance(50);
        let ticket = sim.ask(self.client, ClientOp::Append { file, bytes: framed.clone(), sync });
        let id = (self.producer, self.next);
        let tried = TriedRecord { framed, ended: MutationEnd::Pending, offset: None, sync };
        let mut shared = self.file.borrow_mut();
        shared.size_max = shared.size_max.max(tried.framed.len() as u64);
        shared.tried.insert(id, tried);
        self.under_way.insert(ticket, (id, shared.acknowledged_end));
    }
}

impl Workload for Appender {
    fn start(&mut self, sim: &mut Simulation) {
        sim.rest(500);
    }

    fn ended(&mut self, sim: &mut Simulation, ticket: OpTicket, result: OpResult) {
        if std::mem::take(&mut self.creating) {
            if let Ok(OpOutput::Entry(entry)) = result {
                self.file.borrow_mut().id = Some(entry.id);
            }
            return sim.rest(200);
        }
        let (id, floor) = self.under_way.remove(&ticket).expect("an append of its own");
        let how = sim.mutation_end(&result);
        let mut file = self.file.borrow_mut();
        file.tried.get_mut(&id).expect("it was tried").ended = how;
        if let Ok(OpOutput::Offset(offset)) = result
            && let Err(message) = file.acknowledge(id, offset, floor)
        {
            if sim.excused(file.id.expect("it is appended to"), offset, 1) {
                sim.reach("append in the place of lost ones: no intact replica is alive");
            } else {
                sim.fail("records", message);
            }
        }
        sim.rest(if self.window > 1 { 800 } else { 1_500 });
    }

    fn woken(&mut self, sim: &mut Simulation) {
        if self.under_way.len() < self.window && !self.creating {
            self.go_on(sim);
        }
    }

    fn finished(&self) -> bool {
        self.over && self.under_way.is_empty()
    }
}
