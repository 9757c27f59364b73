//! A copy of a file within its cell that has the same chunks, and for which no byte is moved.
//!
//! U1 and U2 of an upload hold for it: nothing stands under the name before all of it is there, and
//! what stands there is replaced only where that was asked for.

use crate::partial_files::{PartialFiles, clean_up};
use crate::partial_name::cell_partial_name;
use crate::upload::{UploadError, UploadOptions};
use cairn_client::{Cell, Error, may_copy_bytes};
use cairn_protocol::ErrorCode;
use cairn_types::CellPath;
use std::convert::Infallible;
use std::slice;

/// What came of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SharedCopy {
    /// It is there, with so many bytes.
    Made(u64),
    /// It cannot be made so, and nothing has changed: its bytes can be copied.
    NotSo,
}

/// Copies the file `from` to `to`, where both can have the same chunks.
///
/// # Errors
/// As of an upload.
pub async fn copy_shared(
    cell: &Cell,
    (from, to): (&CellPath, &CellPath),
    options: &UploadOptions,
) -> Result<SharedCopy, UploadError<Infallible>> {
    let made = if options.replace {
        let partial = cell_partial_name(to)?;
        options.partials.note_in_cell(cell, slice::from_ref(&partial)).await;
        let made = through(cell, from, (&partial, to), &options.partials).await;
        options.partials.forget_in_cell([&partial]);
        made
    } else {
        length_of_copy(cell, from, to).await
    };
    match made {
        Ok(length) => Ok(SharedCopy::Made(length)),
        Err(refusal) if may_copy_bytes(&refusal) => Ok(SharedCopy::NotSo),
        Err(error) if !options.replace && error.code() == ErrorCode::AlreadyExists => {
            Err(UploadError::Taken)
        }
        Err(error) => Err(error.into()),
    }
}

async fn length_of_copy(cell: &Cell, from: &CellPath, to: &CellPath) -> Result<u64, Error> {
    Ok(cell.copy_file(from, to).await?.entry.length)
}

/// The copy by way of a partial name, which takes the place of what is there (U1).
async fn through(
    cell: &Cell,
    from: &CellPath,
    (partial, to): (&CellPath, &CellPath),
    partials: &PartialFiles,
) -> Result<u64, Error> {
    let length = length_of_copy(cell, from, partial).await?;
    if let Err(error) = cell.rename(partial, to, true).await {
        clean_up(cell, vec![partial.clone()], partials).await;
        return Err(error);
    }
    Ok(length)
}
