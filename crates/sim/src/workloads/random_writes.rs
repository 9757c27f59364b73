//! Several clients write and read at random offsets of one file, over and over the same bytes:
//! overwrites, holes, concurrent regions (Table 1).

use super::shared_file::SharedFile;
use crate::file_model::{MutationEnd, ReadNote, WriteNote, bytes_of};
use crate::operations::{ClientOp, OpOutput, OpResult, OpTicket, path};
use crate::simulation::{Simulation, Workload};
use bytes::Bytes;
use cairn_env_sim::WorldTime;
use cairn_types::Content;
use std::cell::RefCell;
use std::rc::Rc;

enum WriterState {
    Creating,
    Resting,
    Writing { write: usize, sync: bool },
    Reading(ReadNote),
    Syncing { since: WorldTime },
}

/// One of the clients.
pub(crate) struct RandomWriter {
    client: usize,
    file: Rc<RefCell<SharedFile>>,
    size_max: u64,
    doing: WriterState,
    over: bool,
}

impl RandomWriter {
    pub(crate) fn new(client: usize, file: Rc<RefCell<SharedFile>>, size_max: u64) -> Self {
        Self { client, file, size_max, doing: WriterState::Resting, over: false }
    }

    fn create(&mut self, sim: &mut Simulation) {
        let path = path(&self.file.borrow().name);
        self.doing = WriterState::Creating;
        sim.ask(self.client, ClientOp::Create { path, content: Content::Bytes, or_open: true });
    }

    fn go_on(&mut self, sim: &mut Simulation) {
        if sim.closing {
            self.over = true;
            return;
        }
        let Some(file) = self.file.borrow().id else { return self.create(sim) };
        let chunk = sim.cell_config.chunk_size;
        match sim.random().below(20) {
            0 => {
                self.doing = WriterState::Syncing { since: sim.now() };
                sim.ask(self.client, ClientOp::Sync { file });
            }
            1..=11 => {
                let size = 1 + sim.random().below(chunk / 2);
                let offset = sim.random().below(self.size_max - size);
                let now = sim.now();
                let write = self.file.borrow_mut().model.begin(self.client, offset, size, now);
                let sync = sim.random().chance(100);
                self.doing = WriterState::Writing { write, sync };
                let bytes = Bytes::from(bytes_of(write, offset, size));
                sim.ask(self.client, ClientOp::Write { file, offset, bytes, sync });
            }
            _ => {
                let offset = sim.random().below(self.size_max);
                let size = 1 + sim.random().below(2 * chunk);
                let from = sim.now();
                let note =
                    ReadNote { client: self.client, offset, size, from, until: WorldTime(0) };
                self.doing = WriterState::Reading(note);
                sim.ask(self.client, ClientOp::Read { file, offset, size, fresh: false });
            }
        }
    }
}

impl Workload for RandomWriter {
    fn start(&mut self, sim: &mut Simulation) {
        sim.rest(500);
    }

    fn ended(&mut self, sim: &mut Simulation, _: OpTicket, result: OpResult) {
        match (std::mem::replace(&mut self.doing, WriterState::Resting), result) {
            (WriterState::Creating, Ok(OpOutput::Entry(entry))) => {
                self.file.borrow_mut().id = Some(entry.id)
            }
            (WriterState::Writing { write, sync }, result) => {
                let how = sim.mutation_end(&result);
                let model = &mut self.file.borrow_mut().model;
                model.end(write, how);
                if let (true, MutationEnd::Acknowledged(at)) = (sync, how) {
                    model.writes[write].synced = Some(at);
                }
            }
            (WriterState::Syncing { since }, Ok(_)) => {
                let mut shared = self.file.borrow_mut();
                let file = shared.id.expect("it was synced");
                let lost = |write: &WriteNote| sim.excused(file, write.offset, write.size);
                shared.model.synced(self.client, since, sim.now(), lost);
            }
            (WriterState::Reading(read), Ok(OpOutput::Bytes(bytes, _))) => {
                let read = ReadNote { until: sim.now(), ..read };
                self.file.borrow().judge(sim, read, &bytes);
            }
            _ => {}
        }
        sim.rest(900);
    }

    fn woken(&mut self, sim: &mut Simulation) {
        self.go_on(sim);
    }

    fn finished(&self) -> bool {
        self.over
    }
}
