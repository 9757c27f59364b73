//! What is to be applied to a replica: mutations whose bytes are here.

use cairn_env::PushedData;
use cairn_types::SerialNumber;

/// One mutation with its pushed bytes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ReadyMutation {
    /// Its place in the order.
    pub serial: SerialNumber,
    /// Where in the chunk.
    pub offset: u64,
    /// How many bytes.
    pub size: u64,
    /// The bytes; none: zeros up to `offset + size` where the replica is shorter (R16).
    pub data: Option<PushedData>,
}

impl ReadyMutation {
    /// Whether it changes bytes below `length`.
    pub(crate) fn overwrites(&self, length: u64) -> bool {
        self.data.as_ref().is_some_and(|data| data.size() > 0) && self.offset < length
    }

    /// Where its bytes end in the chunk; zero where it has none.
    pub(crate) fn end(&self) -> u64 {
        match &self.data {
            Some(data) if data.size() == 0 => 0,
            Some(data) => self.offset + data.size(),
            None => self.offset + self.size,
        }
    }
}

/// What has been acknowledged of a chunk, to be kept in its head.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct AcknowledgedMark {
    /// Bytes (R17).
    pub length: u64,
    /// The last mutation (R29).
    pub serial: SerialNumber,
}
