//! One mutation of one chunk: grant, push, order (GFS §3.1, Figure 2, steps 1 to 7), or the sync
//! of a chunk, which needs no push.
//!
//! ```text
//!   Granting ──► (its turn) ──► Pushing ──► Waiting for the write before it ──► Ordering ──► over
//!      ▲                         └─ answered as an order (U7) ─► over, or as below
//!      │                                                           │
//!      │                                     push missing: Pushing │
//!      └── Resting: another try, or another primary, lease, chunk ◄┘ refused, silent
//! ```
//! - U1: a push that fails at a secondary does not stop the order (P1 of `push_progress.rs`); one
//!   that fails at the primary does.
//! - U2: as long as the lease is the same, so is the push: the primary answers a repeat with the
//!   first result (R15). At another lease the push has another name.
//! - U3: once an order's end was unknown, a failure of the whole is *unknown*.
//! - U4: a primary that lets wait is doubted before its answer is overdue: the master looks whether
//!   it is there, and while it is, its answer is waited for. Where the master has gone on to
//!   another lease, so does the mutation.
//! - U5: after each push that was late the next is waited for twice as long, and has its turn
//!   (`push_lines.rs`): what is sent again and again in vain keeps others' data from arriving.
//! - U6: data that was sent in vain is sent once more at once, and then less and less often.
//! - U7: the data of a short append brings its order along where the primary is the first to get
//!   it. Then the end of that push is the order's: where it is unknown, so is the append's (U3). If
//!   it is not answered in time, the data goes to each server apart and the order by itself, under
//!   the same name: which of them took its time is not known, and the line does not count as slow.

use self::kind::{MutationKind, answers_order};
use crate::context::ClientContext;
use crate::ids::TaskId;
use crate::nearness::order;
use crate::retry::{is_final, is_silence};
use crate::settings::TRIES_AT_PRIMARY;
use crate::tasks::data_push::{DataPush, DataToPush, PushHaste};
use crate::tasks::push_progress::FailedPush;
use crate::tasks::task_context::{Progress, TaskContext, TaskInput};
use crate::tasks::write_order::WritePosition;
use bytes::Bytes;
use cairn_env::{Answer, EffectId};
use cairn_protocol::{
    Append, AppendOrder, ChunkGrant, ErrorCode, Failure, LeasePurpose, Outcome, Request, Response,
    Rpc, SHORT_PUSH_MAX, SyncChunk, Write,
};
use cairn_types::planted::{Rule, broken};
use cairn_types::{
    BlockChecksums, ChunkIndex, ChunkVersion, EntryId, LeaseId, PushId, ReplicaAt, ServerId,
};
use std::task::Poll;

mod kind;

pub(crate) use self::kind::AppliedRange;

/// The time between two doubts is doubled so often at most (U4).
const DOUBT_DOUBLINGS_MAX: u32 = 3;

#[derive(Debug)]
enum MutationState {
    /// A grant is looked up.
    Granting,
    /// Rests before the next step: with a grant in hand, before another order.
    Resting,
    /// The data is on its way to the replicas, or waits for its turn.
    Pushing(Box<DataPush>),
    /// All have the data; the write before this one has not been ordered yet.
    Waiting,
    /// The primary was told to carry it out.
    Ordering(EffectId),
}

/// The mutation of one chunk.
#[derive(Debug)]
pub(crate) struct ChunkMutation {
    file: EntryId,
    kind: MutationKind,
    /// Empty for a sync, and for nothing else.
    bytes: Bytes,
    checksums: BlockChecksums,
    state: MutationState,
    /// In hand while pushing, waiting and ordering.
    grant: Option<ChunkGrant>,
    /// The name of the data, and the lease under which it has it (U2).
    push: Option<(PushId, LeaseId)>,
    /// A primary that did not do, to be told to the master.
    failed_primary: Option<(ServerId, ChunkVersion)>,
    tries_at_primary: u32,
    /// How often the primary was doubted under this grant (U4).
    doubts: u32,
    /// Pushes that were late (U5).
    late: u32,
    /// How often the data was sent, in vain but for one of a chunk that others filled (U6).
    rounds: u32,
    attempts: u32,
    /// Some order may have been carried out (U3).
    unknown: bool,
    last_failure: Option<Failure>,
}

impl ChunkMutation {
    /// Puts `bytes` at an offset of a chunk.
    pub(crate) fn write(
        file: EntryId,
        (index, offset): (ChunkIndex, u64),
        bytes: Bytes,
        block_size: u32,
        sync: bool,
    ) -> Self {
        assert!(!bytes.is_empty(), "a write of nothing has no piece");
        let checksums = BlockChecksums::of(offset, &bytes, block_size);
        Self::new(file, MutationKind::Write { index, offset, sync }, bytes, checksums)
    }

    /// Puts `bytes` at the file's end, where its primary chooses.
    pub(crate) fn append(file: EntryId, bytes: Bytes, block_size: u32, sync: bool) -> Self {
        assert!(!bytes.is_empty(), "an append of nothing is refused before");
        let checksums = BlockChecksums::of(0, &bytes, block_size);
        Self::new(file, MutationKind::Append { sync }, bytes, checksums)
    }

    /// Has everything so far of a chunk on disk on all its replicas.
    pub(crate) fn sync(file: EntryId, index: ChunkIndex) -> Self {
        Self::new(file, MutationKind::Sync { index }, Bytes::new(), BlockChecksums::default())
    }

    fn new(file: EntryId, kind: MutationKind, bytes: Bytes, checksums: BlockChecksums) -> Self {
        Self {
            file,
            kind,
            bytes,
            checksums,
            state: MutationState::Granting,
            grant: None,
            push: None,
            failed_primary: None,
            tries_at_primary: 0,
            doubts: 0,
            late: 0,
            rounds: 0,
            attempts: 0,
            unknown: false,
            last_failure: None,
        }
    }

    /// Whether it may have been carried out (K1). A sync changes nothing.
    pub(crate) fn may_have_happened(&self) -> bool {
        self.has_data() && (self.unknown || self.is_ordered())
    }

    pub(crate) fn last_failure(&self) -> Option<&Failure> {
        self.last_failure.as_ref()
    }

    fn has_data(&self) -> bool {
        !self.bytes.is_empty()
    }

    fn grant(&self) -> &ChunkGrant {
        self.grant.as_ref().expect("pushing, waiting and ordering have a grant in hand")
    }

    fn purpose(&self) -> (LeasePurpose, ChunkIndex) {
        match self.kind {
            MutationKind::Append { .. } => (LeasePurpose::Append, ChunkIndex::default()),
            MutationKind::Write { index, .. } | MutationKind::Sync { index } => {
                (LeasePurpose::Write, index)
            }
        }
    }

    /// Where a write begins and ends.
    fn span(&self) -> Option<(WritePosition, WritePosition)> {
        let MutationKind::Write { index, offset, .. } = self.kind else { return None };
        let start = WritePosition { file: self.file, index, offset };
        Some((start, WritePosition { offset: offset + self.bytes.len() as u64, ..start }))
    }

    /// It is taken away.
    pub(crate) fn leave(&self, client: &mut ClientContext, id: TaskId) {
        self.leave_order(client, id);
        client.push_lines.leave(id);
    }

    /// It is on its first way to its order no more.
    fn leave_order(&self, client: &mut ClientContext, id: TaskId) {
        if let Some((start, end)) = self.span() {
            client.write_order.leave(start, end, id);
        }
    }

    /// Whether an order of it is on its way.
    fn is_ordered(&self) -> bool {
        match &self.state {
            MutationState::Ordering(_) => true,
            MutationState::Pushing(data) => data.has_ordered(),
            MutationState::Granting | MutationState::Resting | MutationState::Waiting => false,
        }
    }

    /// Whether its data is on its way, or waits for its turn.
    fn is_pushing(&self) -> bool {
        matches!(self.state, MutationState::Pushing(_))
    }

    pub(crate) fn on(
        &mut self,
        cx: &mut TaskContext<'_>,
        input: TaskInput,
    ) -> Progress<AppliedRange> {
        if let (TaskInput::Begin, Some((_, end))) = (&input, self.span()) {
            cx.client.write_order.begin(end, cx.id);
        }
        let was_pushing = self.is_pushing();
        let progress = self.step(cx, input);
        if was_pushing && (progress.is_ready() || !self.is_pushing()) {
            cx.client.push_lines.leave(cx.id);
        }
        let on_its_way = match &self.state {
            MutationState::Granting => self.attempts == 0,
            MutationState::Pushing(data) => !data.is_apart(),
            MutationState::Waiting => true,
            MutationState::Resting | MutationState::Ordering(_) => false,
        };
        if !on_its_way || progress.is_ready() {
            self.leave_order(cx.client, cx.id);
        }
        progress
    }

    fn step(&mut self, cx: &mut TaskContext<'_>, input: TaskInput) -> Progress<AppliedRange> {
        match (&self.state, input) {
            (MutationState::Granting, TaskInput::Begin | TaskInput::LookedUp(Ok(()))) => {
                self.take_grant(cx)
            }
            (MutationState::Granting, TaskInput::LookedUp(Err(failure))) => self.give_up(failure),
            (_, TaskInput::LookedUp(_)) => self.looked_up_in_doubt(cx),
            (_, TaskInput::Alarm) => self.alarmed(cx),
            (MutationState::Waiting, TaskInput::Passed) => self.order(cx),
            (MutationState::Pushing(data), TaskInput::Turn) if data.is_queued() => self.send(cx),
            (MutationState::Pushing(data), TaskInput::Answered(call, result))
                if data.awaits(call) =>
            {
                self.pushed(cx, call, result)
            }
            (MutationState::Ordering(call), TaskInput::Answered(id, result)) if *call == id => {
                self.ordered(cx, result.map(|answer| answer.response))
            }
            // Of a push that was not waited for, or of a primary that is given up.
            (_, TaskInput::Answered(..)) => Poll::Pending,
            (state, input) => unreachable!("{state:?} is not moved by {input:?}"),
        }
    }

    fn alarmed(&mut self, cx: &mut TaskContext<'_>) -> Progress<AppliedRange> {
        match &mut self.state {
            MutationState::Resting => self.rested(cx),
            MutationState::Pushing(data) if data.has_ordered() => {
                self.doubt(cx);
                Poll::Pending
            }
            MutationState::Pushing(data) if !data.is_queued() => {
                data.progress().hurry();
                self.doubt(cx);
                self.order_once_pushed(cx)
            }
            MutationState::Ordering(_) => {
                self.doubt(cx);
                Poll::Pending
            }
            MutationState::Granting | MutationState::Pushing(_) | MutationState::Waiting => {
                Poll::Pending
            }
        }
    }

    /// Has the master look whether the primary is there, and again after a while (U4).
    fn doubt(&mut self, cx: &mut TaskContext<'_>) {
        let grant = self.grant();
        let failed = Some((grant.primary.server, grant.version));
        let (purpose, index) = self.purpose();
        cx.look_up_grant(self.file, index, purpose, failed);
        self.doubts += 1;
        let pause = cx.client.impatience() * (1 << self.doubts.min(DOUBT_DOUBLINGS_MAX));
        cx.set_alarm(pause);
    }

    /// The master has looked; whether the mutation goes on where the master has gone on (U4).
    fn looked_up_in_doubt(&mut self, cx: &mut TaskContext<'_>) -> Progress<AppliedRange> {
        let ordering = matches!(self.state, MutationState::Ordering(_));
        let pushing = matches!(&self.state, MutationState::Pushing(data) if !data.is_queued());
        if !ordering && !pushing {
            return Poll::Pending;
        }
        let (purpose, index) = self.purpose();
        let lease = self.grant().lease;
        let other = |grant: &ChunkGrant| grant.lease != lease;
        if !cx.file(self.file).grant(purpose, index).is_some_and(other) {
            return Poll::Pending;
        }
        self.unknown |= self.is_ordered();
        self.grant = None;
        self.rest(cx)
    }

    fn rested(&mut self, cx: &mut TaskContext<'_>) -> Progress<AppliedRange> {
        if self.grant.is_some() { self.order(cx) } else { self.take_grant(cx) }
    }

    /// Steps 1 and 2: who is the primary, and where the others are.
    fn take_grant(&mut self, cx: &mut TaskContext<'_>) -> Progress<AppliedRange> {
        assert!(self.grant.is_none(), "one grant in hand will do");
        let (purpose, index) = self.purpose();
        let Some(grant) = cx.file(self.file).grant(purpose, index).cloned() else {
            self.state = MutationState::Granting;
            let failed = self.failed_primary.take();
            cx.look_up_grant(self.file, index, purpose, failed);
            return Poll::Pending;
        };
        self.failed_primary = None;
        (self.tries_at_primary, self.doubts) = (0, 0);
        self.grant = Some(grant);
        if self.has_data() { self.push(cx) } else { self.order(cx) }
    }

    /// The name of the data at this lease (U2).
    fn push_name(&mut self, cx: &mut TaskContext<'_>) -> PushId {
        let lease = self.grant().lease;
        match self.push {
            Some((push, at)) if at == lease && !broken(Rule::R15) => push,
            _ => {
                let push = cx.client.next_push();
                self.push = Some((push, lease));
                push
            }
        }
    }

    /// Step 3: the data goes down the chain.
    fn push(&mut self, cx: &mut TaskContext<'_>) -> Progress<AppliedRange> {
        assert!(self.has_data(), "a sync pushes nothing");
        self.rounds += 1;
        let (offset, haste) = match self.kind {
            MutationKind::Write { offset, .. } => (offset, PushHaste::Long),
            MutationKind::Append { .. } => (0, PushHaste::Short),
            MutationKind::Sync { .. } => unreachable!("a sync pushes nothing"),
        };
        let (push, chain) = (self.push_name(cx), self.chain(cx));
        let block_offset = offset % u64::from(cx.client.cell().block_size);
        let (bytes, checksums) = (self.bytes.clone(), self.checksums.clone());
        let order = self.order_with_push(&chain);
        let data = DataToPush { push, bytes, checksums, block_offset, haste, order };
        let mut data = Box::new(DataPush::new(data, chain, self.late));
        data.begin(cx);
        self.state = MutationState::Pushing(data);
        Poll::Pending
    }

    /// Its turn has come (U5).
    fn send(&mut self, cx: &mut TaskContext<'_>) -> Progress<AppliedRange> {
        let MutationState::Pushing(data) = &mut self.state else {
            unreachable!("who has its turn was queued: {self:?}")
        };
        data.send(cx);
        self.order_once_pushed(cx)
    }

    /// The replicas in the order in which the data travels.
    fn chain(&self, cx: &TaskContext<'_>) -> Vec<ReplicaAt> {
        let ChunkGrant { handle, primary, secondaries, .. } = self.grant();
        let (rack, salt) = (&cx.client.rack, cx.client.salt(*handle));
        let mut chain = vec![primary.clone()];
        let distance = rack.distance(&primary.rack);
        let is_nearest = || secondaries.iter().all(|it| distance <= rack.distance(&it.rack));
        if self.may_order_with_push() && is_nearest() {
            // It can order the append itself (U7).
            chain.extend(order(&primary.rack, salt, secondaries.clone()));
            return chain;
        }
        chain.extend(secondaries.iter().cloned());
        order(rack, salt, chain)
    }

    /// Whether its order may go along with its data: of a short append that is not to wait for a
    /// disk, whose data was not late before.
    fn may_order_with_push(&self) -> bool {
        let waits = !matches!(self.kind, MutationKind::Append { sync: false });
        !waits && self.bytes.len() <= SHORT_PUSH_MAX && self.late == 0
    }

    /// That order, where the primary is the first to get the data (U7).
    fn order_with_push(&self, chain: &[ReplicaAt]) -> Option<AppendOrder> {
        let &ChunkGrant { handle, version, lease, .. } = self.grant();
        let is_first = chain[0].server == self.grant().primary.server;
        (is_first && self.may_order_with_push()).then_some(AppendOrder { handle, version, lease })
    }

    /// A push is done, or not.
    fn pushed(
        &mut self,
        cx: &mut TaskContext<'_>,
        call: EffectId,
        result: Result<Answer, Failure>,
    ) -> Progress<AppliedRange> {
        let MutationState::Pushing(data) = &mut self.state else {
            unreachable!("a push is answered while pushing: {self:?}")
        };
        if data.has_ordered() {
            let is_answer = match &result {
                // A server of before has passed over the order: it gets one by itself.
                Ok(answer) => !matches!(answer.response, Response::Push(_)),
                Err(failure) => {
                    self.unknown |= failure.outcome == Outcome::Unknown;
                    answers_order(failure.code)
                }
            };
            if is_answer {
                data.was_ordered(cx, call);
                return self.ordered(cx, result.map(|answer| answer.response));
            }
        }
        let ended = data.answered(cx, call, result);
        self.late = data.late();
        match ended {
            Ok(()) => {}
            Err(FailedPush::Final(failure)) => return self.give_up(failure),
            Err(FailedPush::ServerFailed(failure) | FailedPush::ChainBroke(failure)) => {
                self.last_failure = Some(failure);
            }
        }
        self.order_once_pushed(cx)
    }

    /// Orders once the primary has the data, and whoever is not late (U1).
    fn order_once_pushed(&mut self, cx: &mut TaskContext<'_>) -> Progress<AppliedRange> {
        let primary = self.grant().primary.server;
        let MutationState::Pushing(data) = &mut self.state else {
            unreachable!("pushes end while pushing: {self:?}")
        };
        if data.is_queued() {
            return Poll::Pending;
        }
        let pushes = data.progress();
        if pushes.has_failed(primary) {
            return self.another_grant(cx, true);
        }
        if !pushes.will_do(primary) {
            return Poll::Pending;
        }
        if let Some((start, _)) = self.span()
            && self.last_failure.is_none()
            && cx.client.write_order.waits(start, cx.id)
        {
            self.state = MutationState::Waiting;
            return Poll::Pending;
        }
        self.order(cx)
    }

    /// Step 4: the primary orders it.
    fn order(&mut self, cx: &mut TaskContext<'_>) -> Progress<AppliedRange> {
        let grant = self.grant();
        let to = (grant.primary.address.clone(), grant.primary.server);
        let request = self.order_request();
        // The primary may have to wait for the master to shrink the set (R14).
        let patience = 2 * cx.client.patience();
        let call = cx.call(to, request, Bytes::new(), patience);
        self.state = MutationState::Ordering(call);
        let impatience = cx.client.impatience();
        cx.set_alarm(impatience);
        Poll::Pending
    }

    fn order_request(&self) -> Request {
        let &ChunkGrant { handle, version, lease, .. } = self.grant();
        let push = self.push.filter(|(_, at)| *at == lease).map(|(push, _)| push);
        assert_eq!(push.is_some(), self.has_data(), "data is pushed before it is ordered (U2)");
        let push = push.unwrap_or_default();
        let (size, checksums) = (self.bytes.len() as u64, self.checksums.clone());
        match self.kind {
            MutationKind::Write { offset, sync, .. } => {
                Write { handle, version, lease, push, offset, size, checksums, sync }.into()
            }
            MutationKind::Append { sync } => {
                Append { handle, version, lease, push, size, checksums, sync }.into()
            }
            MutationKind::Sync { .. } => {
                SyncChunk { handle, version, lease, from_primary: false }.into()
            }
        }
    }

    fn ordered(
        &mut self,
        cx: &mut TaskContext<'_>,
        result: Result<Response, Failure>,
    ) -> Progress<AppliedRange> {
        let (size, index) = (self.bytes.len() as u64, self.grant().index);
        // Saturating: an offset that was not ours is a server's word.
        let applied = match self.kind {
            MutationKind::Write { offset, .. } => {
                Write::answer(result).map(|answer| (offset, offset + size, answer.serial))
            }
            MutationKind::Append { .. } => Append::answer(result)
                .map(|it| (it.offset, it.offset.saturating_add(size), it.serial)),
            MutationKind::Sync { .. } => {
                SyncChunk::answer(result).map(|answer| (0, answer.length, answer.serial))
            }
        };
        match applied {
            Ok((offset, end, serial)) => {
                Poll::Ready(Ok(AppliedRange { index, offset, end, life: serial.life() }))
            }
            Err(failure) => self.refused(cx, failure),
        }
    }

    /// The primary did not do it, or nobody knows (U3).
    fn refused(&mut self, cx: &mut TaskContext<'_>, failure: Failure) -> Progress<AppliedRange> {
        self.unknown |= failure.outcome == Outcome::Unknown;
        self.last_failure = Some(failure.clone());
        match failure.code {
            ErrorCode::PushMissing if self.has_data() => self.try_again(cx, true),
            ErrorCode::StaleVersion | ErrorCode::NoSuchChunk => self.another_grant(cx, false),
            ErrorCode::ChunkClosed => {
                self.rounds = 0;
                self.another_grant(cx, false)
            }
            ErrorCode::NotPrimary => self.another_grant(cx, true),
            _ if is_silence(&failure) => self.another_grant(cx, true),
            _ if is_final(&failure) => self.give_up(failure),
            _ => self.try_again(cx, false),
        }
    }

    /// Once more at this primary, a few times; then from the master (A16).
    fn try_again(&mut self, cx: &mut TaskContext<'_>, push: bool) -> Progress<AppliedRange> {
        self.tries_at_primary += 1;
        // U6
        if self.tries_at_primary >= TRIES_AT_PRIMARY || (push && self.rounds > 1) {
            return self.another_grant(cx, false);
        }
        if push || (broken(Rule::R15) && self.has_data()) {
            return self.push(cx);
        }
        self.rest(cx)
    }

    /// This grant will not do: the master is asked again, and told of a primary that failed.
    fn another_grant(&mut self, cx: &mut TaskContext<'_>, failed: bool) -> Progress<AppliedRange> {
        let grant = self.grant.take().expect("what will not do was in hand");
        cx.file(self.file).drop_grant(grant.lease, grant.version);
        self.failed_primary = failed.then_some((grant.primary.server, grant.version));
        self.rest(cx)
    }

    fn rest(&mut self, cx: &mut TaskContext<'_>) -> Progress<AppliedRange> {
        self.state = MutationState::Resting;
        let of_data = self.grant.is_none().then(|| cx.client.data_backoff(self.rounds));
        let rest = cx.client.backoff(self.attempts).max(of_data.unwrap_or_default());
        self.attempts += 1;
        if rest.is_zero() {
            return self.rested(cx);
        }
        cx.set_alarm(rest);
        Poll::Pending
    }

    fn give_up(&mut self, failure: Failure) -> Progress<AppliedRange> {
        let outcome = if self.unknown { Outcome::Unknown } else { failure.outcome };
        Poll::Ready(Err(Failure { outcome, ..failure }))
    }
}

#[cfg(test)]
mod tests;
