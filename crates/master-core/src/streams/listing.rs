//! What is asked about streams and answered at once.

use crate::reads::page_size;
use crate::rules::reading;
use crate::state::{EntryRecord, ProducerRecord};
use crate::view::View;
use cairn_protocol::{
    EXTENTS_MAX, ErrorCode, Failure, ListProducers, ListProducersAnswer, ProducerStatus,
    ReadExtents, ReadExtentsAnswer, StreamExtent,
};
use cairn_types::{ChunkHandle, EntryId, EntryKind, Epoch, Layout, ProducerId};
use std::collections::BTreeMap;

/// Chunks that one answer tells the places of.
const CHUNKS_MAX: usize = 256;

/// A stream, hidden or not.
pub(super) fn stream(view: &View<'_>, file: EntryId) -> Result<EntryRecord, Failure> {
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

/// A producer in this epoch, which must be its newest and not be over.
pub(super) fn producer(
    view: &View<'_>,
    (file, id, epoch): (EntryId, ProducerId, Epoch),
) -> Result<ProducerRecord, Failure> {
    stream(view, file)?;
    let producer = view.state.streams().producer(file, id).ok_or_else(|| {
        let line = format!("producer {}: no such producer of this stream", id.short());
        Failure::refused(ErrorCode::NotFound, line)
    })?;
    if producer.epoch != epoch || producer.closed {
        let line = format!("producer {}: epoch {} is over", id.short(), epoch.short());
        return Err(Failure::refused(ErrorCode::ProducerFenced, line));
    }
    Ok(producer)
}

/// Producers by name.
pub(super) fn producers(
    view: &View<'_>,
    wish: &ListProducers,
) -> Result<ListProducersAnswer, Failure> {
    stream(view, wish.file)?;
    let (file, streams) = (wish.file, view.state.streams());
    if !wish.only.is_empty() {
        let id = streams.named(file, &wish.only);
        let status = id.and_then(|id| status(view, file, (wish.only.clone(), id)));
        let producers = status.into_iter().collect();
        return Ok(ListProducersAnswer { producers, more: false });
    }
    let limit = page_size(wish.limit);
    let mut named = streams.producers_after(file, &wish.after);
    let some = named.by_ref().take(limit);
    let producers = some.filter_map(|named| status(view, file, named)).collect();
    Ok(ListProducersAnswer { producers, more: named.next().is_some() })
}

fn status(
    view: &View<'_>,
    file: EntryId,
    (name, id): (String, ProducerId),
) -> Option<ProducerStatus> {
    let producer = view.state.streams().producer(file, id)?;
    Some(ProducerStatus {
        name,
        producer: id,
        epoch: producer.epoch,
        number: producer.number,
        cursor: view.state.streams().cursor(file, id),
        changed: producer.changed,
        open_chunks: u32::try_from(producer.chunks.len()).unwrap_or(u32::MAX),
        closed: producer.closed,
    })
}

/// Where a stream's bytes are, from an offset on.
pub(super) fn extents(view: &View<'_>, wish: &ReadExtents) -> Result<ReadExtentsAnswer, Failure> {
    let record = stream(view, wish.file)?;
    let file = wish.file;
    let limit = match usize::try_from(wish.limit).unwrap_or(usize::MAX) {
        0 => EXTENTS_MAX,
        limit => limit.min(EXTENTS_MAX),
    };
    assert!(limit > 0, "an answer tells something");
    let mut handles: BTreeMap<u64, Option<ChunkHandle>> = BTreeMap::new();
    let mut extents = Vec::new();
    for extent in view.state.streams().extents_from(file, wish.offset).take(limit) {
        let index = extent.index.get();
        if !handles.contains_key(&index) && handles.len() >= CHUNKS_MAX {
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
    let known = handles.into_values().flatten();
    let located = known.map(|it| reading::of_file(view, file, reading::locations(view, it)));
    let entry = view.state.described((file, &record), "");
    let told = view.state.streams().settled();
    Ok(ReadExtentsAnswer {
        entry,
        extents,
        chunks: located.collect(),
        log: view.state.applied(),
        settled: told.settled_to(file),
        settles: told.is_pending(file) && view.state.config().settle_rate > 0,
    })
}
