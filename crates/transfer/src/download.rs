//! One file of a cell into a stream of bytes.

use crate::byte_source::Progress;
use cairn_client::{Error, File};

/// How a file is delivered.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RecordForm {
    /// As it is stored.
    Stored,
    /// Record by record, each once, with this byte after it.
    EndedBy(u8),
}

/// Why a file was not delivered whole; `E` is why nobody took it.
#[derive(Clone, Debug, thiserror::Error)]
pub enum DownloadError<E> {
    /// The cell did not give it.
    #[error(transparent)]
    Cell(#[from] Error),
    /// The sink failed.
    #[error("{0}")]
    Sink(E),
}

/// Hands all of `file` to `sink`.
///
/// # Errors
/// Where reading or the sink fails; the sink may have had some of it.
pub async fn download<E>(
    file: &File,
    form: RecordForm,
    mut sink: impl FnMut(&[u8]) -> Result<(), E> + Send,
    progress: &impl Progress,
) -> Result<(), DownloadError<E>> {
    let mut take = |bytes: &[u8]| {
        sink(bytes).map_err(DownloadError::Sink)?;
        progress.add(bytes.len() as u64);
        Ok::<(), DownloadError<E>>(())
    };
    match form {
        RecordForm::Stored => {
            let mut reader = file.reader(0);
            while let Some(piece) = reader.next().await? {
                take(&piece)?;
            }
        }
        RecordForm::EndedBy(terminator) => {
            let mut records = file.records(0);
            let mut line = Vec::new();
            while let Some(record) = records.next().await? {
                line.clear();
                line.extend_from_slice(&record.payload);
                line.push(terminator);
                take(&line)?;
            }
        }
    }
    Ok(())
}
