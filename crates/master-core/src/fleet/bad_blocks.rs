//! Bad blocks that clients report (R31): hints, handed to the server, which verifies by itself.
//!
//! - X1: whatever clients send, what is kept is bounded: only of replicas that are known, so many
//!   hints for each server, so many counts.

use cairn_protocol::{DoubtedBlock, ReportBadBlock};
use cairn_types::{ChunkHandle, ServerId};
use std::collections::BTreeMap;

/// Hints that wait for one server; what comes beyond is dropped, readers will report it again.
const WAITING_MAX: usize = 64;
/// Replicas whose reports are counted; they are counted for people alone.
const COUNTED_MAX: usize = 4096;

/// What clients reported.
#[derive(Debug, Default)]
pub(crate) struct BadBlockHints {
    /// To be handed over with the next heartbeat.
    waiting: BTreeMap<ServerId, Vec<DoubtedBlock>>,
    /// How often, for people.
    counts: BTreeMap<(ChunkHandle, ServerId), u64>,
}

impl BadBlockHints {
    /// Takes a hint about a replica that the caller knows to be there (X1).
    pub(crate) fn note(&mut self, hint: &ReportBadBlock) {
        let replica = (hint.handle, hint.server);
        if self.counts.len() < COUNTED_MAX || self.counts.contains_key(&replica) {
            *self.counts.entry(replica).or_default() += 1;
        }
        let block = DoubtedBlock { handle: hint.handle, offset: hint.offset };
        let waiting = self.waiting.entry(hint.server).or_default();
        if waiting.len() < WAITING_MAX && !waiting.contains(&block) {
            waiting.push(block);
        }
    }

    pub(crate) fn take(&mut self, server: ServerId) -> Vec<DoubtedBlock> {
        self.waiting.remove(&server).unwrap_or_default()
    }

    /// There is no such chunk any more.
    pub(crate) fn forget(&mut self, handle: ChunkHandle) {
        let first = (handle, ServerId::default());
        let of_it = self.counts.range(first..).take_while(|((of, _), _)| *of == handle);
        for replica in of_it.map(|(replica, _)| *replica).collect::<Vec<_>>() {
            self.counts.remove(&replica);
        }
    }

    pub(crate) fn count(&self, handle: ChunkHandle, server: ServerId) -> u64 {
        self.counts.get(&(handle, server)).copied().unwrap_or(0)
    }
}

#[cfg(test)]
mod tests {
    use super::{BadBlockHints, COUNTED_MAX, WAITING_MAX};
    use cairn_protocol::ReportBadBlock;
    use cairn_types::{ChunkHandle, ServerId};

    #[test]
    fn a_hint_is_handed_over_once_however_often_it_came() {
        let mut hints = BadBlockHints::default();
        let (handle, server) = (ChunkHandle::new(3), ServerId::new(1));
        let hint = ReportBadBlock { handle, server, offset: 64, ..ReportBadBlock::default() };
        hints.note(&hint);
        hints.note(&hint);
        assert_eq!(hints.count(handle, server), 2);
        assert_eq!(hints.take(server).len(), 1);
        assert_eq!(hints.take(server), []);
    }

    #[test]
    fn counts_and_hints_have_an_end() {
        let mut hints = BadBlockHints::default();
        for at in 0..2 * COUNTED_MAX as u64 {
            let (handle, server) = (ChunkHandle::new(at), ServerId::new(1));
            hints.note(&ReportBadBlock { handle, server, ..ReportBadBlock::default() });
        }
        assert_eq!(hints.counts.len(), COUNTED_MAX);
        assert_eq!(hints.take(ServerId::new(1)).len(), WAITING_MAX);
    }
}
