//! After the last reading: each replica that the master names to readers is read by itself. A
//! reader meets one of them, and which one is luck; what is acknowledged has to stand on all.
//!
//! - E1: what a replica answers is judged as any read is, over as many bytes as it answers. One
//!   that refuses, or warns that it may have lost bytes (R28), has said so; what does not match
//!   the checksums beside it reaches no reader.
//! - E2: an old image of a disk that came back at the version that holds is known to nobody before
//!   a raise compares the replicas (R29); what a lying disk has lost, never.

use crate::cell::{add_prober, master_addresses};
use crate::file_model::ReadNote;
use crate::prober::ask;
use crate::simulation::Simulation;
use crate::workloads::{RecordFile, SharedFile};
use cairn_env::Answer;
use cairn_env_sim::NodeId;
use cairn_protocol::{
    ChunkLocations, Failure, LOCATE_COUNT_MAX, Locate, Read, Request, Response, Role,
};
use cairn_types::{Address, EntryId};
use std::cell::RefCell;
use std::rc::Rc;

/// More chunks than any file of a run has, and as many as one answer tells of.
const CHUNKS_MAX: u32 = LOCATE_COUNT_MAX;

/// A file whose replicas are read.
pub(crate) enum AuditedFile {
    Bytes(Rc<RefCell<SharedFile>>),
    Records(Rc<RefCell<RecordFile>>),
}

impl AuditedFile {
    fn id(&self) -> Option<EntryId> {
        match self {
            Self::Bytes(file) => file.borrow().id,
            Self::Records(file) => file.borrow().id,
        }
    }
}

/// Reads every current replica of these files.
pub(crate) fn audit(sim: &mut Simulation, files: &[AuditedFile]) {
    let mut audit =
        ReplicaAudit { prober: add_prober(&mut sim.world, "auditor", Role::Client), sim };
    for file in files {
        let Some(id) = file.id() else { continue };
        for chunk in audit.chunks_of(id) {
            for replica in &chunk.replicas {
                audit.read_replica(file, id, &chunk, &replica.address);
                if audit.sim.observer.borrow().failure.is_some() {
                    return;
                }
            }
        }
    }
}

struct ReplicaAudit<'s> {
    sim: &'s mut Simulation,
    prober: NodeId,
}

impl ReplicaAudit<'_> {
    fn ask(&mut self, to: Address, request: Request) -> Result<Answer, Failure> {
        ask(self.sim, self.prober, to, request)
    }

    /// What the master tells readers.
    fn chunks_of(&mut self, file: EntryId) -> Vec<ChunkLocations> {
        let locate = Locate { file, count: CHUNKS_MAX, ..Locate::default() };
        for master in master_addresses(self.sim.nodes.masters.len()) {
            let asked = self.ask(master, locate.clone().into()).map(|answer| answer.response);
            if let Ok(Response::Locate(answer)) = asked {
                return answer.chunks;
            }
        }
        // A file of names that are gone, or a cell that the last reading has judged.
        Vec::new()
    }

    fn read_replica(
        &mut self,
        file: &AuditedFile,
        id: EntryId,
        chunk: &ChunkLocations,
        at: &Address,
    ) {
        let size = self.sim.cell_config.chunk_size;
        let (handle, version, closed) = (chunk.handle, chunk.version, chunk.closed);
        let from = self.sim.now();
        let read = Read { handle, version, size, closed, ..Read::default() };
        let Ok(Answer { response: Response::Read(given), payload }) =
            self.ask(at.clone(), read.into())
        else {
            return self.sim.reach("current replica refused to be read");
        };
        let until = self.sim.now();
        let node = self.sim.world.node_at(at).expect("the master names servers of the cell");
        if given.suspect || self.may_be_behind(node, chunk) {
            return self.sim.reach("current replica excused: it may have lost bytes");
        }
        let mut bytes = payload.to_vec();
        if !given.checksums.verify(given.offset, &bytes, self.sim.cell_config.block_size) {
            return self
                .sim
                .reach("current replica excused: its bytes do not match their checksums");
        }
        let zeros = usize::try_from(given.zeros).expect("less than a chunk");
        bytes.resize(bytes.len() + zeros, 0);
        self.sim.reach("current replica read by itself");
        let offset = chunk.index.get() * size;
        let note = ReadNote { client: 0, offset, size: bytes.len() as u64, from, until };
        let whose = self.sim.world.name(node).to_owned();
        match file {
            AuditedFile::Bytes(file) => {
                file.borrow().judge_replica(self.sim, &whose, note, &bytes);
            }
            AuditedFile::Records(file) => {
                judge_records(self.sim, &file.borrow(), id, &whose, note, &bytes);
            }
        }
    }

    /// E2.
    fn may_be_behind(&self, node: NodeId, chunk: &ChunkLocations) -> bool {
        let observer = self.sim.observer.borrow();
        let Some(it) = observer.ledger.chunks.get(&chunk.handle) else { return false };
        let Some(replica) = it.replicas.get(&node) else { return false };
        let raised = it.logged_at.last_key_value().map(|(_, at)| *at);
        let set_back = replica.turned_back.is_some_and(|at| raised.is_none_or(|it| it < at));
        set_back || (replica.lost && observer.ledger.liars.contains(&node))
    }
}

/// Each acknowledged record within what the replica answered stands whole at its offset.
fn judge_records(
    sim: &mut Simulation,
    file: &RecordFile,
    id: EntryId,
    whose: &str,
    read: ReadNote,
    bytes: &[u8],
) {
    let end = read.offset + read.size;
    for (record, tried) in file.standing(read.offset, end) {
        let Some(offset) = tried.offset else { continue };
        let size = tried.framed.len();
        if offset < read.offset || offset + size as u64 > end {
            continue;
        }
        let start = usize::try_from(offset - read.offset).expect("within a chunk");
        if bytes[start..start + size] == tried.framed[..] {
            continue;
        }
        if file.may_be_lost(sim, tried) {
            sim.reach("record excused: no intact replica is alive");
            continue;
        }
        let place = sim.describe(id, offset);
        let message = format!(
            "{}: record {record:?} acknowledged at {offset} ({place}) does not stand on {whose}, \
             which the master names to readers",
            file.name
        );
        return sim.fail("every_replica", message);
    }
}

#[cfg(test)]
mod tests {
    use super::judge_records;
    use crate::file_model::{MutationEnd, ReadNote};
    use crate::simulation::Simulation;
    use crate::workloads::{RecordFile, TriedRecord};
    use bytes::Bytes;
    use cairn_env_sim::WorldTime;
    use cairn_format::RecordSource;
    use cairn_types::EntryId;

    /// What the judge says of a replica that answers these bytes from the file's begin on, where a
    /// record of five bytes is acknowledged at 3.
    fn judged(answered: &[u8]) -> Option<&'static str> {
        let mut sim = Simulation::idle();
        let (id, record) = (EntryId::new(7), (RecordSource::new(1), 1));
        let file = RecordFile::named("/log");
        file.borrow_mut().id = Some(id);
        let framed = Bytes::from_static(b"quite");
        let ended = MutationEnd::Acknowledged(WorldTime(1));
        let tried = TriedRecord { framed, ended, offset: None, sync: false };
        file.borrow_mut().tried.insert(record, tried);
        file.borrow_mut().acknowledge(record, 3, 0).expect("nothing else stands there");
        let (from, until) = (WorldTime(2), WorldTime(3));
        let read = ReadNote { client: 0, offset: 0, size: answered.len() as u64, from, until };
        judge_records(&mut sim, &file.borrow(), id, "server", read, answered);
        let failure = sim.observer.borrow().failure.clone();
        failure.map(|it| it.checker)
    }

    #[test]
    fn a_replica_that_lacks_an_acknowledged_record_is_told_of_and_a_short_answer_is_not() {
        assert_eq!(judged(b"___quite__"), None);
        assert_eq!(judged(b"___qui"), None, "it says no more than it was asked");
        assert_eq!(judged(b"___\0\0\0\0\0__"), Some("every_replica"));
        assert_eq!(judged(b"__quite___"), Some("every_replica"));
    }
}
