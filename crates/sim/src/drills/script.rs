//! What a drill may do: ask, wait, hold a message back, and break things, in the order it tells.

use crate::cell::{self, CellNodes};
use crate::checkers::permissions_hold::Person;
use crate::checkers::{self, Verdict};
use crate::fault_mix::FaultMix;
use crate::ledger::{ChunkLedger, ServerLedger};
use crate::observer::Observer;
use crate::operations::{ClientOp, OpOutput, OpResult, OpTicket, tell};
use crate::prober::ask as probe;
use crate::report::{RunConfig, RunReport};
use crate::run::finish;
use crate::simulation::{Simulation, told};
use bytes::Bytes;
use cairn_env_sim::{DiskFaults, DiskImage, NodeId, SeenRequest, SimDisk, WorldStep};
use cairn_protocol::{Failure, FindPrimary, MasterRole, Response, Role};
use cairn_types::{Address, CellConfig, ChunkHandle, ChunkIndex, ChunkVersion, Content, EntryId};
use std::cell::RefCell;
use std::collections::{BTreeMap, BTreeSet};
use std::rc::Rc;
use std::time::Duration;

/// Clients of a drill's cell.
const CLIENTS: usize = 3;
/// The longest that a drill waits for one thing, in simulated seconds.
const WAIT_SECONDS: u64 = 90;

/// A server's disk as it was once.
pub(super) type OldDisk = (DiskImage, ServerLedger);

/// A small calm cell and its script.
pub(super) struct DrillScript {
    pub(super) sim: Simulation,
    pub(super) prober: NodeId,
    ended: BTreeMap<OpTicket, OpResult>,
    tokens: u64,
    /// Whose disks fail: their processes may end by themselves.
    may_halt: BTreeSet<NodeId>,
}

impl DrillScript {
    pub(super) fn new(
        (servers, masters, spare_masters): (usize, usize, usize),
        cell_config: CellConfig,
        trace: bool,
    ) -> Self {
        let config = RunConfig {
            seed: 1,
            seconds: 0,
            servers,
            masters,
            spare_masters,
            clocks_at_bounds: false,
            planted: None,
            trace,
            faults: FaultMix::calm(),
            batches: false,
            levels: false,
            snapshots: false,
            people: false,
            streams: false,
            strict: false,
            heals: false,
            only: None,
        };
        let observer = Rc::new(RefCell::new(Observer::new(checkers::all())));
        let (mut world, nodes) = cell::build(&config, &cell_config, CLIENTS, &observer);
        let prober = cell::add_prober(&mut world, "prober", Role::Client);
        let sim = Simulation::new(world, nodes, cell_config, observer);
        let mut script =
            Self { sim, prober, ended: BTreeMap::new(), tokens: 0, may_halt: BTreeSet::new() };
        // Servers join and the master learns of them.
        script.pass(Duration::from_secs(3));
        script
    }

    /// From now on the prober says that it is a chunkserver.
    pub(super) fn pose_as_chunkserver(&mut self) {
        self.prober = cell::add_prober(&mut self.sim.world, "impostor", Role::Chunkserver);
    }

    pub(super) fn nodes(&self) -> &CellNodes {
        &self.sim.nodes
    }

    pub(super) fn finish(mut self, verdict: Verdict, report: &mut RunReport) {
        if let Err(why) = verdict {
            self.sim.fail("drill", why);
        }
        for node in &self.may_halt {
            drop(self.sim.world.take_halt(*node));
        }
        finish(&mut self.sim, report);
    }

    fn step(&mut self) {
        assert!(self.sim.world.step() != WorldStep::Over, "a cell always has a timer");
        for (_, ticket, result) in self.sim.take_ended() {
            self.ended.insert(ticket, result);
        }
    }

    /// Lets time go by.
    pub(super) fn pass(&mut self, span: Duration) {
        self.tokens += 1;
        let token = self.tokens;
        self.sim.world.script(span, token);
        loop {
            let stepped = self.sim.world.step();
            for (_, ticket, result) in self.sim.take_ended() {
                self.ended.insert(ticket, result);
            }
            if stepped == WorldStep::Script(token) {
                return;
            }
        }
    }

    /// Lets things happen until it is so, and no further.
    ///
    /// # Errors
    /// `what` did not come about.
    pub(super) fn until(&mut self, what: &str, so: impl Fn(&mut Self) -> bool) -> Verdict {
        let end = self.sim.now().0 + WAIT_SECONDS * 1_000_000_000;
        while !so(self) {
            if self.sim.now().0 > end {
                return Err(format!("it never came about that {what}"));
            }
            self.step();
        }
        Ok(())
    }

    /// Which of several masters says that it is in charge.
    ///
    /// # Errors
    /// None does.
    pub(super) fn master_in_charge(&mut self) -> Result<NodeId, String> {
        for node in self.nodes().masters.clone() {
            let (prober, to) = (self.prober, self.address(node));
            let answer = probe(&mut self.sim, prober, to, FindPrimary {}.into());
            if let Ok(Response::FindPrimary(said)) = answer.map(|it| it.response)
                && said.role == MasterRole::Primary
            {
                return Ok(node);
            }
        }
        Err("no master is in charge".to_owned())
    }

    /// Adds a client that says it is this person; which client it is.
    pub(super) fn person(&mut self, person: Person) -> usize {
        let (at, masters) = (self.nodes().clients.len(), self.nodes().masters.len());
        let node = cell::add_person(&mut self.sim.world, at, masters, person.identity());
        self.sim.nodes.clients.push(node);
        at
    }

    /// Begins an operation of a client.
    pub(super) fn ask(&mut self, client: usize, op: ClientOp) -> OpTicket {
        self.sim.ask(client, op)
    }

    /// What came of an operation, if it has ended.
    pub(super) fn ended(&self, ticket: OpTicket) -> Option<&OpResult> {
        self.ended.get(&ticket)
    }

    /// Waits for an operation's end, whatever it is.
    pub(super) fn wait(&mut self, ticket: OpTicket) -> OpResult {
        let so = |script: &mut Self| script.ended.contains_key(&ticket);
        self.until("an operation ended", so).expect("operations have deadlines");
        self.ended.remove(&ticket).expect("waited for")
    }

    /// An operation that has to work.
    ///
    /// # Errors
    /// It did not.
    pub(super) fn done(&mut self, client: usize, op: ClientOp) -> Result<OpOutput, String> {
        let what = op.to_string();
        let ticket = self.ask(client, op);
        self.wait(ticket).map_err(|why| format!("{what}: {}", told(&why)))
    }

    /// An operation that has to be refused.
    ///
    /// # Errors
    /// It was done.
    pub(super) fn refused(&mut self, client: usize, op: ClientOp) -> Result<Failure, String> {
        let what = op.to_string();
        let ticket = self.ask(client, op);
        match self.wait(ticket) {
            Err(failure) => Ok(failure),
            done => Err(format!("{what}: {}", tell(&done))),
        }
    }

    /// Makes a file.
    ///
    /// # Errors
    /// It could not.
    pub(super) fn create(&mut self, name: &str, content: Content) -> Result<EntryId, String> {
        let path = crate::operations::path(name);
        match self.done(0, ClientOp::Create { path, content, or_open: false })? {
            OpOutput::Entry(entry) => Ok(entry.id),
            other => Err(format!("creating {name}: {other:?}")),
        }
    }

    /// Appends, and gives the offset.
    ///
    /// # Errors
    /// It could not.
    pub(super) fn append(
        &mut self,
        client: usize,
        file: EntryId,
        bytes: &'static [u8],
    ) -> Result<u64, String> {
        let bytes = Bytes::from_static(bytes);
        match self.done(client, ClientOp::Append { file, bytes, sync: false })? {
            OpOutput::Offset(offset) => Ok(offset),
            other => Err(format!("append: {other:?}")),
        }
    }

    /// Writes at an offset.
    ///
    /// # Errors
    /// It could not.
    pub(super) fn write(
        &mut self,
        client: usize,
        file: EntryId,
        offset: u64,
        bytes: &'static [u8],
    ) -> Verdict {
        let bytes = Bytes::from_static(bytes);
        self.done(client, ClientOp::Write { file, offset, bytes, sync: false }).map(drop)
    }

    /// Writes at an offset, and waits until it is on all disks.
    ///
    /// # Errors
    /// It could not.
    pub(super) fn write_synced(
        &mut self,
        client: usize,
        file: EntryId,
        offset: u64,
        bytes: &'static [u8],
    ) -> Verdict {
        let bytes = Bytes::from_static(bytes);
        self.done(client, ClientOp::Write { file, offset, bytes, sync: true }).map(drop)
    }

    /// Reads, trusting no cached location.
    ///
    /// # Errors
    /// It could not.
    pub(super) fn read(
        &mut self,
        client: usize,
        file: EntryId,
        offset: u64,
        size: u64,
    ) -> Result<Bytes, String> {
        match self.done(client, ClientOp::Read { file, offset, size, fresh: true })? {
            OpOutput::Bytes(bytes, _) | OpOutput::BytesWithHoles(bytes, _) => Ok(bytes),
            other => Err(format!("read: {other:?}")),
        }
    }

    /// Where a machine listens.
    pub(super) fn address(&self, node: NodeId) -> Address {
        match self.nodes().servers.iter().position(|server| *server == node) {
            Some(at) => Address::new(format!("server{at}:7401")),
            None => {
                let masters = &self.nodes().masters;
                let at = masters.iter().position(|master| *master == node);
                cell::master_addresses(masters.len()).remove(at.expect("a server, or a master"))
            }
        }
    }

    /// The first such request does not arrive, nor anything behind it on its connection.
    pub(super) fn stall(&mut self, chosen: impl FnMut(&SeenRequest<'_>) -> bool + 'static) {
        self.sim.world.stall(Box::new(chosen));
    }

    /// Lets things happen until a connection stalls.
    ///
    /// # Errors
    /// None did.
    pub(super) fn until_stalled(&mut self) -> Verdict {
        self.until("the chosen request was sent", |script| script.sim.world.is_stalled())
    }

    /// What stalled arrives.
    pub(super) fn release(&mut self) {
        self.sim.world.release();
    }

    /// Breaks the connection that one keeps to the other; each may yet get what was under way.
    pub(super) fn break_between(&mut self, from: NodeId, to: NodeId) {
        self.sim.world.break_between(from, to);
    }

    /// Kills a process.
    pub(super) fn kill(&mut self, node: NodeId) {
        self.sim.world.kill(node);
    }

    /// Kills a process at the step of its disk after so many.
    pub(super) fn kill_in_write(&mut self, node: NodeId, steps: u64) {
        self.sim.world.kill_in_write(node, steps);
    }

    /// Whether a process runs.
    pub(super) fn is_alive(&self, node: NodeId) -> bool {
        self.sim.world.is_alive(node)
    }

    /// Takes a machine's power before anything unsynced has reached its disk.
    pub(super) fn power_loss_of_all_unsynced(&mut self, node: NodeId) {
        self.sim.world.power_loss_of_all_unsynced(node);
        self.sim.observer.borrow_mut().ledger.power_lost(node);
    }

    /// Takes a machine's power; of what was not synced, each page is on its disk or not.
    pub(super) fn power_loss(&mut self, node: NodeId) {
        self.sim.world.power_loss(node);
        self.sim.observer.borrow_mut().ledger.power_lost(node);
    }

    /// Starts a process again.
    ///
    /// # Errors
    /// It does not start.
    pub(super) fn restart(&mut self, node: NodeId) -> Verdict {
        for disk in self.sim.world.disks(node) {
            disk.crash();
        }
        self.sim.world.restart(node)
    }

    /// Neither reaches the other.
    pub(super) fn part(&mut self, a: NodeId, b: NodeId) {
        self.sim.world.partition(a, b);
        self.sim.world.partition(b, a);
    }

    /// The two reach each other again.
    pub(super) fn heal(&mut self, a: NodeId, b: NodeId) {
        self.sim.world.heal(a, b);
        self.sim.world.heal(b, a);
    }

    /// What `from` sends does not reach `to`; the other way all is well.
    pub(super) fn mute(&mut self, from: NodeId, to: NodeId) {
        self.sim.world.partition(from, to);
    }

    /// The process stands still for so long.
    pub(super) fn pause(&mut self, node: NodeId, span: Duration) {
        self.sim.world.pause(node, span);
    }

    /// From now on a machine's disk does this wrong; its process may end by that.
    pub(super) fn fail_disk(&mut self, node: NodeId, faults: DiskFaults) {
        self.may_halt.insert(node);
        self.sim.world.disks(node).iter().for_each(|disk| disk.set_faults(faults, 1));
    }

    /// From now on a machine's disks take what is in the place of something else, and nothing more.
    pub(super) fn fill_disks(&mut self, node: NodeId) {
        for disk in self.sim.world.disks(node) {
            disk.set_capacity(disk.used());
        }
    }

    /// Bytes that a machine's disks hold.
    pub(super) fn disk_used(&self, node: NodeId) -> u64 {
        self.sim.world.disks(node).iter().map(SimDisk::used).sum()
    }

    /// What the master's disk holds.
    pub(super) fn backup_of_master(&self) -> DiskImage {
        self.sim.world.disks(self.nodes().master)[0].image()
    }

    /// Stops the master, puts a backup in the place of its disk and starts it again; whether it
    /// starts is its own business.
    pub(super) fn restore_master(&mut self, backup: &DiskImage) {
        let master = self.nodes().master;
        self.kill(master);
        self.sim.world.disks(master)[0].restore(backup);
        self.sim.observer.borrow_mut().master_restored();
        drop(self.restart(master));
    }

    /// A stored byte of a server's replica changes by itself.
    ///
    /// # Errors
    /// It stores no such byte.
    pub(super) fn flip(&mut self, node: NodeId, handle: ChunkHandle, offset: u64) -> Verdict {
        self.flip_in(node, (handle, "chunk"), offset)
    }

    /// A byte of one of the files of a server's replica changes by itself.
    ///
    /// # Errors
    /// There is no such byte.
    pub(super) fn flip_in(
        &mut self,
        node: NodeId,
        (handle, kind): (ChunkHandle, &str),
        offset: u64,
    ) -> Verdict {
        let disk = &self.sim.world.disks(node)[0];
        let file = format!("{:016x}.{kind}", handle.get());
        let path = disk.paths().into_iter().find(|path| path.ends_with(&file));
        if !path.is_some_and(|path| disk.flip_byte(&path, offset)) {
            return Err(format!("{node:?} stores no byte {offset} of {file}"));
        }
        self.sim.observer.borrow_mut().ledger.flipped(node, handle);
        Ok(())
    }

    /// Whether a byte of a server's replica has changed by itself since it was made.
    pub(super) fn is_rotten(&self, node: NodeId, handle: ChunkHandle) -> bool {
        let observer = self.sim.observer.borrow();
        let replicas = observer.ledger.chunks.get(&handle).map(|chunk| &chunk.replicas);
        replicas.and_then(|all| all.get(&node)).is_some_and(|replica| replica.flipped)
    }

    /// What a server's disk holds, and what the simulator's own books say of it.
    pub(super) fn image(&self, node: NodeId) -> OldDisk {
        let page = self.sim.observer.borrow().ledger.server_ledger(node);
        (self.sim.world.disks(node)[0].image(), page)
    }

    /// Kills a server, puts an old image in the place of its disk and starts it again.
    ///
    /// # Errors
    /// It does not start.
    pub(super) fn set_back(&mut self, node: NodeId, (image, page): OldDisk) -> Verdict {
        self.kill(node);
        let now = self.sim.now();
        self.sim.world.disks(node)[0].restore(&image);
        self.sim.observer.borrow_mut().ledger.turn_back(node, page, now);
        self.restart(node)
    }

    /// Starts another chunkserver from a copy of a server's disk as it is now.
    ///
    /// # Errors
    /// It does not start.
    pub(super) fn start_twin(&mut self, of: NodeId) -> Result<NodeId, String> {
        let (at, observer) = (self.nodes().servers.len(), self.sim.observer.clone());
        let masters = cell::master_addresses(self.nodes().masters.len());
        let twin = cell::add_chunkserver(&mut self.sim.world, (at, 1), &masters, &observer);
        let ((image, page), now) = (self.image(of), self.sim.now());
        self.sim.world.disks(twin)[0].restore(&image);
        self.sim.nodes.servers.push(twin);
        observer.borrow_mut().ledger.turn_back(twin, page, now);
        self.sim.world.restart(twin)?;
        Ok(twin)
    }

    /// The handle of a file's chunk, by the simulator's own books.
    ///
    /// # Errors
    /// It has no such chunk.
    pub(super) fn chunk(&self, file: EntryId, index: u64) -> Result<ChunkHandle, String> {
        let observer = self.sim.observer.borrow();
        let place = (file, ChunkIndex::new(index));
        observer.ledger.by_place.get(&place).copied().ok_or_else(|| format!("no chunk {index}"))
    }

    /// Servers whose disks hold a replica.
    pub(super) fn holders(&self, handle: ChunkHandle) -> Vec<NodeId> {
        let observer = self.sim.observer.borrow();
        let chunk = observer.ledger.chunks.get(&handle);
        chunk.map(|chunk| chunk.replicas.keys().copied().collect()).unwrap_or_default()
    }

    /// The logged version of a chunk.
    pub(super) fn version(&self, handle: ChunkHandle) -> Option<ChunkVersion> {
        let observer = self.sim.observer.borrow();
        observer.ledger.chunks.get(&handle)?.version().map(|(version, _)| version)
    }

    /// How many members the logged set of a chunk has.
    pub(super) fn set_size(&self, handle: ChunkHandle) -> u32 {
        let observer = self.sim.observer.borrow();
        let chunk = observer.ledger.chunks.get(&handle);
        chunk.and_then(ChunkLedger::version).map_or(0, |(_, size)| size)
    }

    /// Whether the log says that a chunk is closed.
    pub(super) fn is_closed(&self, handle: ChunkHandle) -> bool {
        self.sim.observer.borrow().ledger.chunks.get(&handle).is_some_and(|chunk| chunk.closed)
    }

    /// How often the observer has seen this.
    pub(super) fn reached(&self, what: &str) -> u64 {
        self.sim.observer.borrow().reached.get(what).copied().unwrap_or_default()
    }

    /// Who accepted the last lease on a chunk.
    ///
    /// # Errors
    /// Nobody did.
    pub(super) fn primary(&self, handle: ChunkHandle) -> Result<NodeId, String> {
        let observer = self.sim.observer.borrow();
        observer.primaries.get(&handle).copied().ok_or_else(|| "no lease so far".to_owned())
    }
}
