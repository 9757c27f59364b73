//! A person tends the cell while everything breaks: empties servers and takes that back, balances,
//! forgets the dead, and deletes directories, brings them back, deletes them twice (design §9, §8).
//!
//! - PA1: a directory that was brought back holds the bytes that were on all disks when it was
//!   deleted. Whatever was asked with an unknown end is left alone from then on.
//! - PA2: a server is told to be emptied only while as many others run as a chunk has replicas by
//!   default, and one at a time; the last such order may stand when the faults are over, and the
//!   cell has to carry it out then (H4).

use crate::file_model::ReadNote;
use crate::operations::{ClientOp, OpOutput, OpResult, OpTicket, path};
use crate::simulation::{Simulation, Workload};
use bytes::Bytes;
use cairn_env_sim::{NodeId, WorldTime};
use cairn_protocol::{Balance, CancelJob, Drain, ForgetServer, Request, Undrain};
use cairn_types::{Content, EntryId, ServerId};

/// The longest that a person does nothing.
const REST_MS: u64 = 1_500;
const LEVEL_MAX: u64 = 4;

/// How far the present directory is.
#[derive(Clone, Debug)]
enum DirectoryStage {
    Unmade,
    Empty,
    Created(EntryId),
    Written(EntryId),
    /// Deleted, and readable by this hidden name.
    Hidden(EntryId, String),
    /// Brought back, and not looked at yet.
    Back(EntryId),
}

/// What a person does.
#[derive(Clone, Debug)]
enum PersonsAct {
    /// The next step of the directory's life.
    Directory(DirectoryAct),
    /// An order about servers, which changes nothing here.
    Order(Box<Request>),
}

#[derive(Clone, Debug)]
enum DirectoryAct {
    Make,
    Create,
    Write(EntryId),
    Level(u32),
    Delete(EntryId),
    Undelete(EntryId),
    DeleteTwice(String),
    Read(EntryId),
}

/// The person.
pub(crate) struct PeoplesActs {
    client: usize,
    /// Counts directories.
    number: u32,
    stage: DirectoryStage,
    doing: Option<PersonsAct>,
    /// When it began to read.
    reads_from: WorldTime,
    over: bool,
}

impl PeoplesActs {
    pub(crate) fn new(client: usize) -> Self {
        let (stage, reads_from) = (DirectoryStage::Unmade, WorldTime(0));
        Self { client, number: 0, stage, doing: None, reads_from, over: false }
    }

    fn directory(&self) -> String {
        format!("/people-{}", self.number)
    }

    fn file(&self) -> String {
        format!("{}/kept", self.directory())
    }

    fn bytes(&self) -> Bytes {
        Bytes::from(format!("what person number {} has written", self.number))
    }

    /// Another directory, made from the beginning.
    fn begin_anew(&mut self) {
        self.number += 1;
        self.stage = DirectoryStage::Unmade;
    }

    fn draw(&mut self, sim: &mut Simulation) -> PersonsAct {
        if sim.random().chance(400)
            && let Some(order) = draw_order(sim)
        {
            return PersonsAct::Order(Box::new(order));
        }
        PersonsAct::Directory(match &self.stage {
            DirectoryStage::Unmade => DirectoryAct::Make,
            DirectoryStage::Empty => DirectoryAct::Create,
            DirectoryStage::Created(file) => DirectoryAct::Write(*file),
            DirectoryStage::Written(file) => {
                let level = u32::try_from(1 + sim.random().below(LEVEL_MAX)).expect("few");
                let says = sim.random().chance(400);
                if says { DirectoryAct::Level(level) } else { DirectoryAct::Delete(*file) }
            }
            DirectoryStage::Hidden(file, hidden) => match sim.random().chance(600) {
                true => DirectoryAct::Undelete(*file),
                false => DirectoryAct::DeleteTwice(hidden.clone()),
            },
            DirectoryStage::Back(file) => DirectoryAct::Read(*file),
        })
    }

    fn ask(&mut self, sim: &mut Simulation, act: PersonsAct) {
        let (directory, file) = (path(&self.directory()), path(&self.file()));
        let op = match act.clone() {
            PersonsAct::Order(order) => ClientOp::Order { order },
            PersonsAct::Directory(act) => match act {
                DirectoryAct::Make => ClientOp::MakeDirectory { path: directory },
                DirectoryAct::Create => {
                    ClientOp::Create { path: file, content: Content::Bytes, or_open: false }
                }
                DirectoryAct::Write(file) => {
                    ClientOp::Write { file, offset: 0, bytes: self.bytes(), sync: true }
                }
                DirectoryAct::Level(level) => {
                    ClientOp::SetPolicy { path: directory, level: Some(level), apply: true }
                }
                DirectoryAct::Delete(_) => ClientOp::Delete { path: directory, recursive: true },
                DirectoryAct::Undelete(_) => ClientOp::Undelete { path: directory },
                DirectoryAct::DeleteTwice(hidden) => {
                    ClientOp::Delete { path: path(&hidden), recursive: true }
                }
                DirectoryAct::Read(file) => {
                    self.reads_from = sim.now();
                    let size = self.bytes().len() as u64;
                    ClientOp::Read { file, offset: 0, size, fresh: true }
                }
            },
        };
        self.doing = Some(act);
        sim.ask(self.client, op);
    }

    fn done(&mut self, sim: &mut Simulation, act: &DirectoryAct, output: OpOutput) {
        self.stage = match (act, output) {
            (DirectoryAct::Make, _) => DirectoryStage::Empty,
            (DirectoryAct::Create, OpOutput::Entry(entry)) => DirectoryStage::Created(entry.id),
            (DirectoryAct::Write(file), _) => DirectoryStage::Written(*file),
            (DirectoryAct::Level(_), _) => return sim.reach("a person said a level"),
            (DirectoryAct::Delete(file), OpOutput::Hidden(hidden)) => {
                DirectoryStage::Hidden(*file, hidden)
            }
            (DirectoryAct::Undelete(file), _) => {
                sim.reach("a deleted directory brought back");
                DirectoryStage::Back(*file)
            }
            (DirectoryAct::DeleteTwice(_), _) => {
                sim.reach("a directory deleted twice");
                return self.begin_anew();
            }
            (DirectoryAct::Read(file), OpOutput::Bytes(bytes, _)) => {
                self.judge(sim, *file, &bytes);
                DirectoryStage::Written(*file)
            }
            (act, output) => unreachable!("{act:?} gives {output:?}"),
        };
    }

    /// PA1
    fn judge(&self, sim: &mut Simulation, file: EntryId, given: &Bytes) {
        let bytes = self.bytes();
        let size = bytes.len() as u64;
        let (client, from, until) = (self.client, self.reads_from, sim.now());
        let note = ReadNote { client, offset: 0, size, from, until };
        // With a warning it is less than was written, but nothing else.
        let warned = sim.read_with_a_warning(note) && bytes.starts_with(given);
        if *given == bytes || !sim.synced_is_kept(file, 0, size) || warned {
            return;
        }
        let message = format!(
            "{} was brought back and reads as {given:?} ({}), not {bytes:?}",
            self.file(),
            sim.describe(file, 0)
        );
        sim.fail("brought_back", message);
    }
}

/// Something to do about servers.
fn draw_order(sim: &mut Simulation) -> Option<Request> {
    match sim.random().below(8) {
        0..=2 => drain(sim),
        3 | 4 => undrain(sim),
        5 => {
            let threshold_permille = 50 + u32::try_from(sim.random().below(300)).expect("few");
            Some(Balance { threshold_permille, dry_run: false }.into())
        }
        6 => Some(CancelJob { id: "balance".to_owned() }.into()),
        _ => forget(sim),
    }
}

/// PA2
fn drain(sim: &mut Simulation) -> Option<Request> {
    let (servers, any) = {
        let observer = sim.observer.borrow();
        let id = |node: &NodeId| observer.servers.server_at(*node);
        let alive = sim.nodes.servers.iter().filter(|node| sim.world.is_alive(**node));
        let servers: Vec<ServerId> = alive.filter_map(id).collect();
        (servers, observer.servers.draining().next().is_some())
    };
    let enough = servers.len() > sim.cell_config.replication as usize;
    if any || !enough {
        return None;
    }
    let server = *sim.random().pick(&servers)?;
    sim.reach("a person drains a server");
    Some(Drain { server, dry_run: false }.into())
}

fn undrain(sim: &mut Simulation) -> Option<Request> {
    let server = sim.observer.borrow().servers.draining().next()?;
    Some(Undrain { server }.into())
}

/// One that is no machine's any more. The master refuses it of one that lives.
fn forget(sim: &mut Simulation) -> Option<Request> {
    let former: Vec<ServerId> = sim.observer.borrow().servers.former().collect();
    let server = *sim.random().pick(&former)?;
    sim.reach("a person forgets a server");
    Some(ForgetServer { server }.into())
}

impl Workload for PeoplesActs {
    fn start(&mut self, sim: &mut Simulation) {
        sim.rest(REST_MS);
    }

    fn ended(&mut self, sim: &mut Simulation, _: OpTicket, result: OpResult) {
        let act = self.doing.take().expect("one at a time");
        if let PersonsAct::Directory(act) = act {
            match result {
                Ok(output) => self.done(sim, &act, output),
                Err(_) => self.begin_anew(),
            }
        }
        sim.rest(REST_MS);
    }

    fn woken(&mut self, sim: &mut Simulation) {
        if sim.closing {
            self.over = true;
            return;
        }
        let act = self.draw(sim);
        self.ask(sim, act);
    }

    fn finished(&self) -> bool {
        self.over
    }
}
