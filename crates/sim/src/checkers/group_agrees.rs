//! The masters of a group agree: what one has applied, every other applies too, the same at the
//! same place; and nobody but the one primary of a term writes records of that term.
//!
//! ```text
//!   each member's durable log, as its disk was told ──► a majority has it, in the term in which
//!                                                       it was written ──► committed
//! ```
//! - Committed is told by this oracle, never by the masters: an entry of a term that each of a
//!   majority has put on its disk when it had heard of no later term stays for ever (Raft's commit
//!   rule), with all before it. A group of one commits what its disk has.
//! - What a failed append has left is taken to be there once its master starts again.

use bytes::Bytes;
use cairn_consensus::StoredRecord;
use cairn_env_sim::NodeId;
use cairn_format::GroupMark;
use cairn_types::wire::Message;
use cairn_types::{LogIndex, Term};
use std::collections::BTreeMap;

/// A durable entry and the term in which it was written.
#[derive(Clone, Debug, PartialEq, Eq)]
struct LogEntry {
    term: Term,
    /// The latest term that the master had heard of.
    heard: Term,
    bytes: Bytes,
}

/// What a master's disk has for certain.
#[derive(Debug, Default)]
struct MemberDisk {
    /// The latest term that it has heard of.
    term: Term,
    log: BTreeMap<LogIndex, LogEntry>,
    may_have: Vec<(LogIndex, Bytes)>,
}

/// The checker.
#[derive(Debug, Default)]
pub(crate) struct GroupAgrees {
    count: usize,
    disks: BTreeMap<NodeId, MemberDisk>,
    /// The last entry that is committed.
    committed: LogIndex,
    /// All up to it.
    log: BTreeMap<LogIndex, Bytes>,
    /// What has been written at a place in a term, by whomever.
    written: BTreeMap<(LogIndex, Term), Bytes>,
    applied: BTreeMap<LogIndex, Bytes>,
}

impl GroupAgrees {
    /// As reports name it.
    pub(crate) const NAME: &'static str = "group_agrees";

    /// A master of so many has started.
    pub(crate) fn opened(&mut self, node: NodeId, count: usize) {
        self.count = count;
        self.disks.entry(node).or_default();
    }

    /// An append of these entries has failed.
    pub(crate) fn may_have(&mut self, node: NodeId, entries: &[(LogIndex, Bytes)]) {
        if self.count > 1 {
            self.disks.entry(node).or_default().may_have.extend_from_slice(entries);
        }
    }

    /// What failed appends may have left, once.
    pub(crate) fn take_may_have(&mut self, node: NodeId) -> Vec<(LogIndex, Bytes)> {
        self.disks.get_mut(&node).map(|disk| std::mem::take(&mut disk.may_have)).unwrap_or_default()
    }

    /// A master's disk has these entries; gives those that are committed with that.
    pub(crate) fn appended(
        &mut self,
        node: NodeId,
        entries: &[(LogIndex, Bytes)],
    ) -> Result<Vec<Bytes>, String> {
        if self.count <= 1 {
            return Ok(entries.iter().map(|(_, bytes)| bytes.clone()).collect());
        }
        let disk = self.disks.entry(node).or_default();
        for (index, bytes) in entries {
            if *index == LogIndex::default() {
                let mark = GroupMark::decode(bytes).map_err(|error| error.to_string())?;
                disk.term = disk.term.max(mark.term);
                continue;
            }
            let term = StoredRecord::decode(bytes).map_err(|error| error.to_string())?.term;
            let known = self.written.entry((*index, term)).or_insert_with(|| bytes.clone());
            if known != bytes {
                return Err(format!("two masters have written record {index} of term {term}"));
            }
            drop(disk.log.split_off(index));
            let entry = LogEntry { term, heard: disk.term, bytes: bytes.clone() };
            disk.log.insert(*index, entry);
        }
        Ok(self.commit(node))
    }

    /// What is committed now that it was not before.
    fn commit(&mut self, node: NodeId) -> Vec<Bytes> {
        let disk = &self.disks[&node];
        let majority = self.count / 2 + 1;
        let behind = disk.log.range(self.committed.next()..).rev();
        let is_committed = |(index, entry): &(&LogIndex, &LogEntry)| {
            let has = |other: &&MemberDisk| {
                let there = other.log.get(index).map(|there| (there.term, there.heard));
                there == Some((entry.term, entry.term))
            };
            self.disks.values().filter(has).count() >= majority
        };
        let Some(last) = behind.filter(is_committed).map(|(index, _)| *index).next() else {
            return Vec::new();
        };
        let newly = disk.log.range(self.committed.next()..=last);
        let newly: Vec<(LogIndex, Bytes)> =
            newly.map(|(index, entry)| (*index, entry.bytes.clone())).collect();
        self.committed = last;
        self.log.extend(newly.iter().cloned());
        newly.into_iter().map(|(_, bytes)| bytes).collect()
    }

    /// What a checkpoint as of this record stands for.
    ///
    /// # Errors
    /// Where not all of it is committed.
    pub(crate) fn stood_for(&self, index: LogIndex) -> Result<Vec<(LogIndex, Bytes)>, String> {
        if index > self.committed {
            let last = self.committed;
            return Err(format!("record {index} was given as applied; {last} is committed"));
        }
        let all = self.log.range(..=index);
        Ok(all.map(|(index, bytes)| (*index, bytes.clone())).collect())
    }

    /// A master has applied these.
    pub(crate) fn applied(
        &mut self,
        node: NodeId,
        seen: Vec<(LogIndex, Bytes)>,
    ) -> Result<(), String> {
        for (index, bytes) in seen {
            if index > self.committed {
                return Err(format!(
                    "master {} has applied record {index}; {} is the last that is committed",
                    node.0, self.committed
                ));
            }
            if *self.applied.entry(index).or_insert_with(|| bytes.clone()) != bytes {
                return Err(format!("master {} has applied another record {index}", node.0));
            }
        }
        Ok(())
    }
}
