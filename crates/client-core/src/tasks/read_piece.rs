//! Reads a part of one chunk, from one replica after another until it is whole (design §7).
//!
//! ```text
//!   Locating ──► Reading the nearest, ──► whole, or the end ──► over
//!      ▲  ▲      or two if it is slow
//!      │  │          │        │
//!      │  └─ Resting ◄┘ none   └─► Levelling: the master makes replicas agree
//!      │     did                   on where the chunk ends (R17, R28)
//!      └── refused, or short: the rest at a version fetched since (R19)
//! ```
//! - RP1: bytes that fail their checksum are left out; the replica that sent them is reported and
//!   left alone (§5.2, R31). What came before them is kept, and the next replica is asked for that
//!   block alone: where each has a bad block of its own, all can be read.
//! - RP2: the end is believed under R19 (`short_answer.rs`).
//! - RP3: the end of suspect replicas is believed only where the master names no other, has not
//!   levelled them for as long as a missing server may take to come back, and nothing lies behind
//!   it (R28).

use crate::locations::{KnownChunk, age_ms};
use crate::retry::is_silence;
use crate::settings::HEDGE_AFTER;
use crate::tasks::calls_under_way::CallsUnderWay;
use crate::tasks::piece_read::{PieceRead, UnfitAnswer, verified};
use crate::tasks::replica_choice::ReplicaChoice;
use crate::tasks::short_answer::{AskedReplica, ShortAnswer, judge};
use crate::tasks::task_context::{Progress, TaskContext, TaskInput};
use bytes::Bytes;
use cairn_env::{Answer, EffectId};
use cairn_protocol::{
    ChunkLocations, ErrorCode, Failure, LeasePurpose, Read, ReadAnswer, ReportBadBlock, Rpc,
};
use cairn_types::planted::{Rule, broken};
use cairn_types::{ChunkIndex, EntryId, ServerId, Time};
use std::task::Poll;
use std::time::Duration;

/// A part of one chunk of a file.
#[derive(Clone, Copy, Debug)]
pub(crate) struct PieceRange {
    pub(crate) file: EntryId,
    pub(crate) index: ChunkIndex,
    /// Within the chunk.
    pub(crate) offset: u64,
    pub(crate) size: u64,
}

#[derive(Debug)]
enum ReadState {
    /// The master is asked where the chunk lies.
    Locating,
    /// The master is asked to level the replicas.
    Levelling,
    /// Replicas are asked.
    Reading(CallsUnderWay),
    /// Nobody is asked before the alarm.
    Resting,
}

/// Suspect replicas end before what was asked for (RP3).
#[derive(Clone, Copy, Debug)]
struct SuspectEnd {
    /// Until when a better replica is waited for.
    until: Time,
    /// The most that one of them acknowledges.
    readable: u64,
    /// The chunk is longer, whatever they say: it is closed, or others lie behind it.
    inner: bool,
}

/// The read of one piece.
#[derive(Debug)]
pub(crate) struct ReadPiece {
    range: PieceRange,
    state: ReadState,
    /// Locations by older questions will not do.
    newer_than: u64,
    /// What is absent must have been asked for since.
    began: u64,
    /// The number of the first call to a replica.
    first_try: Option<u64>,
    choice: ReplicaChoice,
    /// The next block is bad somewhere: it is asked for alone (RP1).
    is_block_bad: bool,
    suspect_end: Option<SuspectEnd>,
    attempts: u32,
    read: PieceRead,
    last_failure: Option<Failure>,
}

impl ReadPiece {
    /// Reads a part of a chunk whose last call had the number `began`; with `fresh`, only at a
    /// version asked for from now on.
    pub(crate) fn new(range: PieceRange, began: u64, fresh: bool) -> Self {
        assert!(range.size > 0, "a read of nothing has no piece");
        Self {
            range,
            state: ReadState::Locating,
            newer_than: if fresh { began } else { 0 },
            began,
            first_try: None,
            choice: ReplicaChoice::default(),
            is_block_bad: false,
            suspect_end: None,
            attempts: 0,
            read: PieceRead::default(),
            last_failure: None,
        }
    }

    pub(crate) fn last_failure(&self) -> Option<&Failure> {
        self.last_failure.as_ref()
    }

    pub(crate) fn on(&mut self, cx: &mut TaskContext<'_>, input: TaskInput) -> Progress<PieceRead> {
        match input {
            TaskInput::Begin => self.read_where_known(cx),
            TaskInput::LookedUp(result) => self.looked_up(cx, result),
            TaskInput::Alarm => self.alarm(cx),
            TaskInput::Answered(call, result) => self.answered(cx, call, result),
            TaskInput::Passed | TaskInput::Turn => unreachable!("a read waits for no write"),
            TaskInput::MasterFound => unreachable!("a read asks no master itself"),
        }
    }

    fn alarm(&mut self, cx: &mut TaskContext<'_>) -> Progress<PieceRead> {
        match self.state {
            ReadState::Resting | ReadState::Locating | ReadState::Levelling => {
                self.read_where_known(cx)
            }
            ReadState::Reading(_) => {
                self.hedge(cx);
                Poll::Pending
            }
        }
    }

    fn looked_up(
        &mut self,
        cx: &mut TaskContext<'_>,
        result: Result<(), Failure>,
    ) -> Progress<PieceRead> {
        match (&self.state, result) {
            // The answer to our own question serves this once, however old it may become: one
            // that came too late to be kept would be asked for again and again (H3).
            (_, Ok(())) => {
                let (index, newer_than) = (self.range.index, self.newer_than);
                let told = cx.file(self.range.file).locations.told(index, newer_than).cloned();
                self.read_at(cx, told)
            }
            // The file is there, as its location is, but hidden: it gets no lease, nobody adds
            // to it (R20), and what is known to be acknowledged is all there is to read.
            (ReadState::Levelling, Err(failure)) if failure.code == ErrorCode::NotFound => {
                match (self.suspect_end, self.last_failure.take()) {
                    (Some(SuspectEnd { inner: true, .. }), Some(lost)) => Poll::Ready(Err(lost)),
                    _ => self.end(None),
                }
            }
            (_, Err(failure)) => Poll::Ready(Err(failure)),
        }
    }

    fn answered(
        &mut self,
        cx: &mut TaskContext<'_>,
        call: EffectId,
        result: Result<Answer, Failure>,
    ) -> Progress<PieceRead> {
        // One that was slow, and was not waited for.
        let ReadState::Reading(calls) = &mut self.state else { return Poll::Pending };
        let Some(replica) = calls.take(call) else { return Poll::Pending };
        let (result, payload) = match result {
            Ok(Answer { response, payload }) => (Ok(response), payload),
            Err(failure) => (Err(failure), Bytes::new()),
        };
        match Read::answer(result) {
            Ok(answer) => self.take_answer(cx, &replica, &answer, &payload),
            Err(failure) => self.failed(cx, &replica, failure),
        }
    }

    /// Where the next byte lies in the chunk.
    fn position(&self) -> u64 {
        self.range.offset + self.read.size
    }

    fn left(&self) -> u64 {
        self.range.size - self.read.size
    }

    /// How much the next replica is asked for.
    fn size_to_ask(&self, cx: &TaskContext<'_>) -> u64 {
        if self.is_block_bad { self.left().min(self.block_left(cx)) } else { self.left() }
    }

    /// Bytes up to the end of the block that the next byte lies in.
    fn block_left(&self, cx: &TaskContext<'_>) -> u64 {
        let block_size = u64::from(cx.client.cell().block_size);
        block_size - self.position() % block_size
    }

    /// What is known of the chunk and young enough.
    fn known(&self, cx: &mut TaskContext<'_>) -> Option<KnownChunk> {
        let now = cx.now();
        let locations = &cx.file(self.range.file).locations;
        locations.find(self.range.index, now, self.newer_than).cloned()
    }

    fn read_where_known(&mut self, cx: &mut TaskContext<'_>) -> Progress<PieceRead> {
        let known = self.known(cx);
        self.read_at(cx, known)
    }

    fn read_at(
        &mut self,
        cx: &mut TaskContext<'_>,
        known: Option<KnownChunk>,
    ) -> Progress<PieceRead> {
        if matches!(&self.state, ReadState::Reading(calls) if !calls.is_empty()) {
            return Poll::Pending;
        }
        let PieceRange { file, index, .. } = self.range;
        let Some(known) = known else {
            if !matches!(self.state, ReadState::Levelling) {
                self.state = ReadState::Locating;
            }
            cx.look_up_location(file, index, self.newer_than);
            return Poll::Pending;
        };
        let Some(chunk) = &known.chunk else { return self.absent(cx, &known) };
        let now = cx.now();
        if let Some(next) = cx.file(file).locations.lacking_after(index, now) {
            cx.prefetch_locations(file, next);
        }
        let Some((call, replica)) = self.ask_a_replica(cx, &known, chunk) else {
            self.choice.set_primary_only(false);
            if chunk.replicas.is_empty() {
                return self.out_of_reach(cx, &known, chunk);
            }
            // None left: another look after a rest.
            return self.rest(cx);
        };
        self.state = ReadState::Reading(CallsUnderWay::of(call, replica));
        Poll::Pending
    }

    /// The file has no such chunk: a hole, or the end. Believed only if asked since the start.
    fn absent(&mut self, cx: &mut TaskContext<'_>, known: &KnownChunk) -> Progress<PieceRead> {
        if known.asked <= self.began && !broken(Rule::R19) {
            return self.locate_again(cx);
        }
        if known.inner { self.fill_with_zeros() } else { self.end(None) }
    }

    /// The master names nobody who can be asked. Where it knows that nobody will come by himself,
    /// and whose return is needed, waiting is of no use.
    fn out_of_reach(
        &mut self,
        cx: &mut TaskContext<'_>,
        known: &KnownChunk,
        chunk: &ChunkLocations,
    ) -> Progress<PieceRead> {
        let index = chunk.index;
        if chunk.lost.is_empty() {
            let why = format!("no server that has chunk {index} of the file can be reached");
            self.last_failure = Some(Failure::not_done(ErrorCode::ReplicaFailed, why));
            return self.rest(cx);
        }
        if known.asked <= self.began {
            return self.locate_again(cx);
        }
        let lost: Vec<&str> = chunk.lost.iter().map(|at| at.address.as_str()).collect();
        let why = format!(
            "no server that has chunk {index} of the file is there any more: start {} again",
            lost.join(" or ")
        );
        Poll::Ready(Err(Failure::not_done(ErrorCode::ReplicaFailed, why)))
    }

    /// Asks the nearest replica that may be asked, if there is one.
    fn ask_a_replica(
        &mut self,
        cx: &mut TaskContext<'_>,
        known: &KnownChunk,
        chunk: &ChunkLocations,
    ) -> Option<(EffectId, AskedReplica)> {
        let salt = cx.client.salt(chunk.handle);
        let replica = self.choice.pick(&cx.client.rack, salt, chunk)?;
        let (handle, version, offset) = (chunk.handle, chunk.version, self.position());
        let closed = chunk.closed;
        let location_age_ms = age_ms(known.sent, cx.now());
        let size = self.size_to_ask(cx);
        let takes_behind = known.is_shadow;
        let committed = None;
        let read = Read {
            handle,
            version,
            offset,
            size,
            closed,
            location_age_ms,
            takes_behind,
            committed,
        };
        let asked = AskedReplica {
            server: replica.server,
            handle,
            version,
            located: known.asked,
            offset,
            size,
            closed,
            inner: known.inner,
            primary: chunk.primary,
        };
        let patience = cx.client.patience();
        let call = cx.call((replica.address.clone(), replica.server), read, Bytes::new(), patience);
        self.first_try.get_or_insert(call.0);
        assert!(self.first_try <= Some(call.0), "numbers of calls grow");
        cx.set_alarm(HEDGE_AFTER);
        Some((call, asked))
    }

    /// The answer is slow: another replica is asked too, and the first good answer counts.
    fn hedge(&mut self, cx: &mut TaskContext<'_>) {
        let ReadState::Reading(calls) = &self.state else {
            unreachable!("only an answer can be slow: {self:?}")
        };
        // Two are asked: more would only add to what is slow.
        let Some(slow) = calls.alone() else { return };
        // What only the primary knows, no other can say sooner.
        if self.choice.is_primary_only() {
            return;
        }
        // What is known of the chunk may have become too old meanwhile, or be that it is gone; the
        // answer will come, or the call will fail.
        let Some(known) = self.known(cx) else { return };
        let Some(chunk) = &known.chunk else { return };
        self.choice.rule_out(slow.server);
        let asked = self.ask_a_replica(cx, &known, chunk);
        self.choice.readmit(slow.server);
        if let (ReadState::Reading(calls), Some((call, replica))) = (&mut self.state, asked) {
            calls.add(call, replica);
        }
    }

    fn take_answer(
        &mut self,
        cx: &mut TaskContext<'_>,
        replica: &AskedReplica,
        answer: &ReadAnswer,
        payload: &Bytes,
    ) -> Progress<PieceRead> {
        let block_size = cx.client.cell().block_size;
        let bytes = match verified(answer, payload, block_size, replica.offset, self.left()) {
            Ok(bytes) => bytes,
            Err(unfit) => return self.left_out(cx, replica, unfit),
        };
        // Any other answer under way is about bytes that are here now.
        self.state = ReadState::Locating;
        let got = self.read.extend(bytes);
        assert!(self.read.size <= self.range.size, "no more is taken than was asked for");
        self.read.suspect |= answer.suspect;
        self.is_block_bad &= got == 0;
        if self.left() == 0 {
            return Poll::Ready(Ok(std::mem::take(&mut self.read)));
        }
        if got >= replica.size {
            return self.read_where_known(cx);
        }
        match judge(replica, self.is_fresh(replica), got, answer) {
            ShortAnswer::Suspect => self.suspect_ended(cx, replica, answer.readable),
            ShortAnswer::LocateAgain => {
                self.choice.set_primary_only(true);
                self.locate_again(cx)
            }
            ShortAnswer::AskPrimary => {
                self.choice.set_primary_only(true);
                self.read_where_known(cx)
            }
            ShortAnswer::AskAnother => {
                self.choice.rule_out(replica.server);
                self.choice.set_primary_only(false);
                if self.has_untried(cx) { self.read_where_known(cx) } else { self.level(cx) }
            }
            ShortAnswer::Zeros => self.fill_with_zeros(),
            ShortAnswer::End => self.end(Some(answer.readable)),
        }
    }

    /// RP1
    fn left_out(
        &mut self,
        cx: &mut TaskContext<'_>,
        replica: &AskedReplica,
        unfit: UnfitAnswer,
    ) -> Progress<PieceRead> {
        let AskedReplica { server, handle, version, .. } = *replica;
        self.last_failure = Some(match unfit {
            UnfitAnswer::Rotten { offset, good } => {
                if self.read.extend(good) > 0 {
                    // Any other answer under way is about bytes that are here now; and who has had
                    // a bad block before this one may have a good one here.
                    self.state = ReadState::Locating;
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
            return Poll::Ready(Ok(std::mem::take(&mut self.read)));
        }
        self.choice.rule_out(server);
        self.read_where_known(cx)
    }

    /// A suspect replica has no more: what it lacks it may have lost, so its end says nothing
    /// (R28). The grant of a lease makes what is left the truth; where the master grants none, and
    /// names no better replica for long enough, the file ends where these end (RP3), but not below
    /// the length that is on record.
    fn suspect_ended(
        &mut self,
        cx: &mut TaskContext<'_>,
        replica: &AskedReplica,
        readable: u64,
    ) -> Progress<PieceRead> {
        let why = format!("server {} may have lost the bytes after these", replica.server);
        self.last_failure = Some(Failure::not_done(ErrorCode::Busy, why));
        self.choice.set_primary_only(false);
        if !self.is_fresh(replica) {
            return self.locate_again(cx);
        }
        let before = self.range.index.get().saturating_mul(cx.client.cell().chunk_size);
        let at = before.saturating_add(self.position());
        let is_recorded = cx.file(self.range.file).locations.length > at;
        let end = self.suspect_end.get_or_insert_with(|| SuspectEnd {
            until: cx.now() + wait_for_better(cx),
            readable: 0,
            inner: false,
        });
        end.readable = end.readable.max(readable);
        end.inner = replica.inner || replica.closed || is_recorded;
        let end = *end;
        self.choice.rule_out(replica.server);
        if self.has_untried(cx) {
            return self.read_where_known(cx);
        }
        if cx.now() >= end.until && !end.inner {
            return self.end(Some(end.readable));
        }
        if replica.primary.is_some() {
            // It was restarted under its lease; the master will know soon.
            return self.rest(cx);
        }
        if cx.now() < end.until {
            cx.set_alarm(end.until.since(cx.now()));
        }
        self.level(cx)
    }

    /// Whether a replica of the location known now has not been tried.
    fn has_untried(&self, cx: &mut TaskContext<'_>) -> bool {
        let chunk = self.known(cx).and_then(|known| known.chunk);
        chunk.is_some_and(|chunk| self.choice.has_untried(&chunk))
    }

    /// Whether the location was asked for after the first try (R19).
    fn is_fresh(&self, replica: &AskedReplica) -> bool {
        let first = self.first_try.expect("a replica that answers was asked");
        replica.located > first
    }

    /// The master levels the replicas, so that one of them can say where the end is (R17).
    fn level(&mut self, cx: &mut TaskContext<'_>) -> Progress<PieceRead> {
        self.doubt_locations(cx);
        self.choice.set_primary_only(true);
        self.state = ReadState::Levelling;
        cx.look_up_grant(self.range.file, self.range.index, LeasePurpose::Level, None);
        Poll::Pending
    }

    fn failed(
        &mut self,
        cx: &mut TaskContext<'_>,
        replica: &AskedReplica,
        failure: Failure,
    ) -> Progress<PieceRead> {
        let code = failure.code;
        if matches!(code, ErrorCode::Invalid | ErrorCode::VersionUnsupported) {
            return Poll::Ready(Err(failure));
        }
        // A master is there: what lacks is a server of this chunk.
        let silent = is_silence(&failure);
        let told = if silent { ErrorCode::ReplicaFailed } else { code };
        self.last_failure = Some(Failure { code: told, ..failure });
        if matches!(&self.state, ReadState::Reading(calls) if !calls.is_empty()) {
            self.choice.rule_out(replica.server);
            return Poll::Pending;
        }
        match code {
            ErrorCode::PastAcknowledged => self.past_acknowledged(cx, replica),
            ErrorCode::StaleVersion | ErrorCode::NoSuchChunk | ErrorCode::WrongServer => {
                self.rest_without(cx, replica.server)
            }
            _ if self.choice.is_primary_only() => self.rest_without(cx, replica.server),
            // It verifies what it cuts, and does not say which of the blocks is bad.
            ErrorCode::ChecksumMismatch if replica.size > self.block_left(cx) => {
                self.is_block_bad = true;
                self.read_where_known(cx)
            }
            _ => {
                self.choice.rule_out(replica.server);
                self.read_where_known(cx)
            }
        }
    }

    /// Rests; even if the master still names `server` then, another one comes first.
    fn rest_without(&mut self, cx: &mut TaskContext<'_>, server: ServerId) -> Progress<PieceRead> {
        self.choice.set_primary_only(false);
        let progress = self.rest(cx);
        self.choice.rule_out(server);
        progress
    }

    /// R17: the primary knows; without one the master must level first.
    fn past_acknowledged(
        &mut self,
        cx: &mut TaskContext<'_>,
        replica: &AskedReplica,
    ) -> Progress<PieceRead> {
        if !self.is_fresh(replica) {
            self.choice.set_primary_only(true);
            return self.locate_again(cx);
        }
        match replica.primary {
            Some(primary) if primary != replica.server => {
                self.choice.readmit(primary);
                self.choice.set_primary_only(true);
                self.read_where_known(cx)
            }
            // Its lease has just ended; the master will know soon.
            Some(_) => self.rest(cx),
            None => self.level(cx),
        }
    }

    /// The locations known so far will not do.
    fn doubt_locations(&mut self, cx: &TaskContext<'_>) {
        self.newer_than = cx.client.outbox.last_number();
        self.choice.forget_tried();
    }

    fn locate_again(&mut self, cx: &mut TaskContext<'_>) -> Progress<PieceRead> {
        self.doubt_locations(cx);
        self.state = ReadState::Locating;
        self.read_where_known(cx)
    }

    fn rest(&mut self, cx: &mut TaskContext<'_>) -> Progress<PieceRead> {
        self.doubt_locations(cx);
        let rest = cx.client.backoff(self.attempts);
        self.attempts += 1;
        self.state = ReadState::Resting;
        cx.set_alarm(rest);
        Poll::Pending
    }

    fn fill_with_zeros(&mut self) -> Progress<PieceRead> {
        assert!(self.left() > 0, "a piece that is whole was handed over");
        self.read.extend_with_zeros(self.left());
        Poll::Ready(Ok(std::mem::take(&mut self.read)))
    }

    fn end(&mut self, readable: Option<u64>) -> Progress<PieceRead> {
        let read = std::mem::take(&mut self.read);
        Poll::Ready(Ok(PieceRead { end: true, readable, ..read }))
    }
}

/// How long a replica that lost nothing is waited for where only suspect ones are there: until a
/// server that is missing counts as dead, but within what is left of the operation's time.
fn wait_for_better(cx: &TaskContext<'_>) -> Duration {
    let half_left = cx.deadline.since(cx.now()) / 2;
    Duration::from_millis(cx.client.cell().dead_ms).min(half_left)
}

#[cfg(test)]
mod tests;
