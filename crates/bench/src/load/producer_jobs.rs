//! Jobs of producers of one stream, and of those who follow it.

use super::caller::CallerId;
use super::tally::LoadTally;
use cairn_client::{Cell, CreateOptions, Error, Producer, ProducerOptions, Stream};
use cairn_types::{CellPath, Content, Layout};
use std::time::{Duration, SystemTime, UNIX_EPOCH};
use tokio::time::{Instant, timeout_at};

/// What a record holds that tells when it was appended.
const STAMP_SIZE: usize = 8;
/// A follower whose stream stands still for so long has seen all.
const STILL: Duration = Duration::from_secs(3);

/// The stream of all callers, beside `place`.
pub(super) fn stream_path(place: &CellPath) -> CellPath {
    let path = place.parent().and_then(|parent| parent.join("stream").ok());
    path.expect("a caller's place lies in a root")
}

/// It, made where it is not there.
pub(super) async fn make_stream(cell: &Cell, place: &CellPath) -> Result<Stream, Error> {
    let parent = place.parent().expect("a caller's place lies in a root");
    cell.make_directory(&parent, true).await?;
    let path = stream_path(place);
    let (content, layout) = (Content::Records, Some(Layout::Stream));
    cell.create(&path, CreateOptions { content, layout, or_open: true, ..Default::default() })
        .await?;
    cell.open_stream(&path).await
}

/// The caller's producer, by its own name.
pub(super) async fn open(cell: &Cell, place: &CellPath) -> Result<Producer, Error> {
    make_stream(cell, place).await?;
    let name = place.name().expect("a caller's place has a name");
    cell.open_producer(&stream_path(place), name, ProducerOptions::default()).await
}

pub(super) async fn produce(
    producer: Producer,
    operations: u64,
    size: u64,
) -> Result<LoadTally, Error> {
    let record = vec![0xa5; usize::try_from(size).unwrap_or(usize::MAX)];
    for _ in 0..operations {
        drop(producer.enqueue(&record).await?);
    }
    producer.flush().await?;
    Ok(LoadTally { operations, bytes: operations * size, ..LoadTally::default() })
}

pub(super) async fn produce_awaited(
    producer: Producer,
    operations: u64,
    size: u64,
) -> Result<LoadTally, Error> {
    let record = vec![0xa5; usize::try_from(size).unwrap_or(usize::MAX)];
    let mut tally = LoadTally::default();
    for _ in 0..operations {
        tally.timed(producer.append(&record)).await?;
    }
    tally.bytes = operations * size;
    Ok(tally)
}

/// When the `nth` operation of a caller is due, so that those of all are spread evenly.
pub(super) fn due(begun: Instant, nth: u64, a_second: f64, id: CallerId) -> Instant {
    let phase = id.number as f64 / id.of as f64;
    begun + Duration::from_secs_f64((nth as f64 + phase) / a_second)
}

fn wall_nanos() -> u64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    u64::try_from(since.as_nanos()).unwrap_or(u64::MAX)
}

pub(super) async fn produce_paced(
    producer: Producer,
    (seconds, a_second): (u64, f64),
    size: u64,
    id: CallerId,
) -> Result<LoadTally, Error> {
    let size = usize::try_from(size).unwrap_or(usize::MAX).max(STAMP_SIZE);
    let mut record = vec![0xa5; size];
    let begun = Instant::now();
    let mut tally = LoadTally::default();
    for nth in 0..(seconds as f64 * a_second) as u64 {
        tokio::time::sleep_until(due(begun, nth, a_second, id)).await;
        record[..STAMP_SIZE].copy_from_slice(&wall_nanos().to_le_bytes());
        tally.timed(producer.append(&record)).await?;
    }
    tally.bytes = tally.operations * size as u64;
    Ok(tally)
}

/// Each record's time from its append to here.
pub(super) async fn follow(
    cell: &Cell,
    place: &CellPath,
    seconds: u64,
) -> Result<LoadTally, Error> {
    let stream = cell.open_stream(&stream_path(place)).await?;
    let mut records = stream.records_follow(0);
    let mut tally = LoadTally::default();
    let end = Instant::now() + Duration::from_secs(seconds) + STILL;
    while let Ok(next) = timeout_at(end, records.next()).await {
        let Some(record) = next? else { break };
        let Some(stamp) = record.payload.first_chunk::<STAMP_SIZE>() else { continue };
        let took = wall_nanos().saturating_sub(u64::from_le_bytes(*stamp));
        tally.latencies.push(Duration::from_nanos(took));
        tally.operations += 1;
    }
    Ok(tally)
}
