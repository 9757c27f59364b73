//! The faults of a run: drawn from the seed, fired at the world, and ended again.

use crate::cell::DISK_CAPACITY;
use crate::ledger::ServerLedger;
use crate::report::FaultMix;
use crate::simulation::Simulation;
use cairn_env_sim::{DiskImage, NodeId};
use cairn_types::ChunkHandle;
use std::collections::BTreeMap;
use std::time::Duration;

/// The script token that fires the next fault.
pub(crate) const NEXT_FAULT: u64 = 1;
/// Tokens of faults that end; below the workloads'.
const ENDINGS: u64 = 1_000;

/// One kind of fault.
#[derive(Clone, Copy, Debug)]
enum FaultKind {
    Kill,
    KillInWrite,
    PowerLoss,
    KillMaster,
    PowerLossMaster,
    KillAll,
    Partition,
    BreakConnection,
    Pause,
    Slow,
    SlowDisk,
    JumpWall,
    FlipBit,
    Corrupt,
    OldImage,
    FullDisk,
    PowerLossAll,
}

/// What has to be undone later.
#[derive(Clone, Copy, Debug)]
enum FaultEnd {
    Restart(NodeId),
    /// The fuse has done its work by then, or is taken out.
    Defuse(NodeId),
    Heal(NodeId, NodeId),
    Quick(NodeId),
    QuickDisk(NodeId),
    Clean,
    Roomy(NodeId),
}

/// The injector.
pub(crate) struct FaultInjector {
    mix: FaultMix,
    endings: BTreeMap<u64, FaultEnd>,
    next_ending: u64,
    over: bool,
    /// A server's disk as it was, with the ledger's page on it.
    image: Option<(NodeId, DiskImage, ServerLedger)>,
}

impl FaultInjector {
    pub(crate) fn new(mix: FaultMix) -> Self {
        Self { mix, endings: BTreeMap::new(), next_ending: ENDINGS, over: false, image: None }
    }

    fn kinds(&self) -> [(FaultKind, u64); 17] {
        let mix = &self.mix;
        [
            (FaultKind::Kill, mix.kill),
            (FaultKind::KillInWrite, mix.kill_in_write),
            (FaultKind::PowerLoss, mix.power_loss),
            (FaultKind::KillMaster, mix.kill_master),
            (FaultKind::PowerLossMaster, mix.power_loss_master),
            (FaultKind::KillAll, mix.kill_all),
            (FaultKind::Partition, mix.partition),
            (FaultKind::BreakConnection, mix.break_connection),
            (FaultKind::Pause, mix.pause),
            (FaultKind::Slow, mix.slow),
            (FaultKind::SlowDisk, mix.slow_disk),
            (FaultKind::JumpWall, mix.jump_wall),
            (FaultKind::FlipBit, mix.flip_bit),
            (FaultKind::Corrupt, mix.corrupt),
            (FaultKind::OldImage, mix.old_image),
            (FaultKind::FullDisk, mix.full_disk),
            (FaultKind::PowerLossAll, mix.power_loss_all),
        ]
    }

    /// Arranges for the next fault.
    pub(crate) fn start(&self, sim: &mut Simulation) {
        if self.mix.every_ms > 0 && !self.over {
            let wait = sim.random().below(2 * self.mix.every_ms) + 1;
            sim.world.script(Duration::from_millis(wait), NEXT_FAULT);
        }
    }

    /// A script token of its own has come.
    pub(crate) fn on_token(&mut self, sim: &mut Simulation, token: u64) {
        if token != NEXT_FAULT {
            if let Some(ending) = self.endings.remove(&token) {
                self.end(sim, ending);
            }
            return;
        }
        if self.over {
            return;
        }
        let kinds = self.kinds();
        let total: u64 = kinds.iter().map(|(_, weight)| weight).sum();
        let mut drawn = sim.random().below(total.max(1));
        for (kind, weight) in kinds {
            if drawn < weight {
                self.fire(sim, kind);
                break;
            }
            drawn -= weight;
        }
        self.start(sim);
    }

    fn later(&mut self, sim: &mut Simulation, max_ms: u64, ending: FaultEnd) {
        self.next_ending += 1;
        self.endings.insert(self.next_ending, ending);
        let wait = Duration::from_millis(1 + sim.random().below(max_ms));
        sim.world.script(wait, self.next_ending);
    }

    fn some_server(sim: &mut Simulation) -> NodeId {
        let servers = sim.nodes.servers.clone();
        *sim.random().pick(&servers).expect("a cell has servers")
    }

    fn someone(sim: &mut Simulation) -> NodeId {
        let mut all = sim.nodes.with_disks();
        all.extend(&sim.nodes.clients);
        *sim.random().pick(&all).expect("a cell has machines")
    }

    fn fire(&mut self, sim: &mut Simulation, kind: FaultKind) {
        sim.world.trace().line(|| format!("fault: {kind:?}"));
        match kind {
            FaultKind::Kill => {
                let server = Self::some_server(sim);
                self.stop(sim, server, false);
            }
            FaultKind::KillInWrite => {
                let server = Self::some_server(sim);
                let steps = sim.random().below(60);
                sim.world.kill_in_write(server, steps);
                self.later(sim, 8_000, FaultEnd::Defuse(server));
            }
            FaultKind::PowerLoss => {
                let server = Self::some_server(sim);
                self.stop(sim, server, true);
            }
            FaultKind::KillMaster => self.stop(sim, sim.nodes.master, false),
            FaultKind::PowerLossMaster => self.stop(sim, sim.nodes.master, true),
            FaultKind::KillAll => self.kill_all(sim),
            FaultKind::PowerLossAll => {
                sim.reach("all chunkservers lost power at once");
                for node in sim.nodes.servers.clone() {
                    self.stop(sim, node, true);
                }
            }
            FaultKind::Partition => self.partition(sim),
            FaultKind::BreakConnection => sim.world.break_some_connection(),
            FaultKind::Pause => {
                let node = Self::someone(sim);
                let span = 1 + sim.random().below(6_000);
                sim.world.pause(node, Duration::from_millis(span));
            }
            FaultKind::Slow => {
                let node = Self::someone(sim);
                let times = u32::try_from(2 + sim.random().below(200)).expect("small");
                sim.world.slow(node, times);
                self.later(sim, 5_000, FaultEnd::Quick(node));
            }
            FaultKind::SlowDisk => {
                let nodes = sim.nodes.with_disks();
                let node = *sim.random().pick(&nodes).expect("a cell has machines");
                let times = u32::try_from(2 + sim.random().below(300)).expect("small");
                sim.world.slow_disk(node, times);
                self.later(sim, 5_000, FaultEnd::QuickDisk(node));
            }
            FaultKind::JumpWall => {
                let node = Self::someone(sim);
                let by = sim.random().below(200_000_000) as i64 - 100_000_000;
                sim.world.jump_wall(node, by);
            }
            FaultKind::FlipBit => flip_some_bit(sim),
            FaultKind::Corrupt => {
                sim.reach("payloads damaged for a while");
                sim.world.corrupt(100);
                self.later(sim, 3_000, FaultEnd::Clean);
            }
            FaultKind::OldImage => self.old_image(sim),
            FaultKind::FullDisk => self.full_disk(sim),
        }
    }

    fn kill_all(&mut self, sim: &mut Simulation) {
        sim.reach("all killed at once");
        for node in sim.nodes.with_disks() {
            self.stop(sim, node, false);
        }
    }

    fn full_disk(&mut self, sim: &mut Simulation) {
        sim.reach("disk full for a while");
        let node = Self::some_server(sim);
        sim.world.disks(node).iter().for_each(|disk| disk.set_capacity(1));
        self.later(sim, 4_000, FaultEnd::Roomy(node));
    }

    /// Takes an image of some server's disk; the next time, that server wakes up with it.
    fn old_image(&mut self, sim: &mut Simulation) {
        let Some((node, image, page)) = self.image.take() else {
            let node = Self::some_server(sim);
            let image = sim.world.disks(node)[0].image();
            let page = sim.observer.borrow().ledger.server_ledger(node);
            self.image = Some((node, image, page));
            return;
        };
        sim.reach("old disk image restored");
        if sim.world.is_alive(node) {
            sim.world.kill(node);
        }
        sim.world.disks(node)[0].restore(&image);
        let now = sim.now();
        sim.observer.borrow_mut().ledger.turn_back(node, page, now);
        self.later(sim, 800, FaultEnd::Restart(node));
    }

    fn stop(&mut self, sim: &mut Simulation, node: NodeId, power: bool) {
        if !sim.world.is_alive(node) {
            return;
        }
        if power {
            sim.world.power_loss(node);
            sim.observer.borrow_mut().ledger.power_lost(node);
        } else {
            sim.world.kill(node);
        }
        let away = if sim.random().chance(500) { 800 } else { 10_000 };
        self.later(sim, away, FaultEnd::Restart(node));
    }

    fn partition(&mut self, sim: &mut Simulation) {
        let (a, b) = (Self::someone(sim), Self::someone(sim));
        let both = sim.random().chance(500);
        if a == b {
            return;
        }
        sim.world.partition(a, b);
        self.later(sim, 8_000, FaultEnd::Heal(a, b));
        if both {
            sim.world.partition(b, a);
            self.later(sim, 8_000, FaultEnd::Heal(b, a));
        }
    }

    fn end(&mut self, sim: &mut Simulation, ending: FaultEnd) {
        match ending {
            FaultEnd::Restart(node) => restart(sim, node),
            FaultEnd::Defuse(node) => {
                defuse(sim, node);
                restart(sim, node);
            }
            FaultEnd::Heal(a, b) => sim.world.heal(a, b),
            FaultEnd::Quick(node) => sim.world.slow(node, 1),
            FaultEnd::QuickDisk(node) => sim.world.slow_disk(node, 1),
            FaultEnd::Clean => sim.world.corrupt(0),
            FaultEnd::Roomy(node) => make_room(sim, node),
        }
    }

    /// All faults end.
    pub(crate) fn clear(&mut self, sim: &mut Simulation) {
        self.over = true;
        self.endings.clear();
        sim.world.heal_all();
        sim.world.corrupt(0);
        for node in sim.nodes.with_disks() {
            sim.world.slow(node, 1);
            sim.world.slow_disk(node, 1);
            make_room(sim, node);
            defuse(sim, node);
            restart(sim, node);
        }
        for client in sim.nodes.clients.clone() {
            sim.world.slow(client, 1);
        }
    }
}

fn make_room(sim: &mut Simulation, node: NodeId) {
    sim.world.disks(node).iter().for_each(|disk| disk.set_capacity(DISK_CAPACITY));
}

/// A running process is not killed by a fuse any more.
fn defuse(sim: &mut Simulation, node: NodeId) {
    if sim.world.is_alive(node) {
        sim.world.disks(node).iter().for_each(|disk| disk.arm_fuse(u64::MAX));
    }
}

/// Starts a process that is down; one that does not start is a finding.
fn restart(sim: &mut Simulation, node: NodeId) {
    if sim.world.is_alive(node) {
        return;
    }
    for disk in sim.world.disks(node) {
        disk.crash();
    }
    if let Err(why) = sim.world.restart(node) {
        let name = sim.world.name(node).to_owned();
        sim.fail("starts_again", format!("{name} does not start: {why}"));
    }
}

/// Flips a byte of some chunk file, unless that would leave no intact replica of the chunk.
fn flip_some_bit(sim: &mut Simulation) {
    let server = FaultInjector::some_server(sim);
    let disk = sim.world.disks(server)[0].clone();
    let chunks: Vec<(String, ChunkHandle)> = disk
        .paths()
        .into_iter()
        .filter_map(|path| Some((path.clone(), chunk_of(&path)?)))
        .collect();
    // No chunk is stored there yet: the fault has nothing to hit.
    let Some((path, handle)) = sim.random().pick(&chunks).cloned() else { return };
    let chunk = sim.cell_config.chunk_size;
    let offset = sim.random().below(chunk);
    {
        let observer = sim.observer.borrow();
        let intact = observer.ledger.chunks.get(&handle).map(|it| it.intact()).unwrap_or_default();
        if intact.iter().filter(|node| **node != server).count() < 2 {
            return;
        }
    }
    if disk.flip_byte(&path, offset) {
        sim.observer.borrow_mut().ledger.flipped(server, handle);
        sim.reach("stored bit flipped");
    }
}

/// The chunk whose bytes a file of the store holds.
fn chunk_of(path: &str) -> Option<ChunkHandle> {
    let name = path.strip_prefix("chunks/")?.rsplit('/').next()?.strip_suffix(".chunk")?;
    u64::from_str_radix(name, 16).ok().map(ChunkHandle::new)
}
