//! Where the bytes of streams are: told by the master in charge, and by one that is not.

use crate::rules::reading;
use crate::state::EntryRecord;
use crate::view::View;
use cairn_protocol::{
    EXTENTS_CHUNKS_MAX, EXTENTS_MAX, ErrorCode, Failure, ReadExtents, ReadExtentsAnswer,
    StreamExtent,
};
use cairn_types::{ChunkHandle, EntryId, EntryKind, Layout};
use std::collections::BTreeMap;

/// A stream, hidden or not.
pub(crate) fn stream(view: &View<'_>, file: EntryId) -> Result<EntryRecord, Failure> {
    let entry = view.state.entry(file).filter(|entry| entry.kind == EntryKind::File);
    let entry = entry.ok_or_else(|| {
        let line = format!("file {}: no such file", file.short());
        Failure::refused(ErrorCode::NotFound, line)
    })?;
    if entry.layout != Layout::Stream {
        let line = format!("file {}: it is not a stream", file.short());
        return Err(Failure::refused(ErrorCode::Invalid, line));
    }
    Ok(entry)
}

/// Where a stream's bytes are, from an offset on.
pub(crate) fn extents(view: &View<'_>, wish: &ReadExtents) -> Result<ReadExtentsAnswer, Failure> {
    let limit = match usize::try_from(wish.limit).unwrap_or(usize::MAX) {
        0 => EXTENTS_MAX,
        limit => limit.min(EXTENTS_MAX),
    };
    let record = stream(view, wish.file)?;
    let wanted = WantedExtents { offset: wish.offset, limit, chunks: EXTENTS_CHUNKS_MAX };
    Ok(extents_of(view, (wish.file, &record), wanted))
}

/// Which extents are told.
#[derive(Clone, Copy, Debug)]
pub(crate) struct WantedExtents {
    /// From this byte of the file on.
    pub(crate) offset: u64,
    /// So many at most.
    pub(crate) limit: usize,
    /// Of so many chunks at most.
    pub(crate) chunks: usize,
}

/// The same of a stream that was found.
pub(crate) fn extents_of(
    view: &View<'_>,
    (file, record): (EntryId, &EntryRecord),
    wanted: WantedExtents,
) -> ReadExtentsAnswer {
    let WantedExtents { offset, limit, chunks } = wanted;
    assert!(limit > 0 && chunks > 0, "an answer tells something");
    let mut handles: BTreeMap<u64, Option<ChunkHandle>> = BTreeMap::new();
    let mut extents = Vec::new();
    for extent in view.state.streams().extents_from(file, offset).take(limit) {
        let index = extent.index.get();
        if !handles.contains_key(&index) && handles.len() >= chunks {
            break;
        }
        let at = || view.state.chunk_at(file, extent.index);
        let handle = handles.entry(index).or_insert_with(at);
        extents.push(StreamExtent {
            offset: extent.offset(),
            size: extent.size,
            // None where its page cannot be read: nobody can read it then.
            handle: handle.unwrap_or_default(),
            chunk_offset: extent.chunk_offset,
        });
    }
    let known: Vec<ChunkHandle> = handles.into_values().flatten().collect();
    let lost = known.iter().filter_map(|handle| view.state.lost().get(*handle)).collect();
    let located =
        known.into_iter().map(|it| reading::of_file(view, file, reading::locations(view, it)));
    let entry = view.state.described((file, record), "");
    let (log, replaced) = (view.state.applied(), view.state.streams().replaced(file));
    let (entry, chunks) = (entry.into(), located.collect());
    let told = view.state.streams().settled();
    ReadExtentsAnswer {
        entry,
        extents,
        chunks,
        log,
        settled: told.settled_to(file),
        settles: told.is_pending(file) && view.state.config().settle_rate > 0,
        replaced,
        lost,
    }
}
