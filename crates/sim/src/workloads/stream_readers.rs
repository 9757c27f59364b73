//! Readers of a stream, from its beginning on, while everything breaks: what is committed reaches
//! each of them once, in its order, and nothing else does (R38, R44).
//!
//! - SR1: each byte is that of the bundle which the log has there, as it was sent.
//! - SR2: a producer's records come one after the other, from the first on, and nothing stands
//!   between records.
//! - SR3: nothing is read, or told to be there, that the log has not committed.

use super::stream_file::StreamFile;
use crate::operations::{ClientOp, OpOutput, OpResult, OpTicket, path};
use crate::simulation::{Simulation, Workload, told};
use bytes::Bytes;
use cairn_format::{ProducerId, RecordScanner, Scanned};
use cairn_protocol::Failure;
use cairn_types::EntryId;
use std::cell::RefCell;
use std::collections::BTreeMap;
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
    last: BTreeMap<ProducerId, u64>,
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
            AskedOfStream::Length => {
                ClientOp::WaitLength { file, length: offset, patience_ms: PATIENCE_MS }
            }
        };
        sim.ask(self.client, op);
    }

    /// A read failed: it is tried again, and once the faults are over it has to work.
    fn failed(&mut self, sim: &mut Simulation, file: EntryId, failure: &Failure) {
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

    fn took(&mut self, sim: &mut Simulation, file: EntryId, bytes: &Bytes) {
        if let Err(why) = self.judge_bytes(sim, file, bytes) {
            return sim.fail("exactly_once", format!("{}: {why}", self.file.borrow().name));
        }
        self.position += bytes.len() as u64;
        self.scanner.push(bytes);
        while let Some(scanned) = self.scanner.next() {
            if let Err(why) = self.judge_record(scanned) {
                return sim.fail("exactly_once", format!("{}: {why}", self.file.borrow().name));
            }
        }
    }

    /// SR1, SR3
    fn judge_bytes(&self, sim: &Simulation, id: EntryId, bytes: &Bytes) -> Result<(), String> {
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
    fn judge_record(&mut self, scanned: Scanned) -> Result<(), String> {
        let record = match scanned {
            Scanned::Record(record) => record,
            Scanned::Skipped(range) => return Err(format!("{range:?} is no record (SR2)")),
        };
        let last = self.last.entry(record.producer).or_default();
        *last += 1;
        if record.number == *last {
            return Ok(());
        }
        let file = self.file.borrow();
        let (who, number) = (file.name_of(record.producer), record.number);
        Err(format!("record {number} of {who:?} is read where {last} is to come (SR2)"))
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
