//! One stream of bytes into one file of a cell.
//!
//! - U1: the bytes go to a partial name beside the target and take the target's name only when all
//!   of them are there: a broken upload leaves nothing under the name.
//! - U2: an existing file is replaced only where that was asked for.

use crate::byte_source::{ByteSource, Progress};
use crate::partial_files::{PartialFiles, clean_up};
use crate::partial_name::cell_partial_name;
use cairn_client::{Cell, CreateOptions, Error, File, Layout};
use cairn_protocol::ErrorCode;
use cairn_types::{CellPath, PathError};
use std::slice;
use std::sync::Arc;

/// How a file is to be made.
#[derive(Clone, Debug, Default)]
pub struct UploadOptions {
    /// Take the place of a file that is there.
    pub replace: bool,
    /// Where files are noted that are not whole yet.
    pub partials: Arc<PartialFiles>,
    /// Everything else.
    pub create: CreateOptions,
}

impl UploadOptions {
    /// As files are made that bytes are written to, also where a directory's are streams.
    pub(crate) fn to_write(&self) -> CreateOptions {
        CreateOptions { layout: Some(Layout::Chunks), ..self.create }
    }
}

/// Why a file was not stored; `E` is why its source could not be read.
#[derive(Clone, Debug, thiserror::Error)]
pub enum UploadError<E> {
    /// The source failed.
    #[error("{0}")]
    Source(E),
    /// Something stands there, and was not to be replaced (U2).
    #[error("it is there already")]
    Taken,
    /// There is no room for a partial name beside the target.
    #[error(transparent)]
    Name(#[from] PathError),
    /// The cell refused, or did not answer.
    #[error(transparent)]
    Cell(#[from] Error),
}

/// Stores all of `source` as the file `to`; how many bytes that were.
///
/// # Errors
/// Then nothing stands under the name that did not stand there before, unless the last step's
/// outcome is unknown.
pub async fn upload<S: ByteSource>(
    source: &mut S,
    cell: &Cell,
    to: &CellPath,
    options: &UploadOptions,
    progress: &impl Progress,
) -> Result<u64, UploadError<S::Error>> {
    if !options.replace {
        must_be_free(cell.stat(to).await)?;
    }
    let partial = cell_partial_name(to)?;
    options.partials.note_in_cell(cell, slice::from_ref(&partial)).await;
    let done = through(source, cell, &partial, to, options, progress).await;
    options.partials.forget_in_cell([&partial]);
    done
}

/// The upload by way of its partial name (U1).
async fn through<S: ByteSource>(
    source: &mut S,
    cell: &Cell,
    partial: &CellPath,
    to: &CellPath,
    options: &UploadOptions,
    progress: &impl Progress,
) -> Result<u64, UploadError<S::Error>> {
    let file = cell.create(partial, options.to_write()).await?;
    let mut done = fill(source, &file, progress).await;
    if done.is_ok()
        && let Err(error) = cell.rename(partial, to, options.replace).await
    {
        done = Err(error.into());
    }
    if done.is_err() {
        clean_up(cell, vec![partial.clone()], &options.partials).await;
    }
    done
}

/// What is seen at a target must be that nothing is there (U2).
pub(crate) fn must_be_free<T, E>(seen: Result<T, Error>) -> Result<(), UploadError<E>> {
    match seen {
        Ok(_) => Err(UploadError::Taken),
        Err(error) if error.code() == ErrorCode::NotFound => Ok(()),
        Err(error) => Err(error.into()),
    }
}

/// Writes all of `source` into `file` and closes it; how many bytes that were.
pub(crate) async fn fill<S: ByteSource>(
    source: &mut S,
    file: &File,
    progress: &impl Progress,
) -> Result<u64, UploadError<S::Error>> {
    let mut writer = file.writer(0);
    while let Some(piece) = source.next().await.map_err(UploadError::Source)? {
        let size = piece.len() as u64;
        writer.write(piece).await?;
        progress.add(size);
    }
    let size = writer.finish().await?;
    file.close().await?;
    Ok(size)
}
