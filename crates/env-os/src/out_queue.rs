//! What waits to be written to one socket.
//!
//! ```text
//!   [ small frames, end to end ] [ payload, shared ] [ small frames … ]     one sendmsg for all
//!   [ small frames ] [ piped: pages in a pipe ]                             a splice of its own
//! ```
//! - Q1: bytes leave in the order in which they were queued (E4).
//! - Q2: [`OutQueue::written`] tells exactly how far the kernel took them: a call that starts
//!   behind it was never sent.

use crate::pipes::PipedBytes;
use bytes::Bytes;
use cairn_env::{HeldBytes, Payload};
use rustix::fd::{AsFd, BorrowedFd};
use rustix::io::Errno;
use rustix::net::{SendAncillaryBuffer, SendFlags, send, sendmsg};
use std::any::Any;
use std::collections::VecDeque;
use std::io::IoSlice;

/// A payload up to this size is copied beside its frame's head: cheaper than a slice of its own.
const COPY_SIZE_MAX: usize = 4 << 10;
/// Small frames are put together in buffers of about this size.
const TAIL_SIZE: usize = 64 << 10;
/// A buffer larger than this is not kept empty: thousands of idle connections may keep one.
const SPARE_SIZE_MAX: usize = 8 << 10;
/// Slices handed to the kernel at once.
const SLICES_MAX: usize = 32;

#[derive(Debug)]
enum Piece {
    Owned(Vec<u8>),
    Shared(Bytes),
    Piped(Box<PipedBytes>),
}

impl Piece {
    /// Its bytes, where they are in memory.
    fn bytes(&self) -> Option<&[u8]> {
        match self {
            Self::Owned(bytes) => Some(bytes),
            Self::Shared(bytes) => Some(bytes),
            Self::Piped(_) => None,
        }
    }
}

/// The queue.
#[derive(Debug, Default)]
pub(crate) struct OutQueue {
    pieces: VecDeque<Piece>,
    /// How much of the first piece is written; piped bytes know that themselves.
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
    pub(crate) fn payload(&mut self, payload: impl Into<Payload>) {
        let bytes = match payload.into() {
            Payload::Bytes(bytes) => bytes,
            Payload::Held(held) => match piped(held) {
                Ok(piped) => {
                    self.size += piped.size();
                    return self.pieces.push_back(Piece::Piped(piped));
                }
                Err(bytes) => bytes,
            },
        };
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
            match self.offer(socket.as_fd()) {
                Ok(Offered::All(taken)) => self.consume(taken),
                // The kernel's buffer is full; epoll tells when it is not.
                Ok(Offered::Part(taken)) => {
                    self.consume(taken);
                    return Ok(());
                }
                Err(Errno::INTR) => {}
                Err(Errno::AGAIN) => return Ok(()),
                Err(errno) => return Err(errno),
            }
        }
        Ok(())
    }

    /// One system call. A signal for a closed pipe is never wanted: the error tells. A splice
    /// cannot say so; there it is Rust's runtime that has it ignored, and it must stay so.
    fn offer(&mut self, socket: BorrowedFd<'_>) -> Result<Offered, Errno> {
        if let Some(Piece::Piped(piped)) = self.pieces.front_mut() {
            // Nothing taken of something means that there is nothing to come any more.
            return match piped.send_to(socket)? {
                0 => Err(Errno::IO),
                // It may have stopped at the end of a batch of pages: only `AGAIN` tells "full".
                sent => Ok(Offered::All(sent)),
            };
        }
        let mut slices = [IoSlice::new(&[]); SLICES_MAX];
        let (mut count, mut offered, mut skip) = (0, 0, self.front);
        let in_memory = self.pieces.iter().map_while(Piece::bytes);
        for bytes in in_memory.take(SLICES_MAX) {
            slices[count] = IoSlice::new(&bytes[skip..]);
            (count, offered, skip) = (count + 1, offered + bytes.len() - skip, 0);
        }
        let mut flags = SendFlags::NOSIGNAL;
        // What is piped follows at once, in the same packet where it can.
        flags.set(SendFlags::MORE, matches!(self.pieces.get(count), Some(Piece::Piped(_))));
        let taken = if let [only] = slices[..count] {
            send(socket, &only, flags)?
        } else {
            let mut control = SendAncillaryBuffer::default();
            sendmsg(socket, &slices[..count], &mut control, flags)?
        };
        Ok(if taken < offered { Offered::Part(taken) } else { Offered::All(taken) })
    }

    fn consume(&mut self, taken: usize) {
        self.written += taken as u64;
        assert!(taken <= self.size, "Q2: the kernel takes no more than it was offered");
        self.size -= taken;
        if let Some(Piece::Piped(piped)) = self.pieces.front() {
            if piped.size() == 0 {
                self.pieces.pop_front();
            }
            return;
        }
        self.front += taken;
        while let Some(first) = self.pieces.front().and_then(Piece::bytes)
            && self.front >= first.len()
        {
            self.front -= first.len();
            if let Some(Piece::Owned(mut buffer)) = self.pieces.pop_front()
                && buffer.capacity() <= SPARE_SIZE_MAX
            {
                buffer.clear();
                self.spare = buffer;
            }
        }
    }
}

/// Held bytes as pages in a pipe, where a disk of this world holds them; else a copy of them.
fn piped(held: Box<dyn HeldBytes>) -> Result<Box<PipedBytes>, Bytes> {
    if (&*held as &dyn Any).is::<PipedBytes>() {
        let held: Box<dyn Any> = held;
        Ok(held.downcast().expect("of this type, just seen"))
    } else {
        Err(held.into_bytes())
    }
}

/// How much of what it was offered the kernel took.
enum Offered {
    All(usize),
    Part(usize),
}

#[cfg(test)]
mod tests {
    use super::{OutQueue, Piece};
    use crate::pipes::Pipes;
    use bytes::Bytes;
    use cairn_env::{HeldBytes, Payload};
    use std::io::{Read, Write};
    use std::os::unix::net::UnixStream;
    use std::sync::Arc;

    /// All that waits leaves, to a peer that reads little at a time.
    fn assert_leaves(queue: &mut OutQueue, expected: &[u8]) {
        assert_eq!(queue.queued(), expected.len() as u64);
        let (ours, mut theirs) = UnixStream::pair().expect("a pair");
        ours.set_nonblocking(true).expect("non-blocking");
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
    fn bytes_leave_in_the_order_in_which_they_were_queued() {
        let mut queue = OutQueue::default();
        let mut expected = Vec::new();
        for round in 0..200u8 {
            queue.frame(|out| out.extend_from_slice(&[round; 30]));
            expected.extend_from_slice(&[round; 30]);
            let size = if round % 3 == 0 { 9000 } else { 100 };
            queue.payload(Bytes::from(vec![round + 1; size]));
            expected.extend(vec![round + 1; size]);
        }
        assert_leaves(&mut queue, &expected);
    }

    /// Held bytes of another world.
    #[derive(Debug)]
    struct Foreign(Vec<u8>);

    impl HeldBytes for Foreign {
        fn size(&self) -> usize {
            self.0.len()
        }

        fn into_bytes(self: Box<Self>) -> Bytes {
            self.0.into()
        }
    }

    #[test]
    fn held_bytes_leave_where_they_stand_in_the_order_piped_or_copied() {
        let mut file = tempfile::tempfile().expect("a scratch file");
        let pipes = Arc::new(Pipes::within(usize::MAX));
        let mut queue = OutQueue::default();
        let mut expected = Vec::new();
        for round in 0..30u8 {
            queue.frame(|out| out.extend_from_slice(&[round; 30]));
            expected.extend_from_slice(&[round; 30]);
            let bytes = vec![round + 1; 100_000];
            expected.extend_from_slice(&bytes);
            file.write_all(&bytes).expect("writes");
            match round % 3 {
                0 => queue.payload(Bytes::from(bytes)),
                1 => queue.payload(Payload::Held(Box::new(Foreign(bytes)))),
                _ => {
                    let held = pipes.hold(&file, u64::from(round) * 100_000, bytes.len());
                    let held = held.expect("reads").expect("there are pipes");
                    queue.payload(Payload::Held(held));
                    assert!(matches!(queue.pieces.back(), Some(Piece::Piped(_))));
                }
            }
        }
        assert_leaves(&mut queue, &expected);
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
