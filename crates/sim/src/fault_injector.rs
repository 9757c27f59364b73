//! The faults of a run: drawn from the seed, fired at the world, and ended again.

use crate::cell::DISK_CAPACITY;
use crate::ledger::Page;
use crate::report::FaultMix;
use crate::stage::Stage;
use cairn_env_sim::{DiskImage, NodeId};
use cairn_types::ChunkHandle;
use std::collections::BTreeMap;
use std::time::Duration;

/// The script token that fires the next fault.
pub(crate) const NEXT_FAULT: u64 = 1;
/// Tokens of faults that end; below the actors'.
const ENDINGS: u64 = 1_000;

/// One kind of fault.
#[derive(Clone, Copy, Debug)]
enum Kind {
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
enum Ending {
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
    endings: BTreeMap<u64, Ending>,
    next_ending: u64,
    over: bool,
    /// A server's disk as it was, with the ledger's page on it.
    image: Option<(NodeId, DiskImage, Page)>,
}

impl FaultInjector {
    pub(crate) fn new(mix: FaultMix) -> Self {
        Self { mix, endings: BTreeMap::new(), next_ending: ENDINGS, over: false, image: None }
    }

    fn kinds(&self) -> [(Kind, u64); 17] {
        let mix = &self.mix;
        [
            (Kind::Kill, mix.kill),
            (Kind::KillInWrite, mix.kill_in_write),
            (Kind::PowerLoss, mix.power_loss),
            (Kind::KillMaster, mix.kill_master),
            (Kind::PowerLossMaster, mix.power_loss_master),
            (Kind::KillAll, mix.kill_all),
            (Kind::Partition, mix.partition),
            (Kind::BreakConnection, mix.break_connection),
            (Kind::Pause, mix.pause),
            (Kind::Slow, mix.slow),
            (Kind::SlowDisk, mix.slow_disk),
            (Kind::JumpWall, mix.jump_wall),
            (Kind::FlipBit, mix.flip_bit),
            (Kind::Corrupt, mix.corrupt),
            (Kind::OldImage, mix.old_image),
            (Kind::FullDisk, mix.full_disk),
            (Kind::PowerLossAll, mix.power_loss_all),
        ]
    }

    /// Arranges for the next fault.
    pub(crate) fn start(&self, stage: &mut Stage) {
        if self.mix.every_ms > 0 && !self.over {
            let wait = stage.random().below(2 * self.mix.every_ms) + 1;
            stage.world.script(Duration::from_millis(wait), NEXT_FAULT);
        }
    }

    /// A script token of its own has come.
    pub(crate) fn on_token(&mut self, stage: &mut Stage, token: u64) {
        if token != NEXT_FAULT {
            if let Some(ending) = self.endings.remove(&token) {
                self.end(stage, ending);
            }
            return;
        }
        if self.over {
            return;
        }
        let kinds = self.kinds();
        let total: u64 = kinds.iter().map(|(_, weight)| weight).sum();
        let mut drawn = stage.random().below(total.max(1));
        for (kind, weight) in kinds {
            if drawn < weight {
                self.fire(stage, kind);
                break;
            }
            drawn -= weight;
        }
        self.start(stage);
    }

    fn later(&mut self, stage: &mut Stage, max_ms: u64, ending: Ending) {
        self.next_ending += 1;
        self.endings.insert(self.next_ending, ending);
        let wait = Duration::from_millis(1 + stage.random().below(max_ms));
        stage.world.script(wait, self.next_ending);
    }

    fn some_server(stage: &mut Stage) -> NodeId {
        let servers = stage.nodes.servers.clone();
        *stage.random().pick(&servers).expect("a cell has servers")
    }

    fn someone(stage: &mut Stage) -> NodeId {
        let mut all = stage.nodes.with_disks();
        all.extend(&stage.nodes.clients);
        *stage.random().pick(&all).expect("a cell has machines")
    }

    fn fire(&mut self, stage: &mut Stage, kind: Kind) {
        stage.world.trace().line(|| format!("fault: {kind:?}"));
        match kind {
            Kind::Kill => {
                let server = Self::some_server(stage);
                self.stop(stage, server, false);
            }
            Kind::KillInWrite => {
                let server = Self::some_server(stage);
                let steps = stage.random().below(60);
                stage.world.kill_in_write(server, steps);
                self.later(stage, 8_000, Ending::Defuse(server));
            }
            Kind::PowerLoss => {
                let server = Self::some_server(stage);
                self.stop(stage, server, true);
            }
            Kind::KillMaster => self.stop(stage, stage.nodes.master, false),
            Kind::PowerLossMaster => self.stop(stage, stage.nodes.master, true),
            Kind::KillAll => self.kill_all(stage),
            Kind::PowerLossAll => {
                stage.reach("all chunkservers lost power at once");
                for node in stage.nodes.servers.clone() {
                    self.stop(stage, node, true);
                }
            }
            Kind::Partition => self.partition(stage),
            Kind::BreakConnection => stage.world.break_some_connection(),
            Kind::Pause => {
                let node = Self::someone(stage);
                let span = 1 + stage.random().below(6_000);
                stage.world.pause(node, Duration::from_millis(span));
            }
            Kind::Slow => {
                let node = Self::someone(stage);
                let times = u32::try_from(2 + stage.random().below(200)).expect("small");
                stage.world.slow(node, times);
                self.later(stage, 5_000, Ending::Quick(node));
            }
            Kind::SlowDisk => {
                let nodes = stage.nodes.with_disks();
                let node = *stage.random().pick(&nodes).expect("a cell has machines");
                let times = u32::try_from(2 + stage.random().below(300)).expect("small");
                stage.world.slow_disk(node, times);
                self.later(stage, 5_000, Ending::QuickDisk(node));
            }
            Kind::JumpWall => {
                let node = Self::someone(stage);
                let by = stage.random().below(200_000_000) as i64 - 100_000_000;
                stage.world.jump_wall(node, by);
            }
            Kind::FlipBit => flip_some_bit(stage),
            Kind::Corrupt => {
                stage.reach("payloads damaged for a while");
                stage.world.corrupt(100);
                self.later(stage, 3_000, Ending::Clean);
            }
            Kind::OldImage => self.old_image(stage),
            Kind::FullDisk => self.full_disk(stage),
        }
    }

    fn kill_all(&mut self, stage: &mut Stage) {
        stage.reach("all killed at once");
        for node in stage.nodes.with_disks() {
            self.stop(stage, node, false);
        }
    }

    fn full_disk(&mut self, stage: &mut Stage) {
        stage.reach("disk full for a while");
        let node = Self::some_server(stage);
        stage.world.disks(node).iter().for_each(|disk| disk.set_capacity(1));
        self.later(stage, 4_000, Ending::Roomy(node));
    }

    /// Takes an image of some server's disk; the next time, that server wakes up with it.
    fn old_image(&mut self, stage: &mut Stage) {
        let Some((node, image, page)) = self.image.take() else {
            let node = Self::some_server(stage);
            let image = stage.world.disks(node)[0].image();
            let page = stage.observer.borrow().ledger.page_of(node);
            self.image = Some((node, image, page));
            return;
        };
        stage.reach("old disk image restored");
        if stage.world.is_alive(node) {
            stage.world.kill(node);
        }
        stage.world.disks(node)[0].restore(&image);
        let now = stage.now();
        stage.observer.borrow_mut().ledger.turn_back(node, page, now);
        self.later(stage, 800, Ending::Restart(node));
    }

    fn stop(&mut self, stage: &mut Stage, node: NodeId, power: bool) {
        if !stage.world.is_alive(node) {
            return;
        }
        if power {
            stage.world.power_loss(node);
            stage.observer.borrow_mut().ledger.power_lost(node);
        } else {
            stage.world.kill(node);
        }
        let away = if stage.random().chance(500) { 800 } else { 10_000 };
        self.later(stage, away, Ending::Restart(node));
    }

    fn partition(&mut self, stage: &mut Stage) {
        let (a, b) = (Self::someone(stage), Self::someone(stage));
        let both = stage.random().chance(500);
        if a == b {
            return;
        }
        stage.world.partition(a, b);
        self.later(stage, 8_000, Ending::Heal(a, b));
        if both {
            stage.world.partition(b, a);
            self.later(stage, 8_000, Ending::Heal(b, a));
        }
    }

    fn end(&mut self, stage: &mut Stage, ending: Ending) {
        match ending {
            Ending::Restart(node) => restart(stage, node),
            Ending::Defuse(node) => {
                defuse(stage, node);
                restart(stage, node);
            }
            Ending::Heal(a, b) => stage.world.heal(a, b),
            Ending::Quick(node) => stage.world.slow(node, 1),
            Ending::QuickDisk(node) => stage.world.slow_disk(node, 1),
            Ending::Clean => stage.world.corrupt(0),
            Ending::Roomy(node) => make_room(stage, node),
        }
    }

    /// All faults end.
    pub(crate) fn clear(&mut self, stage: &mut Stage) {
        self.over = true;
        self.endings.clear();
        stage.world.heal_all();
        stage.world.corrupt(0);
        for node in stage.nodes.with_disks() {
            stage.world.slow(node, 1);
            stage.world.slow_disk(node, 1);
            make_room(stage, node);
            defuse(stage, node);
            restart(stage, node);
        }
        for client in stage.nodes.clients.clone() {
            stage.world.slow(client, 1);
        }
    }
}

fn make_room(stage: &mut Stage, node: NodeId) {
    stage.world.disks(node).iter().for_each(|disk| disk.set_capacity(DISK_CAPACITY));
}

/// A running process is not killed by a fuse any more.
fn defuse(stage: &mut Stage, node: NodeId) {
    if stage.world.is_alive(node) {
        stage.world.disks(node).iter().for_each(|disk| disk.arm_fuse(u64::MAX));
    }
}

/// Starts a process that is down; one that does not start is a finding.
fn restart(stage: &mut Stage, node: NodeId) {
    if stage.world.is_alive(node) {
        return;
    }
    for disk in stage.world.disks(node) {
        disk.crash();
    }
    if let Err(why) = stage.world.restart(node) {
        let name = stage.world.name(node).to_owned();
        stage.fail("starts_again", format!("{name} does not start: {why}"));
    }
}

/// Flips a byte of some chunk file, unless that would leave no intact replica of the chunk.
fn flip_some_bit(stage: &mut Stage) {
    let server = FaultInjector::some_server(stage);
    let disk = stage.world.disks(server)[0].clone();
    let chunks: Vec<(String, ChunkHandle)> = disk
        .paths()
        .into_iter()
        .filter_map(|path| Some((path.clone(), chunk_of(&path)?)))
        .collect();
    let Some((path, handle)) = stage.random().pick(&chunks).cloned() else { return };
    let chunk = stage.cluster.chunk_size;
    let offset = stage.random().below(chunk);
    {
        let observer = stage.observer.borrow();
        let intact = observer.ledger.chunks.get(&handle).map(|it| it.intact()).unwrap_or_default();
        if intact.iter().filter(|node| **node != server).count() < 2 {
            return;
        }
    }
    if disk.flip_byte(&path, offset) {
        stage.observer.borrow_mut().ledger.flipped(server, handle);
        stage.reach("stored bit flipped");
    }
}

/// The chunk whose bytes a file of the store holds.
fn chunk_of(path: &str) -> Option<ChunkHandle> {
    let name = path.strip_prefix("chunks/")?.rsplit('/').next()?.strip_suffix(".chunk")?;
    u64::from_str_radix(name, 16).ok().map(ChunkHandle::new)
}
