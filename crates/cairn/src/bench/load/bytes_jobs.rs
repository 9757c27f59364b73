//! Jobs that move bytes: streams written and read, records appended.

use super::Done;
use bytes::Bytes;
use cairn_client::{Cell, CreateOptions, Error};
use cairn_types::{CellPath, Content};

const PIECE_SIZE: u64 = 1 << 20;

pub(super) async fn write(cell: &Cell, path: &CellPath, megabytes: u64) -> Result<Done, Error> {
    let file = cell.create(path, CreateOptions::default()).await?;
    let piece = Bytes::from(vec![0xa5; PIECE_SIZE as usize]);
    let mut writer = file.writer(0);
    let mut done = Done::default();
    for _ in 0..megabytes {
        done.timed(writer.write(piece.clone())).await?;
    }
    writer.finish().await?;
    done.bytes = megabytes * PIECE_SIZE;
    Ok(done)
}

pub(super) async fn read(cell: &Cell, path: &CellPath) -> Result<Done, Error> {
    let file = cell.open(path).await?;
    let mut reader = file.reader(0);
    let mut done = Done::default();
    while let Some(piece) = done.timed(reader.next()).await? {
        done.bytes += piece.len() as u64;
    }
    Ok(done)
}

/// All callers append to the file `records` beside `path`, each under its own name.
pub(super) async fn append(
    cell: &Cell,
    path: &CellPath,
    operations: u64,
    size: usize,
) -> Result<Done, Error> {
    let create = CreateOptions { content: Content::Records, or_open: true, ..Default::default() };
    let records = path.parent().and_then(|parent| parent.join("records").ok()).unwrap_or_default();
    let file = cell.create(&records, create).await?;
    let writer = file.record_writer(path.name().unwrap_or_default());
    let record = vec![0xa5; size];
    let mut done = Done::default();
    for _ in 0..operations {
        done.timed(writer.append(&record)).await?;
    }
    done.bytes = operations * size as u64;
    Ok(done)
}
