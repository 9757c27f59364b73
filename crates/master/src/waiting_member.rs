//! A master whose disk is empty and who was told of peers: it founds nothing by itself, and waits
//! until somebody makes it a member of a group (R25).
//!
//! ```text
//!   JoinGroup ──► does it name me, and the peers that I was told of? ──► mark, identity (durable)
//!                                                                        ──► answer ──► the end
//! ```
//! - WM1: its id is drawn when it starts, and goes to its disk with the group: who starts anew
//!   before that is another.
//! - WM2: once it is a member its process's loop ends with [`JOINED`], and the master proper opens
//!   the directory.
//! - WM3: a group that there is already has changed by records of its log: whoever is taken into it
//!   is told as of which record its members are, or it would take what was changed before that for
//!   what was changed after it.

use crate::member_directory::make_member;
use cairn_env::Service;
use cairn_env::{Caller, Completion, Disk, Driver, Effect, EffectId, Event, Lane, Now, Payload};
use cairn_protocol::{
    ErrorCode, Failure, FindPrimaryAnswer, Hello, JoinGroup, JoinGroupAnswer, ListMastersAnswer,
    MasterRole, Request, Response, Role,
};
use cairn_types::planted::{Rule, broken};
use cairn_types::{
    Address, CellId, Incarnation, LogIndex, MemberStanding, Members, Random, ServerId, crc32c,
};
use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

/// Why its loop ends: it has become a member.
pub const JOINED: &str = "it has become a member of its group";

/// The answer is on its way for so long before the loop ends (WM2).
const FAREWELL: Duration = Duration::from_millis(200);

/// What its disk is to do: to become a member's.
#[derive(Clone, Debug)]
pub struct BecomeMember {
    cell: CellId,
    me: ServerId,
    members: Members,
}

/// The disk of a master that is nobody's yet.
#[derive(Debug)]
pub struct EmptyDisk {
    disk: Arc<dyn Disk>,
    segment_size: u64,
}

impl Service for EmptyDisk {
    type Job = BecomeMember;
    type JobResult = Result<(), String>;

    fn run(&self, jobs: Vec<BecomeMember>) -> Vec<Result<(), String>> {
        let become_member = |job: BecomeMember| {
            make_member(&self.disk, self.segment_size, job.cell, (job.me, &job.members))
                .map_err(|error| error.to_string())
        };
        jobs.into_iter().map(become_member).collect()
    }
}

/// The master that waits.
#[derive(Debug)]
pub struct WaitingMember {
    me: ServerId,
    hello: Hello,
    peers: BTreeSet<Address>,
    /// Who made it a member of what; one at a time.
    joining: Option<(Caller, EffectId)>,
    farewell: Option<EffectId>,
    last_effect: u64,
}

impl WaitingMember {
    /// A master that was told of these peers, itself among them; `seed` feeds its id.
    #[must_use]
    pub fn new(
        disk: Arc<dyn Disk>,
        segment_size: u64,
        peers: Vec<Address>,
        seed: u64,
    ) -> (Self, Arc<EmptyDisk>) {
        let mut random = Random::new(seed);
        let mut me = ServerId::new(random.next_u64() | 1);
        if broken(Rule::R25) {
            // R25 broken: an empty disk takes the id of whoever was there before.
            me = ServerId::new(u64::from(crc32c(disk.describe().as_bytes())) | 1);
        }
        let incarnation = Incarnation::new(random.next_u64());
        (Self::with_id(me, incarnation, peers), Arc::new(EmptyDisk { disk, segment_size }))
    }

    fn with_id(me: ServerId, incarnation: Incarnation, peers: Vec<Address>) -> Self {
        let hello = Hello::new(CellId::default(), Role::Master, me, incarnation);
        let peers = peers.into_iter().collect();
        Self { me, hello, peers, joining: None, farewell: None, last_effect: 0 }
    }

    fn fresh(&mut self) -> EffectId {
        self.last_effect += 1;
        EffectId(self.last_effect)
    }

    /// Whether a group that there is already takes it in: the others may be more, or fewer, than
    /// those that it was told of.
    fn joins_as_learner(&self, join: &JoinGroup) -> bool {
        let me = join.members.get(self.me);
        me.is_some_and(|it| {
            it.standing == MemberStanding::Learner && self.peers.contains(&it.address)
        })
    }

    /// Why it does not become a member of this group.
    fn refusal(&self, join: &JoinGroup) -> Option<Failure> {
        if broken(Rule::R25) {
            // R25 broken: a group is made of whoever is asked, whatever he belongs to by now.
            return None;
        }
        let named: BTreeSet<&Address> = join.members.all.iter().map(|it| &it.address).collect();
        let line = if self.joining.is_some() || self.farewell.is_some() {
            return Some(Failure::not_done(ErrorCode::Busy, "it is becoming a member just now"));
        } else if join.members.get(self.me).is_none() {
            format!("this master is {}, which is not among the members", self.me)
        } else if self.joins_as_learner(join) && join.members.as_of == LogIndex::default() {
            // WM3
            "the members of that group change with its log, and as of which record these are is \
             not said: ask its primary for them"
                .to_owned()
        } else if self.joins_as_learner(join) {
            return None;
        } else if !named.iter().copied().eq(&self.peers) {
            let peers: Vec<&str> = self.peers.iter().map(Address::as_str).collect();
            format!("this master was started with --peers {}", peers.join(","))
        } else {
            return None;
        };
        Some(Failure::refused(ErrorCode::Invalid, line))
    }

    fn on_request(
        &mut self,
        (from, request): (Caller, Request),
        effects: &mut Vec<Effect<BecomeMember>>,
    ) {
        let answer = match request {
            Request::ListMasters(_) => {
                let role = MasterRole::Shadow;
                let answer = ListMastersAnswer { me: self.me, role, ..Default::default() };
                Ok(Response::ListMasters(answer))
            }
            Request::FindPrimary(_) => {
                let role = MasterRole::Shadow;
                let answer = FindPrimaryAnswer { role, ..FindPrimaryAnswer::default() };
                Ok(Response::FindPrimary(answer))
            }
            Request::JoinGroup(join) => match self.refusal(&join) {
                Some(refusal) => Err(refusal),
                None => {
                    let id = self.fresh();
                    self.joining = Some((from, id));
                    let JoinGroup { cell, members } = join;
                    let job = BecomeMember { cell, me: self.me, members };
                    effects.push(Effect::Disk { id, lane: Lane(0), job });
                    return;
                }
            },
            _ => {
                let line = "this master belongs to no group yet: cairn masters create makes one";
                Err(Failure::not_primary_master(line, None))
            }
        };
        effects.push(reply(from, answer));
    }
}

fn reply(to: Caller, answer: Result<Response, Failure>) -> Effect<BecomeMember> {
    Effect::Reply { to, answer, payload: Payload::default() }
}

impl Driver for WaitingMember {
    type Service = EmptyDisk;
    type Command = ();

    fn handle(
        &mut self,
        now: Now,
        event: Event<(), Result<(), String>>,
        effects: &mut Vec<Effect<BecomeMember>>,
    ) {
        match event {
            Event::Started => effects.push(Effect::Identify(self.hello.clone())),
            Event::Request { from, request } => self.on_request((from, request), effects),
            Event::Completed { id, result: Completion::Disk(result) } => {
                let joining = self.joining.take_if(|(_, job)| *job == id);
                let (from, _) = joining.expect("one job is asked for at a time");
                match result {
                    Ok(()) => {
                        let id = self.fresh();
                        self.farewell = Some(id);
                        let joined = Response::JoinGroup(JoinGroupAnswer {});
                        effects.push(reply(from, Ok(joined)));
                        effects.push(Effect::Wake { id, at: now.time + FAREWELL });
                    }
                    Err(why) => {
                        let failure = Failure::unknown(ErrorCode::Io, why.clone());
                        effects.push(reply(from, Err(failure)));
                        effects.push(Effect::Halt(why));
                    }
                }
            }
            Event::Completed { id, result: Completion::Woken } if self.farewell == Some(id) => {
                effects.push(Effect::Halt(JOINED.to_owned()));
            }
            // Nothing else was asked for.
            Event::Completed { .. }
            | Event::Identified { .. }
            | Event::Disconnected { .. }
            | Event::Command(()) => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use super::WaitingMember;
    use cairn_protocol::JoinGroup;
    use cairn_types::{
        Address, CellId, Incarnation, LogIndex, Member, MemberStanding, Members, ServerId,
    };

    #[test]
    fn a_group_that_takes_one_in_says_as_of_which_record_its_members_are() {
        let (me, at) = (ServerId::new(7), Address::new("m4:1"));
        let waiting = WaitingMember::with_id(me, Incarnation::new(1), vec![at.clone()]);
        let me = Member { id: waiting.me, address: at, standing: MemberStanding::Learner };
        let members = Members { all: vec![me], as_of: LogIndex::new(9), joint: false };
        let join = JoinGroup { cell: CellId::new(1), members };
        assert_eq!(waiting.refusal(&join), None);
        let mut unsaid = join;
        unsaid.members.as_of = LogIndex::default();
        let refusal = waiting.refusal(&unsaid).expect("refused");
        assert!(refusal.message.contains("as of which record"), "{refusal}");
    }
}
