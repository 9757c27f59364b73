//! One file of a cell into a stream of bytes.
//!
//! A file of records is delivered record by record, each once, with a newline or a NUL after it;
//! a file of bytes, or any file with `--raw`, as it is stored.

use crate::cli_error::{Cause, CliError, Doing};
use crate::exit_codes::Exit;
use crate::progress::Progress;
use crate::session::Place;
use cairn_client::File;
use cairn_types::{Content, EntryKind};
use clap::Args;

/// How records are written out.
#[derive(Args, Clone, Copy, Debug, Default)]
pub(crate) struct RecordFlags {
    /// A NUL after each record instead of a newline
    #[arg(long)]
    pub(crate) null: bool,
    /// A file of records as its bytes are stored
    #[arg(long, conflicts_with = "null")]
    pub(crate) raw: bool,
}

impl RecordFlags {
    /// What stands after each record.
    pub(crate) fn terminator(self) -> u8 {
        if self.null { 0 } else { b'\n' }
    }

    /// Whether this file is delivered record by record.
    pub(crate) fn by_record(self, file: &File) -> bool {
        file.entry().content == Content::Records && !self.raw
    }
}

/// Opens a file, and says so plainly where there is a directory.
///
/// # Errors
/// Where there is no such file.
pub(crate) async fn open(from: &Place) -> Result<File, CliError> {
    let doing = || format!("opening {from}");
    let file = from.cell.open(&from.path).await.doing(doing)?;
    if file.entry().kind == EntryKind::Directory {
        let cause = Cause::new(Exit::WrongKind, "it is a directory", "name a file in it");
        return Err(CliError::new(doing(), cause));
    }
    Ok(file)
}

/// Hands all of `from` to `sink`.
///
/// # Errors
/// Where reading or the sink fails; the sink may have had some of it.
pub(crate) async fn download(
    from: &Place,
    file: &File,
    flags: RecordFlags,
    mut sink: impl FnMut(&[u8]) -> Result<(), CliError> + Send,
    progress: &Progress,
) -> Result<(), CliError> {
    let doing = || format!("reading {from}");
    if flags.by_record(file) {
        let mut records = file.records(0);
        let mut line = Vec::new();
        while let Some(record) = records.next().await.doing(doing)? {
            line.clear();
            line.extend_from_slice(&record.payload);
            line.push(flags.terminator());
            sink(&line)?;
            progress.add(line.len() as u64);
        }
    } else {
        let mut reader = file.reader(0);
        while let Some(piece) = reader.next().await.doing(doing)? {
            sink(&piece)?;
            progress.add(piece.len() as u64);
        }
    }
    warn_of_doubts(from, file);
    Ok(())
}

/// Tells, on standard error, that bytes of `from` came from a replica that may have lost some
/// (R28).
pub(crate) fn warn_of_doubts(from: &Place, file: &File) {
    if file.is_doubted() {
        eprintln!(
            "cairn: warning: reading {from}: a replica answered that may have lost bytes in a \
             power failure, because no better one was there; `cairn explain` tells more"
        );
    }
}
