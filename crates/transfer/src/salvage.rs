//! What is left of a file some of whose blocks nobody has: zeros stand for the rest, and where they
//! do is told.
//!
//! - SV1: zeros are written for what the cell says it cannot give, and for nothing else: where no
//!   master answers, that is the failure.

use crate::byte_source::{PIECE_SIZE, Progress};
use crate::download::DownloadError;
use cairn_client::{Cell, Error, ErrorCode, File};
use std::ops::Range;

/// Hands what can be read of `file` to `sink`, as it is stored, and zeros for the rest; gives the
/// ranges of the file that these stand for.
///
/// # Errors
/// Where the cell does not answer, or the sink fails; the sink may have had some of it.
pub async fn salvage<E>(
    (cell, file): (&Cell, &File),
    sink: impl FnMut(&[u8]) -> Result<(), E> + Send,
    progress: &impl Progress,
) -> Result<Vec<Range<u64>>, DownloadError<E>> {
    let length = file.length().await?;
    let mut salvaged = Salvaged { at: 0, lost: Vec::new(), sink, progress };
    while salvaged.at < length {
        let size = (PIECE_SIZE as u64).min(length - salvaged.at);
        match file.read_at(salvaged.at, size).await {
            // It was cut short meanwhile.
            Ok(bytes) if bytes.is_empty() => break,
            Ok(bytes) => salvaged.give(&bytes)?,
            Err(error) => {
                check_asked(cell, error).await?;
                by_blocks((cell, file), salvaged.at + size, &mut salvaged).await?;
            }
        }
    }
    Ok(salvaged.lost)
}

/// The same up to `end`, block by block; where nobody has any of a chunk, as far as it reaches.
async fn by_blocks<E, S: FnMut(&[u8]) -> Result<(), E>, P: Progress>(
    (cell, file): (&Cell, &File),
    end: u64,
    salvaged: &mut Salvaged<'_, S, P>,
) -> Result<(), DownloadError<E>> {
    let config = &cell.info().config;
    let until = |size: u64, at: u64| ((at / size + 1) * size).min(end);
    while salvaged.at < end {
        let block_end = until(u64::from(config.block_size), salvaged.at);
        match file.read_at(salvaged.at, block_end - salvaged.at).await {
            Ok(bytes) if bytes.is_empty() => return Ok(()),
            Ok(bytes) => salvaged.give(&bytes)?,
            Err(error) => {
                let one_block = error.code() == ErrorCode::ChecksumMismatch;
                check_asked(cell, error).await?;
                let size =
                    if one_block { block_end } else { until(config.chunk_size, salvaged.at) };
                salvaged.give_zeros(size - salvaged.at)?;
            }
        }
    }
    Ok(())
}

/// SV1
async fn check_asked(cell: &Cell, error: Error) -> Result<(), Error> {
    if error.code() == ErrorCode::PermissionDenied || cell.settings().await.is_err() {
        return Err(error);
    }
    Ok(())
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
