//! The recorded length of a file (design §4): at `sync` and close, and when a lease ends.
//!
//! ```text
//!   RecordLength ─► does the last chunk have a primary? ─yes─► ChunkLength ─► SetLength ─► answer
//!                                 └─no─► what its replicas told ───────────────┘
//! ```

use super::revoke::{Revocation, asked_back};
use crate::leases::{GrantedLease, LeaseStatus, Leases};
use crate::record::SetLength;
use crate::rules::charging::{all_is_told, counts_in_quota, may_settle};
use crate::rules::live_file::no_file;
use crate::rules::members::{current, former_holder_unknown, missing_may_come};
use crate::view::View;
use cairn_env::Caller;
use cairn_protocol::{ChunkLength, ErrorCode, Failure, RecordLength};
use cairn_types::{ChunkHandle, ChunkIndex, EntryId, EntryKind, Layout, ReplicaAt, Time};

/// Who waits for a length to be recorded, and of what.
#[derive(Clone, Copy, Debug)]
pub(crate) struct LengthRequest {
    pub(crate) from: Caller,
    pub(crate) file: EntryId,
    /// The file's last chunk.
    index: ChunkIndex,
}

/// What is to be done about a length.
#[derive(Debug)]
pub(crate) enum LengthStep {
    /// It is recorded as it is.
    Answer(u64),
    /// The primary knows.
    Ask { holder: ReplicaAt, question: ChunkLength, deadline: Time, asked_by: LengthRequest },
    /// It is longer than recorded.
    Record(SetLength, LengthRequest),
    /// The lease is asked back first: what the file is charged beyond its length is given back at
    /// once (R36).
    AskBack { revocation: Revocation, deadline: Time, asked_by: LengthRequest },
}

/// Somebody wants a file's length to be recorded.
pub(crate) fn consider(
    view: &View<'_>,
    from: Caller,
    &RecordLength { file, closes }: &RecordLength,
) -> Result<LengthStep, Failure> {
    let entry = view.state.entry(file).filter(|entry| entry.kind == EntryKind::File);
    let entry = entry.ok_or_else(|| no_file(file))?;
    // How long a stream is, its commits say alone (R38).
    let last = view.state.last_chunk(file).filter(|_| entry.layout != Layout::Stream);
    let Some((index, handle)) = last else { return Ok(LengthStep::Answer(entry.length)) };
    let asked_by = LengthRequest { from, file, index };
    let Some(lease) = view.leases.serving(handle, view.now.time) else {
        if let Some(who) = has_yet_to_tell(view, handle) {
            let line = format!("file {}: {who} not told yet how long it is", file.short());
            return Err(Failure::not_done(ErrorCode::Busy, line));
        }
        return Ok(known(view, asked_by, acknowledged(view, handle), all_is_told(view, handle)));
    };
    // Who only syncs writes on: without the lease it would wait for another one.
    let charged = closes && view.state.subtrees().charged(file).is_some();
    let asks_back = charged && counts_in_quota(view, file);
    if asks_back && !view.underway.is_busy(file) {
        let revocation = asked_back(view, handle, lease);
        let deadline = view.now.time + view.term.silent();
        return Ok(LengthStep::AskBack { revocation, deadline, asked_by });
    }
    Ok(ask(view, (handle, lease), asked_by))
}

/// Who is waited for that may know of more acknowledged bytes than those who have told, if anybody.
fn has_yet_to_tell(view: &View<'_>, handle: ChunkHandle) -> Option<&'static str> {
    if may_be_longer(view, handle) {
        return Some("the servers of its last chunk have");
    }
    // It tells when it gives the lease back, or goes on; replicas told before it was asked.
    let lease = view.leases.possible(handle, view.now.time);
    lease.filter(|lease| lease.status == LeaseStatus::AskedBack)?;
    Some("the primary of its last chunk, which is giving its lease back, has")
}

/// Asks the primary.
fn ask(
    view: &View<'_>,
    (handle, lease): (ChunkHandle, &GrantedLease),
    asked_by: LengthRequest,
) -> LengthStep {
    let question = ChunkLength { handle, version: lease.version };
    let deadline = view.now.time + view.term.silent();
    LengthStep::Ask { holder: lease.holder.clone(), question, deadline, asked_by }
}

/// A lease that is to be asked back sends nobody to its holder meanwhile.
pub(crate) fn note_asked_back(leases: &mut Leases, next: &LengthStep) {
    if let LengthStep::AskBack { revocation: (_, revoke), .. } = next {
        leases.set_status(revoke.handle, revoke.lease, LeaseStatus::AskedBack);
    }
}

/// Whether somebody may know of more acknowledged bytes than those who have told: nobody has, or a
/// lease of an earlier term may go on, whose holder is not here yet (R22).
pub(crate) fn may_be_longer(view: &View<'_>, handle: ChunkHandle) -> bool {
    // A last chunk is in the table, unless its page cannot be read.
    let Some(chunk) = view.state.chunk(handle) else { return false };
    let told = current(view, handle, &chunk).count();
    let nobody_told = told == 0 && missing_may_come(view, handle, &chunk);
    let set_size = chunk.set_size as usize;
    nobody_told || told < set_size && former_holder_unknown(view, handle, &chunk)
}

/// What up-to-date replicas have said to be acknowledged.
pub(crate) fn acknowledged(view: &View<'_>, handle: ChunkHandle) -> u64 {
    let chunk = view.state.chunk(handle);
    let replicas = chunk.iter().flat_map(|chunk| current(view, handle, chunk));
    replicas.map(|(_, replica)| replica.acknowledged).max().unwrap_or(0)
}

/// So many bytes of the chunk are acknowledged: its holder says so, who knows all that are.
pub(crate) fn heard(view: &View<'_>, asked_by: LengthRequest, acknowledged: u64) -> LengthStep {
    known(view, asked_by, acknowledged, true)
}

/// So many bytes of the chunk are known to be acknowledged, and no more are where it `is_all`.
fn known(view: &View<'_>, asked_by: LengthRequest, acknowledged: u64, is_all: bool) -> LengthStep {
    let LengthRequest { file, index, .. } = asked_by;
    let length = length_at(view, index, acknowledged);
    let recorded = recorded(view, file);
    // While its holder was asked the file may have got another last chunk: it did not tell of that.
    let is_last = view.state.last_chunk(file).is_some_and(|(last, _)| last == index);
    let charged = view.state.subtrees().charged(file).is_some();
    // CH2
    let settles = charged && is_all && is_last && may_settle(view, file);
    if length <= recorded && !settles {
        return LengthStep::Answer(recorded);
    }
    LengthStep::Record(SetLength { time: view.now.wall, file, length, settles }, asked_by)
}

/// The length of a file whose last chunk has so many bytes. Clients choose indexes, and
/// chunkservers tell bytes: none of them makes it too large for a number.
pub(crate) fn length_at(view: &View<'_>, index: ChunkIndex, bytes: u64) -> u64 {
    view.term.config.chunk_size.saturating_mul(index.get()).saturating_add(bytes)
}

/// Nobody can lengthen this chunk any more: the length that its file has by it, where that is more
/// than what is recorded.
pub(crate) fn of_still(view: &View<'_>, handle: ChunkHandle) -> Option<SetLength> {
    let chunk = view.state.chunk(handle)?;
    let bytes = acknowledged(view, handle);
    let length = length_at(view, chunk.index, bytes);
    let more = bytes > 0 && length > recorded(view, chunk.file);
    let (time, file, settles) = (view.now.wall, chunk.file, false);
    more.then_some(SetLength { time, file, length, settles })
}

/// The length that is on record.
pub(crate) fn recorded(view: &View<'_>, file: EntryId) -> u64 {
    view.state.entry(file).map_or(0, |entry| entry.length)
}

/// A lease ran out: what its holder last told is recorded, where it is more than what is.
pub(crate) fn at_end_of_lease(
    view: &View<'_>,
    handle: ChunkHandle,
    lease: &GrantedLease,
) -> Option<SetLength> {
    let chunk = view.state.chunk(handle)?;
    let length = length_at(view, chunk.index, lease.acknowledged);
    let recorded = view.state.entry(chunk.file).map_or(u64::MAX, |entry| entry.length);
    let more = lease.acknowledged > 0 && length > recorded;
    // What the file is charged is settled once all have told how long it is.
    let settles = false;
    more.then_some(SetLength { time: view.now.wall, file: chunk.file, length, settles })
}
