//! What is asked about streams and answered at once.

use crate::reads::page_size;
use crate::state::ProducerRecord;
use crate::stream_extents::stream;
use crate::view::View;
use cairn_protocol::{
    EndedEpoch, ErrorCode, Failure, ListProducers, ListProducersAnswer, ProducerStatus,
};
use cairn_types::{EntryId, Epoch, ProducerId};

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
        ended: producer.ended.iter().map(|&(epoch, number)| EndedEpoch { epoch, number }).collect(),
    })
}
