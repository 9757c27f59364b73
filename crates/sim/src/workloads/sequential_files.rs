//! One client writes files from front to back, reads back what it wrote, and goes on to the next
//! file: what `put` and `get` do.

use super::{SharedFile, ended, path};
use crate::file_model::{ReadNote, bytes_of};
use crate::operations::{Done, Op, OpResult, Ticket};
use crate::stage::{Actor, Stage};
use bytes::Bytes;
use cairn_env_sim::WorldTime;
use cairn_types::Content;
use std::cell::RefCell;
use std::rc::Rc;

/// Where all the files of a run are told, for the last reading.
pub(crate) type Files = Rc<RefCell<Vec<Rc<RefCell<SharedFile>>>>>;

enum Doing {
    Resting,
    Creating(Rc<RefCell<SharedFile>>),
    Writing(usize),
    Reading(ReadNote),
}

/// The client.
pub(crate) struct SequentialFiles {
    client: usize,
    files: Files,
    count: u64,
    present: Option<Rc<RefCell<SharedFile>>>,
    written: u64,
    doing: Doing,
    over: bool,
}

impl SequentialFiles {
    pub(crate) fn new(client: usize, files: Files) -> Self {
        let doing = Doing::Resting;
        Self { client, files, count: 0, present: None, written: 0, doing, over: false }
    }

    fn go_on(&mut self, stage: &mut Stage) {
        if stage.closing {
            self.over = true;
            return;
        }
        let Some(present) = self.present.clone() else { return self.create(stage) };
        let file = present.borrow().id.expect("a present file is created");
        let chunk = stage.cluster.chunk_size;
        if self.written > 5 * chunk {
            self.present = None;
            return self.create(stage);
        }
        if stage.random().chance(300) && self.written > 0 {
            let offset = stage.random().below(self.written);
            let size = 1 + stage.random().below(3 * chunk);
            let from = stage.now();
            self.doing = Doing::Reading(ReadNote {
                client: self.client,
                offset,
                size,
                from,
                until: WorldTime(0),
            });
            stage.ask(self.client, Op::Read { file, offset, size, fresh: false });
            return;
        }
        let size = 1 + stage.random().below(chunk * 3 / 2);
        let (offset, now) = (self.written, stage.now());
        self.written += size;
        let write = present.borrow_mut().model.begin(self.client, offset, size, now);
        self.doing = Doing::Writing(write);
        let bytes = Bytes::from(bytes_of(write, offset, size));
        stage.ask(self.client, Op::Write { file, offset, bytes, sync: false });
    }

    fn create(&mut self, stage: &mut Stage) {
        self.count += 1;
        let name = format!("/seq-{}-{}", self.client, self.count);
        let file = SharedFile::named(&name);
        self.doing = Doing::Creating(file);
        let path = path(&name);
        stage.ask(self.client, Op::Create { path, content: Content::Bytes, or_open: false });
    }
}

impl Actor for SequentialFiles {
    fn start(&mut self, stage: &mut Stage) {
        stage.rest(500);
    }

    fn ended(&mut self, stage: &mut Stage, _: Ticket, result: OpResult) {
        match (std::mem::replace(&mut self.doing, Doing::Resting), result) {
            (Doing::Creating(file), Ok(Done::Entry(entry))) => {
                file.borrow_mut().id = Some(entry.id);
                self.files.borrow_mut().push(file.clone());
                self.present = Some(file);
                self.written = 0;
            }
            (Doing::Writing(write), result) => {
                let how = ended(stage, &result);
                let present = self.present.as_ref().expect("it was written to");
                present.borrow_mut().model.end(write, how);
            }
            (Doing::Reading(read), Ok(Done::Bytes(bytes, _))) => {
                let read = ReadNote { until: stage.now(), ..read };
                let present = self.present.clone().expect("it was read");
                present.borrow().judge(stage, read, &bytes);
            }
            _ => {}
        }
        stage.rest(600);
    }

    fn woken(&mut self, stage: &mut Stage) {
        self.go_on(stage);
    }

    fn finished(&self) -> bool {
        self.over
    }
}
