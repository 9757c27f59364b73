//! Why bytes at rest are not what they should be.

/// What is wrong with some bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum FormatError {
    /// They begin otherwise than a file of this kind.
    #[error("not a Cairn file of this kind")]
    Magic,
    /// A later build wrote them.
    #[error("format version {found} of a later build; this one reads up to {newest}")]
    Version {
        /// The version found.
        found: u32,
        /// The newest that this build reads.
        newest: u32,
    },
    /// They do not match their own checksum.
    #[error("does not match its checksum")]
    Checksum,
    /// They end too soon.
    #[error("cut short")]
    Truncated,
    /// A value that no build ever wrote.
    #[error("malformed")]
    Malformed,
}
