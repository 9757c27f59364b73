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
use crate::task::{Input, Me, Progress, TaskId};
use crate::write_order::Place;
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
    /// All have the data; the write before this one has not been ordered yet.
    Waiting,
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

    /// Where a write begins and ends.
    fn places(&self) -> Option<(Place, Place)> {
        let Change::Write { index, offset, ref bytes, .. } = self.change else { return None };
        let start = Place { file: self.file, index, offset };
        Some((start, Place { offset: offset + bytes.len() as u64, ..start }))
    }

    /// It is on its first way to its order no more.
    pub(crate) fn leave(&mut self, cx: &mut Context, id: TaskId) {
        if let Some((start, end)) = self.places() {
            cx.write_order.leave(start, end, id);
        }
    }

    pub(crate) fn on(&mut self, cx: &mut Context, me: Me, input: Input) -> Progress<Mutated> {
        if let (Input::Begin, Some((_, end))) = (&input, self.places()) {
            cx.write_order.begin(end, me.id);
        }
        let progress = self.step(cx, me, input);
        let on_its_way = match self.stage {
            Stage::Granting => self.attempts == 0,
            Stage::Pushing { apart, .. } => !apart,
            Stage::Waiting => true,
            Stage::Resting | Stage::Ordering(_) => false,
        };
        if !on_its_way || matches!(progress, Progress::Over(_)) {
            self.leave(cx, me.id);
        }
        progress
    }

    fn step(&mut self, cx: &mut Context, me: Me, input: Input) -> Progress<Mutated> {
        match input {
            Input::Begin | Input::Wanted(Ok(())) => self.go_on(cx, me),
            Input::Passed if matches!(self.stage, Stage::Waiting) => self.order(cx, me),
            Input::Passed => Progress::Pending,
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
        if let Some((start, _)) = self.places()
            && self.last.is_none()
            && cx.write_order.waits(start, me.id)
        {
            self.stage = Stage::Waiting;
            return Progress::Pending;
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
mod tests;
