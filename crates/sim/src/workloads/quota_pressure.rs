//! One client fills a directory that has a quota, and changes the quota at random, while everything
//! breaks: what it wrote and had acknowledged is read back, and what is refused for the quota names
//! it (R36). Whether the quota holds is watched elsewhere (`quotas_hold`).

use crate::file_model::ReadNote;
use crate::operations::{ClientOp, OpOutput, OpResult, OpTicket, path};
use crate::simulation::{Simulation, Workload};
use bytes::Bytes;
use cairn_env_sim::WorldTime;
use cairn_protocol::{ErrorCode, SetQuota};
use cairn_types::{Content, EntryId};

const DIRECTORY: &str = "/quota";
const FILES: usize = 6;
const NAMES_MAX: u64 = 6;
/// Chunks that a quota has room for, and a piece of one.
const CHUNKS_MAX: u64 = 4;

/// What is asked for.
#[derive(Clone, Debug)]
enum QuotaOp {
    MakeDirectory,
    Limit(Option<u64>, Option<u64>),
    Create(usize),
    Write(usize, Bytes),
    /// A write that makes a file longer.
    Extend,
    Sync,
    Close,
    Delete(usize),
    Purge(String),
    Read(usize),
}

/// A file of it.
#[derive(Clone, Debug, Default)]
struct QuotaFile {
    id: Option<EntryId>,
    /// What it begins with, where that was acknowledged.
    begins: Option<Bytes>,
}

/// The client.
#[derive(Default)]
pub(crate) struct QuotaPressure {
    client: usize,
    made: bool,
    number: u64,
    files: Vec<QuotaFile>,
    hidden: Vec<String>,
    doing: Option<QuotaOp>,
    /// When the last read was asked for.
    reads_from: WorldTime,
    /// It is known that there is no quota; not once what became of a change is unknown.
    unlimited: bool,
    limit_in_doubt: bool,
    over: bool,
}

impl QuotaPressure {
    pub(crate) fn new(client: usize) -> Self {
        let files = vec![QuotaFile::default(); FILES];
        Self { client, files, unlimited: true, ..Self::default() }
    }

    fn draw(&mut self, sim: &mut Simulation) -> QuotaOp {
        if !self.made {
            return QuotaOp::MakeDirectory;
        }
        let chunk_size = sim.cell_config.chunk_size;
        let random = sim.random();
        let at = usize::try_from(random.below(FILES as u64)).expect("few");
        match random.below(20) {
            0..=2 => {
                let names = random.chance(600).then(|| 1 + random.below(NAMES_MAX));
                let piece = random.below(chunk_size);
                let bytes =
                    random.chance(700).then(|| chunk_size * random.below(CHUNKS_MAX) + piece);
                QuotaOp::Limit(names, bytes)
            }
            3 if !self.hidden.is_empty() => QuotaOp::Purge(self.hidden.remove(0)),
            _ if self.files[at].id.is_none() => QuotaOp::Create(at),
            4 | 5 => QuotaOp::Delete(at),
            6..=8 if self.files[at].begins.is_some() => QuotaOp::Read(at),
            9 => QuotaOp::Sync,
            10 => QuotaOp::Close,
            _ => {
                self.number += 1;
                QuotaOp::Write(at, Bytes::from(format!("counted {:>12}", self.number)))
            }
        }
    }

    fn ask(&mut self, sim: &mut Simulation, op: QuotaOp) {
        let name = |at: usize| path(&format!("{DIRECTORY}/{at}"));
        let id = |files: &[QuotaFile], at: usize| files[at].id.expect("only what is there");
        let asked = match op.clone() {
            QuotaOp::MakeDirectory => ClientOp::MakeDirectory { path: path(DIRECTORY) },
            QuotaOp::Limit(names, bytes) => {
                self.unlimited = false;
                let (mutation, path) = (Default::default(), path(DIRECTORY));
                let order = SetQuota { mutation, path, names, bytes, clears: true };
                ClientOp::Order { order: Box::new(order.into()) }
            }
            QuotaOp::Create(at) => {
                ClientOp::Create { path: name(at), content: Content::Bytes, or_open: true }
            }
            QuotaOp::Write(at, bytes) => {
                // Half of them make the file longer, up to three chunks.
                let reach = 3 * sim.cell_config.chunk_size;
                let far = sim.random().chance(500) && self.files[at].begins.is_some();
                let offset = if far { 100 + sim.random().below(reach) } else { 0 };
                let file = id(&self.files, at);
                if offset > 0 {
                    self.doing = Some(QuotaOp::Extend);
                    sim.ask(self.client, ClientOp::Write { file, offset, bytes, sync: false });
                    return;
                }
                self.files[at].begins = None;
                ClientOp::Write { file, offset, bytes, sync: true }
            }
            QuotaOp::Extend => unreachable!("it is asked as a write"),
            QuotaOp::Sync => match self.files.iter().find_map(|file| file.id) {
                Some(file) => ClientOp::Sync { file },
                None => ClientOp::Stat { path: path(DIRECTORY) },
            },
            QuotaOp::Close => match self.files.iter().find_map(|file| file.id) {
                Some(file) => ClientOp::Close { file },
                None => ClientOp::Stat { path: path(DIRECTORY) },
            },
            QuotaOp::Delete(at) => {
                self.files[at] = QuotaFile::default();
                ClientOp::Delete { path: name(at), recursive: false }
            }
            QuotaOp::Purge(hidden) => ClientOp::Delete { path: path(&hidden), recursive: true },
            QuotaOp::Read(at) => {
                self.reads_from = sim.now();
                let (file, size) = (id(&self.files, at), BEGIN_SIZE);
                ClientOp::Read { file, offset: 0, size, fresh: true }
            }
        };
        self.doing = Some(op);
        sim.ask(self.client, asked);
    }

    fn judge(&self, sim: &mut Simulation, at: usize, given: &Bytes) {
        let QuotaFile { id: Some(file), begins: Some(begins) } = &self.files[at] else { return };
        let (client, from, until) = (self.client, self.reads_from, sim.now());
        let note = ReadNote { client, offset: 0, size: BEGIN_SIZE, from, until };
        if given == begins
            || !sim.synced_is_kept(*file, 0, BEGIN_SIZE)
            || sim.read_by_stale_location(note)
            // Less than was written, but nothing else.
            || (begins.starts_with(given) && sim.read_with_a_warning(note))
        {
            return;
        }
        let message = format!("{DIRECTORY}/{at} begins with {given:?}, not {begins:?}");
        sim.fail("quota_pressure", message);
    }
}

/// Bytes that each file begins with.
const BEGIN_SIZE: u64 = 20;

impl Workload for QuotaPressure {
    fn start(&mut self, sim: &mut Simulation) {
        sim.rest(500);
    }

    fn ended(&mut self, sim: &mut Simulation, _: OpTicket, result: OpResult) {
        let op = self.doing.take().expect("one at a time");
        match (op, result) {
            (_, Err(failure)) if failure.code == ErrorCode::QuotaExceeded => {
                sim.reach("a quota refused more");
                if !failure.message.contains("/quota: its quota is") {
                    sim.fail("quota_pressure", format!("it names no quota: {failure}"));
                }
                if self.unlimited {
                    sim.fail("quota_pressure", format!("there is no quota: {failure}"));
                }
            }
            (QuotaOp::Limit(names, bytes), Ok(_)) => {
                self.unlimited = (names, bytes) == (None, None) && !self.limit_in_doubt;
            }
            // It may come late.
            (QuotaOp::Limit(..), Err(_)) => self.limit_in_doubt = true,
            (QuotaOp::MakeDirectory, Ok(_)) => self.made = true,
            (QuotaOp::MakeDirectory, Err(failure)) => {
                self.made = failure.code == ErrorCode::AlreadyExists;
            }
            (QuotaOp::Create(at), Ok(OpOutput::Entry(entry))) => {
                self.files[at] = QuotaFile { id: Some(entry.id), begins: None };
            }
            (QuotaOp::Write(at, bytes), Ok(_)) => {
                self.files[at].begins = Some(bytes);
                sim.reach("written under a quota");
            }
            (QuotaOp::Delete(_), Ok(OpOutput::Hidden(hidden))) => self.hidden.push(hidden),
            (QuotaOp::Read(at), Ok(OpOutput::Bytes(bytes, _))) => self.judge(sim, at, &bytes),
            _ => {}
        }
        sim.rest(100);
    }

    fn woken(&mut self, sim: &mut Simulation) {
        if sim.closing {
            self.over = true;
            return;
        }
        let next = self.draw(sim);
        self.ask(sim, next);
    }

    fn finished(&self) -> bool {
        self.over
    }
}
