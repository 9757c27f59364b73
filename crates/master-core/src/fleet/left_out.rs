//! Sets that went on without a server: news that it is told of until it says that it heeded them,
//! so that it serves no reader what others have changed since (§4.5).
//!
//! ```text
//!   SetVersion logged ──► replicas below it ──► news of their servers ──► heartbeat's answer
//!                                                      ▲                        │
//!                                                      └─ told again unless heeded ─┘
//! ```
//! - N1: numbers rise for as long as this master reigns, over all servers: a word on what was
//!   heeded that comes late never counts for later news.
//! - N2: what waits for one server is bounded; a server with more than that joins anew, and until
//!   it has, it serves nobody whose location is older (`standing.rs` of the chunkserver).

use cairn_protocol::LeftOut;
use cairn_types::ServerId;
use std::collections::{BTreeMap, VecDeque};

/// News that wait for one server (N2).
const WAITING_MAX: usize = 65_536;
/// News in one answer: some 40 kB.
const TOLD_MAX: usize = 2_048;

/// What is told with one answer.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct ServerNews {
    pub(crate) left_out: Vec<LeftOut>,
    /// The number of the last of them.
    pub(crate) last: u64,
    /// There were more than are kept: the server joins anew.
    pub(crate) lost: bool,
}

/// What waits for one server.
#[derive(Debug, Default)]
struct WaitingNews {
    /// In order of their numbers.
    waiting: VecDeque<(u64, LeftOut)>,
    lost: bool,
}

/// What waits for all servers.
#[derive(Debug, Default)]
pub(crate) struct LeftOutNews {
    /// The last number that was given (N1).
    last: u64,
    servers: BTreeMap<ServerId, WaitingNews>,
}

impl LeftOutNews {
    /// A set goes on without this server.
    pub(crate) fn note(&mut self, server: ServerId, set: LeftOut) {
        let news = self.servers.entry(server).or_default();
        if news.waiting.len() == WAITING_MAX {
            (news.waiting, news.lost) = (VecDeque::new(), true);
        }
        if !news.lost {
            self.last += 1;
            news.waiting.push_back((self.last, set));
        }
        assert!(news.waiting.len() <= WAITING_MAX, "no more wait than may (N2)");
    }

    /// What the server is told now that has heeded all up to a number.
    pub(crate) fn tell(&mut self, server: ServerId, heeded: u64) -> ServerNews {
        let Some(news) = self.servers.get_mut(&server) else { return ServerNews::default() };
        while news.waiting.front().is_some_and(|(number, _)| *number <= heeded) {
            news.waiting.pop_front();
        }
        let told = news.waiting.iter().take(TOLD_MAX);
        let last = told.clone().next_back().map_or(0, |(number, _)| *number);
        let left_out = told.map(|(_, set)| *set).collect();
        let told = ServerNews { left_out, last, lost: news.lost };
        assert!(last > heeded || told.left_out.is_empty(), "what was heeded is told no more (N1)");
        if news.waiting.is_empty() && !news.lost {
            self.servers.remove(&server);
        }
        told
    }

    /// The server joins anew, or never will: locations that readers have of it are void.
    pub(crate) fn forget(&mut self, server: ServerId) {
        self.servers.remove(&server);
    }
}

#[cfg(test)]
mod tests {
    use super::{LeftOutNews, ServerNews, TOLD_MAX, WAITING_MAX};
    use cairn_protocol::LeftOut;
    use cairn_types::{ChunkHandle, ChunkVersion, ServerId};

    const SERVER: ServerId = ServerId::new(1);

    fn set(handle: u64) -> LeftOut {
        LeftOut { handle: ChunkHandle::new(handle), version: ChunkVersion::new(9) }
    }

    #[test]
    fn news_are_told_until_they_are_heeded() {
        let mut news = LeftOutNews::default();
        news.note(SERVER, set(1));
        news.note(ServerId::new(2), set(1));
        let told = news.tell(SERVER, 0);
        assert_eq!(told.left_out, [set(1)]);
        news.note(SERVER, set(2));
        assert_eq!(news.tell(SERVER, 0).left_out, [set(1), set(2)], "that answer was lost");
        let rest = news.tell(SERVER, told.last);
        assert_eq!(rest.left_out, [set(2)]);
        assert_eq!(news.tell(SERVER, rest.last), ServerNews::default());
    }

    #[test]
    fn a_late_word_on_what_was_heeded_counts_for_no_later_news() {
        let mut news = LeftOutNews::default();
        news.note(SERVER, set(1));
        let before = news.tell(SERVER, 0).last;
        news.forget(SERVER);
        news.note(SERVER, set(2));
        assert_eq!(news.tell(SERVER, before).left_out, [set(2)]);
    }

    #[test]
    fn a_server_with_too_many_news_joins_anew() {
        let mut news = LeftOutNews::default();
        (0..=WAITING_MAX as u64).for_each(|handle| news.note(SERVER, set(handle)));
        assert!(news.tell(SERVER, 0).lost);
        news.forget(SERVER);
        (0..=TOLD_MAX as u64).for_each(|handle| news.note(SERVER, set(handle)));
        let told = news.tell(SERVER, 0);
        assert_eq!((told.left_out.len(), told.lost), (TOLD_MAX, false));
    }
}
