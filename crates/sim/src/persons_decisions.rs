//! What only a person may decide is decided by one, as `cairn explain` says it is done (R28):
//! chunks with too few replicas that are sure go on with the best there is (`cairn recover`), and
//! what holds more than that is let go of (`cairn lost`).
//!
//! - PD1: which chunks these are is what the simulator's own books say; what the cell may do by
//!   itself is left to it.
//! - PD2: a person names no server: what the master says is the best is taken.
//! - PD3: but of what is kept. Where it is whole, and nobody of the set is, the chunk goes on with
//!   that; else a person lets go of it.

use crate::healing::{of_master, servers_at_rest};
use crate::simulation::Simulation;
use cairn_env_sim::NodeId;
use cairn_protocol::{
    ChosenReplica, Lease, LeasePurpose, LetGoOfLost, ListLost, Recover, Response,
};
use cairn_types::{ChunkHandle, ServerId};

/// Lost chunks that are let go of at once.
const LET_GO_MAX: u32 = 100;

/// Decides all that waits for it.
pub(crate) fn decide_all(sim: &mut Simulation, asker: NodeId) {
    let servers = servers_at_rest(sim);
    let undecided = sim.observer.borrow_mut().undecided_at_rest(sim.nodes.master, servers);
    for handle in undecided {
        decide(sim, asker, handle, ServerId::default());
    }
    let wish = ListLost { limit: LET_GO_MAX, ..ListLost::default() };
    let Ok(Response::ListLost(lost)) = of_master(sim, asker, wish) else { return };
    for chunk in lost.chunks {
        if let Some(server) = whole_outside_the_set(sim, chunk.handle) {
            sim.reach("a person goes on with what was kept");
            decide(sim, asker, chunk.handle, server);
            continue;
        }
        if of_master(sim, asker, LetGoOfLost { handle: chunk.handle }).is_ok() {
            sim.reach("a person lets go of what was kept");
        }
    }
}

/// Has a chunk go on with its best replica, or this server's; where it is refused, it is tried
/// again later.
fn decide(sim: &mut Simulation, asker: NodeId, handle: ChunkHandle, server: ServerId) {
    let wish = Recover { subject: handle.short(), server, ..Recover::default() };
    let answer = of_master(sim, asker, wish);
    sim.world.trace().line(|| format!("a person decides on {}: {answer:?}", handle.short()));
    let Ok(Response::Recover(answer)) = answer else { return };
    for ChosenReplica { file, index, .. } in answer.chosen {
        let lease = Lease { file, index, purpose: LeasePurpose::Level, ..Lease::default() };
        if of_master(sim, asker, lease).is_ok() {
            sim.reach("a person decided on a chunk");
        }
    }
}

/// The server of a replica that was left out and is whole, where nobody of the set is (PD3).
fn whole_outside_the_set(sim: &Simulation, handle: ChunkHandle) -> Option<ServerId> {
    let observer = sim.observer.borrow();
    let chunk = observer.ledger.chunks.get(&handle)?;
    let is_missed = !chunk.acknowledged.is_empty() && chunk.known_good().is_empty();
    let node = chunk.intact().into_iter().next().filter(|_| is_missed)?;
    chunk.version().and_then(|_| observer.servers.server_at(node))
}
