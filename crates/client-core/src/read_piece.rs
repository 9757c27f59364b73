//! Reads a part of one chunk, from one replica after another until it is whole (design §7).
//!
//! ```text
//!    locate ──► read the nearest ──► whole ─────────────────────────────► over
//!      ▲          │       │
//!      │  refused │       └─ short: ask the rest at a version fetched since (R19);
//!      └──────────┘          past the mark: ask the primary, or have the master level (R17)
//! ```
//! - V1: what is kept has passed its checksums here; a replica that sends other bytes is reported
//!   and left alone (§5.2, R31).
//! - V2: the end is believed only from an empty answer at a version that the master gave out after
//!   the first try (R19).
//! - V3: the end of suspect replicas is believed only where the master names no other, has not
//!   levelled them for as long as a missing server may take to come back, and nothing lies behind
//!   it (R28).

use crate::chain::nearest;
use crate::context::Context;
use crate::locations::Known;
use crate::settings::HEDGE_AFTER;
use crate::task::{Input, Me, Progress};
use bytes::Bytes;
use cairn_env::{Answer, EffectId};
use cairn_protocol::{
    ChunkLocations, ErrorCode, Failure, LeasePurpose, Read, ReadAnswer, ReportBadBlock, Response,
};
use cairn_types::planted::{Rule, broken};
use cairn_types::{ChunkHandle, ChunkIndex, ChunkVersion, EntryId, ServerId, Time};
use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

/// Bytes of zeros that are shared by all who read a hole.
static ZEROS: [u8; 64 * 1024] = [0; 64 * 1024];

/// What a piece came to.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct PieceDone {
    pub(crate) bytes: Vec<Bytes>,
    pub(crate) size: u64,
    /// Nothing lies behind these bytes.
    pub(crate) end: bool,
    /// Some of them came from a replica that may have lost acknowledged bytes (R28).
    pub(crate) suspect: bool,
    /// Readable bytes of the chunk, where `end` and somebody knew.
    pub(crate) readable: Option<u64>,
}

#[derive(Clone, Debug)]
struct Target {
    server: ServerId,
    handle: ChunkHandle,
    version: ChunkVersion,
    /// The number of the question that this location came by.
    located: u64,
    offset: u64,
    /// Whether the master knows the chunk as closed, and whether chunks lie behind it.
    closed: bool,
    inner: bool,
    primary: Option<ServerId>,
}

/// Suspect replicas end before what was asked for (V3).
#[derive(Clone, Copy, Debug)]
struct SuspectEnd {
    /// Until when a better replica is waited for.
    until: Time,
    /// The most that one of them acknowledges.
    readable: u64,
    /// The chunk is longer, whatever they say: it is closed, or others lie behind it.
    inner: bool,
}

/// The machine.
#[derive(Debug)]
pub(crate) struct ReadPiece {
    file: EntryId,
    index: ChunkIndex,
    offset: u64,
    size: u64,
    /// Locations by older questions will not do.
    newer_than: u64,
    /// What is absent must have been asked for since.
    began: u64,
    first_try: Option<u64>,
    /// Replicas that did not do, among those now known.
    tried: BTreeSet<ServerId>,
    in_flight: BTreeMap<EffectId, Target>,
    at_primary: bool,
    levelling: bool,
    suspect_end: Option<SuspectEnd>,
    attempts: u32,
    /// Nobody is asked before. An alarm that was set to hedge a read, and rings after that read
    /// has failed, must not cut this rest short and begin another: there would be more with each
    /// try, and the master would be asked by all of them.
    rests_until: Time,
    done: PieceDone,
    last: Option<Failure>,
}

impl ReadPiece {
    /// `size` bytes from `offset` of a chunk. With `fresh`, only at a version asked for from now
    /// on.
    pub(crate) fn new(
        cx: &Context,
        file: EntryId,
        index: ChunkIndex,
        offset: u64,
        size: u64,
        fresh: bool,
    ) -> Self {
        let began = cx.last_call();
        Self {
            file,
            index,
            offset,
            size,
            newer_than: if fresh { began } else { 0 },
            began,
            first_try: None,
            tried: BTreeSet::new(),
            in_flight: BTreeMap::new(),
            at_primary: false,
            levelling: false,
            suspect_end: None,
            attempts: 0,
            rests_until: Time::default(),
            done: PieceDone::default(),
            last: None,
        }
    }

    pub(crate) fn last_failure(&self) -> Option<&Failure> {
        self.last.as_ref()
    }

    pub(crate) fn on(&mut self, cx: &mut Context, me: Me, input: Input) -> Progress<PieceDone> {
        match input {
            Input::Begin => self.go_on(cx, me),
            // The answer to our own question serves this once, however old it may become: one
            // that came too late to be kept would be asked for again and again (H3).
            Input::Wanted(Ok(())) => {
                let told = cx.file(self.file).locations.told(self.index, self.newer_than);
                let told = told.cloned();
                self.go_on_with(cx, me, told)
            }
            // The file is there, as its location is, but hidden: it gets no lease, nobody adds
            // to it (R20), and what is known to be acknowledged is all there is to read.
            Input::Wanted(Err(failure))
                if self.levelling && failure.code == ErrorCode::NotFound =>
            {
                match (self.suspect_end, self.last.take()) {
                    (Some(SuspectEnd { inner: true, .. }), Some(lost)) => Progress::Over(Err(lost)),
                    _ => self.end(None),
                }
            }
            Input::Wanted(Err(failure)) => Progress::Over(Err(failure)),
            Input::Passed => Progress::Pending,
            Input::Alarm if cx.now < self.rests_until => Progress::Pending,
            Input::Alarm if self.in_flight.is_empty() => self.go_on(cx, me),
            Input::Alarm => {
                self.hedge(cx, me);
                Progress::Pending
            }
            Input::Answered(id, result) => {
                let Some(target) = self.in_flight.remove(&id) else { return Progress::Pending };
                match result {
                    Ok(Answer { response: Response::Read(answer), payload }) => {
                        self.answered(cx, me, &target, &answer, &payload)
                    }
                    Ok(answer) => {
                        let failure = crate::shared_asks::mismatched(&answer.response);
                        self.failed(cx, me, &target, failure)
                    }
                    Err(failure) => self.failed(cx, me, &target, failure),
                }
            }
        }
    }

    /// Where the next byte lies in the chunk.
    fn position(&self) -> u64 {
        self.offset + self.done.size
    }

    /// What is known of the chunk and young enough.
    fn known(&self, cx: &mut Context) -> Option<Known> {
        let now = cx.now;
        cx.file(self.file).locations.find(self.index, now, self.newer_than).cloned()
    }

    fn left(&self) -> u64 {
        self.size - self.done.size
    }

    fn go_on(&mut self, cx: &mut Context, me: Me) -> Progress<PieceDone> {
        let known = self.known(cx);
        self.go_on_with(cx, me, known)
    }

    fn go_on_with(
        &mut self,
        cx: &mut Context,
        me: Me,
        known: Option<Known>,
    ) -> Progress<PieceDone> {
        if !self.in_flight.is_empty() {
            return Progress::Pending;
        }
        let Some(known) = known else {
            cx.want_location(me, self.file, self.index, self.newer_than);
            return Progress::Pending;
        };
        match &known.chunk {
            Some(chunk) => {
                let now = cx.now;
                let lacking = cx.file(self.file).locations.lacking_after(self.index, now);
                if let Some(next) = lacking {
                    cx.prefetch(me, self.file, next);
                }
                self.read_from_one(cx, me, &known, chunk)
            }
            None => self.absent(cx, me, &known),
        }
    }

    /// The file has no such chunk: a hole, or the end. Believed only if asked since the start.
    fn absent(&mut self, cx: &mut Context, me: Me, known: &Known) -> Progress<PieceDone> {
        if known.asked <= self.began && !broken(Rule::R19) {
            self.locate_again(cx);
            return self.go_on(cx, me);
        }
        if known.inner { self.fill_with_zeros() } else { self.end(None) }
    }

    fn read_from_one(
        &mut self,
        cx: &mut Context,
        me: Me,
        known: &Known,
        chunk: &ChunkLocations,
    ) -> Progress<PieceDone> {
        let salt = cx.settings.seed as u64 ^ chunk.handle.get();
        let fit = |server: ServerId| !self.tried.contains(&server);
        let primary = chunk.primary.filter(|_| self.at_primary);
        let wanted = |server: ServerId| primary.is_none_or(|primary| primary == server);
        let replica = nearest(&cx.settings.rack, salt, &chunk.replicas, |replica| {
            fit(replica.server) && wanted(replica.server)
        });
        let Some(replica) = replica.cloned() else {
            // None left, or none reachable: another look after a rest.
            self.at_primary = false;
            self.rest(cx, me);
            return Progress::Pending;
        };
        let target = Target {
            server: replica.server,
            handle: chunk.handle,
            version: chunk.version,
            located: known.asked,
            offset: self.position(),
            closed: chunk.closed,
            inner: known.inner,
            primary: chunk.primary,
        };
        let read = Read {
            handle: chunk.handle,
            version: chunk.version,
            offset: self.position(),
            size: self.left(),
        };
        let patience = cx.patience();
        let to = (replica.address, replica.server);
        let id = cx.call(me, to, read, Bytes::new(), patience);
        self.first_try.get_or_insert(id.0);
        self.in_flight.insert(id, target);
        cx.alarm(me, HEDGE_AFTER);
        Progress::Pending
    }

    /// The answer is slow: another replica is asked too, and the first good answer counts.
    fn hedge(&mut self, cx: &mut Context, me: Me) {
        if self.at_primary || self.in_flight.len() > 1 {
            return;
        }
        let Some(known) = self.known(cx) else { return };
        let Some(chunk) = &known.chunk else { return };
        let asked: Vec<ServerId> = self.in_flight.values().map(|target| target.server).collect();
        let other = |server: &ServerId| !asked.contains(server) && !self.tried.contains(server);
        if chunk.replicas.iter().any(|replica| other(&replica.server)) {
            self.tried.extend(&asked);
            // Cannot rest or locate: there is a replica to ask.
            let _ = self.read_from_one(cx, me, &known, chunk);
            asked.iter().for_each(|server| {
                self.tried.remove(server);
            });
        }
    }

    fn answered(
        &mut self,
        cx: &mut Context,
        me: Me,
        target: &Target,
        answer: &ReadAnswer,
        payload: &Bytes,
    ) -> Progress<PieceDone> {
        let left = self.left();
        let Some((data, zeros)) = verified(cx, target.offset, left, answer, payload) else {
            self.last = Some(Failure::not_done(
                ErrorCode::ChecksumMismatch,
                format!("server {} sent bytes that fail their checksum", target.server),
            ));
            cx.report_bad_block(ReportBadBlock {
                handle: target.handle,
                version: target.version,
                server: target.server,
                offset: answer.offset,
            });
            self.tried.insert(target.server);
            return self.go_on(cx, me);
        };
        // Any other answer under way is about bytes that are here now.
        self.in_flight.clear();
        let got = data.len() as u64 + zeros;
        if !data.is_empty() {
            self.done.bytes.push(data);
        }
        self.done.size += got;
        self.done.suspect |= answer.suspect;
        push_zeros(&mut self.done.bytes, zeros);
        if self.left() == 0 {
            return Progress::Over(Ok(std::mem::take(&mut self.done)));
        }
        if answer.suspect && !broken(Rule::R28) {
            return self.suspect_ended(cx, me, target, answer.readable);
        }
        if broken(Rule::R19) {
            return self.end(Some(answer.readable));
        }
        if !self.is_fresh(target) {
            self.locate_again(cx);
            self.at_primary = true;
            return self.go_on(cx, me);
        }
        if got > 0 {
            self.at_primary = true;
            return self.go_on(cx, me);
        }
        if target.closed {
            // The master has closed it; this replica has no mark, so its end means nothing (R19).
            return self.ask_another_or_level(cx, me, target);
        }
        if target.inner { self.fill_with_zeros() } else { self.end(Some(answer.readable)) }
    }

    /// A suspect replica has no more: what it lacks it may have lost, so its end says nothing
    /// (R28). The grant of a lease makes what is left the truth; where the master grants none, and
    /// names no better replica for long enough, the file ends where these end (V3).
    fn suspect_ended(
        &mut self,
        cx: &mut Context,
        me: Me,
        target: &Target,
        readable: u64,
    ) -> Progress<PieceDone> {
        let why = format!("server {} may have lost the bytes after these", target.server);
        self.last = Some(Failure::not_done(ErrorCode::Busy, why));
        self.at_primary = false;
        if !self.is_fresh(target) {
            self.locate_again(cx);
            return self.go_on(cx, me);
        }
        let end = self.suspect_end.get_or_insert_with(|| SuspectEnd {
            until: cx.now + wait_for_better(cx, me),
            readable: 0,
            inner: false,
        });
        end.readable = end.readable.max(readable);
        end.inner = target.inner || target.closed;
        let end = *end;
        self.tried.insert(target.server);
        if self.has_others(cx) {
            return self.go_on(cx, me);
        }
        if cx.now >= end.until && !end.inner {
            return self.end(Some(end.readable));
        }
        if target.primary.is_some() {
            // It was restarted under its lease; the master will know soon.
            self.rest(cx, me);
            return Progress::Pending;
        }
        if cx.now < end.until {
            cx.alarm(me, end.until.since(cx.now));
        }
        self.level(cx, me)
    }

    /// Whether a replica of the location known now has not been tried.
    fn has_others(&self, cx: &mut Context) -> bool {
        let chunk = self.known(cx).and_then(|known| known.chunk);
        chunk.is_some_and(|chunk| {
            chunk.replicas.iter().any(|replica| !self.tried.contains(&replica.server))
        })
    }

    /// Whether the location was asked for after the first try (R19).
    fn is_fresh(&self, target: &Target) -> bool {
        self.first_try.is_some_and(|first| target.located > first)
    }

    /// The master levels the replicas, so that one of them can say where the end is (R17).
    fn level(&mut self, cx: &mut Context, me: Me) -> Progress<PieceDone> {
        self.newer_than = cx.last_call();
        self.tried.clear();
        self.at_primary = true;
        self.levelling = true;
        cx.want_grant(me, self.file, self.index, LeasePurpose::Level, None);
        Progress::Pending
    }

    fn ask_another_or_level(
        &mut self,
        cx: &mut Context,
        me: Me,
        target: &Target,
    ) -> Progress<PieceDone> {
        self.tried.insert(target.server);
        self.at_primary = false;
        if self.has_others(cx) { self.go_on(cx, me) } else { self.level(cx, me) }
    }

    fn failed(
        &mut self,
        cx: &mut Context,
        me: Me,
        target: &Target,
        failure: Failure,
    ) -> Progress<PieceDone> {
        let code = failure.code;
        if matches!(code, ErrorCode::Invalid | ErrorCode::VersionUnsupported) {
            return Progress::Over(Err(failure));
        }
        self.last = Some(failure);
        if !self.in_flight.is_empty() {
            self.tried.insert(target.server);
            return Progress::Pending;
        }
        match code {
            ErrorCode::PastAcknowledged => self.past_acknowledged(cx, me, target),
            ErrorCode::StaleVersion | ErrorCode::NoSuchChunk | ErrorCode::WrongServer => {
                // Even if the master still names it, another one comes first.
                self.at_primary = false;
                self.rest(cx, me);
                self.tried.insert(target.server);
                Progress::Pending
            }
            _ if self.at_primary => {
                self.at_primary = false;
                self.rest(cx, me);
                self.tried.insert(target.server);
                Progress::Pending
            }
            _ => {
                self.tried.insert(target.server);
                self.go_on(cx, me)
            }
        }
    }

    /// R17: the primary knows; without one the master must level first.
    fn past_acknowledged(
        &mut self,
        cx: &mut Context,
        me: Me,
        target: &Target,
    ) -> Progress<PieceDone> {
        if !self.is_fresh(target) {
            self.locate_again(cx);
            self.at_primary = true;
            return self.go_on(cx, me);
        }
        match target.primary {
            Some(primary) if primary != target.server => {
                self.tried.remove(&primary);
                self.at_primary = true;
                self.go_on(cx, me)
            }
            Some(_) => {
                // Its lease has just ended; the master will know soon.
                self.rest(cx, me);
                Progress::Pending
            }
            None => self.level(cx, me),
        }
    }

    /// The locations known so far will not do.
    fn locate_again(&mut self, cx: &Context) {
        self.levelling = false;
        self.newer_than = cx.last_call();
        self.tried.clear();
    }

    fn rest(&mut self, cx: &mut Context, me: Me) {
        self.locate_again(cx);
        let rest = cx.rest(self.attempts);
        self.attempts += 1;
        self.rests_until = cx.now + rest;
        cx.alarm(me, rest);
    }

    fn fill_with_zeros(&mut self) -> Progress<PieceDone> {
        let left = self.left();
        push_zeros(&mut self.done.bytes, left);
        self.done.size += left;
        Progress::Over(Ok(std::mem::take(&mut self.done)))
    }

    fn end(&mut self, readable: Option<u64>) -> Progress<PieceDone> {
        let mut done = std::mem::take(&mut self.done);
        done.end = true;
        done.readable = readable;
        Progress::Over(Ok(done))
    }
}

/// How long a replica that lost nothing is waited for where only suspect ones are there: until a
/// server that is missing counts as dead, but within what is left of the operation's time.
fn wait_for_better(cx: &Context, me: Me) -> Duration {
    let half_left = me.deadline.since(cx.now) / 2;
    Duration::from_millis(cx.cell().dead_ms).min(half_left)
}

/// The bytes of an answer from `offset` on, at most `left`, and how many zeros follow them; nothing
/// if they fail their checksums or are not what was asked for (V1).
fn verified(
    cx: &Context,
    offset: u64,
    left: u64,
    answer: &ReadAnswer,
    payload: &Bytes,
) -> Option<(Bytes, u64)> {
    if !answer.checksums.verify(answer.offset, payload, cx.cell().block_size) {
        return None;
    }
    let skip = usize::try_from(offset.checked_sub(answer.offset)?).ok()?;
    if skip > payload.len() {
        return None;
    }
    let data = payload.slice(skip..);
    let wanted = usize::try_from(left).unwrap_or(usize::MAX);
    let data = data.slice(..data.len().min(wanted));
    let zeros = answer.zeros.min(left - data.len() as u64);
    Some((data, zeros))
}

fn push_zeros(bytes: &mut Vec<Bytes>, mut size: u64) {
    while size > 0 {
        let part = usize::try_from(size).unwrap_or(usize::MAX).min(ZEROS.len());
        bytes.push(Bytes::from_static(&ZEROS[..part]));
        size -= part as u64;
    }
}

#[cfg(test)]
mod tests;
