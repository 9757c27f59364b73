//! Damage to what chunkservers have stored, and what the simulator's own books say of it.
//!
//! - G1: damage is done only where two other intact replicas of the chunk are left, so that
//!   nothing that it takes is excused.

use crate::simulation::Simulation;
use cairn_env_sim::{NodeId, SimDisk};
use cairn_types::ChunkHandle;

/// Flips a byte of some chunk's bytes.
pub(crate) fn flip_some_bit(sim: &mut Simulation, server: NodeId) {
    let disk = sim.world.disks(server)[0].clone();
    let chunks: Vec<_> = stored(&disk).into_iter().filter(|file| file.holds_bytes).collect();
    // Nothing is stored there yet: the fault has nothing to hit.
    let Some(file) = sim.random().pick(&chunks).cloned() else { return };
    let size = sim.cell_config.chunk_size;
    let offset = sim.random().below(size);
    if may_be_damaged(sim, server, file.chunk) && disk.flip_byte(&file.path, offset) {
        sim.observer.borrow_mut().ledger.flipped(server, file.chunk);
        sim.reach("stored bit flipped");
    }
}

/// Some page of a chunk's bytes, or of their checksums, cannot be read any more.
pub(crate) fn lose_some_sector(sim: &mut Simulation, server: NodeId) {
    let disk = sim.world.disks(server)[0].clone();
    // As above.
    let Some(file) = sim.random().pick(&stored(&disk)).cloned() else { return };
    if may_be_damaged(sim, server, file.chunk) && disk.make_unreadable(&file.path, 0) {
        sim.observer.borrow_mut().ledger.flipped(server, file.chunk);
        sim.reach("stored sector unreadable");
    }
}

/// A page of one chunk's files lies in the place of another's.
pub(crate) fn misdirect_some_write(sim: &mut Simulation, server: NodeId) {
    let disk = sim.world.disks(server)[0].clone();
    let files = stored(&disk);
    let (from, to) = (sim.random().pick(&files).cloned(), sim.random().pick(&files).cloned());
    // As above.
    let (Some(from), Some(to)) = (from, to) else { return };
    let spared = [from.chunk, to.chunk].iter().any(|chunk| !may_be_damaged(sim, server, *chunk));
    if !spared && disk.misdirect((&from.path, 0), (&to.path, 0)) {
        let ledger = &mut sim.observer.borrow_mut().ledger;
        ledger.flipped(server, from.chunk);
        ledger.flipped(server, to.chunk);
        sim.world.reach("stored page misdirected");
    }
}

/// G1.
fn may_be_damaged(sim: &Simulation, server: NodeId, chunk: ChunkHandle) -> bool {
    let observer = sim.observer.borrow();
    let intact = observer.ledger.chunks.get(&chunk).map(|it| it.intact()).unwrap_or_default();
    intact.iter().filter(|node| **node != server).count() >= 2
}

/// A file of the store that belongs to one chunk.
#[derive(Clone, Debug)]
struct StoredFile {
    path: String,
    chunk: ChunkHandle,
    /// Not what stands beside them.
    holds_bytes: bool,
}

/// The files of all chunks on a disk, in order of their paths.
fn stored(disk: &SimDisk) -> Vec<StoredFile> {
    disk.paths().into_iter().filter_map(stored_file).collect()
}

fn stored_file(path: String) -> Option<StoredFile> {
    let name = path.strip_prefix("chunks/")?.rsplit('/').next()?;
    let (handle, kind) = name.split_once('.')?;
    let chunk = u64::from_str_radix(handle, 16).ok().map(ChunkHandle::new)?;
    let holds_bytes = kind == "chunk";
    (holds_bytes || kind == "meta").then_some(StoredFile { path, chunk, holds_bytes })
}
