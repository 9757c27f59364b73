//! What to do with a client's request for a lease (Figure 2, steps 1 and 2).
//!
//! ```text
//!   Lease ─► does a lease serve? ─yes─► does the client doubt its primary? ─no─► ChunkGrant
//!                  │ no                          │ yes
//!                  ▼                             ▼
//!              join the place's job         probe the primary
//! ```
//! - Q1: only the master declares a primary failed, after a probe of its own (R18).
//! - Q2: appends go to the last chunk, and to the next place as soon as that is being closed.

use super::charging::is_charged;
use super::live_file::{live_file, no_file};
use super::members::secondaries_of;
use crate::chunk_place::ChunkPlace;
use crate::leases::GrantedLease;
use crate::view::View;
use cairn_protocol::{ChunkGrant, ErrorCode, Failure, Lease as LeaseRequest, LeasePurpose};
use cairn_types::planted::{Rule, broken};
use cairn_types::{ChunkHandle, ChunkIndex, EntryId, Layout};

/// What becomes of a request for a lease.
#[derive(Debug)]
pub(crate) enum LeaseAdvice {
    /// It is answered at once.
    Answer(Result<ChunkGrant, Failure>),
    /// It waits for what is, or will be, under way at that place.
    Join(ChunkPlace),
    /// It waits there until the primary, whom the client doubts, is asked.
    Probe(ChunkPlace, ChunkHandle),
}

/// Looks at a request for a lease.
pub(crate) fn consider(view: &View<'_>, request: &LeaseRequest) -> LeaseAdvice {
    let file = request.file;
    let Some(entry) = live_file(view.state, file) else {
        return LeaseAdvice::Answer(Err(no_file(file)));
    };
    // R38: whoever writes a stream is its producer.
    if request.purpose != LeasePurpose::Level && entry.layout == Layout::Stream {
        return LeaseAdvice::Answer(Err(written_by_producers(file)));
    }
    if request.index.get().checked_mul(view.term.config.chunk_size).is_none() {
        let line = format!("file {}: no file has so many chunks", file.short());
        return LeaseAdvice::Answer(Err(Failure::refused(ErrorCode::Invalid, line)));
    }
    let place = ChunkPlace::new(file, index_wanted(view, request));
    let Some(handle) = view.state.chunk_at(file, place.index) else {
        if request.purpose == LeasePurpose::Level {
            let line = format!("{place} is a hole");
            return LeaseAdvice::Answer(Err(Failure::refused(ErrorCode::NoSuchChunk, line)));
        }
        return LeaseAdvice::Join(place);
    };
    let Some(grant) = present_grant(view, (file, handle), request.purpose) else {
        return LeaseAdvice::Join(place);
    };
    let doubted = request.failed == grant.primary.server
        && (request.failed_version == grant.version || request.failed_version.is_none());
    if !doubted {
        return LeaseAdvice::Answer(Ok(grant));
    }
    // One that is being changed already will be looked at anew when that is over.
    if view.underway.has_job(place) || view.underway.is_taken(place, handle) {
        return LeaseAdvice::Join(place);
    }
    LeaseAdvice::Probe(place, handle)
}

fn written_by_producers(file: EntryId) -> Failure {
    let line = format!(
        "file {}: it is a stream, which producers alone append to: 'cairn append --producer NAME'",
        file.short()
    );
    Failure::refused(ErrorCode::Invalid, line)
}

/// An append goes to the last chunk, or to the one after it where that is closed or being so (Q2).
fn index_wanted(view: &View<'_>, request: &LeaseRequest) -> ChunkIndex {
    if request.purpose != LeasePurpose::Append {
        return request.index;
    }
    let Some((last, handle)) = view.state.last_chunk(request.file) else {
        return ChunkIndex::default();
    };
    let closed = view.state.chunk(handle).is_none_or(|chunk| chunk.closed);
    match view.underway.later(ChunkPlace::new(request.file, last)) {
        Some(later) => later,
        None if closed => last.next(),
        None => last,
    }
}

/// The grant that a client can be given at once.
fn present_grant(
    view: &View<'_>,
    (file, handle): (EntryId, ChunkHandle),
    purpose: LeasePurpose,
) -> Option<ChunkGrant> {
    let mutates = purpose != LeasePurpose::Level;
    // R32, R34: nobody changes what others have too, nor what is in a snapshot that is being taken.
    let kept = view.state.sharing().is_shared(handle) || view.is_frozen(file);
    if mutates && kept && !broken(Rule::R32) {
        return None;
    }
    let lease: &GrantedLease = view.leases.serving(handle, view.now.time)?;
    let chunk = view.state.chunk(handle)?;
    // CH1
    let place = ChunkPlace::new(chunk.file, chunk.index);
    if purpose != LeasePurpose::Level && !is_charged(view, place) {
        return None;
    }
    // Whether a lease of an earlier term takes appends is not known: they get a fresh one.
    if purpose == LeasePurpose::Append && (!lease.takes_appends || lease.adopted) {
        return None;
    }
    let secondaries = secondaries_of(view, handle, lease, &chunk)?;
    Some(ChunkGrant {
        index: chunk.index,
        handle,
        version: lease.version,
        lease: lease.id,
        primary: lease.holder.clone(),
        secondaries,
    })
}
