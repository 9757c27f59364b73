//! One non-blocking socket in epoll, with its halves: a reader of frames and a queue of bytes.

use crate::frame_reader::{Arrival, Ended, Expecting, FrameReader, ReadBuffers};
use crate::ids::EpollToken;
use crate::out_queue::OutQueue;
use crate::poller::Poller;
use rustix::event::epoll::EventFlags;
use rustix::fd::OwnedFd;
use rustix::io::Errno;
use rustix::net::{Shutdown, getpeername, shutdown};
use std::net::SocketAddr;

/// A socket.
#[derive(Debug)]
pub(crate) struct Wire {
    socket: OwnedFd,
    token: EpollToken,
    reader: FrameReader,
    pub(crate) out: OutQueue,
    /// What epoll watches for now.
    interest: EventFlags,
}

impl Wire {
    /// A socket that stands in epoll from now on.
    pub(crate) fn new(
        poller: &Poller,
        socket: OwnedFd,
        token: EpollToken,
        expecting: Expecting,
        interest: EventFlags,
    ) -> Result<Self, Errno> {
        poller.add(&socket, token, interest)?;
        let (reader, out) = (FrameReader::new(expecting), OutQueue::default());
        Ok(Self { socket, token, reader, out, interest })
    }

    /// The socket itself.
    pub(crate) fn socket(&self) -> &OwnedFd {
        &self.socket
    }

    /// Who is at its other end, where the system says so and it is another machine's or process's
    /// address.
    pub(crate) fn peer(&self) -> Option<SocketAddr> {
        getpeername(&self.socket).ok().flatten().and_then(|address| address.try_into().ok())
    }

    /// Takes another socket in the place of this one, of which nothing was read or written.
    pub(crate) fn replace(
        &mut self,
        poller: &Poller,
        socket: OwnedFd,
        interest: EventFlags,
    ) -> Result<(), Errno> {
        assert_eq!(self.out.queued(), 0, "nothing was said on the socket before");
        let added = poller.add(&socket, self.token, interest);
        // The old one may be open elsewhere (a look-up's thread), so closing is not enough. Where
        // it is not in epoll any more, it need not be taken out.
        let _ = poller.remove(&self.socket);
        (self.socket, self.interest) = (socket, interest);
        added
    }

    /// Reads what is there, up to `limit`; whether the socket was empty then.
    ///
    /// # Errors
    /// The connection has ended; what had arrived whole is in `arrivals`.
    pub(crate) fn receive(
        &mut self,
        limit: usize,
        buffers: &mut ReadBuffers,
        arrivals: &mut Vec<Arrival>,
    ) -> Result<bool, Ended> {
        self.reader.receive(&self.socket, limit, buffers, arrivals)
    }

    /// Bytes that the frame at hand will have; see [`FrameReader::announced`].
    pub(crate) fn announced(&self) -> usize {
        self.reader.announced()
    }

    /// How many of them are here.
    pub(crate) fn arrived(&self) -> usize {
        self.reader.arrived()
    }

    /// Bytes that went either way, ever.
    pub(crate) fn moved(&self) -> u64 {
        self.reader.received() + self.out.written()
    }

    /// Throws away some of what is there.
    ///
    /// # Errors
    /// The connection has ended.
    pub(crate) fn discard(&mut self, buffers: &mut ReadBuffers) -> Result<(), Ended> {
        buffers.discard(&self.socket)
    }

    /// Writes as much as the kernel takes.
    ///
    /// # Errors
    /// The connection is broken.
    pub(crate) fn flush(&mut self) -> Result<(), Errno> {
        self.out.flush(&self.socket)
    }

    /// Nothing more will be written.
    pub(crate) fn end_writing(&self) {
        // It fails only where the other side is gone already.
        let _ = shutdown(&self.socket, Shutdown::Write);
    }

    /// Has epoll watch for this, where it does not yet.
    pub(crate) fn watch(&mut self, poller: &mut Poller, wanted: EventFlags) -> Result<(), Errno> {
        if wanted == self.interest {
            return Ok(());
        }
        self.interest = wanted;
        poller.change(&self.socket, self.token, wanted)
    }

    /// What epoll watches for where both ways are open: an end that comes with the last bytes is
    /// told beside them.
    pub(crate) fn both_ways(&self, reads: bool) -> EventFlags {
        let mut flags = EventFlags::empty();
        flags.set(EventFlags::IN | EventFlags::RDHUP, reads);
        flags.set(EventFlags::OUT, self.out.size() > 0);
        flags
    }

    #[cfg(test)]
    pub(crate) fn is_read(&self) -> bool {
        self.interest.contains(EventFlags::IN)
    }
}
