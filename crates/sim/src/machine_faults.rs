//! Faults of whole machines and disks, that nothing undoes: a server that never comes back, one
//! that comes back with nothing, with less, without one of its directories, or as another one.
//!
//! ```text
//!   gone for good      its process ends, and nobody starts it again
//!   emptied            its directories are wiped; it comes back and is given a new id
//!   with less          files of some chunks are missing when it comes back
//!   lost directory     one of several directories vanishes while its process runs
//!   borrowed disk      it runs with a copy of another's directories, and then with its own again
//! ```
//! - MF1: as many machines stay as a chunk has replicas by default.
//! - MF2: what a machine loses for good is known good on another one that is not gone for good, so
//!   that the cell can heal, and nothing acknowledged is excused by it.

use crate::ledger::ServerLedger;
use crate::simulation::Simulation;
use crate::stored_files::stored;
use cairn_env_sim::{DiskImage, NodeId, SimDisk};
use cairn_types::ChunkHandle;
use std::collections::{BTreeMap, BTreeSet};

/// A machine's own disks, while it runs with another's.
#[derive(Debug)]
struct OwnDisks {
    /// Whose copy it runs with.
    lender: NodeId,
    images: Vec<DiskImage>,
    page: ServerLedger,
}

/// What was done to machines that lasts.
#[derive(Debug, Default)]
pub(crate) struct MachineFaults {
    gone: BTreeSet<NodeId>,
    borrowers: BTreeMap<NodeId, OwnDisks>,
    /// A server's disks as they were, with the ledger's page on it.
    image: Option<(NodeId, (Vec<DiskImage>, ServerLedger))>,
    /// Down until a copy of their disks that ran is taken for dead.
    resting: BTreeSet<NodeId>,
}

impl MachineFaults {
    fn is_gone(&self, node: NodeId) -> bool {
        self.gone.contains(&node)
    }

    /// Whether a machine's process may be started now.
    pub(crate) fn may_run(&self, node: NodeId) -> bool {
        !self.is_gone(node) && !self.resting.contains(&node)
    }

    pub(crate) fn lets_rest(&self) -> bool {
        !self.resting.is_empty()
    }

    /// Nobody is taken for this machine any more.
    pub(crate) fn rested(&mut self, node: NodeId) {
        self.resting.remove(&node);
    }

    /// Machines that run with another's disks.
    pub(crate) fn borrowers(&self) -> Vec<NodeId> {
        self.borrowers.keys().copied().collect()
    }

    /// Whether a machine runs with another's disks, or another with a copy of its own.
    fn is_doubled(&self, node: NodeId) -> bool {
        let lends = self.borrowers.values().any(|own| own.lender == node);
        lends || self.borrowers.contains_key(&node) || self.resting.contains(&node)
    }

    /// Takes an image of some machine's disks; the next time, puts the one that there is in the
    /// place of those it was taken of, whose process is down for that. Which machine that is.
    pub(crate) fn old_image(
        &mut self,
        sim: &mut Simulation,
        some: fn(&mut Simulation) -> NodeId,
    ) -> Option<NodeId> {
        let Some((node, image)) = self.image.take() else {
            let node = some(sim);
            // An image of a copied disk names the machine that lent it. Put back after that one has
            // its own again, it would make two of one name: a person's to mend (healing seed 255
            // at b7fbed5a).
            if !self.borrowers.contains_key(&node) {
                self.image = Some((node, take_images(sim, node)));
            }
            return None;
        };
        sim.reach("old disk image restored");
        kill(sim, node);
        put_images(sim, node, image);
        Some(node)
    }

    /// Ends a machine for good.
    pub(crate) fn end(&mut self, sim: &mut Simulation, node: NodeId) {
        let left = sim.nodes.servers.len() - self.gone.len();
        let enough = left > sim.cell_config.replication as usize;
        let may = enough && !self.is_doubled(node) && self.can_be_spared(sim, node, |_| true);
        if self.is_gone(node) || !may {
            return;
        }
        sim.reach("server gone for good");
        kill(sim, node);
        self.gone.insert(node);
    }

    /// Wipes a machine's directories; whether it did.
    pub(crate) fn wipe(&self, sim: &mut Simulation, node: NodeId) -> bool {
        let may = !self.is_doubled(node) && self.can_be_spared(sim, node, |_| true);
        if self.is_gone(node) || !may {
            return false;
        }
        sim.reach("server emptied");
        kill(sim, node);
        sim.world.disks(node).iter().for_each(SimDisk::wipe);
        sim.observer.borrow_mut().ledger.lost_for_good(node, |_| true);
        true
    }

    /// Removes files of some of a machine's chunks while it is down; whether it is down for that.
    pub(crate) fn lose_some_files(&self, sim: &mut Simulation, node: NodeId) -> bool {
        if self.is_gone(node) || self.is_doubled(node) {
            return false;
        }
        kill(sim, node);
        for disk in sim.world.disks(node).to_vec() {
            for file in stored(&disk) {
                let lost = sim.random().chance(400);
                if lost && self.can_be_spared(sim, node, |handle| handle == file.chunk) {
                    disk.lose_file(&file.path);
                    let mut observer = sim.observer.borrow_mut();
                    let chunk = observer.ledger.chunk(file.chunk);
                    chunk.replicas.entry(node).or_default().lose_file();
                    drop(observer);
                    sim.reach("file of a chunk lost");
                }
            }
        }
        true
    }

    /// One of a machine's directories vanishes; whether it did. Another is left that the process
    /// has no reason to have given up (healing seed 47).
    pub(crate) fn pull_directory(&self, sim: &mut Simulation, node: NodeId) -> bool {
        let disks = sim.world.disks(node).to_vec();
        let Some(disk) = sim.random().pick(&disks).cloned() else { return false };
        let is_sound = |disk: &&SimDisk| !disk.is_absent() && !disk.has_failed();
        let sound = disks.iter().filter(is_sound).count();
        let others = sound - usize::from(is_sound(&&disk));
        if others == 0 || disk.is_absent() || self.is_doubled(node) {
            return false;
        }
        let held: BTreeSet<ChunkHandle> = stored(&disk).iter().map(|file| file.chunk).collect();
        if self.is_gone(node) || !self.can_be_spared(sim, node, |it| held.contains(&it)) {
            return false;
        }
        sim.reach("data directory lost");
        disk.pull_out();
        let ledger = &mut sim.observer.borrow_mut().ledger;
        ledger.lost_for_good(node, |it| held.contains(&it));
        for (_, chunk) in ledger.chunks.iter_mut().filter(|(handle, _)| held.contains(handle)) {
            chunk.unnoticed.insert(node);
        }
        true
    }

    /// A machine's process has started; whether reads of its disks failed meanwhile. What lies in
    /// directories that it passed over is out of its reach until it starts anew.
    pub(crate) fn note_started(sim: &mut Simulation, node: NodeId, unread: bool) {
        let passed_over: Vec<BTreeSet<ChunkHandle>> = (sim.world.disks(node).iter())
            .filter(|disk| !disk.is_absent() && !disk.is_in_use())
            .map(|disk| stored(disk).iter().map(|file| file.chunk).collect())
            .filter(|held: &BTreeSet<ChunkHandle>| !held.is_empty())
            .collect();
        for held in passed_over {
            sim.reach("data directory passed over by a start");
            sim.observer.borrow_mut().ledger.passed_over(node, &held);
        }
        if unread {
            sim.observer.borrow_mut().ledger.started_unread(node);
        }
    }

    /// Empty directories are put in the places of those that a machine has lost.
    pub(crate) fn put_directories(sim: &mut Simulation, node: NodeId) {
        for disk in sim.world.disks(node).to_vec() {
            if disk.is_absent() {
                sim.reach("empty data directory put in");
                disk.put_in();
            }
        }
    }

    /// A machine is to run with a copy of another's disks; it is down for that. Both may end by
    /// themselves, because each is taken for the other (R5). Tells the other one.
    pub(crate) fn borrow_disks(&mut self, sim: &mut Simulation, node: NodeId) -> Option<NodeId> {
        let alike = |other: &NodeId| {
            let count = |node| sim.world.disks(node).iter().filter(|it| !it.is_absent()).count();
            *other != node
                && !self.is_gone(*other)
                && !self.is_doubled(*other)
                && sim.world.disks(*other).len() == sim.world.disks(node).len()
                && count(*other) == sim.world.disks(*other).len()
                && count(node) == sim.world.disks(node).len()
        };
        let lenders: Vec<NodeId> = sim.nodes.servers.iter().copied().filter(alike).collect();
        if self.is_gone(node) || self.is_doubled(node) {
            return None;
        }
        let lender = *sim.random().pick(&lenders)?;
        sim.reach("server started with a copy of another's disks");
        kill(sim, node);
        let copies = take_images(sim, lender);
        let (images, page) = take_images(sim, node);
        put_images(sim, node, copies);
        self.borrowers.insert(node, OwnDisks { lender, images, page });
        Some(lender)
    }

    /// A machine has its own disks again, as they were; it is down for that, and so is the one that
    /// it passed for, which rests. Tells which that is.
    pub(crate) fn give_back(&mut self, sim: &mut Simulation, node: NodeId) -> Option<NodeId> {
        let OwnDisks { lender, mut images, page } = self.borrowers.remove(&node)?;
        if sim.observer.borrow().ledger.has_rebooted_since(node, &page) {
            // They lay beside it. What was only in its memory would be of a boot that is over.
            images.iter_mut().for_each(DiskImage::write_back);
        }
        kill(sim, node);
        kill(sim, lender);
        self.resting.insert(lender);
        put_images(sim, node, (images, page));
        let now = sim.now();
        sim.observer.borrow_mut().ledger.taken_away.insert(node, now);
        Some(lender)
    }

    /// MF2
    fn can_be_spared(
        &self,
        sim: &Simulation,
        node: NodeId,
        lost: impl Fn(ChunkHandle) -> bool,
    ) -> bool {
        let observer = sim.observer.borrow();
        let spared = |other: &NodeId| *other != node && !self.is_gone(*other);
        observer.ledger.chunks.iter().all(|(handle, chunk)| {
            let needed = chunk.replicas.contains_key(&node) && chunk.version().is_some();
            !needed || !lost(*handle) || chunk.known_good().iter().any(spared)
        })
    }
}

fn kill(sim: &mut Simulation, node: NodeId) {
    if sim.world.is_alive(node) {
        sim.world.kill(node);
    }
}

/// What a machine's disks hold, with the page of the ledger on it.
fn take_images(sim: &Simulation, node: NodeId) -> (Vec<DiskImage>, ServerLedger) {
    let page = sim.observer.borrow().ledger.server_ledger(node);
    (sim.world.disks(node).iter().map(SimDisk::image).collect(), page)
}

/// A machine's disks hold this from now on.
fn put_images(sim: &mut Simulation, node: NodeId, (images, page): (Vec<DiskImage>, ServerLedger)) {
    for (disk, image) in sim.world.disks(node).iter().zip(&images) {
        disk.restore(image);
    }
    let now = sim.now();
    sim.observer.borrow_mut().ledger.turn_back(node, page, now);
}
