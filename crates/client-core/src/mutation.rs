//! One mutation of one chunk: grant, push, order (GFS §3.1, Figure 2, steps 1 to 7), or the sync
//! of a chunk, which needs no push.
//!
//! ```text
//!   Granting ──► Pushing down the chain ──► Ordering ──► over
//!      ▲            │ broken: to each apart    │
//!      │            ▼                          │ push missing: push again
//!      └── another primary, lease, chunk ◄─────┘ refused, silent
//! ```
//! - U1: data that one secondary cannot take is no reason to stop: the order goes to the primary
//!   anyway, whose forward then fails there, and the set is shrunk (R14).
//! - U2: as long as the lease is the same, so is the push: the primary answers a repeat with the
//!   first result (R15). At another lease the push has another name.
//! - U3: once an order's end was unknown, a failure of the whole is *unknown*.

use crate::chain::order;
use crate::context::Context;
use crate::retry::{is_final, is_silence};
use crate::settings::TRIES_AT_PRIMARY;
use crate::task::{Input, Me, Progress};
use bytes::Bytes;
use cairn_env::EffectId;
use cairn_protocol::{
    Append, ChunkGrant, ErrorCode, Failure, LeasePurpose, Outcome, Push, Request, Response,
    SyncChunk, Write,
};
use cairn_types::planted::{Rule, broken};
use cairn_types::{
    BlockChecksums, ChunkIndex, ChunkVersion, EntryId, LeaseId, PushId, ReplicaAt, ServerId,
};
use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

/// What is to be done to the chunk.
#[derive(Clone, Debug)]
pub(crate) enum Change {
    /// Bytes at an offset of chunk `index`.
    Write { index: ChunkIndex, offset: u64, bytes: Bytes, sync: bool },
    /// Bytes at the file's end.
    Append { bytes: Bytes, sync: bool },
    /// Everything so far on disk, in chunk `index`.
    Sync { index: ChunkIndex },
}

/// Where it was done.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Mutated {
    pub(crate) index: ChunkIndex,
    /// Offset in the chunk.
    pub(crate) offset: u64,
    /// Where in the chunk the bytes end; of a sync, what of the chunk is on disk.
    pub(crate) end: u64,
}

#[derive(Debug)]
enum Stage {
    Granting,
    /// Resting before the next step; with a grant in hand, before another order.
    Resting,
    Pushing {
        /// The server that each push went to first.
        pending: BTreeMap<EffectId, ServerId>,
        /// To each server apart, since the chain broke.
        apart: bool,
        failed: BTreeSet<ServerId>,
    },
    Ordering(EffectId),
}

/// The machine.
#[derive(Debug)]
pub(crate) struct Mutation {
    file: EntryId,
    change: Change,
    checksums: BlockChecksums,
    stage: Stage,
    grant: Option<ChunkGrant>,
    push: Option<(PushId, LeaseId)>,
    /// A primary that did not do, to be told to the master.
    failed_primary: Option<(ServerId, ChunkVersion)>,
    tries: u32,
    attempts: u32,
    unknown: bool,
    last: Option<Failure>,
}

impl Mutation {
    pub(crate) fn new(cx: &Context, file: EntryId, change: Change) -> Self {
        let block_size = cx.cell().block_size;
        let checksums = match &change {
            Change::Write { offset, bytes, .. } => BlockChecksums::of(*offset, bytes, block_size),
            Change::Append { bytes, .. } => BlockChecksums::of(0, bytes, block_size),
            Change::Sync { .. } => BlockChecksums::default(),
        };
        Self {
            file,
            change,
            checksums,
            stage: Stage::Granting,
            grant: None,
            push: None,
            failed_primary: None,
            tries: 0,
            attempts: 0,
            unknown: false,
            last: None,
        }
    }

    pub(crate) fn may_have_happened(&self) -> bool {
        let changes = !matches!(self.change, Change::Sync { .. });
        changes && (self.unknown || matches!(self.stage, Stage::Ordering(_)))
    }

    pub(crate) fn last_failure(&self) -> Option<&Failure> {
        self.last.as_ref()
    }

    fn purpose(&self) -> (LeasePurpose, ChunkIndex) {
        match self.change {
            Change::Append { .. } => (LeasePurpose::Append, ChunkIndex::default()),
            Change::Write { index, .. } | Change::Sync { index } => (LeasePurpose::Write, index),
        }
    }

    fn bytes(&self) -> Option<&Bytes> {
        match &self.change {
            Change::Write { bytes, .. } | Change::Append { bytes, .. } => Some(bytes),
            Change::Sync { .. } => None,
        }
    }

    pub(crate) fn on(&mut self, cx: &mut Context, me: Me, input: Input) -> Progress<Mutated> {
        match input {
            Input::Begin | Input::Wanted(Ok(())) => self.go_on(cx, me),
            Input::Alarm if matches!(self.stage, Stage::Resting) => self.go_on(cx, me),
            Input::Alarm => Progress::Pending,
            Input::Wanted(Err(failure)) => self.give_up(failure),
            Input::Answered(id, result) => {
                let result = result.map(|answer| answer.response);
                match &mut self.stage {
                    Stage::Ordering(under_way) if *under_way == id => match result {
                        Ok(response) => self.ordered(cx, me, &response),
                        Err(failure) => self.refused(cx, me, failure),
                    },
                    Stage::Pushing { pending, .. } if pending.contains_key(&id) => {
                        self.pushed(cx, me, id, result.map(drop))
                    }
                    _ => Progress::Pending,
                }
            }
        }
    }

    fn go_on(&mut self, cx: &mut Context, me: Me) -> Progress<Mutated> {
        if !matches!(self.stage, Stage::Granting | Stage::Resting) {
            return Progress::Pending;
        }
        if self.grant.is_some() {
            return self.order(cx, me);
        }
        let (purpose, index) = self.purpose();
        match cx.file(self.file).grant(purpose, index).cloned() {
            Some(grant) => {
                self.failed_primary = None;
                self.tries = 0;
                self.grant = Some(grant);
                if self.bytes().is_some() { self.push(cx, me) } else { self.order(cx, me) }
            }
            None => {
                self.stage = Stage::Granting;
                let failed = self.failed_primary.take();
                cx.want_grant(me, self.file, index, purpose, failed);
                Progress::Pending
            }
        }
    }

    /// The name of the data at this lease (U2).
    fn push_name(&mut self, cx: &mut Context, lease: LeaseId) -> PushId {
        match self.push {
            Some((push, at)) if at == lease && !broken(Rule::R15) => push,
            _ => {
                let push = cx.next_push();
                self.push = Some((push, lease));
                push
            }
        }
    }

    /// Step 3: the data goes down the chain.
    fn push(&mut self, cx: &mut Context, me: Me) -> Progress<Mutated> {
        let Some(chain) = self.chain(cx) else { return self.go_on(cx, me) };
        let mut pending = BTreeMap::new();
        self.send_push(cx, me, &chain, &mut pending);
        self.stage = Stage::Pushing { pending, apart: false, failed: BTreeSet::new() };
        Progress::Pending
    }

    fn chain(&self, cx: &Context) -> Option<Vec<ReplicaAt>> {
        let grant = self.grant.as_ref()?;
        let mut replicas = vec![grant.primary.clone()];
        replicas.extend(grant.secondaries.iter().cloned());
        let salt = cx.settings.seed as u64 ^ grant.handle.get();
        Some(order(&cx.settings.rack, salt, replicas))
    }

    fn send_push(
        &mut self,
        cx: &mut Context,
        me: Me,
        chain: &[ReplicaAt],
        pending: &mut BTreeMap<EffectId, ServerId>,
    ) {
        let (Some(grant), Some(bytes)) = (&self.grant, self.bytes().cloned()) else { return };
        let Some((first, rest)) = chain.split_first() else { return };
        let block_size = cx.cell().block_size;
        let block_offset = match self.change {
            Change::Write { offset, .. } => offset % u64::from(block_size),
            Change::Append { .. } | Change::Sync { .. } => 0,
        };
        let push = Push {
            push: self.push_name(cx, grant.lease),
            block_offset: u32::try_from(block_offset).expect("less than a block"),
            checksums: self.checksums.clone(),
            chain: rest.to_vec(),
            block_size,
        };
        // A second more for each MiB, so that a slow network is not taken for a dead server.
        let patience = cx.patience() + Duration::from_secs(bytes.len() as u64 >> 20);
        let to = (first.address.clone(), first.server);
        let id = cx.call(me, to, push, bytes, patience);
        pending.insert(id, first.server);
    }

    /// A push is done, or not.
    fn pushed(
        &mut self,
        cx: &mut Context,
        me: Me,
        id: EffectId,
        result: Result<(), Failure>,
    ) -> Progress<Mutated> {
        let Stage::Pushing { pending, apart, failed } = &mut self.stage else {
            return Progress::Pending;
        };
        let Some(first) = pending.remove(&id) else { return Progress::Pending };
        if let Err(failure) = result {
            if is_final(&failure) && !is_silence(&failure) {
                return self.give_up(failure);
            }
            // Of a chain only these two tell who it was; apart, it is the one that was asked.
            if failure.code == ErrorCode::ChainBroken && failure.server != ServerId::default() {
                failed.insert(failure.server);
            } else if *apart || failure.code == ErrorCode::Unreachable {
                failed.insert(first);
            }
            let (was_apart, failed) = (std::mem::replace(apart, true), failed.clone());
            self.last = Some(failure);
            if !was_apart {
                return self.push_apart(cx, me, failed);
            }
        }
        self.maybe_order(cx, me)
    }

    /// The chain broke: each server that may still be there gets the data by itself (U1).
    fn push_apart(
        &mut self,
        cx: &mut Context,
        me: Me,
        failed: BTreeSet<ServerId>,
    ) -> Progress<Mutated> {
        let mut pending = BTreeMap::new();
        for replica in self.chain(cx).unwrap_or_default() {
            if !failed.contains(&replica.server) {
                self.send_push(cx, me, &[replica], &mut pending);
            }
        }
        self.stage = Stage::Pushing { pending, apart: true, failed };
        self.maybe_order(cx, me)
    }

    /// Orders once no push is under way and the primary has the data.
    fn maybe_order(&mut self, cx: &mut Context, me: Me) -> Progress<Mutated> {
        let Stage::Pushing { pending, failed, .. } = &self.stage else { return Progress::Pending };
        if !pending.is_empty() {
            return Progress::Pending;
        }
        let primary = self.grant.as_ref().map(|grant| grant.primary.server);
        if primary.is_some_and(|primary| failed.contains(&primary)) {
            return self.another_grant(cx, me, true);
        }
        self.order(cx, me)
    }

    /// Step 4: the primary orders it.
    fn order(&mut self, cx: &mut Context, me: Me) -> Progress<Mutated> {
        let Some(grant) = self.grant.clone() else { return Progress::Pending };
        let ChunkGrant { handle, version, lease, .. } = grant;
        let push = self.push.map(|(push, _)| push).unwrap_or_default();
        let checksums = self.checksums.clone();
        let request: Request = match &self.change {
            Change::Write { offset, bytes, sync, .. } => Write {
                handle,
                version,
                lease,
                push,
                offset: *offset,
                size: bytes.len() as u64,
                checksums,
                sync: *sync,
            }
            .into(),
            Change::Append { bytes, sync } => {
                let size = bytes.len() as u64;
                Append { handle, version, lease, push, size, checksums, sync: *sync }.into()
            }
            Change::Sync { .. } => SyncChunk { handle, version, lease, from_primary: false }.into(),
        };
        let to = (grant.primary.address, grant.primary.server);
        // The primary may have to wait for the master to shrink the set (R14).
        let patience = 2 * cx.patience();
        let id = cx.call(me, to, request, Bytes::new(), patience);
        self.stage = Stage::Ordering(id);
        Progress::Pending
    }

    fn ordered(&mut self, cx: &mut Context, me: Me, response: &Response) -> Progress<Mutated> {
        let size = self.bytes().map_or(0, |bytes| bytes.len() as u64);
        let (offset, end) = match (&self.change, response) {
            (Change::Write { offset, .. }, Response::Write(_)) => (*offset, offset + size),
            (Change::Append { .. }, Response::Append(answer)) => {
                (answer.offset, answer.offset.saturating_add(size))
            }
            (Change::Sync { .. }, Response::SyncChunk(answer)) => (0, answer.length),
            _ => return self.refused(cx, me, crate::shared_asks::mismatched(response)),
        };
        let index = self.grant.as_ref().map(|grant| grant.index).unwrap_or_default();
        Progress::Over(Ok(Mutated { index, offset, end }))
    }

    /// The primary did not do it, or nobody knows (U3).
    fn refused(&mut self, cx: &mut Context, me: Me, failure: Failure) -> Progress<Mutated> {
        self.unknown |= failure.outcome == Outcome::Unknown;
        self.last = Some(failure.clone());
        match failure.code {
            ErrorCode::PushMissing if self.bytes().is_some() => self.try_again(cx, me, true),
            ErrorCode::StaleVersion | ErrorCode::NoSuchChunk | ErrorCode::ChunkClosed => {
                self.another_grant(cx, me, false)
            }
            ErrorCode::NotPrimary => self.another_grant(cx, me, true),
            _ if is_silence(&failure) => self.another_grant(cx, me, true),
            _ if is_final(&failure) => self.give_up(failure),
            _ => self.try_again(cx, me, false),
        }
    }

    /// Once more at this primary, a few times; then from the master (A16).
    fn try_again(&mut self, cx: &mut Context, me: Me, push: bool) -> Progress<Mutated> {
        self.tries += 1;
        if self.tries >= TRIES_AT_PRIMARY {
            return self.another_grant(cx, me, false);
        }
        if push {
            return self.push(cx, me);
        }
        if broken(Rule::R15) && self.bytes().is_some() {
            return self.push(cx, me);
        }
        self.rest(cx, me)
    }

    /// This grant will not do: the master is asked again, and told of a primary that failed.
    fn another_grant(&mut self, cx: &mut Context, me: Me, failed: bool) -> Progress<Mutated> {
        if let Some(grant) = self.grant.take() {
            cx.file(self.file).drop_grant(grant.lease, grant.version);
            self.failed_primary = failed.then_some((grant.primary.server, grant.version));
        }
        self.rest(cx, me)
    }

    fn rest(&mut self, cx: &mut Context, me: Me) -> Progress<Mutated> {
        self.stage = Stage::Resting;
        let rest = cx.rest(self.attempts);
        self.attempts += 1;
        if rest.is_zero() {
            return self.go_on(cx, me);
        }
        cx.alarm(me, rest);
        Progress::Pending
    }

    fn give_up(&mut self, failure: Failure) -> Progress<Mutated> {
        let outcome = if self.unknown { Outcome::Unknown } else { failure.outcome };
        Progress::Over(Err(Failure { outcome, ..failure }))
    }
}

#[cfg(test)]
mod tests {
    use crate::operation::{Operation, Output};
    use crate::test_client::{
        Call, FILE, Outcome as Ended, TestClient, connected, grant, handle, is_done, result,
    };
    use bytes::Bytes;
    use cairn_protocol::{
        Append, AppendAnswer, ErrorCode, Failure, Lease, LeasePurpose, Outcome, Push, PushAnswer,
        RecordLengthAnswer, Request, Response, SyncChunkAnswer, Write, WriteAnswer,
    };
    use cairn_types::{BlockChecksums, ChunkVersion, LeaseId, ServerId};
    use std::time::Duration;

    fn append(size: usize) -> Operation {
        Operation::Append { file: FILE, bytes: vec![5; size].into(), sync: false }
    }

    fn leased(client: &mut TestClient, response: Response) -> Lease {
        let call = client.answer(response);
        let Request::Lease(lease) = call.request else { panic!("no lease asked: {call:?}") };
        lease
    }

    fn pushed(client: &mut TestClient) -> (Push, Call) {
        let call = client.call();
        let Request::Push(push) = call.request.clone() else { panic!("no push: {call:?}") };
        (push, call)
    }

    fn push_ok(client: &mut TestClient) -> Push {
        let (push, call) = pushed(client);
        client.tell(&call, Ok(Response::Push(PushAnswer {})));
        push
    }

    fn ordered(client: &mut TestClient) -> (Append, Call) {
        let call = client.call();
        let Request::Append(append) = call.request.clone() else { panic!("no append: {call:?}") };
        (append, call)
    }

    fn synced(length: u64) -> Response {
        Response::SyncChunk(SyncChunkAnswer { length, ..SyncChunkAnswer::default() })
    }

    fn appended(offset: u64) -> Response {
        Response::Append(AppendAnswer { offset, ..AppendAnswer::default() })
    }

    #[test]
    fn an_append_is_granted_pushed_nearest_first_and_ordered_by_the_primary() {
        let mut client = connected();
        let done = client.start(append(100));
        let lease = leased(&mut client, grant(3, 8, 21, &[4, 1, 3]));
        assert_eq!((lease.file, lease.purpose), (FILE, LeasePurpose::Append));
        let (push, call) = pushed(&mut client);
        assert_eq!(call.to.as_str(), "s1:1", "nearest first, not the primary first");
        assert_eq!(push.chain.len(), 2);
        assert_eq!((push.block_offset, push.block_size), (0, 64));
        assert_eq!(push.checksums, BlockChecksums::of(0, &[5; 100], 64));
        assert_eq!(call.payload, Bytes::from(vec![5; 100]));
        client.assert_asks_nobody();
        client.tell(&call, Ok(Response::Push(PushAnswer {})));
        let (sent, call) = ordered(&mut client);
        assert_eq!(call.to.as_str(), "s4:1");
        let expected = Append {
            handle: handle(3),
            version: ChunkVersion::new(8),
            lease: LeaseId::new(21),
            push: push.push,
            size: 100,
            checksums: push.checksums,
            sync: false,
        };
        assert_eq!(sent, expected);
        client.tell(&call, Ok(appended(40)));
        assert_eq!(result(&done), Ok(Output::Appended { offset: 3 * 4096 + 40 }));

        client.start(append(1));
        let (second, _) = pushed(&mut client);
        assert_ne!(second.push, push.push, "the grant is kept, the name of the data is new");
    }

    #[test]
    fn a_write_is_cut_at_the_chunk_boundary_and_its_pieces_at_block_boundaries() {
        let mut client = connected();
        let bytes = Bytes::from(vec![6; 50]);
        let done = client.start(Operation::WriteAt { file: FILE, offset: 4070, bytes, sync: true });
        let (first, second) = (client.call(), client.call());
        client.tell(&first, Ok(grant(0, 8, 1, &[1])));
        client.tell(&second, Ok(grant(1, 9, 2, &[1])));
        let (a, b) = (push_ok(&mut client), push_ok(&mut client));
        assert_eq!((a.block_offset, b.block_offset), (4070 % 64, 0));
        for (index, offset, size) in [(0, 4070, 26), (1, 0, 24)] {
            let call = client.answer(Response::Write(WriteAnswer::default()));
            let Request::Write(Write { handle: to, offset: at, size: of, sync, .. }) = call.request
            else {
                panic!("no write")
            };
            assert_eq!((to, at, of, sync), (handle(index), offset, size, true));
        }
        assert_eq!(result(&done), Ok(Output::Written));
    }

    #[test]
    fn a_broken_chain_does_not_stop_the_order_as_long_as_the_primary_has_the_data() {
        let mut client = connected();
        let done = client.start(append(10));
        leased(&mut client, grant(0, 8, 1, &[1, 3, 4]));
        let broken = Failure {
            server: ServerId::new(4),
            ..Failure::not_done(ErrorCode::ChainBroken, "server 4 does not answer")
        };
        client.fail(broken);
        let ((a, to_a), (b, to_b)) = (pushed(&mut client), pushed(&mut client));
        let mut apart = [to_a.to.as_str(), to_b.to.as_str()];
        apart.sort_unstable();
        assert_eq!(apart, ["s1:1", "s3:1"]);
        assert!(a.chain.is_empty() && b.chain.is_empty() && a.push == b.push);
        client.tell(&to_a, Ok(Response::Push(PushAnswer {})));
        client.assert_asks_nobody();
        client.tell(&to_b, Ok(Response::Push(PushAnswer {})));
        let (_, call) = ordered(&mut client);
        assert_eq!(call.to.as_str(), "s1:1", "U1");
        client.tell(&call, Ok(appended(0)));
        assert!(result(&done).is_ok());
    }

    #[test]
    fn a_primary_that_the_data_does_not_reach_is_named_to_the_master() {
        let mut client = connected();
        client.start(append(10));
        leased(&mut client, grant(0, 8, 1, &[1, 3]));
        let gone = || Failure::not_done(ErrorCode::Unreachable, "connection refused");
        assert_eq!(client.fail(gone()).to.as_str(), "s1:1");
        push_ok(&mut client);
        let lease = leased(&mut client, grant(1, 9, 2, &[3, 4]));
        assert_eq!((lease.failed.get(), lease.failed_version.get()), (1, 8));
    }

    #[test]
    fn a_retry_at_the_same_lease_has_the_same_push_and_at_another_lease_another() {
        let mut client = connected();
        let done = client.start(append(10));
        leased(&mut client, grant(0, 8, 1, &[1, 3]));
        let first = push_ok(&mut client);
        let lost = || Failure::unknown(ErrorCode::Unreachable, "the connection was lost");
        let (_, call) = ordered(&mut client);
        client.tell(&call, Err(lost()));
        // The master probed: the primary lives, and a raise in between has changed the version.
        let lease = leased(&mut client, grant(0, 9, 1, &[1, 3]));
        assert_eq!(lease.failed.get(), 1);
        let second = push_ok(&mut client);
        assert_eq!(first.push, second.push, "R15");
        let (again, call) = ordered(&mut client);
        assert_eq!((again.push, again.version.get()), (first.push, 9));
        client.tell(&call, Err(lost()));
        client.pass(Duration::from_millis(50));
        leased(&mut client, grant(1, 10, 2, &[3, 4]));
        let third = push_ok(&mut client);
        assert_ne!(third.push, first.push, "U2");
        let (_, call) = ordered(&mut client);
        client.tell(&call, Err(Failure::refused(ErrorCode::Invalid, "no")));
        assert_eq!(result(&done).map_err(|f| f.outcome), Err(Outcome::Unknown), "U3");
    }

    #[test]
    fn data_that_has_aged_out_is_pushed_again_under_its_name() {
        let mut client = connected();
        client.start(append(10));
        leased(&mut client, grant(0, 8, 1, &[1]));
        let first = push_ok(&mut client);
        let (_, call) = ordered(&mut client);
        client.tell(&call, Err(Failure::not_done(ErrorCode::PushMissing, "aged out")));
        assert_eq!(push_ok(&mut client).push, first.push);
        let _ = ordered(&mut client);
    }

    #[test]
    fn a_full_chunk_sends_the_append_to_the_next_one() {
        let mut client = connected();
        let done = client.start(append(10));
        leased(&mut client, grant(0, 8, 1, &[1]));
        push_ok(&mut client);
        let (_, call) = ordered(&mut client);
        client.tell(&call, Err(Failure::not_done(ErrorCode::ChunkClosed, "full")));
        let lease = leased(&mut client, grant(1, 9, 2, &[1]));
        assert_eq!(lease.failed, ServerId::default(), "nobody has failed");
        push_ok(&mut client);
        let (_, call) = ordered(&mut client);
        client.tell(&call, Ok(appended(0)));
        assert_eq!(result(&done), Ok(Output::Appended { offset: 4096 }));
    }

    #[test]
    fn a_record_over_a_quarter_of_a_chunk_is_refused_before_anyone_is_asked() {
        let mut client = connected();
        let done = client.start(append(1025));
        client.assert_asks_nobody();
        let failure = result(&done).expect_err("too large");
        assert_eq!((failure.code, failure.outcome), (ErrorCode::RecordTooLarge, Outcome::Refused));
    }

    #[test]
    fn an_append_that_was_ordered_and_not_answered_is_unknown_and_one_only_pushed_not_done() {
        let mut client = connected();
        let done = client.start(append(10));
        leased(&mut client, grant(0, 8, 1, &[1]));
        push_ok(&mut client);
        let _ordered = ordered(&mut client);
        client.pass(Duration::from_secs(61));
        assert_eq!(result(&done).map_err(|f| f.outcome), Err(Outcome::Unknown));

        let done = client.start(append(10));
        let _pushed = pushed(&mut client);
        client.pass(Duration::from_secs(61));
        assert_eq!(result(&done).map_err(|f| f.outcome), Err(Outcome::NotDone));
    }

    #[test]
    fn a_sync_covers_what_was_acknowledged_before_it_and_leaves_what_came_meanwhile() {
        let mut client = connected();
        let write = |client: &mut TestClient| {
            client.start(append(10));
        };
        write(&mut client);
        leased(&mut client, grant(0, 8, 1, &[1]));
        push_ok(&mut client);
        client.answer(appended(0));
        let sync = client.start(Operation::Sync { file: FILE });
        let syncing = client.call();
        assert!(matches!(&syncing.request, Request::SyncChunk(sync) if sync.handle == handle(0)));
        write(&mut client);
        push_ok(&mut client);
        client.answer(appended(10));
        client.tell(&syncing, Ok(synced(10)));
        assert!(!is_done(&sync));
        let recorded = Response::RecordLength(RecordLengthAnswer { length: 10 });
        client.answer(recorded.clone());
        assert_eq!(result(&sync), Ok(Output::Recorded { length: 10 }));

        client.start(Operation::Sync { file: FILE });
        let call = client.answer(synced(20));
        assert!(matches!(call.request, Request::SyncChunk(_)), "S1");
        client.answer(recorded.clone());
        client.start(Operation::Sync { file: FILE });
        let call = client.answer(recorded);
        assert!(matches!(call.request, Request::RecordLength(_)), "all is synced");
    }

    #[test]
    fn a_sync_tells_once_of_acknowledged_bytes_that_are_gone() {
        let mut client = connected();
        client.start(append(10));
        leased(&mut client, grant(0, 8, 1, &[1]));
        push_ok(&mut client);
        client.answer(appended(30));
        let sync = client.start(Operation::Sync { file: FILE });
        // The power failed, and what is left was levelled (R28).
        client.answer(synced(39));
        let failure = result(&sync).expect_err("byte 39 was acknowledged");
        assert_eq!((failure.code, failure.outcome), (ErrorCode::Io, Outcome::Refused));
        assert!(failure.message.contains("40 acknowledged bytes and has 39"), "{failure}");
        client.assert_asks_nobody();
        client.start(Operation::Sync { file: FILE });
        assert!(matches!(client.call().request, Request::RecordLength(_)), "told once");
    }

    /// Answers every call with a failure, leases apart from the rest, until the operation is done.
    fn fail_all(client: &mut TestClient, done: &Ended, lease: &Failure, rest: &Failure) {
        while !is_done(done) {
            while client.has_calls() {
                let call = client.call();
                let leases = matches!(call.request, Request::Lease(_));
                client.tell(&call, Err(if leases { lease.clone() } else { rest.clone() }));
            }
            client.pass(Duration::from_millis(100));
        }
    }

    #[test]
    fn where_every_server_is_full_an_append_says_so_by_its_deadline() {
        let mut client = connected();
        let done = client.start(append(10));
        leased(&mut client, grant(0, 8, 1, &[1]));
        push_ok(&mut client);
        let (_, call) = ordered(&mut client);
        client.tell(&call, Err(Failure::not_done(ErrorCode::ChunkClosed, "its disk is full")));
        let full = Failure::not_done(ErrorCode::TooFewServers, "no server has room for a chunk");
        fail_all(&mut client, &done, &full, &full);
        let failure = result(&done).expect_err("no room");
        assert_eq!((failure.code, failure.outcome), (ErrorCode::TooFewServers, Outcome::NotDone));

        // A master that never answers: what the primary said last is told.
        let done = client.start(append(10));
        leased(&mut client, grant(0, 8, 1, &[1]));
        push_ok(&mut client);
        let (_, call) = ordered(&mut client);
        client.tell(&call, Err(Failure::not_done(ErrorCode::ChunkClosed, "its disk is full")));
        client.pass(Duration::from_secs(61));
        let failure = result(&done).expect_err("no room");
        assert_eq!(failure.code, ErrorCode::ChunkClosed);
        assert!(failure.message.contains("its disk is full"), "{failure}");
    }

    #[test]
    fn a_write_to_a_full_disk_is_refused_at_once() {
        let mut client = connected();
        let bytes = Bytes::from(vec![6; 5]);
        let done = client.start(Operation::WriteAt { file: FILE, offset: 0, bytes, sync: false });
        leased(&mut client, grant(0, 8, 1, &[1]));
        push_ok(&mut client);
        client.fail(Failure::not_done(ErrorCode::DiskFull, "no space left"));
        assert_eq!(result(&done).map_err(|f| f.code), Err(ErrorCode::DiskFull));
    }
}
