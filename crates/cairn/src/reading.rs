//! Files of a cell, opened to be read: as `cat`, `get` and `tail` have it.
//!
//! A file of records is delivered record by record, each once, with a newline or a NUL after it;
//! a file of bytes, or any file with `--raw`, as it is stored.

use crate::cli_error::{Cause, CliError, Doing, warn};
use crate::exit_codes::Exit;
use crate::session::RemotePath;
use cairn_client::File;
use cairn_transfer::{DownloadError, Progress, RecordForm};
use cairn_types::{Content, EntryKind};
use clap::Args;
use std::ops::Range;

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

    /// How this file is delivered.
    pub(crate) fn form(self, file: &File) -> RecordForm {
        if file.entry().content == Content::Records && !self.raw {
            RecordForm::EndedBy(self.terminator())
        } else {
            RecordForm::Stored
        }
    }
}

/// Opens a file, and says so plainly where there is a directory.
///
/// # Errors
/// Where there is no such file.
pub(crate) async fn open(from: &RemotePath) -> Result<File, CliError> {
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
pub(crate) async fn deliver(
    from: &RemotePath,
    file: &File,
    flags: RecordFlags,
    sink: impl FnMut(&[u8]) -> Result<(), CliError> + Send,
    progress: &impl Progress,
) -> Result<(), CliError> {
    let done = cairn_transfer::download(file, flags.form(file), sink, progress).await;
    done.map_err(|error| match error {
        DownloadError::Cell(error) => CliError::new(format!("reading {from}"), error),
        DownloadError::Sink(error) => error,
    })?;
    warn_of_doubts(from, file);
    Ok(())
}

/// The same; where `salvages` holds, what can be read of it alone, as it is stored. Gives the
/// ranges of which nobody has anything: zeros stand for them.
///
/// # Errors
/// As above; and of a file of records that is not wanted as it is stored.
pub(crate) async fn deliver_or_salvage(
    from: &RemotePath,
    file: &File,
    (flags, salvages): (RecordFlags, bool),
    sink: impl FnMut(&[u8]) -> Result<(), CliError> + Send,
    progress: &impl Progress,
) -> Result<Vec<Range<u64>>, CliError> {
    if !salvages {
        deliver(from, file, flags, sink, progress).await?;
        return Ok(Vec::new());
    }
    let doing = || format!("salvaging {from}");
    if flags.form(file) != RecordForm::Stored {
        let why = "it is a file of records, and zeros are none";
        return Err(CliError::usage(doing(), why, "--raw salvages its bytes as they are stored"));
    }
    let done = cairn_transfer::salvage((&from.cell, &from.path, file), sink, progress).await;
    let lost = done.map_err(|error| match error {
        DownloadError::Cell(error) => CliError::new(doing(), error),
        DownloadError::Sink(error) => error,
    })?;
    warn_of_doubts(from, file);
    Ok(lost)
}

/// Tells, on standard error, where zeros stand for what nobody has any more.
///
/// # Errors
/// Where there is such a range: what was delivered is not all.
pub(crate) fn tell_lost(from: &RemotePath, lost: &[Range<u64>]) -> Result<(), CliError> {
    for Range { start, end } in lost {
        warn(&format!("{from}: zeros stand for bytes {start} to {end}: no server can give them"));
    }
    if lost.is_empty() { Ok(()) } else { Err(CliError::told(Exit::Damaged)) }
}

/// Tells, on standard error, that bytes of `from` came from a replica that may have lost some
/// (R28), or are lost and were passed over (R41).
pub(crate) fn warn_of_doubts(from: &RemotePath, file: &File) {
    if file.is_doubted() {
        warn(&format!(
            "reading {from}: a replica answered that may have lost bytes in a power failure, \
             because no better one was there; 'cairn explain' tells more"
        ));
    }
    let holes = file.holes_read();
    if let Some((offset, _)) = holes.ranges().next() {
        let bytes = holes.bytes();
        warn(&format!(
            "reading {from}: passed over {bytes} bytes that are lost, from offset {offset} on; \
             'cairn fsck {}' tells all of it",
            from.path
        ));
    }
}
