//! What a reader makes of an answer that is shorter than what it asked for: pure rules, no state.
//!
//! ```text
//!   suspect replica ─────────────────────────────► Suspect: its end says nothing (R28)
//!   location older than the first try ───────────► LocateAgain (R19)
//!   some bytes came ─────────────────────────────► AskPrimary for the rest
//!   none, though the master says: closed ────────► AskAnother: this replica lacks the mark (R19)
//!   none, chunks behind this one ────────────────► Zeros
//!   none, and it is the last chunk ──────────────► End
//! ```
//! - SA2: the end is believed only from an empty answer at a version that the master gave out after
//!   the first try (R19).

use cairn_protocol::ReadAnswer;
use cairn_types::planted::{Rule, broken};
use cairn_types::{ChunkHandle, ChunkVersion, ServerId};

/// A replica that was asked, and what the master had said of its chunk.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct AskedReplica {
    pub(crate) server: ServerId,
    pub(crate) handle: ChunkHandle,
    pub(crate) version: ChunkVersion,
    /// The number of the question that this location came by.
    pub(crate) located: u64,
    /// From where in the chunk it was asked.
    pub(crate) offset: u64,
    /// How much was asked for.
    pub(crate) size: u64,
    /// The master knows the chunk as closed.
    pub(crate) closed: bool,
    /// The file has chunks behind this one.
    pub(crate) inner: bool,
    pub(crate) primary: Option<ServerId>,
}

/// What follows from a short answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ShortAnswer {
    Suspect,
    LocateAgain,
    AskPrimary,
    AskAnother,
    Zeros,
    End,
}

/// Judges an answer that gave `got` bytes, and fewer than were asked for. `is_fresh`: the location
/// was asked for after the first try.
pub(crate) fn judge(
    replica: &AskedReplica,
    is_fresh: bool,
    got: u64,
    answer: &ReadAnswer,
) -> ShortAnswer {
    if answer.suspect && !broken(Rule::R28) {
        ShortAnswer::Suspect
    } else if broken(Rule::R19) {
        ShortAnswer::End
    } else if !is_fresh {
        ShortAnswer::LocateAgain
    } else if got > 0 {
        ShortAnswer::AskPrimary
    } else if replica.closed {
        ShortAnswer::AskAnother
    } else if replica.inner {
        ShortAnswer::Zeros
    } else {
        ShortAnswer::End
    }
}
