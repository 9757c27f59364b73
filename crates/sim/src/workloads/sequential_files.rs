//! One client writes files from front to back, reads back what it wrote, and goes on to the next
//! file: what `put` and `get` do.

use super::shared_file::SharedFile;
use crate::file_model::{ReadNote, bytes_of};
use crate::operations::{ClientOp, OpOutput, OpResult, OpTicket, path};
use crate::simulation::{Simulation, Workload};
use bytes::Bytes;
use cairn_env_sim::WorldTime;
use cairn_types::Content;
use std::cell::RefCell;
use std::rc::Rc;

/// Where all the files of a run are told, for the last reading.
pub(crate) type SequentialFileList = Rc<RefCell<Vec<Rc<RefCell<SharedFile>>>>>;

enum SequentialState {
    Resting,
    Creating(Rc<RefCell<SharedFile>>),
    Writing(usize),
    Reading(ReadNote),
}

/// The client.
pub(crate) struct SequentialFiles {
    client: usize,
    files: SequentialFileList,
    count: u64,
    present: Option<Rc<RefCell<SharedFile>>>,
    written: u64,
    doing: SequentialState,
    over: bool,
}

impl SequentialFiles {
    pub(crate) fn new(client: usize, files: SequentialFileList) -> Self {
        let doing = SequentialState::Resting;
        Self { client, files, count: 0, present: None, written: 0, doing, over: false }
    }

    fn go_on(&mut self, sim: &mut Simulation) {
        if sim.closing {
            self.over = true;
            return;
        }
        let Some(present) = self.present.clone() else { return self.create(sim) };
        let file = present.borrow().id.expect("a present file is created");
        let chunk = sim.cell_config.chunk_size;
        if self.written > 5 * chunk {
            self.present = None;
            return self.create(sim);
        }
        if sim.random().chance(300) && self.written > 0 {
            let offset = sim.random().below(self.written);
            let size = 1 + sim.random().below(3 * chunk);
            let from = sim.now();
            self.doing = SequentialState::Reading(ReadNote {
                client: self.client,
                offset,
                size,
                from,
                until: WorldTime(0),
            });
            sim.ask(self.client, ClientOp::Read { file, offset, size, fresh: false });
            return;
        }
        let size = 1 + sim.random().below(chunk * 3 / 2);
        let (offset, now) = (self.written, sim.now());
        self.written += size;
        let write = present.borrow_mut().model.begin(self.client, offset, size, now);
        self.doing = SequentialState::Writing(write);
        let bytes = Bytes::from(bytes_of(write, offset, size));
        sim.ask(self.client, ClientOp::Write { file, offset, bytes, sync: false });
    }

    fn create(&mut self, sim: &mut Simulation) {
        self.count += 1;
        let name = format!("/seq-{}-{}", self.client, self.count);
        let file = SharedFile::named(&name);
        self.doing = SequentialState::Creating(file);
        let path = path(&name);
        sim.ask(self.client, ClientOp::Create { path, content: Content::Bytes, or_open: false });
    }
}

impl Workload for SequentialFiles {
    fn start(&mut self, sim: &mut Simulation) {
        sim.rest(500);
    }

    fn ended(&mut self, sim: &mut Simulation, _: OpTicket, result: OpResult) {
        match (std::mem::replace(&mut self.doing, SequentialState::Resting), result) {
            (SequentialState::Creating(file), Ok(OpOutput::Entry(entry))) => {
                file.borrow_mut().id = Some(entry.id);
                self.files.borrow_mut().push(file.clone());
                self.present = Some(file);
                self.written = 0;
            }
            (SequentialState::Writing(write), result) => {
                let how = sim.mutation_end(&result);
                let present = self.present.as_ref().expect("it was written to");
                present.borrow_mut().model.end(write, how);
            }
            (SequentialState::Reading(read), Ok(OpOutput::Bytes(bytes, _))) => {
                let read = ReadNote { until: sim.now(), ..read };
                let present = self.present.clone().expect("it was read");
                present.borrow().judge(sim, read, &bytes);
            }
            _ => {}
        }
        sim.rest(600);
    }

    fn woken(&mut self, sim: &mut Simulation) {
        self.go_on(sim);
    }

    fn finished(&self) -> bool {
        self.over
    }
}
