//! What only a person may decide is decided by one, as `cairn explain` says it is done (R28):
//! chunks with too few replicas that are sure go on with the best there is (`cairn recover`), and
//! what holds more than that is let go of (`cairn lost`).
//!
//! - PD1: which chunks these are is what the simulator's own books say; what the cell may do by
//!   itself is left to it.
//! - PD2: a person names no server: what the master says is the best is taken.

use crate::healing::{of_master, servers_at_rest};
use crate::simulation::Simulation;
use cairn_env_sim::NodeId;
use cairn_protocol::{
    ChosenReplica, Lease, LeasePurpose, LetGoOfLost, ListLost, Recover, Response,
};
use cairn_types::ChunkHandle;

/// Lost chunks that are let go of at once.
const LET_GO_MAX: u32 = 100;

/// Decides all that waits for it.
pub(crate) fn decide_all(sim: &mut Simulation, asker: NodeId) {
    let servers = servers_at_rest(sim);
    let undecided = sim.observer.borrow_mut().undecided_at_rest(sim.nodes.master, servers);
    for handle in undecided {
        decide(sim, asker, handle);
    }
    let wish = ListLost { limit: LET_GO_MAX, ..ListLost::default() };
    let Ok(Response::ListLost(lost)) = of_master(sim, asker, wish) else { return };
    for chunk in lost.chunks {
        if of_master(sim, asker, LetGoOfLost { handle: chunk.handle }).is_ok() {
            sim.reach("a person lets go of what was kept");
        }
    }
}

/// Has a chunk go on with its best replica; where it is refused, it is tried again later.
fn decide(sim: &mut Simulation, asker: NodeId, handle: ChunkHandle) {
    let wish = Recover { subject: handle.short(), ..Recover::default() };
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
