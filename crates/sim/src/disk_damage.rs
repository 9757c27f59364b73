//! Damage to what chunkservers have stored, and what the simulator's own books say of it.
//!
//! - G1: damage is done only where two other intact replicas of the chunk are left, so that
//!   nothing that it takes is excused.

use crate::simulation::Simulation;
use crate::stored_files::stored;
use cairn_env_sim::{NodeId, SimDisk};
use cairn_types::ChunkHandle;

/// Flips a byte of some chunk's bytes.
pub(crate) fn flip_some_bit(sim: &mut Simulation, server: NodeId) {
    let disk = some_disk(sim, server);
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
    let disk = some_disk(sim, server);
    // As above.
    let Some(file) = sim.random().pick(&stored(&disk)).cloned() else { return };
    if may_be_damaged(sim, server, file.chunk) && disk.make_unreadable(&file.path, 0) {
        sim.observer.borrow_mut().ledger.flipped(server, file.chunk);
        sim.reach("stored sector unreadable");
    }
}

/// A page of one chunk's files lies in the place of another's.
pub(crate) fn misdirect_some_write(sim: &mut Simulation, server: NodeId) {
    let disk = some_disk(sim, server);
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

fn some_disk(sim: &mut Simulation, server: NodeId) -> SimDisk {
    let disks = sim.world.disks(server).to_vec();
    // Drawn only where there is something to draw.
    let at = if disks.len() > 1 { sim.random().below(disks.len() as u64) } else { 0 };
    disks[usize::try_from(at).expect("a few")].clone()
}

/// G1.
fn may_be_damaged(sim: &Simulation, server: NodeId, chunk: ChunkHandle) -> bool {
    let observer = sim.observer.borrow();
    let intact = observer.ledger.chunks.get(&chunk).map(|it| it.intact()).unwrap_or_default();
    intact.iter().filter(|node| **node != server).count() >= 2
}
