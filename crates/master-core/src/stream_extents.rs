//! Where the bytes of streams are: told by the master in charge, and by one that is not.

use crate::rules::reading;
use crate::state::{EntryRecord, Extent};
use crate::view::View;
use cairn_protocol::{
    EXTENTS_CHUNKS_MAX, EXTENTS_MAX, ErrorCode, Failure, ReadExtents, ReadExtentsAnswer,
    StreamExtent,
};
use cairn_types::{ChunkHandle, ChunkIndex, EntryId, EntryKind, Layout};
use std::collections::{BTreeMap, BTreeSet};

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
    let mut indexes: BTreeSet<ChunkIndex> = BTreeSet::new();
    let mut found: Vec<Extent> = Vec::new();
    for extent in view.state.streams().extents_from(file, offset).take(limit) {
        if indexes.len() >= chunks && !indexes.contains(&extent.index) {
            break;
        }
        indexes.insert(extent.index);
        found.push(extent);
    }
    let handles = handles_at(view, (file, record), &indexes);
    let told = |extent: Extent| StreamExtent {
        offset: extent.offset(),
        size: extent.size,
        // None where its page cannot be read: nobody can read it then.
        handle: handles.get(&extent.index).copied().unwrap_or_default(),
        chunk_offset: extent.chunk_offset,
    };
    let extents = found.into_iter().map(told).collect();
    let known: Vec<ChunkHandle> = handles.values().copied().collect();
    let lost = known.iter().filter_map(|handle| view.state.lost().get(*handle)).collect();
    let located = reading::locations_each(view, &known);
    let located = located.into_iter().map(|it| reading::of_file(view, file, it));
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

/// The chunks at some indexes of a file.
fn handles_at(
    view: &View<'_>,
    (file, record): (EntryId, &EntryRecord),
    indexes: &BTreeSet<ChunkIndex>,
) -> BTreeMap<ChunkIndex, ChunkHandle> {
    let zero = ChunkIndex::default();
    let (first, last) = match (indexes.iter().find(|index| **index != zero), indexes.last()) {
        (Some(first), Some(last)) => (*first, *last),
        _ => (zero, zero),
    };
    // Where they are far apart, to look for each costs less than a walk.
    if last.get() - first.get() >= 2 * indexes.len() as u64 {
        let at = |index: &ChunkIndex| Some((*index, view.state.chunk_at(file, *index)?));
        return indexes.iter().filter_map(at).collect();
    }
    let walk = view.state.places(file, first).take_while(|(index, _)| *index <= last);
    let mut found: BTreeMap<ChunkIndex, ChunkHandle> =
        walk.filter(|(index, _)| indexes.contains(index)).collect();
    found.extend(record.first.filter(|_| indexes.contains(&zero)).map(|first| (zero, first)));
    found
}
