//! Reads a run of committed bytes of one chunk of a stream, from one replica after another until
//! it is whole (R41, R44).
//!
//! ```text
//!   Locating ──► Reading the nearest, or two if it is slow ──► whole ──► over
//!      ▲ └─ the chunk is no longer the file's: the extents have changed ──► over
//!      └──── Resting ◄── none did
//! ```
//! - RR1: bytes that fail their checksum are left out; the replica that sent them is reported and
//!   left alone (§5.2, R31). What came before them is kept.
//! - RR2: what is committed is there: an answer that is short says that its replica is behind, and
//!   never that the file ends (R41).
//! - RR3: where the master has said by now that some of the run is lost, whoever wanted it looks at
//!   the extents anew: that is a failure, or a hole.

use crate::locations::age_ms;
use crate::retry::is_silence;
use crate::settings::HEDGE_AFTER;
use crate::stream_extents::KnownStreamChunk;
use crate::tasks::calls_under_way::CallsUnderWay;
use crate::tasks::piece_read::{PieceRead, UnfitAnswer, verified};
use crate::tasks::replica_choice::ReplicaChoice;
use crate::tasks::short_answer::AskedReplica;
use crate::tasks::task_context::{Progress, TaskContext, TaskInput};
use bytes::Bytes;
use cairn_env::{Answer, EffectId};
use cairn_protocol::{ErrorCode, Failure, Read, ReadAnswer, ReportBadBlock, Rpc};
use cairn_types::{ChunkHandle, EntryId};
use std::task::Poll;

/// Bytes of one chunk.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct RunRange {
    pub(crate) file: EntryId,
    /// Where in the file its first byte stands.
    pub(crate) file_offset: u64,
    pub(crate) handle: ChunkHandle,
    /// Where in the chunk it begins.
    pub(crate) offset: u64,
    pub(crate) size: u64,
}

#[derive(Debug)]
enum RunState {
    /// The master is asked where the chunk lies.
    Locating,
    /// Replicas are asked.
    Reading(CallsUnderWay),
    /// Nobody is asked before the alarm.
    Resting,
}

/// The read of one run.
#[derive(Debug)]
pub(crate) struct ReadRun {
    range: RunRange,
    state: RunState,
    /// Locations by older questions will not do.
    newer_than: u64,
    choice: ReplicaChoice,
    /// The next block is bad somewhere: it is asked for alone (RR1).
    is_block_bad: bool,
    attempts: u32,
    read: PieceRead,
    last_failure: Option<Failure>,
}

impl ReadRun {
    pub(crate) fn new(range: RunRange) -> Self {
        assert!(range.size > 0, "a read of nothing has no run");
        Self {
            range,
            state: RunState::Locating,
            newer_than: 0,
            choice: ReplicaChoice::default(),
            is_block_bad: false,
            attempts: 0,
            read: PieceRead::default(),
            last_failure: None,
        }
    }

    pub(crate) fn last_failure(&self) -> Option<&Failure> {
        self.last_failure.as_ref()
    }

    /// The bytes; none where the extents of the file have changed, so that they are elsewhere, or
    /// lost.
    pub(crate) fn on(
        &mut self,
        cx: &mut TaskContext<'_>,
        input: TaskInput,
    ) -> Progress<Option<PieceRead>> {
        match input {
            TaskInput::Begin => self.read_where_known(cx),
            TaskInput::Alarm => match self.state {
                RunState::Resting | RunState::Locating => self.read_where_known(cx),
                RunState::Reading(_) => {
                    self.hedge(cx);
                    Poll::Pending
                }
            },
            TaskInput::LookedUp(Ok(())) => {
                // The answer to our own question serves this once, however old it may become.
                let (handle, newer_than) = (self.range.handle, self.newer_than);
                let known = cx.file(self.range.file).stream();
                match known.and_then(|known| known.told(handle, newer_than)).cloned() {
                    Some(known) => self.read_at(cx, &known),
                    None => Poll::Ready(Ok(None)),
                }
            }
            TaskInput::LookedUp(Err(failure)) => Poll::Ready(Err(failure)),
            TaskInput::Answered(call, result) => self.answered(cx, call, result),
            other => unreachable!("a read of a run is not moved by {other:?}"),
        }
    }

    fn position(&self) -> u64 {
        self.range.offset + self.read.size
    }

    fn left(&self) -> u64 {
        self.range.size - self.read.size
    }

    fn known(&self, cx: &mut TaskContext<'_>) -> Option<KnownStreamChunk> {
        let now = cx.now();
        let known = cx.file(self.range.file).stream()?;
        known.chunk(self.range.handle, now, self.newer_than).cloned()
    }

    fn read_where_known(&mut self, cx: &mut TaskContext<'_>) -> Progress<Option<PieceRead>> {
        match self.known(cx) {
            Some(known) => self.read_at(cx, &known),
            None => {
                self.state = RunState::Locating;
                let RunRange { file, file_offset, .. } = self.range;
                cx.look_up_extents(file, file_offset, self.newer_than);
                Poll::Pending
            }
        }
    }

    fn read_at(
        &mut self,
        cx: &mut TaskContext<'_>,
        known: &KnownStreamChunk,
    ) -> Progress<Option<PieceRead>> {
        if matches!(&self.state, RunState::Reading(calls) if !calls.is_empty()) {
            return Poll::Pending;
        }
        // RR3
        let RunRange { offset, size, .. } = self.range;
        if known.lost.is_some_and(|lost| lost.lost_of(offset, size) > 0) {
            return Poll::Ready(Ok(None));
        }
        if let Some((call, replica)) = self.ask_a_replica(cx, known) {
            self.state = RunState::Reading(CallsUnderWay::of(call, replica));
            return Poll::Pending;
        }
        if known.locations.replicas.is_empty() {
            let index = known.locations.index;
            let lost: Vec<&str> =
                known.locations.lost.iter().map(|at| at.address.as_str()).collect();
            let why = match lost.is_empty() {
                true => format!("no server that has chunk {index} of the file can be reached"),
                false => format!(
                    "no server that has chunk {index} of the file is there any more: start {} \
                     again",
                    lost.join(" or ")
                ),
            };
            let failure = Failure::not_done(ErrorCode::ReplicaFailed, why);
            // Where the master has said so to this very read, waiting is of no use.
            if !lost.is_empty() && self.newer_than > 0 {
                return Poll::Ready(Err(failure));
            }
            self.last_failure = Some(failure);
        }
        self.rest(cx)
    }

    /// Asks the nearest replica that may be asked, if there is one.
    fn ask_a_replica(
        &mut self,
        cx: &mut TaskContext<'_>,
        known: &KnownStreamChunk,
    ) -> Option<(EffectId, AskedReplica)> {
        let KnownStreamChunk { locations, committed, question, .. } = known;
        let (handle, version) = (locations.handle, locations.version);
        let replica = self.choice.pick(&cx.client.rack, cx.client.salt(handle), locations)?;
        let block_size = u64::from(cx.client.cell().block_size);
        let block_left = block_size - self.position() % block_size;
        let size = if self.is_block_bad { self.left().min(block_left) } else { self.left() };
        let offset = self.position();
        let read = Read {
            handle,
            version,
            offset,
            size,
            closed: false,
            location_age_ms: age_ms(question.sent, cx.now()),
            takes_behind: false,
            committed: Some(*committed),
        };
        let asked = AskedReplica {
            server: replica.server,
            handle,
            version,
            located: question.asked,
            offset,
            size,
            closed: false,
            inner: false,
            primary: None,
        };
        let patience = cx.client.patience();
        let call = cx.call((replica.address.clone(), replica.server), read, Bytes::new(), patience);
        cx.set_alarm(HEDGE_AFTER);
        Some((call, asked))
    }

    /// The answer is slow: another replica is asked too, and the first good answer counts.
    fn hedge(&mut self, cx: &mut TaskContext<'_>) {
        let RunState::Reading(calls) = &self.state else {
            unreachable!("only an answer can be slow: {self:?}")
        };
        let (Some(slow), Some(known)) = (calls.alone(), self.known(cx)) else { return };
        self.choice.rule_out(slow.server);
        let asked = self.ask_a_replica(cx, &known);
        self.choice.readmit(slow.server);
        if let (RunState::Reading(calls), Some((call, replica))) = (&mut self.state, asked) {
            calls.add(call, replica);
        }
    }

    fn answered(
        &mut self,
        cx: &mut TaskContext<'_>,
        call: EffectId,
        result: Result<Answer, Failure>,
    ) -> Progress<Option<PieceRead>> {
        // One that was slow, and was not waited for.
        let RunState::Reading(calls) = &mut self.state else { return Poll::Pending };
        let Some(replica) = calls.take(call) else { return Poll::Pending };
        let (result, payload) = match result {
            Ok(Answer { response, payload }) => (Ok(response), payload),
            Err(failure) => (Err(failure), Bytes::new()),
        };
        match Read::answer(result) {
            Ok(answer) => self.take_answer(cx, &replica, answer, &payload),
            Err(failure) => self.failed(cx, &replica, failure),
        }
    }

    fn take_answer(
        &mut self,
        cx: &mut TaskContext<'_>,
        replica: &AskedReplica,
        answer: ReadAnswer,
        payload: &Bytes,
    ) -> Progress<Option<PieceRead>> {
        let block_size = cx.client.cell().block_size;
        // There are no zeros in a stream that nobody wrote (RR2).
        let answer = ReadAnswer { zeros: 0, ..answer };
        let got = match verified(&answer, payload, block_size, replica.offset, self.left()) {
            Ok(bytes) => self.read.extend(bytes),
            Err(unfit) => return self.left_out(cx, replica, unfit),
        };
        // Any other answer under way is about bytes that are here now.
        self.state = RunState::Locating;
        self.read.suspect |= answer.suspect;
        self.is_block_bad &= got == 0;
        if self.left() == 0 {
            return Poll::Ready(Ok(Some(std::mem::take(&mut self.read))));
        }
        if got < replica.size {
            let why = format!("server {} does not have all that is committed", replica.server);
            self.last_failure = Some(Failure::not_done(ErrorCode::ReplicaFailed, why));
            self.choice.rule_out(replica.server);
        }
        self.read_where_known(cx)
    }

    /// RR1
    fn left_out(
        &mut self,
        cx: &mut TaskContext<'_>,
        replica: &AskedReplica,
        unfit: UnfitAnswer,
    ) -> Progress<Option<PieceRead>> {
        let AskedReplica { server, handle, version, .. } = *replica;
        self.last_failure = Some(match unfit {
            UnfitAnswer::Rotten { offset, good } => {
                if self.read.extend(good) > 0 {
                    // Who has had a bad block before this one may have a good one here.
                    self.state = RunState::Locating;
                    self.choice.forget_tried();
                }
                self.is_block_bad = true;
                cx.report_bad_block(ReportBadBlock { handle, version, server, offset });
                let why = format!("server {server} sent bytes that fail their checksum");
                Failure::not_done(ErrorCode::ChecksumMismatch, why)
            }
            UnfitAnswer::Misplaced => {
                let why = format!("server {server} sent other bytes than it was asked for");
                Failure::not_done(ErrorCode::Internal, why)
            }
        });
        if self.left() == 0 {
            return Poll::Ready(Ok(Some(std::mem::take(&mut self.read))));
        }
        self.choice.rule_out(server);
        self.read_where_known(cx)
    }

    fn failed(
        &mut self,
        cx: &mut TaskContext<'_>,
        replica: &AskedReplica,
        failure: Failure,
    ) -> Progress<Option<PieceRead>> {
        let code = failure.code;
        if matches!(code, ErrorCode::Invalid | ErrorCode::VersionUnsupported) {
            return Poll::Ready(Err(failure));
        }
        // A master is there: what lacks is a server of this chunk.
        let told = if is_silence(&failure) { ErrorCode::ReplicaFailed } else { code };
        self.last_failure = Some(Failure { code: told, ..failure });
        // It verifies what it cuts, and does not say which of the blocks is bad.
        let block_size = u64::from(cx.client.cell().block_size);
        if code == ErrorCode::ChecksumMismatch && replica.size > block_size && !self.is_block_bad {
            self.is_block_bad = true;
        } else {
            self.choice.rule_out(replica.server);
        }
        self.read_where_known(cx)
    }

    /// None did: another look after a rest, at what the master says by then.
    fn rest(&mut self, cx: &mut TaskContext<'_>) -> Progress<Option<PieceRead>> {
        self.newer_than = cx.client.outbox.last_number();
        self.choice.forget_tried();
        let rest = cx.client.backoff(self.attempts);
        self.attempts += 1;
        self.state = RunState::Resting;
        cx.set_alarm(rest);
        Poll::Pending
    }
}
