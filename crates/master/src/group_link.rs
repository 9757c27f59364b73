//! The talk with the other members: messages out as calls, several in one, and the ticks.
//!
//! - GL1: so many calls to one member are under way at most; what comes beyond is as good as lost,
//!   which the group is made for.
//! - GL2: whoever speaks is answered where it says that it is, though it is no member for all that
//!   is known here: that it is one may stand among the records that this member lacks, and gets by
//!   its answers alone. Without its answers no other might be elected.

use cairn_consensus::TICK;
use cairn_env::{Effect, EffectId, Now};
use cairn_master_core::LogJob;
use cairn_master_core::record::RECORD_LEVEL;
use cairn_protocol::{ConsensusMessage, ConsensusMessages};
use cairn_types::{Address, LogIndex, Members, ServerId, Term, Time};
use std::collections::BTreeMap;
use std::time::Duration;

/// How long a member has to say that messages have come.
const PATIENCE: Duration = Duration::from_secs(1);
/// Calls under way to one member (GL1).
const CALLS_MAX: usize = 100;
/// Whom this member does not know and answers, at once: a group has no more members (GL2).
const STRANGERS_MAX: usize = 16;
/// About the most bytes of records in one call.
const CALL_SIZE: usize = 1 << 20;

/// The calls under way, and the next tick.
#[derive(Debug, Default)]
pub(crate) struct GroupLink {
    calls: BTreeMap<EffectId, ServerId>,
    under_way: BTreeMap<ServerId, usize>,
    tick: Option<EffectId>,
    /// The latest stamp of each member, which it is to hear again.
    stamps: BTreeMap<ServerId, u64>,
    /// Up to which level each member can apply records, as it said last.
    levels: BTreeMap<ServerId, u32>,
    /// Where those are that have spoken and are no members as far as is known (GL2).
    strangers: BTreeMap<ServerId, Address>,
}

impl GroupLink {
    /// Asks for the next tick.
    pub(crate) fn set_tick(&mut self, now: Time, id: EffectId) -> Effect<LogJob> {
        assert_eq!(self.tick, None, "one tick is set at a time");
        self.tick = Some(id);
        Effect::Wake { id, at: now + TICK }
    }

    /// Whether one is on its way.
    pub(crate) fn has_tick(&self) -> bool {
        self.tick.is_some()
    }

    /// Whether this is the tick.
    pub(crate) fn is_tick(&mut self, id: EffectId) -> bool {
        self.tick.take_if(|tick| *tick == id).is_some()
    }

    /// Whom a call was to, which is over.
    pub(crate) fn end_call(&mut self, id: EffectId) -> Option<ServerId> {
        let member = self.calls.remove(&id)?;
        let count = self.under_way.get_mut(&member).expect("each call is counted");
        *count -= 1;
        Some(member)
    }

    /// A member's messages had this stamp, and it can apply records of this level.
    pub(crate) fn note(&mut self, member: ServerId, (stamp, level): (u64, u32)) {
        self.stamps.insert(member, stamp);
        self.levels.insert(member, level);
    }

    /// One speaks that is no member for all that is known here (GL2).
    pub(crate) fn meet(&mut self, stranger: ServerId, address: &Address) {
        if address.as_str().is_empty() {
            // A build that does not say where it is: it is told nothing.
            return;
        }
        while self.strangers.len() >= STRANGERS_MAX && !self.strangers.contains_key(&stranger) {
            // It speaks again, if it is one that counts.
            self.strangers.pop_first();
        }
        self.strangers.insert(stranger, address.clone());
    }

    /// Where a member is reached, or one that has spoken.
    pub(crate) fn address_of(&self, server: ServerId, members: &Members) -> Option<Address> {
        let member = members.get(server).map(|member| &member.address);
        member.or_else(|| self.strangers.get(&server)).cloned()
    }

    /// The level of records that all these members can apply, `me` among them; of one that has said
    /// nothing yet, 0.
    pub(crate) fn level(&self, members: &Members, me: ServerId) -> u32 {
        let others = members.all.iter().filter(|member| member.id != me);
        let told = others.map(|member| self.levels.get(&member.id).copied().unwrap_or_default());
        told.min().unwrap_or(RECORD_LEVEL).min(RECORD_LEVEL)
    }

    /// The calls that carry these messages, and what who is in charge has applied in its term.
    pub(crate) fn send(
        &mut self,
        (now, applied): (Now, Option<(LogIndex, Term)>),
        messages: Vec<ConsensusMessage>,
        members: &Members,
        mut fresh: impl FnMut() -> EffectId,
    ) -> Vec<Effect<LogJob>> {
        let (mut calls, (applied, term)) = (Vec::new(), applied.unwrap_or_default());
        let stamp = now.time.as_nanos();
        let me = messages.first().and_then(|message| members.get(message.from));
        let address = me.map(|me| me.address.clone()).unwrap_or_default();
        for (server, messages) in packed(messages) {
            // Who is no member and has not spoken is told nothing.
            let Some(to) = self.address_of(server, members) else { continue };
            let under_way = self.under_way.entry(server).or_default();
            if *under_way >= CALLS_MAX {
                continue;
            }
            *under_way += 1;
            let id = fresh();
            let echo = self.stamps.get(&server).copied().unwrap_or_default();
            self.calls.insert(id, server);
            calls.push(Effect::Call {
                id,
                to,
                server,
                request: ConsensusMessages {
                    messages,
                    applied,
                    term,
                    stamp,
                    echo,
                    record_level: RECORD_LEVEL,
                    address: address.clone(),
                }
                .into(),
                payload: bytes::Bytes::new(),
                deadline: now.time + PATIENCE,
            });
        }
        calls
    }
}

/// Messages by member, in their order, in as few calls as their sizes allow.
fn packed(messages: Vec<ConsensusMessage>) -> Vec<(ServerId, Vec<ConsensusMessage>)> {
    let mut calls: Vec<(ServerId, Vec<ConsensusMessage>)> = Vec::new();
    let mut open: BTreeMap<ServerId, (usize, usize)> = BTreeMap::new();
    for message in messages {
        let size: usize = message.entries.iter().map(|entry| entry.data.len() + 64).sum();
        let to = message.to;
        match open.get_mut(&to).filter(|(_, filled)| *filled + size <= CALL_SIZE) {
            Some((call, filled)) => {
                *filled += size;
                calls[*call].1.push(message);
            }
            None => {
                open.insert(to, (calls.len(), size));
                calls.push((to, vec![message]));
            }
        }
    }
    calls
}

#[cfg(test)]
mod tests {
    use super::{CALL_SIZE, CALLS_MAX, GroupLink, RECORD_LEVEL, STRANGERS_MAX, packed};
    use cairn_env::{Effect, EffectId, Now};
    use cairn_protocol::{ConsensusEntry, ConsensusMessage, Request};
    use cairn_types::{Address, LogIndex, Member, Members, ServerId, Term, Time};

    fn message(to: u64, size: usize) -> ConsensusMessage {
        let entry = ConsensusEntry { data: vec![0; size].into(), ..ConsensusEntry::default() };
        let to = ServerId::new(to);
        ConsensusMessage { to, entries: vec![entry], ..ConsensusMessage::default() }
    }

    #[test]
    fn messages_to_one_member_go_together_as_far_as_they_fit_and_in_their_order() {
        let sizes = [(1, 10), (2, 20), (1, 30), (1, CALL_SIZE), (2, 40), (1, 50)];
        let calls = packed(sizes.iter().map(|(to, size)| message(*to, *size)).collect());
        let told: Vec<(u64, Vec<usize>)> = calls
            .iter()
            .map(|(to, messages)| {
                let sizes = messages.iter().map(|it| it.entries[0].data.len());
                (to.get(), sizes.collect())
            })
            .collect();
        assert_eq!(
            told,
            [(1, vec![10, 30]), (2, vec![20, 40]), (1, vec![CALL_SIZE]), (1, vec![50])]
        );
    }

    #[test]
    fn who_speaks_is_answered_though_it_came_in_while_this_member_was_away() {
        let member = |id: u64| {
            let address = Address::new(format!("m{id}:1"));
            Member { id: ServerId::new(id), address, ..Member::default() }
        };
        let members = Members { all: vec![member(1), member(2)], ..Members::default() };
        let (mut link, now) = (GroupLink::default(), Now::default());
        let to = |link: &mut GroupLink, server: u64| {
            let message = ConsensusMessage { from: ServerId::new(1), ..message(server, 1) };
            let calls = link.send((now, None), vec![message], &members, || EffectId(server));
            let told = calls.into_iter().map(|call| match call {
                Effect::Call { to, request: Request::ConsensusMessages(them), .. } => {
                    (to, them.address)
                }
                other => panic!("{other:?}"),
            });
            told.collect::<Vec<_>>()
        };
        let (one, two, nine) = (Address::new("m1:1"), Address::new("m2:1"), Address::new("m9:1"));
        assert_eq!(to(&mut link, 2), [(two, one.clone())], "it says where it is itself");
        assert!(to(&mut link, 9).is_empty(), "who is no member and has not spoken is told nothing");
        link.meet(ServerId::new(9), &nine);
        assert_eq!(to(&mut link, 9), [(nine, one)], "GL2");
        assert!(to(&mut link, 8).is_empty(), "and nobody else is");
        (100..200).for_each(|id| link.meet(ServerId::new(id), &Address::new("m:1")));
        assert_eq!(link.strangers.len(), STRANGERS_MAX, "however many say so");
    }

    #[test]
    fn each_member_hears_its_own_latest_stamp_again_with_what_is_applied() {
        let member = |id| Member { id: ServerId::new(id), ..Member::default() };
        let members = Members { all: vec![member(1), member(2)], ..Members::default() };
        let mut link = GroupLink::default();
        for (id, stamp) in [(1, 70), (2, 80), (1, 77)] {
            link.note(ServerId::new(id), (stamp, 0));
        }
        let now = Now { time: Time::from_nanos(5), ..Now::default() };
        let told = Some((LogIndex::new(9), Term::new(3)));
        let (messages, mut last) = (vec![message(1, 1), message(2, 1)], 0);
        let fresh = || {
            last += 1;
            EffectId(last)
        };
        let calls = link.send((now, told), messages, &members, fresh);
        let said: Vec<(u64, u64, u64)> = (calls.into_iter())
            .map(|call| match call {
                Effect::Call { request: Request::ConsensusMessages(it), .. } => {
                    (it.echo, it.stamp, it.applied.get())
                }
                other => panic!("{other:?}"),
            })
            .collect();
        assert_eq!(said, [(77, 5, 9), (80, 5, 9)]);
    }

    #[test]
    fn the_records_of_a_group_are_such_as_all_its_members_have_said_that_they_can_apply() {
        let member = |id| Member { id: ServerId::new(id), ..Member::default() };
        let members = |ids: &[u64]| Members {
            all: ids.iter().map(|id| member(*id)).collect(),
            ..Members::default()
        };
        let (mut link, me) = (GroupLink::default(), ServerId::new(1));
        assert_eq!(link.level(&members(&[1]), me), RECORD_LEVEL, "it is alone");
        link.note(ServerId::new(2), (0, RECORD_LEVEL + 1));
        assert_eq!(link.level(&members(&[1, 2]), me), RECORD_LEVEL);
        assert_eq!(link.level(&members(&[1, 2, 3]), me), 0, "one has said nothing yet");
        link.note(ServerId::new(3), (0, 0));
        assert_eq!(link.level(&members(&[1, 2, 3]), me), 0, "one is of the build before");
        link.note(ServerId::new(3), (0, RECORD_LEVEL));
        assert_eq!(link.level(&members(&[1, 2, 3]), me), RECORD_LEVEL);
    }

    #[test]
    fn a_member_that_answers_nothing_is_asked_only_so_often() {
        let member = Member { id: ServerId::new(1), ..Member::default() };
        let members = Members { all: vec![member], ..Members::default() };
        let (mut link, mut last) = (GroupLink::default(), 0);
        let mut ids = Vec::new();
        for _ in 0..CALLS_MAX + 10 {
            let fresh = || {
                last += 1;
                EffectId(last)
            };
            for call in link.send((Now::default(), None), vec![message(1, 1)], &members, fresh) {
                let Effect::Call { id, .. } = call else { panic!("{call:?}") };
                ids.push(id);
            }
        }
        assert_eq!(ids.len(), CALLS_MAX, "GL1");
        assert_eq!(link.end_call(ids[0]), Some(ServerId::new(1)));
        assert_eq!(link.end_call(ids[0]), None);
        let one =
            link.send((Now::default(), None), vec![message(1, 1)], &members, || EffectId(9_999));
        assert_eq!(one.len(), 1, "an answer makes room");
    }
}
