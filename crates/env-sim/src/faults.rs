//! What can go wrong, done on purpose. Each fault is counted under its name.

use crate::clock::WorldTime;
use crate::network::{Direction, Ends, Frame, State};
use crate::queue::Happening;
use crate::world::{Boot, NodeId, SimWorld, Stall};
use cairn_env::ConnectionId;
use std::time::Duration;

/// How a process ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Death {
    /// The process alone (kill −9, a halt): the page cache stays, its peers are told at once.
    Killed,
    /// The machine: unsynced writes are lost in any order, nobody is told.
    PowerLoss,
}

impl SimWorld {
    /// Switches a machine on, or its process on again.
    ///
    /// # Errors
    /// What the process said instead of starting.
    pub fn restart(&mut self, node: NodeId) -> Result<(), String> {
        assert!(!self.is_alive(node), "it runs already");
        let seed = self.random.next_u64();
        let it = &mut self.nodes[node.0];
        let machine = (it.factory)(Boot { node, disks: &it.disks, seed })?;
        it.machine = Some(machine);
        it.life += 1;
        it.death = None;
        it.hello = None;
        it.paused_until = WorldTime(0);
        it.in_turn = false;
        it.busy_lanes.clear();
        let life = it.life;
        self.queue.push(self.now, Happening::Started { node, life });
        self.watch_lives(node, true);
        self.reach("process started");
        Ok(())
    }

    /// Ends a process at once: what it had not written to its disk is gone, what it wrote is not.
    pub fn kill(&mut self, node: NodeId) {
        self.reach("process killed");
        self.die(node, Death::Killed);
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
        self.reach("power lost");
        self.die(node, Death::PowerLoss);
        for at in 0..self.nodes[node.0].disks.len() {
            let disk = self.nodes[node.0].disks[at].clone();
            disk.power_loss(&mut self.random);
        }
        self.boot_clock(node);
    }

    /// The machine loses power before any unsynced write has reached its disk.
    pub fn power_loss_of_all_unsynced(&mut self, node: NodeId) {
        self.reach("power lost");
        self.die(node, Death::PowerLoss);
        for disk in &self.nodes[node.0].disks {
            disk.power_loss_of_all_unsynced();
        }
        self.boot_clock(node);
    }

    fn boot_clock(&mut self, node: NodeId) {
        let now = self.now;
        let mut random = self.random.clone();
        self.nodes[node.0].clock.boot(now, &mut random);
        self.random = random;
    }

    fn die(&mut self, node: NodeId, death: Death) {
        let it = &mut self.nodes[node.0];
        it.death = Some(death);
        if it.machine.take().is_none() {
            return;
        }
        it.paused_until = WorldTime(0);
        self.trace.line(|| format!("{node:?} dies: {death:?}"));
        let touched: Vec<ConnectionId> = self
            .connections
            .values()
            .filter(|connection| connection.from == node || connection.to == node)
            .map(|connection| connection.id)
            .collect();
        for id in touched {
            self.break_connection(id);
        }
        self.kept.retain(|(from, _), _| *from != node);
        self.watch_lives(node, false);
    }

    fn watch_lives(&self, node: NodeId, alive: bool) {
        if let Some(watch) = &self.watch {
            watch.borrow_mut().lives(self.now, node, alive);
        }
    }

    /// Breaks one connection after an unknown prefix of what is under way (E4, N2).
    pub(crate) fn break_connection(&mut self, id: ConnectionId) {
        let now = self.now;
        let Some(connection) = self.connections.get(&id) else { return };
        if connection.state == State::Broken {
            return;
        }
        let to = connection.to;
        let silent =
            self.nodes[to.0].death == Some(Death::PowerLoss) && self.nodes[to.0].machine.is_none();
        self.cut_pipe(id, Direction::There);
        self.cut_pipe(id, Direction::Back);
        if self.random.chance(250) {
            let late = Duration::from_micros(self.random.below(3_000_000));
            self.connections.get_mut(&id).expect("here").there.hold_until = now.after(late);
        }
        let tell = if silent { self.random.below(5_000) } else { self.random.below(2) };
        let tell = Duration::from_millis(tell) + self.settings.latency_min;
        let connection = self.connections.get_mut(&id).expect("here");
        connection.state = State::Broken;
        let dialler = connection.back.last_arrival.max(now).after(tell);
        let listener = connection.there.last_arrival.max(connection.there.hold_until).max(now);
        let listener = listener.after(self.settings.latency_max);
        self.queue.push(dialler, Happening::Lost { connection: id, end: Ends::Dialler });
        self.queue.push(listener, Happening::Lost { connection: id, end: Ends::Listener });
    }

    fn cut_pipe(&mut self, id: ConnectionId, direction: Direction) {
        let pipe = self.connections.get_mut(&id).expect("here").pipe(direction);
        if pipe.stalled {
            return;
        }
        pipe.held.clear();
        let keep = self.random.below(pipe.in_flight.len() as u64 + 1);
        pipe.in_flight.truncate(usize::try_from(keep).expect("at most what was there"));
    }

    /// The first request that `chosen` picks does not arrive, nor does anything behind it on its
    /// connection, until [`release`](Self::release): the network holds it, whatever becomes of
    /// the two ends meanwhile.
    pub fn stall(&mut self, chosen: Stall) {
        self.stall = Some(chosen);
    }

    /// Whether a connection stalls.
    #[must_use]
    pub fn is_stalled(&self) -> bool {
        self.connections.values().any(|connection| connection.there.stalled)
    }

    pub(crate) fn stall_at(&mut self, id: ConnectionId, frame: Frame) {
        self.reach("connection stalled");
        self.stall = None;
        let there = &mut self.connections.get_mut(&id).expect("it delivers").there;
        there.stalled = true;
        there.in_flight.push_front(frame);
    }

    /// What stalled arrives now, late as it is.
    pub fn release(&mut self) {
        self.stall = None;
        let at = self.now;
        for connection in self.connections.values_mut().filter(|it| it.there.stalled) {
            // Late enough: in front of the news that the connection is gone (N1).
            (connection.there.stalled, connection.there.hold_until) = (false, at);
            let id = connection.id;
            for _ in 0..connection.there.in_flight.len() {
                let direction = Direction::There;
                self.queue.push(at, Happening::Deliver { connection: id, direction });
            }
            if connection.state == State::Broken {
                self.queue.push(at, Happening::Lost { connection: id, end: Ends::Listener });
            }
        }
    }

    /// Breaks the connection that one machine keeps to another, if there is one.
    pub fn break_between(&mut self, from: NodeId, to: NodeId) {
        if let Some(id) = self.kept.get(&(from, to)).copied() {
            self.reach("connection broken");
            self.break_connection(id);
        }
    }

    /// Breaks one of the open connections.
    pub fn break_some_connection(&mut self) {
        let open: Vec<ConnectionId> = self
            .connections
            .values()
            .filter(|connection| connection.state != State::Broken)
            .map(|connection| connection.id)
            .collect();
        if let Some(id) = self.random.pick(&open).copied() {
            self.reach("connection broken");
            self.break_connection(id);
        }
    }

    /// From now on nothing that `from` sends reaches `to`.
    pub fn partition(&mut self, from: NodeId, to: NodeId) {
        if self.blocked.insert((from, to)) {
            self.reach("one-way partition");
        }
    }

    /// What `from` sends reaches `to` again: what was held goes on, or its connection breaks.
    pub fn heal(&mut self, from: NodeId, to: NodeId) {
        if !self.blocked.remove(&(from, to)) {
            return;
        }
        let held: Vec<(ConnectionId, Direction)> = self
            .connections
            .values()
            .flat_map(|c| [(c, Direction::There), (c, Direction::Back)])
            .filter(|(c, direction)| c.ends(*direction) == (from, to))
            .map(|(c, direction)| (c.id, direction))
            .collect();
        for (id, direction) in held {
            let pipe = self.connections.get_mut(&id).expect("listed above").pipe(direction);
            let frames = std::mem::take(&mut pipe.held);
            if frames.is_empty() {
                continue;
            }
            if self.random.chance(300) {
                self.break_connection(id);
                continue;
            }
            self.reach("frames held by a partition arrived late");
            for frame in frames {
                self.send(id, direction, frame);
            }
        }
    }

    /// Ends all partitions.
    pub fn heal_all(&mut self) {
        for (from, to) in self.blocked.clone() {
            self.heal(from, to);
        }
    }

    /// The process stands still for a while, between any check and any act.
    pub fn pause(&mut self, node: NodeId, span: Duration) {
        self.reach("process paused");
        let until = self.now.after(span);
        let it = &mut self.nodes[node.0];
        it.paused_until = it.paused_until.max(until);
    }

    /// Everything that a machine sends or gets takes `times` as long.
    pub fn slow(&mut self, node: NodeId, times: u32) {
        if times > 1 {
            self.reach("slow network");
        }
        self.nodes[node.0].slow = times;
    }

    /// A machine's disk work takes `times` as long.
    pub fn slow_disk(&mut self, node: NodeId, times: u32) {
        if times > 1 {
            self.reach("slow disk");
        }
        self.nodes[node.0].slow_disk = times;
    }

    /// A machine's wall clock jumps.
    pub fn jump_wall(&mut self, node: NodeId, by_ms: i64) {
        self.reach("wall clock jumped");
        self.nodes[node.0].clock.jump_wall(by_ms);
    }

    /// Of a thousand payloads, how many arrive with a bit flipped from now on.
    pub fn corrupt(&mut self, permille: u64) {
        self.settings.corrupt_permille = permille;
    }
}
