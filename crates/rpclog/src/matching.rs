//! Requests and replies of several machines' logs, put together (GFS §5.3): who asked whom, how
//! long it was on its way, how long it was served.
//!
//! ```text
//!   the asker's log      sent ─────────────────────────────► reply received
//!   the other's log             received ─► reply sent
//!                        ├ there ┤├─ served ─┤├─── back ────┤
//! ```
//! - MT1: both logs name a connection by the addresses of its two ends, and a request by its number
//!   on it: together they are one exchange, and of several of the same name those that lie nearest
//!   in time.
//! - MT2: a side is missed only where the other's log is here and covers that time.

use crate::entry::{LoggedEntry, ROLE_CLIENT, RpcEntry, What};
use crate::nouns::Nouns;
use crate::reading::{ReadError, ServerLife};
use cairn_format::RpcWay;
use cairn_types::ServerId;
use std::collections::BTreeMap;

/// How far apart the two sides' clocks may be, and how far behind the end of a log an entry may be
/// that is not written yet (MT2).
const SLACK_US: u64 = 1_500_000;
/// How far apart in time two sides of one exchange may lie: a connection's addresses are used
/// again after a while.
const APART_MAX_US: u64 = 60_000_000;

/// One side of an exchange, as its log tells it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ExchangeSide {
    /// Who wrote it.
    pub server: ServerId,
    /// Its role.
    pub role: u8,
    /// The request: sent, or received.
    pub asked_us: u64,
    /// The reply: received, or sent; none where the log has none.
    pub replied_us: Option<u64>,
    /// The reply was a failure.
    pub failed: bool,
    /// Who the other side is.
    pub other: ServerId,
    /// The other side's role.
    pub other_role: u8,
    /// The other side's address.
    pub other_address: String,
    /// What the request is about.
    pub nouns: Nouns,
}

/// One request with its reply.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Exchange {
    /// Which rpc.
    pub rpc: u16,
    /// The request's number on its connection.
    pub request: u64,
    /// The asker's side, where its log is here.
    pub asker: Option<ExchangeSide>,
    /// The other's side, where its log is here.
    pub server: Option<ExchangeSide>,
}

impl Exchange {
    /// When it began, by whoever's clock.
    #[must_use]
    pub fn began_us(&self) -> u64 {
        let sides = [&self.asker, &self.server];
        sides.into_iter().flatten().map(|side| side.asked_us).min().unwrap_or_default()
    }

    /// Microseconds there, being served, and back, where both logs tell it; what clocks differ is
    /// in the first and the last.
    #[must_use]
    pub fn times_us(&self) -> Option<(i64, u64, i64)> {
        let (asker, server) = (self.asker.as_ref()?, self.server.as_ref()?);
        let between = |from: u64, to: u64| i64::try_from(i128::from(to) - i128::from(from));
        let (received, sent) = (server.asked_us, server.replied_us?);
        let there = between(asker.asked_us, received).ok()?;
        let back = between(sent, asker.replied_us?).ok()?;
        Some((there, sent.saturating_sub(received), back))
    }
}

/// Why something has no partner.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum LoneReason {
    /// A request without a reply in the same log.
    NoReply,
    /// The asker's log says that it was sent; the other's does not know it.
    NotReceived,
    /// It was received; the asker's log does not know it.
    NotSent,
}

/// An exchange of which a part is missing that should be there.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Lone {
    /// What there is of it.
    pub exchange: Exchange,
    /// What is missing.
    pub reason: LoneReason,
}

/// What the logs tell together.
#[derive(Clone, Debug, Default)]
pub struct Matched {
    /// Exchanges, in the order in which they began.
    pub exchanges: Vec<Exchange>,
    /// Those of which something is missing.
    pub lone: Vec<Lone>,
    /// Exchanges of which the other side's log is not here, or does not go as far.
    pub one_sided: u64,
    /// Entries that servers dropped: what is missing may have been among them.
    pub dropped: u64,
    /// Batches of the logs that could not be read: the same is so.
    pub damaged: u64,
}

/// The two ends of a connection, the dialling one first.
type Ends = (String, String);
/// A side with what it is a side of.
type Known = (Ends, u64, u16, ExchangeSide);

/// What one log tells of time.
struct Cover {
    server: ServerId,
    role: u8,
    first_us: u64,
    last_us: u64,
}

impl Matched {
    /// Of all that these lives tell.
    ///
    /// # Errors
    /// A file cannot be read.
    pub fn of(lives: Vec<ServerLife>) -> Result<Self, ReadError> {
        let mut all = Self::default();
        let (mut asking, mut serving, mut covers) = (Vec::new(), Vec::new(), Vec::new());
        for mut life in lives {
            let mut sides = LifeSides::default();
            while let Some(entry) = life.next_entry()? {
                if let What::Dropped(count) = entry.what {
                    all.dropped += count;
                }
                sides.take(&entry);
            }
            all.damaged += life.damaged();
            covers.extend(sides.cover);
            sides.open.into_values().for_each(|known| sides.done.push(known));
            for (is_asker, known) in sides.done {
                if is_asker { asking.push(known) } else { serving.push(known) }
            }
        }
        all.put_together(asking, serving);
        all.exchanges.sort_by_key(Exchange::began_us);
        all.find_lone(&covers);
        Ok(all)
    }

    fn put_together(&mut self, asking: Vec<Known>, serving: Vec<Known>) {
        let mut others: BTreeMap<(Ends, u64, u16), Vec<ExchangeSide>> = BTreeMap::new();
        for (ends, request, rpc, side) in serving {
            others.entry((ends, request, rpc)).or_default().push(side);
        }
        for (ends, request, rpc, asker) in asking {
            let key = (ends, request, rpc);
            let served = others.get_mut(&key).and_then(|sides| {
                let apart = |side: &ExchangeSide| side.asked_us.abs_diff(asker.asked_us);
                let nearest = (0..sides.len()).min_by_key(|at| apart(&sides[*at]))?;
                (apart(&sides[nearest]) <= APART_MAX_US).then(|| sides.swap_remove(nearest))
            });
            self.exchanges.push(Exchange { rpc, request, asker: Some(asker), server: served });
        }
        for ((_, request, rpc), sides) in others {
            for side in sides {
                self.exchanges.push(Exchange { rpc, request, asker: None, server: Some(side) });
            }
        }
    }

    fn find_lone(&mut self, covers: &[Cover]) {
        for exchange in &self.exchanges {
            let Exchange { asker, server, .. } = exchange;
            let reason = match (asker, server) {
                (Some(side), None) if is_covered(side, covers) => Some(LoneReason::NotReceived),
                (None, Some(side)) if is_covered(side, covers) => Some(LoneReason::NotSent),
                (Some(side), _) | (_, Some(side)) if is_unanswered(side, covers) => {
                    Some(LoneReason::NoReply)
                }
                (Some(_), Some(_)) => None,
                _ => {
                    self.one_sided += 1;
                    None
                }
            };
            if let Some(reason) = reason {
                self.lone.push(Lone { exchange: exchange.clone(), reason });
            }
        }
    }
}

/// Whether the other side's log is here and tells of that time (MT2).
fn is_covered(side: &ExchangeSide, covers: &[Cover]) -> bool {
    let of_other = |cover: &&Cover| {
        side.other_role != ROLE_CLIENT
            && side.other == cover.server
            && side.other_role == cover.role
    };
    let tells = |cover: &Cover| {
        cover.first_us + SLACK_US <= side.asked_us && side.asked_us + SLACK_US <= cover.last_us
    };
    covers.iter().filter(of_other).any(tells)
}

/// Whether a reply should be in the same log, and is not.
fn is_unanswered(side: &ExchangeSide, covers: &[Cover]) -> bool {
    let own = |cover: &&Cover| side.server == cover.server && side.role == cover.role;
    let long_ago = |cover: &Cover| side.asked_us + APART_MAX_US <= cover.last_us;
    side.replied_us.is_none() && covers.iter().filter(own).any(long_ago)
}

/// The sides that one life tells of.
#[derive(Default)]
struct LifeSides {
    open: BTreeMap<(u64, u64), (bool, Known)>,
    done: Vec<(bool, Known)>,
    cover: Option<Cover>,
}

impl LifeSides {
    fn take(&mut self, entry: &LoggedEntry) {
        let writer = entry.writer;
        let cover = self.cover.get_or_insert(Cover {
            server: writer.server,
            role: writer.role,
            first_us: entry.at_us,
            last_us: entry.at_us,
        });
        // A server that joins is told its id then.
        (cover.server, cover.role) = (writer.server, writer.role);
        cover.last_us = cover.last_us.max(entry.at_us);
        let What::Rpc(rpc) = &entry.what else { return };
        let key = (rpc.link, rpc.request);
        match rpc.way {
            RpcWay::RequestReceived | RpcWay::RequestSent => {
                let is_asker = rpc.way == RpcWay::RequestSent;
                if let Some(known) = begun(entry, rpc)
                    && let Some(earlier) = self.open.insert(key, (is_asker, known))
                {
                    self.done.push(earlier);
                }
            }
            RpcWay::ReplySent | RpcWay::ReplyReceived => {
                if let Some((is_asker, mut known)) = self.open.remove(&key) {
                    known.3.replied_us = Some(entry.at_us);
                    known.3.failed = rpc.is_failure;
                    self.done.push((is_asker, known));
                }
            }
        }
    }
}

fn begun(entry: &LoggedEntry, rpc: &RpcEntry) -> Option<Known> {
    let link = rpc.other.as_ref()?;
    let ends = match link.is_dialled {
        true => (link.local.clone(), link.peer.clone()),
        false => (link.peer.clone(), link.local.clone()),
    };
    let side = ExchangeSide {
        server: entry.writer.server,
        role: entry.writer.role,
        asked_us: entry.at_us,
        replied_us: None,
        failed: false,
        other: link.server,
        other_role: link.role,
        other_address: link.peer.clone(),
        nouns: rpc.asked().map(Nouns::of).unwrap_or_default(),
    };
    Some((ends, rpc.request, rpc.rpc, side))
}

#[cfg(test)]
mod tests {
    use super::{LoneReason, Matched};
    use crate::entry::{ROLE_CHUNKSERVER, ROLE_CLIENT, ROLE_MASTER};
    use crate::test_log::TestLog;
    use cairn_format::RpcWay;
    use cairn_protocol::{Heartbeat, Request, Response, Stat, StatAnswer};

    const HOUR_US: u64 = 3_600_000_000;

    fn beat() -> Request {
        Heartbeat::default().into()
    }

    fn answer() -> Response {
        Response::Heartbeat(Box::default())
    }

    /// A master and a chunkserver that dialled it, with the connection in both logs.
    fn two() -> (TestLog, u64, TestLog, u64) {
        let mut master = TestLog::new(1, ROLE_MASTER);
        let mut server = TestLog::new(2, ROLE_CHUNKSERVER);
        let (dialler, listener) = ("10.0.0.2:40000", "10.0.0.1:7400");
        let at_master = master.link_to((false, ROLE_CHUNKSERVER, 2), listener, dialler);
        let at_server = server.link_to((true, ROLE_MASTER, 1), dialler, listener);
        (master, at_master, server, at_server)
    }

    fn ask(server: &mut TestLog, link: u64, number: u64, at_us: u64) {
        server.set_time(at_us);
        server.request(link, number, RpcWay::RequestSent, &beat());
    }

    #[test]
    fn both_sides_of_an_exchange_are_found_with_the_times_between() {
        let (mut master, at_master, mut server, at_server) = two();
        ask(&mut server, at_server, 7, HOUR_US);
        master.set_time(HOUR_US + 100);
        master.request(at_master, 7, RpcWay::RequestReceived, &beat());
        master.set_time(HOUR_US + 400);
        master.reply(at_master, 7, (RpcWay::ReplySent, 42), Ok((answer(), 0)));
        server.set_time(HOUR_US + 450);
        server.reply(at_server, 7, (RpcWay::ReplyReceived, 42), Ok((answer(), 0)));
        let told = Matched::of(vec![master.life(), server.life()]).expect("reads");
        assert_eq!(told.exchanges.len(), 1, "{told:?}");
        assert_eq!(told.exchanges[0].times_us(), Some((100, 300, 50)));
        assert!(told.lone.is_empty() && told.one_sided == 0, "{told:?}");
    }

    #[test]
    fn what_a_log_that_covers_the_time_does_not_know_is_told_and_nothing_else() {
        let (mut master, at_master, mut server, at_server) = two();
        // The master's log begins and ends around the second of these alone.
        master.set_time(HOUR_US);
        master.request(at_master, 90, RpcWay::RequestReceived, &beat());
        ask(&mut server, at_server, 1, 1000);
        ask(&mut server, at_server, 2, 2 * HOUR_US);
        ask(&mut server, at_server, 3, 5 * HOUR_US);
        master.set_time(3 * HOUR_US);
        let client = master.link(ROLE_CLIENT);
        let stat = Response::Stat(StatAnswer::default());
        master.exchange(client, &Stat::default().into(), Ok((stat, 0)));
        let told = Matched::of(vec![master.life(), server.life()]).expect("reads");
        let lone: Vec<_> =
            told.lone.iter().map(|lone| (lone.exchange.request, lone.reason)).collect();
        let expected =
            [(1, LoneReason::NoReply), (90, LoneReason::NotSent), (2, LoneReason::NotReceived)];
        assert_eq!(lone, expected);
        assert_eq!(told.one_sided, 2, "the last request, and the client's");
    }

    #[test]
    fn what_was_dropped_or_damaged_in_any_log_is_told() {
        let (mut master, _, server, _) = two();
        master.drop_entries(5);
        let told = Matched::of(vec![master.torn_life(), server.torn_life()]).expect("reads");
        assert_eq!((told.dropped, told.damaged), (5, 2));
    }
}
