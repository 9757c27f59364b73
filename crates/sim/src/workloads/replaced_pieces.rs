//! Pieces of a stream of bytes are replaced by whoever has it exclusively, while two clients want
//! it, are killed and outlive their leases, and others read (R46; TFS §2.5).
//!
//! ```text
//!   a producer appends all pieces ─► openings without a name, of either client, one at a time:
//!                                    replace, replace, … then it is closed, killed, or goes on
//! ```
//! - RP1: what is read is of the last replacement that was told as done, or of one that may have
//!   come after it, whoever made it. Who reads already may go by what it was told of the extents
//!   for as long as by a cached location (GFS §2.7.1).
//! - RP2: what one replacement puts is seen as a whole: no read has a part of it, and beside that
//!   what stood there before.
//! - RP3: once the faults are over it can be opened, replaced and read.

use crate::file_model::{
    FileModel, MutationEnd, ReadDemand, ReadNote, WriteNote, byte_of, bytes_of,
};
use crate::operations::{ClientOp, OpOutput, OpResult, OpTicket, path};
use crate::simulation::{Simulation, Workload, told};
use bytes::Bytes;
use cairn_client_core::ProducerKey;
use cairn_env_sim::WorldTime;
use cairn_types::{Content, EntryId};
use std::cell::RefCell;
use std::collections::BTreeMap;
use std::rc::Rc;

const NAME: &str = "/pieces";
/// Who appends them; the one that replaces has no name.
const APPENDER: &str = "appender";
/// Bytes of a piece.
const PIECE: u64 = 512;
/// More than one chunk of an opening holds.
const PIECES: u64 = 12;
/// What one replacement takes the place of, at most.
const PIECES_AT_ONCE: u64 = 2;
/// Replacements on their way at once.
const WINDOW: usize = 2;
/// As the model has them: who appended, and whoever replaced, one after the other.
const APPENDED: usize = 0;
const REPLACED: usize = 1;
const REST_MS: u64 = 900;
/// Of a thousand times that something is sent, in how many its process is killed right after it.
const KILLED_PERMILLE: u64 = 60;
/// Openings that may fail in a row once the faults are over: one who was killed has it for a lease.
const REFUSALS_MAX: u32 = 30;
/// So many replacements, or reads, that fail in a row then are no accident.
const FAILURES_MAX: u32 = 3;

/// The stream and its oracle.
#[derive(Debug, Default)]
pub(crate) struct PiecesFile {
    id: Option<EntryId>,
    model: FileModel,
    /// All pieces are in it.
    whole: bool,
    /// Clients that replace nothing any more.
    done: usize,
}

/// What a client that replaces is about.
#[derive(Clone, Copy, Debug)]
enum ReplacerLife {
    Away,
    Creating,
    /// The appender is opened.
    OpeningAppender,
    Appending(ProducerKey),
    Opening,
    Holding {
        key: ProducerKey,
        next: u64,
        /// Replacements before it ends, somehow.
        left: u64,
    },
    Ending,
}

/// A client that wants it exclusively; the first appends the pieces before.
pub(crate) struct Replacer {
    client: usize,
    appends: bool,
    file: Rc<RefCell<PiecesFile>>,
    life: ReplacerLife,
    /// Which write of the model each is.
    under_way: BTreeMap<OpTicket, usize>,
    /// It has failed: it is opened anew.
    failed: bool,
    /// Its end was answered.
    ended: bool,
    refusals: u32,
    failures: u32,
    over: bool,
}

impl PiecesFile {
    pub(crate) fn new() -> Rc<RefCell<Self>> {
        Rc::default()
    }

    /// As an opening tells how many pieces were appended, what became of each is known.
    fn resolve(&mut self, appended: u64, now: WorldTime) {
        for write in self.model.writes.iter_mut().filter(|it| it.client == APPENDED) {
            let is_in = write.offset < appended * PIECE;
            match write.ended {
                MutationEnd::Unknown(_) | MutationEnd::Pending if is_in => {
                    write.ended = MutationEnd::Acknowledged(now);
                }
                MutationEnd::Unknown(_) | MutationEnd::Pending => {
                    write.ended = MutationEnd::NotDone;
                }
                MutationEnd::Acknowledged(_) | MutationEnd::NotDone => {}
            }
        }
    }

    /// RP1, RP2; what is read are whole pieces. Whatever is seen was committed in the order in
    /// which it was sent: by one at a time, who numbers it.
    fn judge_whole(&self, read: ReadNote, bytes: &[u8]) -> Result<(), String> {
        let notes = &self.model.writes;
        let covers = |write: usize, at: u64| {
            let note = &notes[write];
            (note.offset..note.offset + note.size).contains(&at)
        };
        let mut seen = Vec::new();
        for (at, piece) in (read.offset..).step_by(PIECE as usize).zip(bytes.chunks(PIECE as usize))
        {
            let is_of = |write: &usize| {
                let mut all = (at..).zip(piece);
                covers(*write, at) && all.all(|(position, it)| byte_of(*write, position) == *it)
            };
            let Some(write) = (0..notes.len()).rev().find(is_of) else {
                return Err(format!("the piece at {at} is of no one replacement (RP2)"));
            };
            let is_floor = |it: &usize| {
                let ended = notes[*it].ended;
                let was_told =
                    matches!(ended, MutationEnd::Acknowledged(when) if when <= read.from);
                covers(*it, at) && was_told
            };
            if let Some(floor) = (0..notes.len()).rev().find(is_floor)
                && write < floor
            {
                let (old, new) = (&notes[write], &notes[floor]);
                return Err(format!("at {at} {old:?} is read, and {new:?} was done (RP1)"));
            }
            seen.push((at, write));
        }
        for (_, new) in &seen {
            if let Some((at, old)) = seen.iter().find(|(at, old)| covers(*new, *at) && old < new) {
                let (old, new) = (&notes[*old], &notes[*new]);
                return Err(format!("beside a part of {new:?} there is {old:?} at {at} (RP2)"));
            }
        }
        Ok(())
    }
}

impl Replacer {
    pub(crate) fn new((client, appends): (usize, bool), file: Rc<RefCell<PiecesFile>>) -> Self {
        let (life, under_way) = (ReplacerLife::Away, BTreeMap::new());
        Self {
            client,
            appends,
            file,
            life,
            under_way,
            failed: false,
            ended: false,
            refusals: 0,
            failures: 0,
            over: false,
        }
    }

    fn go_on(&mut self, sim: &mut Simulation) {
        match self.life {
            ReplacerLife::Away => self.begin(sim),
            ReplacerLife::Appending(key) => self.append(sim, key),
            ReplacerLife::Holding { key, left: 0, .. } if self.under_way.is_empty() => {
                self.end(sim, key);
            }
            ReplacerLife::Holding { .. } => self.replace(sim),
            // What is under way comes to its end.
            ReplacerLife::Creating
            | ReplacerLife::OpeningAppender
            | ReplacerLife::Opening
            | ReplacerLife::Ending => {}
        }
    }

    fn begin(&mut self, sim: &mut Simulation) {
        let (id, whole) = (self.file.borrow().id, self.file.borrow().whole);
        if sim.closing && (!whole || !self.appends) {
            return self.finish();
        }
        let Some(file) = id else {
            if !self.appends {
                return sim.rest(REST_MS);
            }
            self.life = ReplacerLife::Creating;
            let (path, content, commit_replicas) = (path(NAME), Content::Bytes, None);
            sim.ask(self.client, ClientOp::CreateStream { path, content, commit_replicas });
            return;
        };
        let name = match whole {
            true => String::new(),
            false if self.appends => APPENDER.to_owned(),
            false => return sim.rest(REST_MS),
        };
        self.life = if whole { ReplacerLife::Opening } else { ReplacerLife::OpeningAppender };
        sim.ask(self.client, ClientOp::OpenProducer { file, name });
    }

    fn finish(&mut self) {
        self.over = true;
        self.file.borrow_mut().done += 1;
    }

    /// The next piece, one after the other.
    fn append(&mut self, sim: &mut Simulation, key: ProducerKey) {
        let appended = |it: &&WriteNote| matches!(it.ended, MutationEnd::Acknowledged(_));
        let count = self.file.borrow().model.writes.iter().filter(appended).count() as u64;
        if count == PIECES {
            self.file.borrow_mut().whole = true;
            self.life = ReplacerLife::Ending;
            sim.ask(self.client, ClientOp::CloseProducer { producer: key });
            return;
        }
        self.send(sim, key, (APPENDED, count + 1), (count * PIECE, PIECE));
    }

    fn replace(&mut self, sim: &mut Simulation) {
        let ReplacerLife::Holding { key, mut next, mut left } = self.life else {
            unreachable!("it is held")
        };
        while self.under_way.len() < WINDOW && left > 0 {
            let count = 1 + sim.random().below(PIECES_AT_ONCE);
            let first = sim.random().below(PIECES - count + 1);
            self.send(sim, key, (REPLACED, next), (first * PIECE, count * PIECE));
            (next, left) = (next + 1, left - 1);
        }
        self.life = ReplacerLife::Holding { key, next, left };
        if !sim.closing && sim.random().chance(KILLED_PERMILLE) {
            sim.reach("holder of a stream killed in the middle of a replacement");
            self.life = ReplacerLife::Ending;
            sim.ask(self.client, ClientOp::DropProducer { producer: key });
        }
    }

    fn send(
        &mut self,
        sim: &mut Simulation,
        producer: ProducerKey,
        (who, first): (usize, u64),
        (offset, size): (u64, u64),
    ) {
        let now = sim.now();
        let write = self.file.borrow_mut().model.begin(who, offset, size, now);
        let bytes = Bytes::from(bytes_of(write, offset, size));
        let replaces = (who == REPLACED).then_some(offset);
        let (count, cursor, sync) = (1, None, sim.random().chance(100));
        let op = ClientOp::SendBundle { producer, first, count, bytes, cursor, sync, replaces };
        let ticket = sim.ask(self.client, op);
        self.under_way.insert(ticket, write);
    }

    /// It is closed, or killed, or it stays until its lease is over, and goes on then.
    fn end(&mut self, sim: &mut Simulation, producer: ProducerKey) {
        if sim.closing {
            self.life = ReplacerLife::Ending;
            sim.ask(self.client, ClientOp::CloseProducer { producer });
            return;
        }
        match sim.random().below(3) {
            0 => {
                self.life = ReplacerLife::Ending;
                sim.ask(self.client, ClientOp::CloseProducer { producer });
            }
            1 => {
                sim.reach("holder of a stream killed");
                self.life = ReplacerLife::Ending;
                sim.ask(self.client, ClientOp::DropProducer { producer });
            }
            _ => {
                if let ReplacerLife::Holding { left, .. } = &mut self.life {
                    *left = 1;
                }
                sim.rest(2 * sim.cell_config.lease_ms);
            }
        }
    }

    fn opened(&mut self, sim: &mut Simulation, result: OpResult) {
        let opening = std::mem::replace(&mut self.life, ReplacerLife::Away);
        match (opening, result) {
            (ReplacerLife::Creating, Ok(OpOutput::Entry(entry))) => {
                self.file.borrow_mut().id = Some(entry.id);
            }
            (ReplacerLife::OpeningAppender, Ok(OpOutput::Producer(opened))) => {
                self.file.borrow_mut().resolve(opened.number.get(), sim.now());
                self.life = ReplacerLife::Appending(opened.producer);
                return self.go_on(sim);
            }
            (ReplacerLife::Opening, Ok(OpOutput::Producer(opened))) => {
                sim.reach("stream opened exclusively");
                let (key, next) = (opened.producer, opened.number.get() + 1);
                let left = if sim.closing { 1 } else { 1 + sim.random().below(6) };
                self.life = ReplacerLife::Holding { key, next, left };
                return self.go_on(sim);
            }
            (_, Ok(other)) => panic!("a stream is opened, and that comes to {other:?}"),
            (_, Err(failure)) if sim.closing => {
                self.refusals += 1;
                if self.refusals == REFUSALS_MAX {
                    self.finish();
                    let why = format!("{NAME} cannot be had exclusively: {}", told(&failure));
                    return sim.fail("it_heals", why);
                }
            }
            (_, Err(_)) => {}
        }
        sim.rest(REST_MS);
    }

    fn sent(&mut self, sim: &mut Simulation, write: usize, result: &OpResult) {
        self.file.borrow_mut().model.end(write, sim.mutation_end(result));
        match result {
            Ok(_) => sim.reach("piece of a stream replaced"),
            Err(_) => self.failed = true,
        }
        if !self.under_way.is_empty() {
            return;
        }
        let failed = std::mem::take(&mut self.failed);
        match (&self.life, result) {
            (ReplacerLife::Ending, _) => return self.leave(sim),
            (_, Err(failure)) if sim.closing => {
                self.failures += 1;
                let file = self.file.borrow().id.expect("it was sent to");
                if self.failures == FAILURES_MAX {
                    self.finish();
                    match sim.stream_file_excused(file) {
                        true => sim.reach("replacement excused: no intact replica is alive"),
                        false => {
                            let why = format!("replacing pieces of {NAME}: {}", told(failure));
                            sim.fail("it_heals", why);
                        }
                    }
                    return;
                }
            }
            _ => {}
        }
        if failed {
            self.life = ReplacerLife::Away;
            return sim.rest(REST_MS);
        }
        match self.life {
            ReplacerLife::Appending(key) => self.append(sim, key),
            _ => sim.rest(REST_MS),
        }
    }

    /// Nothing of this life is left, once its end and all that was on its way is answered; whatever
    /// came of that: it is over when its lease is.
    fn leave(&mut self, sim: &mut Simulation) {
        if !self.ended || !self.under_way.is_empty() {
            return;
        }
        (self.ended, self.life) = (false, ReplacerLife::Away);
        if sim.closing && self.file.borrow().whole {
            return self.finish();
        }
        sim.rest(REST_MS);
    }
}

impl Workload for Replacer {
    fn start(&mut self, sim: &mut Simulation) {
        sim.rest(500);
    }

    fn ended(&mut self, sim: &mut Simulation, ticket: OpTicket, result: OpResult) {
        if let Some(write) = self.under_way.remove(&ticket) {
            return self.sent(sim, write, &result);
        }
        if let ReplacerLife::Ending = self.life {
            self.ended = true;
            return self.leave(sim);
        }
        self.opened(sim, result);
    }

    fn woken(&mut self, sim: &mut Simulation) {
        if !self.over {
            self.go_on(sim);
        }
    }

    fn finished(&self) -> bool {
        self.over
    }
}

/// A read.
#[derive(Clone, Copy, Debug)]
struct PiecesRead {
    note: ReadNote,
    /// It goes by no cache.
    fresh: bool,
}

/// A client that reads pieces.
pub(crate) struct PiecesReader {
    client: usize,
    file: Rc<RefCell<PiecesFile>>,
    is_open: bool,
    /// None: it opens the stream.
    read: Option<PiecesRead>,
    /// When the last read began that was to go by no cache.
    fresh: WorldTime,
    failures: u32,
    over: bool,
}

impl PiecesReader {
    pub(crate) fn new(client: usize, file: Rc<RefCell<PiecesFile>>) -> Self {
        let fresh = WorldTime(0);
        Self { client, file, is_open: false, read: None, fresh, failures: 0, over: false }
    }

    fn go_on(&mut self, sim: &mut Simulation) {
        let (id, done) = (self.file.borrow().id, self.file.borrow().done);
        let Some(file) = id else {
            self.over = sim.closing;
            return sim.rest(REST_MS);
        };
        if !self.is_open {
            sim.ask(self.client, ClientOp::Open { path: path(NAME) });
            return;
        }
        let is_last = sim.closing && done == 2;
        let (first, count) = match is_last {
            true => (0, PIECES),
            false => (sim.random().below(PIECES), 1 + sim.random().below(4)),
        };
        let (offset, size) = (first * PIECE, count * PIECE);
        let fresh = is_last || sim.random().chance(300);
        let cached_ms = if fresh { 0 } else { sim.cell_config.location_ttl_ms };
        let from = WorldTime(sim.now().0.saturating_sub(cached_ms * 1_000_000));
        // What it was told it goes by, or by something younger.
        let (from, until) = (from.max(self.fresh), WorldTime(0));
        let note = ReadNote { client: self.client, offset, size, from, until };
        self.read = Some(PiecesRead { note, fresh });
        sim.ask(self.client, ClientOp::Read { file, offset, size, fresh });
    }

    fn took(&mut self, sim: &mut Simulation, mut read: PiecesRead, bytes: &Bytes) {
        let file = self.file.borrow().id.expect("it was read");
        let got = bytes.len() as u64;
        let next = {
            let observer = sim.observer.borrow();
            observer.ledger.streams.at_now(file, read.note.offset + got).cloned()
        };
        let is_lost = next.is_some_and(|next| sim.bundle_is_lost(&next));
        let is_cut = (1..read.note.size).contains(&got) && is_lost;
        if is_cut {
            // It ends before what is lost (R41).
            sim.reach("pieces of a stream read up to what is lost");
            read.note.size = got;
            self.failed(sim, file, "the rest is lost");
        } else {
            self.failures = 0;
        }
        let note = ReadNote { until: sim.now(), ..read.note };
        let judged = {
            let file = self.file.borrow();
            let model = file.model.judge(note, bytes, ReadDemand::Acknowledged);
            model.and_then(|()| file.judge_whole(note, bytes))
        };
        if let Err(why) = judged {
            let from = note.from.seconds();
            return sim.fail("exactly_once", format!("{NAME} (read from {from:.3}s): {why}"));
        }
        sim.reach("pieces of a stream read");
        if read.fresh {
            self.fresh = read.note.from;
        }
        if sim.closing && note.size == PIECES * PIECE {
            self.over = true;
        }
    }
}

impl PiecesReader {
    /// A read failed: once the faults are over it has to work.
    fn failed(&mut self, sim: &mut Simulation, file: EntryId, why: &str) {
        if !sim.closing {
            return;
        }
        self.failures += 1;
        if self.failures == FAILURES_MAX {
            self.over = true;
            match sim.stream_file_excused(file) {
                true => sim.reach("reader of pieces excused: no intact replica is alive"),
                false => sim.fail("it_heals", format!("reading {NAME}: {why}")),
            }
        }
    }
}

impl Workload for PiecesReader {
    fn start(&mut self, sim: &mut Simulation) {
        sim.rest(500);
    }

    fn ended(&mut self, sim: &mut Simulation, _: OpTicket, result: OpResult) {
        match (self.read.take(), result) {
            (Some(read), Ok(OpOutput::Bytes(bytes, _))) => self.took(sim, read, &bytes),
            (None, Ok(_)) => self.is_open = true,
            (Some(_), Ok(other)) => panic!("pieces are read, and come to {other:?}"),
            (_, Err(failure)) => {
                let file = self.file.borrow().id;
                if let Some(file) = file {
                    self.failed(sim, file, &told(&failure));
                }
            }
        }
        sim.rest(REST_MS);
    }

    fn woken(&mut self, sim: &mut Simulation) {
        if !self.over {
            self.go_on(sim);
        }
    }

    fn finished(&self) -> bool {
        self.over
    }
}
