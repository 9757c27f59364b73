//! The recorded length of a file (design §4): at `sync` and close, and when a lease ends.
//!
//! ```text
//!   RecordLength ─► does the last chunk have a primary? ─yes─► ChunkLength ─► SetLength ─► answer
//!                                 └─no─► what its replicas told ───────────────┘
//! ```

use crate::leases::GrantedLease;
use crate::record::SetLength;
use crate::rules::live_file::no_file;
use crate::rules::members::{current, former_holder_unknown, missing_may_come};
use crate::view::View;
use cairn_env::Caller;
use cairn_protocol::{ChunkLength, ErrorCode, Failure};
use cairn_types::{ChunkHandle, ChunkIndex, EntryId, EntryKind, ReplicaAt, Time};

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
}

/// Somebody wants a file's length to be recorded.
pub(crate) fn consider(
    view: &View<'_>,
    from: Caller,
    file: EntryId,
) -> Result<LengthStep, Failure> {
    let entry = view.state.entry(file).filter(|entry| entry.kind == EntryKind::File);
    let entry = entry.ok_or_else(|| no_file(file))?;
    let Some((index, handle)) = view.state.last_chunk(file) else {
        return Ok(LengthStep::Answer(entry.length));
    };
    let asked_by = LengthRequest { from, file, index };
    let Some(lease) = view.leases.serving(handle, view.now.time) else {
        if may_be_longer(view, handle) {
            let line = format!(
                "file {}: the servers of its last chunk have not told yet how long it is",
                file.short()
            );
            return Err(Failure::not_done(ErrorCode::Busy, line));
        }
        return Ok(heard(view, asked_by, acknowledged(view, handle)));
    };
    let question = ChunkLength { handle, version: lease.version };
    let deadline = view.now.time + view.term.silent();
    Ok(LengthStep::Ask { holder: lease.holder.clone(), question, deadline, asked_by })
}

/// Whether somebody may know of more acknowledged bytes than those who have told: nobody has, or a
/// lease of an earlier term may go on, whose holder is not here yet (R22).
fn may_be_longer(view: &View<'_>, handle: ChunkHandle) -> bool {
    // A last chunk is in the table, unless its page cannot be read.
    let Some(chunk) = view.state.chunk(handle) else { return false };
    let told = current(view, handle, &chunk).count();
    let nobody_told = told == 0 && missing_may_come(view, handle, &chunk);
    let set_size = chunk.set_size as usize;
    nobody_told || told < set_size && former_holder_unknown(view, handle, &chunk)
}

/// What up-to-date replicas have said to be acknowledged.
fn acknowledged(view: &View<'_>, handle: ChunkHandle) -> u64 {
    let chunk = view.state.chunk(handle);
    let replicas = chunk.iter().flat_map(|chunk| current(view, handle, chunk));
    replicas.map(|(_, replica)| replica.acknowledged).max().unwrap_or(0)
}

/// So many bytes of the last chunk are acknowledged.
pub(crate) fn heard(view: &View<'_>, asked_by: LengthRequest, acknowledged: u64) -> LengthStep {
    let LengthRequest { file, index, .. } = asked_by;
    let length = length_at(view, index, acknowledged);
    let recorded = recorded(view, file);
    if length <= recorded {
        return LengthStep::Answer(recorded);
    }
    LengthStep::Record(SetLength { time: view.now.wall, file, length }, asked_by)
}

/// The length of a file whose last chunk has so many bytes. Clients choose indexes, and
/// chunkservers tell bytes: none of them makes it too large for a number.
fn length_at(view: &View<'_>, index: ChunkIndex, bytes: u64) -> u64 {
    view.term.config.chunk_size.saturating_mul(index.get()).saturating_add(bytes)
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
    more.then_some(SetLength { time: view.now.wall, file: chunk.file, length })
}
