//! Faults of whole machines and disks (`machine_faults.rs`): when they come and when they end.

use super::FaultInjector;
use crate::fault_endings::FaultEnd;
use crate::simulation::Simulation;
use cairn_env_sim::NodeId;
use std::time::Duration;

impl FaultInjector {
    pub(super) fn jump_wall(sim: &mut Simulation) {
        let node = Self::someone(sim);
        let by = sim.random().below(200_000_000) as i64 - 100_000_000;
        sim.world.jump_wall(node, by);
    }

    pub(super) fn long_pause(sim: &mut Simulation) {
        let (node, span) = (Self::someone(sim), 5_000 + sim.random().below(10_000));
        sim.world.pause(node, Duration::from_millis(span));
    }

    pub(super) fn lost_directory(&mut self, sim: &mut Simulation) {
        let server = Self::some_server(sim);
        if self.machines.pull_directory(sim, server) && sim.random().chance(600) {
            self.later(sim, 8_000, FaultEnd::NewDirectories(server));
        }
    }

    /// While it runs with another's disks, that one runs, too, or is away for some of the time.
    pub(super) fn copied_disk(&mut self, sim: &mut Simulation) {
        let server = Self::some_server(sim);
        let Some(lender) = self.machines.borrow_disks(sim, server) else { return };
        for node in [server, lender] {
            *self.may_halt.entry(node).or_default() += 1;
        }
        self.later(sim, 800, FaultEnd::Restart(server));
        self.later(sim, 20_000, FaultEnd::OwnDisks(server));
        if sim.random().chance(500) {
            self.stop(sim, lender, false);
        }
    }

    pub(super) fn own_disks(&mut self, sim: &mut Simulation, node: NodeId) {
        let Some(lender) = self.machines.give_back(sim, node) else { return };
        // The lender is refused for as long as its copy is taken for alive (R5).
        let rest = 2 * Duration::from_millis(sim.cell_config.dead_ms);
        self.endings.after(sim, rest, FaultEnd::Rested(lender));
        for node in [node, lender] {
            self.must_not_halt(sim, node);
            self.restart(sim, node);
        }
    }
}
