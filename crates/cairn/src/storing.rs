//! What became of uploads, as people and programs are told.

use crate::cli_error::{Cause, CliError, warn};
use crate::exit_codes::Exit;
use crate::output::Output;
use crate::session::RemotePath;
use cairn_protocol::{ErrorCode, Open};
use cairn_transfer::{UploadError, without_partial_name};
use cairn_types::ChunkIndex;
use serde_json::json;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

/// How a copy was made.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum CopiedBy {
    /// It has the same chunks.
    Snapshot,
    /// Its bytes were read and written.
    Bytes,
}

impl CopiedBy {
    fn name(self) -> &'static str {
        match self {
            Self::Snapshot => "snapshot",
            Self::Bytes => "bytes",
        }
    }
}

/// Tells of one command's uploads.
pub(crate) struct Storing {
    output: Arc<Output>,
    verbose: bool,
    /// What the command has for directories that are missing, as an advice.
    makes_parents: &'static str,
    /// Where one file has too few replicas others will too: it is told once.
    has_warned: AtomicBool,
}

impl Storing {
    /// Of a command that says `makes_parents` where a directory is missing.
    pub(crate) fn new(output: &Arc<Output>, verbose: bool, makes_parents: &'static str) -> Self {
        let (output, has_warned) = (output.clone(), AtomicBool::new(false));
        Self { output, verbose, makes_parents, has_warned }
    }

    /// Tells of a copy within a cell, and whether its bytes were copied.
    ///
    /// # Errors
    /// Where it was not made, or nobody listens any more.
    pub(crate) async fn tell_copy<E: Into<Cause>>(
        &self,
        from: &str,
        to: &RemotePath,
        (done, by): (Result<u64, UploadError<E>>, CopiedBy),
    ) -> Result<(), CliError> {
        match done {
            Ok(length) => {
                let (path, by) = (to.path.as_str(), by.name());
                let value = json!({ "from": from, "path": path, "length": length, "by": by });
                self.output.done(self.verbose, &value, || format!("{from} -> {to} ({by})"))
            }
            Err(error) => Err(self.not_stored(error, from, to).await),
        }
    }

    /// Tells what became of `to`, which comes from what is shown as `from`.
    ///
    /// # Errors
    /// Where it was not stored, or nobody listens any more.
    pub(crate) async fn tell<E: Into<Cause>>(
        &self,
        from: &str,
        to: &RemotePath,
        done: Result<u64, UploadError<E>>,
    ) -> Result<(), CliError> {
        match done {
            Ok(length) => {
                let value = json!({ "from": from, "path": to.path.as_str(), "length": length });
                self.output.done(self.verbose, &value, || format!("{from} -> {to}"))
            }
            Err(error) => Err(self.not_stored(error, from, to).await),
        }
    }

    async fn not_stored<E: Into<Cause>>(
        &self,
        error: UploadError<E>,
        from: &str,
        to: &RemotePath,
    ) -> CliError {
        let storing = format!("storing {to}");
        match error {
            UploadError::Source(error) => CliError::new(format!("reading {from}"), error),
            UploadError::Taken => {
                let cause = Cause::new(Exit::Exists, "it is there already", "-f replaces a file");
                CliError::new(storing, cause)
            }
            UploadError::Name(error) => CliError::new(storing, error),
            UploadError::Cell(error) if error.code() == ErrorCode::NotFound => {
                let missing = self.missing_directory(to).await;
                CliError::new(storing, missing.unwrap_or_else(|| error.into()))
            }
            UploadError::Cell(error) => {
                let mut cause = Cause::from(error);
                cause.why = without_partial_name(&cause.why, &to.path);
                CliError::new(storing, cause)
            }
        }
    }

    /// That the directory above is missing, where it is.
    async fn missing_directory(&self, to: &RemotePath) -> Option<Cause> {
        let above = to.with_path(to.path.parent()?);
        let seen = to.cell.look_many(std::slice::from_ref(&above.path)).await;
        let error = seen.into_iter().next()?.err()?;
        let why = format!("there is no directory {above}");
        let advice = format!("{}'cairn mkdir -p {above}' makes it", self.makes_parents);
        (error.code() == ErrorCode::NotFound).then(|| Cause::new(Exit::NotFound, why, advice))
    }

    /// Warns where the last chunk of a file that was stored has fewer replicas than were asked for:
    /// the cell makes do with what it has, and nobody else would say so.
    pub(crate) async fn warn_of_few_replicas(&self, to: &RemotePath, length: u64) {
        if length == 0 || self.has_warned.load(Ordering::Relaxed) {
            return;
        }
        let last = (length - 1) / to.cell.info().config.chunk_size;
        let (path, first) = (to.path.clone(), ChunkIndex::new(last));
        let open = Open { path, first, count: 1, ..Open::default() };
        // The file is stored; a question that fails now is no failure of that.
        let Ok(answer) = to.cell.ask(open).await else { return };
        let (Some(chunk), wanted) = (answer.chunks.first(), answer.entry.replication) else {
            return;
        };
        let mut there = chunk.replicas.len();
        if there >= wanted as usize {
            return;
        }
        // Where its lease was just given back, readers are sent to who held it alone, until the
        // others have told how far they are: those that are good count nevertheless.
        if let Ok(told) = to.cell.explain(&chunk.handle.short().to_string()).await {
            there = there.max(told.good as usize);
        }
        if there < wanted as usize && !self.has_warned.swap(true, Ordering::Relaxed) {
            warn(&format!(
                "{to} has {there} of {wanted} replicas: there are too few chunkservers; 'cairn \
                 servers' shows who is there"
            ));
        }
    }
}
