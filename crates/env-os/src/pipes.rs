//! Pipes that hold a file's pages until a socket takes them: a read without a copy in between.
//!
//! ```text
//!   disk worker: splice(file ─► pipe), waits for the disk     loop: splice(pipe ─► socket), never
//! ```
//! - S1: pipes are few: each holds memory of the kernel's, and two descriptors. Where none is left,
//!   or the system grants no more large ones, files are read as ever.
//! - S2: a pipe is used again only where nothing is left in it.
//! - S3: the seam sees [`PipedBytes`] as bytes that a file holds; only the queue of a socket, which
//!   belongs to this world too, knows that they can leave by themselves.

use bytes::Bytes;
use cairn_env::HeldBytes;
use rustix::fd::{AsFd, OwnedFd};
use rustix::io::Errno;
use rustix::pipe::{PipeFlags, SpliceFlags, fcntl_setpipe_size, pipe_with, splice};
use std::fs::File;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// What a pipe may hold; no more is granted to a process that is not root.
const PIPE_SIZE: usize = 1 << 20;
const PAGE_SIZE: usize = 4096;
/// Pipes of one data directory at a time, in use or idle (S1): half of what the system grants a
/// user that is not root.
const PIPES_MAX: usize = 32;
/// A pipe's two ends.
const DESCRIPTORS_PER_PIPE: usize = 2;

/// Both ends.
#[derive(Debug)]
struct Pipe {
    from: OwnedFd,
    into: OwnedFd,
}

impl Pipe {
    fn new() -> Result<Self, Errno> {
        let (from, into) = pipe_with(PipeFlags::CLOEXEC | PipeFlags::NONBLOCK)?;
        let granted = fcntl_setpipe_size(&into, PIPE_SIZE)?;
        if granted < PIPE_SIZE { Err(Errno::PERM) } else { Ok(Self { from, into }) }
    }
}

#[derive(Debug, Default)]
struct PipeShelf {
    idle: Vec<Pipe>,
    made: usize,
    /// The system has refused one: no more are asked for.
    is_refused: bool,
}

/// The pipes of one data directory.
#[derive(Debug)]
pub(crate) struct Pipes {
    shelf: Mutex<PipeShelf>,
    count_max: usize,
}

impl Pipes {
    /// As many as so many descriptors allow, and are of use (S1).
    pub(crate) fn within(descriptors: usize) -> Self {
        let count_max = (descriptors / DESCRIPTORS_PER_PIPE).min(PIPES_MAX);
        Self { shelf: Mutex::default(), count_max }
    }

    fn shelf(&self) -> MutexGuard<'_, PipeShelf> {
        self.shelf.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn take(&self) -> Option<Pipe> {
        let mut shelf = self.shelf();
        if let Some(pipe) = shelf.idle.pop() {
            return Some(pipe);
        }
        if shelf.made >= self.count_max || shelf.is_refused {
            return None;
        }
        match Pipe::new() {
            Ok(pipe) => {
                shelf.made += 1;
                Some(pipe)
            }
            Err(_) => {
                shelf.is_refused = true;
                None
            }
        }
    }

    fn give_back(&self, pipe: Pipe, is_empty: bool) {
        let mut shelf = self.shelf();
        if is_empty {
            shelf.idle.push(pipe);
        } else {
            shelf.made -= 1;
        }
    }

    /// Puts a file's bytes into a pipe; none where they cannot all be put into one.
    ///
    /// # Errors
    /// As the system says.
    pub(crate) fn hold(
        self: &Arc<Self>,
        file: &File,
        offset: u64,
        size: usize,
    ) -> Result<Option<Box<PipedBytes>>, Errno> {
        let lead = (offset % PAGE_SIZE as u64) as usize;
        if lead + size > PIPE_SIZE {
            return Ok(None);
        }
        let Some(pipe) = self.take() else { return Ok(None) };
        let mut held = PipedBytes { pipe: Some(pipe), size: 0, home: Arc::clone(self) };
        let mut place = offset;
        while held.size < size {
            let into = &held.pipe().into;
            let flags = SpliceFlags::NONBLOCK;
            match splice(file, Some(&mut place), into, None, size - held.size, flags) {
                // The file ends, or the pipe takes less than its size.
                Ok(0) | Err(Errno::AGAIN | Errno::INVAL) => return Ok(None),
                Ok(count) => held.size += count,
                Err(Errno::INTR) => {}
                Err(errno) => return Err(errno),
            }
        }
        Ok(Some(Box::new(held)))
    }
}

/// Bytes in a pipe.
#[derive(Debug)]
pub(crate) struct PipedBytes {
    /// None while it is being dropped.
    pipe: Option<Pipe>,
    size: usize,
    home: Arc<Pipes>,
}

impl PipedBytes {
    fn pipe(&self) -> &Pipe {
        self.pipe.as_ref().expect("there until it is dropped")
    }

    /// Moves the next of them to a non-blocking socket, without a copy; how many it took.
    ///
    /// # Errors
    /// As the system says; [`Errno::AGAIN`] where the socket takes nothing for now.
    pub(crate) fn send_to(&mut self, socket: impl AsFd) -> Result<usize, Errno> {
        let from = self.pipe().from.as_fd();
        let sent = splice(from, None, socket, None, self.size, SpliceFlags::NONBLOCK)?;
        assert!(sent <= self.size, "a pipe gives no more than it was asked for");
        self.size -= sent;
        Ok(sent)
    }
}

impl HeldBytes for PipedBytes {
    fn size(&self) -> usize {
        self.size
    }

    fn into_bytes(mut self: Box<Self>) -> Bytes {
        let mut bytes = vec![0; self.size];
        let mut filled = 0;
        // The bytes are there: a pipe of our own neither blocks nor fails.
        while filled < bytes.len()
            && let Ok(count @ 1..) = rustix::io::read(&self.pipe().from, &mut bytes[filled..])
        {
            filled += count;
        }
        bytes.truncate(filled);
        self.size -= filled;
        bytes.into()
    }
}

/// S2.
impl Drop for PipedBytes {
    fn drop(&mut self) {
        if let Some(pipe) = self.pipe.take() {
            self.home.give_back(pipe, self.size == 0);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::{PIPE_SIZE, PIPES_MAX, Pipes};
    use cairn_env::HeldBytes;
    use rustix::io::Errno;
    use std::io::{Read, Write};
    use std::os::unix::net::UnixStream;
    use std::sync::Arc;

    fn file(content: &[u8]) -> std::fs::File {
        let mut file = tempfile::tempfile().expect("a scratch file");
        file.write_all(content).expect("writes");
        file
    }

    #[test]
    fn held_bytes_leave_through_a_socket_and_the_pipe_is_used_again() {
        let content: Vec<u8> = (0..PIPE_SIZE).map(|at| (at / 100) as u8).collect();
        let file = file(&content);
        let pipes = Arc::new(Pipes::within(usize::MAX));
        for _ in 0..3 {
            let mut held = pipes.hold(&file, 5, 400_000).expect("reads").expect("fits");
            let (ours, mut theirs) = UnixStream::pair().expect("a pair");
            ours.set_nonblocking(true).expect("non-blocking");
            let mut arrived = Vec::new();
            let mut buffer = vec![0; 70_000];
            while arrived.len() < 400_000 {
                match held.send_to(&ours) {
                    Ok(_) | Err(Errno::AGAIN) => {}
                    Err(errno) => panic!("{errno}"),
                }
                assert!(held.size() + arrived.len() <= 400_000);
                let count = theirs.read(&mut buffer).expect("reads");
                arrived.extend_from_slice(&buffer[..count]);
            }
            assert!(arrived == content[5..400_005]);
            drop(held);
            let shelf = pipes.shelf();
            assert_eq!((shelf.made, shelf.idle.len()), (1, 1));
        }
    }

    #[test]
    fn what_cannot_be_held_has_to_be_read() {
        let file = file(&[7; 10_000]);
        let pipes = Arc::new(Pipes::within(usize::MAX));
        assert!(pipes.hold(&file, 0, 10_001).expect("no error").is_none(), "the file ends");
        assert!(pipes.hold(&file, 1, PIPE_SIZE).expect("no error").is_none(), "too large");
        let held: Vec<_> = (0..PIPES_MAX)
            .map(|_| pipes.hold(&file, 0, 10_000).expect("reads").expect("fits"))
            .collect();
        assert!(pipes.hold(&file, 0, 10_000).expect("no error").is_none(), "no pipe is left");
        drop(held);
        assert_eq!(pipes.shelf().made, 0, "what was not sent does not come with the next answer");
        let held = pipes.hold(&file, 9_000, 1_000).expect("reads").expect("fits");
        assert_eq!(held.into_bytes(), vec![7; 1_000]);
    }
}
