//! Several clients write and read at random offsets of one file, over and over the same bytes:
//! overwrites, holes, concurrent regions (Table 1).

use super::{ended, path};
use crate::file_model::{Demand, Ended, FileModel, ReadNote, WriteNote, bytes_of};
use crate::operations::{Done, Op, OpResult, Ticket};
use crate::stage::{Actor, Stage};
use bytes::Bytes;
use cairn_env_sim::WorldTime;
use cairn_types::{Content, EntryId};
use std::cell::RefCell;
use std::rc::Rc;

/// A file of bytes and its oracle, shared by those who write it.
#[derive(Debug, Default)]
pub(crate) struct SharedFile {
    pub(crate) name: String,
    pub(crate) id: Option<EntryId>,
    pub(crate) model: FileModel,
}

impl SharedFile {
    pub(crate) fn named(name: &str) -> Rc<RefCell<Self>> {
        Rc::new(RefCell::new(Self { name: name.to_owned(), ..Self::default() }))
    }

    /// Judges a read that has ended, unless what is missing may be.
    pub(crate) fn judge(&self, stage: &mut Stage, read: ReadNote, bytes: &[u8]) {
        let Err(message) = self.model.judge(read, bytes, Demand::Acknowledged) else { return };
        let file = self.id.expect("a file that is read is known");
        let (offset, size) = (read.offset, read.size);
        let lost = stage.excused(file, offset, size);
        let stale = stage.read_by_stale_location(read);
        if lost {
            stage.reach("read excused: no intact replica is alive");
        } else if stage.read_with_a_warning(read) {
            stage.reach("read excused: a suspect replica answered, with a warning (R28)");
        } else if stale {
            stage.reach("read excused: stale replica by a cached location (GFS 2.7.1)");
        } else {
            return self.complain(stage, read, &message);
        }
        // No power failure takes what was synced, or leaves what nobody wrote (M5).
        let kept = !stale && stage.synced_is_kept(file, offset, size);
        let demand = if kept { Demand::Synced } else { Demand::Nothing };
        if let Err(message) = self.model.judge(read, bytes, demand) {
            self.complain(stage, read, &message);
        }
    }

    fn complain(&self, stage: &mut Stage, read: ReadNote, message: &str) {
        let from = read.from.seconds();
        stage.fail("regions", format!("{} (read from {from:.3}s): {message}", self.name));
    }
}

enum Doing {
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
    doing: Doing,
    over: bool,
}

impl RandomWriter {
    pub(crate) fn new(client: usize, file: Rc<RefCell<SharedFile>>, size_max: u64) -> Self {
        Self { client, file, size_max, doing: Doing::Resting, over: false }
    }

    fn create(&mut self, stage: &mut Stage) {
        let path = path(&self.file.borrow().name);
        self.doing = Doing::Creating;
        stage.ask(self.client, Op::Create { path, content: Content::Bytes, or_open: true });
    }

    fn go_on(&mut self, stage: &mut Stage) {
        if stage.closing {
            self.over = true;
            return;
        }
        let Some(file) = self.file.borrow().id else { return self.create(stage) };
        let chunk = stage.cluster.chunk_size;
        match stage.random().below(20) {
            0 => {
                self.doing = Doing::Syncing { since: stage.now() };
                stage.ask(self.client, Op::Sync { file });
            }
            1..=11 => {
                let size = 1 + stage.random().below(chunk / 2);
                let offset = stage.random().below(self.size_max - size);
                let now = stage.now();
                let write = self.file.borrow_mut().model.begin(self.client, offset, size, now);
                let sync = stage.random().chance(100);
                self.doing = Doing::Writing { write, sync };
                let bytes = Bytes::from(bytes_of(write, offset, size));
                stage.ask(self.client, Op::Write { file, offset, bytes, sync });
            }
            _ => {
                let offset = stage.random().below(self.size_max);
                let size = 1 + stage.random().below(2 * chunk);
                let from = stage.now();
                let note =
                    ReadNote { client: self.client, offset, size, from, until: WorldTime(0) };
                self.doing = Doing::Reading(note);
                stage.ask(self.client, Op::Read { file, offset, size, fresh: false });
            }
        }
    }
}

impl Actor for RandomWriter {
    fn start(&mut self, stage: &mut Stage) {
        stage.rest(500);
    }

    fn ended(&mut self, stage: &mut Stage, _: Ticket, result: OpResult) {
        match (std::mem::replace(&mut self.doing, Doing::Resting), result) {
            (Doing::Creating, Ok(Done::Entry(entry))) => self.file.borrow_mut().id = Some(entry.id),
            (Doing::Writing { write, sync }, result) => {
                let how = ended(stage, &result);
                let model = &mut self.file.borrow_mut().model;
                model.end(write, how);
                if let (true, Ended::Acknowledged(at)) = (sync, how) {
                    model.writes[write].synced = Some(at);
                }
            }
            (Doing::Syncing { since }, Ok(_)) => {
                let mut shared = self.file.borrow_mut();
                let file = shared.id.expect("it was synced");
                let lost = |write: &WriteNote| stage.excused(file, write.offset, write.size);
                shared.model.synced(self.client, since, stage.now(), lost);
            }
            (Doing::Reading(read), Ok(Done::Bytes(bytes, _))) => {
                let read = ReadNote { until: stage.now(), ..read };
                self.file.borrow().judge(stage, read, &bytes);
            }
            _ => {}
        }
        stage.rest(900);
    }

    fn woken(&mut self, stage: &mut Stage) {
        self.go_on(stage);
    }

    fn finished(&self) -> bool {
        self.over
    }
}
