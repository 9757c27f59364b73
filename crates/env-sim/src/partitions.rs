//! What can go wrong with connections: they break after any prefix, stall, or carry nothing one
//! way (N2).

use crate::network::{
    ConnectionEnd, ConnectionState, Direction, KeptWay, NetworkHandler, SimFrame,
};
use crate::node::{DeathCause, NodeId};
use crate::queue::ScheduledEvent;
use cairn_env::ConnectionId;
use std::time::Duration;

impl NetworkHandler<'_> {
    /// Breaks all connections of a machine whose process has died.
    pub(crate) fn break_all_of(&mut self, node: NodeId) {
        let touched: Vec<ConnectionId> = self
            .network
            .connections
            .values()
            .filter(|connection| connection.from == node || connection.to == node)
            .map(|connection| connection.id)
            .collect();
        for id in touched {
            self.break_connection(id);
        }
        self.network.kept.retain(|way, _| way.from != node);
    }

    /// Breaks one connection after an unknown prefix of what is under way (E4, N2).
    pub(crate) fn break_connection(&mut self, id: ConnectionId) {
        let now = self.time.now;
        // Both ends know already that it is gone (C1).
        let Some(connection) = self.network.connections.get(&id) else { return };
        if connection.state == ConnectionState::Broken {
            return;
        }
        let to = connection.to;
        let silent = self.nodes[to.0].death == Some(DeathCause::PowerLoss)
            && self.nodes[to.0].process.is_none();
        self.cut_pipe(id, Direction::There);
        self.cut_pipe(id, Direction::Back);
        if self.time.random.chance(250) {
            let late = Duration::from_micros(self.time.random.below(3_000_000));
            self.network.connections.get_mut(&id).expect("here").there.hold_until = now.after(late);
        }
        let tell = if silent { self.time.random.below(5_000) } else { self.time.random.below(2) };
        let tell = Duration::from_millis(tell) + self.time.settings.latency_min;
        let connection = self.network.connections.get_mut(&id).expect("here");
        connection.state = ConnectionState::Broken;
        let dialler = connection.back.last_arrival.max(now).after(tell);
        let listener = connection.there.last_arrival.max(connection.there.hold_until).max(now);
        let listener = listener.after(self.time.settings.latency_max);
        self.time
            .queue
            .push(dialler, ScheduledEvent::Lost { connection: id, end: ConnectionEnd::Dialler });
        self.time
            .queue
            .push(listener, ScheduledEvent::Lost { connection: id, end: ConnectionEnd::Listener });
    }

    fn cut_pipe(&mut self, id: ConnectionId, direction: Direction) {
        let pipe = self.network.connections.get_mut(&id).expect("here").pipe(direction);
        if pipe.stalled {
            return;
        }
        pipe.held.clear();
        let keep = self.time.random.below(pipe.in_flight.len() as u64 + 1);
        pipe.in_flight.truncate(usize::try_from(keep).expect("at most what was there"));
    }

    pub(crate) fn stall_at(&mut self, id: ConnectionId, frame: SimFrame) {
        self.time.reach("connection stalled");
        self.network.stall = None;
        let there = &mut self.network.connections.get_mut(&id).expect("it delivers").there;
        there.stalled = true;
        there.in_flight.push_front(frame);
    }

    /// What stalled arrives now, late as it is.
    pub(crate) fn release(&mut self) {
        self.network.stall = None;
        let at = self.time.now;
        for connection in self.network.connections.values_mut().filter(|it| it.there.stalled) {
            // Late enough: in front of the news that the connection is gone (N1).
            (connection.there.stalled, connection.there.hold_until) = (false, at);
            let id = connection.id;
            for _ in 0..connection.there.in_flight.len() {
                let direction = Direction::There;
                self.time.queue.push(at, ScheduledEvent::Deliver { connection: id, direction });
            }
            if connection.state == ConnectionState::Broken {
                self.time.queue.push(
                    at,
                    ScheduledEvent::Lost { connection: id, end: ConnectionEnd::Listener },
                );
            }
        }
    }

    /// Breaks the connections that one machine keeps to another, if there are any.
    pub(crate) fn break_between(&mut self, from: NodeId, to: NodeId) {
        for pushes in [false, true] {
            if let Some(id) = self.network.kept.get(&KeptWay { from, to, pushes }).copied() {
                self.time.reach("connection broken");
                self.break_connection(id);
            }
        }
    }

    /// Breaks one of the open connections.
    pub(crate) fn break_some_connection(&mut self) {
        let open: Vec<ConnectionId> = self
            .network
            .connections
            .values()
            .filter(|connection| connection.state != ConnectionState::Broken)
            .map(|connection| connection.id)
            .collect();
        if let Some(id) = self.time.random.pick(&open).copied() {
            self.time.reach("connection broken");
            self.break_connection(id);
        }
    }

    /// What `from` sends reaches `to` again: what was held goes on, or its connection breaks.
    pub(crate) fn heal(&mut self, from: NodeId, to: NodeId) {
        if !self.network.blocked.remove(&(from, to)) {
            return;
        }
        let held: Vec<(ConnectionId, Direction)> = self
            .network
            .connections
            .values()
            .flat_map(|c| [(c, Direction::There), (c, Direction::Back)])
            .filter(|(c, direction)| c.ends(*direction) == (from, to))
            .map(|(c, direction)| (c.id, direction))
            .collect();
        for (id, direction) in held {
            let pipe = self.network.connections.get_mut(&id).expect("listed above").pipe(direction);
            let frames = std::mem::take(&mut pipe.held);
            if frames.is_empty() {
                continue;
            }
            if self.time.random.chance(300) {
                self.break_connection(id);
                continue;
            }
            self.time.reach("frames held by a partition arrived late");
            for frame in frames {
                self.send(id, direction, frame);
            }
        }
    }
}
