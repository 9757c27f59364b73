//! What waits to be written to one socket.
//!
//! ```text
//!   [ small frames, end to end ] [ payload, shared ] [ small frames … ]     one sendmsg for all
//! ```
//! - Q1: bytes leave in the order in which they were queued (E4).
//! - Q2: [`OutQueue::written`] tells exactly how far the kernel took them: a call that starts
//!   behind it was never sent.

use bytes::Bytes;
use rustix::fd::AsFd;
use rustix::io::Errno;
use rustix::net::{SendAncillaryBuffer, SendFlags, send, sendmsg};
use std::collections::VecDeque;
use std::io::IoSlice;

/// A payload up to this size is copied beside its frame's head: cheaper than a slice of its own.
const COPY_SIZE_MAX: usize = 4 << 10;
/// Small frames are put together in buffers of about this size.
const TAIL_SIZE: usize = 64 << 10;
/// Slices handed to the kernel at once.
const SLICES_MAX: usize = 32;

#[derive(Debug)]
enum Piece {
    Owned(Vec<u8>),
    Shared(Bytes),
}

impl AsRef<[u8]> for Piece {
    fn as_ref(&self) -> &[u8] {
        match self {
            Self::Owned(bytes) => bytes,
            Self::Shared(bytes) => bytes,
        }
    }
}

/// The queue.
#[derive(Debug, Default)]
pub(crate) struct OutQueue {
    pieces: VecDeque<Piece>,
    /// How much of the first piece is written.
    front: usize,
    size: usize,
    written: u64,
    /// An empty buffer kept for the next small frames.
    spare: Vec<u8>,
}

impl OutQueue {
    /// Bytes that wait.
    pub(crate) fn size(&self) -> usize {
        self.size
    }

    /// Bytes that the kernel took, ever.
    pub(crate) fn written(&self) -> u64 {
        self.written
    }

    /// Bytes queued, ever: where in the stream the next frame will start.
    pub(crate) fn queued(&self) -> u64 {
        self.written + self.size as u64
    }

    /// Queues what `encode` appends.
    pub(crate) fn frame(&mut self, encode: impl FnOnce(&mut Vec<u8>)) {
        let tail = self.tail();
        let before = tail.len();
        encode(tail);
        let added = tail.len() - before;
        self.size += added;
    }

    /// Queues bulk bytes.
    pub(crate) fn payload(&mut self, bytes: Bytes) {
        if bytes.len() <= COPY_SIZE_MAX {
            self.frame(|out| out.extend_from_slice(&bytes));
        } else {
            self.size += bytes.len();
            self.pieces.push_back(Piece::Shared(bytes));
        }
    }

    fn tail(&mut self) -> &mut Vec<u8> {
        let room = matches!(self.pieces.back(), Some(Piece::Owned(tail)) if tail.len() < TAIL_SIZE);
        if !room {
            self.pieces.push_back(Piece::Owned(std::mem::take(&mut self.spare)));
        }
        match self.pieces.back_mut() {
            Some(Piece::Owned(tail)) => tail,
            _ => unreachable!("the last piece was just made one of our own"),
        }
    }

    /// Writes as much as the kernel takes; what it did not take stays.
    ///
    /// # Errors
    /// The connection is broken.
    pub(crate) fn flush(&mut self, socket: impl AsFd) -> Result<(), Errno> {
        while self.size > 0 {
            let (offered, taken) = self.offer(socket.as_fd());
            match taken {
                Ok(taken) => {
                    self.consume(taken);
                    // The kernel's buffer is full; epoll tells when it is not.
                    if taken < offered {
                        return Ok(());
                    }
                }
                Err(Errno::INTR) => {}
                Err(Errno::AGAIN) => return Ok(()),
                Err(errno) => return Err(errno),
            }
        }
        Ok(())
    }

    /// One system call. A signal for a closed pipe is never wanted: the error tells.
    fn offer(&self, socket: impl AsFd) -> (usize, Result<usize, Errno>) {
        let flags = SendFlags::NOSIGNAL;
        if let [only] = self.pieces.as_slices().0
            && self.pieces.len() == 1
        {
            let bytes = &only.as_ref()[self.front..];
            return (bytes.len(), send(socket, bytes, flags));
        }
        let mut slices = [IoSlice::new(&[]); SLICES_MAX];
        let (mut count, mut offered, mut skip) = (0, 0, self.front);
        for piece in self.pieces.iter().take(SLICES_MAX) {
            let bytes = &piece.as_ref()[skip..];
            slices[count] = IoSlice::new(bytes);
            (count, offered, skip) = (count + 1, offered + bytes.len(), 0);
        }
        let mut control = SendAncillaryBuffer::default();
        (offered, sendmsg(socket, &slices[..count], &mut control, flags))
    }

    fn consume(&mut self, taken: usize) {
        self.written += taken as u64;
        self.size -= taken;
        self.front += taken;
        while let Some(first) = self.pieces.front()
            && self.front >= first.as_ref().len()
        {
            self.front -= first.as_ref().len();
            if let Some(Piece::Owned(mut buffer)) = self.pieces.pop_front()
                && buffer.capacity() <= 2 * TAIL_SIZE
            {
                buffer.clear();
                self.spare = buffer;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::OutQueue;
    use bytes::Bytes;
    use std::io::Read;
    use std::os::unix::net::UnixStream;

    #[test]
    fn bytes_leave_in_the_order_in_which_they_were_queued() {
        let (ours, mut theirs) = UnixStream::pair().expect("a pair");
        ours.set_nonblocking(true).expect("non-blocking");
        let mut queue = OutQueue::default();
        let mut expected = Vec::new();
        for round in 0..200u8 {
            queue.frame(|out| out.extend_from_slice(&[round; 30]));
            expected.extend_from_slice(&[round; 30]);
            let size = if round % 3 == 0 { 9000 } else { 100 };
            queue.payload(Bytes::from(vec![round + 1; size]));
            expected.extend(vec![round + 1; size]);
        }
        assert_eq!(queue.queued(), expected.len() as u64);
        let mut arrived = Vec::new();
        let mut buffer = vec![0; 7001];
        while arrived.len() < expected.len() {
            queue.flush(&ours).expect("open");
            assert_eq!(queue.queued(), expected.len() as u64, "nothing is counted twice");
            let count = theirs.read(&mut buffer).expect("reads");
            arrived.extend_from_slice(&buffer[..count]);
        }
        assert!(arrived == expected);
        assert_eq!((queue.size(), queue.written()), (0, expected.len() as u64));
    }

    #[test]
    fn a_peer_that_does_not_read_takes_no_more_than_the_kernel_holds() {
        let (ours, _theirs) = UnixStream::pair().expect("a pair");
        ours.set_nonblocking(true).expect("non-blocking");
        let mut queue = OutQueue::default();
        queue.payload(Bytes::from(vec![1; 16 << 20]));
        queue.flush(&ours).expect("open");
        assert!(queue.size() > 0 && queue.written() > 0);
    }
}
