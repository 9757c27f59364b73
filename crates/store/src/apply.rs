//! Applying mutations in serial order: which are appended, which overwrite, in runs.
//!
//! - Everything that can be refused is refused before the first byte is written.
//! - After a write that failed half-way the chunk is torn: it is recovered before its next use.

use crate::append::AppendRun;
use crate::chunk::Chunk;
use crate::chunk_files::{ChunkDirectory, ChunkFiles};
use crate::mutation::{AcknowledgedMark, ReadyMutation};
use crate::overwrite::OverwriteRun;
use cairn_env::{ChunkError, DiskError};
use cairn_types::ChunkVersion;

/// Bytes that one redo entry may have, unless a single mutation has more.
const OVERWRITE_RUN_MAX: u64 = 8 << 20;

/// Mutations of one kind that follow each other: whether they overwrite, and how many they are.
fn first_run(mutations: &[ReadyMutation], length: u64) -> (bool, usize) {
    let overwrites = mutations.first().is_some_and(|mutation| mutation.overwrites(length));
    let (mut length, mut size) = (length, 0);
    let run = mutations.iter().take_while(|mutation| {
        let same = mutation.overwrites(length) == overwrites;
        let fits = !overwrites || size == 0 || size + mutation.size <= OVERWRITE_RUN_MAX;
        length = length.max(mutation.end());
        size += mutation.size;
        same && fits
    });
    (overwrites, run.count())
}

/// Applies mutations to a replica.
pub(crate) fn apply(
    chunk: &mut Chunk,
    chunks: &ChunkDirectory,
    version: ChunkVersion,
    mutations: &[ReadyMutation],
    acknowledged: AcknowledgedMark,
) -> Result<(), ChunkError> {
    let files = chunks.files(chunk.head.handle, true)?;
    chunk.settle_slots(chunks)?;
    let mut rest = mutations;
    while let Some(first) = rest.first() {
        let (overwrites, count) = first_run(rest, chunk.head.length);
        let (run, after) = rest.split_at(count);
        let serial = run.last().unwrap_or(first).serial;
        let mut head = chunk.next_head(version, serial);
        head.acknowledged = head.acknowledged.max(acknowledged.length);
        head.acknowledged_serial = head.acknowledged_serial.max(acknowledged.serial);
        if overwrites {
            let mut planned = OverwriteRun::new(head);
            let stored = chunk.head;
            run.iter().try_for_each(|mutation| planned.add(&stored, &files, mutation))?;
            half_way(chunk, |chunk| planned.write(chunk, &files, chunks))?;
        } else {
            let mut planned = AppendRun::new(head);
            run.iter().for_each(|mutation| planned.add(mutation));
            half_way(chunk, |chunk| planned.write(chunk, &files))?;
        }
        rest = after;
    }
    Ok(settle(chunk, &files, acknowledged)?)
}

/// Keeps what was acknowledged, if the head does not say so already.
pub(crate) fn settle(
    chunk: &mut Chunk,
    files: &ChunkFiles,
    acknowledged: AcknowledgedMark,
) -> Result<(), DiskError> {
    let head = chunk.head;
    if acknowledged.length <= head.acknowledged && acknowledged.serial <= head.acknowledged_serial {
        return Ok(());
    }
    let mut next = chunk.next_head(head.mutated_version, head.serial);
    next.acknowledged = head.acknowledged.max(acknowledged.length);
    next.acknowledged_serial = head.acknowledged_serial.max(acknowledged.serial);
    half_way(chunk, |chunk| chunk.write_head(files, next))
}

/// Does work that may fail half-way.
fn half_way(
    chunk: &mut Chunk,
    work: impl FnOnce(&mut Chunk) -> Result<(), DiskError>,
) -> Result<(), DiskError> {
    chunk.torn = true;
    work(chunk)?;
    chunk.torn = false;
    Ok(())
}
