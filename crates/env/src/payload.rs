//! The bulk bytes of an answer: here, or still with the system.
//!
//! ```text
//!   file ── read ──► Bytes ────────────── copied into the socket ──►
//!   file ── hold ──► HeldBytes ── the file's own pages, no copy ──►
//! ```
//! - H1: held bytes are the file's pages, not an image of them: a byte of them that is overwritten
//!   before they have been received may arrive as it is then. Who receives them verifies them
//!   (design §7).

use bytes::Bytes;
use std::any::Any;
use std::fmt;

/// Bytes of a file on their way to a connection, which need not pass through this process (H1).
///
/// How they leave is the world's own affair: it recognises (`Any`) what its own disks hold, and
/// copies what it does not.
pub trait HeldBytes: Any + Send + fmt::Debug {
    /// How many bytes.
    fn size(&self) -> usize;
    /// Copies them, as they are now.
    fn into_bytes(self: Box<Self>) -> Bytes;
}

/// What goes with an answer.
#[derive(Debug)]
pub enum Payload {
    /// In memory.
    Bytes(Bytes),
    /// In a file (H1).
    Held(Box<dyn HeldBytes>),
}

impl Payload {
    /// How many bytes.
    #[must_use]
    pub fn len(&self) -> usize {
        match self {
            Self::Bytes(bytes) => bytes.len(),
            Self::Held(held) => held.size(),
        }
    }

    /// Whether there are none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The bytes as they are now.
    #[must_use]
    pub fn into_bytes(self) -> Bytes {
        match self {
            Self::Bytes(bytes) => bytes,
            Self::Held(held) => held.into_bytes(),
        }
    }
}

/// Bytes in memory are compared; held ones, which may yet change (H1), are equal to nothing.
impl PartialEq for Payload {
    fn eq(&self, other: &Self) -> bool {
        match (self, other) {
            (Self::Bytes(one), Self::Bytes(another)) => one == another,
            _ => false,
        }
    }
}

impl Default for Payload {
    fn default() -> Self {
        Self::Bytes(Bytes::new())
    }
}

impl From<Bytes> for Payload {
    fn from(bytes: Bytes) -> Self {
        Self::Bytes(bytes)
    }
}
