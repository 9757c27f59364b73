//! Names that the rooms of the network have for each other's things, and epoll for all of them.

use cairn_env::ConnectionId;

/// One dialled connection; never used again within a process's life.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct OutboundId(pub(crate) u64);

/// One push on its way through this server.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct RelayId(pub(crate) u64);

/// What epoll tells of.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum EpollToken {
    /// Somebody has put something into a mailbox.
    Waker,
    /// Connections wait to be accepted.
    Listener,
    /// An accepted connection.
    Inbound(ConnectionId),
    /// A dialled connection, or the look-up of its name.
    Outbound(OutboundId),
}

const KIND_BITS: u32 = 2;
const NUMBER_MAX: u64 = u64::MAX >> KIND_BITS;

impl EpollToken {
    /// As epoll keeps it.
    pub(crate) fn to_u64(self) -> u64 {
        let (kind, number) = match self {
            Self::Waker => (0, 0),
            Self::Listener => (1, 0),
            Self::Inbound(id) => (2, id.0),
            Self::Outbound(id) => (3, id.0),
        };
        assert!(number <= NUMBER_MAX, "fewer connections than that in any life");
        number << KIND_BITS | kind
    }

    /// What [`to_u64`](Self::to_u64) gave.
    pub(crate) fn from_u64(raw: u64) -> Self {
        let number = raw >> KIND_BITS;
        match raw & ((1 << KIND_BITS) - 1) {
            0 => Self::Waker,
            1 => Self::Listener,
            2 => Self::Inbound(ConnectionId(number)),
            _ => Self::Outbound(OutboundId(number)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::{EpollToken, OutboundId};
    use cairn_env::ConnectionId;

    #[test]
    fn a_token_comes_back_from_epoll_as_it_went() {
        let inbound =
            [1, 77, u64::MAX >> 2].map(|number| EpollToken::Inbound(ConnectionId(number)));
        let outbound = [1, 77].map(|number| EpollToken::Outbound(OutboundId(number)));
        for token in
            [EpollToken::Waker, EpollToken::Listener].into_iter().chain(inbound).chain(outbound)
        {
            assert_eq!(EpollToken::from_u64(token.to_u64()), token);
        }
    }
}
