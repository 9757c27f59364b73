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
use std::fmt;
use std::io;
use std::os::fd::BorrowedFd;

/// Bytes of a file on their way to a connection; they never pass through this process (H1).
pub trait HeldBytes: Send + fmt::Debug {
    /// Bytes that have not left yet.
    fn size(&self) -> usize;
    /// Sends the next of them to a non-blocking socket; how many it took.
    ///
    /// # Errors
    /// As the system says; `WouldBlock` where the socket takes nothing for now.
    fn send_to(&mut self, socket: BorrowedFd<'_>) -> io::Result<usize>;
    /// Copies those that have not left yet, as they are now.
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
