//! Bad blocks that clients report (R31): hints, handed to the server, which verifies by itself.

use cairn_protocol::{DoubtedBlock, ReportBadBlock};
use cairn_types::{ChunkHandle, ServerId};
use std::collections::BTreeMap;

/// Hints that wait for one server; what comes beyond is dropped, readers will report it again.
const WAITING_MAX: usize = 64;

/// What clients reported.
#[derive(Debug, Default)]
pub(super) struct Hints {
    /// To be handed over with the next heartbeat.
    waiting: BTreeMap<ServerId, Vec<DoubtedBlock>>,
    /// How often, for people.
    counts: BTreeMap<(ChunkHandle, ServerId), u64>,
}

impl Hints {
    pub(super) fn note(&mut self, hint: &ReportBadBlock) {
        *self.counts.entry((hint.handle, hint.server)).or_default() += 1;
        let block = DoubtedBlock { handle: hint.handle, offset: hint.offset };
        let waiting = self.waiting.entry(hint.server).or_default();
        if waiting.len() < WAITING_MAX && !waiting.contains(&block) {
            waiting.push(block);
        }
    }

    pub(super) fn take(&mut self, server: ServerId) -> Vec<DoubtedBlock> {
        self.waiting.remove(&server).unwrap_or_default()
    }

    pub(super) fn count(&self, handle: ChunkHandle, server: ServerId) -> u64 {
        self.counts.get(&(handle, server)).copied().unwrap_or(0)
    }
}

#[cfg(test)]
mod tests {
    use super::Hints;
    use cairn_protocol::ReportBadBlock;
    use cairn_types::{ChunkHandle, ServerId};

    #[test]
    fn a_hint_is_handed_over_once_however_often_it_came() {
        let mut hints = Hints::default();
        let (handle, server) = (ChunkHandle::new(3), ServerId::new(1));
        let hint = ReportBadBlock { handle, server, offset: 64, ..ReportBadBlock::default() };
        hints.note(&hint);
        hints.note(&hint);
        assert_eq!(hints.count(handle, server), 2);
        assert_eq!(hints.take(server).len(), 1);
        assert_eq!(hints.take(server), []);
    }
}
