//! Readers that tail a file of records while everything breaks: every acknowledged record reaches
//! a reader that started before it, once (R17, R19, R37).
//!
//! - TR1: where a whole set has lost unsynced bytes, what is appended next stands where a reader
//!   may have read what is lost. It reads on where it stood, and is not given that (R28; seed 2230
//!   of d6f3fc5), whether what it read there was new to it or had come before (seed 609 of
//!   38ea74e).

use super::record_file::{RecordFile, RecordId, TriedRecord};
use crate::file_model::MutationEnd;
use crate::operations::{ClientOp, OpOutput, OpResult, OpTicket};
use crate::simulation::{Simulation, Workload, told};
use cairn_client_core::{ReadSpec, RecordCursor};
use cairn_env_sim::WorldTime;
use cairn_protocol::Failure;
use std::cell::RefCell;
use std::collections::BTreeMap;
use std::rc::Rc;
use std::time::Duration;

/// One reader.
pub(crate) struct TailingReader {
    client: usize,
    file: Rc<RefCell<RecordFile>>,
    cursor: RecordCursor,
    /// What it was given, by where that stood.
    given: BTreeMap<RecordId, u64>,
    /// How far it was when.
    reached: Vec<(WorldTime, u64)>,
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
            reached: Vec::new(),
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

    /// TR1.
    fn has_passed(&self, sim: &Simulation, file: &RecordFile, tried: &TriedRecord) -> bool {
        let (Some(id), Some(offset)) = (file.id, tried.offset) else { return false };
        let MutationEnd::Acknowledged(acknowledged_at) = tried.ended else { return false };
        let size = tried.framed.len() as u64;
        let was_behind = |(at, end): &(WorldTime, u64)| *at < acknowledged_at && *end > offset;
        self.reached.iter().any(was_behind) && sim.excused(id, offset, size)
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
        let got = !bytes.is_empty();
        let mut records = Vec::new();
        if !self.cursor.take(asked, &[bytes], &mut records) {
            sim.reach("record reader doubts what it would skip");
        }
        if self.reached.last().is_none_or(|(_, end)| *end < self.cursor.consumed()) {
            self.reached.push((sim.now(), self.cursor.consumed()));
        }
        for record in records {
            self.take(sim, (record.producer, record.number), record.offset);
        }
        self.idle = if got || !sim.closing { 0 } else { self.idle + 1 };
        if sim.closing && self.idle >= IDLE_MAX {
            self.over = true;
            return self.judge(sim);
        }
        sim.wake_after(Duration::from_millis(if got { 100 } else { 500 }));
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
    use cairn_env_sim::{NodeId, WorldTime};
    use cairn_format::ProducerId;
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

    /// What is said of a reader that had read up to `end` at `reached_at`, before all servers lost
    /// record 1 but those that keep it; and that never got record 2, which was acknowledged
    /// at 2, synced, at [`LOST_AT`].
    fn judged((end, reached_at): (u64, u64), one_keeps_it: bool) -> Option<&'static str> {
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
            framed: Bytes::from_static(b"quite"),
            ended: MutationEnd::Acknowledged(WorldTime(2)),
            offset: Some(LOST_AT),
            sync: true,
        };
        file.borrow_mut().tried.insert((ProducerId::new(1), 2), tried);
        let mut reader = TailingReader::new(0, file);
        reader.reached = vec![(WorldTime(0), 10), (WorldTime(reached_at), end)];
        reader.asked_at = WorldTime(3);
        reader.judge(&mut sim);
        let failure = sim.observer.borrow().failure.clone();
        failure.map(|it| it.checker)
    }

    #[test]
    fn what_stands_where_a_reader_had_read_what_a_whole_set_lost_need_not_reach_it() {
        assert_eq!(judged((LOST_AT + 5, 1), false), None);
        assert_eq!(judged((LOST_AT + 1, 1), false), None, "it had read over its first byte");
    }

    #[test]
    fn what_stands_elsewhere_or_where_nothing_was_lost_has_to_reach_it() {
        assert_eq!(judged((LOST_AT, 1), false), Some("records"), "it stood in front of it");
        assert_eq!(judged((LOST_AT + 5, 2), false), Some("records"), "it came by later");
        assert_eq!(judged((LOST_AT + 5, 1), true), Some("records"), "an intact replica is alive");
    }
}
