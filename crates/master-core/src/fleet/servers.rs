//! The chunkservers that a master knows: who they are, how full, when last heard of (R5, R6).
//!
//! ```text
//!   Join ──► Live ──silent_ms──► Silent ──dead_ms──► Dead ──► (joins again, or is forgotten)
//!              ▲───── heartbeat ────┘
//!   known to the log, awaited ──────┘
//! ```
//! - V1: a server id has one live incarnation; a second one elsewhere is refused (R5).
//! - V2: a server that died must join again with its inventory before it counts.
//! - V3: all of them together fit one answer; a dead one gives way to a new one.
//! - V4: while the master itself stands still, nobody is silent: whoever could not be heard is not
//!   given up for it.

use super::reach::{Reach, ReachNews};
use super::recent_creations::RecentCreations;
use super::traffic_window::TrafficWindow;
use cairn_env::sum_of;
use cairn_protocol::{
    DISK_COUNT_MAX, DISK_PATH_SIZE_MAX, DiskStatus, ErrorCode, Failure, Heartbeat, Join,
    ListDisksAnswer, MESSAGE_SIZE_MAX, ResourceUse, SERVER_COUNT_MAX, ScrubProgress, ServerDisks,
    ServerDuty, ServerResources, ServerState, ServerStatus, TrafficRates,
};
use cairn_types::planted::{Rule, broken};
use cairn_types::{CellConfig, Incarnation, JoinId, ReplicaAt, ServerId, Time};
use std::collections::BTreeMap;
use std::ops::Bound;
use std::time::Duration;

/// Bytes that an address, or a rack, may have.
const TEXT_SIZE_MAX: usize = 255;

// V3: beside its texts, a server's status is a few numbers.
const _: () = assert!(SERVER_COUNT_MAX * (2 * TEXT_SIZE_MAX + 384) < MESSAGE_SIZE_MAX as usize);

/// Servers whose disks one answer tells of (V3).
const DISKS_PAGE: usize = 128;

const _: () = assert!(
    DISKS_PAGE * (2 * TEXT_SIZE_MAX + DISK_COUNT_MAX * (DISK_PATH_SIZE_MAX + 64) + 64)
        < MESSAGE_SIZE_MAX as usize
);

/// What a server told for people with its last heartbeat.
#[derive(Clone, Debug, Default)]
pub(crate) struct ServerReport {
    /// Bytes of chunks.
    pub(crate) stored: u64,
    disks: Vec<DiskStatus>,
    resources: ResourceUse,
    scrub: ScrubProgress,
}

impl ServerReport {
    /// As far as there is room for it (V3).
    pub(crate) fn of(beat: &Heartbeat) -> Self {
        let fits = |disk: &&DiskStatus| disk.path.len() <= DISK_PATH_SIZE_MAX;
        let disks: Vec<DiskStatus> =
            beat.disks.iter().take(DISK_COUNT_MAX).filter(fits).cloned().collect();
        assert!(disks.len() <= DISK_COUNT_MAX, "a page of them fits a message (V3)");
        Self { stored: beat.stored, disks, resources: *beat.resources, scrub: *beat.scrub }
    }

    fn failed(&self) -> impl Iterator<Item = &DiskStatus> {
        self.disks.iter().filter(|disk| disk.failed)
    }
}

/// One chunkserver.
#[derive(Clone, Debug)]
pub(crate) struct KnownServer {
    pub(crate) at: ReplicaAt,
    pub(crate) incarnation: Incarnation,
    /// Bytes; zero: not told.
    pub(crate) capacity: u64,
    pub(crate) used: u64,
    /// What its last heartbeat told for people.
    pub(crate) report: ServerReport,
    /// What it moves, as its heartbeats tell.
    pub(super) traffic: TrafficWindow,
    /// When it joined last, and when it was last heard of.
    pub(crate) joined: Time,
    pub(crate) heard: Time,
    /// For how long since then the master stood still (V4).
    pub(super) unheard: Duration,
    /// Since when it has been given time to tell what it holds, however often it joined meanwhile.
    gathers: Time,
    /// Its present join, whose inventory is taken.
    pub(crate) join: JoinId,
    /// Slices of its inventory that have come: the number of the next.
    pub(crate) slices: u64,
    /// Chunks out of those that are wanted which it was asked for.
    pub(crate) asked: usize,
    /// When its whole inventory had come.
    pub(crate) inventoried: Option<Time>,
    /// No new chunk has room there, as it says.
    pub(crate) full: bool,
    pub(crate) creations: RecentCreations,
    pub(crate) reach: Reach,
    /// Declared dead; what it held counts no more (V2).
    pub(crate) buried: bool,
    /// The log knows it, and it has not joined in this term.
    pub(crate) awaited: bool,
    /// It was told of as silent, and has said nothing since.
    pub(crate) told_silent: bool,
    /// Whom it took the place of at the same address.
    former: Option<Incarnation>,
}

impl KnownServer {
    /// For how long it could have been heard, and was not (V4).
    fn silence(&self, now: Time) -> Duration {
        now.since(self.heard).saturating_sub(self.unheard)
    }

    /// Its word came.
    pub(super) fn hear(&mut self, now: Time) {
        self.heard = now;
        self.unheard = Duration::ZERO;
        self.told_silent = false;
    }
}

/// All chunkservers.
#[derive(Debug, Default)]
pub(crate) struct ServerTable {
    silent: Duration,
    dead: Duration,
    servers: BTreeMap<ServerId, KnownServer>,
    /// When the master did anything last.
    awake: Time,
    /// There have been servers of more than one rack.
    has_racks: bool,
}

impl ServerTable {
    pub(crate) fn configure(&mut self, config: &CellConfig) {
        self.silent = Duration::from_millis(config.silent_ms);
        let dead_ms = if broken(Rule::R6) { config.silent_ms } else { config.dead_ms };
        self.dead = Duration::from_millis(dead_ms);
        assert!(self.silent <= self.dead, "a server is silent before it is dead (R6)");
    }

    /// The master does something. Where it did nothing for as long as makes a server silent, it was
    /// stopped, or its machine was: that is nobody else's silence (V4).
    pub(crate) fn wake(&mut self, now: Time) {
        let still = now.since(self.awake);
        self.awake = now;
        if still < self.silent {
            return;
        }
        for server in self.servers.values_mut() {
            // Of a server that was heard of after that, only what came later counts.
            server.unheard = (server.unheard + still).min(now.since(server.heard));
        }
    }

    /// Takes a server in, or refuses a second life of one that lives.
    pub(crate) fn join(&mut self, now: Time, join: &Join, id: JoinId) -> Result<(), Failure> {
        self.make_room(join)?;
        if let Some(known) = self.servers.get(&join.at.server)
            && known.incarnation != join.incarnation
            // At the same address it is a restart; but an address is a text, behind which there may
            // be two processes: whoever was replaced comes back only when the other is gone.
            && (known.at.address != join.at.address || known.former == Some(join.incarnation))
            && self.state(now, join.at.server) == Some(ServerState::Live)
            && !broken(Rule::R5)
        {
            let line = format!(
                "server {} joins from {} while another process is it at {}: is its disk a copy of \
                 the other's? give one of them an empty data directory",
                join.at.server, join.at.address, known.at.address
            );
            return Err(Failure::refused(ErrorCode::WrongServer, line));
        }
        let known = self.servers.get(&join.at.server).filter(|known| !known.awaited);
        let former = known.and_then(|known| match known.incarnation == join.incarnation {
            true => known.former,
            false => Some(known.incarnation),
        });
        let untold = known.filter(|known| known.inventoried.is_none());
        let untold = untold.filter(|known| self.state_of(now, known) != ServerState::Dead);
        let gathers = untold.map_or(now, |known| known.gathers);
        let before = known.filter(|known| known.at.address == join.at.address);
        let reach = before.map_or(Reach::begun(now), |known| known.reach.joined_again(now));
        let server = KnownServer {
            at: join.at.clone(),
            incarnation: join.incarnation,
            capacity: join.capacity,
            used: join.used,
            report: ServerReport::default(),
            traffic: TrafficWindow::default(),
            joined: now,
            heard: now,
            unheard: Duration::ZERO,
            gathers,
            join: id,
            slices: 0,
            asked: 0,
            inventoried: None,
            full: false,
            creations: RecentCreations::default(),
            reach,
            buried: false,
            awaited: false,
            told_silent: false,
            former,
        };
        self.note_rack(&join.at);
        self.servers.insert(join.at.server, server);
        assert!(self.servers.len() <= SERVER_COUNT_MAX, "all fit one answer (V3)");
        Ok(())
    }

    /// The log knows a server: it is missed from now on, until it joins.
    pub(crate) fn expect(&mut self, now: Time, at: &ReplicaAt) {
        let server = KnownServer {
            at: at.clone(),
            incarnation: Incarnation::default(),
            capacity: 0,
            used: 0,
            report: ServerReport::default(),
            traffic: TrafficWindow::default(),
            joined: now,
            heard: now,
            unheard: Duration::ZERO,
            gathers: now,
            join: JoinId::default(),
            slices: 0,
            asked: 0,
            inventoried: None,
            full: false,
            creations: RecentCreations::default(),
            reach: Reach::begun(now),
            buried: false,
            awaited: true,
            told_silent: false,
            former: None,
        };
        self.note_rack(at);
        let former = self.servers.insert(at.server, server);
        assert!(former.is_none(), "a term begins with servers that nobody has heard of");
    }

    fn note_rack(&mut self, at: &ReplicaAt) {
        // While all are of one rack, any of them tells it.
        let other = self.servers.values().next();
        self.has_racks |= other.is_some_and(|other| other.at.rack != at.rack);
    }

    /// Whether there are, or were, servers of more than one rack.
    pub(crate) fn has_racks(&self) -> bool {
        self.has_racks
    }

    /// A person says that it will not come back.
    pub(crate) fn forget(&mut self, id: ServerId) {
        self.servers.remove(&id);
    }

    /// Makes room for one more (V3).
    fn make_room(&mut self, join: &Join) -> Result<(), Failure> {
        let (address, rack) = (join.at.address.as_str(), join.at.rack.as_str());
        if address.len().max(rack.len()) > TEXT_SIZE_MAX {
            let line = format!(
                "server {}: its address or its rack has more than {TEXT_SIZE_MAX} bytes",
                join.at.server
            );
            return Err(Failure::refused(ErrorCode::Invalid, line));
        }
        if self.servers.len() < SERVER_COUNT_MAX || self.servers.contains_key(&join.at.server) {
            return Ok(());
        }
        let dead = self.servers.iter().find(|(_, server)| server.buried).map(|(id, _)| *id);
        let dead = dead.ok_or_else(|| {
            let line = format!("the cell has {SERVER_COUNT_MAX} chunkservers, and none is dead");
            Failure::not_done(ErrorCode::Busy, line)
        })?;
        self.servers.remove(&dead);
        Ok(())
    }

    /// The server, if this is its present incarnation and it has not died since it joined.
    pub(crate) fn present(
        &mut self,
        id: ServerId,
        incarnation: Incarnation,
    ) -> Option<&mut KnownServer> {
        let server = self.servers.get_mut(&id)?;
        let present = server.incarnation == incarnation && !server.buried && !server.awaited;
        present.then_some(server)
    }

    pub(crate) fn get(&self, id: ServerId) -> Option<&KnownServer> {
        self.servers.get(&id)
    }

    /// How many there are, dead ones too.
    pub(crate) fn count(&self) -> usize {
        self.servers.len()
    }

    /// All of them.
    pub(crate) fn ids(&self) -> impl Iterator<Item = ServerId> {
        self.servers.keys().copied()
    }

    pub(crate) fn at(&self, id: ServerId) -> Option<&ReplicaAt> {
        self.servers.get(&id).map(|server| &server.at)
    }

    pub(crate) fn state(&self, now: Time, id: ServerId) -> Option<ServerState> {
        self.servers.get(&id).map(|server| self.state_of(now, server))
    }

    /// The same, and where it is.
    pub(crate) fn state_and_place(
        &self,
        now: Time,
        id: ServerId,
    ) -> Option<(ServerState, &ReplicaAt)> {
        self.servers.get(&id).map(|server| (self.state_of(now, server), &server.at))
    }

    fn state_of(&self, now: Time, server: &KnownServer) -> ServerState {
        let silence = server.silence(now);
        if server.buried || silence >= self.dead {
            ServerState::Dead
        } else if silence >= self.silent || server.awaited {
            ServerState::Silent
        } else {
            ServerState::Live
        }
    }

    pub(crate) fn is_live(&self, now: Time, id: ServerId) -> bool {
        self.state(now, id) == Some(ServerState::Live)
    }

    /// Servers that chunks may be placed on.
    pub(crate) fn live(&self, now: Time) -> impl Iterator<Item = &KnownServer> {
        self.servers.values().filter(move |server| self.state_of(now, server) == ServerState::Live)
    }

    /// Whether there is one of which nothing was heard for a moment.
    pub(crate) fn is_some_silent(&self, now: Time) -> bool {
        self.servers.values().any(|server| self.state_of(now, server) == ServerState::Silent)
    }

    /// Servers that have not told in this term what they hold, and are not there to tell it.
    pub(crate) fn absent(&self, now: Time) -> impl Iterator<Item = &ReplicaAt> {
        let absent = move |server: &&KnownServer| {
            server.awaited
                || (server.inventoried.is_none() && self.state_of(now, server) != ServerState::Live)
        };
        self.servers.values().filter(absent).map(|server| &server.at)
    }

    /// Whether a server may still come back with, or tell of, a replica that is not known to be
    /// here: one that is silent, or whose inventory is not complete.
    pub(crate) fn may_tell_more(&self, now: Time, holds: impl Fn(ServerId) -> bool) -> bool {
        self.servers.iter().any(|(id, server)| match self.state_of(now, server) {
            ServerState::Live => server.inventoried.is_none(),
            ServerState::Silent => server.inventoried.is_none() || holds(*id),
            ServerState::Dead => false,
        })
    }

    /// Whether a server's last word is no older than that.
    pub(crate) fn is_heard_within(&self, now: Time, id: ServerId, span: Duration) -> bool {
        self.servers.get(&id).is_some_and(|server| now < server.heard + span)
    }

    /// Whether a server that is not dead has not told yet all that it holds.
    pub(crate) fn is_telling(&self, now: Time) -> bool {
        self.may_tell_more(now, |_| false)
    }

    /// Servers that are telling what they hold.
    pub(crate) fn telling_count(&self) -> usize {
        let telling = |server: &&KnownServer| {
            !server.buried && !server.awaited && server.inventoried.is_none()
        };
        self.servers.values().filter(telling).count()
    }

    /// Whether a server that is not dead has not told yet all that it holds, and not had as long
    /// for that as a server takes to die: one that joins again and again, and never tells, holds
    /// nothing up for longer.
    pub(crate) fn is_gathering(&self, now: Time) -> bool {
        self.servers.values().any(|server| {
            let has_time = now < server.gathers + self.dead;
            let dead = self.state_of(now, server) == ServerState::Dead;
            server.inventoried.is_none() && has_time && !dead
        })
    }

    /// When a server was last heard of that is dead now, of those that are asked for.
    pub(crate) fn dead_heard(&self, now: Time, wanted: impl Fn(ServerId) -> bool) -> Option<Time> {
        let dead = |server: &KnownServer| self.state_of(now, server) == ServerState::Dead;
        let dead = self.servers.iter().filter(|(id, server)| wanted(**id) && dead(server));
        dead.map(|(_, server)| server.heard).max()
    }

    pub(crate) fn placed_on(&mut self, now: Time, id: ServerId) {
        // It may have given way to another one since it was chosen (V3).
        if let Some(server) = self.servers.get_mut(&id) {
            server.creations.add(now);
        }
    }

    /// Servers that have just fallen silent: each is told of once.
    pub(crate) fn newly_silent(&mut self, now: Time) -> Vec<ReplicaAt> {
        let (silent, dead) = (self.silent, self.dead);
        let is_new = |server: &&mut KnownServer| {
            let silence = server.silence(now);
            let told = server.told_silent || server.awaited || server.buried;
            !told && silence >= silent && silence < dead
        };
        let new = self.servers.values_mut().filter(is_new);
        new.map(|server| {
            server.told_silent = true;
            server.at.clone()
        })
        .collect()
    }

    /// Live servers that are to be asked whether they are reached (RK1): which join of each.
    pub(crate) fn take_to_probe(&mut self, now: Time) -> Vec<(ReplicaAt, JoinId)> {
        let live: Vec<ServerId> = self.live(now).map(|it| it.at.server).collect();
        let mut due = Vec::new();
        for id in live {
            let server = self.servers.get_mut(&id).expect("it lives");
            if server.reach.is_due(now) {
                server.reach.is_asked();
                due.push((server.at.clone(), server.join));
            }
        }
        due
    }

    /// One was asked whether it is reached, and answered or did not; it may have joined anew since.
    pub(crate) fn note_reach(
        &mut self,
        (now, heartbeat): (Time, Duration),
        (id, join): (ServerId, JoinId),
        result: Result<(), &Failure>,
    ) -> ReachNews {
        let (silent, dead) = (self.silent, self.dead);
        match self.servers.get_mut(&id).filter(|server| server.join == join) {
            Some(server) => server.reach.note(now, (heartbeat, silent, dead), result),
            None => ReachNews::Nothing,
        }
    }

    fn is_unreached(&self, now: Time, server: &KnownServer) -> bool {
        server.reach.is_unreached() && self.state_of(now, server) == ServerState::Live
    }

    /// Live servers that are not reached at the address that they give, and why not (RK2).
    pub(crate) fn unreached(&self, now: Time) -> impl Iterator<Item = (&ReplicaAt, &str)> {
        self.live(now).filter_map(|server| Some((&server.at, server.reach.why()?)))
    }

    /// Declares dead whoever has been silent for that long; tells whom (V2).
    pub(crate) fn bury(&mut self, now: Time) -> Vec<ServerId> {
        let dead = self.dead;
        let lost = self
            .servers
            .iter_mut()
            .filter(|(_, server)| !server.buried && server.silence(now) >= dead);
        lost.map(|(id, server)| {
            server.buried = true;
            *id
        })
        .collect()
    }

    /// For people, in order of address.
    pub(crate) fn describe(
        &self,
        now: Time,
        counts: impl Fn(ServerId) -> (u64, u64),
    ) -> Vec<ServerStatus> {
        let status = |(id, server): (&ServerId, &KnownServer)| {
            let (chunk_count, lease_count) = counts(*id);
            let age = now.since(server.heard).as_millis();
            ServerStatus {
                at: server.at.clone(),
                state: self.state_of(now, server),
                capacity: server.capacity,
                used: server.used,
                chunk_count,
                lease_count,
                heartbeat_age_ms: u64::try_from(age).unwrap_or(u64::MAX),
                stored: server.report.stored,
                disk_count: server.report.disks.len() as u64,
                disk_failed_count: server.report.failed().count() as u64,
                bad_count: 0,
                traffic: self.traffic_of(now, server),
                scrub: server.report.scrub,
                duty: ServerDuty::default(),
                full: server.full,
                unreached: self.is_unreached(now, server),
            }
        };
        let mut all: Vec<ServerStatus> = self.servers.iter().map(status).collect();
        all.sort_by(|a, b| a.at.address.cmp(&b.at.address));
        all
    }

    /// What a server moves a second: nothing that is known while it is silent.
    fn traffic_of(&self, now: Time, server: &KnownServer) -> TrafficRates {
        match self.state_of(now, server) {
            ServerState::Live => server.traffic.rates(),
            ServerState::Silent | ServerState::Dead => TrafficRates::default(),
        }
    }

    /// What all servers move a second.
    pub(crate) fn traffic(&self, now: Time) -> TrafficRates {
        let each = self.servers.values().map(|server| self.traffic_of(now, server));
        each.fold(TrafficRates::default(), TrafficRates::plus)
    }

    /// How many servers there are that are not dead, and how many of them have told in this term
    /// all that they hold.
    pub(crate) fn told_count(&self, now: Time) -> (usize, usize) {
        let dead = |server: &&KnownServer| self.state_of(now, server) != ServerState::Dead;
        let there = self.servers.values().filter(dead);
        let told = there.clone().filter(|server| server.inventoried.is_some()).count();
        (there.count(), told)
    }

    /// What each server that is not dead takes of its machine, in order of address.
    pub(crate) fn resources(&self, now: Time) -> Vec<ServerResources> {
        let there = self
            .servers
            .values()
            .filter(|server| !server.awaited && self.state_of(now, server) != ServerState::Dead);
        let told = |server: &KnownServer| ServerResources {
            at: server.at.clone(),
            resources: server.report.resources,
        };
        let mut all: Vec<ServerResources> = there.map(told).collect();
        all.sort_by(|a, b| a.at.address.cmp(&b.at.address));
        all
    }

    /// The data directories of the servers behind `after`, a page of them (V3).
    pub(crate) fn disks(&self, after: ServerId) -> ListDisksAnswer {
        let mut answer = ListDisksAnswer::default();
        let behind = (Bound::Excluded(after), Bound::Unbounded);
        for (id, server) in self.servers.range(behind) {
            assert!(answer.servers.len() <= DISKS_PAGE, "a page fits a message (V3)");
            if answer.servers.len() == DISKS_PAGE {
                return answer;
            }
            let disks = server.report.disks.clone();
            answer.servers.push(ServerDisks { at: server.at.clone(), disks });
            answer.resume = Some(*id);
        }
        answer.resume = None;
        answer
    }

    /// Capacity and use of the file systems under live servers, each counted once, and the bytes
    /// of chunks that they store.
    pub(crate) fn room(&self, now: Time) -> (u64, u64, u64) {
        let (mut capacity, mut used) =
            sum_of(self.live(now).flat_map(|server| &server.report.disks));
        let mut stored: u64 = 0;
        for server in self.live(now) {
            stored = stored.saturating_add(server.report.stored);
            // It has joined, and not told of its disks yet.
            if server.report.disks.is_empty() {
                capacity = capacity.saturating_add(server.capacity);
                used = used.saturating_add(server.used);
            }
        }
        (capacity, used, stored)
    }

    /// Data directories that are of no more use, and whose they are.
    pub(crate) fn failed_disks(&self) -> impl Iterator<Item = (&ReplicaAt, &DiskStatus)> {
        let there = self.servers.values().filter(|server| !server.buried);
        there.flat_map(|server| server.report.failed().map(|disk| (&server.at, disk)))
    }
}

#[cfg(test)]
mod tests {
    use super::ServerTable;
    use cairn_protocol::{ErrorCode, Failure, Join, MESSAGE_SIZE_MAX, ServerState, ServersAnswer};
    use cairn_types::wire::Message;
    use cairn_types::{Address, CellConfig, Incarnation, JoinId, Rack, ReplicaAt, ServerId, Time};
    use std::time::Duration;

    fn join(address: &str, incarnation: u64) -> Join {
        let server = ServerId::new(1);
        let at = ReplicaAt { server, address: Address::new(address), ..ReplicaAt::default() };
        Join { at, incarnation: Incarnation::new(incarnation), ..Join::default() }
    }

    fn servers() -> ServerTable {
        let mut servers = ServerTable::default();
        servers.configure(&CellConfig::small());
        servers
    }

    fn at(millis: u64) -> Time {
        Time::default() + Duration::from_millis(millis)
    }

    #[test]
    fn a_server_that_the_log_knows_is_missed_until_it_joins_or_is_forgotten() {
        let mut servers = servers();
        let id = ServerId::new(1);
        servers.expect(at(0), &join("a:1", 0).at);
        assert_eq!(servers.state(at(1), id), Some(ServerState::Silent));
        assert!(servers.present(id, Incarnation::default()).is_none(), "nobody is it yet");
        assert_eq!(servers.telling_count(), 0, "it tells nothing");
        assert!(servers.may_tell_more(at(1), |_| false), "it may");
        assert_eq!(servers.bury(at(4000)), [id]);
        assert_eq!(servers.state(at(4000), id), Some(ServerState::Dead));
        servers.join(at(4001), &join("b:1", 10), JoinId::default()).unwrap();
        assert_eq!(servers.state(at(4001), id), Some(ServerState::Live));
        servers.forget(id);
        assert_eq!(servers.state(at(4001), id), None);
    }

    #[test]
    fn a_second_life_elsewhere_is_refused_while_the_first_lives_and_a_restart_is_not() {
        let mut servers = servers();
        assert_eq!(servers.join(at(0), &join("a:1", 10), JoinId::default()), Ok(()));
        let twin = servers
            .join(at(500), &join("b:1", 11), JoinId::default())
            .map_err(|failure| failure.code);
        assert_eq!(twin, Err(ErrorCode::WrongServer));
        assert_eq!(servers.join(at(500), &join("a:1", 12), JoinId::default()), Ok(()));
        let ousted = servers.join(at(600), &join("a:1", 10), JoinId::default());
        let ousted = ousted.map_err(|failure| failure.code);
        assert_eq!(ousted, Err(ErrorCode::WrongServer), "two processes behind one name");
        assert_eq!(
            servers.join(at(1500), &join("b:1", 13), JoinId::default()),
            Ok(()),
            "the first is silent"
        );
        assert!(servers.present(ServerId::new(1), Incarnation::new(12)).is_none());
    }

    #[test]
    fn the_servers_of_a_full_cell_fit_a_message_and_a_dead_one_gives_way() {
        let mut servers = servers();
        let joins = |id: u64, text: usize| {
            let text = |start: &str| format!("{start}{id}{}", "x".repeat(text));
            let (server, address, rack) =
                (ServerId::new(id), Address::new(text("a")), Rack::new(text("/")));
            Join { at: ReplicaAt { server, address, rack }, ..Join::default() }
        };
        let code = |result: Result<(), Failure>| result.map_err(|failure| failure.code);
        assert_eq!(
            code(servers.join(at(0), &joins(1, 300), JoinId::default())),
            Err(ErrorCode::Invalid)
        );
        for id in 1..=4096 {
            servers.join(at(u64::from(id > 1)), &joins(id, 250), JoinId::default()).unwrap();
        }
        let all = ServersAnswer { servers: servers.describe(at(1), |_| (1 << 30, 1 << 30)) };
        assert!(all.to_bytes().len() < MESSAGE_SIZE_MAX as usize);
        assert_eq!(
            code(servers.join(at(1), &joins(5000, 1), JoinId::default())),
            Err(ErrorCode::Busy)
        );
        assert_eq!(servers.bury(at(4000)), [ServerId::new(1)]);
        assert_eq!(code(servers.join(at(4000), &joins(5000, 1), JoinId::default())), Ok(()));
        assert_eq!(servers.describe(at(4000), |_| (0, 0)).len(), 4096);
    }

    #[test]
    fn silence_makes_a_server_silent_and_then_dead_until_it_joins_again() {
        let mut servers = servers();
        servers.join(at(0), &join("a:1", 10), JoinId::default()).unwrap();
        let id = ServerId::new(1);
        assert_eq!(servers.state(at(999), id), Some(ServerState::Live));
        assert_eq!(servers.state(at(1000), id), Some(ServerState::Silent));
        assert_eq!(servers.bury(at(3999)), []);
        assert_eq!(servers.bury(at(4000)), [id]);
        assert!(servers.present(id, Incarnation::new(10)).is_none(), "it must join again");
        servers.join(at(4001), &join("a:1", 10), JoinId::default()).unwrap();
        assert_eq!(servers.state(at(4001), id), Some(ServerState::Live));
    }

    #[test]
    fn a_master_that_stood_still_takes_its_own_silence_for_nobodys() {
        let mut servers = servers();
        let id = ServerId::new(1);
        servers.wake(at(0));
        servers.join(at(0), &join("a:1", 10), JoinId::default()).unwrap();
        servers.wake(at(600));
        // From here on the master was stopped for twice as long as it takes to die.
        servers.wake(at(8_600));
        assert_eq!(servers.state(at(8_600), id), Some(ServerState::Live));
        assert_eq!(servers.bury(at(8_600)), []);
        assert!(
            !servers.is_heard_within(at(8_600), id, Duration::from_secs(8)),
            "it was not heard"
        );
        // What it says nothing for now counts, and what it said nothing for before.
        for now in (8_700..12_000).step_by(250) {
            servers.wake(at(now));
        }
        assert_eq!(servers.state(at(9_000), id), Some(ServerState::Silent));
        assert_eq!(servers.bury(at(11_999)), []);
        assert_eq!(servers.bury(at(12_000)), [id]);
    }
}
