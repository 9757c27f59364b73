//! Who belongs to the group, and how that changes (Raft's joint consensus; design §4).
//!
//! - MS1: a change holds from when it is committed and applied here; one that the members known
//!   already contain is not applied again.
//! - MS2: as long as the disk does not remember the members that hold, no checkpoint may stand for
//!   the record that made them so.
//! - MS3: nor is anybody told until then that he is out, nor a person that the step is over. Who is
//!   out votes until it is told: who is left and has forgotten needs its vote.

use crate::consensus_error::ConsensusError;
use crate::entries::to_library_change;
use crate::member_log::MemberLog;
use cairn_protocol::{ConsensusKind, ConsensusMessage};
use cairn_types::{LogIndex, MemberStanding, Members, MembersChange, ServerId, Term, Time};
use raft::StateRole;
use raft::prelude::RawNode;
use std::collections::BTreeMap;

/// The members, as one of them knows them.
#[derive(Debug)]
pub(crate) struct Membership {
    me: ServerId,
    members: Members,
    alone: bool,
    /// The record as of which the disk knows the members.
    durable: LogIndex,
    /// When each was last heard.
    heard: BTreeMap<ServerId, Time>,
}

impl Membership {
    pub(crate) fn new(me: ServerId, members: Members) -> Self {
        assert!(members.get(me).is_some(), "a member starts as one of its group");
        let (alone, durable) = (members.is_alone(me), members.as_of);
        Self { me, members, alone, durable, heard: BTreeMap::new() }
    }

    pub(crate) fn members(&self) -> &Members {
        &self.members
    }

    /// Of the others that vote, the one that is fittest to take over; the last of several.
    pub(crate) fn successor<K: Ord>(
        &self,
        me: ServerId,
        fitness: impl FnMut(&ServerId) -> K,
    ) -> Option<ServerId> {
        let others = self.members().all.iter().filter(|member| member.id != me);
        let voters = others.filter(|member| member.standing != MemberStanding::Learner);
        voters.map(|member| member.id).max_by_key(fitness)
    }

    /// Who gave up being primary of this term, though no other is, tells the member that it heard
    /// last to stand for election, and leaves it to luck whether that is heard (LD5).
    pub(crate) fn take_over_message(&self, term: Term) -> Option<ConsensusMessage> {
        let to = self.successor(self.me, |id| self.heard(*id))?;
        let (kind, from) = (ConsensusKind::TakeOver, self.me);
        Some(ConsensusMessage { kind, from, to, term, ..ConsensusMessage::default() })
    }

    /// Whether nobody else belongs to it.
    pub(crate) fn is_alone(&self) -> bool {
        self.alone
    }

    /// A committed change; whether it is news (MS1).
    ///
    /// # Errors
    /// [`ConsensusError`] when the library refuses.
    pub(crate) fn apply(
        &mut self,
        node: &mut RawNode<MemberLog>,
        (index, change): (LogIndex, &MembersChange),
    ) -> Result<bool, ConsensusError> {
        if index <= self.members.as_of {
            return Ok(false);
        }
        node.apply_conf_change(&to_library_change(change))?;
        let members = self.members.changed(change, index);
        node.mut_store().set_members(&members);
        // Elected after its leave was proposed: the library goes on as if it were a member still.
        if members.get(self.me).is_none() && node.raft.state == StateRole::Leader {
            let term = node.raft.term;
            node.raft.become_follower(term, raft::INVALID_ID);
        }
        self.adopt(members);
        Ok(true)
    }

    /// These are the members, as a checkpoint says.
    pub(crate) fn adopt(&mut self, members: Members) {
        self.alone = members.is_alone(self.me);
        self.heard.retain(|id, _| members.get(*id).is_some());
        self.members = members;
    }

    /// The disk knows the members as of this record (MS2).
    pub(crate) fn durable(&mut self, as_of: LogIndex) {
        self.durable = self.durable.max(as_of);
    }

    pub(crate) fn is_durable(&self) -> bool {
        self.durable >= self.members.as_of
    }

    pub(crate) fn hear(&mut self, from: ServerId, now: Time) {
        if self.members.get(from).is_some() {
            self.heard.insert(from, now);
        }
    }

    pub(crate) fn heard(&self, id: ServerId) -> Option<Time> {
        self.heard.get(&id).copied()
    }
}
