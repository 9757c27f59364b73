//! Why a member of the group refuses.

/// Why the group refuses.
#[derive(Debug, thiserror::Error)]
pub enum ConsensusError {
    /// The library refuses.
    #[error("consensus: {0}")]
    Library(#[from] raft::Error),
    /// This member is not the primary.
    #[error("consensus: not the primary master")]
    NotPrimary,
    /// The members are changing already: one step at a time.
    #[error("consensus: the members are changing already")]
    Changing,
    /// A message that no member sends.
    #[error("consensus: {0}")]
    Malformed(&'static str),
}
