//! Buffers for bulk bytes, used again and again: a fresh megabyte costs more in page faults than
//! in copying (docs/measurements/loopback.md, 3).
//!
//! ```text
//!   take(size) ──► Buffer ── filled from socket or file ──► freeze ──► Bytes, shared
//!      ▲                                                                   │ last holder drops it
//!      └──────────────────────────── shelf ◄──────────────────────────────┘
//! ```
//! - F1: what is idle on the shelves is bounded; more is given back to the system.
//! - F2: a small payload takes no more memory than it has, or a push buffer that counts bytes
//!   would hold far more than it thinks.

use bytes::Bytes;
use cairn_types::BLOCK_SIZE_MAX;
use std::sync::{Arc, Mutex, PoisonError};

/// Bytes of a push's segment, at most: what is verified and passed on at once, small enough to
/// be still in the cache then.
pub const SEGMENT_SIZE: usize = 256 << 10;
const _: () = assert!(BLOCK_SIZE_MAX as usize <= SEGMENT_SIZE);
/// What is read for an answer: a megabyte, widened to whole blocks at both ends.
const ANSWER_SIZE: usize = (1 << 20) + (128 << 10);
/// Idle bytes kept per size.
const IDLE_BYTES_MAX: usize = 48 << 20;

/// Buffers of one size that nobody uses.
#[derive(Debug)]
struct BufferShelf {
    buffer_size: usize,
    idle: Mutex<Vec<Vec<u8>>>,
}

impl BufferShelf {
    fn new(buffer_size: usize) -> Arc<Self> {
        Arc::new(Self { buffer_size, idle: Mutex::default() })
    }

    fn take(&self) -> Vec<u8> {
        let idle = self.idle.lock().unwrap_or_else(PoisonError::into_inner).pop();
        idle.unwrap_or_else(|| vec![0; self.buffer_size])
    }

    fn give_back(&self, bytes: Vec<u8>) {
        let mut idle = self.idle.lock().unwrap_or_else(PoisonError::into_inner);
        if (idle.len() + 1) * self.buffer_size <= IDLE_BYTES_MAX {
            idle.push(bytes);
        }
    }
}

/// The shelves of one loop, or of one data directory.
#[derive(Debug)]
pub struct BufferPool {
    segments: Arc<BufferShelf>,
    answers: Arc<BufferShelf>,
}

impl Default for BufferPool {
    fn default() -> Self {
        Self { segments: BufferShelf::new(SEGMENT_SIZE), answers: BufferShelf::new(ANSWER_SIZE) }
    }
}

impl BufferPool {
    /// A buffer for exactly `size` bytes.
    #[must_use]
    pub fn take(&self, size: usize) -> Buffer {
        // A size above every shelf is zeroed memory that the system hands out page by page, as
        // bytes arrive.
        let shelf = match memory_of(size) {
            ANSWER_SIZE => Some(&self.answers),
            SEGMENT_SIZE => Some(&self.segments),
            _ => None,
        };
        match shelf {
            Some(shelf) => Buffer { bytes: shelf.take(), size, home: Some(Arc::clone(shelf)) },
            None => Buffer { bytes: vec![0; size], size, home: None },
        }
    }
}

/// Bytes of memory that a buffer for `size` bytes takes: a large one is as large as its shelf's.
#[must_use]
pub fn memory_of(size: usize) -> usize {
    match size {
        _ if size > ANSWER_SIZE => size,
        _ if size > SEGMENT_SIZE => ANSWER_SIZE,
        _ if size > SEGMENT_SIZE / 2 => SEGMENT_SIZE,
        _ => size,
    }
}

/// Bytes being filled.
#[derive(Debug)]
pub struct Buffer {
    bytes: Vec<u8>,
    size: usize,
    home: Option<Arc<BufferShelf>>,
}

impl Buffer {
    /// The bytes to fill; what an earlier use left is still in them.
    pub fn to_fill(&mut self) -> &mut [u8] {
        &mut self.bytes[..self.size]
    }

    /// Shares the bytes; the buffer goes back to its shelf when the last holder is done.
    #[must_use]
    pub fn freeze(mut self) -> Bytes {
        if self.home.is_some() {
            Bytes::from_owner(self)
        } else {
            Bytes::from(std::mem::take(&mut self.bytes))
        }
    }
}

impl AsRef<[u8]> for Buffer {
    fn as_ref(&self) -> &[u8] {
        &self.bytes[..self.size]
    }
}

impl Drop for Buffer {
    fn drop(&mut self) {
        if let Some(home) = &self.home {
            home.give_back(std::mem::take(&mut self.bytes));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::{BufferPool, SEGMENT_SIZE};

    #[test]
    fn a_large_buffer_comes_back_when_its_last_holder_is_done() {
        let pool = BufferPool::default();
        let mut buffer = pool.take(SEGMENT_SIZE);
        buffer.to_fill().fill(7);
        let at = buffer.as_ref().as_ptr();
        let shared = buffer.freeze();
        let other = shared.clone();
        drop(shared);
        assert_ne!(pool.take(SEGMENT_SIZE).as_ref().as_ptr(), at, "still held");
        assert!(other.iter().all(|byte| *byte == 7));
        drop(other);
        let reused: Vec<_> = [pool.take(SEGMENT_SIZE), pool.take(SEGMENT_SIZE)].into();
        assert!(reused.iter().any(|buffer| buffer.as_ref().as_ptr() == at));
    }

    #[test]
    fn a_small_payload_takes_no_more_memory_than_it_has() {
        assert_eq!(BufferPool::default().take(100).bytes.capacity(), 100);
    }
}
