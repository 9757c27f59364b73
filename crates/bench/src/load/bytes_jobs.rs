//! Jobs that move bytes: streams written and read, records appended.

use super::tally::LoadTally;
use bytes::Bytes;
use cairn_client::{Cell, CreateOptions, Error};
use cairn_types::{CellPath, Content};

const PIECE_SIZE: u64 = 1 << 20;

pub(super) async fn write(
    cell: &Cell,
    path: &CellPath,
    megabytes: u64,
) -> Result<LoadTally, Error> {
    let file = cell.create(path, CreateOptions::default()).await?;
    let piece = Bytes::from(vec![0xa5; PIECE_SIZE as usize]);
    let mut writer = file.writer(0);
    let mut tally = LoadTally::default();
    for _ in 0..megabytes {
        tally.timed(writer.write(piece.clone())).await?;
    }
    writer.finish().await?;
    tally.bytes = megabytes * PIECE_SIZE;
    Ok(tally)
}

pub(super) async fn read(cell: &Cell, path: &CellPath) -> Result<LoadTally, Error> {
    let file = cell.open(path).await?;
    let mut reader = file.reader(0);
    let mut tally = LoadTally::default();
    while let Some(piece) = tally.timed(reader.next()).await? {
        tally.bytes += piece.len() as u64;
    }
    Ok(tally)
}

/// All callers append to the file `records` beside `path`, each under its own name, `batch` records
/// at once.
pub(super) async fn append(
    cell: &Cell,
    path: &CellPath,
    (operations, batch): (u64, u64),
    size: u64,
) -> Result<LoadTally, Error> {
    let create = CreateOptions { content: Content::Records, or_open: true, ..Default::default() };
    let records = path.parent().and_then(|parent| parent.join("records").ok());
    let records = records.expect("a caller's place lies in a root");
    let file = cell.create(&records, create).await?;
    let writer = file.record_writer(path.name().expect("a caller's place has a name"));
    let record = vec![0xa5; usize::try_from(size).unwrap_or(usize::MAX)];
    let mut tally = LoadTally::default();
    let mut left = operations;
    while left > 0 {
        let count = left.min(batch);
        if count == 1 {
            tally.timed(writer.append(&record)).await?;
        } else {
            let together = vec![record.as_slice(); usize::try_from(count).unwrap_or(1)];
            tally.timed(writer.append_all(&together)).await?;
        }
        left -= count;
    }
    tally.operations = operations;
    tally.bytes = operations * size;
    Ok(tally)
}
