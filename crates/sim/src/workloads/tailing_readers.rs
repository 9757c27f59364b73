//! Readers that tail a file of records while everything breaks: every acknowledged record reaches
//! a reader that started before it, once (R17, R19, R37).
//!
//! - TR1: where a whole set has lost unsynced bytes, what is appended next stands where a reader
//!   may have read what is lost. It reads on where it stood, and is not given that (R28; seed 2230
//!   of d6f3fc5), whether what it read there was new to it or had come before (seed 609 of
//!   1c4bcb8).
//! - TR2: who reads where nobody runs that has all bytes may be answered by an old image, and goes
//!   past what others have when they are back (seed 889 of 168f1020).

use super::record_file::{RecordFile, RecordId, TriedRecord};
use crate::file_model::MutationEnd;
use crate::operations::{ClientOp, OpOutput, OpResult, OpTicket};
use crate::simulation::{Simulation, Workload, told};
use cairn_client_core::{ReadSpec, RecordCursor};
use cairn_env_sim::WorldTime;
use cairn_protocol::Failure;
use std::cell::RefCell;
use std::collections::BTreeMap;
use std::ops::Range;
use std::rc::Rc;
use std::time::Duration;

/// One reader.
pub(crate) struct TailingReader {
    client: usize,
    file: Rc<RefCell<RecordFile>>,
    cursor: RecordCursor,
    /// What it was given, by where that stood.
    given: BTreeMap<RecordId, u64>,
    /// What it read, byte for byte: up to where it stands, that is what it went past.
    read: Vec<u8>,
    /// Ranges that it read when nobody ran who had all of them.
    read_when_lost: Vec<Range<u64>>,
    asked: Option<ReadSpec>,
    /// When the last read began: what was acknowledged before, it has to give.
    asked_at: WorldTime,
    /// Reads in a row that gave nothing, after the writers have stopped.
    idle: u32,
    /// Reads in a row that failed, after the faults, and when the first of them did.
    failures: Option<(u32, WorldTime)>,
    over: bool,
}

/// So many failures in a row, after the faults, are no accident...
const FAILURES_MAX: u32 = 3;
/// ...where they went on for so long: a master whose disk was full asks each second whether it has
/// room again (hard seed 2299 of 56ec34b).
const FAILS_FOR: Duration = Duration::from_secs(2);
/// So many empty reads in a row, after the faults, are the end.
const IDLE_MAX: u32 = 5;

impl TailingReader {
    pub(crate) fn new(client: usize, file: Rc<RefCell<RecordFile>>) -> Self {
        Self {
            client,
            file,
            cursor: RecordCursor::new(0),
            given: BTreeMap::new(),
            read: Vec::new(),
            read_when_lost: Vec::new(),
            asked: None,
            asked_at: WorldTime(0),
            idle: 0,
            failures: None,
            over: false,
        }
    }

    fn go_on(&mut self, sim: &mut Simulation) {
        if self.over {
            return;
        }
        let Some(file) = self.file.borrow().id else {
            if sim.closing {
                self.over = true;
                return;
            }
            return sim.rest(500);
        };
        let spec = self.cursor.next_read();
        let (offset, size, fresh) = (spec.offset, spec.size, spec.fresh);
        (self.asked, self.asked_at) = (Some(spec), sim.now());
        sim.ask(self.client, ClientOp::Read { file, offset, size, fresh });
    }

    fn take(&mut self, sim: &mut Simulation, id: RecordId, offset: u64) {
        let mut file = self.file.borrow_mut();
        file.deliver(id, offset);
        let complaint = match file.tried.get(&id) {
            None => Some("was never tried"),
            Some(tried) if tried.ended == MutationEnd::NotDone => Some("failed as not done"),
            Some(_) => None,
        };
        if let Some(complaint) = complaint {
            return sim.fail("records", format!("{}: {id:?} {complaint}", file.name));
        }
        if self.given.insert(id, offset).is_some() {
            sim.fail("records", format!("{}: {id:?} reaches a reader twice", file.name));
        }
    }

    /// Where it reads again, it has not gone past there. `was_lost`: nobody ran who had all of
    /// that.
    fn note_read(&mut self, offset: u64, bytes: &[u8], was_lost: bool) {
        self.read.truncate(usize::try_from(offset).expect("a small file"));
        self.read_when_lost.retain_mut(|range| {
            range.end = range.end.min(offset);
            !range.is_empty()
        });
        assert_eq!(self.read.len() as u64, offset, "a reader leaves nothing out");
        self.read.extend_from_slice(bytes);
        let range = offset..self.read.len() as u64;
        self.read_when_lost.extend(Some(range).filter(|range| was_lost && !range.is_empty()));
    }

    /// A read failed: it is tried again, and once the faults are over it has to work.
    fn failed(&mut self, sim: &mut Simulation, failure: &Failure) {
        if !sim.closing {
            return sim.rest(500);
        }
        let (before, since) = self.failures.unwrap_or((0, sim.now()));
        self.failures = Some((before + 1, since));
        if before + 1 < FAILURES_MAX || sim.now() < since.after(FAILS_FOR) {
            return sim.rest(500);
        }
        self.over = true;
        let file = self.file.borrow();
        if sim.waits_for_repair(file.id.expect("it was read")) {
            return sim.reach("tailing reader excused: too few intact replicas");
        }
        sim.fail("it_heals", format!("tailing {}: {}", file.name, told(failure)));
    }

    /// At the end: whatever was acknowledged has come by.
    fn judge(&self, sim: &mut Simulation) {
        let file = self.file.borrow();
        for (id, tried) in &file.tried {
            let told = matches!(tried.ended, MutationEnd::Acknowledged(at) if at < self.asked_at);
            if !told || self.given.contains_key(id) {
                continue;
            }
            if file.may_be_lost(sim, tried) {
                sim.reach("record excused: no intact replica is alive");
                continue;
            }
            if self.has_passed(sim, &file, tried) {
                sim.reach("record excused: it stands where a reader had read what is lost");
                continue;
            }
            let offset = tried.offset.unwrap_or_default();
            let message = format!(
                "{}: {id:?} acknowledged at {offset} ({}) never reached a reader that started \
                 before it; it stands at {}",
                file.name,
                sim.describe(file.id.expect("it was read"), offset),
                self.cursor.consumed(),
            );
            return sim.fail("records", message);
        }
    }

    /// TR1, TR2.
    fn has_passed(&self, sim: &Simulation, file: &RecordFile, tried: &TriedRecord) -> bool {
        let (Some(id), Some(offset)) = (file.id, tried.offset) else { return false };
        let size = tried.framed.len() as u64;
        let passed = self.read.get(offset as usize..).unwrap_or_default();
        let passed = &passed[..passed.len().min(tried.framed.len())];
        let is_other = !tried.framed.starts_with(passed);
        // TR2
        let was_lost = self.read_when_lost.iter().any(|read| read.contains(&offset));
        let is_excused = was_lost || sim.excused(id, offset, size);
        is_other && self.cursor.consumed() > offset && is_excused
    }
}

impl Workload for TailingReader {
    fn start(&mut self, sim: &mut Simulation) {
        sim.rest(500);
    }

    fn ended(&mut self, sim: &mut Simulation, _: OpTicket, result: OpResult) {
        let asked = self.asked.take().expect("one read at a time");
        let bytes = match result {
            Ok(OpOutput::Bytes(bytes, _)) => bytes,
            Ok(_) => return sim.rest(500),
            Err(failure) => return self.failed(sim, &failure),
        };
        self.failures = None;
        let id = self.file.borrow().id.expect("it was read");
        let was_lost = sim.excused(id, asked.offset, bytes.len() as u64);
        let got = !bytes.is_empty();
        let mut records = Vec::new();
        self.note_read(asked.offset, &bytes, was_lost);
        if !self.cursor.take(asked, &[bytes], &mut records) {
            sim.reach("record reader doubts what it would skip");
        }
        for record in records {
            self.take(sim, (record.producer, record.number), record.offset);
        }
        self.idle = if got || !sim.closing { 0 } else { self.idle + 1 };
        if sim.closing && self.idle >= IDLE_MAX {
            self.over = true;
            return self.judge(sim);
        }
        // After the faults it hurries: what it cannot read takes it some deadlines to give up.
        let pause_ms = match got {
            true if sim.closing => 10,
            true => 100,
            false => 500,
        };
        sim.wake_after(Duration::from_millis(pause_ms));
    }

    fn woken(&mut self, sim: &mut Simulation) {
        self.go_on(sim);
    }

    fn finished(&self) -> bool {
        self.over
    }
}

#[cfg(test)]
mod tests {
    use super::{TailingReader, TriedRecord};
    use crate::file_model::MutationEnd;
    use crate::simulation::Simulation;
    use crate::workloads::RecordFile;
    use bytes::Bytes;
    use cairn_client_core::{ReadSpec, RecordCursor};
    use cairn_env_sim::{NodeId, WorldTime};
    use cairn_format::{RecordSource, encode_record};
    use cairn_types::{
        ChunkHandle, ChunkIndex, ChunkVersion, EntryId, MutationNumber, PushId, SerialNumber,
        SessionId,
    };

    const FILE: EntryId = EntryId::new(7);
    const LOST_AT: u64 = 100;

    /// A server applies an acknowledged mutation.
    fn apply(sim: &Simulation, server: NodeId, number: u64, synced: bool) {
        let ledger = &mut sim.observer.borrow_mut().ledger;
        let handle = ChunkHandle::new(1);
        ledger.by_place.insert((FILE, ChunkIndex::new(0)), handle);
        let push = PushId { session: SessionId::new(1), number: MutationNumber::new(number) };
        let (version, serial) = (ChunkVersion::new(1), SerialNumber::new(number));
        let chunk = ledger.chunk(handle);
        let replica = chunk.replicas.entry(server).or_default();
        replica.applied.insert(push, (version, serial));
        if synced {
            replica.synced.insert(push);
            chunk.told_synced.insert(push);
        }
        ledger.acknowledge(handle, push, serial, WorldTime(number));
    }

    fn framed(number: u64) -> Vec<u8> {
        let mut framed = Vec::new();
        encode_record(RecordSource::new(1), number, b"quite", &mut framed);
        framed
    }

    /// What is said of a reader that has read this from [`LOST_AT`] on, before all
    /// servers lost record 1 but those that keep it; and that never got record 2, which was
    /// acknowledged there afterwards, synced.
    fn judged(read: Vec<u8>, one_keeps_it: bool) -> Option<&'static str> {
        judged_of(&[(read, false)], one_keeps_it)
    }

    /// The same, where it read there more than once: what, and whether nobody ran who had all.
    fn judged_of(reads: &[(Vec<u8>, bool)], one_keeps_it: bool) -> Option<&'static str> {
        let mut sim = Simulation::idle();
        let (first, second) = (sim.nodes.servers[0], sim.nodes.servers[1]);
        apply(&sim, first, 1, false);
        apply(&sim, second, 1, one_keeps_it);
        for server in [first, second] {
            sim.observer.borrow_mut().ledger.power_lost(server);
            apply(&sim, server, 2, true);
        }
        let file = RecordFile::named("/log");
        file.borrow_mut().id = Some(FILE);
        let tried = TriedRecord {
            framed: Bytes::from(framed(2)),
            ended: MutationEnd::Acknowledged(WorldTime(2)),
            offset: Some(LOST_AT),
            sync: true,
        };
        file.borrow_mut().tried.insert((RecordSource::new(1), 2), tried);
        let mut reader = TailingReader::new(0, file);
        reader.cursor = RecordCursor::new(LOST_AT);
        reader.note_read(0, &[0; LOST_AT as usize], false);
        for (read, was_lost) in reads {
            reader.note_read(LOST_AT, read, *was_lost);
        }
        let read = reads.last().expect("it read").0.clone();
        let spec = ReadSpec { offset: LOST_AT, size: read.len() as u64, fresh: false };
        assert!(reader.cursor.take(spec, &[read.into()], &mut Vec::new()));
        reader.asked_at = WorldTime(3);
        reader.judge(&mut sim);
        let failure = sim.observer.borrow().failure.clone();
        failure.map(|it| it.checker)
    }

    #[test]
    fn what_stands_where_a_reader_had_read_what_a_whole_set_lost_need_not_reach_it() {
        assert_eq!(judged(framed(1), false), None);
        assert_eq!(judged([framed(1), framed(3)].concat(), false), None);
    }

    #[test]
    fn what_a_reader_had_read_itself_or_not_or_where_nothing_was_lost_has_to_reach_it() {
        assert_eq!(judged(Vec::new(), false), Some("records"), "it stood in front of it");
        assert_eq!(judged(framed(2), false), Some("records"), "it went past what it is to get");
        assert_eq!(judged(framed(1), true), Some("records"), "an intact replica is alive");
    }

    #[test]
    fn what_stands_where_nobody_ran_who_had_it_need_not_reach_who_read_something_else_there() {
        let lost = |number| (framed(number), true);
        assert_eq!(judged_of(&[lost(1)], true), None, "TR2");
        assert_eq!(judged_of(&[lost(2)], true), Some("records"), "it was given that itself");
        let again = [lost(1), (framed(1), false)];
        assert_eq!(judged_of(&again, true), Some("records"), "it has read there once more");
    }
}
