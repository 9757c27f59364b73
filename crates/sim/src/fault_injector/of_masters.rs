//! What befalls a master's own files: a page of its newest checkpoint, or of its operation log,
//! that cannot be read for a while, and a directory that is set back.
//!
//! ```text
//!   a page cannot be read ──► its process may end by it ──► started with it ──► can be read again
//!   an old copy is made ── terms later ──► a master starts on it ──► the newer one is put back
//! ```
//! - MD1: one page file at a time is hit, and only where a checkpoint of its own is left in another
//!   one: from that and the log the master has all, and nothing is excused.
//!   Of the log there is no other copy on the disk: while it cannot be read its master may refuse
//!   to start, and once it can it has all, too (L6 of `operation_log`).
//! - MD2: the old copy is started by mistake, and what came after it is not lost: the newer
//!   directory comes back as it was. No chunkserver takes the old one for its master (R1, R3), for
//!   each has served a later term than the copy knows, long enough ago to have it on disk; whose
//!   disk is set back itself does not count.
//! - MD3: no client reaches a master that was set back: what it says is of another history.

use super::{FaultInjector, TOLD_WITHIN};
use crate::cell::like;
use crate::fault_endings::FaultEnd;
use crate::simulation::Simulation;
use cairn_env::{Disk, OpenMode};
use cairn_env_sim::{DiskImage, NodeId, SimDisk, WorldTime};
use cairn_format::CheckpointRoot;
use cairn_types::{LogIndex, Term};
use std::collections::BTreeMap;
use std::time::Duration;

/// What a server tells that it has served for so long is on its disk (MD2).
const SURELY_STORED: Duration = Duration::from_secs(3);

/// What was done to masters' files, and lasts for a while.
#[derive(Default)]
pub(super) struct MasterFiles {
    /// Whose page cannot be read (MD1).
    unreadable: Option<NodeId>,
    /// It is of the operation log.
    is_of_log: bool,
    /// An old copy of the master's directory, and the term in which it was made.
    old: Option<(DiskImage, Term)>,
    /// The directory of the master that was set back.
    newer: Option<DiskImage>,
}

impl MasterFiles {
    pub(super) fn is_set_back(&self) -> bool {
        self.newer.is_some()
    }
}

impl FaultInjector {
    /// A page somewhere in the newest page file of a master (MD1).
    pub(super) fn lose_some_page(&mut self, sim: &mut Simulation) {
        let master = sim.some_master();
        if self.master_files.unreadable.is_some() || self.master_files.is_set_back() {
            return;
        }
        let disk = sim.world.disks(master)[0].clone();
        let copy = like(&disk);
        let files = page_files(&disk, copy.as_ref());
        let begun = sim.observer.borrow().begun(master);
        let Some((newest, _)) = files.last_key_value() else { return };
        // Behind a checkpoint that was another's there is no log of its own to go on with (seed 382
        // at b7fbed5a).
        if !files.iter().any(|(file, index)| file != newest && *index >= begun) {
            return;
        }
        let path = format!("checkpoints/{newest:016x}.pages");
        // A page file that a root names is there.
        let size = copy.open(&path, OpenMode::Read).and_then(|file| file.size());
        let offset = sim.random().below(size.unwrap_or_default().max(1));
        if disk.make_unreadable(&path, offset) {
            sim.reach("page of a master's checkpoint unreadable");
            self.page_is_lost(sim, master, false);
        }
    }

    /// A page of a master's operation log, mostly of its last segment, that has records (MD1). It
    /// is read at a start.
    pub(super) fn lose_some_log_page(&mut self, sim: &mut Simulation) {
        let master = sim.some_master();
        if self.master_files.unreadable.is_some() || self.master_files.is_set_back() {
            return;
        }
        let disk = sim.world.disks(master)[0].clone();
        let mut segments = disk.paths();
        segments.retain(|path| path.starts_with("log/") && path.ends_with(".log"));
        let last = segments.last().filter(|_| sim.random().chance(700)).cloned();
        let Some(path) = last.or_else(|| sim.random().pick(&segments).cloned()) else { return };
        let filled = filled_size(like(&disk).as_ref(), &path);
        let offset = sim.random().below(filled.max(1));
        if disk.make_unreadable(&path, offset) {
            sim.reach("page of a master's log unreadable");
            self.page_is_lost(sim, master, true);
            if sim.random().chance(700) {
                let power = sim.random().chance(300);
                self.stop(sim, master, power);
            }
        }
    }

    fn page_is_lost(&mut self, sim: &mut Simulation, master: NodeId, is_of_log: bool) {
        self.master_files.unreadable = Some(master);
        self.master_files.is_of_log = is_of_log;
        *self.may_halt.entry(master).or_default() += 1;
        self.later(sim, 6_000, FaultEnd::Readable(master));
    }

    /// Whoever starts before that meets what it had not met.
    pub(super) fn make_readable(&mut self, sim: &mut Simulation, node: NodeId) {
        let is_up = sim.world.is_alive(node);
        if is_up && sim.random().chance(500) {
            sim.world.kill(node);
        }
        if self.master_files.is_of_log {
            if !is_up {
                sim.reach("master down until its log could be read");
            }
            sim.world.disks(node).iter().for_each(SimDisk::make_readable);
        }
        // What else may keep it from starting is told of by whoever did it.
        let alone = self.may_halt.get(&node) == Some(&1) && !self.cramped.contains_key(&node);
        self.restart(sim, node);
        if alone && !sim.world.is_alive(node) {
            let name = sim.world.name(node).to_owned();
            let what = if self.master_files.is_of_log { "log" } else { "checkpoint" };
            sim.fail("starts_again", format!("{name} finds no {what} that it can read (MD1)"));
        }
        sim.world.disks(node).iter().for_each(SimDisk::make_readable);
        self.master_files.unreadable = None;
        self.endings.after(sim, TOLD_WITHIN, FaultEnd::Told(node));
    }

    /// Makes a copy of the master's directory; a later time, starts the master from it (MD2).
    pub(super) fn set_master_back(&mut self, sim: &mut Simulation) {
        let master = sim.nodes.master;
        let busy = self.master_files.is_set_back() || self.master_files.unreadable.is_some();
        if busy || sim.nodes.masters.len() > 1 || self.liar.is_some() {
            return;
        }
        let disk = sim.world.disks(master)[0].clone();
        let Some((_, made_in)) = &self.master_files.old else {
            let term = sim.observer.borrow().term_of(master);
            if let (Some(term), true) = (term, sim.world.is_alive(master)) {
                self.master_files.old = Some((disk.image(), term));
            }
            return;
        };
        let (made_in, now) = (*made_in, sim.now());
        let knows = |server: &NodeId| {
            let served = sim.observer.borrow().set_back.served(*server);
            let is_later = |(term, since): (Term, WorldTime)| {
                term > made_in && since.after(SURELY_STORED) < now
            };
            sim.world.is_alive(*server) && served.is_some_and(is_later)
        };
        if !sim.nodes.servers.iter().all(knows) || self.endings.heals(master) {
            return;
        }
        let Some((old, _)) = self.master_files.old.take() else { return };
        sim.reach("master set back");
        if sim.world.is_alive(master) {
            sim.world.kill(master);
        }
        self.master_files.newer = Some(disk.image());
        disk.restore(&old);
        sim.observer.borrow_mut().master_set_back(master);
        for client in sim.nodes.clients.clone() {
            sim.world.partition(client, master);
            sim.world.partition(master, client);
        }
        self.restart(sim, master);
        self.later(sim, 4_000, FaultEnd::PutForward(master));
    }

    /// The newer directory comes back, if the master runs with an older one.
    pub(super) fn put_master_forward(&mut self, sim: &mut Simulation, master: NodeId) {
        let Some(newer) = self.master_files.newer.take() else { return };
        if sim.world.is_alive(master) {
            sim.world.kill(master);
        }
        sim.world.disks(master)[0].restore(&newer);
        sim.observer.borrow_mut().master_put_forward(master);
        for client in sim.nodes.clients.clone() {
            sim.world.heal(client, master);
            sim.world.heal(master, client);
        }
        self.restart(sim, master);
    }

    /// Whether these are kept apart already, by what must not end with another fault (MD3).
    pub(super) fn keeps_apart(&self, sim: &Simulation, nodes: &[NodeId]) -> bool {
        self.master_files.is_set_back() && nodes.contains(&sim.nodes.master)
    }
}

/// Bytes of a file up to the last one that is not zero.
fn filled_size(copy: &dyn Disk, path: &str) -> u64 {
    let read = || {
        let file = copy.open(path, OpenMode::Read).ok()?;
        let mut bytes = vec![0; usize::try_from(file.size().ok()?).ok()?];
        file.read_at(&mut bytes, 0).ok()?;
        bytes.iter().rposition(|byte| *byte != 0)
    };
    read().map_or(0, |last| last as u64 + 1)
}

/// The page files that checkpoints on a disk name, each with the last record of the newest one in
/// it.
fn page_files(disk: &SimDisk, copy: &dyn Disk) -> BTreeMap<u64, LogIndex> {
    let roots = disk.paths().into_iter().filter(|path| path.ends_with(".root"));
    let read = |path: String| {
        let file = copy.open(&path, OpenMode::Read).ok()?;
        let mut bytes = vec![0; usize::try_from(file.size().ok()?).ok()?];
        file.read_at(&mut bytes, 0).ok()?;
        let root = CheckpointRoot::decode(&bytes).ok()?;
        Some((root.page_file, root.index))
    };
    let mut roots: Vec<(u64, LogIndex)> = roots.filter_map(read).collect();
    roots.sort_unstable();
    roots.into_iter().collect()
}
