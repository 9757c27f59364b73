//! One bundle of a producer on its way into one chunk (R40): pushed down the chain, then made the
//! end of the chunk on each server by itself.
//!
//! ```text
//!   Pushing ──► Waiting for the bundle before it ──► Extending ──► over: who holds it, who failed
//!      ▲                                                 │
//!      └──────── some lacked the data: they get it again ┘
//! ```
//! - BS1: a server hears of a bundle only once it has stored the one before it in the chunk, so
//!   that a gap is never asked for.
//! - BS2: whatever goes to a chunk's place again is the same bytes under the same name.
//! - BS3: once enough hold it, who is slow is not waited for long: the producer leaves the chunk.
//! - BS4: it hears of a bundle only once it has its data, or may have: what it is told does not
//!   wait behind pushes (E4).

use crate::context::ClientContext;
use crate::ids::TaskId;
use crate::nearness::order;
use crate::tasks::data_push::{DataPush, DataToPush, PushHaste};
use crate::tasks::push_progress::FailedPush;
use crate::tasks::task_context::{Progress, TaskContext, TaskInput};
use bytes::Bytes;
use cairn_env::{Answer, EffectId};
use cairn_protocol::{BundleHolder, ErrorCode, Extend, Failure, Rpc};
use cairn_types::{
    BlockChecksums, ChunkHandle, ChunkVersion, PushId, ReplicaAt, SerialNumber, ServerId,
};
use std::collections::BTreeMap;
use std::task::Poll;

/// Times that a server is told of a bundle, the data pushed to it again in between.
const ROUNDS_MAX: u32 = 3;

/// Where a bundle goes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct BundlePlace {
    pub(crate) handle: ChunkHandle,
    pub(crate) version: ChunkVersion,
    /// Which bundle of the chunk it is.
    pub(crate) serial: SerialNumber,
    pub(crate) offset: u64,
}

/// What became of it there.
#[derive(Debug)]
pub(crate) struct StoredBundle {
    pub(crate) holders: Vec<BundleHolder>,
    /// Who does not hold it, and why.
    pub(crate) failed: BTreeMap<ServerId, Failure>,
}

#[derive(Debug)]
enum StoreState {
    /// The data is on its way.
    Pushing(Box<DataPush>),
    /// The servers have the data; the bundle before it is not stored yet (BS1).
    Waiting,
    /// Servers are told to store it.
    Extending,
}

/// A bundle, and a chunk that is to hold it.
#[derive(Debug)]
pub(crate) struct BundleStore {
    place: BundlePlace,
    servers: Vec<ReplicaAt>,
    /// So many holders will do.
    enough: usize,
    bytes: Bytes,
    checksums: BlockChecksums,
    sync: bool,
    /// Given at the first push (BS2).
    push: Option<PushId>,
    state: StoreState,
    /// The bundle before it is stored.
    has_turn: bool,
    rounds: u32,
    extends: BTreeMap<EffectId, ServerId>,
    /// Those that have to get the data again.
    lacking: Vec<ReplicaAt>,
    holders: Vec<BundleHolder>,
    failed: BTreeMap<ServerId, Failure>,
}

impl BundleStore {
    /// `enough` holders are to be had of these servers; `has_turn`: no bundle before it is on its
    /// way to the same chunk.
    pub(crate) fn new(
        place: BundlePlace,
        (servers, enough): (Vec<ReplicaAt>, usize),
        bytes: Bytes,
        block_size: u32,
        (sync, has_turn): (bool, bool),
    ) -> Self {
        assert!(!bytes.is_empty(), "a bundle of nothing is refused before");
        assert!((1..=servers.len()).contains(&enough), "{enough} of {} holders", servers.len());
        let checksums = BlockChecksums::of(place.offset, &bytes, block_size);
        Self {
            place,
            servers,
            enough,
            bytes,
            checksums,
            sync,
            push: None,
            state: StoreState::Waiting,
            has_turn,
            rounds: 0,
            extends: BTreeMap::new(),
            lacking: Vec::new(),
            holders: Vec::new(),
            failed: BTreeMap::new(),
        }
    }

    /// It is taken away.
    pub(crate) fn leave(client: &mut ClientContext, id: TaskId) {
        client.push_lines.leave(id);
    }

    pub(crate) fn on(
        &mut self,
        cx: &mut TaskContext<'_>,
        input: TaskInput,
    ) -> Progress<StoredBundle> {
        let progress = self.step(cx, input);
        if progress.is_ready() || !matches!(self.state, StoreState::Pushing(_)) {
            cx.client.push_lines.leave(cx.id);
        }
        progress
    }

    fn step(&mut self, cx: &mut TaskContext<'_>, input: TaskInput) -> Progress<StoredBundle> {
        match (&mut self.state, input) {
            (_, TaskInput::Begin) => {
                let salt = cx.client.salt(self.place.handle);
                let chain = order(&cx.client.rack, salt, self.servers.clone());
                let data = DataPush::new(self.data(cx), chain, 0);
                self.begin_push(cx, data)
            }
            (_, TaskInput::Passed) => {
                self.has_turn = true;
                self.extend_in_turn(cx)
            }
            (StoreState::Pushing(data), TaskInput::Turn) => {
                data.send(cx);
                self.extend_once_pushed(cx)
            }
            (StoreState::Pushing(data), TaskInput::Answered(call, result)) if data.awaits(call) => {
                match data.answered(cx, call, result) {
                    Err(FailedPush::Final(failure)) => Poll::Ready(Err(failure)),
                    Ok(()) | Err(FailedPush::ServerFailed(_) | FailedPush::ChainBroke(_)) => {
                        self.extend_once_pushed(cx)
                    }
                }
            }
            (_, TaskInput::Answered(call, result)) => self.extended(cx, call, result),
            (StoreState::Pushing(data), TaskInput::Alarm) => {
                data.progress().hurry();
                self.extend_once_pushed(cx)
            }
            (StoreState::Extending, TaskInput::Alarm) => self.look_at_the_slow(cx),
            (StoreState::Waiting, TaskInput::Alarm) => Poll::Pending,
            (state, input) => unreachable!("{state:?} is not moved by {input:?}"),
        }
    }

    fn data(&mut self, cx: &mut TaskContext<'_>) -> DataToPush {
        let push = *self.push.get_or_insert_with(|| cx.client.next_push());
        let block_offset = self.place.offset % u64::from(cx.client.cell().block_size);
        let (bytes, checksums) = (self.bytes.clone(), self.checksums.clone());
        DataToPush {
            push,
            bytes,
            checksums,
            block_offset,
            haste: PushHaste::ShortForAll,
            order: None,
        }
    }

    fn begin_push(
        &mut self,
        cx: &mut TaskContext<'_>,
        mut data: DataPush,
    ) -> Progress<StoredBundle> {
        data.begin(cx);
        self.state = StoreState::Pushing(Box::new(data));
        Poll::Pending
    }

    /// Goes on once enough have the data, and whoever is not late.
    fn extend_once_pushed(&mut self, cx: &mut TaskContext<'_>) -> Progress<StoredBundle> {
        let StoreState::Pushing(data) = &mut self.state else {
            unreachable!("pushes end while pushing: {self:?}")
        };
        if data.is_queued()
            || !data.progress().will_do_for(self.enough - self.holders.len().min(self.enough))
        {
            return Poll::Pending;
        }
        let targets = if self.rounds == 0 { self.servers.clone() } else { self.lacking.clone() };
        let progress = data.progress();
        let lacks = |server| progress.has_failed(server) || progress.is_awaited_of(server);
        let (failed, left): (Vec<_>, Vec<_>) =
            targets.into_iter().partition(|replica| lacks(replica.server));
        for replica in failed {
            let why = match progress.has_failed(replica.server) {
                true => format!("the data of a bundle could not be pushed to {}", replica.address),
                // Told of it now, it would lack the data, which goes by another connection (BS4).
                false => format!("{} did not take a bundle's data in time", replica.address),
            };
            let failure = Failure::not_done(ErrorCode::Unreachable, why);
            self.failed.insert(replica.server, failure);
        }
        self.lacking = left;
        self.state = StoreState::Waiting;
        cx.drop_alarm();
        self.extend_in_turn(cx)
    }

    /// Tells those that have the data, once it is this bundle's turn (BS1).
    fn extend_in_turn(&mut self, cx: &mut TaskContext<'_>) -> Progress<StoredBundle> {
        if !self.has_turn || !matches!(self.state, StoreState::Waiting) {
            return Poll::Pending;
        }
        if self.holders.len() + self.lacking.len() < self.enough {
            return self.over();
        }
        self.state = StoreState::Extending;
        self.rounds += 1;
        let BundlePlace { handle, version, serial, offset } = self.place;
        let (push, sync) = (self.push.expect("it was pushed"), self.sync);
        for replica in std::mem::take(&mut self.lacking) {
            let (size, checksums) = (self.bytes.len() as u64, self.checksums.clone());
            let extend = Extend { handle, version, push, serial, offset, size, checksums, sync };
            let patience = cx.client.patience();
            let to = (replica.address.clone(), replica.server);
            let call = cx.call(to, extend, Bytes::new(), patience);
            self.extends.insert(call, replica.server);
        }
        let impatience = cx.client.impatience();
        cx.set_alarm(impatience);
        self.go_on_once_all_answered(cx)
    }

    /// A server has stored it, or not.
    fn extended(
        &mut self,
        cx: &mut TaskContext<'_>,
        call: EffectId,
        result: Result<Answer, Failure>,
    ) -> Progress<StoredBundle> {
        // Of a push that was not waited for.
        let Some(server) = self.extends.remove(&call) else { return Poll::Pending };
        let end = self.place.offset + self.bytes.len() as u64;
        match Extend::answer(result.map(|answer| answer.response)) {
            Ok(answer) if answer.server == server && answer.length >= end => {
                let incarnation = answer.incarnation;
                self.holders.push(BundleHolder { server, incarnation });
            }
            Ok(_) => {
                let why = format!("server {server} says that it stored something else");
                let failure = Failure::unknown(ErrorCode::Internal, why);
                self.failed.insert(server, failure);
            }
            Err(failure)
                if matches!(failure.code, ErrorCode::PushMissing | ErrorCode::Busy)
                    && self.rounds < ROUNDS_MAX =>
            {
                let replica = self.servers.iter().find(|replica| replica.server == server);
                self.lacking.extend(replica.cloned());
            }
            Err(failure) => {
                self.failed.insert(server, failure);
            }
        }
        self.go_on_once_all_answered(cx)
    }

    fn go_on_once_all_answered(&mut self, cx: &mut TaskContext<'_>) -> Progress<StoredBundle> {
        if !self.extends.is_empty() {
            return Poll::Pending;
        }
        if self.lacking.is_empty() || self.holders.len() + self.lacking.len() < self.enough {
            return self.over();
        }
        cx.drop_alarm();
        let again = DataPush::apart(self.data(cx), self.lacking.clone(), 0);
        self.begin_push(cx, again)
    }

    /// BS3
    fn look_at_the_slow(&mut self, cx: &mut TaskContext<'_>) -> Progress<StoredBundle> {
        if self.holders.len() < self.enough {
            let impatience = cx.client.impatience();
            cx.set_alarm(impatience);
            return Poll::Pending;
        }
        for server in std::mem::take(&mut self.extends).into_values() {
            let why = format!("server {server} did not store a bundle in time");
            self.failed.insert(server, Failure::unknown(ErrorCode::DeadlineExceeded, why));
        }
        self.over()
    }

    fn over(&mut self) -> Progress<StoredBundle> {
        for replica in &self.servers {
            let server = replica.server;
            if !self.holders.iter().any(|holder| holder.server == server) {
                self.failed.entry(server).or_insert_with(|| {
                    let why = format!("{} was not told of a bundle", replica.address);
                    Failure::not_done(ErrorCode::ReplicaFailed, why)
                });
            }
        }
        let (holders, failed) =
            (std::mem::take(&mut self.holders), std::mem::take(&mut self.failed));
        assert_eq!(holders.len() + failed.len(), self.servers.len(), "each holds it or does not");
        Poll::Ready(Ok(StoredBundle { holders, failed }))
    }
}
