//! One chunkserver's replicas behind one entrance: who is meant by an event.

pub(crate) mod gauges;
mod orders;
mod verdicts;

use crate::checks;
use crate::chunk_core_config::{CellSettings, ChunkCoreConfig};
use crate::client_load::ClientLoad;
use crate::cloning::{Clones, answer_dropped};
use crate::idle_sync::sync_idle;
use crate::master_link::{LinkContext, MasterLink};
use crate::outbox::{
    CallPurpose, DiskPurpose, Finished, Outbox, ReplicaJob, WakePurpose, failure_of,
};
use crate::reach_notice::ReachNotice;
use crate::reads;
use crate::replica::Replica;
use crate::replica_calls::on_replica_call;
use crate::replica_change::{AfterFailure, WaitingChange};
use crate::replica_context::ReplicaContext;
use crate::replica_table::ReplicaTable;
use crate::scrub::Scrub;
use crate::second_looks::SecondLooks;
use crate::shadow_reports::{ReportContext, ShadowReports};
use crate::sync::answer_primary;
use crate::traffic::Traffic;
use bytes::Bytes;
use cairn_env::{
    Answer, Caller, ChunkDone, ChunkJob, ChunkResult, Effect, Event, LogEvent, Now, ServerSpace,
};
use cairn_protocol::{
    ClientToChunkserver, Directed, ErrorCode, Failure, Fetch, FindPrimary, Garbage, Heartbeat,
    HeartbeatAnswer, Inventory, Join, PrimaryToSecondary, ReplicaReport, ReplicaToReplica, Request,
    Response, Rpc, TellShadow,
};
use cairn_types::planted::{Rule, broken};
use cairn_types::{CellConfig, ChunkHandle, ServerId, Time};
use std::time::Duration;

/// How often a chunkserver looks around: lease ends, heartbeats, news for idle secondaries.
const TICK: Duration = Duration::from_millis(50);

/// The state machine of a chunkserver.
#[derive(Debug)]
pub struct ChunkCore {
    me: ChunkCoreConfig,
    settings: CellSettings,
    reach_notice: ReachNotice,
    table: ReplicaTable,
    clones: Clones,
    load: ClientLoad,
    scrub: Scrub,
    second_looks: SecondLooks,
    traffic: Traffic,
    link: MasterLink,
    shadows: ShadowReports,
    out: Outbox,
}

impl ChunkCore {
    /// A server that has just started with what its data directories hold.
    #[must_use]
    pub fn new(me: ChunkCoreConfig, recovered: &[ReplicaReport], space: ServerSpace) -> Self {
        let link = MasterLink::new(&me, space);
        let table = ReplicaTable::of_recovered(recovered);
        let (clones, load, out) = (Clones::default(), ClientLoad::default(), Outbox::default());
        let (scrub, traffic) = (Scrub::new(me.scrub, me.scrubbed), Traffic::default());
        let second_looks = SecondLooks::new(me.scrub.rate);
        Self {
            me,
            settings: CellSettings::untold(),
            reach_notice: ReachNotice::default(),
            table,
            clones,
            load,
            scrub,
            second_looks,
            traffic,
            link,
            shadows: ShadowReports::default(),
            out,
        }
    }

    /// The cell's settings, as far as known.
    #[must_use]
    pub fn config(&self) -> &CellConfig {
        self.settings.config()
    }

    /// The server's id.
    #[must_use]
    pub fn server(&self) -> ServerId {
        self.me.at.server
    }

    /// Somebody looks for changes of state: they are told from now on.
    pub fn tell_debug(&mut self) {
        self.out.tell_debug(self.me.at.server);
    }

    /// Bytes of these replicas that were on disk are missing or wrong: the master is told, and no
    /// reader is told where they end.
    pub fn mark_damaged(&mut self, handles: &[ChunkHandle]) {
        for handle in handles {
            // One that has gone meanwhile has nothing to lose.
            if let Some(replica) = self.table.touch(*handle) {
                replica.stored_mut().lose_bytes();
            }
        }
    }

    /// In an earlier life a block of these replicas was found bad.
    pub fn mark_bad(&mut self, handles: &[ChunkHandle]) {
        for handle in handles {
            // As above.
            if let Some(replica) = self.table.touch(*handle) {
                replica.stored_mut().find_bad_block(&mut self.out);
                self.table.note_damage(*handle);
            }
        }
    }

    /// A data directory is gone, and these replicas with it (R27). Whoever waits for them is told.
    pub fn lose(&mut self, now: Now, handles: &[ChunkHandle]) {
        for handle in handles {
            self.forget(now, *handle, "its data directory failed");
        }
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
                self.link.identify(&self.me, &mut self.out);
                self.out.wake(WakePurpose::Tick, now.time + TICK);
                self.with_link(now, MasterLink::tick);
            }
            Event::Request { from, request } => {
                if let Err(failure) = self.on_request(now, from, request) {
                    self.out.refuse(from, failure);
                }
            }
            // Whoever knows handle and version was told so by a master, which had looked who asks.
            Event::Identified { .. } => {}
            Event::Disconnected { connection } => self.table.forget_connection(connection),
            Event::Completed { id, result } => match self.out.finish(id, result) {
                Finished::Disk(purpose, result) => self.on_disk(now, purpose, result),
                Finished::Call(purpose, result) => self.on_answer(now, purpose, result),
                Finished::Wake(WakePurpose::Tick) => self.on_tick(now),
                Finished::Wake(WakePurpose::NextSlice(join)) => {
                    self.with_link(now, |link, cx| link.on_pause_over(cx, join));
                }
            },
            Event::Command(()) => {}
        }
        self.out.drain(effects);
    }

    fn with_link<T>(
        &mut self,
        now: Now,
        act: impl FnOnce(&mut MasterLink, &mut LinkContext<'_>) -> T,
    ) -> T {
        let (me, settings, table, out) =
            (&self.me, &mut self.settings, &mut self.table, &mut self.out);
        let (clones, scrub, traffic) = (&self.clones, &self.scrub, &self.traffic);
        let cx = &mut LinkContext { now, me, settings, table, clones, scrub, traffic, out };
        act(&mut self.link, cx)
    }

    /// The replicas, and what decisions about one may look at.
    fn replicas(&mut self, now: Now) -> (&mut ReplicaTable, ReplicaContext<'_>) {
        let cx = ReplicaContext {
            now: now.time,
            config: self.settings.config(),
            out: &mut self.out,
            me: &self.me.at,
            incarnation: self.me.incarnation,
            master: self.link.master(),
            standing: self.link.standing(),
            clients_busy: self.load.is_busy(now.time),
        };
        (&mut self.table, cx)
    }

    /// One replica, if it is here.
    fn replica(
        &mut self,
        now: Now,
        handle: ChunkHandle,
    ) -> Option<(&mut Replica, ReplicaContext<'_>)> {
        let (table, cx) = self.replicas(now);
        Some((table.touch(handle)?, cx))
    }

    /// The same, for one who asks about it.
    fn replica_asked_for(
        &mut self,
        now: Now,
        handle: ChunkHandle,
    ) -> Result<(&mut Replica, ReplicaContext<'_>), Failure> {
        self.replica(now, handle).ok_or_else(|| {
            let why = format!("chunk {} is not on this server", handle.short());
            Failure::not_done(ErrorCode::NoSuchChunk, why)
        })
    }

    /// A replica is no longer here. A heartbeat may have told of it after it was named as garbage,
    /// or while a slow disk had yet to make it: the master hears that it is gone, or would for ever
    /// take it for one that stands where a copy could.
    fn forget(&mut self, now: Now, handle: ChunkHandle, why: &str) {
        if let Some((replica, mut cx)) = self.replica(now, handle) {
            replica.abandon(&mut cx, why);
        }
        self.table.remove(handle);
        self.table.tell_lost(handle);
    }

    fn on_request(&mut self, now: Now, from: Caller, request: Request) -> Result<(), Failure> {
        if !self.settings.allow(&request) {
            let why = "this chunkserver has not joined its cell yet; try again";
            return Err(Failure::not_done(ErrorCode::Busy, why));
        }
        self.load.note_request(now.time, &request);
        self.traffic.note_request(&request);
        let name = request.name();
        match request.directed() {
            Directed::MasterToChunkserver(order) => self.on_order(now, from, order),
            Directed::ClientToChunkserver(request) => self.on_client(now, from, request),
            Directed::PrimaryToSecondary(request) => self.on_primary(now, from, request),
            Directed::ReplicaToReplica(ReplicaToReplica::Fetch(fetch)) => {
                let (replica, mut cx) = self.replica_asked_for(now, fetch.handle)?;
                reads::on_fetch(replica, &mut cx, from, fetch)
            }
            Directed::Handshake(_)
            | Directed::ClientToMaster(_)
            | Directed::ClientToMember(_)
            | Directed::ClientToServer(_)
            | Directed::ClientToStreams(_)
            | Directed::ChunkserverToMaster(_)
            | Directed::MasterToMaster(_) => Err(not_served(name)),
        }
    }

    /// The clones, and what their work may look at.
    fn with_clones<T>(
        &mut self,
        now: Now,
        act: impl FnOnce(&mut Clones, &mut ReplicaContext<'_>) -> T,
    ) -> T {
        let mut clones = std::mem::take(&mut self.clones);
        let (_, mut cx) = self.replicas(now);
        let result = act(&mut clones, &mut cx);
        self.clones = clones;
        result
    }

    fn on_client(
        &mut self,
        now: Now,
        from: Caller,
        request: ClientToChunkserver,
    ) -> Result<(), Failure> {
        match request {
            ClientToChunkserver::Write(write) => {
                let (replica, mut cx) = self.replica_asked_for(now, write.handle)?;
                replica.on_write(&mut cx, from, write);
            }
            ClientToChunkserver::Append(append) => {
                let (replica, mut cx) = self.replica_asked_for(now, append.handle)?;
                replica.on_append(&mut cx, from, append);
            }
            ClientToChunkserver::Extend(extend) => {
                let (replica, mut cx) = self.replica_asked_for(now, extend.handle)?;
                replica.enqueue(&mut cx, from, WaitingChange::Extend(extend));
            }
            ClientToChunkserver::Read(read) => {
                let (replica, mut cx) = self.replica_asked_for(now, read.handle)?;
                reads::on_read(replica, &mut cx, from, &read);
            }
            ClientToChunkserver::ChunkLength(ask) => {
                let (replica, mut cx) = self.replica_asked_for(now, ask.handle)?;
                reads::on_length(replica, &mut cx, from, &ask);
            }
            ClientToChunkserver::SyncChunk(sync) => {
                let (replica, mut cx) = self.replica_asked_for(now, sync.handle)?;
                replica.on_sync(&mut cx, from, &sync);
            }
            ClientToChunkserver::ListHeld(wish) => {
                self.out.reply(from, Response::ListHeld(checks::list_held(&self.table, &wish)));
            }
            ClientToChunkserver::CheckReplica(check) => {
                // CK2; a clone is a replica soon, and not known to be one before.
                if !self.clones.is_making(check.handle) {
                    self.table.tell_absent(check.handle);
                }
                let (replica, cx) = self.replica_asked_for(now, check.handle)?;
                checks::start(replica.stored(), cx.out, from, &check)?;
            }
            // The worlds serve pushes, below the seam.
            ClientToChunkserver::Push(_) => return Err(not_served("Push")),
        }
        Ok(())
    }

    fn on_primary(
        &mut self,
        now: Now,
        from: Caller,
        request: PrimaryToSecondary,
    ) -> Result<(), Failure> {
        match request {
            PrimaryToSecondary::Forward(forward) => {
                let (replica, mut cx) = self.replica_asked_for(now, forward.handle)?;
                replica.enqueue(&mut cx, from, WaitingChange::Forward(forward));
            }
            PrimaryToSecondary::Acknowledged(notice) => {
                let (replica, mut cx) = self.replica_asked_for(now, notice.handle)?;
                replica.on_acknowledged(&mut cx, from, &notice);
            }
        }
        Ok(())
    }

    // Time.

    fn on_tick(&mut self, now: Now) {
        self.out.wake(WakePurpose::Tick, now.time + TICK);
        let (table, mut cx) = self.replicas(now);
        table.tick(|replica| replica.on_tick(&mut cx));
        sync_idle(&mut self.table, &mut self.out, now.time);
        self.with_clones(now, Clones::tick);
        if self.settings.are_told() {
            self.scrub.tick(now, &mut self.table, &mut self.out);
            self.second_looks.tick(now, &mut self.table, &mut self.out);
        }
        self.with_link(now, MasterLink::tick);
        self.tell_shadows(now.time);
    }

    fn tell_shadows(&mut self, now: Time) {
        let (cell, masters) = self.link.others();
        let heartbeat = Duration::from_millis(self.settings.config().heartbeat_ms);
        let (me, table, out) = (&self.me, &mut self.table, &mut self.out);
        let cx = &mut ReportContext { now, me, cell, heartbeat, table, out };
        self.shadows.tick(cx, masters);
    }

    // What came of disk jobs.

    fn on_disk(&mut self, now: Now, purpose: DiskPurpose, result: ChunkResult) {
        match purpose {
            DiskPurpose::Replica(handle, job) => self.on_replica_job(now, handle, job, result),
            DiskPurpose::Trashed(handle) => {
                self.table.end_collecting(handle);
                if let Ok(ChunkDone::Trashed { gone: true }) = result {
                    tell_deleted(&mut self.out, self.table.get(handle));
                    self.forget(now, handle, "it was garbage");
                }
            }
            DiskPurpose::TermKept(term) => self.link.on_term_written(term, result.is_ok()),
            DiskPurpose::DamageNoted(handle) => self.table.on_damage_noted(handle, &result),
            DiskPurpose::Space => {
                // What a disk does not tell is as it was told last.
                if let Ok(ChunkDone::Space(space)) = result {
                    let is_full = space.room() < self.settings.config().chunk_size;
                    self.link.learn_space(space, is_full);
                }
            }
            DiskPurpose::Clone { handle, number } => {
                self.with_clones(now, |clones, cx| clones.on_disk(cx, (handle, number), result));
            }
            DiskPurpose::TrashEmptied => {
                self.with_link(now, |link, cx| link.on_trash_emptied(cx, &result));
            }
            DiskPurpose::Scrub => self.on_scrubbed(now, result),
            DiskPurpose::SecondLook => self.on_looked_again(now, &result),
            DiskPurpose::Check { to, handle } => {
                checks::finish(&mut self.table, &mut self.out, (to, handle), result);
            }
            DiskPurpose::CloneDropped(to) => answer_dropped(&mut self.out, to, result),
            DiskPurpose::Nobody => {}
        }
    }

    fn on_replica_job(
        &mut self,
        now: Now,
        handle: ChunkHandle,
        job: ReplicaJob,
        result: ChunkResult,
    ) {
        if let ReplicaJob::Apply | ReplicaJob::Journal(_) | ReplicaJob::Stand = job {
            self.table.note_change(handle, now.time);
        }
        if let (ReplicaJob::Read { .. }, Ok(ChunkDone::Read(done))) = (&job, &result) {
            self.traffic.note_read(done.payload.len() as u64);
        }
        let Some((replica, mut cx)) = self.replica(now, handle) else {
            return refuse_gone(&mut self.out, handle, &job);
        };
        let cx = &mut cx;
        let mut after = AfterFailure::Kept;
        match (job, result) {
            (ReplicaJob::Apply, Ok(ChunkDone::Applied { length, serial })) => {
                replica.on_applied(cx, length, serial);
            }
            (ReplicaJob::Apply, Err(error)) => replica.on_apply_failed(cx, &error),
            (ReplicaJob::SyncToRaise, Ok(ChunkDone::Synced)) => replica.journal_raise(cx),
            (ReplicaJob::Stand, result) => after = replica.on_stood(cx, result),
            (ReplicaJob::Journal(at), result) => after = replica.on_journal(cx, at, &result),
            (ReplicaJob::SyncToRaise, Err(error)) => {
                after = replica.on_change_failed(cx, &error.to_string());
            }
            (ReplicaJob::Read { to, range }, Ok(ChunkDone::Read(done))) => {
                reads::on_read_done(replica, cx, to, range, done);
            }
            (ReplicaJob::Fetch { to }, Ok(ChunkDone::Read(done))) => {
                reads::on_fetch_done(replica, cx, to, done);
            }
            (ReplicaJob::Read { to, .. } | ReplicaJob::Fetch { to }, Err(error)) => {
                reads::on_read_failed(replica, cx, to, &error);
            }
            (ReplicaJob::Checksums, Ok(ChunkDone::Checksums { length, checksums })) => {
                replica.on_checksums(cx, (length, checksums));
            }
            (ReplicaJob::Checksums, Err(error)) => replica.on_apply_failed(cx, &error),
            (ReplicaJob::Verify, Ok(ChunkDone::Verified { good })) => {
                replica.on_verified(cx.out, good)
            }
            // The disk could not look: the doubt will be told again.
            (ReplicaJob::Verify, Err(_)) => {}
            (ReplicaJob::SyncHere { lease, round }, result @ (Ok(ChunkDone::Synced) | Err(_))) => {
                let result = result.map(drop).map_err(|error| failure_of(&error));
                replica.as_primary_of(cx, lease, |primary, stored, cx| {
                    primary.on_synced(stored, cx, round, None, result);
                    Ok(())
                });
            }
            (ReplicaJob::SyncForPrimary { to }, Ok(ChunkDone::Synced)) => {
                answer_primary(replica.stored(), cx, to);
            }
            (ReplicaJob::SyncForPrimary { to }, Err(error)) => {
                cx.out.refuse(to, failure_of(&error));
            }
            (job, Ok(done)) => panic!("the disk was asked for {job:?} and did {done:?}"),
        }
        if after == AfterFailure::NeverWas {
            let why = "it could not be created";
            self.forget(now, handle, why);
            // Where it was a clone, something of that may be left.
            self.clones.give_up(&mut self.out, handle, DiskPurpose::Nobody, why);
        }
    }

    // Answers to calls.

    fn on_answer(&mut self, now: Now, purpose: CallPurpose, result: Result<Answer, Failure>) {
        let (result, payload) = match result {
            Ok(answer) => (Ok(answer.response), answer.payload),
            Err(failure) => (Err(failure), Bytes::new()),
        };
        match purpose {
            CallPurpose::Replica(handle, call) => {
                // Who waited for a replica that is gone was told when it went.
                if let Some((replica, mut cx)) = self.replica(now, handle) {
                    on_replica_call(replica, &mut cx, call, (result, payload));
                }
            }
            CallPurpose::Clone { handle, number } => {
                self.traffic.note_cloned(payload.len() as u64);
                let blocks = Fetch::answer(result).map(|answer| (answer, payload));
                self.with_clones(now, |clones, cx| clones.on_fetched(cx, (handle, number), blocks));
            }
            CallPurpose::Join { asked } => {
                self.with_link(now, |link, cx| link.on_joined(cx, asked, Join::answer(result)));
            }
            CallPurpose::TellShadow(at) => {
                self.shadows.told(&mut self.settings, &at, TellShadow::answer(result));
            }
            CallPurpose::FindPrimary(master) => {
                let answer = FindPrimary::answer(result);
                self.with_link(now, |link, cx| link.on_master_told(cx, &master, answer));
            }
            CallPurpose::Inventory { asked, slice } => self.with_link(now, |link, cx| {
                link.on_slice_answered(cx, (asked, slice), Inventory::answer(result));
            }),
            CallPurpose::Heartbeat { asked, sent } => {
                let result = Heartbeat::answer(result);
                let answer = self
                    .with_link(now, |link, cx| link.on_heartbeat_answer(cx, (asked, sent), result));
                if let Some(answer) = answer {
                    self.heed(now, sent, answer);
                }
            }
        }
    }

    /// Does what the master says in its answer to a heartbeat that was sent then.
    fn heed(&mut self, now: Now, sent: Time, answer: HeartbeatAnswer) {
        assert!(self.settings.are_told(), "a heartbeat before the first join");
        self.clones.set_rate(answer.clone_rate);
        let told = (answer.unreached.as_str(), answer.reached);
        self.reach_notice.heed(&mut self.out, &self.me.at.address, told);
        let (table, cx) = self.replicas(now);
        let until = cx.holder_expiry(if broken(Rule::R4) { now.time } else { sent });
        table.extend_leases(&answer.extended, now.time, until);
        for garbage in answer.garbage {
            collect(&mut self.table, &mut self.out, garbage);
        }
        for doubted in answer.verify {
            // What is gone is in doubt no more.
            if let Some((replica, mut cx)) = self.replica(now, doubted.handle) {
                replica.verify(&mut cx, doubted.offset);
            }
        }
    }
}

/// Lets go of a replica that the master calls garbage: nothing newer than the version named, and
/// nothing that takes part in a lease (R33).
fn collect(table: &mut ReplicaTable, out: &mut Outbox, Garbage { handle, version }: Garbage) {
    if table.begin_collecting(handle, version) {
        out.trash_job(DiskPurpose::Trashed(handle), ChunkJob::Trash { handle, version });
    }
}

fn not_served(name: &str) -> Failure {
    Failure::refused(ErrorCode::Invalid, format!("a chunkserver does not serve {name}"))
}

/// A replica is gone for which a job was done: who waited was told when it went, but for those
/// whom it did not know.
fn refuse_gone(out: &mut Outbox, handle: ChunkHandle, job: &ReplicaJob) {
    if let ReplicaJob::Read { to, .. }
    | ReplicaJob::Fetch { to }
    | ReplicaJob::SyncForPrimary { to } = job
    {
        let why = format!("chunk {} is gone from this server", handle.short());
        out.refuse(*to, Failure::not_done(ErrorCode::NoSuchChunk, why));
    }
}

/// Tells that a replica was garbage, and is deleted.
fn tell_deleted(out: &mut Outbox, gone: Option<&Replica>) {
    if let Some(gone) = gone {
        out.debug(|| gone.stored().told(LogEvent::debug("replica deleted")));
    }
}
