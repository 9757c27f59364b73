//! Mutations on their way through the primary.
//!
//! ```text
//!   queue (no number) ──► applying (numbered, on this disk) ──► log (at secondaries) ──► answered
//! ```

use cairn_env::Caller;
use cairn_protocol::Forwarded;
use cairn_types::{BlockChecksums, PushId};

/// What a client asked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    /// At an offset that the client chose.
    Write { offset: u64 },
    /// At an offset that the primary chooses.
    Append,
}

/// A mutation that has no serial number yet.
#[derive(Clone, Debug)]
pub(crate) struct Queued {
    /// Whoever waits; a repeat of the same push waits beside the first.
    pub(crate) from: Vec<Caller>,
    pub(crate) kind: Kind,
    pub(crate) push: PushId,
    pub(crate) size: u64,
    pub(crate) checksums: BlockChecksums,
    pub(crate) sync: bool,
}

/// A mutation with its place in the order.
#[derive(Clone, Debug)]
pub(crate) struct Logged {
    pub(crate) forwarded: Forwarded,
    /// Whoever waits for the acknowledgement; none for levelling and close marks. A repeat of
    /// the same push waits beside the first.
    pub(crate) from: Vec<Caller>,
    pub(crate) kind: Kind,
    pub(crate) sync: bool,
}

impl Logged {
    pub(crate) fn end(&self) -> u64 {
        self.forwarded.offset + self.forwarded.size
    }
}
