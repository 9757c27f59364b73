//! One chunkserver's replicas behind one entrance.

use crate::master_link::{MasterLink, Stage};
use crate::outbox::{Outbox, Purpose, lane_of};
use crate::replica::{Context, Replica, Waiting};
use cairn_env::{
    Caller, ChunkDone, ChunkJob, ChunkResult, Completion, Effect, EffectId, Event, Now, Space,
};
use cairn_protocol::{ErrorCode, Failure, Raise, ReplicaReport, Request, Response};
use cairn_types::{
    Address, CellConfig, CellId, ChunkHandle, ChunkVersion, Incarnation, ReplicaAt, ServerId, Term,
    Time,
};
use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

/// The one answer that a request can have; anything else is the other side's defect.
macro_rules! expect {
    ($result:expr, $rpc:ident) => {
        $result.and_then(|response| match response {
            Response::$rpc(answer) => Ok(answer),
            _ => Err(Failure::unknown(ErrorCode::Internal, "an answer of another kind")),
        })
    };
}

/// How often a chunkserver looks around: lease ends, heartbeats, news for idle secondaries.
const TICK: Duration = Duration::from_millis(50);

/// How long a replica must have been left alone to be brought to disk. As long as the kernel lets
/// a page be dirty, so that there is little left to write.
const SYNC_AFTER: Duration = Duration::from_secs(30);
/// Replicas brought to disk in one tick.
const SYNC_AT_ONCE: usize = 2;

/// Who this server is and whom it serves.
#[derive(Clone, Debug)]
pub struct ChunkCoreConfig {
    /// Its id, its address as others reach it, its rack.
    pub at: ReplicaAt,
    /// Drawn at this start (R5).
    pub incarnation: Incarnation,
    /// The cell's masters.
    pub masters: Vec<Address>,
    /// The cell it belongs to; none before its first join.
    pub cell: CellId,
    /// The highest term it has heard of (R2).
    pub term: Term,
    /// The highest handle that its disks have ever seen (R1).
    pub highest_handle: ChunkHandle,
    /// The highest version that its disks have ever seen (R1).
    pub highest_version: ChunkVersion,
}

/// The state machine of a chunkserver.
#[derive(Debug)]
pub struct ChunkCore {
    pub(crate) settings: ChunkCoreConfig,
    pub(crate) config: CellConfig,
    /// The master has told the cell's settings; nothing is served before, for nobody knows yet how
    /// large a chunk is and how long a lease lasts.
    pub(crate) knows_config: bool,
    pub(crate) replicas: BTreeMap<ChunkHandle, Replica>,
    /// Replicas that hold a lease or are damaged, and those touched since the last tick: what
    /// ticks and heartbeats look at. Others may be millions.
    pub(crate) watched: BTreeSet<ChunkHandle>,
    pub(crate) out: Outbox,
    pub(crate) link: MasterLink,
    /// Replicas that changed since they were last brought to disk, and when.
    unsynced: BTreeMap<ChunkHandle, Time>,
}

impl ChunkCore {
    /// A server that has just started with what its data directories hold.
    #[must_use]
    pub fn new(settings: ChunkCoreConfig, recovered: &[ReplicaReport], space: Space) -> Self {
        let replicas = recovered
            .iter()
            .map(|recovered| (recovered.handle, Replica::from_recovered(recovered)))
            .collect();
        let link = MasterLink {
            stage: Stage::Away(Time::default()),
            inventory: None,
            term: settings.term,
            cell: settings.cell,
            space,
            which: 0,
            beats: 0,
            held_after: ChunkHandle::default(),
            refused_since: None,
            away_since: None,
            said: String::new(),
            changed: BTreeSet::new(),
            heard: Time::default(),
        };
        // Until the master says otherwise; no mutation is served before it has.
        let config = CellConfig::standard();
        let out = Outbox::default();
        let sound = recovered.iter().filter(|recovered| !recovered.suspect);
        let unsynced = sound.map(|recovered| (recovered.handle, Time::default())).collect();
        let watched = BTreeSet::new();
        Self { settings, config, knows_config: false, replicas, watched, out, link, unsynced }
    }

    /// The cell's settings, as far as known.
    #[must_use]
    pub fn config(&self) -> &CellConfig {
        &self.config
    }

    /// The server's id.
    #[must_use]
    pub fn server(&self) -> ServerId {
        self.settings.at.server
    }

    /// A data directory is gone, and these replicas with it (R27). Whoever waits for them is told.
    pub fn lose(&mut self, now: Now, handles: &[ChunkHandle]) {
        handles.iter().for_each(|handle| self.forget(now, *handle, "its data directory failed"));
    }

    /// A replica is no longer here.
    fn forget(&mut self, now: Now, handle: ChunkHandle, why: &str) {
        if let Some((replica, mut cx)) = self.replica(now, handle) {
            replica.abandon(&mut cx, why);
        }
        self.replicas.remove(&handle);
        self.watched.remove(&handle);
        self.unsynced.remove(&handle);
    }

    /// Takes one event; what is to be done is pushed to `effects`.
    pub fn step(
        &mut self,
        now: Now,
        event: Event<(), ChunkResult>,
        effects: &mut Vec<Effect<ChunkJob>>,
    ) {
        match event {
            Event::Started => {
                self.identify();
                self.out.wake(Purpose::Tick, now.time + TICK);
                self.tick_link(now);
            }
            Event::Request { from, request } => self.on_request(now, from, request),
            Event::Disconnected { connection } => {
                for handle in &self.watched {
                    if let Some(replica) = self.replicas.get_mut(handle) {
                        replica.forget_connection(connection);
                    }
                }
            }
            Event::Completed { id, result } => self.on_completed(now, id, result),
            Event::Command(()) => {}
        }
        self.out.drain(effects);
    }

    pub(crate) fn master_address(&self) -> Address {
        let masters = &self.settings.masters;
        masters[self.link.which % masters.len()].clone()
    }

    pub(crate) fn context<'a>(
        now: Now,
        config: &'a CellConfig,
        out: &'a mut Outbox,
        settings: &'a ChunkCoreConfig,
        link: &MasterLink,
    ) -> Context<'a> {
        let master = &settings.masters[link.which % settings.masters.len()];
        Context { now: now.time, config, out, me: settings.at.server, master }
    }

    /// A replica, and what decisions about it may look at. From here on it is watched.
    pub(crate) fn replica(
        &mut self,
        now: Now,
        handle: ChunkHandle,
    ) -> Option<(&mut Replica, Context<'_>)> {
        let cx = Self::context(now, &self.config, &mut self.out, &self.settings, &self.link);
        let replica = self.replicas.get_mut(&handle)?;
        self.watched.insert(handle);
        Some((replica, cx))
    }

    fn on_request(&mut self, now: Now, from: Caller, request: Request) {
        let handle = match self.admit(&request) {
            Ok(handle) => handle,
            Err(failure) => return self.out.refuse(from, failure),
        };
        if let Request::Raise(raise) = &request
            && raise.create
            && let Err(failure) = self.create(raise)
        {
            return self.out.refuse(from, failure);
        }
        let Some((replica, mut cx)) = self.replica(now, handle) else {
            let why = format!("chunk {} is not on this server", handle.short());
            return self.out.refuse(from, Failure::not_done(ErrorCode::NoSuchChunk, why));
        };
        let cx = &mut cx;
        match request {
            Request::Raise(raise) => replica.enqueue(cx, Waiting::Raise(from, raise)),
            Request::GrantLease(grant) => {
                replica.enqueue(cx, Waiting::Grant(from, Box::new(grant)))
            }
            Request::Forward(forward) => replica.enqueue(cx, Waiting::Forward(from, forward)),
            Request::RevokeLease(revoke) => replica.on_revoke(cx, from, &revoke),
            Request::Probe(probe) => replica.on_probe(cx, from, &probe),
            Request::Write(write) => replica.on_write(cx, from, write),
            Request::Append(append) => replica.on_append(cx, from, append),
            Request::Read(read) => replica.on_read(cx, from, &read),
            Request::ChunkLength(ask) => replica.on_length(cx, from, &ask),
            Request::SyncChunk(sync) => replica.on_sync(cx, from, &sync),
            Request::Acknowledged(notice) => replica.on_acknowledged(cx, from, &notice),
            _ => {}
        }
    }

    /// Which chunk a request is about, once the one who asks may ask it: the master's term and
    /// the server that is meant (R2, R5).
    fn admit(&mut self, request: &Request) -> Result<ChunkHandle, Failure> {
        if !self.knows_config {
            let why = "this chunkserver has not joined its cell yet; try again";
            return Err(Failure::not_done(ErrorCode::Busy, why));
        }
        let me = self.settings.at.server;
        let (handle, orders) = match request {
            Request::Raise(raise) => (raise.handle, Some((raise.term, raise.server))),
            Request::GrantLease(grant) => (grant.handle, Some((grant.term, grant.server))),
            Request::RevokeLease(revoke) => (revoke.handle, Some((revoke.term, me))),
            Request::Probe(probe) => (probe.handle, Some((probe.term, me))),
            Request::Forward(forward) => (forward.handle, None),
            Request::Write(write) => (write.handle, None),
            Request::Append(append) => (append.handle, None),
            Request::Read(read) => (read.handle, None),
            Request::ChunkLength(ask) => (ask.handle, None),
            Request::SyncChunk(sync) => (sync.handle, None),
            Request::Acknowledged(notice) => (notice.handle, None),
            other => {
                let why = format!("a chunkserver does not serve {}", other.name());
                return Err(Failure::refused(ErrorCode::Invalid, why));
            }
        };
        if let Some((term, server)) = orders {
            if server != me {
                let why = format!("server {server} is meant, this is {me}");
                return Err(Failure::refused(ErrorCode::WrongServer, why));
            }
            self.obey_term(term)?;
        }
        Ok(handle)
    }

    /// Makes room for a replica of a new chunk; the raise then gives it its version (R10).
    fn create(&mut self, raise: &Raise) -> Result<(), Failure> {
        if self.replicas.contains_key(&raise.handle) {
            let why = format!("chunk {} is here already", raise.handle.short());
            return Err(Failure::not_done(ErrorCode::AlreadyExists, why));
        }
        let replica = Replica { handle: raise.handle, ..Replica::default() };
        self.replicas.insert(raise.handle, replica);
        Ok(())
    }

    fn on_completed(&mut self, now: Now, id: EffectId, result: Completion<ChunkResult>) {
        let Some(purpose) = self.out.take(id) else { return };
        match result {
            Completion::Woken => match purpose {
                Purpose::NextSlice(join) => self.on_pause_over(now, join),
                _ => self.on_tick(now),
            },
            Completion::Disk(result) => self.on_disk(now, purpose, result),
            Completion::Answered(result) => {
                self.on_answer(now, purpose, result.map(|answer| answer.response));
            }
        }
    }

    fn on_tick(&mut self, now: Now) {
        self.out.wake(Purpose::Tick, now.time + TICK);
        self.watched.retain(|handle| {
            let Some(replica) = self.replicas.get_mut(handle) else { return false };
            if replica.primary.is_some() {
                let mut cx =
                    Self::context(now, &self.config, &mut self.out, &self.settings, &self.link);
                replica.on_tick(&mut cx);
            }
            replica.primary.is_some() || replica.damaged
        });
        self.sync_idle(now);
        self.tick_link(now);
    }

    /// Brings to disk what has not changed for a while, a few at a time: what is on disk is not in
    /// doubt after a power loss (R27).
    fn sync_idle(&mut self, now: Now) {
        let idle = |changed: &Time| now.time.since(*changed) >= SYNC_AFTER;
        let due = self.unsynced.iter().filter(|(_, changed)| idle(changed));
        let due: Vec<ChunkHandle> = due.map(|(handle, _)| *handle).take(SYNC_AT_ONCE).collect();
        for handle in due {
            self.unsynced.remove(&handle);
            self.out.disk(Purpose::Nobody, lane_of(handle), ChunkJob::Sync { handle });
        }
    }

    fn on_disk(&mut self, now: Now, purpose: Purpose, result: ChunkResult) {
        match (purpose, result) {
            (Purpose::Space, Ok(ChunkDone::Space(space))) => self.link.space = space,
            (Purpose::Trashed(handle), Ok(ChunkDone::Trashed { gone: true })) => {
                self.forget(now, handle, "it was garbage");
            }
            (Purpose::TermKept(before), Err(_)) => self.link.term = before,
            (Purpose::Applied(handle), result) => {
                self.unsynced.insert(handle, now.time);
                self.link.changed.insert(handle);
                let Some((replica, mut cx)) = self.replica(now, handle) else { return };
                match result {
                    Ok(ChunkDone::Applied { length, serial }) => {
                        replica.on_applied(&mut cx, length, serial);
                    }
                    Ok(_) => {}
                    Err(error) => replica.on_apply_failed(&mut cx, &error),
                }
            }
            (Purpose::SyncedToRaise(handle), result) => {
                let Some((replica, mut cx)) = self.replica(now, handle) else { return };
                match result {
                    Ok(_) => replica.journal_raise(&mut cx),
                    Err(error) => replica.on_change_failed(&mut cx, &error.to_string()),
                }
            }
            (Purpose::Journaled(handle), result) => {
                self.unsynced.insert(handle, now.time);
                self.link.changed.insert(handle);
                let Some((replica, mut cx)) = self.replica(now, handle) else { return };
                match result {
                    Ok(_) => replica.on_journaled(&mut cx),
                    Err(error) => replica.on_change_failed(&mut cx, &error.to_string()),
                }
                if replica.never_was {
                    self.forget(now, handle, "it could not be created");
                }
            }
            (Purpose::Read { handle, to, end }, result) => {
                self.on_read(now, handle, to, end, result)
            }
            (Purpose::Verified(handle), Ok(ChunkDone::Verified { good: false })) => {
                if let Some((replica, _)) = self.replica(now, handle) {
                    replica.damaged = true;
                }
            }
            (Purpose::SyncedHere { handle, round }, result) => {
                let failure = result.err().map(|error| crate::primary::failure_of(&error));
                if let Some((replica, mut cx)) = self.replica(now, handle) {
                    replica.on_synced(&mut cx, round, failure);
                }
            }
            (Purpose::SyncedForPrimary { handle, to }, result) => match result {
                Ok(_) => {
                    let length = self.replicas.get(&handle).map_or(0, |r| r.acknowledged);
                    let server = self.settings.at.server;
                    let answer = cairn_protocol::SyncChunkAnswer { length, server };
                    self.out.reply(to, Response::SyncChunk(answer));
                }
                Err(error) => self.out.refuse(to, crate::primary::failure_of(&error)),
            },
            _ => {}
        }
    }

    fn on_read(
        &mut self,
        now: Now,
        handle: ChunkHandle,
        to: Caller,
        end: u64,
        result: ChunkResult,
    ) {
        let Some((replica, mut cx)) = self.replica(now, handle) else {
            let why = format!("chunk {} is gone from this server", handle.short());
            return self.out.refuse(to, Failure::not_done(ErrorCode::NoSuchChunk, why));
        };
        match result {
            Ok(ChunkDone::Read(done)) => replica.on_read_done(&mut cx, to, end, Ok(done)),
            Ok(_) => {}
            Err(error) => replica.on_read_done(&mut cx, to, end, Err(error)),
        }
    }

    fn on_answer(&mut self, now: Now, purpose: Purpose, result: Result<Response, Failure>) {
        match purpose {
            Purpose::Joined => self.on_joined(now, expect!(result, Join)),
            Purpose::Inventoried(sent) => {
                self.on_slice_answered(now, sent, expect!(result, Inventory));
            }
            Purpose::Heartbeat(sent) => {
                self.on_heartbeat_answer(now, sent, expect!(result, Heartbeat));
            }
            Purpose::Forwarded { handle, version, lease, secondary } => {
                let serial = expect!(result, Forward).map(|answer| answer.serial);
                if let Some((replica, mut cx)) = self.replica(now, handle) {
                    replica.on_forwarded(&mut cx, (lease, version), secondary, serial);
                }
            }
            Purpose::Shrunk { handle, lease } => {
                let result = expect!(result, SecondaryFailed);
                if let Some((replica, mut cx)) = self.replica(now, handle) {
                    replica.on_shrunk(&mut cx, lease, result);
                }
            }
            Purpose::CloseLogged { handle, lease } => {
                if let Some((replica, mut cx)) = self.replica(now, handle) {
                    replica.on_close_logged(&mut cx, lease);
                }
            }
            Purpose::SyncedThere { handle, round, secondary } => {
                if let Some((replica, mut cx)) = self.replica(now, handle) {
                    replica.on_synced_there(&mut cx, round, secondary, result.err());
                }
            }
            _ => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use super::{ChunkCore, ChunkCoreConfig};
    use cairn_env::{Now, Space};
    use cairn_protocol::ReplicaReport;
    use cairn_types::{Address, CellId, ChunkHandle, ChunkVersion, Incarnation, ReplicaAt, Term};

    #[test]
    fn ticks_and_heartbeats_look_at_what_is_in_use_or_damaged_and_at_nothing_else() {
        let settings = ChunkCoreConfig {
            at: ReplicaAt::default(),
            incarnation: Incarnation::new(1),
            masters: vec![Address::new("m:1")],
            cell: CellId::default(),
            term: Term::default(),
            highest_handle: ChunkHandle::default(),
            highest_version: ChunkVersion::default(),
        };
        let held = (1..=1000).map(ChunkHandle::new);
        let held: Vec<_> =
            held.map(|handle| ReplicaReport { handle, ..ReplicaReport::default() }).collect();
        let mut core = ChunkCore::new(settings, &held, Space::default());
        let (now, [read, damaged]) = (Now::default(), [7, 8].map(ChunkHandle::new));
        assert!(core.replica(now, read).is_some());
        core.replica(now, damaged).expect("it is held").0.damaged = true;
        assert_eq!(core.watched.len(), 2);
        core.on_tick(now);
        assert_eq!(core.watched.iter().collect::<Vec<_>>(), [&damaged]);
        core.lose(now, &[damaged]);
        assert!(core.watched.is_empty());
    }
}
