//! A hand-made world around [`Chunks`]: what comes out of them is looked at, and answered, by hand.

use super::Chunks;
use crate::moves::MoveRequest;
use crate::numbers::TermNumbers;
use crate::outbox::{MasterEffect, MasterOutbox, ProposalId};
use crate::record::{AddFile, Begin, FoundCell, RECORD_LEVEL, RaiseLevel, Record};
use crate::state::{ROOT, State};
use crate::step::Step;
use crate::stream_records::{
    AllocateChunk, CommitBundlesRecord, CommittedBundle, OpenProducerRecord,
};
use cairn_env::{Caller, ConnectionId, Effect, EffectId, Now};
use cairn_protocol::{
    ChunkGrant, ClientToMaster, Directed, ErrorCode, Failure, GrantLease, GrantLeaseAnswer,
    Heartbeat, HeartbeatAnswer, HeldLease, Inventory, Join, Lease, LeasePurpose, Probe, Raise,
    RaiseAnswer, ReplicaReport, ReportBadBlockAnswer, ReportSlice, Request, RequestId, Response,
};
use cairn_types::{
    Address, CellConfig, CellId, ChunkHandle, ChunkIndex, ChunkVersion, EntryId, Epoch,
    Incarnation, JoinId, Layout, LogIndex, MutationName, MutationNumber, ProducerId, Rack, Random,
    RecordNumber, ReplicaAt, SerialNumber, ServerId, SessionId, Term, Time, WallTime,
};
use std::collections::BTreeMap;
use std::time::Duration;

pub(crate) const FILE: EntryId = EntryId::new(100);

pub(crate) fn server(id: u64) -> ServerId {
    ServerId::new(id)
}

pub(crate) fn caller(id: u64) -> Caller {
    Caller { connection: ConnectionId(id), request: RequestId(id) }
}

/// A call on its way, named by its effect.
#[derive(Debug)]
pub(crate) struct Sent {
    pub(crate) id: EffectId,
    pub(crate) to: ServerId,
    pub(crate) request: Request,
}

/// A master's chunks, its state, and whatever came out and was not yet looked at.
pub(crate) struct World {
    pub(crate) millis: u64,
    pub(crate) state: State,
    pub(crate) chunks: Chunks,
    pub(crate) numbers: TermNumbers,
    pub(crate) random: Random,
    pub(crate) out: MasterOutbox,
    pub(crate) sent: Vec<Sent>,
    pub(crate) replies: Vec<(Caller, Result<Response, Failure>)>,
    pub(crate) proposed: Vec<(ProposalId, Record)>,
    pub(crate) wake: Option<EffectId>,
    /// Servers from this number on are of another rack.
    pub(crate) other_rack_from: u64,
    /// Servers that are not reached at their addresses, and why not.
    pub(crate) unreached: BTreeMap<ServerId, Failure>,
    /// Questions whether a server is reached, to be answered after the tick.
    probes: Vec<(EffectId, ServerId)>,
}

impl World {
    /// A cell with the file [`FILE`] and `servers` servers that have joined.
    pub(crate) fn new(servers: u64) -> Self {
        let mut world = Self::of_term(State::default(), 1);
        let config = CellConfig { replication: 3, ..CellConfig::tiny() };
        world.apply(FoundCell { time: WallTime::default(), cell: CellId::new(5), config });
        world.begin(1);
        world.apply(AddFile {
            parent: ROOT,
            name: "f".into(),
            id: FILE,
            replication: 3,
            ..AddFile::default()
        });
        for id in 1..=servers {
            world.join(id, vec![], vec![]);
        }
        world
    }

    pub(crate) fn of_term(state: State, term: u64) -> Self {
        let term = Term::new(term);
        Self {
            millis: 1_000_000,
            state,
            chunks: Chunks::new(term),
            numbers: TermNumbers::new(term),
            random: Random::new(7),
            out: MasterOutbox::default(),
            sent: vec![],
            replies: vec![],
            proposed: vec![],
            wake: None,
            other_rack_from: u64::MAX,
            unreached: BTreeMap::new(),
            probes: vec![],
        }
    }

    pub(crate) fn begin(&mut self, term: u64) {
        self.apply(Begin { term: Term::new(term), ..Begin::default() });
        self.with(|chunks, step| chunks.on_term_begins(step));
    }

    /// The next term over the same state; nothing soft survives.
    pub(crate) fn restarted(self, term: u64) -> Self {
        let mut world = Self { millis: self.millis, ..Self::of_term(self.state, term) };
        world.begin(term);
        world
    }

    pub(crate) fn moment(&self) -> Now {
        let time = Time::default() + Duration::from_millis(self.millis);
        Now { time, wall: WallTime::default() }
    }

    pub(crate) fn with<T>(&mut self, act: impl FnOnce(&mut Chunks, &mut Step<'_>) -> T) -> T {
        let time = Time::default() + Duration::from_millis(self.millis);
        let now = Now { time, wall: WallTime::from_millis(self.millis) };
        let (state, out) = (&self.state, &mut self.out);
        let (numbers, random) = (&mut self.numbers, &mut self.random);
        let done = act(&mut self.chunks, &mut Step { now, state, numbers, random, out });
        for effect in self.out.drain() {
            match effect {
                MasterEffect::Env(Effect::Call {
                    id, server, request: Request::Probe(of), ..
                }) if of.handle == ChunkHandle::default() => {
                    self.probes.push((id, server));
                }
                MasterEffect::Propose(id, record) => self.proposed.push((id, record)),
                MasterEffect::Env(Effect::Call { id, server, request, .. }) => {
                    self.sent.push(Sent { id, to: server, request });
                }
                MasterEffect::Env(Effect::Reply { to, answer, .. }) => {
                    self.replies.push((to, answer));
                }
                MasterEffect::Env(Effect::Wake { id, .. }) => self.wake = Some(id),
                // What a person is told changes nothing.
                MasterEffect::Env(Effect::Log(_)) => {}
                MasterEffect::Env(other) => panic!("unexpected {other:?}"),
            }
        }
        done
    }

    pub(crate) fn apply(&mut self, record: impl Into<Record>) -> crate::Applied {
        let (index, record) = (LogIndex::new(self.state.applied().get() + 1), record.into());
        // A version that is logged was given out.
        match &record {
            Record::SetVersion(set) => self.numbers.gave_out(set.version),
            Record::OpenChunk(open) => self.numbers.gave_out(open.version),
            _ => {}
        }
        self.state.apply(index, Term::new(1), &record)
    }

    /// Commits and applies everything proposed; tells what.
    pub(crate) fn commit(&mut self) -> Vec<Record> {
        let mut done = vec![];
        for (id, record) in std::mem::take(&mut self.proposed) {
            let outcome = self.apply(record.clone());
            if !matches!(outcome, crate::Applied::Failed(_)) {
                self.with(|chunks, step| chunks.note_logged(step, &record));
            }
            self.with(|chunks, step| chunks.on_applied(step, id, &outcome));
            done.push(record);
        }
        done
    }

    /// Commits and applies what was proposed about servers.
    fn commit_servers(&mut self) {
        let is_server =
            |(_, record): &(ProposalId, Record)| matches!(record, Record::KnowServer(_));
        let (servers, others) = std::mem::take(&mut self.proposed).into_iter().partition(is_server);
        self.proposed = servers;
        self.commit();
        self.proposed = others;
    }

    pub(crate) fn request(&mut self, from: u64, request: impl Into<Request>) {
        let request = request.into();
        let from = caller(from);
        self.with(|chunks, step| match request.directed() {
            Directed::ChunkserverToMaster(request) => chunks.on_chunkserver(step, from, request),
            Directed::ClientToMaster(ClientToMaster::Lease(lease)) => {
                chunks.on_lease(step, from, lease);
            }
            Directed::ClientToMaster(ClientToMaster::RecordLength(wish)) => {
                chunks.on_record_length(step, from, &wish);
            }
            Directed::ClientToMaster(ClientToMaster::ReportBadBlock(hint)) => {
                chunks.on_report_bad_block(&hint);
                step.out.reply(from, Ok(Response::ReportBadBlock(ReportBadBlockAnswer {})));
            }
            Directed::ClientToMaster(ClientToMaster::Explain(explain)) => {
                let answer = chunks.explain(step.now, step.state, &explain.subject);
                step.out.reply(from, answer.map(Response::Explain));
            }
            Directed::ClientToMaster(ClientToMaster::ForgetServer(request)) => {
                chunks.on_forget_server(step, from, &request);
            }
            Directed::ClientToMaster(ClientToMaster::Recover(wish)) => {
                let answer = chunks.recover(step.now, step.state, &wish);
                step.out.reply(from, answer.map(Response::Recover));
            }
            Directed::ClientToMaster(ClientToMaster::LetGoOfLost(request)) => {
                chunks.on_let_go(step, from, request.handle);
            }
            Directed::ClientToMaster(
                moves @ (ClientToMaster::Drain(_)
                | ClientToMaster::Balance(_)
                | ClientToMaster::CancelJob(_)),
            ) => chunks.on_move_request(step, from, &MoveRequest::of(moves)),
            other => panic!("{other:?} is not about chunks"),
        });
    }

    /// The answer to that caller; none if it still waits.
    pub(crate) fn reply(&mut self, to: u64) -> Option<Result<Response, Failure>> {
        let at = self.replies.iter().position(|(from, _)| *from == caller(to))?;
        Some(self.replies.remove(at).1)
    }

    pub(crate) fn code(&mut self, to: u64) -> Option<ErrorCode> {
        self.reply(to).and_then(|reply| reply.err()).map(|failure| failure.code)
    }

    pub(crate) fn granted(&mut self, to: u64) -> ChunkGrant {
        match self.reply(to) {
            Some(Ok(Response::Lease(grant))) => grant,
            other => panic!("no grant: {other:?}"),
        }
    }

    pub(crate) fn join(&mut self, id: u64, replicas: Vec<ReplicaReport>, leases: Vec<HeldLease>) {
        self.join_as(id, id * 10, replicas, leases);
    }

    /// The server joins, and tells nothing.
    pub(crate) fn join_only(&mut self, id: u64) -> JoinId {
        let (address, rack) = (Address::new(format!("s{id}:1")), self.rack_of(id));
        let at = ReplicaAt { server: server(id), address, rack };
        let incarnation = Incarnation::new(id * 10);
        self.request(900, Join { at, incarnation, ..Join::default() });
        let Some(Ok(Response::Join(joined))) = self.reply(900) else { panic!("not taken in") };
        self.commit_servers();
        joined.join
    }

    /// A slice of what a server tells that it holds.
    pub(crate) fn tell_slice(
        &mut self,
        id: u64,
        (join, number): (JoinId, u64),
        (replicas, last): (Vec<ReplicaReport>, bool),
    ) {
        let (server, incarnation) = (server(id), Incarnation::new(id * 10));
        let (replicas, leases) = (ReportSlice(replicas), Vec::new());
        self.request(900, Inventory { server, incarnation, replicas, last, leases, join, number });
        assert!(matches!(self.reply(900), Some(Ok(_))));
    }

    fn rack_of(&self, id: u64) -> Rack {
        Rack::new(if id < self.other_rack_from { "/one" } else { "/other" })
    }

    /// The server in that incarnation joins and tells all it holds.
    pub(crate) fn join_as(
        &mut self,
        id: u64,
        incarnation: u64,
        replicas: Vec<ReplicaReport>,
        leases: Vec<HeldLease>,
    ) {
        let (address, rack) = (Address::new(format!("s{id}:1")), self.rack_of(id));
        let at = ReplicaAt { server: server(id), address, rack };
        let incarnation = Incarnation::new(incarnation);
        self.request(900, Join { at, incarnation, ..Join::default() });
        let Some(Ok(Response::Join(joined))) = self.reply(900) else { panic!("not taken in") };
        self.commit_servers();
        let inventory = Inventory {
            server: server(id),
            incarnation,
            replicas: ReportSlice(replicas),
            last: true,
            leases,
            join: joined.join,
            number: 0,
        };
        self.request(900, inventory);
        assert!(matches!(self.reply(900), Some(Ok(_))));
    }

    pub(crate) fn beat(
        &mut self,
        id: u64,
        held: Vec<ReplicaReport>,
        leases: Vec<HeldLease>,
    ) -> HeartbeatAnswer {
        self.beat_as(id, id * 10, held, leases)
    }

    /// The server in that incarnation sends a heartbeat.
    pub(crate) fn beat_as(
        &mut self,
        id: u64,
        incarnation: u64,
        held: Vec<ReplicaReport>,
        leases: Vec<HeldLease>,
    ) -> HeartbeatAnswer {
        let (server, incarnation) = (server(id), Incarnation::new(incarnation));
        let beat = Heartbeat { server, incarnation, held, leases, ..Heartbeat::default() };
        self.request(901, beat);
        match self.reply(901) {
            Some(Ok(Response::Heartbeat(answer))) => *answer,
            other => panic!("{other:?}"),
        }
    }

    /// The tick that is set comes.
    pub(crate) fn wake_up(&mut self) {
        let wake = self.wake.take().expect("a tick is always set");
        self.with(|chunks, step| chunks.on_wake(step, wake));
        for (id, server) in std::mem::take(&mut self.probes) {
            let failure = self.unreached.get(&server).cloned();
            let there = Failure::not_done(ErrorCode::NoSuchChunk, "no such chunk");
            self.answer(id, Err(failure.unwrap_or(there)));
        }
    }

    /// Time passes in heartbeats, with those servers alive; ticks come.
    pub(crate) fn pass(&mut self, millis: u64, alive: &[u64]) {
        for _ in 0..millis.div_ceil(250) {
            self.millis += 250;
            for id in alive {
                self.beat(*id, vec![], vec![]);
            }
            self.wake_up();
        }
    }

    pub(crate) fn answer(&mut self, id: EffectId, result: Result<Response, Failure>) {
        self.with(|chunks, step| chunks.on_answer(step, id, result));
    }

    /// The raises on their way, taken out.
    pub(crate) fn raises(&mut self) -> Vec<(EffectId, u64, Raise)> {
        let all = std::mem::take(&mut self.sent);
        let mut raises = vec![];
        for sent in all {
            match sent.request {
                Request::Raise(raise) => raises.push((sent.id, sent.to.get(), raise)),
                request => self.sent.push(Sent { request, ..sent }),
            }
        }
        raises
    }

    pub(crate) fn accept(&mut self, id: EffectId, raise: &Raise, report: ReplicaReport) {
        let replica = ReplicaReport {
            handle: raise.handle,
            version: raise.to,
            closed: raise.close || report.closed,
            ..report
        };
        self.answer(id, Ok(Response::Raise(RaiseAnswer { replica })));
    }

    /// Everyone accepts, but the servers of `lost`, whose answers do not come. A clone is raised
    /// when all others have been: it answers with them.
    pub(crate) fn accept_raises(&mut self, lost: &[u64]) -> Vec<(u64, Raise)> {
        let mut raises = self.raises();
        let mut at = 0;
        while let Some((id, to, raise)) = raises.get(at).cloned() {
            if lost.contains(&to) {
                self.answer(id, Err(lost_answer()));
            } else {
                self.accept(id, &raise, ReplicaReport::default());
            }
            at += 1;
            let is_clones = |sent: &Sent| matches!(&sent.request, Request::Raise(it) if it.adopt);
            if self.sent.iter().any(is_clones) {
                raises.extend(self.raises());
            }
        }
        raises.into_iter().map(|(_, to, raise)| (to, raise)).collect()
    }

    pub(crate) fn take_grant(&mut self) -> (EffectId, GrantLease) {
        let at = self.sent.iter().position(|sent| matches!(sent.request, Request::GrantLease(_)));
        let sent = self.sent.remove(at.expect("a grant is on its way"));
        match sent.request {
            Request::GrantLease(grant) => (sent.id, grant),
            _ => unreachable!("it was looked for"),
        }
    }

    pub(crate) fn accept_grant(&mut self) -> GrantLease {
        let (id, grant) = self.take_grant();
        self.answer(id, Ok(Response::GrantLease(GrantLeaseAnswer::default())));
        grant
    }

    pub(crate) fn take_probe(&mut self) -> (EffectId, Probe) {
        let at = self.sent.iter().position(|sent| matches!(sent.request, Request::Probe(_)));
        let sent = self.sent.remove(at.expect("a probe is on its way"));
        match sent.request {
            Request::Probe(probe) => (sent.id, probe),
            _ => unreachable!("it was looked for"),
        }
    }

    /// A client gets its append lease on a fresh first chunk.
    pub(crate) fn first_chunk(&mut self) -> ChunkGrant {
        self.request(1, lease(LeasePurpose::Append, 0));
        self.accept_raises(&[]);
        self.commit();
        self.accept_grant();
        self.granted(1)
    }
}

pub(crate) fn lost_answer() -> Failure {
    Failure::unknown(ErrorCode::DeadlineExceeded, "lost")
}

pub(crate) fn lease(purpose: LeasePurpose, index: u64) -> Lease {
    Lease { file: FILE, index: ChunkIndex::new(index), purpose, ..Lease::default() }
}

pub(crate) fn report(grant: &ChunkGrant) -> ReplicaReport {
    ReplicaReport { handle: grant.handle, version: grant.version, ..ReplicaReport::default() }
}

pub(crate) fn held(grant: &ChunkGrant) -> HeldLease {
    HeldLease {
        handle: grant.handle,
        version: grant.version,
        lease: grant.lease,
        acknowledged: 0,
        wanted: true,
    }
}

pub(crate) fn members(grant: &ChunkGrant) -> Vec<u64> {
    let mut all: Vec<u64> = grant.secondaries.iter().map(|at| at.server.get()).collect();
    all.push(grant.primary.server.get());
    all.sort_unstable();
    all
}

/// A stream that producers write.
pub(crate) const STREAM: EntryId = EntryId::new(301);

/// The chunk of one of its producers, and its first version.
pub(crate) fn chunk_of(producer: u64) -> (ChunkHandle, ChunkVersion) {
    let term = Term::new(1);
    (ChunkHandle::of(term, 70 + producer), ChunkVersion::of(term, 80 + producer))
}

/// Makes [`STREAM`]: so many producers have a chunk each on three servers, and commit as many
/// bundles of that size in turns.
pub(crate) fn written_by(world: &mut World, producers: u64, (bundles, size): (u64, u64)) {
    let named =
        |number| MutationName { session: SessionId::new(9), number: MutationNumber::new(number) };
    let file = STREAM;
    world.apply(RaiseLevel { level: RECORD_LEVEL, ..RaiseLevel::default() });
    let (parent, name, layout) = (ROOT, "s".to_owned(), Layout::Stream);
    let (mutation, id, replication, base) = (named(1), STREAM, 3, AddFile::default());
    world.apply(AddFile { mutation, parent, name, id, replication, layout, ..base });
    for of in 1..=producers {
        let (producer, epoch) = (ProducerId::new(of), Epoch::new(of));
        let (mutation, name) = (named(1 + of), format!("p{of}"));
        let base = OpenProducerRecord::default();
        world.apply(OpenProducerRecord { mutation, file, name, producer, epoch, ..base });
        let ((handle, version), index) = (chunk_of(of), ChunkIndex::new(of - 1));
        let base = AllocateChunk { set_size: 3, producer, epoch, ..AllocateChunk::default() };
        world.apply(AllocateChunk { file, index, handle, version, ..base });
    }
    for (number, of) in (1..=bundles).flat_map(|number| (1..=producers).map(move |of| (number, of)))
    {
        let bundle = CommittedBundle {
            first: RecordNumber::new(number),
            count: 1,
            handle: chunk_of(of).0,
            offset: size * (number - 1),
            size,
            serial: SerialNumber::new(number),
            ..CommittedBundle::default()
        };
        let (producer, epoch) = (ProducerId::new(of), Epoch::new(of));
        let (bundles, base) = (vec![bundle], CommitBundlesRecord::default());
        world.apply(CommitBundlesRecord { file, producer, epoch, bundles, ..base });
    }
    let length = world.state.entry(STREAM).expect("there").length;
    assert_eq!(length, producers * bundles * size, "all of them are committed");
}
