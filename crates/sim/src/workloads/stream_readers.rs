//! Readers of a stream, from its beginning on, while everything breaks: what is committed reaches
//! each of them once, in its order, and nothing else does (R38, R44).
//!
//! - SR1: each byte is that of the bundle which the log has there, as it was sent.
//! - SR2: a producer's records come one after the other, from the first on, and nothing stands
//!   between records.
//! - SR3: nothing is read, or told to be there, that the log has not committed.
//! - SR4: bytes are told to be lost, and stand as zeros in a hole, only where nobody of their
//!   chunk's set has their bundle any more (R41); and in a hole only where a person has said so.

use super::stream_file::StreamFile;
use crate::operations::{ClientOp, OpOutput, OpResult, OpTicket, path};
use crate::simulation::{Simulation, Workload, told};
use bytes::Bytes;
use cairn_client_core::HoleRead;
use cairn_format::{RecordScanner, RecordSource, Scanned};
use cairn_protocol::{ErrorCode, Failure, SkipLost};
use cairn_types::{ByteRange, ChunkHandle, EntryId};
use std::cell::RefCell;
use std::collections::{BTreeMap, BTreeSet};
use std::rc::Rc;

/// So many failures in a row, after the faults, are no accident.
const FAILURES_MAX: u32 = 3;
/// So many empty reads in a row, after the faults, are the end.
const IDLE_MAX: u32 = 5;
/// Where a larger read keeps failing after the faults, it is read in pieces of so many bytes: what
/// excuses one has to be there, and not somewhere in the stream.
const PIECE: u64 = 512;
/// How long a follower waits for more at a time.
const PATIENCE_MS: u64 = 1_500;

/// What was asked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum AskedOfStream {
    Open,
    Bytes,
    Length,
    /// A person lets readers pass over what is lost.
    Hole,
}

/// One reader.
pub(crate) struct StreamReader {
    client: usize,
    file: Rc<RefCell<StreamFile>>,
    is_open: bool,
    asked: Option<AskedOfStream>,
    /// Bytes that one read asks for.
    size: u64,
    position: u64,
    scanner: RecordScanner,
    /// The last record of each producer.
    last: BTreeMap<RecordSource, u64>,
    /// Records of each producer that were passed over, first and count.
    lost: BTreeMap<String, Vec<(u64, u64)>>,
    holes: Vec<HoleRead>,
    /// Chunks of which it has made holes.
    skipped: BTreeSet<ChunkHandle>,
    /// It makes a hole of what is lost; others have to do without.
    skips: bool,
    idle: u32,
    failures: u32,
    over: bool,
}

impl StreamReader {
    pub(crate) fn new(client: usize, size: u64, file: Rc<RefCell<StreamFile>>) -> Self {
        Self {
            client,
            file,
            is_open: false,
            asked: None,
            size,
            position: 0,
            scanner: RecordScanner::new(0),
            last: BTreeMap::new(),
            lost: BTreeMap::new(),
            holes: Vec::new(),
            skipped: BTreeSet::new(),
            skips: client.is_multiple_of(2),
            idle: 0,
            failures: 0,
            over: false,
        }
    }

    fn go_on(&mut self, sim: &mut Simulation, what: AskedOfStream) {
        if self.over || self.asked.is_some() {
            return;
        }
        let Some(file) = self.file.borrow().id else {
            if sim.closing {
                self.over = true;
                return;
            }
            return sim.rest(500);
        };
        let (offset, size, fresh) = (self.position, self.size, false);
        let what = if self.is_open { what } else { AskedOfStream::Open };
        self.asked = Some(what);
        let op = match what {
            AskedOfStream::Open => ClientOp::Open { path: path(&self.file.borrow().name) },
            AskedOfStream::Bytes => ClientOp::Read { file, offset, size, fresh },
            AskedOfStream::Hole => {
                let is_new = |handle: ChunkHandle| !self.skipped.contains(&handle);
                let handle = self.lost_chunk(sim, file, is_new).unwrap_or_default();
                self.skipped.insert(handle);
                ClientOp::Order { order: Box::new(SkipLost { file, handle }.into()) }
            }
            AskedOfStream::Length => {
                ClientOp::WaitLength { file, length: offset, patience_ms: PATIENCE_MS }
            }
        };
        sim.ask(self.client, op);
    }

    /// A read failed: it is tried again, and once the faults are over it has to work.
    fn failed(&mut self, sim: &mut Simulation, file: EntryId, failure: &Failure) {
        if failure.code == ErrorCode::LostBytes {
            sim.reach("reader of a stream told that bytes are lost");
            if self.lost_chunk(sim, file, |_| true).is_none() {
                let place = sim.describe_stream(file, self.position..self.position + self.size);
                let why = format!("{}, and {place} are there (SR4)", told(failure));
                return sim.fail("exactly_once", why);
            }
            let is_new = |handle: ChunkHandle| !self.skipped.contains(&handle);
            if self.skips && self.lost_chunk(sim, file, is_new).is_some() {
                return self.go_on(sim, AskedOfStream::Hole);
            }
        }
        if !sim.closing {
            return sim.rest(500);
        }
        if self.size > PIECE {
            self.size = PIECE;
            return sim.rest(500);
        }
        self.failures += 1;
        if self.failures < FAILURES_MAX {
            return sim.rest(500);
        }
        self.over = true;
        if self.is_excused(sim, file) {
            return sim.reach("reader of a stream excused: no intact replica is alive");
        }
        let (name, at) = (self.file.borrow().name.clone(), self.position);
        let place = sim.describe_stream(file, at..at + self.size);
        sim.fail("it_heals", format!("following {name} at {at}, {place}: {}", told(failure)));
    }

    /// Whether what it waits for need not be there any more.
    fn is_excused(&self, sim: &Simulation, file: EntryId) -> bool {
        let next = self.position..self.position + self.size;
        sim.stream_excused(file, next)
    }

    /// The first of these chunks, of what was asked for, that nobody has as it is committed.
    fn lost_chunk(
        &self,
        sim: &Simulation,
        file: EntryId,
        is_wanted: impl Fn(ChunkHandle) -> bool,
    ) -> Option<ChunkHandle> {
        let mut at = self.position;
        while at < self.position + self.size {
            let note = sim.observer.borrow().ledger.streams.at(file, at).cloned()?;
            let end = note.offset + note.size;
            if is_wanted(note.handle) && sim.bundle_is_lost(&note) {
                return Some(note.handle);
            }
            at = end;
        }
        None
    }

    fn took(&mut self, sim: &mut Simulation, file: EntryId, bytes: &Bytes) {
        let judged = self.judge_bytes(sim, file, bytes);
        if let Err(why) = judged {
            return sim.fail("exactly_once", format!("{}: {why}", self.file.borrow().name));
        }
        self.position += bytes.len() as u64;
        self.scanner.push(bytes);
        while let Some(scanned) = self.scanner.next() {
            if let Err(why) = self.judge_record(sim, file, scanned) {
                return sim.fail("exactly_once", format!("{}: {why}", self.file.borrow().name));
            }
        }
    }

    /// SR1, SR3
    fn judge_bytes(&mut self, sim: &Simulation, id: EntryId, bytes: &Bytes) -> Result<(), String> {
        let observer = sim.observer.borrow();
        let file = self.file.borrow();
        let (mut at, mut rest) = (self.position, &bytes[..]);
        while !rest.is_empty() {
            let Some(note) = observer.ledger.streams.at(id, at) else {
                return Err(format!("{} bytes read at {at}, where nothing is (SR3)", rest.len()));
            };
            let Some(sent) = file.sent(&note.producer, note.epoch, note.first) else {
                return Err(format!("nobody has sent {note:?}"));
            };
            let hole = |hole: &&HoleRead| (hole.offset..hole.offset + hole.size).contains(&at);
            if let Some(hole) = self.holes.iter().find(hole) {
                let size = (hole.offset + hole.size).min(note.offset + note.size) - at;
                let size = usize::try_from(size).expect("a read").min(rest.len());
                let is_lost = observer.ledger.streams.holes.contains(&note.handle)
                    && sim.bundle_is_lost(note);
                if rest[..size].iter().any(|byte| *byte != 0) || !is_lost {
                    return Err(format!("at {at} is a hole of what {note:?} has (SR4)"));
                }
                let lost = self.lost.entry(note.producer.clone()).or_default();
                if lost.last() != Some(&(note.first, note.count)) {
                    lost.push((note.first, note.count));
                }
                (at, rest) = (at + size as u64, &rest[size..]);
                continue;
            }
            let from = usize::try_from(at - note.offset).expect("within a bundle");
            let there = &sent.bytes[from.min(sent.bytes.len())..];
            let size = there.len().min(rest.len());
            if size == 0 || there[..size] != rest[..size] {
                return Err(format!("at {at} other bytes are read than {note:?} has (SR1)"));
            }
            (at, rest) = (at + size as u64, &rest[size..]);
        }
        Ok(())
    }

    /// SR2
    fn judge_record(
        &mut self,
        sim: &Simulation,
        id: EntryId,
        scanned: Scanned,
    ) -> Result<(), String> {
        let record = match scanned {
            Scanned::Record(record) => record,
            Scanned::Skipped(range) if self.is_hole(sim, id, &range) => return Ok(()),
            Scanned::Skipped(range) => return Err(format!("{range:?} is no record (SR2)")),
        };
        let file = self.file.borrow();
        let lost = file.name_of(record.producer).and_then(|name| self.lost.get(name));
        let last = self.last.entry(record.producer).or_default();
        *last += 1;
        for (first, count) in lost.into_iter().flatten() {
            // Of a bundle whose head came by before the rest was lost, too.
            if (*first..first + count).contains(last) {
                *last = first + count;
            }
        }
        if record.number == *last {
            return Ok(());
        }
        let (who, number) = (file.name_of(record.producer), record.number);
        Err(format!("record {number} of {who:?} is read where {last} is to come (SR2)"))
    }

    /// Whether all of a range that is no record is of holes, which lie side by side; but for the
    /// head of a record, no whole one, that came by before the rest of its bundle was lost (stream
    /// seed 564).
    fn is_hole(&self, sim: &Simulation, id: EntryId, range: &ByteRange) -> bool {
        let observer = sim.observer.borrow();
        let mut at = range.offset;
        if let Some(note) = observer.ledger.streams.at(id, at) {
            let of_bundle = at..note.offset + note.size;
            let cut = self.holes.iter().map(|hole| hole.offset).find(|it| of_bundle.contains(it));
            if let Some(cut) = cut {
                let within = |at: u64| usize::try_from(at - note.offset).expect("of a bundle");
                let file = self.file.borrow();
                let sent = file.sent(&note.producer, note.epoch, note.first);
                let head = sent.and_then(|sent| sent.bytes.get(within(at)..within(cut)));
                let mut scanner = RecordScanner::new(at);
                scanner.push(head.unwrap_or_default());
                if head.is_none() || scanner.next().is_some() {
                    return false;
                }
                at = cut;
            }
        }
        for hole in &self.holes {
            if (hole.offset..hole.offset + hole.size).contains(&at) {
                at = hole.offset + hole.size;
            }
        }
        at >= range.offset + range.size
    }

    /// At the end: whatever is committed has come by. That nothing comes where something is
    /// committed has no excuse: what cannot be read is refused.
    fn judge(&mut self, sim: &mut Simulation, file: EntryId) {
        self.over = true;
        let length = sim.observer.borrow().ledger.streams.length(file);
        if self.position == length {
            let read: u64 = self.last.values().sum();
            let told = if read == 0 { "stream read: empty" } else { "stream read to its end" };
            return sim.reach(told);
        }
        let file = self.file.borrow();
        let at = self.position;
        sim.fail("exactly_once", format!("{}: a reader stands at {at} of {length}", file.name));
    }
}

impl Workload for StreamReader {
    fn start(&mut self, sim: &mut Simulation) {
        sim.rest(500);
    }

    fn ended(&mut self, sim: &mut Simulation, _: OpTicket, result: OpResult) {
        let asked = self.asked.take().expect("one question at a time");
        let file = self.file.borrow().id.expect("it was asked for");
        let output = match result {
            Ok(output) => output,
            Err(failure) => return self.failed(sim, file, &failure),
        };
        self.failures = 0;
        match (asked, output) {
            (AskedOfStream::Bytes, OpOutput::Bytes(bytes, _)) if bytes.is_empty() => {
                self.idle += u32::from(sim.closing);
                if self.idle == IDLE_MAX {
                    return self.judge(sim, file);
                }
                self.go_on(sim, AskedOfStream::Length);
            }
            (AskedOfStream::Hole, _) => {
                sim.reach("a person lets readers pass over what is lost");
                self.go_on(sim, AskedOfStream::Bytes);
            }
            (AskedOfStream::Bytes, OpOutput::BytesWithHoles(bytes, holes)) => {
                sim.reach("reader of a stream passed over what is lost");
                self.idle = 0;
                self.holes.extend(holes);
                self.took(sim, file, &bytes);
                sim.rest(150);
            }
            (AskedOfStream::Bytes, OpOutput::Bytes(bytes, _)) => {
                self.idle = 0;
                self.took(sim, file, &bytes);
                if sim.closing {
                    // Nothing more is written: it catches up as fast as it is answered.
                    return self.go_on(sim, AskedOfStream::Bytes);
                }
                sim.rest(150);
            }
            (AskedOfStream::Length, OpOutput::Length(length)) => {
                let known = sim.observer.borrow().ledger.streams.length(file);
                if length > known {
                    let why = format!("{length} bytes are told, and {known} committed (SR3)");
                    return sim.fail("exactly_once", why);
                }
                sim.rest(100);
            }
            (AskedOfStream::Open, _) => {
                self.is_open = true;
                self.go_on(sim, AskedOfStream::Bytes);
            }
            (asked, other) => panic!("{asked:?} came to {other:?}"),
        }
    }

    fn woken(&mut self, sim: &mut Simulation) {
        self.go_on(sim, AskedOfStream::Bytes);
    }

    fn finished(&self) -> bool {
        self.over
    }
}
