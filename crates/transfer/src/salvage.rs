//! What is left of a file some of whose blocks nobody has: zeros stand for the rest, and where they
//! do is told.
//!
//! - SV1: zeros stand for blocks that match their checksums nowhere, for what a stream has
//!   lost, and for the rest of a chunk of which the master knows no replica; for nothing else. A
//!   server that does not answer, or is late, is a failure: it has the bytes.
//! - SV2: what cannot be read at once is read in pieces that no border parts: blocks are of chunks,
//!   and of a stream each extent begins anywhere in its chunk's.

use crate::byte_source::{PIECE_SIZE, Progress};
use crate::download::DownloadError;
use cairn_client::{Cell, Error, ErrorCode, File, Layout};
use cairn_protocol::{Open, ReadExtents};
use cairn_types::{CellPath, ChunkIndex};
use std::collections::BTreeSet;
use std::iter::successors;
use std::ops::Range;

/// Extents asked for at once.
const EXTENTS_AT_ONCE: u32 = 1000;

/// Hands what can be read of `file`, which is at that path, to `sink`, as it is stored, and zeros
/// for the rest; gives the ranges of the file that these stand for.
///
/// # Errors
/// Where a server that may have some of it does not give it, or the sink fails; the sink may have
/// had some of it.
pub async fn salvage<E>(
    of: (&Cell, &CellPath, &File),
    sink: impl FnMut(&[u8]) -> Result<(), E> + Send,
    progress: &impl Progress,
) -> Result<Vec<Range<u64>>, DownloadError<E>> {
    let (.., file) = of;
    let length = file.length().await?;
    let mut salvaged = Salvaged { at: 0, lost: Vec::new(), sink, progress };
    while salvaged.at < length {
        let size = (PIECE_SIZE as u64).min(length - salvaged.at);
        match file.read_at(salvaged.at, size).await {
            // It was cut short meanwhile.
            Ok(bytes) if bytes.is_empty() => break,
            Ok(bytes) => salvaged.give(&bytes)?,
            Err(_) => by_blocks(of, (salvaged.at + size, length), &mut salvaged).await?,
        }
    }
    Ok(salvaged.lost)
}

/// Where from `at` to `end` one block of a chunk follows another, or a stream's lost bytes begin.
async fn borders(cell: &Cell, file: &File, at: u64, end: u64) -> Result<BTreeSet<u64>, Error> {
    let block = u64::from(cell.info().config.block_size);
    // The first behind `from`, where that stands so far within its chunk.
    let next = |from: u64, in_chunk: u64| from + block - in_chunk % block;
    let mut borders = BTreeSet::from([end]);
    if file.entry().layout != Layout::Stream {
        // Chunks are whole blocks long.
        let all = successors(Some(next(at, at)), |from| Some(from + block));
        borders.extend(all.take_while(|border| *border < end));
        return Ok(borders);
    }
    let (mut offset, is_within) = (at, |border: &u64| (at + 1..end).contains(border));
    while offset < end {
        let (file, limit) = (file.entry().id, EXTENTS_AT_ONCE);
        let page = cell.ask(ReadExtents { file, offset, limit, ..ReadExtents::default() }).await?;
        let Some(last) = page.extents.last() else { break };
        offset = last.offset.saturating_add(last.size);
        for extent in &page.extents {
            let extent_end = extent.offset.saturating_add(extent.size);
            let first = next(extent.offset, extent.chunk_offset);
            let blocks = successors(Some(first), |from| Some(from + block));
            borders.extend(blocks.take_while(|it| *it < extent_end.min(end)).filter(is_within));
            let tail = page.lost.iter().find(|tail| tail.handle == extent.handle);
            let lost = tail.map_or(0, |tail| tail.lost_of(extent.chunk_offset, extent.size));
            borders.extend([extent_end - lost, extent_end].into_iter().filter(is_within));
        }
    }
    Ok(borders)
}

/// The same up to `end`, block by block, of a file that is so long.
async fn by_blocks<E, S: FnMut(&[u8]) -> Result<(), E>, P: Progress>(
    of: (&Cell, &CellPath, &File),
    (end, length): (u64, u64),
    salvaged: &mut Salvaged<'_, S, P>,
) -> Result<(), DownloadError<E>> {
    let (cell, _, file) = of;
    for border in borders(cell, file, salvaged.at, end).await? {
        // Fewer bytes may come than were asked for; and a lost chunk has many borders.
        while salvaged.at < border {
            match file.read_at(salvaged.at, border - salvaged.at).await {
                Ok(bytes) if bytes.is_empty() => return Ok(()),
                Ok(bytes) => salvaged.give(&bytes)?,
                Err(error) => {
                    let lost_to = match error.code() {
                        ErrorCode::ChecksumMismatch | ErrorCode::LostBytes => border,
                        _ => end_of_lost_chunk(of, salvaged.at, error).await?.min(length),
                    };
                    salvaged.give_zeros(lost_to - salvaged.at)?;
                }
            }
        }
    }
    Ok(())
}

/// The end of the chunk at that offset, if the master knows no replica of it (SV1); else the
/// failure.
async fn end_of_lost_chunk(
    (cell, path, file): (&Cell, &CellPath, &File),
    offset: u64,
    error: Error,
) -> Result<u64, Error> {
    // Where a stream's bytes lie is not known from their offset.
    if file.entry().layout == Layout::Stream {
        return Err(error);
    }
    let size = cell.info().config.chunk_size;
    let first = ChunkIndex::new(offset / size);
    let open = Open { path: path.clone(), first, count: 1, ..Open::default() };
    let Ok(answer) = cell.ask(open).await else { return Err(error) };
    let chunk = answer.chunks.first().filter(|chunk| chunk.index == first);
    let is_lost = chunk.is_some_and(|chunk| chunk.replicas.is_empty());
    if is_lost { Ok((offset / size + 1) * size) } else { Err(error) }
}

/// How far it is.
struct Salvaged<'a, S, P> {
    at: u64,
    lost: Vec<Range<u64>>,
    sink: S,
    progress: &'a P,
}

impl<E, S: FnMut(&[u8]) -> Result<(), E>, P: Progress> Salvaged<'_, S, P> {
    fn give(&mut self, bytes: &[u8]) -> Result<(), DownloadError<E>> {
        (self.sink)(bytes).map_err(DownloadError::Sink)?;
        self.progress.add(bytes.len() as u64);
        self.at += bytes.len() as u64;
        Ok(())
    }

    fn give_zeros(&mut self, size: u64) -> Result<(), DownloadError<E>> {
        let (begin, end) = (self.at, self.at + size);
        let zeros = vec![0; PIECE_SIZE];
        while self.at < end {
            let piece = (end - self.at).min(PIECE_SIZE as u64);
            self.give(&zeros[..usize::try_from(piece).expect("a piece")])?;
        }
        match self.lost.last_mut().filter(|last| last.end == begin) {
            Some(last) => last.end = end,
            None => self.lost.push(begin..end),
        }
        Ok(())
    }
}
