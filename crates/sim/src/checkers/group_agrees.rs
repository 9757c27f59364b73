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
//! - Who votes stands in the log: the changes of members up to what is committed say so, and in a
//!   step of several a majority of those who go is needed beside one of those who stay. Whoever is
//!   in charge may have counted the votes for what follows the beginning of a step before it
//!   applied that: until the step ends, a majority as it was before does, too.
//! - What a failed append has left counts once its master starts again, if it is there then.
//! - A disk that was emptied has nothing any more, and whoever had it is no member (R25). What it
//!   had counts all the same towards what others have (masters seed 3093): it may have said so
//!   before, and no majority is found without it that none of the others is of.

use bytes::Bytes;
use cairn_consensus::StoredRecord;
use cairn_env_sim::NodeId;
use cairn_format::GroupMark;
use cairn_types::wire::Message;
use cairn_types::{LogIndex, MemberStanding, Members, ServerId, Term};
use std::collections::{BTreeMap, BTreeSet};

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
    /// Whose it is.
    id: ServerId,
    /// The latest term that it has heard of.
    term: Term,
    log: BTreeMap<LogIndex, LogEntry>,
    may_have: Vec<(LogIndex, Bytes)>,
}

/// The checker.
#[derive(Debug, Default)]
pub(crate) struct GroupAgrees {
    in_group: bool,
    disks: BTreeMap<NodeId, MemberDisk>,
    /// What disks had that were emptied, as long as it may decide anything.
    emptied: Vec<MemberDisk>,
    /// The members as what is committed says, and as they were before the last change.
    members: Members,
    members_before: Members,
    /// The last entry that is committed.
    committed: LogIndex,
    /// All up to it.
    log: BTreeMap<LogIndex, Bytes>,
    /// What has been written at a place in a term, by whomever.
    written: BTreeMap<(LogIndex, Term), Bytes>,
}

impl GroupAgrees {
    /// As reports name it.
    pub(crate) const NAME: &'static str = "group_agrees";

    /// A master has started, as this member; of a group, if there is one.
    pub(crate) fn opened(&mut self, node: NodeId, id: ServerId, group: Option<&Members>) {
        self.disks.entry(node).or_default().id = id;
        let Some(members) = group else { return };
        if !self.in_group {
            self.in_group = true;
            self.members = members.clone();
            self.members_before = members.clone();
        }
    }

    /// A master's disk has nothing any more.
    pub(crate) fn emptied(&mut self, node: NodeId) {
        self.emptied.extend(self.disks.remove(&node));
        let committed = self.committed;
        self.emptied.retain(|disk| disk.log.range(committed.next()..).next().is_some());
    }

    /// Who votes, in the group's own words: those of each of the two groups of a step.
    fn voters(members: &Members) -> [BTreeSet<ServerId>; 2] {
        use MemberStanding::{Entering, Leaving, Voter};
        [[Voter, Leaving], [Voter, Entering]].map(|votes| {
            let votes = |standing: MemberStanding| votes.contains(&standing);
            let voters = members.all.iter().filter(|member| votes(member.standing));
            voters.map(|member| member.id).collect()
        })
    }

    /// An append of these entries has failed.
    pub(crate) fn may_have(&mut self, node: NodeId, entries: &[(LogIndex, Bytes)]) {
        if self.in_group {
            self.disks.entry(node).or_default().may_have.extend_from_slice(entries);
        }
    }

    /// Whether a master's appends have failed since it started.
    pub(crate) fn is_doubtful(&self, node: NodeId) -> bool {
        self.disks.get(&node).is_some_and(|disk| !disk.may_have.is_empty())
    }

    /// A master has started, and this is on its disk: nothing else has been left there. What a
    /// later append has put there counts as put by that, with all that came behind it.
    pub(crate) fn found(&mut self, node: NodeId, entries: &[(LogIndex, Bytes)]) {
        if let Some(MemberDisk { log, may_have, .. }) = self.disks.get_mut(&node) {
            let was_put = |(index, bytes): &(LogIndex, Bytes)| {
                log.get(index).is_some_and(|entry| entry.bytes == *bytes)
            };
            may_have.retain(|entry| entries.contains(entry) && !was_put(entry));
        }
    }

    /// What failed appends may have left, once.
    pub(crate) fn take_may_have(&mut self, node: NodeId) -> Vec<(LogIndex, Bytes)> {
        self.disks.get_mut(&node).map(|disk| std::mem::take(&mut disk.may_have)).unwrap_or_default()
    }

    /// A master's disk has these entries. What is committed with that is told by
    /// [`GroupAgrees::settle`]; of one that is alone, at once.
    pub(crate) fn appended(
        &mut self,
        node: NodeId,
        entries: &[(LogIndex, Bytes)],
    ) -> Result<Vec<Bytes>, String> {
        if !self.in_group {
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
                return Err(format!(
                    "{node:?} has written record {index} of term {term}, and another has written \
                     another one there"
                ));
            }
            drop(disk.log.split_off(index));
            let entry = LogEntry { term, heard: disk.term, bytes: bytes.clone() };
            disk.log.insert(*index, entry);
        }
        Ok(self.settle())
    }

    /// What is committed now that it was not before: by what disks have got, and by changes of who
    /// votes.
    pub(crate) fn settle(&mut self) -> Vec<Bytes> {
        let mut all = Vec::new();
        while let Some((node, last)) = self.next_committed() {
            let newly = self.disks[&node].log.range(self.committed.next()..=last);
            let newly: Vec<(LogIndex, Bytes)> =
                newly.map(|(index, entry)| (*index, entry.bytes.clone())).collect();
            for (index, bytes) in newly {
                let stored = StoredRecord::decode(&bytes).expect("it was decoded when written");
                if let Some(change) = stored.change {
                    let next = self.members.changed(&change, index);
                    self.members_before = std::mem::replace(&mut self.members, next);
                }
                self.log.insert(index, bytes.clone());
                all.push(bytes);
            }
            self.committed = last;
        }
        all
    }

    /// The last entry that a majority keeps for ever, and a disk that has it with all before it.
    fn next_committed(&self) -> Option<(NodeId, LogIndex)> {
        let mut groups = vec![Self::voters(&self.members)];
        if self.members.joint {
            groups.push(Self::voters(&self.members_before));
        }
        let is_committed = |index: &LogIndex, entry: &LogEntry| {
            let has = |disk: &&MemberDisk| {
                let there = disk.log.get(index).map(|there| (there.term, there.heard));
                there == Some((entry.term, entry.term))
            };
            let disks = self.disks.values().chain(&self.emptied);
            let have: BTreeSet<ServerId> = disks.filter(has).map(|disk| disk.id).collect();
            groups.iter().any(|both| {
                both.iter().all(|voters| 2 * voters.intersection(&have).count() > voters.len())
            })
        };
        let last_of = |(node, disk): (&NodeId, &MemberDisk)| {
            let behind = disk.log.range(self.committed.next()..).rev();
            let last = behind.into_iter().find(|(index, entry)| is_committed(index, entry))?;
            Some((*node, *last.0))
        };
        self.disks.iter().filter_map(last_of).max_by_key(|(_, last)| *last)
    }

    /// What a checkpoint as of this record stands for.
    ///
    /// # Errors
    /// Where not all of it is committed.
    pub(crate) fn stood_for(&self, index: LogIndex) -> Result<Vec<(LogIndex, Bytes)>, String> {
        let all = self.committed_behind(LogIndex::default(), index)?;
        Ok(all.map(|(index, bytes)| (*index, bytes.clone())).collect())
    }

    /// What is committed from behind one record up to another.
    ///
    /// # Errors
    /// Where not all of it is committed.
    pub(crate) fn committed_behind(
        &self,
        before: LogIndex,
        index: LogIndex,
    ) -> Result<impl Iterator<Item = (&LogIndex, &Bytes)>, String> {
        if index > self.committed {
            let last = self.committed;
            return Err(format!("record {index} was given as applied; {last} is committed"));
        }
        Ok(self.log.range(before.next()..).take_while(move |(at, _)| **at <= index))
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
            let committed = self.log.get(&index);
            if committed != Some(&bytes) {
                let (by, applied) = (node.0, StoredRecord::decode(&bytes));
                let committed = committed.map(|bytes| StoredRecord::decode(bytes));
                return Err(format!(
                    "master {by} has applied another record {index}: {applied:?}; committed is \
                     {committed:?}"
                ));
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::GroupAgrees;
    use bytes::Bytes;
    use cairn_consensus::StoredRecord;
    use cairn_env_sim::NodeId;
    use cairn_format::GroupMark;
    use cairn_types::wire::Message;
    use cairn_types::{Address, LogIndex, Member, MemberStanding, Members, ServerId, Term};

    fn entries(indexes: std::ops::RangeInclusive<u64>) -> Vec<(LogIndex, Bytes)> {
        let entry = |index| {
            let record = StoredRecord { term: Term::new(1), ..StoredRecord::default() };
            (LogIndex::new(index), record.to_bytes().into())
        };
        indexes.map(entry).collect()
    }

    fn group() -> Members {
        let member = |id| Member {
            id: ServerId::new(id),
            address: Address::new(format!("master{id}")),
            standing: MemberStanding::Voter,
        };
        Members { all: (1..=3).map(member).collect(), ..Members::default() }
    }

    /// Each of the three has the mark of the first term.
    fn three_opened() -> GroupAgrees {
        let (mut group_agrees, members) = (GroupAgrees::default(), group());
        for node in 0..3 {
            group_agrees.opened(NodeId(node), ServerId::new(node as u64 + 1), Some(&members));
            let mark = GroupMark { term: Term::new(1), ..GroupMark::default() };
            let heard = [(LogIndex::default(), mark.to_bytes().into())];
            group_agrees.appended(NodeId(node), &heard).expect("a mark");
        }
        group_agrees
    }

    #[test]
    fn what_a_failed_append_left_and_a_later_one_put_there_takes_nothing_away() {
        let mut group_agrees = three_opened();
        let (one, other) = (NodeId(0), NodeId(1));
        group_agrees.appended(one, &entries(1..=3)).expect("one log");
        group_agrees.may_have(one, &entries(4..=6));
        group_agrees.appended(one, &entries(4..=9)).expect("one log");
        group_agrees.found(one, &entries(1..=9));
        let left = group_agrees.take_may_have(one);
        group_agrees.appended(one, &left).expect("one log");
        let committed = group_agrees.appended(other, &entries(1..=9)).expect("one log");
        assert_eq!(committed.len(), 9, "a majority has all nine");
        // What nothing else has put there counts now.
        group_agrees.may_have(one, &entries(10..=11));
        group_agrees.found(one, &entries(1..=10));
        assert_eq!(group_agrees.take_may_have(one), entries(10..=10));
    }

    #[test]
    fn what_an_emptied_disk_had_counts_towards_what_another_has_and_nothing_by_itself() {
        let mut group_agrees = three_opened();
        group_agrees.appended(NodeId(1), &entries(1..=4)).expect("one log");
        group_agrees.emptied(NodeId(1));
        assert_eq!(group_agrees.settle(), Vec::<Bytes>::new());
        let committed = group_agrees.appended(NodeId(0), &entries(1..=3)).expect("one log");
        assert_eq!(committed.len(), 3, "two of three have had them");
        // Under its node another member comes.
        group_agrees.opened(NodeId(1), ServerId::new(9), Some(&group()));
        let committed = group_agrees.appended(NodeId(1), &entries(4..=5)).expect("one log");
        assert_eq!(committed.len(), 0, "it has no vote");
    }
}
