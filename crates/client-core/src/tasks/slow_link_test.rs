//! Clients that write through one link which is slower than they are: what they send is not much
//! more than what is to be stored.

use crate::operation::Operation;
use crate::test_client::{Call, FILE, ResultSlot, TestClient, connected, grant, is_done, result};
use cairn_protocol::{ErrorCode, Failure, PushAnswer, Request, Response, WriteAnswer};
use cairn_types::CellConfig;
use std::collections::VecDeque;
use std::time::Duration;

const CLIENTS: usize = 8;
const WRITES_EACH: usize = 24;
/// As a stream has them under way.
const WRITES_AT_ONCE: usize = 8;
const WRITE_SIZE: usize = 1024;
/// Bytes that the link carries in a step.
const LINK_SIZE: usize = 400;
const STEP: Duration = Duration::from_millis(10);

/// One line for all that is pushed, by whom and to whom ever. What has a place in it is carried,
/// whether anybody still waits for its answer or not.
#[derive(Default)]
struct SlowLink {
    /// So many that chunks have in turn, each of servers of its own.
    chains: u64,
    line: VecDeque<(usize, Call)>,
    /// Of the first one.
    carried: usize,
    sent: usize,
    /// Calls that wait for their answer.
    waiting: Vec<(usize, Call)>,
}

struct Writer {
    client: TestClient,
    left: usize,
    at_once: usize,
    /// From one write to the next.
    stride: usize,
    under_way: Vec<ResultSlot>,
}

impl Writer {
    fn write_some(&mut self) {
        self.under_way.retain(|done| {
            let over = is_done(done);
            assert!(!over || result(done).is_ok(), "{:?}", result(done));
            !over
        });
        while self.left > 0 && self.under_way.len() < self.at_once {
            self.left -= 1;
            let offset = (self.left * self.stride) as u64;
            let bytes = vec![5; WRITE_SIZE].into();
            let write = Operation::Write { file: FILE, offset, bytes, sync: false };
            self.under_way.push(self.client.start(write));
        }
    }

    fn is_done(&self) -> bool {
        self.left == 0 && self.under_way.is_empty()
    }
}

impl SlowLink {
    /// What a client asks is answered at once, but for what is pushed.
    fn take(&mut self, at: usize, client: &mut TestClient) {
        while client.has_calls() {
            let call = client.call();
            match &call.request {
                Request::Lease(lease) => {
                    let index = lease.index.get();
                    let chain = [1, 2, 3].map(|server| 3 * (index % self.chains) + server);
                    client.tell(&call, Ok(grant(index, 8, 21, &chain)));
                }
                Request::Write(_) => {
                    client.tell(&call, Ok(Response::Write(WriteAnswer::default())));
                }
                Request::Push(_) => {
                    self.sent += call.payload.len();
                    self.line.push_back((at, call));
                }
                other => panic!("{other:?} is not asked by a writer"),
            }
        }
    }

    /// Whoever has waited for too long is told so; then a step's worth is carried.
    fn step(&mut self, writers: &mut [Writer]) {
        let late = |(at, call): &mut (usize, Call)| writers[*at].client.now >= call.deadline;
        let late: Vec<(usize, Call)> = self.waiting.extract_if(.., late).collect();
        for (at, call) in late {
            let failure = Failure::unknown(ErrorCode::DeadlineExceeded, "no answer in time");
            writers[at].client.tell(&call, Err(failure));
        }
        let mut room = LINK_SIZE;
        while let Some((_, call)) = self.line.front() {
            let size = call.payload.len() - self.carried;
            if size > room {
                self.carried += room;
                break;
            }
            room -= size;
            self.carried = 0;
            let (at, call) = self.line.pop_front().expect("it was there just now");
            let client = &mut writers[at].client;
            // Its time may be over, and that was told.
            if client.now < call.deadline {
                client.tell(&call, Ok(Response::Push(PushAnswer {})));
            }
            self.waiting.retain(|(of, it)| (*of, it.id) != (at, call.id));
        }
        let known: Vec<(usize, cairn_env::EffectId)> =
            self.waiting.iter().map(|(at, call)| (*at, call.id)).collect();
        for (at, call) in &self.line {
            if !known.contains(&(*at, call.id)) {
                let copy = Call {
                    to: call.to.clone(),
                    request: call.request.clone(),
                    payload: call.payload.clone(),
                    ..*call
                };
                self.waiting.push((*at, copy));
            }
        }
    }
}

/// The writers write until all is stored, and send at no time more than so many tenths of that.
fn store_all(chains: u64, mut writers: Vec<Writer>, tenths: usize) {
    let mut link = SlowLink { chains, ..SlowLink::default() };
    let stored: usize = writers.iter().map(|writer| writer.left * WRITE_SIZE).sum();
    let (mut steps, needed) = (0, stored / LINK_SIZE);
    while !writers.iter().all(Writer::is_done) {
        for (at, writer) in writers.iter_mut().enumerate() {
            writer.write_some();
            link.take(at, &mut writer.client);
        }
        link.step(&mut writers);
        for writer in &mut writers {
            writer.client.pass(STEP);
        }
        steps += 1;
        assert!(10 * link.sent <= tenths * stored, "{} of {stored}, step {steps}", link.sent);
        assert!(steps < 5 * needed, "{} of {stored} after {steps} steps", link.sent);
    }
    eprintln!("{} bytes sent for {stored}, in {steps} steps of {needed}", link.sent);
}

#[test]
fn what_clients_send_through_a_slow_link_is_a_small_multiple_of_what_they_store() {
    let (at_once, left, stride) = (WRITES_AT_ONCE, WRITES_EACH, WRITE_SIZE);
    let writer = |_| Writer { client: connected(), left, at_once, stride, under_way: vec![] };
    store_all(1, (0..CLIENTS).map(writer).collect(), 35);
}

/// Each of its chains has a window of its own, and all of them are one line in truth, of six
/// seconds: 16 tenths down one chain, 18 down these.
#[test]
fn what_one_client_sends_down_many_chains_through_a_slow_link_is_a_small_multiple_too() {
    let stride = usize::try_from(CellConfig::tiny().chunk_size).expect("small");
    let (at_once, left) = (256, 3 * 256);
    for chains in [16, 64] {
        let writer = Writer { client: connected(), left, at_once, stride, under_way: vec![] };
        store_all(chains, vec![writer], 20);
    }
}

/// Sends of the data of one append within its minute, where what is asked of chunkservers ends like
/// this, and the master grants another lease each time.
fn sends(ends: fn(&Call) -> Option<Failure>) -> usize {
    let mut client = connected();
    let bytes = vec![5; 64].into();
    let done = client.start(Operation::Append { file: FILE, bytes, sync: false });
    let (mut lease, mut sent, mut open) = (20, 0, Vec::new());
    for _ in 0..6_000 {
        while client.has_calls() {
            let call = client.call();
            match &call.request {
                Request::Lease(_) => {
                    lease += 1;
                    client.tell(&call, Ok(grant(3, 8, lease, &[1, 2, 3])));
                }
                Request::Push(_) => {
                    sent += 1;
                    open.push(call);
                }
                Request::Append(_) => open.push(call),
                other => panic!("{other:?} is not asked by an appender"),
            }
        }
        for call in std::mem::take(&mut open) {
            match ends(&call) {
                Some(failure) => client.tell(&call, Err(failure)),
                None if client.now < call.deadline => open.push(call),
                None => {
                    let late = Failure::unknown(ErrorCode::DeadlineExceeded, "no answer in time");
                    client.tell(&call, Err(late));
                }
            }
        }
        client.pass(STEP);
    }
    assert!(is_done(&done), "its minute is over");
    sent
}

/// Before it rested for longer and longer, these were 64, 252 and 336.
#[test]
fn data_that_arrives_nowhere_is_sent_a_few_times_in_a_minute() {
    let gone = |_: &Call| Some(Failure::not_done(ErrorCode::Unreachable, "nobody is there"));
    let broken = |_: &Call| Some(Failure::not_done(ErrorCode::ChainBroken, "by the next one"));
    let counts = [sends(|_| None), sends(gone), sends(broken)];
    assert!(counts[0] <= 40 && counts[1] <= 50 && counts[2] <= 64, "{counts:?}");
}
