//! Serving readers (design §7): what may be read, and what a short answer means.
//!
//! - nothing past the acknowledged length leaves this server (R17). At it, an empty answer is
//!   the end where this replica stores nothing more: what is acknowledged was applied here first
//!   (R14). Where it does store more, only the lease holder knows; anyone else says
//!   `PastAcknowledged`.
//! - a replica with the close mark answers zeros up to the chunk's size, to readers who have
//!   it from the master that the chunk is closed; no other does (R19), nor does a suspect one: it
//!   may have lost what stood there (R28). A mark alone says little: a fence puts it on before the
//!   close is logged, and may come to nothing.
//! - a damaged replica gets no lease, and the master names it to readers only where there is
//!   no other; then its good blocks, each of which is verified as it is read, are worth having.
//!   One whose end is not known, or whose disk has less than it should, tells no reader that it
//!   ends.
//! - who is out of its chunk's set serves nobody, nor does one that may be, without having
//!   heard of it, for a reader whose word from a master is old (`standing.rs`).
//! - who was sent here by a shadow master takes what may be behind: he is served up to what is
//!   known here to be acknowledged, though no master may be there to ask (R12, R17). Who knows that
//!   it is out of the set serves him neither.
//! - of a stream's chunk what is committed is readable, whatever mark is here; who has less
//!   gives what it has, and never zeros (R44).

use crate::outbox::{AskedRange, KnownEnd, Outbox, ReplicaJob, failure_of};
use crate::primary::Primary;
use crate::replica::Replica;
use crate::replica_context::ReplicaContext;
use crate::standing::Standing;
use crate::stored_replica::StoredReplica;
use cairn_env::{Caller, ChunkError, ChunkJob, ReadDone};
use cairn_protocol::{
    ChunkLength, ChunkLengthAnswer, ErrorCode, Failure, Fetch, FetchAnswer, Read, ReadAnswer,
    Response,
};
use cairn_types::Time;
use cairn_types::planted::{Rule, broken};
use std::time::Duration;

/// The most that one answer carries; a reader that wants more asks again. Far below the limit of
/// a frame's payload.
pub(crate) const READ_SIZE_MAX: u64 = 4 << 20;

const _: () = assert!(READ_SIZE_MAX * 2 < cairn_protocol::PAYLOAD_SIZE_MAX as u64);

/// A replica as a reader may see it right now.
#[derive(Debug)]
pub(crate) struct ReadView<'r> {
    pub(crate) stored: &'r StoredReplica,
    pub(crate) chunk_size: u64,
    /// It holds the lease: nothing changes without it.
    pub(crate) orders: bool,
    /// It holds the lease and has levelled: it alone knows what is acknowledged (R16).
    pub(crate) holds_lease: bool,
    /// Whether this server would hear by now if sets went on without it.
    pub(crate) standing: (Time, Standing),
    /// What the reader has from the master.
    pub(crate) known: KnownEnd,
    /// Its close mark is not yet on the other replicas, and may come to nothing (R18).
    pub(crate) is_marking: bool,
}

impl ReadView<'_> {
    fn is_closed(&self) -> bool {
        self.stored.is_closed() && matches!(self.known, KnownEnd::Closed) && !self.is_marking
    }

    /// Bytes that may be read here and now.
    fn readable(&self) -> u64 {
        let acknowledged = self.stored.acknowledged().length;
        let may_have_lost = self.stored.is_suspect() && !broken(Rule::R28);
        if let KnownEnd::Committed(committed) = self.known {
            //
            if broken(Rule::R44) { committed } else { committed.min(self.stored.length()) }
        } else if broken(Rule::R19) || (self.is_closed() && !may_have_lost) {
            self.chunk_size
        } else if may_have_lost {
            // What it lacks it may have lost: no zeros in its place, mark or not (R28).
            acknowledged.min(self.stored.length())
        } else if broken(Rule::R17) {
            self.stored.length()
        } else {
            acknowledged
        }
    }

    /// Sees to it that a reader gets its bytes, or hears at once that there are none.
    pub(crate) fn read(&self, out: &mut Outbox, from: Caller, read: &Read) -> Result<(), Failure> {
        self.stored.check_version(read.version)?;
        self.check_set(read)?;
        let (handle, readable) = (self.stored.handle(), self.readable());
        // A suspect one says so in its answer; who reads decides what that is worth (R28).
        let stores_more = self.stored.length() > self.stored.acknowledged().length;
        let unsure = stores_more && !self.holds_lease && !self.stored.is_suspect();
        let unsure = unsure && !matches!(self.known, KnownEnd::Committed(_));
        // There may be nobody who knows: what is known is the end for who takes that.
        let unsure = unsure && !read.takes_behind;
        if read.offset >= readable && !self.is_closed() && unsure {
            let why = format!(
                "chunk {}: {readable} bytes are known to be acknowledged here, {} was asked for",
                handle.short(),
                read.offset
            );
            return Err(Failure::not_done(ErrorCode::PastAcknowledged, why));
        }
        let size = read.size.min(READ_SIZE_MAX);
        let end = read.offset.saturating_add(size).min(readable);
        let stored = end.min(self.stored.length());
        if stored <= read.offset && self.stored.is_end_unknown() {
            // An empty answer, or zeros, would say that the chunk ends here (R19).
            return Err(self.stored.end_lost());
        }
        if stored <= read.offset {
            let zeros = end.saturating_sub(read.offset);
            let answer = ReadAnswer { offset: read.offset, zeros, ..self.answer() };
            out.reply(from, Response::Read(answer));
            return Ok(());
        }
        let size = stored - read.offset;
        assert!(size <= READ_SIZE_MAX, "an answer of {size} bytes");
        let job = ChunkJob::Read { handle, offset: read.offset, size };
        let what =
            ReplicaJob::Read { to: from, range: AskedRange { stored, end, known: self.known } };
        out.replica_job(handle, what, job);
        Ok(())
    }

    ///
    fn check_set(&self, read: &Read) -> Result<(), Failure> {
        let (now, standing) = self.standing;
        let location_age = Duration::from_millis(read.location_age_ms);
        let may_be_out = !self.orders && !standing.covers(now, location_age);
        let why = if self.stored.is_left_out() {
            "the others have gone on without this replica"
        } else if may_be_out && !read.takes_behind {
            "this server has not heard lately whether the others have gone on without it"
        } else {
            return Ok(());
        };
        let line = format!("chunk {}: {why}; ask the master", self.stored.handle().short());
        Err(Failure::not_done(ErrorCode::StaleVersion, line))
    }

    fn answer(&self) -> ReadAnswer {
        ReadAnswer {
            readable: self.readable(),
            closed: self.is_closed(),
            suspect: self.stored.is_suspect(),
            ..ReadAnswer::default()
        }
    }

    /// The disk has the bytes. `end`: where the range asked for ends.
    pub(crate) fn serve(&self, out: &mut Outbox, to: Caller, end: u64, done: ReadDone) {
        let got = done.offset + done.payload.len() as u64;
        let answer = ReadAnswer {
            offset: done.offset,
            checksums: done.checksums,
            zeros: end.saturating_sub(got),
            ..self.answer()
        };
        out.reply_with(to, Response::Read(answer), done.payload);
    }

    pub(crate) fn length(&self, ask: &ChunkLength) -> Result<Response, Failure> {
        self.stored.check_version(ask.version)?;
        Ok(Response::ChunkLength(ChunkLengthAnswer {
            length: self.stored.acknowledged().length,
            closed: self.is_closed(),
            primary: self.holds_lease,
        }))
    }
}

/// What one may see of it to whom the master said where the chunk ends.
fn view<'r>(replica: &'r Replica, cx: &ReplicaContext<'_>, known: KnownEnd) -> ReadView<'r> {
    let primary = replica.role().primary().filter(|primary| primary.is_live(cx.now));
    ReadView {
        stored: replica.stored(),
        chunk_size: cx.config.chunk_size,
        orders: primary.is_some(),
        holds_lease: primary.is_some_and(Primary::has_levelled),
        standing: (cx.now, cx.standing),
        known,
        is_marking: replica.role().primary().is_some_and(Primary::is_marking),
    }
}

pub(crate) fn on_read(replica: &Replica, cx: &mut ReplicaContext<'_>, from: Caller, read: &Read) {
    let known = match read.committed {
        Some(committed) => KnownEnd::Committed(committed),
        None if read.closed => KnownEnd::Closed,
        None => KnownEnd::Open,
    };
    if let Err(failure) = view(replica, cx, known).read(cx.out, from, read) {
        cx.out.refuse(from, failure);
    }
}

/// The disk has the bytes of a range.
pub(crate) fn on_read_done(
    replica: &mut Replica,
    cx: &mut ReplicaContext<'_>,
    to: Caller,
    range: AskedRange,
    done: ReadDone,
) {
    if done.offset + (done.payload.len() as u64) < range.stored {
        // Zeros would say that nothing was ever written there (R19).
        replica.stored_mut().lose_bytes();
        cx.out.refuse(to, replica.stored().end_lost());
        return;
    }
    view(replica, cx, range.known).serve(cx.out, to, range.end, done);
}

/// The disk refuses them: of a range that a reader asked for, or that another server fetches.
pub(crate) fn on_read_failed(
    replica: &mut Replica,
    cx: &mut ReplicaContext<'_>,
    to: Caller,
    error: &ChunkError,
) {
    replica.stored_mut().learn_of(error);
    cx.out.refuse(to, failure_of(error));
}

pub(crate) fn on_length(
    replica: &Replica,
    cx: &mut ReplicaContext<'_>,
    from: Caller,
    ask: &ChunkLength,
) {
    match view(replica, cx, KnownEnd::Closed).length(ask) {
        Ok(answer) => cx.out.reply(from, answer),
        Err(failure) => cx.out.refuse(from, failure),
    }
}

/// Another server's replica catches up with this one: blocks that it lacks (R16).
pub(crate) fn on_fetch(
    replica: &Replica,
    cx: &mut ReplicaContext<'_>,
    from: Caller,
    fetch: Fetch,
) -> Result<(), Failure> {
    let Fetch { handle, version, offset, length, known, size_max } = fetch;
    replica.stored().check_version(version)?;
    if replica.stored().is_end_unknown() {
        return Err(replica.stored().end_lost());
    }
    let job = ChunkJob::Fetch { handle, offset, length, known, size_max };
    cx.out.replica_job(handle, ReplicaJob::Fetch { to: from }, job);
    Ok(())
}

/// The disk has blocks for another server. What was asked of the disk for this chunk before them
/// is done, and nothing else: so they are of the replica as it stands now.
pub(crate) fn on_fetch_done(
    replica: &Replica,
    cx: &mut ReplicaContext<'_>,
    to: Caller,
    done: ReadDone,
) {
    let ReadDone { offset, payload, checksums } = done;
    assert_eq!(
        payload.is_empty(),
        checksums.0.is_empty(),
        "each block goes with its checksum (FB1)"
    );
    let (replica, busy) = (replica.stored().report(), cx.clients_busy);
    let answer = FetchAnswer { offset, checksums, replica, busy };
    cx.out.reply_with(to, Response::Fetch(answer), payload);
}
