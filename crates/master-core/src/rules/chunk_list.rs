//! Chunks with their replicas as the master knows them, page by page: what is compared with what
//! chunkservers hold, and told to programs that ask why a chunk is as it is.

use super::condition::{Undecided, undecided};
use super::file_paths::{FilePath, FilePaths};
use super::good_replicas::{good, told_behind};
use super::lacking::needs;
use super::levelled_unasked::is_to_be_levelled;
use super::placement::is_room_beside;
use super::same_bytes::current_by_bytes;
use crate::fleet::KnownReplica;
use crate::state::ChunkRecord;
use crate::view::View;
use cairn_protocol::{
    ChunkWait, CloneStatus, Failure, ListChunks, ListChunksAnswer, ListedChunk, ListedReplica,
    MESSAGE_SIZE_MAX, MissingReplica, WaitReason,
};
use cairn_types::{ChunkHandle, ChunkIndex, EntryId, EntryKind, PATH_SIZE_MAX, ServerId};
use std::time::Duration;

/// Chunks that one request looks at: a few milliseconds.
const LOOKED_AT_MAX: usize = 4096;
/// Chunks that one answer tells of.
const TOLD_MAX: u32 = 256;
/// Replicas of each, and servers that held one.
const REPLICAS_MAX: usize = 64;
const MISSING_MAX: usize = 4;

// A hidden name makes a path longer by itself and no more; addresses have 255 bytes.
const _: () = assert!(
    TOLD_MAX as usize * (PATH_SIZE_MAX + 1024 + REPLICAS_MAX * 64 + (MISSING_MAX + 2) * 600)
        < MESSAGE_SIZE_MAX as usize
);

/// What repair says of a chunk: the copy that is made, and how long it rests.
pub(crate) type RepairOfChunk = (Option<CloneStatus>, Option<Duration>);

/// Those that are wished: of one file in order of index, else in order of handles.
pub(crate) fn list(
    view: &View<'_>,
    wish: &ListChunks,
    repair_of: impl Fn(ChunkHandle) -> RepairOfChunk,
) -> Result<ListChunksAnswer, Failure> {
    let limit = wish.limit.clamp(1, TOLD_MAX) as usize;
    let mut answer = ListChunksAnswer::default();
    let mut top = None;
    if let Some(path) = &wish.under {
        let id = view.state.resolve(path)?;
        if view.state.entry(id).is_some_and(|entry| entry.kind == EntryKind::File) {
            let mut handles = chunks_behind(view, id, wish.after, limit + 1);
            let more = handles.len() > limit;
            handles.truncate(limit);
            answer.resume = handles.last().copied().filter(|_| more);
            let told = |handle| Some((handle, view.state.chunk(handle)?));
            let told = handles.into_iter().filter_map(told);
            let tell = |(handle, chunk)| {
                let path = FilePath { text: path.to_string(), unnamed: false };
                listed(view, path, (handle, &chunk), repair_of(handle))
            };
            answer.chunks = told.map(tell).collect();
            assert!(answer.chunks.len() <= limit, "a page fits a message");
            return Ok(answer);
        }
        top = Some(id);
    }
    let (state, sharing) = (view.state, view.state.sharing());
    let mut paths = FilePaths::new(state);
    for (number, (handle, chunk)) in view.state.chunks_after(wish.after).enumerate() {
        if number >= LOOKED_AT_MAX || answer.chunks.len() >= limit {
            return Ok(answer);
        }
        answer.resume = Some(handle);
        let live = || Some(sharing.live_file_of(handle, &chunk));
        let below = |top| sharing.file_within(handle, &chunk, top);
        if let Some(file) = top.map_or_else(live, below) {
            let whole =
                || FilePath { text: state.path_of(file).unwrap_or_default(), unnamed: false };
            let path = if limit == 1 { whole() } else { paths.of(file) };
            answer.chunks.push(listed(view, path, (handle, &chunk), repair_of(handle)));
        }
    }
    answer.resume = None;
    Ok(answer)
}

/// Some chunks of a file, those behind the one that was told of last: no page costs more for there
/// being others before it. Where that one is gone, the file is being purged.
fn chunks_behind(
    view: &View<'_>,
    file: EntryId,
    last: ChunkHandle,
    count: usize,
) -> Vec<ChunkHandle> {
    let first = if last == ChunkHandle::default() {
        Some(ChunkIndex::default())
    } else {
        // It may have got a chunk of its own there meanwhile.
        let has = |index| view.state.chunk_at(file, index).is_some();
        let last = view.state.chunk(last).filter(|chunk| has(chunk.index));
        last.map(|chunk| chunk.index.next())
    };
    let chunks = first.into_iter().flat_map(|first| view.state.chunks_of(file, first));
    chunks.take(count).map(|(_, handle)| handle).collect()
}

fn listed(
    view: &View<'_>,
    FilePath { text: path, unnamed }: FilePath,
    (handle, chunk): (ChunkHandle, &ChunkRecord),
    (clone, rests): RepairOfChunk,
) -> ListedChunk {
    let (now, servers) = (view.now.time, view.fleet.servers());
    let leased = view.leases.possible(handle, now).is_some();
    let up_to_date = current_by_bytes(view, handle, chunk);
    let behind = if leased { Vec::new() } else { told_behind(view, handle, &up_to_date) };
    let known = |at: &ServerId| up_to_date.iter().any(|(server, _)| server == at);
    let replica = |(server, replica): (ServerId, KnownReplica)| ListedReplica {
        server,
        version: replica.version,
        length: replica.length,
        state: servers.state(now, server).unwrap_or_default(),
        stale: !known(&server) || behind.contains(&server),
        suspect: replica.suspect,
        damaged: replica.damaged,
    };
    let missing = |(server, _): (ServerId, KnownReplica)| {
        let known = servers.get(server)?;
        let age = u64::try_from(now.since(known.heard).as_millis()).unwrap_or(u64::MAX);
        Some(MissingReplica { at: known.at.clone(), heard_age_ms: age })
    };
    let lost = view.fleet.locations().lost(handle);
    let lost = lost.filter(|(_, replica)| replica.is_current(chunk.version));
    let good = u32::try_from(good(view, handle, chunk).len()).expect("a cell has few servers");
    assert!(good as usize <= up_to_date.len(), "what is good is up to date");
    let waits =
        (good < chunk.goal && clone.is_none()).then(|| wait(view, (handle, chunk), good, rests));
    ListedChunk {
        handle,
        index: chunk.index,
        path,
        version: chunk.version,
        goal: chunk.goal,
        closed: chunk.closed,
        leased,
        good,
        replicas: view.fleet.locations().of(handle).take(REPLICAS_MAX).map(replica).collect(),
        missing: lost.take(MISSING_MAX).filter_map(missing).collect(),
        clone,
        waits,
        deleted: view.state.sharing().is_hidden(handle, chunk),
        unnamed,
        lost: view.state.lost().get(handle),
    }
}

/// What a chunk that lacks replicas, and of which no copy is made, waits for.
pub(super) fn wait(
    view: &View<'_>,
    (handle, chunk): (ChunkHandle, &ChunkRecord),
    good: u32,
    rests: Option<Duration>,
) -> ChunkWait {
    let holders = view.fleet.locations().of(handle).map(|(server, _)| server).collect();
    // A bad one that stands in the way is about to go.
    let free = is_room_beside(view, &holders) || needs(view, handle, chunk).surplus;
    let why = match (good, free, rests) {
        // DS6: of what there is no copy could join.
        _ if undecided(view, (handle, chunk)) == Undecided::LeftToPerson => WaitReason::NoSource,
        // The master makes suspects current by itself.
        (0, ..) if is_to_be_levelled(view, (handle, chunk)) => WaitReason::Turn,
        (0, ..) => WaitReason::NoSource,
        (_, false, _) => WaitReason::NoServer,
        (.., Some(_)) => WaitReason::Rest,
        (.., None) => WaitReason::Turn,
    };
    let left = rests.filter(|_| why == WaitReason::Rest).unwrap_or_default();
    ChunkWait { why, left_ms: u64::try_from(left.as_millis()).unwrap_or(u64::MAX) }
}
