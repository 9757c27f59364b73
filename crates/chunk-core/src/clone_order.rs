//! An order to copy a chunk, and how far it is: a pass over the source's blocks, or several.
//!
//! - CO1: a clone that was to be finished is as its source stood during one whole pass, in which
//!   nothing changed there.

use cairn_env::{Caller, LogEvent};
use cairn_protocol::{CloneChunk, CloneChunkAnswer, ErrorCode, Failure, ReplicaReport};

/// Passes in which the source changed, after which it is not waited for.
const PASSES_MAX: u32 = 8;

/// What comes after a pass.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum AfterPass {
    /// It has what the source had.
    Answered(CloneChunkAnswer),
    /// It is equal, and to be brought to disk as one that stands so.
    Equal(ReplicaReport),
    /// Something has changed; once more.
    Again,
}

/// A master's order, and who waits for it.
#[derive(Clone, Debug)]
pub(crate) struct CloneOrder {
    pub(crate) from: Caller,
    pub(crate) clone: CloneChunk,
    /// Bytes fetched for it.
    pub(crate) copied: u64,
    /// How the source stood at this pass's first answer.
    began: Option<ReplicaReport>,
    passes: u32,
}

impl CloneOrder {
    pub(crate) fn new(from: Caller, clone: CloneChunk) -> Self {
        Self { from, clone, copied: 0, began: None, passes: 0 }
    }

    /// A pass begins.
    pub(crate) fn begin_pass(&mut self) -> Result<(), Failure> {
        if self.passes == PASSES_MAX {
            let why = format!("{} is mutated while a clone is finished", self.clone.source.address);
            return Err(Failure::not_done(ErrorCode::Busy, why));
        }
        (self.passes, self.began) = (self.passes + 1, None);
        Ok(())
    }

    /// The source has answered, standing so; a copy of what it cannot vouch for is no clone (R28).
    pub(crate) fn hear(&mut self, stands: &ReplicaReport) -> Result<(), Failure> {
        let CloneChunk { handle, version, .. } = self.clone;
        let why = if (stands.handle, stands.version) != (handle, version) {
            "it does not say how its replica stands"
        } else if stands.suspect {
            "its replica may have lost bytes"
        } else if !stands.serial.leaves_room() {
            "it has counted further than anybody can"
        } else {
            self.began.get_or_insert_with(|| stands.clone());
            return Ok(());
        };
        Err(Failure::not_done(ErrorCode::ReplicaFailed, why))
    }

    /// The pass has come to the end of the source, which stands so.
    pub(crate) fn end_pass(&self, stands: &ReplicaReport) -> AfterPass {
        let began = self.began.as_ref().expect("the answer that ended the pass was heard");
        let bytes_of = |it: &ReplicaReport| (it.mutated_version, it.serial, it.length);
        if !self.clone.finish {
            AfterPass::Answered(self.answer(stands))
        } else if bytes_of(began) == bytes_of(stands) {
            // Nothing is acknowledged that is not there (T2), whatever the source says.
            AfterPass::Equal(ReplicaReport {
                acknowledged: stands.acknowledged.min(stands.length),
                acknowledged_serial: stands.acknowledged_serial.min(stands.serial),
                ..stands.clone()
            })
        } else {
            AfterPass::Again
        }
    }

    /// What is told where it came to nothing.
    pub(crate) fn told_failed(&self, failure: &Failure) -> LogEvent {
        let CloneChunk { handle, version, source, .. } = &self.clone;
        let event = LogEvent::debug("clone failed").with("chunk", handle.short());
        let event = event.with("version", version.short()).with("source", source.server);
        event.with("why", &failure.message)
    }

    pub(crate) fn answer(&self, stands: &ReplicaReport) -> CloneChunkAnswer {
        let ReplicaReport { serial, length, mutated_version, .. } = *stands;
        CloneChunkAnswer { serial, length, copied: self.copied, mutated_version }
    }

    /// What is told of a source that does not give its bytes.
    pub(crate) fn failed_at_source(&self, failure: &Failure) -> Failure {
        let at = &self.clone.source;
        let why = format!("no bytes came from {}: {}", at.address, failure.message);
        let code = match failure.code {
            // Its replica is damaged, and the master ought to know that at once.
            ErrorCode::ChecksumMismatch => ErrorCode::ChecksumMismatch,
            _ => ErrorCode::ReplicaFailed,
        };
        Failure { server: at.server, ..Failure::not_done(code, why) }
    }
}
