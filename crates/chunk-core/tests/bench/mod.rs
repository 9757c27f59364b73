//! A chunkserver's core on a bench: events go in by hand, effects are looked at by hand.

#![allow(dead_code, unreachable_pub, reason = "each test file includes it and uses a part")]

use bytes::Bytes;
use cairn_chunk_core::{ChunkCore, ChunkCoreConfig, ScrubSettings, TRASH_LANE};
use cairn_env::{
    Answer, Caller, ChunkDone, ChunkJob, ChunkResult, Completion, ConnectionId, Effect, EffectId,
    Event, JournalPart, Lane, Now, ServerSpace,
};
use cairn_format::ScrubPosition;
use cairn_protocol::{
    Append, ErrorCode, Failure, FindPrimaryAnswer, Forward, ForwardAnswer, Forwarded, GrantLease,
    Heartbeat, InventoryAnswer, JoinAnswer, MasterRole, Raise, Read, ReplicaReport, Request,
    RequestId, Response, TellShadow,
};
use cairn_types::{
    Address, CellConfig, CellId, ChunkHandle, ChunkVersion, Incarnation, LeaseId, MutationNumber,
    PushId, ReplicaAt, SerialNumber, ServerId, SessionId, Term, Time, WallTime,
};
use std::collections::VecDeque;
use std::time::Duration;

pub type JobEffect = (EffectId, ChunkJob);
pub type CallEffect = (EffectId, Request);
pub type Reply = (Caller, Result<Response, Failure>);

/// A core on a bench: effects are sorted into what a test looks at.
pub struct Bench {
    pub core: ChunkCore,
    pub time: Time,
    pub wall_ms: u64,
    requests: u64,
    pub jobs: VecDeque<JobEffect>,
    pub scrubs: VecDeque<JobEffect>,
    /// Parts of journals that are verified; there is nothing in them, unless a test says it.
    pub journal_looks: VecDeque<(EffectId, JournalPart)>,
    pub has_journals: bool,
    /// Looks at the trash, and their lanes.
    pub emptying: VecDeque<(EffectId, Lane)>,
    pub calls: VecDeque<CallEffect>,
    /// Masters that are asked who is in charge.
    pub searches: VecDeque<(EffectId, Address)>,
    /// What masters that are not in charge are told.
    pub tells: VecDeque<(EffectId, Address, TellShadow)>,
    /// The masters that were asked anything else, in order.
    pub masters_asked: Vec<(Address, Request)>,
    pub replies: VecDeque<Reply>,
    pub wakes: VecDeque<EffectId>,
    pub logged: Vec<String>,
}

pub const TERM: Term = Term::new(3);

pub fn handle() -> ChunkHandle {
    ChunkHandle::of(TERM, 1)
}

pub fn version(counter: u64) -> ChunkVersion {
    ChunkVersion::of(TERM, counter)
}

pub fn lease() -> LeaseId {
    LeaseId::of(TERM, 9)
}

pub fn server(id: u64) -> ReplicaAt {
    let address = Address::new(format!("host{id}:1"));
    ReplicaAt { server: ServerId::new(id), address, ..ReplicaAt::default() }
}

pub fn push(number: u64) -> PushId {
    PushId { session: SessionId::new(7), number: MutationNumber::new(number) }
}

/// A replica of ten bytes at `version(1)`.
fn ten_bytes(handle: ChunkHandle) -> ReplicaReport {
    ReplicaReport { handle, version: version(1), length: 10, ..ReplicaReport::default() }
}

impl Bench {
    /// A server that holds nothing and has begun to join its cell.
    pub fn alone() -> Self {
        Self::starting(&[], ScrubPosition::default(), &[])
    }

    /// The same in a cell of several masters.
    pub fn of_masters(names: &[&str]) -> Self {
        let masters = names.iter().map(Address::new).collect();
        Self::starting_with(masters, &[], ScrubPosition::default(), &[])
    }

    /// A server that finds these replicas of ten bytes at `version(1)`, of which it knows some as
    /// bad, and has begun to join its cell.
    fn starting(held: &[ChunkHandle], scrubbed: ScrubPosition, bad: &[ChunkHandle]) -> Self {
        let held: Vec<_> = held.iter().map(|handle| ten_bytes(*handle)).collect();
        Self::starting_with(vec![Address::new("master:1")], &held, scrubbed, bad)
    }

    /// A server that finds replicas that stand so, and has joined.
    pub fn holding(held: &[ReplicaReport]) -> Self {
        let (masters, scrubbed) = (vec![Address::new("master:1")], ScrubPosition::default());
        let mut bench = Self::starting_with(masters, held, scrubbed, &[]);
        bench.join();
        bench
    }

    fn starting_with(
        masters: Vec<Address>,
        held: &[ReplicaReport],
        scrubbed: ScrubPosition,
        bad: &[ChunkHandle],
    ) -> Self {
        let settings = ChunkCoreConfig {
            at: server(1),
            incarnation: Incarnation::new(1),
            masters,
            cell: CellId::new(5),
            term: TERM,
            reign: Default::default(),
            highest_handle: ChunkHandle::default(),
            highest_version: ChunkVersion::default(),
            scrub: ScrubSettings { period_ms: 3_600_000, rate: 1000 },
            scrubbed,
        };
        let mut core = ChunkCore::new(settings, held, ServerSpace::default());
        core.mark_bad(bad);
        let mut bench = Self {
            core,
            time: Time::from_nanos(1_000_000_000),
            wall_ms: 1,
            requests: 0,
            jobs: VecDeque::new(),
            scrubs: VecDeque::new(),
            journal_looks: VecDeque::new(),
            has_journals: false,
            emptying: VecDeque::new(),
            calls: VecDeque::new(),
            searches: VecDeque::new(),
            tells: VecDeque::new(),
            masters_asked: vec![],
            replies: VecDeque::new(),
            wakes: VecDeque::new(),
            logged: vec![],
        };
        bench.step(Event::Started);
        bench
    }

    /// A server of a cell of several masters that finds these replicas and waits to be taken in.
    pub fn waiting(names: &[&str], held: &[ChunkHandle]) -> Self {
        let masters = names.iter().map(Address::new).collect();
        let held: Vec<_> = held.iter().map(|handle| ten_bytes(*handle)).collect();
        Self::starting_with(masters, &held, ScrubPosition::default(), &[])
    }

    /// The same, once it has joined.
    pub fn joined() -> Self {
        let mut bench = Self::alone();
        bench.join();
        bench
    }

    /// A server that has verified its replicas up to `scrubbed` in an earlier life, and has joined.
    pub fn restarted(held: &[ChunkHandle], scrubbed: ChunkHandle, bad: &[ChunkHandle]) -> Self {
        let scrubbed = ScrubPosition { began_ms: 1, handle: scrubbed };
        let mut bench = Self::starting(held, scrubbed, bad);
        bench.join();
        bench
    }

    /// A server that could not read one of its replicas when it started, and has joined.
    pub fn with_unread() -> Self {
        let verified = ScrubPosition { began_ms: 1, handle: handle() };
        let mut bench = Self::starting(&[handle()], verified, &[]);
        bench.core.mark_damaged(&[handle()]);
        bench.core.mark_unread(&[handle()]);
        bench.join();
        bench
    }

    /// All masters that are asked who is in charge answer: `primary` that it is, in this term; the
    /// others cannot be reached.
    pub fn find(&mut self, primary: &str, term: Term) {
        for (id, master) in std::mem::take(&mut self.searches) {
            let result = if master.as_str() == primary {
                let (role, default) = (MasterRole::Primary, FindPrimaryAnswer::default());
                Ok(Response::FindPrimary(FindPrimaryAnswer { role, term, ..default }))
            } else {
                Err(Failure::not_done(ErrorCode::Unreachable, "nobody listens there"))
            };
            self.answer(id, result);
        }
    }

    pub fn join(&mut self) {
        let config = Box::new(CellConfig::tiny());
        let join = self.call();
        assert!(matches!(join.1, Request::Join(_)));
        let answer =
            JoinAnswer { term: TERM, cell: CellId::new(5), config, ..JoinAnswer::default() };
        self.answer(join.0, Ok(Response::Join(answer)));
        let inventory = self.call();
        assert!(matches!(inventory.1, Request::Inventory(_)));
        self.answer(inventory.0, Ok(Response::Inventory(InventoryAnswer::default())));
    }

    /// The same, holding an empty replica at `version(1)`.
    pub fn with_replica() -> Self {
        let mut bench = Self::joined();
        let to = version(1);
        let create = Raise { create: true, ..raise(ChunkVersion::default(), to) };
        bench.ask(create);
        bench.journaled();
        assert!(bench.reply().1.is_ok());
        bench
    }

    /// The same, being the primary of servers 2 and 3.
    pub fn primary() -> Self {
        let mut bench = Self::with_replica();
        bench.ask(grant());
        bench.applied(0);
        for _ in 0..2 {
            bench.forward_answered();
        }
        assert!(matches!(bench.reply().1, Ok(Response::GrantLease(_))));
        bench
    }

    pub fn step(&mut self, event: Event<(), ChunkResult>) {
        let now = Now { time: self.time, wall: WallTime::from_millis(self.wall_ms) };
        let mut effects = Vec::new();
        self.core.step(now, event, &mut effects);
        for effect in effects {
            match effect {
                Effect::Disk { job: ChunkJob::Space | ChunkJob::Settle { .. }, .. } => {}
                Effect::Disk { id, job: job @ ChunkJob::Scrub { .. }, .. } => {
                    self.scrubs.push_back((id, job));
                }
                Effect::Disk { id, job: ChunkJob::ScrubJournal(part), .. } => {
                    self.journal_looks.push_back((id, part));
                }
                Effect::Disk { id, lane, job: ChunkJob::EmptyTrash { .. } } => {
                    self.emptying.push_back((id, lane));
                }
                Effect::Disk { id, lane, job } => {
                    // After a large deletion there are very many, and clients' jobs wait for none.
                    let is_trash = matches!(job, ChunkJob::Trash { .. });
                    assert_eq!(lane == TRASH_LANE, is_trash, "{job:?} in {lane:?}");
                    self.jobs.push_back((id, job));
                }
                Effect::Call { id, to, request: Request::FindPrimary(_), .. } => {
                    self.searches.push_back((id, to));
                }
                Effect::Call { id, to, request: Request::TellShadow(tell), .. } => {
                    self.tells.push_back((id, to, *tell));
                }
                Effect::Call { id, to, request, .. } => {
                    if to.as_str().starts_with("master") {
                        self.masters_asked.push((to, request.clone()));
                    }
                    self.calls.push_back((id, request));
                }
                Effect::Reply { to, answer, .. } => self.replies.push_back((to, answer)),
                Effect::Wake { id, .. } => self.wakes.push_back(id),
                Effect::Identify(_) => {}
                Effect::Log(event) => self.logged.push(event.to_string()),
                Effect::Halt(why) => panic!("halted: {why}"),
            }
        }
        if !self.has_journals
            && let Some((id, _)) = self.journal_looks.pop_front()
        {
            self.done(id, Ok(ChunkDone::JournalScrubbed { size: 0, next: None, told: None }));
        }
    }

    pub fn ask(&mut self, request: impl Into<Request>) -> Caller {
        self.requests += 1;
        let from = Caller { connection: ConnectionId(1), request: RequestId(self.requests) };
        self.step(Event::Request { from, request: request.into() });
        from
    }

    /// The heartbeat of a second later.
    pub fn heartbeat(&mut self) -> (EffectId, Heartbeat) {
        self.calls.clear();
        self.tick(Duration::from_secs(1));
        let beat = self.calls.iter().find_map(|(id, request)| match request {
            Request::Heartbeat(beat) => Some((*id, (**beat).clone())),
            _ => None,
        });
        beat.expect("a heartbeat is due")
    }

    pub fn tick(&mut self, later: Duration) {
        self.time = self.time + later;
        let id = self.wakes.pop_front().expect("a wake is always set");
        self.step(Event::Completed { id, result: Completion::Woken });
    }

    pub fn job(&mut self) -> JobEffect {
        self.jobs.pop_front().expect("a disk job")
    }

    pub fn call(&mut self) -> CallEffect {
        self.calls.pop_front().expect("a call")
    }

    pub fn reply(&mut self) -> Reply {
        self.replies.pop_front().expect("a reply")
    }

    pub fn failure(&mut self) -> Failure {
        self.reply().1.expect_err("a failure")
    }

    pub fn done(&mut self, id: EffectId, result: ChunkResult) {
        self.step(Event::Completed { id, result: Completion::Disk(result) });
    }

    pub fn answer(&mut self, id: EffectId, result: Result<Response, Failure>) {
        let result = result.map(|response| Answer { response, payload: Bytes::new() });
        self.step(Event::Completed { id, result: Completion::Answered(result) });
    }

    pub fn journaled(&mut self) {
        let (id, job) = self.job();
        assert!(matches!(job, ChunkJob::Journal(_)), "{job:?}");
        self.done(id, Ok(ChunkDone::Journaled));
    }

    /// The next apply succeeds and leaves `length` bytes.
    pub fn applied(&mut self, length: u64) -> usize {
        let (id, job) = self.job();
        let ChunkJob::Apply { mutations, .. } = job else { panic!("{job:?}") };
        let serial = mutations.last().expect("never an empty batch").serial;
        self.done(id, Ok(ChunkDone::Applied { length, serial }));
        mutations.len()
    }

    /// The next forward succeeds.
    pub fn forward_answered(&mut self) -> Forward {
        let (id, request) = self.call();
        let Request::Forward(forward) = request else { panic!("{request:?}") };
        let serial = forward.mutations.last().expect("never an empty batch").serial;
        self.answer(id, Ok(Response::Forward(ForwardAnswer { serial })));
        forward
    }
}

pub fn raise(from: ChunkVersion, to: ChunkVersion) -> Raise {
    let (handle, server) = (handle(), ServerId::new(1));
    Raise { term: TERM, handle, from, to, server, ..Raise::default() }
}

pub fn grant() -> GrantLease {
    GrantLease {
        term: TERM,
        handle: handle(),
        version: version(1),
        lease: lease(),
        secondaries: vec![server(2), server(3)],
        server: ServerId::new(1),
        ..GrantLease::default()
    }
}

pub fn append(number: u64, size: u64) -> Append {
    Append {
        handle: handle(),
        version: version(1),
        lease: lease(),
        push: push(number),
        size,
        ..Append::default()
    }
}

pub fn read(offset: u64, size: u64) -> Read {
    Read { handle: handle(), version: version(1), offset, size, ..Read::default() }
}

pub fn forward(first: u64, count: u64) -> Forward {
    let mutation = |n: u64| Forwarded {
        serial: SerialNumber::new(n),
        offset: (n - 1) * 10,
        size: 10,
        push: Some(push(n)),
        ..Forwarded::default()
    };
    Forward {
        handle: handle(),
        version: version(1),
        lease: lease(),
        mutations: (first..first + count).map(mutation).collect(),
        ..Forward::default()
    }
}
