//! How full servers are beside one another: what each stores, and what its fair share of all would
//! be (GFS §4.3).
//!
//! What Cairn stores is compared, not what a disk has used: servers may share a disk, and others
//! may use it.

use crate::fleet::KnownServer;
use crate::view::View;
use cairn_types::ServerId;
use std::collections::BTreeMap;

/// Bytes of chunks in millionths of a server's capacity; where that is not told, the bytes.
pub(crate) fn use_ppm(server: &KnownServer) -> u64 {
    ppm(server.report.stored, server.capacity)
}

fn ppm(stored: u64, capacity: u64) -> u64 {
    if capacity == 0 {
        return stored;
    }
    let ppm = u128::from(stored) * 1_000_000 / u128::from(capacity);
    u64::try_from(ppm).unwrap_or(u64::MAX)
}

/// One server beside the others. Bytes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct ServerShare {
    pub(crate) stored: u64,
    /// What it would store if all were equally full.
    pub(crate) fair: u64,
    /// How far from that is near enough.
    slack: u64,
}

impl ServerShare {
    /// Bytes that it has too many; zero where it is near enough to its share.
    pub(crate) fn excess(&self) -> u64 {
        let excess = self.stored.saturating_sub(self.fair);
        if excess > self.slack { excess } else { 0 }
    }

    /// Bytes that it has too few; zero where it is near enough to its share.
    pub(crate) fn deficit(&self) -> u64 {
        let deficit = self.fair.saturating_sub(self.stored);
        if deficit > self.slack { deficit } else { 0 }
    }
}

/// Every server that chunks may be placed on, beside the others: `threshold` in thousandths of its
/// share, or a chunk, is near enough. `moving` says what is on its way to a server, and away.
pub(crate) fn shares(
    view: &View<'_>,
    threshold_permille: u64,
    moving: &BTreeMap<ServerId, (u64, u64)>,
) -> BTreeMap<ServerId, ServerShare> {
    let chunk = view.term.config.chunk_size;
    let live = view.fleet.servers().live(view.now.time);
    let there = live.filter(|it| {
        let is_taker = it.inventoried.is_some() && !it.reach.is_unreached();
        is_taker && !view.state.known_servers().duties().is_draining(it.at.server)
    });
    // Where one has not told its capacity, all count alike.
    let all: Vec<(ServerId, u64, u64)> = there
        .map(|it| {
            let (to, away) = moving.get(&it.at.server).copied().unwrap_or_default();
            let stored = it.report.stored.saturating_add(to).saturating_sub(away);
            (it.at.server, stored, it.capacity)
        })
        .collect();
    let told = all.iter().all(|(.., capacity)| *capacity > 0);
    let weight = |capacity: u64| u128::from(if told { capacity } else { 1 });
    let weights: u128 = all.iter().map(|(.., capacity)| weight(*capacity)).sum();
    let stored_all: u128 = all.iter().map(|(_, stored, _)| u128::from(*stored)).sum();
    let share = |(server, stored, capacity): (ServerId, u64, u64)| {
        let fair = stored_all * weight(capacity) / weights.max(1);
        let fair = u64::try_from(fair).unwrap_or(u64::MAX);
        let slack =
            (u128::from(fair) * u128::from(threshold_permille) / 1000).max(u128::from(chunk));
        let slack = u64::try_from(slack).unwrap_or(u64::MAX);
        (server, ServerShare { stored, fair, slack })
    };
    all.into_iter().map(share).collect()
}

/// Bytes that are to be moved until all are near enough to their share.
pub(crate) fn out_of_place(shares: &BTreeMap<ServerId, ServerShare>) -> u64 {
    let sum = |of: fn(&ServerShare) -> u64| shares.values().map(of).fold(0, u64::saturating_add);
    sum(ServerShare::excess).max(sum(ServerShare::deficit))
}

#[cfg(test)]
mod tests {
    use super::{ServerShare, out_of_place, ppm};
    use cairn_types::ServerId;
    use std::collections::BTreeMap;

    #[test]
    fn what_is_stored_is_measured_against_the_capacity() {
        assert_eq!([ppm(5, 10), ppm(0, 10), ppm(7, 0)], [500_000, 0, 7]);
        assert_eq!(ppm(u64::MAX, 1), u64::MAX);
    }

    #[test]
    fn who_is_near_enough_to_its_share_has_neither_too_much_nor_too_little() {
        let share = |stored| ServerShare { stored, fair: 100, slack: 10 };
        assert_eq!((share(110).excess(), share(90).deficit()), (0, 0));
        assert_eq!((share(111).excess(), share(111).deficit()), (11, 0));
        assert_eq!((share(60).excess(), share(60).deficit()), (0, 40));
        let all = [111, 60, 100].into_iter().enumerate();
        let all: BTreeMap<ServerId, ServerShare> =
            all.map(|(id, stored)| (ServerId::new(id as u64), share(stored))).collect();
        assert_eq!(out_of_place(&all), 40);
    }
}
