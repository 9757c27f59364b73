//! A group of one member: the real consensus code, with nobody to wait for but the disk.
//!
//! ```text
//!   start: last durable record (index, term) ──► campaign ──► leader of term + 1
//!   propose ─► unsynced ─take─► batch ─(disk)─► durable ─► committed
//! ```
//! - Q1: every start begins a new term. The term is used once its first record is durable: a term
//!   of which nothing is durable has shown itself to nobody, and may be begun again.
//! - Q2: a record is committed only when it is durable here, a majority of one.
//! - Q3: committed records come out in the order of their indices, each once.
//!
//! All that was durable at the start is committed, because one member is a majority; so a vote or
//! a commit index need no place on disk. A group of several will need both.

use crate::stored::StoredRecord;
use bytes::Bytes;
use cairn_types::wire::Message;
use cairn_types::{LogIndex, Term};
use raft::prelude::{ConfState, Config, Entry, Snapshot};
use raft::storage::MemStorage;
use raft::{RawNode, StateRole};

/// The only member.
const MEMBER: u64 = 1;
/// Ticks until a member without a leader stands for election; nothing ticks in a group of one.
const ELECTION_TICKS: usize = 10;

/// Why the group refuses.
#[derive(Debug, thiserror::Error)]
pub enum ConsensusError {
    /// The library refuses.
    #[error("consensus: {0}")]
    Library(#[from] raft::Error),
    /// This member is not the leader.
    #[error("consensus: not elected by a group of one")]
    NotElected,
}

/// Records to be made durable together.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LogBatch {
    /// Given back to [`Consensus::durable`].
    pub number: u64,
    /// Where each stands in the log, and its bytes: a [`StoredRecord`].
    pub records: Vec<(LogIndex, Bytes)>,
}

/// One committed record.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CommittedRecord {
    /// Where it stands in the log.
    pub index: LogIndex,
    /// The term in which it was proposed.
    pub term: Term,
    /// The record; empty where the library made the entry.
    pub data: Bytes,
}

/// The member, and through it the group.
pub struct Consensus {
    node: RawNode<MemStorage>,
    /// Taken from the library, not yet by the disk.
    unsynced: Vec<(LogIndex, Bytes)>,
    /// The library's number for the latest of them.
    number: u64,
    committed: Vec<CommittedRecord>,
}

impl std::fmt::Debug for Consensus {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let unsynced = self.unsynced.len();
        f.debug_struct("Consensus")
            .field("term", &self.term())
            .field("unsynced", &unsynced)
            .finish()
    }
}

impl Consensus {
    /// Starts the group where its last durable record stands (zeros: an empty log), and wins the
    /// election to a new term (Q1).
    ///
    /// # Errors
    /// [`ConsensusError`] when the library refuses.
    pub fn start(last: (LogIndex, Term)) -> Result<Self, ConsensusError> {
        let (index, term) = (last.0.get(), last.1.get());
        let storage = MemStorage::new_with_conf_state((vec![MEMBER], vec![]));
        if index > 0 {
            let mut snapshot = Snapshot::default();
            let metadata = snapshot.mut_metadata();
            metadata.index = index;
            metadata.term = term;
            metadata.set_conf_state(ConfState::from((vec![MEMBER], vec![])));
            storage.wl().apply_snapshot(snapshot)?;
        }
        let config = Config {
            id: MEMBER,
            election_tick: ELECTION_TICKS,
            // The library draws a time-out from its own randomness: leave it one to draw.
            min_election_tick: ELECTION_TICKS,
            max_election_tick: ELECTION_TICKS + 1,
            heartbeat_tick: 1,
            applied: index,
            max_size_per_msg: u64::MAX,
            ..Config::default()
        };
        let quiet = slog::Logger::root(slog::Discard, slog::o!());
        let mut node = RawNode::new(&config, storage, &quiet)?;
        node.campaign()?;
        if node.raft.state != StateRole::Leader {
            return Err(ConsensusError::NotElected);
        }
        let (unsynced, committed) = (Vec::new(), Vec::new());
        let mut group = Self { node, unsynced, number: 0, committed };
        group.pump()?;
        Ok(group)
    }

    /// This term.
    #[must_use]
    pub fn term(&self) -> Term {
        Term::new(self.node.raft.term)
    }

    /// Puts a record at the end of the log and tells where it will stand.
    ///
    /// # Errors
    /// [`ConsensusError`] when this member cannot.
    pub fn propose(&mut self, record: Vec<u8>) -> Result<LogIndex, ConsensusError> {
        self.node.propose(Vec::new(), record)?;
        Ok(LogIndex::new(self.node.raft.raft_log.last_index()))
    }

    /// What has been proposed since the last time and must be made durable; none where nothing.
    ///
    /// # Errors
    /// [`ConsensusError`] when the library refuses.
    pub fn take(&mut self) -> Result<Option<LogBatch>, ConsensusError> {
        self.pump()?;
        if self.unsynced.is_empty() {
            return Ok(None);
        }
        Ok(Some(LogBatch { number: self.number, records: std::mem::take(&mut self.unsynced) }))
    }

    /// The batch of this number, and all before it, are durable (Q2).
    ///
    /// # Errors
    /// [`ConsensusError`] when the library refuses.
    pub fn durable(&mut self, number: u64) -> Result<(), ConsensusError> {
        self.node.on_persist_ready(number);
        self.pump()
    }

    /// What is committed and was not yet handed out, in order (Q3). The caller applies it at once.
    ///
    /// # Errors
    /// [`ConsensusError`] when the library refuses.
    pub fn committed(&mut self) -> Result<Vec<CommittedRecord>, ConsensusError> {
        let committed = std::mem::take(&mut self.committed);
        if let Some(last) = committed.last() {
            let index = last.index.get();
            self.node.advance_apply_to(index);
            // Nobody will ask for older ones: there is no member to send them to.
            self.node.raft.mut_store().wl().compact(index)?;
        }
        Ok(committed)
    }

    /// Takes over whatever the library has ready.
    fn pump(&mut self) -> Result<(), ConsensusError> {
        while self.node.has_ready() {
            let mut ready = self.node.ready();
            self.committed.extend(ready.take_committed_entries().into_iter().map(committed));
            let entries = ready.take_entries();
            self.unsynced.extend(entries.iter().map(to_store));
            self.node.raft.mut_store().wl().append(&entries)?;
            if let Some(state) = ready.hs() {
                self.node.raft.mut_store().wl().set_hardstate(state.clone());
            }
            self.number = ready.number();
            self.node.advance_append_async(ready);
        }
        Ok(())
    }
}

fn to_store(entry: &Entry) -> (LogIndex, Bytes) {
    let data = Bytes::copy_from_slice(entry.get_data());
    let stored = StoredRecord { term: Term::new(entry.get_term()), data };
    (LogIndex::new(entry.get_index()), stored.to_bytes().into())
}

fn committed(mut entry: Entry) -> CommittedRecord {
    CommittedRecord {
        index: LogIndex::new(entry.get_index()),
        term: Term::new(entry.get_term()),
        data: Bytes::from(entry.take_data().to_vec()),
    }
}

#[cfg(test)]
mod tests {
    use super::{CommittedRecord, Consensus};
    use cairn_types::{LogIndex, Term};

    const EMPTY: (LogIndex, Term) = (LogIndex::new(0), Term::new(0));

    fn drain(group: &mut Consensus) -> Vec<CommittedRecord> {
        while let Some(batch) = group.take().expect("takes") {
            group.durable(batch.number).expect("goes on");
        }
        group.committed().expect("hands out")
    }

    #[test]
    fn a_record_is_committed_when_it_is_durable_and_not_before() {
        let mut group = Consensus::start(EMPTY).expect("starts");
        let index = group.propose(b"one".to_vec()).expect("proposes");
        let batch = group.take().expect("takes").expect("a batch");
        assert_eq!(batch.records.last().map(|record| record.0), Some(index));
        assert_eq!(group.committed().expect("hands out"), [], "Q2");
        group.durable(batch.number).expect("goes on");
        let committed = group.committed().expect("hands out");
        assert_eq!(committed.last().map(|c| &c.data[..]), Some(&b"one"[..]));
        assert_eq!(group.take().expect("takes"), None);
    }

    #[test]
    fn what_is_proposed_during_a_flush_goes_with_the_next_one() {
        let mut group = Consensus::start(EMPTY).expect("starts");
        let first = group.take().expect("takes").expect("the term's own entry");
        for record in [b"a", b"b", b"c"] {
            group.propose(record.to_vec()).expect("proposes");
        }
        let second = group.take().expect("takes").expect("a batch");
        assert_eq!(second.records.len(), 3);
        group.durable(first.number).expect("goes on");
        assert_eq!(group.committed().expect("hands out").len(), 1);
        group.durable(second.number).expect("goes on");
        let indices: Vec<u64> =
            group.committed().expect("hands out").iter().map(|c| c.index.get()).collect();
        assert_eq!(indices, [2, 3, 4], "Q3");
    }

    #[test]
    fn every_start_begins_a_new_term_behind_the_last_durable_record() {
        let mut last = EMPTY;
        for term in 1..5 {
            let mut group = Consensus::start(last).expect("starts");
            assert_eq!(group.term(), Term::new(term), "Q1");
            for _ in 0..50 {
                group.propose(b"x".to_vec()).expect("proposes");
            }
            let committed = drain(&mut group);
            assert_eq!(committed.first().map(|c| c.index), Some(last.0.next()));
            assert_eq!(committed.len(), 51);
            last = committed.last().map(|c| (c.index, c.term)).expect("51 of them");
        }
    }
}
