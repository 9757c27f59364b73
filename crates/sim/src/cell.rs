//! One cell in the simulated world: masters, chunkservers, clients, each started from its disks.

use crate::checkers::replay_is_state::SharedMaster;
use crate::observer::Observer;
use crate::prober::Prober;
use crate::report::RunConfig;
use cairn_chunkserver::{Chunkserver, ChunkserverConfig, ScrubSettings};
use cairn_client_core::{ClientCore, ClientSettings, NoDisk, ShadowReads};
use cairn_env::Disk;
use cairn_env_sim::{
    DriverProcess, NodeId, NodePlan, Process, SimDisk, SimWorld, WatchOf, WorldSettings,
};
use cairn_master::{Master, MasterConfig, PageFileLimits, WaitingMember, make_member};
use cairn_protocol::Role;
use cairn_store::{OperationLog, RecoveredLog, read_identity};
use cairn_types::{
    Address, CellConfig, CellId, Identity, LogIndex, Member, MemberStanding, Members, Rack,
    ServerId,
};
use std::cell::RefCell;
use std::rc::Rc;
use std::sync::Arc;

/// Bytes on each simulated disk: far more than a run writes.
pub(crate) const DISK_CAPACITY: u64 = 256 << 20;
/// Checkpoints come often enough for a run to see several.
const CHECKPOINT_EVERY: u64 = 200;
/// Small, so that a run sees checkpoints that go into a fresh file.
const PAGE_FILE_LIMITS: PageFileLimits = PageFileLimits { garbage_max: 32 << 10, records_max: 900 };
/// Small, so that a run fills many segments of the log.
const SEGMENT_SIZE: u64 = 16 << 10;
/// Of a cell whose group of masters is made before it begins.
const CELL: CellId = CellId::new(0xce11);
/// Small, so that pushed data ages out now and then.
pub(crate) const PUSH_BUFFER: u64 = 64 << 10;
/// A round every few seconds: what rots is to be found while a run lasts.
const SCRUB: ScrubSettings = ScrubSettings { period_ms: 8_000, rate: 1 << 20 };

/// Who is who.
#[derive(Clone, Debug)]
pub(crate) struct CellNodes {
    /// The first of the masters.
    pub(crate) master: NodeId,
    /// All of them, this one too, and those that belong to no group so far.
    pub(crate) masters: Vec<NodeId>,
    pub(crate) servers: Vec<NodeId>,
    pub(crate) clients: Vec<NodeId>,
}

impl CellNodes {
    /// All that have disks.
    pub(crate) fn with_disks(&self) -> Vec<NodeId> {
        self.masters.iter().chain(&self.servers).copied().collect()
    }

    /// All there are.
    pub(crate) fn all(&self) -> Vec<NodeId> {
        self.masters.iter().chain(&self.servers).chain(&self.clients).copied().collect()
    }

    /// The other chunkservers.
    pub(crate) fn peers(&self, server: NodeId) -> Vec<NodeId> {
        self.servers.iter().copied().filter(|peer| *peer != server).collect()
    }
}

/// What a master is called, of so many.
fn master_name(at: usize, count: usize) -> String {
    if count == 1 { "master".to_owned() } else { format!("master{at}") }
}

/// Where each of so many masters listens.
pub(crate) fn master_addresses(count: usize) -> Vec<Address> {
    (0..count).map(|at| Address::new(format!("{}:7400", master_name(at, count)))).collect()
}

/// The group of so many masters, from the first, where there are more of them.
fn group_of(members: usize, count: usize) -> Members {
    let addresses = master_addresses(count).into_iter().take(members);
    let all = (1..).zip(addresses).map(|(id, address)| {
        let (id, standing) = (ServerId::new(id), MemberStanding::Voter);
        Member { id, address, standing }
    });
    Members { all: all.collect(), ..Members::default() }
}

/// In which of the racks a machine stands.
pub(crate) fn rack_number(at: usize) -> usize {
    at % 2
}

fn rack_of(at: usize) -> Rack {
    Rack::new(format!("/dc1/r{}", rack_number(at)))
}

/// Builds the cell and starts it.
pub(crate) fn build(
    run: &RunConfig,
    cell_config: &CellConfig,
    clients: usize,
    observer: &Rc<RefCell<Observer>>,
) -> (SimWorld, CellNodes) {
    let mut settings = WorldSettings::rack(run.seed);
    settings.verbose = run.trace;
    let mut world = SimWorld::new(settings);
    world.set_watch(observer.clone());
    let count = run.masters + run.spare_masters;
    let members = group_of(run.masters, count);
    let masters: Vec<NodeId> = (0..count)
        .map(|at| add_master(&mut world, (at, count), (cell_config, &members), observer))
        .collect();
    let listed = master_addresses(count);
    let servers = (0..run.servers)
        .map(|at| add_chunkserver(&mut world, (at, directories(run, at)), &listed, observer));
    let servers = servers.collect::<Vec<_>>();
    let superuser = (ShadowReads::Never, Identity::default());
    let clients = (0..clients).map(|at| add_client(&mut world, (at, &listed), superuser.clone()));
    let clients = clients.collect::<Vec<_>>();
    let nodes = CellNodes { master: masters[0], masters, servers, clients };
    if run.clocks_at_bounds {
        put_clocks_at_bounds(&mut world, &nodes);
    }
    for node in nodes.all() {
        world.restart(node).expect("a fresh process starts");
    }
    (world, nodes)
}

/// Every clock runs as fast as any may or as slow, of the masters the one and the other.
fn put_clocks_at_bounds(world: &mut SimWorld, nodes: &CellNodes) {
    world.reach("clocks at the bounds of drift");
    let first = world.random().chance(500);
    for (at, master) in nodes.masters.iter().enumerate() {
        world.clock_at_bound(*master, first == at.is_multiple_of(2));
    }
    for node in nodes.servers.iter().chain(&nodes.clients) {
        let is_fast = world.random().chance(500);
        world.clock_at_bound(*node, is_fast);
    }
}

/// A disk that holds the same, and never fails a read: to look at.
pub(crate) fn like(disk: &SimDisk) -> Arc<dyn Disk> {
    let like = SimDisk::new("a look", DISK_CAPACITY);
    like.restore(&disk.image());
    like.session()
}

/// The log on a master's disk.
fn log_on(disk: &SimDisk) -> Option<RecoveredLog> {
    OperationLog::read(like(disk).as_ref(), CELL, LogIndex::default()).ok()
}

fn add_master(
    world: &mut SimWorld,
    (at, count): (usize, usize),
    (cell_config, members): (&CellConfig, &Members),
    observer: &Rc<RefCell<Observer>>,
) -> NodeId {
    let (cell_config, observer) = (cell_config.clone(), observer.clone());
    let name = master_name(at, count);
    let disk = SimDisk::new(name.clone(), DISK_CAPACITY);
    if let (Some(member), true) = (members.all.get(at), count > 1) {
        let me = (member.id, members);
        make_member(&disk.session(), SEGMENT_SIZE, CELL, me).expect("an empty disk");
        disk.crash();
    }
    world.add(NodePlan {
        name,
        address: master_addresses(count)[at].clone(),
        disks: vec![disk],
        factory: Box::new(move |boot| {
            let disk = boot.disks[0].session();
            let mut id = ServerId::default();
            if count > 1 {
                match read_identity(disk.as_ref()).map_err(|why| why.to_string())? {
                    Some(identity) => id = ServerId::new(identity.id),
                    None => return Ok(waiting_member(boot.node, disk, (count, boot.seed))),
                }
            }
            let config = MasterConfig {
                cluster: cell_config.clone(),
                seed: boot.seed,
                checkpoint_every_records: CHECKPOINT_EVERY,
                page_file_limits: PAGE_FILE_LIMITS,
                log_size_max: 1 << 30,
                segment_size: SEGMENT_SIZE,
                recover_past: observer.borrow().recover_past,
            };
            let opened = Master::open(disk.clone(), config);
            if opened.is_ok()
                && observer.borrow().doubts_log(boot.node)
                && let Some(log) = log_on(&boot.disks[0])
            {
                observer.borrow_mut().found_in_log(boot.node, log);
            }
            let (driver, disk) = opened.map_err(|why| why.to_string())?;
            let driver = Rc::new(RefCell::new(driver));
            observer.borrow_mut().master_opened((boot.node, id), count > 1, driver.clone());
            let watch: WatchOf<SharedMaster> = observer.clone();
            Ok(DriverProcess::boxed(boot.node, SharedMaster(driver), disk, Some(watch)))
        }),
    })
}

/// A master on an empty disk, told of all of them (R25).
fn waiting_member(
    node: NodeId,
    disk: Arc<dyn Disk>,
    (count, seed): (usize, u64),
) -> Box<dyn Process> {
    let peers = master_addresses(count);
    let (driver, service) = WaitingMember::new(disk, SEGMENT_SIZE, peers, seed);
    DriverProcess::boxed(node, driver, service, None)
}

/// How many data directories a server has.
fn directories(run: &RunConfig, at: usize) -> usize {
    if run.heals && at % 2 == 1 { 2 } else { 1 }
}

pub(crate) fn add_chunkserver(
    world: &mut SimWorld,
    (at, directories): (usize, usize),
    masters: &[Address],
    observer: &Rc<RefCell<Observer>>,
) -> NodeId {
    let (observer, masters) = (observer.clone(), masters.to_vec());
    let address = Address::new(format!("server{at}:7401"));
    let (name, mine) = (format!("server{at}"), address.clone());
    let disk = |number: usize| {
        let disk = match number {
            0 => SimDisk::new(name.clone(), DISK_CAPACITY),
            more => SimDisk::new(format!("{name}-{more}"), DISK_CAPACITY),
        };
        // Not those of healing runs, which have more directories.
        if at % 2 == 1 && directories == 1 {
            disk.can_clone_files();
        }
        disk
    };
    world.add(NodePlan {
        disks: (0..directories).map(disk).collect(),
        name,
        address,
        factory: Box::new(move |boot| {
            let config = ChunkserverConfig {
                address: mine.clone(),
                rack: rack_of(at),
                masters: masters.clone(),
                seed: boot.seed,
                push_buffer_size: PUSH_BUFFER,
                scrub: SCRUB,
            };
            // Whoever starts it names no directory that is not there.
            let disks = boot.disks.iter().filter(|disk| !disk.is_absent());
            let disks = disks.map(SimDisk::session).collect();
            let opened = Chunkserver::open(disks, config);
            let (driver, disk) = opened.map_err(|why| why.to_string())?;
            let watch: WatchOf<Chunkserver> = observer.clone();
            Ok(DriverProcess::boxed(boot.node, driver, disk, Some(watch)))
        }),
    })
}

/// Adds a client that takes the word of masters that are not in charge, and starts it.
pub(crate) fn add_shadow_reader(world: &mut SimWorld, at: usize, masters: usize) -> NodeId {
    let asks = (ShadowReads::First, Identity::default());
    let reader = add_client(world, (at, &master_addresses(masters)), asks);
    world.restart(reader).expect("a fresh process starts");
    reader
}

/// Adds a client that says it is somebody, and starts it.
pub(crate) fn add_person(
    world: &mut SimWorld,
    at: usize,
    masters: usize,
    identity: Identity,
) -> NodeId {
    let asks = (ShadowReads::Never, identity);
    let person = add_client(world, (at, &master_addresses(masters)), asks);
    world.restart(person).expect("a fresh process starts");
    person
}

fn add_client(
    world: &mut SimWorld,
    (at, masters): (usize, &[Address]),
    (shadow_reads, identity): (ShadowReads, Identity),
) -> NodeId {
    let masters = masters.to_vec();
    world.add(NodePlan {
        name: format!("client{at}"),
        address: Address::new(format!("client{at}:0")),
        disks: Vec::new(),
        factory: Box::new(move |boot| {
            let settings = ClientSettings {
                masters: masters.clone(),
                rack: rack_of(at),
                seed: u128::from(boot.seed) << 64 | at as u128,
                shadow_reads,
                identity: identity.clone(),
            };
            let driver = ClientCore::new(settings);
            Ok(DriverProcess::boxed(boot.node, driver, Arc::new(NoDisk), None))
        }),
    })
}

/// Adds a machine that asks anything of anyone, as what it says it is, and starts it.
pub(crate) fn add_prober(world: &mut SimWorld, name: &str, role: Role) -> NodeId {
    let prober = world.add(NodePlan {
        name: name.to_owned(),
        address: Address::new(format!("{name}:0")),
        disks: Vec::new(),
        factory: Box::new(move |boot| {
            Ok(DriverProcess::boxed(boot.node, Prober::of(role), Arc::new(NoDisk), None))
        }),
    });
    world.restart(prober).expect("a fresh process starts");
    prober
}
