//! Snapshots: copies of files and trees at one instant, made without copying a byte (GFS §3.4).

use crate::cell::Cell;
use crate::error::Error;
use cairn_protocol::{
    CountShared, ErrorCode, MadeAnew, SHARED_FILES_MAX, SharedPart, Snapshot, SnapshotAnswer,
};
use cairn_types::{CellPath, ChunkIndex, EntryId, MutationName};

impl Cell {
    /// Takes a snapshot of a file, or of a directory with all below it, under a name that is free.
    /// What it holds is what was acknowledged when it began, and nothing that began when it was
    /// answered. It is a tree like any other: who writes to either of the two later has its own
    /// copy of the chunk concerned, and the other does not change.
    ///
    /// Whoever writes below `from` meanwhile waits a moment, and loses nothing.
    ///
    /// # Errors
    /// `NotFound`; `AlreadyExists` where `to` is taken; `Busy` where replicas below `from` could
    /// not be made still: nothing has changed then. With an unknown outcome it may have been taken.
    pub async fn snapshot(&self, from: &CellPath, to: &CellPath) -> Result<SnapshotAnswer, Error> {
        let (mutation, from, to) = (MutationName::default(), from.clone(), to.clone());
        self.link.ask(Snapshot { mutation, from, to, anew: None }).await
    }

    /// Which bytes of each of these files stand in chunks that other files have too, wherever these
    /// are, deleted ones among them. The master looks at a page of chunks at a time.
    ///
    /// # Errors
    /// As of any request.
    pub async fn shared_bytes(&self, files: &[EntryId]) -> Result<Vec<u64>, Error> {
        let mut sums = vec![0; files.len()];
        let (mut done, mut first) = (0, ChunkIndex::default());
        while done < files.len() {
            let asked = &files[done..files.len().min(done + SHARED_FILES_MAX)];
            let mut parts: Vec<SharedPart> = asked
                .iter()
                .map(|file| SharedPart { file: *file, first: ChunkIndex::default() })
                .collect();
            parts[0].first = std::mem::take(&mut first);
            let answer = self.link.ask(CountShared { files: parts }).await?;
            let told = answer.files.len().clamp(1, asked.len());
            for (at, counted) in answer.files.iter().take(told).enumerate() {
                sums[done + at] += counted.shared;
            }
            done += told;
            if let Some(next) = answer.files.last().and_then(|last| last.next) {
                (done, first) = (done - 1, next);
            }
        }
        Ok(sums)
    }

    /// The same of a file, whose copy is as if it had been made under that name, its bytes apart:
    /// it belongs to who asks, and was changed now. Who may read a file may copy it so.
    ///
    /// # Errors
    /// The same; with a failure that [`may_copy_bytes`] the bytes can be copied all the same.
    pub async fn copy_file(&self, from: &CellPath, to: &CellPath) -> Result<SnapshotAnswer, Error> {
        let (mutation, from, to) = (MutationName::default(), from.clone(), to.clone());
        let anew = Some(MadeAnew { mode: self.made_mode(None, 0o666) });
        self.link.ask(Snapshot { mutation, from, to, anew }).await
    }
}

/// Whether a file's bytes can be copied where it was refused to copy it without them: it is to be
/// kept otherwise there, its chunks are not still, or the master does not know how.
#[must_use]
pub fn may_copy_bytes(refusal: &Error) -> bool {
    use ErrorCode as Code;
    matches!(refusal.code(), Code::Invalid | Code::Busy | Code::VersionUnsupported)
}
