//! Serving readers (design §7): what may be read, and what a short answer means.
//!
//! - nothing past the acknowledged length leaves this server (R17). At it, an empty answer is
//!   the end where this replica stores nothing more: what is acknowledged was applied here first
//!   (R14). Where it does store more, only the lease holder knows; anyone else says
//!   `PastAcknowledged`.
//! - a replica with the close mark answers zeros up to the chunk's size; no other does (R19),
//!   nor does a suspect one: it may have lost what stood there (R28).
//! - a damaged replica gets no lease, and the master names it to readers only where there is
//!   no other; then its good blocks, each of which is verified as it is read, are worth having.

use crate::outbox::{Purpose, lane_of};
use crate::primary::{Closing, Primary, Stage, failure_of};
use crate::replica::{Context, Replica};
use cairn_env::{Caller, ChunkError, ChunkJob, ReadDone};
use cairn_protocol::{
    ChunkLength, ChunkLengthAnswer, ErrorCode, Failure, Read, ReadAnswer, Response,
};
use cairn_types::planted::{Rule, broken};

/// The most that one answer carries; a reader that wants more asks again. Far below the limit of
/// a frame's payload, whole blocks at both ends included.
const READ_SIZE_MAX: u64 = 4 << 20;

const _: () = assert!(READ_SIZE_MAX * 2 < cairn_protocol::PAYLOAD_SIZE_MAX as u64);

impl Replica {
    /// Whether it alone knows what is acknowledged: it holds the lease, and has levelled (R16).
    fn holds_lease(&self, cx: &Context<'_>) -> bool {
        self.primary.as_deref().is_some_and(|primary: &Primary| {
            primary.is_live(cx.now) && !matches!(primary.stage, Stage::Levelling(_))
        })
    }

    /// Whether readers may take the chunk for closed: not while its primary is still putting the
    /// mark on the other replicas, for then it may yet come to nothing (R18).
    fn is_closed_for_readers(&self) -> bool {
        let marking = |primary: &Primary| primary.closing == Some(Closing::Marking);
        self.closed && !self.primary.as_deref().is_some_and(marking)
    }

    /// Bytes that may be read here and now.
    fn readable(&self, cx: &Context<'_>) -> u64 {
        let may_have_lost = self.suspect && !broken(Rule::R28);
        if broken(Rule::R19) || (self.is_closed_for_readers() && !may_have_lost) {
            cx.config.chunk_size
        } else if may_have_lost {
            // What it lacks it may have lost: no zeros in its place, mark or not (R28).
            self.acknowledged.min(self.length)
        } else if broken(Rule::R17) {
            self.length
        } else {
            self.acknowledged
        }
    }

    pub(crate) fn on_read(&mut self, cx: &mut Context<'_>, from: Caller, read: &Read) {
        if let Err(failure) = self.check_version(read.version) {
            cx.out.refuse(from, failure);
            return;
        }
        let readable = self.readable(cx);
        // A suspect one says so in its answer; who reads decides what that is worth (R28).
        let unsure = self.length > self.acknowledged && !self.holds_lease(cx) && !self.suspect;
        if read.offset >= readable && !self.is_closed_for_readers() && unsure {
            let why = format!(
                "chunk {}: {readable} bytes are known to be acknowledged here, {} was asked for",
                self.handle.short(),
                read.offset
            );
            cx.out.refuse(from, Failure::not_done(ErrorCode::PastAcknowledged, why));
            return;
        }
        let size = read.size.min(READ_SIZE_MAX);
        let end = read.offset.saturating_add(size).min(readable);
        let stored = end.min(self.length);
        if stored <= read.offset {
            let zeros = end.saturating_sub(read.offset);
            let offset = read.offset;
            let answer = ReadAnswer { offset, zeros, ..self.read_answer(cx) };
            cx.out.reply(from, Response::Read(answer));
            return;
        }
        let (handle, offset) = (self.handle, read.offset);
        let job = ChunkJob::Read { handle, offset, size: stored - offset };
        cx.out.disk(Purpose::Read { handle, to: from, end }, lane_of(handle), job);
    }

    fn read_answer(&self, cx: &Context<'_>) -> ReadAnswer {
        ReadAnswer {
            readable: self.readable(cx),
            closed: self.is_closed_for_readers(),
            suspect: self.suspect,
            ..ReadAnswer::default()
        }
    }

    /// The disk has, or has not, the bytes. `end`: where the range asked for ends.
    pub(crate) fn on_read_done(
        &mut self,
        cx: &mut Context<'_>,
        to: Caller,
        end: u64,
        result: Result<ReadDone, ChunkError>,
    ) {
        match result {
            Ok(done) => {
                let got = done.offset + done.payload.len() as u64;
                let answer = ReadAnswer {
                    offset: done.offset,
                    checksums: done.checksums,
                    zeros: end.saturating_sub(got),
                    ..self.read_answer(cx)
                };
                cx.out.reply_with(to, Response::Read(answer), done.payload);
            }
            Err(error) => {
                self.damaged |= matches!(error, ChunkError::Corrupt { .. });
                cx.out.refuse(to, failure_of(&error));
            }
        }
    }

    pub(crate) fn on_length(&self, cx: &mut Context<'_>, from: Caller, ask: &ChunkLength) {
        match self.check_version(ask.version) {
            Ok(()) => {
                let primary = self.holds_lease(cx);
                let (length, closed) = (self.acknowledged, self.is_closed_for_readers());
                let answer = ChunkLengthAnswer { length, closed, primary };
                cx.out.reply(from, Response::ChunkLength(answer));
            }
            Err(failure) => cx.out.refuse(from, failure),
        }
    }

    /// Someone doubts a block: it is verified behind the mutations that are under way (R31).
    pub(crate) fn verify(&mut self, cx: &mut Context<'_>, offset: u64) {
        if broken(Rule::R31) {
            self.damaged = true;
            return;
        }
        let job = ChunkJob::Verify { handle: self.handle, offset };
        cx.out.disk(Purpose::Verified(self.handle), lane_of(self.handle), job);
    }
}
