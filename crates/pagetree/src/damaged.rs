//! What is wrong with a stored page.

/// A stored page is not what was written. Nothing of it was believed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the page at {offset} of {size} bytes {damage}")]
pub struct Damaged {
    /// Where it lies in the file.
    pub offset: u64,
    /// Its size as the page above it, or the root record, has it.
    pub size: u32,
    /// What was found.
    pub damage: Damage,
}

/// What was found where a page should be.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Damage {
    /// The file ends before the page does.
    #[error("lies beyond the end of the file")]
    Outside,
    /// Other bytes than were written.
    #[error("does not match its checksum")]
    Checksum,
    /// Bytes that match their checksum and that no build ever wrote.
    #[error("is malformed")]
    Malformed,
}
