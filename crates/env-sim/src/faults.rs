//! What can go wrong, done on purpose. Each fault is counted under its name.

use crate::clock::WorldTime;
use crate::disk::SimDisk;
use crate::network::{AnswerForger, StallFilter};
use crate::node::{DeathCause, NodeId, ProcessBoot};
use crate::process::Process;
use crate::queue::ScheduledEvent;
use crate::world::SimWorld;
use std::time::Duration;

/// Each unreadable sector ends one start at most.
const STARTS_MAX: u32 = 16;

impl SimWorld {
    /// Switches a machine on, or its process on again.
    ///
    /// # Errors
    /// What the process said instead of starting.
    pub fn restart(&mut self, node: NodeId) -> Result<(), String> {
        assert!(!self.is_alive(node), "it runs already");
        let seed = self.time.random.next_u64();
        let process = self.boot_process(node, seed)?;
        let it = &mut self.nodes[node.0];
        it.process = Some(process);
        it.life += 1;
        it.death = None;
        it.hello = None;
        it.paused_until = WorldTime(0);
        it.in_batch = false;
        it.busy_lanes.clear();
        let life = it.life;
        self.time.queue.push(self.time.now, ScheduledEvent::Started { node, life });
        self.watch_lives(node, true);
        self.time.reach("process started");
        Ok(())
    }

    /// Starts the process until it is not ended by something that cannot be read.
    fn boot_process(&mut self, node: NodeId, seed: u64) -> Result<Box<dyn Process>, String> {
        let it = &mut self.nodes[node.0];
        for _ in 0..STARTS_MAX {
            let process = (it.factory)(ProcessBoot { node, disks: &it.disks, seed });
            if !it.disks.iter().any(SimDisk::fuse_blown) {
                return process;
            }
            drop(process);
            it.disks.iter().for_each(SimDisk::crash);
            self.time.reach("killed while it started by an unreadable sector under a mapping");
        }
        Err(format!("it was killed by unreadable sectors {STARTS_MAX} times while it started"))
    }

    /// Ends a process at once: what it had not written to its disk is gone, what it wrote is not.
    pub fn kill(&mut self, node: NodeId) {
        self.time.reach("process killed");
        self.die(node, DeathCause::Killed);
        for disk in &self.nodes[node.0].disks {
            disk.crash();
        }
    }

    /// Ends a process by its next disk writes: after `writes` more pages one is cut in the middle.
    pub fn kill_in_write(&mut self, node: NodeId, writes: u64) {
        for disk in &self.nodes[node.0].disks {
            disk.arm_fuse(writes);
        }
    }

    /// The machine loses power: unsynced writes go or stay, each by itself; it boots anew later.
    pub fn power_loss(&mut self, node: NodeId) {
        self.time.reach("power lost");
        self.die(node, DeathCause::PowerLoss);
        for at in 0..self.nodes[node.0].disks.len() {
            let disk = self.nodes[node.0].disks[at].clone();
            disk.power_loss(&mut self.time.random);
        }
        self.boot_clock(node);
    }

    /// A machine's disks go away and come back while it goes on: its process ends, and each
    /// unsynced write goes or stays by itself.
    pub fn outage(&mut self, node: NodeId) {
        self.time.reach("storage outage");
        self.die(node, DeathCause::Killed);
        for disk in &self.nodes[node.0].disks {
            disk.outage(&mut self.time.random);
        }
    }

    /// The machine loses power before any unsynced write has reached its disk.
    pub fn power_loss_of_all_unsynced(&mut self, node: NodeId) {
        self.time.reach("power lost");
        self.die(node, DeathCause::PowerLoss);
        for disk in &self.nodes[node.0].disks {
            disk.power_loss_of_all_unsynced();
        }
        self.boot_clock(node);
    }

    fn boot_clock(&mut self, node: NodeId) {
        self.nodes[node.0].clock.boot(self.time.now, &mut self.time.random);
    }

    fn die(&mut self, node: NodeId, death: DeathCause) {
        let it = &mut self.nodes[node.0];
        it.death = Some(death);
        if it.process.take().is_none() {
            return;
        }
        it.paused_until = WorldTime(0);
        self.time.trace.line(|| format!("{node:?} dies: {death:?}"));
        self.with_network(|network| network.break_all_of(node));
        self.watch_lives(node, false);
    }

    fn watch_lives(&self, node: NodeId, alive: bool) {
        if let Some(watch) = &self.watch {
            watch.borrow_mut().lives(self.time.now, node, alive);
        }
    }

    /// The first request that `chosen` picks does not arrive, nor does anything behind it on its
    /// connection, until [`release`](Self::release): the network holds it, whatever becomes of
    /// the two ends meanwhile.
    pub fn stall(&mut self, chosen: StallFilter) {
        self.network.stall = Some(chosen);
    }

    /// From now on somebody's answers arrive as `forger` tells them: what a peer says that keeps to
    /// the wire and to nothing else.
    pub fn forge(&mut self, forger: AnswerForger) {
        self.network.forger = Some(forger);
    }

    /// All answers arrive as they were given again.
    pub fn forge_no_more(&mut self) {
        self.network.forger = None;
    }

    /// Whether a connection stalls.
    #[must_use]
    pub fn is_stalled(&self) -> bool {
        self.network.connections.values().any(|connection| connection.there.stalled)
    }

    /// What stalled arrives now, late as it is.
    pub fn release(&mut self) {
        self.with_network(|network| network.release());
    }

    /// Breaks the connection that one machine keeps to another, if there is one.
    pub fn break_between(&mut self, from: NodeId, to: NodeId) {
        self.with_network(|network| network.break_between(from, to));
    }

    /// Breaks one of the open connections.
    pub fn break_some_connection(&mut self) {
        self.with_network(|network| network.break_some_connection());
    }

    /// From now on nothing that `from` sends reaches `to`.
    pub fn partition(&mut self, from: NodeId, to: NodeId) {
        if self.network.blocked.insert((from, to)) {
            self.time.reach("one-way partition");
        }
    }

    /// What `from` sends reaches `to` again: what was held goes on, or its connection breaks.
    pub fn heal(&mut self, from: NodeId, to: NodeId) {
        self.with_network(|network| network.heal(from, to));
    }

    /// Ends all partitions.
    pub fn heal_all(&mut self) {
        for (from, to) in self.network.blocked.clone() {
            self.heal(from, to);
        }
    }

    /// The process stands still for a while, between any check and any act.
    pub fn pause(&mut self, node: NodeId, span: Duration) {
        self.time.reach("process paused");
        let until = self.time.now.after(span);
        let it = &mut self.nodes[node.0];
        it.paused_until = it.paused_until.max(until);
    }

    /// Everything that a machine sends or gets takes `times` as long.
    pub fn slow(&mut self, node: NodeId, times: u32) {
        if times > 1 {
            self.time.reach("slow network");
        }
        self.nodes[node.0].slow = times;
    }

    /// A machine's disk work takes `times` as long.
    pub fn slow_disk(&mut self, node: NodeId, times: u32) {
        if times > 1 {
            self.time.reach("slow disk");
        }
        self.nodes[node.0].slow_disk = times;
    }

    /// A machine's wall clock jumps.
    pub fn jump_wall(&mut self, node: NodeId, by_ms: i64) {
        self.time.reach("wall clock jumped");
        self.nodes[node.0].clock.jump_wall(by_ms);
    }

    /// Of a thousand payloads, how many arrive with a bit flipped from now on.
    pub fn corrupt(&mut self, permille: u64) {
        self.time.settings.corrupt_permille = permille;
    }
}
