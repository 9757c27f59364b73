//! A client in a test's hands: what it asks is looked at and answered by the test.

use crate::core::ClientCore;
use crate::no_disk::NoJob;
use crate::operation::{Command, Operation, Output};
use crate::settings::{ClientSettings, ShadowReads};
use bytes::Bytes;
use cairn_env::{Answer, Completion, Effect, EffectId, Event, Now};
use cairn_protocol::{
    CellInfoAnswer, ChunkGrant, ChunkLocations, ErrorCode, Failure, FindPrimaryAnswer,
    LocateAnswer, MasterRole, ReadAnswer, Request, Response,
};
use cairn_types::{
    Address, BlockChecksums, CellConfig, ChunkHandle, ChunkIndex, ChunkVersion, Entry, EntryId,
    LeaseId, Rack, ReplicaAt, ServerId, Term, Time, WallTime,
};
use std::collections::VecDeque;
use std::sync::{Arc, Mutex};
use std::time::Duration;

/// A call that the client made and the test has not answered.
#[derive(Clone, Debug)]
pub(crate) struct Call {
    pub(crate) id: EffectId,
    pub(crate) to: Address,
    pub(crate) request: Request,
    pub(crate) payload: Bytes,
    pub(crate) deadline: Time,
}

/// Where an operation's result will stand.
pub(crate) type ResultSlot = Arc<Mutex<Option<Result<Output, Failure>>>>;

pub(crate) struct TestClient {
    core: ClientCore,
    pub(crate) now: Time,
    calls: VecDeque<Call>,
    /// Masters that were asked who is in charge, and have not answered.
    searches: VecDeque<Call>,
    wakes: Vec<(EffectId, Time)>,
}

const MINUTE: Duration = Duration::from_secs(60);
pub(crate) const FILE: EntryId = EntryId::new(77);

/// A client of a tiny cell with two masters, in rack `/a`.
pub(crate) fn client() -> TestClient {
    client_that_takes(ShadowReads::Never)
}

/// The same, which takes what may be behind, or does not.
pub(crate) fn client_that_takes(shadow_reads: ShadowReads) -> TestClient {
    client_with(&["m1:1", "m2:1"], shadow_reads)
}

/// The same, told of these masters.
pub(crate) fn client_of(masters: &[&str]) -> TestClient {
    client_with(masters, ShadowReads::Never)
}

fn client_with(masters: &[&str], shadow_reads: ShadowReads) -> TestClient {
    let settings = ClientSettings {
        masters: masters.iter().map(|master| Address::new(*master)).collect(),
        rack: Rack::new("/a"),
        seed: 9,
        shadow_reads,
        identity: cairn_types::Identity::default(),
    };
    let mut client = TestClient {
        core: ClientCore::new(settings),
        now: Time::from_nanos(1),
        calls: VecDeque::new(),
        searches: VecDeque::new(),
        wakes: Vec::new(),
    };
    client.event(Event::Started);
    client
}

/// The same, once it knows the cell.
pub(crate) fn connected() -> TestClient {
    connected_to(CellConfig::tiny())
}

/// A client that knows a cell with settings of its own.
pub(crate) fn connected_to(config: CellConfig) -> TestClient {
    let mut client = client();
    client.start(Operation::Ask(cairn_protocol::CellInfo {}.into()));
    client.answer(Response::CellInfo(CellInfoAnswer {
        config: config.into(),
        ..CellInfoAnswer::default()
    }));
    client
}

impl TestClient {
    fn event(&mut self, event: Event<Command, NoJob>) {
        self.turn(vec![event]);
    }

    /// All of one turn.
    fn turn(&mut self, events: Vec<Event<Command, NoJob>>) {
        let mut effects = Vec::new();
        let now = Now { time: self.now, wall: WallTime::default() };
        for event in events {
            self.core.step(now, event, &mut effects);
        }
        self.core.end_of_batch(now, &mut effects);
        for effect in effects {
            match effect {
                Effect::Call { id, to, request, payload, deadline, .. } => {
                    let is_search = matches!(request, Request::FindPrimary(_));
                    let calls = if is_search { &mut self.searches } else { &mut self.calls };
                    calls.push_back(Call { id, to, request, payload, deadline });
                }
                Effect::Wake { id, at } => self.wakes.push((id, at)),
                Effect::Identify(_) => {}
                other => panic!("not a client's effect: {other:?}"),
            }
        }
    }

    /// Starts an operation with a minute's time.
    pub(crate) fn start(&mut self, operation: Operation) -> ResultSlot {
        self.start_all(vec![operation]).remove(0)
    }

    /// Starts several within one turn.
    pub(crate) fn start_all(&mut self, operations: Vec<Operation>) -> Vec<ResultSlot> {
        let within = operations.into_iter().map(|operation| (operation, MINUTE));
        self.start_all_within(&within.collect::<Vec<_>>())
    }

    /// The same, each with its time.
    pub(crate) fn start_all_within(&mut self, all: &[(Operation, Duration)]) -> Vec<ResultSlot> {
        let commands = all.iter().map(|(operation, span)| self.command(operation.clone(), *span));
        let (outcomes, commands) = commands.unzip();
        self.turn(commands);
        outcomes
    }

    fn command(&self, operation: Operation, span: Duration) -> (ResultSlot, Event<Command, NoJob>) {
        let outcome = ResultSlot::default();
        let told = Arc::clone(&outcome);
        let done = Box::new(move |result| {
            let before = told.lock().expect("one thread").replace(result);
            assert_eq!(before, None, "K1: done twice");
        });
        let deadline = self.now + span;
        (outcome, Event::Command(Command { ticket: 0, operation, deadline, done }))
    }

    /// The next call that nobody has answered.
    pub(crate) fn call(&mut self) -> Call {
        self.calls.pop_front().expect("the client waits, but has asked nobody")
    }

    /// The first such call that nobody has answered.
    pub(crate) fn call_of(&mut self, fit: impl Fn(&Request) -> bool) -> Call {
        let place = self.calls.iter().position(|call| fit(&call.request));
        let place = place.unwrap_or_else(|| panic!("no such call: {:?}", self.calls));
        self.calls.remove(place).expect("it was found there")
    }

    /// The same, if there is one.
    pub(crate) fn next_call(&mut self) -> Option<Call> {
        self.calls.pop_front()
    }

    pub(crate) fn has_calls(&self) -> bool {
        !self.calls.is_empty()
    }

    pub(crate) fn assert_asks_nobody(&self) {
        assert!(self.calls.is_empty(), "asked: {:?}", self.calls);
    }

    /// The masters that were asked who is in charge and have not answered, in order.
    pub(crate) fn searched(&self) -> Vec<String> {
        self.searches.iter().map(|call| call.to.as_str().to_owned()).collect()
    }

    /// All masters answer who is in charge: `primary` that it is, since term `term`; the others
    /// cannot be reached.
    pub(crate) fn find(&mut self, primary: &str, term: u64) {
        for call in std::mem::take(&mut self.searches) {
            let result = if call.to.as_str() == primary {
                let (role, term) = (MasterRole::Primary, Term::new(term));
                let answer = FindPrimaryAnswer { role, term, ..FindPrimaryAnswer::default() };
                Ok(Response::FindPrimary(answer))
            } else {
                Err(Failure::not_done(ErrorCode::Unreachable, "connection refused"))
            };
            self.tell(&call, result);
        }
    }

    /// Answers a call.
    pub(crate) fn tell(&mut self, call: &Call, result: Result<Response, Failure>) {
        self.tell_with(call, result, Bytes::new());
    }

    fn tell_with(&mut self, call: &Call, result: Result<Response, Failure>, payload: Bytes) {
        let result = result.map(|response| Answer { response, payload });
        let result = Completion::Answered(result);
        self.event(Event::Completed { id: call.id, result });
    }

    /// Answers the next call, and gives back what it was.
    pub(crate) fn answer(&mut self, response: Response) -> Call {
        let call = self.call();
        self.tell(&call, Ok(response));
        call
    }

    /// Fails the next call.
    pub(crate) fn fail(&mut self, failure: Failure) -> Call {
        let call = self.call();
        self.tell(&call, Err(failure));
        call
    }

    /// Answers a `Read` with bytes, the reply's other fields as given.
    pub(crate) fn send_bytes(&mut self, call: &Call, bytes: &[u8], answer: ReadAnswer) {
        let Request::Read(read) = &call.request else { panic!("no read: {call:?}") };
        let block_size = CellConfig::tiny().block_size;
        let checksums = BlockChecksums::of(read.offset, bytes, block_size);
        let answer = ReadAnswer { offset: read.offset, checksums, ..answer };
        self.tell_with(call, Ok(Response::Read(answer)), Bytes::copy_from_slice(bytes));
    }

    /// Answers a `Read` with bytes of another place.
    pub(crate) fn send_bytes_of(&mut self, call: &Call, offset: u64, bytes: &[u8]) {
        let checksums = BlockChecksums::of(offset, bytes, CellConfig::tiny().block_size);
        let answer = ReadAnswer { offset, checksums, ..ReadAnswer::default() };
        self.tell_with(call, Ok(Response::Read(answer)), Bytes::copy_from_slice(bytes));
    }

    /// The same with the byte at `place` flipped on the way.
    pub(crate) fn send_bad_bytes(&mut self, call: &Call, bytes: &[u8], place: usize) {
        let Request::Read(cairn_protocol::Read { offset, .. }) = call.request else {
            panic!("no read: {call:?}")
        };
        let block_size = CellConfig::tiny().block_size;
        let checksums = BlockChecksums::of(offset, bytes, block_size);
        let mut bytes = bytes.to_vec();
        bytes[place] ^= 1;
        let answer = ReadAnswer { offset, checksums, ..ReadAnswer::default() };
        self.tell_with(call, Ok(Response::Read(answer)), bytes.into());
    }

    /// Lets time pass, with all wakes that fall into it; how many did.
    pub(crate) fn pass(&mut self, span: Duration) -> usize {
        let (end, mut rung) = (self.now + span, 0);
        loop {
            self.wakes.sort_by_key(|(id, at)| (*at, *id));
            let Some((id, at)) = self.wakes.first().copied().filter(|(_, at)| *at <= end) else {
                break;
            };
            self.wakes.remove(0);
            self.now = self.now.max(at);
            self.event(Event::Completed { id, result: Completion::Woken });
            rung += 1;
        }
        self.now = end;
        rung
    }
}

pub(crate) fn result(outcome: &ResultSlot) -> Result<Output, Failure> {
    outcome.lock().expect("one thread").clone().expect("the operation is not done")
}

pub(crate) fn is_done(outcome: &ResultSlot) -> bool {
    outcome.lock().expect("one thread").is_some()
}

/// What a read gave, as one.
pub(crate) fn bytes_read(outcome: &ResultSlot) -> Vec<u8> {
    match result(outcome) {
        Ok(Output::Read { pieces, .. }) => pieces.concat(),
        other => panic!("no bytes: {other:?}"),
    }
}

/// Server `n` at `sn:1`; 1 and 2 stand in the client's rack, others do not.
pub(crate) fn server(n: u64) -> ReplicaAt {
    let rack = if n <= 2 { "/a" } else { "/b" };
    let address = Address::new(format!("s{n}:1"));
    ReplicaAt { server: ServerId::new(n), address, rack: Rack::new(rack) }
}

pub(crate) fn handle(index: u64) -> ChunkHandle {
    ChunkHandle::of(Term::new(1), 100 + index)
}

/// Chunk `index` at `version`, on these servers, leased to `primary`.
pub(crate) fn chunk(
    index: u64,
    version: u64,
    servers: &[u64],
    primary: Option<u64>,
) -> ChunkLocations {
    ChunkLocations {
        index: ChunkIndex::new(index),
        handle: handle(index),
        version: ChunkVersion::new(version),
        closed: false,
        replicas: servers.iter().map(|n| server(*n)).collect(),
        primary: primary.map(ServerId::new),
        lost: vec![],
    }
}

pub(crate) fn located(chunk_count: u64, chunks: Vec<ChunkLocations>) -> Response {
    let entry = Entry { id: FILE, chunk_count, ..Entry::default() };
    Response::Locate(LocateAnswer { entry, chunks, ..LocateAnswer::default() })
}

/// A grant on chunk `index`: the first of the servers is the primary.
pub(crate) fn grant(index: u64, version: u64, lease: u64, servers: &[u64]) -> Response {
    Response::Lease(ChunkGrant {
        index: ChunkIndex::new(index),
        handle: handle(index),
        version: ChunkVersion::new(version),
        lease: LeaseId::new(lease),
        primary: server(servers[0]),
        secondaries: servers[1..].iter().map(|n| server(*n)).collect(),
    })
}
