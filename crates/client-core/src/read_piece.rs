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
            Input::Begin | Input::Wanted(Ok(())) => self.go_on(cx, me),
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
        if !self.in_flight.is_empty() {
            return Progress::Pending;
        }
        let Some(known) = self.known(cx) else {
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
mod tests {
    use crate::operation::{Operation, Output};
    use crate::test_client::{
        FILE, TestClient, bytes_read, chunk, connected, grant, handle, is_done, located, result,
    };
    use cairn_protocol::{ErrorCode, Failure, LeasePurpose, Read, ReadAnswer, Request};
    use cairn_types::ChunkVersion;
    use std::time::Duration;

    fn read(offset: u64, size: u64) -> Operation {
        Operation::ReadAt { file: FILE, offset, size, fresh: false }
    }

    fn readable(readable: u64) -> ReadAnswer {
        ReadAnswer { readable, ..ReadAnswer::default() }
    }

    /// Answers the question where chunk 0 lies.
    fn locate(client: &mut TestClient, version: u64, servers: &[u64], primary: Option<u64>) {
        let call = client.answer(located(1, vec![chunk(0, version, servers, primary)]));
        assert!(matches!(call.request, Request::Locate(_)), "{call:?}");
    }

    fn asked(client: &mut TestClient) -> (String, Read, crate::test_client::Call) {
        let call = client.call();
        let Request::Read(read) = call.request.clone() else { panic!("{call:?}") };
        (call.to.to_string(), read, call)
    }

    #[test]
    fn a_whole_read_asks_the_master_once_and_the_nearest_replica_once() {
        let mut client = connected();
        let done = client.start(read(10, 20));
        locate(&mut client, 5, &[3, 1, 4], None);
        let (to, sent, call) = asked(&mut client);
        let version = ChunkVersion::new(5);
        assert_eq!(to, "s1:1");
        assert_eq!(sent, Read { handle: handle(0), version, offset: 10, size: 20 });
        client.send_bytes(&call, &[7; 20], readable(100));
        assert_eq!(bytes_read(&done), [7; 20]);
        client.assert_asks_nobody();

        client.start(read(0, 5));
        assert_eq!(asked(&mut client).0, "s1:1", "the location is remembered");
    }

    #[test]
    fn bytes_that_fail_their_checksum_are_reported_and_read_elsewhere() {
        let mut client = connected();
        let done = client.start(read(0, 20));
        locate(&mut client, 5, &[1, 3], None);
        let (_, _, call) = asked(&mut client);
        client.send_bad_bytes(&call, &[7; 20]);
        assert!(!is_done(&done), "K2");
        let report = client.call();
        assert!(matches!(&report.request, Request::ReportBadBlock(bad) if bad.server.get() == 1));
        let (to, _, call) = asked(&mut client);
        assert_eq!(to, "s3:1");
        client.send_bytes(&call, &[7; 20], readable(20));
        assert_eq!(bytes_read(&done), [7; 20]);
    }

    #[test]
    fn a_short_answer_is_the_end_only_at_a_version_asked_for_since_and_from_the_primary() {
        let mut client = connected();
        let done = client.start(read(0, 100));
        locate(&mut client, 5, &[1, 3], Some(3));
        let (to, _, call) = asked(&mut client);
        assert_eq!(to, "s1:1");
        client.send_bytes(&call, &[7; 30], readable(30));
        // R19: the master first, at whatever version it now says; then the rest.
        locate(&mut client, 6, &[1, 3], Some(3));
        let (to, sent, call) = asked(&mut client);
        assert_eq!((to.as_str(), sent.offset, sent.version.get()), ("s3:1", 30, 6));
        client.send_bytes(&call, &[8; 10], readable(40));
        let (to, sent, call) = asked(&mut client);
        assert_eq!((to.as_str(), sent.offset, sent.size), ("s3:1", 40, 60));
        client.send_bytes(&call, &[], readable(40));
        assert_eq!(bytes_read(&done), [&[7; 30][..], &[8; 10]].concat());
        let sure = |it| matches!(it, Ok(Output::Read { end: true, suspect: false, .. }));
        assert!(sure(result(&done)));
    }

    #[test]
    fn past_the_mark_without_a_lease_the_master_levels_and_the_new_primary_is_asked() {
        let mut client = connected();
        let done = client.start(read(50, 10));
        locate(&mut client, 5, &[1, 3], None);
        let past = || Failure::not_done(ErrorCode::PastAcknowledged, "50 bytes are acknowledged");
        client.fail(past());
        locate(&mut client, 5, &[1, 3], None);
        client.fail(past());
        let call = client.answer(grant(0, 6, 1, &[3, 1]));
        let Request::Lease(lease) = call.request else { panic!("{call:?}") };
        assert_eq!(lease.purpose, LeasePurpose::Level, "R17");
        let (to, sent, call) = asked(&mut client);
        assert_eq!((to.as_str(), sent.version.get()), ("s3:1", 6));
        client.send_bytes(&call, &[9; 4], readable(54));
        let (_, sent, call) = asked(&mut client);
        assert_eq!(sent.offset, 54);
        client.send_bytes(&call, &[], readable(54));
        assert_eq!(bytes_read(&done), [9; 4]);
    }

    #[test]
    fn a_hidden_file_gets_no_lease_and_ends_where_its_acknowledged_bytes_end() {
        let mut client = connected();
        let done = client.start(read(0, 10));
        locate(&mut client, 5, &[1], None);
        let (_, _, call) = asked(&mut client);
        client.send_bytes(&call, &[9; 4], readable(4));
        locate(&mut client, 5, &[1], None);
        client.fail(Failure::not_done(ErrorCode::PastAcknowledged, "4 bytes are acknowledged"));
        let call = client.fail(Failure::refused(ErrorCode::NotFound, "it is deleted"));
        assert!(matches!(call.request, Request::Lease(_)));
        assert_eq!(bytes_read(&done), [9; 4]);
    }

    #[test]
    fn a_reader_that_reaches_nobody_asks_the_master_about_once_a_second() {
        let mut client = connected();
        client.start(read(0, 10));
        let (end, mut located_times) = (client.now + Duration::from_secs(30), 0);
        while client.now < end {
            while client.has_calls() {
                let call = client.call();
                if matches!(call.request, Request::Locate(_)) {
                    located_times += 1;
                    client.tell(&call, Ok(located(1, vec![chunk(0, 5, &[1, 3], None)])));
                } else {
                    let gone = Failure::not_done(ErrorCode::Unreachable, "connection refused");
                    client.tell(&call, Err(gone));
                }
            }
            client.pass(Duration::from_millis(50));
        }
        assert!((20..80).contains(&located_times), "{located_times} times in 30 seconds");
    }

    fn suspect(readable: u64) -> ReadAnswer {
        ReadAnswer { readable, suspect: true, ..ReadAnswer::default() }
    }

    #[test]
    fn where_all_replicas_are_suspect_the_master_is_asked_to_level_them() {
        let mut client = connected();
        let done = client.start(read(0, 100));
        locate(&mut client, 5, &[1, 3], None);
        let (_, _, call) = asked(&mut client);
        client.send_bytes(&call, &[7; 30], suspect(30));
        locate(&mut client, 5, &[1, 3], None);
        // Each of them first: one may have lost less than the other.
        let (to, sent, call) = asked(&mut client);
        assert_eq!((to.as_str(), sent.offset), ("s1:1", 30));
        client.send_bytes(&call, &[], suspect(30));
        let (to, sent, call) = asked(&mut client);
        assert_eq!((to.as_str(), sent.offset), ("s3:1", 30));
        client.send_bytes(&call, &[8; 10], suspect(40));
        let call = client.answer(grant(0, 6, 1, &[3, 1]));
        let Request::Lease(lease) = call.request else { panic!("{call:?}") };
        assert_eq!(lease.purpose, LeasePurpose::Level, "R28: a logged decision");
        let (to, sent, call) = asked(&mut client);
        assert_eq!((to.as_str(), sent.offset, sent.version.get()), ("s3:1", 40, 6));
        client.send_bytes(&call, &[], readable(40));
        assert_eq!(bytes_read(&done), [&[7; 30][..], &[8; 10]].concat());
        let warned = |it| matches!(it, Ok(Output::Read { end: true, suspect: true, .. }));
        assert!(warned(result(&done)), "R28: read with a warning");
    }

    /// Answers for two suspect replicas of 30 bytes, while the master grants no lease, for so long.
    fn only_suspects(client: &mut TestClient, chunk_count: u64, span: Duration) {
        let end = client.now + span;
        while client.now < end {
            while client.has_calls() {
                let call = client.call();
                match &call.request {
                    Request::Locate(_) => {
                        let chunks = vec![chunk(0, 5, &[1, 3], None)];
                        client.tell(&call, Ok(located(chunk_count, chunks)));
                    }
                    Request::Read(read) => {
                        let lacks = usize::try_from(30 - read.offset).expect("no more is asked");
                        client.send_bytes(&call, &vec![7; lacks], suspect(30));
                    }
                    Request::Lease(_) => {
                        let why = "2 usable replicas of 3; one is missing";
                        client.tell(&call, Err(Failure::not_done(ErrorCode::Busy, why)));
                    }
                    other => panic!("{other:?}"),
                }
            }
            client.pass(Duration::from_millis(100));
        }
    }

    #[test]
    fn where_suspects_are_all_there_is_and_no_lease_comes_the_file_ends_where_they_do() {
        let mut client = connected();
        let done = client.start(read(0, 100));
        only_suspects(&mut client, 1, Duration::from_secs(3));
        assert!(!is_done(&done), "the missing one is not dead yet");
        only_suspects(&mut client, 1, Duration::from_secs(3));
        assert_eq!(bytes_read(&done), [7; 30]);
        let length = client.start(Operation::Length { file: FILE });
        while !is_done(&length) {
            let call = client.call();
            match &call.request {
                Request::Read(_) => client.send_bytes(&call, &[], suspect(30)),
                Request::Lease(_) => {
                    let why = Failure::not_done(ErrorCode::Busy, "not now");
                    client.tell(&call, Err(why));
                }
                _ => client.tell(&call, Ok(located(1, vec![chunk(0, 5, &[1], None)]))),
            }
            while !client.has_calls() && !is_done(&length) {
                client.pass(Duration::from_millis(100));
            }
        }
        assert_eq!(result(&length), Ok(Output::Length(30)));
    }

    #[test]
    fn the_end_of_suspects_is_never_the_end_of_a_chunk_that_others_follow() {
        let mut client = connected();
        let done = client.start(read(0, 100));
        only_suspects(&mut client, 2, Duration::from_secs(61));
        let failure = result(&done).expect_err("the bytes behind are missing, not absent");
        assert_eq!(failure.code, ErrorCode::Busy);
    }

    #[test]
    fn a_version_that_moved_on_is_asked_of_the_master_again() {
        let mut client = connected();
        let done = client.start(read(0, 4));
        locate(&mut client, 5, &[1], None);
        client.fail(Failure::not_done(ErrorCode::StaleVersion, "version 6 is here"));
        locate(&mut client, 6, &[3], None);
        let (to, sent, call) = asked(&mut client);
        assert_eq!((to.as_str(), sent.version.get()), ("s3:1", 6));
        client.send_bytes(&call, &[1; 4], readable(4));
        assert_eq!(bytes_read(&done), [1; 4]);
    }

    #[test]
    fn a_slow_replica_is_overtaken_by_another() {
        let mut client = connected();
        let done = client.start(read(0, 4));
        locate(&mut client, 5, &[1, 3], None);
        let (_, _, slow) = asked(&mut client);
        client.pass(Duration::from_millis(1_001));
        let (to, _, fast) = asked(&mut client);
        assert_eq!(to, "s3:1");
        client.send_bytes(&fast, &[1; 4], readable(4));
        assert_eq!(bytes_read(&done), [1; 4]);
        client.send_bytes(&slow, &[1; 4], readable(4));
        client.assert_asks_nobody();
    }

    #[test]
    fn when_no_replica_answers_the_master_is_asked_again_after_a_rest() {
        let mut client = connected();
        let done = client.start(read(0, 4));
        locate(&mut client, 5, &[1, 3], None);
        let gone = || Failure::not_done(ErrorCode::Unreachable, "connection refused");
        assert_eq!(client.fail(gone()).to.as_str(), "s1:1");
        assert_eq!(client.fail(gone()).to.as_str(), "s3:1");
        client.pass(Duration::from_millis(50));
        locate(&mut client, 5, &[4], None);
        let (to, _, call) = asked(&mut client);
        assert_eq!(to, "s4:1");
        client.send_bytes(&call, &[1; 4], readable(4));
        assert_eq!(bytes_read(&done), [1; 4]);
    }

    #[test]
    fn holes_read_as_zeros_and_the_end_of_the_file_ends_the_read() {
        let mut client = connected();
        let done = client.start(read(4000, 5000));
        // Chunks of 4096: 0 is a hole, 1 is there, 2 is behind the end.
        let known = located(2, vec![chunk(1, 5, &[1], None)]);
        client.answer(known.clone());
        let (_, sent, call) = asked(&mut client);
        assert_eq!((sent.handle, sent.offset, sent.size), (handle(1), 0, 4096));
        let closed = ReadAnswer { closed: true, zeros: 4094, ..readable(4096) };
        client.send_bytes(&call, &[7; 2], closed);
        let mut whole = vec![0; 96];
        whole.extend([7; 2]);
        whole.resize(96 + 4096, 0);
        assert_eq!(bytes_read(&done), whole);
        client.assert_asks_nobody();
    }

    #[test]
    fn the_end_known_from_an_older_question_is_asked_for_again() {
        let mut client = connected();
        let first = client.start(read(0, 4));
        client.answer(located(0, vec![]));
        assert_eq!(bytes_read(&first), []);
        let second = client.start(read(0, 4));
        locate(&mut client, 5, &[1], None);
        let (_, _, call) = asked(&mut client);
        client.send_bytes(&call, &[1; 4], readable(4));
        assert_eq!(bytes_read(&second), [1; 4]);
    }

    #[test]
    fn a_read_of_several_chunks_asks_for_all_at_once_and_keeps_their_order() {
        let mut client = connected();
        let done = client.start(read(4090, 12));
        let chunks = (0..20).map(|index| chunk(index, 5, &[1], None)).collect();
        client.answer(located(20, chunks));
        let (_, first, call_0) = asked(&mut client);
        let (_, second, call_1) = asked(&mut client);
        assert_eq!((first.handle, first.size), (handle(0), 6));
        assert_eq!((second.handle, second.size), (handle(1), 6));
        client.send_bytes(&call_1, &[2; 6], readable(4096));
        client.send_bytes(&call_0, &[1; 6], readable(4096));
        assert_eq!(bytes_read(&done), [1, 1, 1, 1, 1, 1, 2, 2, 2, 2, 2, 2]);
    }

    #[test]
    fn near_the_end_of_what_is_known_the_next_locations_are_fetched_ahead() {
        let mut client = connected();
        client.start(read(14 * 4096, 4));
        let call = client.answer(located(40, (14..30).map(|i| chunk(i, 5, &[1], None)).collect()));
        assert!(matches!(call.request, Request::Locate(_)));
        let _ = asked(&mut client);
        client.start(read(28 * 4096, 4));
        let kinds: Vec<Request> = [client.call(), client.call()].map(|call| call.request).into();
        assert!(kinds.iter().any(|request| matches!(request, Request::Read(_))));
        let ahead = kinds
            .iter()
            .any(|request| matches!(request, Request::Locate(locate) if locate.first.get() == 30));
        assert!(ahead, "{kinds:?}");
    }
}
