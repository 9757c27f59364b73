//! One run while it goes on: the world, the cell in it, and what its clients have under way.

use crate::cell::CellNodes;
use crate::file_model::{MutationEnd, ReadNote};
use crate::ledger::ChunkLedger;
use crate::observer::Observer;
use crate::operations::{ClientOp, OpResult, OpTicket, done_of, tell};
use crate::replica_ledger::ReplicaLedger;
use crate::stream_book::{CommittedNote, bundle_name};
use cairn_client_core::Command;
use cairn_env_sim::{NodeId, SimWorld, WorldTime};
use cairn_protocol::{Failure, Outcome};
use cairn_types::{CellConfig, ChunkHandle, ChunkIndex, EntryId, Random};
use std::cell::RefCell;
use std::collections::BTreeMap;
use std::ops::Range;
use std::rc::Rc;
use std::sync::{Arc, Mutex};
use std::time::Duration;

/// What every operation is given.
pub(crate) const DEADLINE: Duration = Duration::from_secs(12);

/// A workload's part: one logical process that has one thing under way at a time, or several.
pub(crate) trait Workload {
    /// It begins.
    fn start(&mut self, sim: &mut Simulation);
    /// An operation of its has ended.
    fn ended(&mut self, sim: &mut Simulation, ticket: OpTicket, result: OpResult);
    /// A time that it waited for has come.
    fn woken(&mut self, _sim: &mut Simulation) {}
    /// The faults are over and nothing new is asked for; whether it has finished.
    fn finished(&self) -> bool;
}

type OpMailbox = Arc<Mutex<Vec<(OpTicket, OpResult)>>>;

/// A cell that runs, its clients, and what they have under way.
pub(crate) struct Simulation {
    pub(crate) world: SimWorld,
    pub(crate) nodes: CellNodes,
    pub(crate) cell_config: CellConfig,
    pub(crate) observer: Rc<RefCell<Observer>>,
    pub(crate) operations: u64,
    /// Nothing new is to be asked for.
    pub(crate) closing: bool,
    /// Which workload acts.
    pub(crate) acting: usize,
    mailbox: OpMailbox,
    next_ticket: u64,
    owners: BTreeMap<OpTicket, usize>,
}

/// Script tokens of workloads start here; those below are the run's own.
pub(crate) const WORKLOAD_TOKENS: u64 = 1_000_000;

impl Simulation {
    pub(crate) fn new(
        world: SimWorld,
        nodes: CellNodes,
        cell_config: CellConfig,
        observer: Rc<RefCell<Observer>>,
    ) -> Self {
        // It counts from the last heartbeat, by a clock that drifts.
        let dead = cell_config.dead_ms - 2 * cell_config.heartbeat_ms;
        let dead = Duration::from_millis(dead);
        observer.borrow_mut().ledger.stopped.dead = dead;
        Self {
            world,
            nodes,
            cell_config,
            observer,
            operations: 0,
            closing: false,
            acting: 0,
            mailbox: OpMailbox::default(),
            next_ticket: 0,
            owners: BTreeMap::new(),
        }
    }

    /// A small cell with one client, in which nothing happens: for tests of whoever judges.
    #[cfg(test)]
    pub(crate) fn idle() -> Self {
        let observer = Rc::new(RefCell::new(Observer::new(crate::checkers::all())));
        let (config, run) = (CellConfig::tiny(), crate::report::RunConfig::of(1));
        let (world, nodes) = crate::cell::build(&run, &config, 1, &observer);
        Self::new(world, nodes, config, observer)
    }

    pub(crate) fn now(&self) -> WorldTime {
        self.world.now()
    }

    pub(crate) fn random(&mut self) -> &mut Random {
        self.world.random()
    }

    /// Begins an operation for the workload that acts.
    pub(crate) fn ask(&mut self, client: usize, op: ClientOp) -> OpTicket {
        self.next_ticket += 1;
        let ticket = OpTicket(self.next_ticket);
        self.owners.insert(ticket, self.acting);
        let node = self.nodes.clients[client];
        let deadline = self.world.local_now(node).time + DEADLINE;
        let mailbox = self.mailbox.clone();
        self.world.trace().line(|| format!("ask {ticket:?} of client {client}: {op}"));
        let command = Command {
            ticket: ticket.0,
            operation: op.into_operation(),
            deadline,
            done: Box::new(move |result| {
                let result = result.map(done_of);
                mailbox.lock().expect("one thread").push((ticket, result));
            }),
        };
        self.world.command(node, Box::new(command));
        ticket
    }

    /// Wakes the workload that acts.
    pub(crate) fn wake_after(&mut self, span: Duration) {
        self.world.script(span, WORKLOAD_TOKENS + self.acting as u64);
    }

    /// A pause of up to `max_ms`, and then the workload is woken.
    pub(crate) fn rest(&mut self, max_ms: u64) {
        let span = Duration::from_millis(self.random().below(max_ms) + 1);
        self.wake_after(span);
    }

    /// What has ended since, and whose it was.
    pub(crate) fn take_ended(&mut self) -> Vec<(usize, OpTicket, OpResult)> {
        let ended = std::mem::take(&mut *self.mailbox.lock().expect("one thread"));
        let mut out = Vec::with_capacity(ended.len());
        for (ticket, result) in ended {
            self.world.trace().line(|| format!("ended {ticket:?}: {}", tell(&result)));
            self.world.trace().mix(&[ticket.0, u64::from(result.is_ok())]);
            self.operations += 1;
            let owner = self.owners.remove(&ticket).expect("an operation ends once (K1)");
            out.push((owner, ticket, result));
        }
        out
    }

    /// What a mutation's end says about whether it happened.
    pub(crate) fn mutation_end(&self, result: &OpResult) -> MutationEnd {
        match result {
            Ok(_) => MutationEnd::Acknowledged(self.now()),
            Err(failure) if failure.outcome == Outcome::Unknown => MutationEnd::Unknown(self.now()),
            Err(_) => MutationEnd::NotDone,
        }
    }

    /// Operations that have not ended.
    pub(crate) fn under_way(&self) -> usize {
        self.owners.len()
    }

    pub(crate) fn fail(&mut self, checker: &'static str, message: String) {
        let at = self.now();
        self.observer.borrow_mut().fail(at, checker, message);
    }

    pub(crate) fn reach(&mut self, what: &'static str) {
        self.observer.borrow_mut().reach(what);
    }

    /// Whether what was acknowledged in a range of a file may rightly be missing: of one of its
    /// chunks no intact replica is alive that the cell may use, or a disk that lied about its syncs
    /// has lost some of it, which nobody can tell from a replica that is whole.
    pub(crate) fn excused(&self, file: EntryId, offset: u64, size: u64) -> bool {
        self.nobody_alive_has(file, offset, size, ChunkLedger::intact_within_reach)
            || self.lost_by_lies(file, offset, size)
    }

    /// Whether what was synced in a range of a file must be there: of each of its chunks a replica
    /// is alive that no power failure, no old image and no flipped bit took it from.
    pub(crate) fn synced_is_kept(&self, file: EntryId, offset: u64, size: u64) -> bool {
        !self.nobody_alive_has(file, offset, size, ChunkLedger::with_all_synced)
            && !self.lost_by_lies(file, offset, size)
    }

    /// The same of a stream: what is committed in a range may be read by nobody any more.
    pub(crate) fn stream_excused(&self, file: EntryId, range: Range<u64>) -> bool {
        let observer = self.observer.borrow();
        let mut at = range.start;
        while let Some(note) = observer.ledger.streams.at(file, at).filter(|_| at < range.end) {
            let chunk = observer.ledger.chunks.get(&note.handle);
            let intact = chunk.map(ChunkLedger::intact_for_readers).unwrap_or_default();
            if !intact.iter().any(|node| self.world.is_alive(*node)) {
                return true;
            }
            at = note.offset + note.size;
        }
        false
    }

    /// Whether nobody of its chunk's set is sure to have a bundle of a stream (R41).
    pub(crate) fn bundle_is_lost(&self, note: &CommittedNote) -> bool {
        let observer = self.observer.borrow();
        let chunk = observer.ledger.chunks.get(&note.handle);
        chunk.is_none_or(|chunk| !chunk.set_has(&bundle_name(note.handle, note.serial)))
    }

    /// The same of all chunks that a stream has now, and has committed bytes in.
    pub(crate) fn stream_file_excused(&self, file: EntryId) -> bool {
        let ledger = &self.observer.borrow().ledger;
        let is_lost = |handle: ChunkHandle| {
            let chunk = ledger.chunks.get(&handle);
            let intact = chunk.map(ChunkLedger::intact_for_readers).unwrap_or_default();
            !intact.iter().any(|node| self.world.is_alive(*node))
        };
        let (first, last) = (ChunkIndex::default(), ChunkIndex::new(u64::MAX));
        let its = ledger.by_place.range((file, first)..=(file, last)).map(|(_, handle)| *handle);
        its.filter(|handle| ledger.streams.chunk_length(*handle) > 0).any(is_lost)
    }

    fn lost_by_lies(&self, file: EntryId, offset: u64, size: u64) -> bool {
        let observer = self.observer.borrow();
        let chunk = self.cell_config.chunk_size;
        let places = offset / chunk..=(offset + size.max(1) - 1) / chunk;
        let handles = places
            .filter_map(|index| observer.ledger.by_place.get(&(file, ChunkIndex::new(index))));
        let liars = &observer.ledger.liars;
        let lost =
            |(node, replica): (&NodeId, &ReplicaLedger)| replica.lost && liars.contains(node);
        handles
            .filter_map(|handle| observer.ledger.chunks.get(handle))
            .any(|chunk| chunk.replicas.iter().any(lost))
    }

    /// Whether of some chunk in a range of a file none of these replicas is alive.
    fn nobody_alive_has(
        &self,
        file: EntryId,
        offset: u64,
        size: u64,
        replicas: impl Fn(&ChunkLedger) -> Vec<NodeId>,
    ) -> bool {
        let observer = self.observer.borrow();
        let chunk = self.cell_config.chunk_size;
        let places = offset / chunk..=(offset + size.max(1) - 1) / chunk;
        places.into_iter().any(|index| {
            let place = (file, ChunkIndex::new(index));
            let handle = observer.ledger.by_place.get(&place);
            handle
                .and_then(|handle| observer.ledger.chunks.get(handle))
                .is_some_and(|chunk| !replicas(chunk).iter().any(|node| self.world.is_alive(*node)))
        })
    }
}

impl Simulation {
    /// Whether some chunk of a file has too few intact replicas to be levelled (R11): it waits for
    /// repair, which this cell does not do yet.
    pub(crate) fn waits_for_repair(&self, file: EntryId) -> bool {
        let enough = self.cell_config.replication.min(2) as usize;
        let observer = self.observer.borrow();
        observer.ledger.chunks_of(file).any(|chunk| chunk.known_good().len() < enough)
    }

    /// Whether of some chunk of a file no server that runs has all bytes, as far as anybody can
    /// tell: those that had them are gone for good, or have lost them.
    pub(crate) fn has_lost_chunk(&self, file: EntryId) -> bool {
        let observer = self.observer.borrow();
        let runs = |node: &NodeId| self.world.is_alive(*node);
        observer.ledger.chunks_of(file).any(|chunk| !chunk.intact().iter().any(runs))
    }

    /// One of the masters; of one, that one, and nothing is drawn.
    pub(crate) fn some_master(&mut self) -> NodeId {
        let masters = self.nodes.masters.clone();
        if let [only] = masters.as_slice() {
            return *only;
        }
        *self.random().pick(&masters).expect("a cell has masters")
    }

    /// The chunk at an offset of a file, for a complaint.
    pub(crate) fn describe(&self, file: EntryId, offset: u64) -> String {
        let index = ChunkIndex::new(offset / self.cell_config.chunk_size);
        let observer = self.observer.borrow();
        let Some(handle) = observer.ledger.by_place.get(&(file, index)) else {
            return format!("chunk {index}, which is not logged");
        };
        let chunk = &observer.ledger.chunks[handle];
        let versions: Vec<String> = chunk
            .logged
            .iter()
            .map(|(version, size)| format!("{} on {size}", version.short()))
            .collect();
        let within = offset % self.cell_config.chunk_size;
        format!("{within} of chunk {} {versions:?}, intact {:?}", handle.short(), chunk.intact())
    }

    /// The same of a range of a stream, as it was put there first.
    pub(crate) fn describe_stream(&self, file: EntryId, range: Range<u64>) -> String {
        let ledger = &self.observer.borrow().ledger;
        let mut told: Vec<String> = Vec::new();
        let mut at = range.start;
        while let Some(note) = ledger.streams.at(file, at).filter(|_| at < range.end) {
            let chunk = ledger.chunks.get(&note.handle);
            let set_size = chunk.and_then(|it| it.version()).map_or(0, |(_, size)| size);
            let intact = chunk.map(ChunkLedger::intact_for_readers).unwrap_or_default();
            let (chunk, serial, size) = (note.handle.short(), note.serial.get(), note.size);
            told.push(format!("{size} of {chunk}, set of {set_size}, {serial}, intact {intact:?}"));
            at = note.offset + note.size;
        }
        told.join("; ")
    }

    /// Whether a suspect replica answered this client during a read, with a warning (R28).
    pub(crate) fn read_with_a_warning(&self, read: ReadNote) -> bool {
        let client = self.nodes.clients[read.client];
        let answers = &self.observer.borrow().suspect_answers;
        answers.iter().any(|(to, at)| *to == client && (read.from..=read.until).contains(at))
    }

    /// Whether a replica that had been left behind answered this client during a read, within the
    /// time that it may use cached locations: what GFS §2.7.1 lets happen.
    pub(crate) fn read_by_stale_location(&self, read: ReadNote) -> bool {
        let client = self.nodes.clients[read.client];
        let observer = self.observer.borrow();
        observer.stale_answers.iter().any(|stale| {
            let age = Duration::from_nanos(stale.at.0 - stale.since.0);
            stale.client == client
                && (read.from..=read.until).contains(&stale.at)
                && age <= Duration::from_millis(self.cell_config.location_ttl_ms)
        })
    }
}

/// A failure in few words.
pub(crate) fn told(failure: &Failure) -> String {
    format!("{:?}/{:?}: {}", failure.code, failure.outcome, failure.message)
}
