//! Changing who belongs to the group, step by step, asked of the primary (design §4).
//!
//! ```text
//!   ChangeMasters ──► may it be done? ──► a record of the log ──► both groups ──► the new one
//!                          └─ refused                                              └─► answer
//! ```
//! - MC1: one step at a time, and none that leaves another number of voters than one, three or
//!   five; but for a moment where the only voter is exchanged (MC6).
//! - MC2: nobody votes who lacks more than a little of the log, and no step is begun while fewer
//!   than a majority of who will vote can be heard: it might never end.
//! - MC3: the primary does not take itself out: it hands over to one who stays, and the next one is
//!   asked; not for a step that would be refused.
//! - MC4: one that was alone has told nobody where it is: that goes with the first step.
//! - MC5: who was taken in and started anew before it was told of its group is another (R25), at
//!   the same address: who it was never had anything, and goes with the step that takes it in.
//! - MC6: the only voter is taken out in two steps: with it votes who comes in its place, it hands
//!   over, and who asked asks the next one, which takes it out. A step to another group is ended by
//!   whoever is in charge; where the old group and the new one have nobody in common, neither could
//!   end it without the other.
//! - MC7: who comes to the address of a voter that is not heard is what is left of it after its
//!   disk was lost: it learns beside that one, and votes with the step that takes that one out.

use cairn_consensus::{Consensus, TICK};
use cairn_env::Caller;
use cairn_protocol::{ChangeMasters, ChangeMastersAnswer, ErrorCode, Failure, Response};
use cairn_types::{
    Address, LogIndex, Member, MemberChange, MemberStanding, Members, MembersChange, ServerId,
    Term, Time,
};
use std::collections::BTreeSet;
use std::time::Duration;

/// Numbers of voters that a group may have.
pub const VOTERS: [usize; 3] = [1, 3, 5];
/// Members that a group may have, those that do not vote among them.
const MEMBERS_MAX: usize = 16;
/// Records that one who is to vote may lack (MC2).
const LAG_MAX: u64 = 1_000;
/// Who was not heard for so long cannot be counted on (MC2).
const UNHEARD_MAX: Duration = TICK.saturating_mul(12);

/// Who waits for a step to end.
#[derive(Debug, Default)]
pub(crate) struct MemberChanges {
    waits: Option<StepOnItsWay>,
}

/// A step that was proposed, and who waits for it.
#[derive(Clone, Debug)]
struct StepOnItsWay {
    from: Caller,
    index: LogIndex,
    term: Term,
    /// The next primary has to go on, and these are to go (MC6).
    rest_goes: Vec<ServerId>,
}

/// What becomes of a step that has ended, or whose end this member will not see.
#[derive(Debug)]
pub(crate) enum EndedStep {
    Answered(Result<Response, Failure>),
    /// Another primary goes on, who is none of these (MC6).
    HandsOver(Vec<ServerId>),
}

/// What becomes of a person's wish.
#[derive(Debug)]
pub(crate) enum BegunStep {
    /// It is answered at once.
    Answered(Result<Response, Failure>),
    /// It may be done, by another primary (MC3); by one of these only where there is no other, for
    /// they are to go as well.
    HandsOver(Vec<ServerId>),
    /// It has begun, and is answered when it has ended.
    Waits,
}

impl MemberChanges {
    /// Takes a wish of a person. `me` is this primary, which others reach at `address`.
    pub(crate) fn begin(
        &mut self,
        now: Time,
        (from, asked): (Caller, ChangeMasters),
        (consensus, me, address): (&mut Consensus, ServerId, &Address),
    ) -> BegunStep {
        let Some((term, _)) = consensus.leads() else { unreachable!("asked of who is in charge") };
        if self.waits.is_some() {
            // The step may be over, and its answer leave with the end of this turn.
            let line = "the members are changing already; try again in a moment";
            return BegunStep::Answered(Err(Failure::not_done(ErrorCode::Busy, line)));
        }
        let mut change = match allowed(now, asked, consensus, address) {
            Ok(change) => change,
            Err(refusal) => return BegunStep::Answered(Err(refusal)),
        };
        if change.changes.is_empty() {
            let members = consensus.members().clone();
            let answer = Response::ChangeMasters(ChangeMastersAnswer { members });
            return BegunStep::Answered(Ok(answer));
        }
        let going = change.changes.iter().filter(|it| it.goes).map(|it| it.member.id);
        let going: Vec<ServerId> = going.collect();
        let mut rest_goes = Vec::new();
        if going.contains(&me) {
            if consensus.members().voters_to_be() != [me] {
                return BegunStep::HandsOver(going);
            }
            // MC6
            change.changes.retain(|it| !it.goes);
            rest_goes = going;
        }
        let index = match consensus.change_members(&change) {
            Ok(index) => index,
            // Nothing has been proposed: it is no reason to stop.
            Err(error) => {
                let line = error.to_string();
                return BegunStep::Answered(Err(Failure::refused(ErrorCode::Invalid, line)));
            }
        };
        self.waits = Some(StepOnItsWay { from, index, term, rest_goes });
        BegunStep::Waits
    }

    /// What a step has come to whose end this member has seen, or will not see; and who waits.
    pub(crate) fn end(&mut self, consensus: &Consensus) -> Option<(Caller, EndedStep)> {
        let StepOnItsWay { from, index, term, .. } = self.waits.as_ref()?;
        let (to, members) = (*from, consensus.members());
        let is_here = members.as_of >= *index && !consensus.is_changing();
        if consensus.leads().map(|(term, _)| term) != Some(*term) {
            self.waits = None;
            let line = "another master is in charge now; 'cairn masters' shows the members";
            let failure = Failure::unknown(ErrorCode::NotPrimaryMaster, line);
            return Some((to, EndedStep::Answered(Err(failure))));
        }
        let step = self.waits.take_if(|_| is_here)?;
        let answer = ChangeMastersAnswer { members: members.clone() };
        Some(match step.rest_goes {
            going if going.is_empty() => {
                (to, EndedStep::Answered(Ok(Response::ChangeMasters(answer))))
            }
            going => (to, EndedStep::HandsOver(going)),
        })
    }
}

/// The step, if it may be begun; without changes where all of it holds already.
fn allowed(
    now: Time,
    asked: ChangeMasters,
    consensus: &Consensus,
    address: &Address,
) -> Result<MembersChange, Failure> {
    let members = consensus.members();
    let refuse = |line: String| Err(Failure::refused(ErrorCode::Invalid, line));
    if consensus.is_changing() {
        let line = "the members are changing already; try again in a moment";
        return Err(Failure::not_done(ErrorCode::Busy, line));
    }
    let mut changes: Vec<MemberChange> =
        asked.changes.into_iter().filter(|it| !holds(members, it)).collect();
    let ids: BTreeSet<ServerId> = changes.iter().map(|it| it.member.id).collect();
    if ids.len() < changes.len() {
        return refuse("a member is named twice".to_owned());
    }
    let mut before = Vec::new();
    for MemberChange { member, goes } in &changes {
        // What is under way is for the group itself to say.
        if !matches!(member.standing, MemberStanding::Voter | MemberStanding::Learner) {
            return refuse("a member votes, or learns".to_owned());
        }
        let known = members.get(member.id);
        let there = || beside(members, member);
        let is_former = |it: &&Member| known.is_none() && it.standing == MemberStanding::Learner;
        // MC7
        let learns = known.is_none() && member.standing == MemberStanding::Learner;
        let is_lost = |it: &&Member| learns && !is_heard(now, consensus, it.id);
        let gives_way = |it: &Member| is_former(&it) || is_lost(&it) || is_to_go(&changes, it.id);
        let shown = member.address.as_str();
        if *goes {
            continue;
        } else if shown.is_empty() || member.id == ServerId::default() {
            return refuse("a member has an id and an address".to_owned());
        } else if !there().all(gives_way) {
            return refuse(format!(
                "{shown} is the address of another member: start the new one at another; where \
                 that one has lost its disk, 'cairn masters replace {shown} {shown}'"
            ));
        } else if known.is_none() && member.standing != MemberStanding::Learner {
            let line = "has nothing of the log yet: it learns before it votes";
            return refuse(format!("{shown} {line}"));
        } else if known.is_some_and(|it| it.standing == MemberStanding::Voter) {
            return refuse(format!("{shown} votes; take it out, and in again"));
        }
        // MC5
        let former = there().filter(|it| is_former(it) && !ids.contains(&it.id));
        before.extend(former.map(|it| MemberChange { member: it.clone(), goes: true }));
    }
    changes.extend(before);
    if changes.is_empty() {
        return Ok(MembersChange { changes });
    }
    let is_untold = |it: &&Member| it.address.as_str().is_empty() && !ids.contains(&it.id);
    if let Some(me) = members.all.iter().find(is_untold) {
        // MC4
        if address.as_str().is_empty() {
            return refuse(
                "how others reach this master is not known: start it with --advertise".to_owned(),
            );
        }
        let member = Member { address: address.clone(), ..me.clone() };
        changes.push(MemberChange { member, goes: false });
    }
    let change = MembersChange { changes };
    let next = members.changed(&change, members.as_of);
    let voters = next.voters_to_be();
    if !VOTERS.contains(&voters.len()) {
        return refuse(format!(
            "{} masters would vote; a group has one, three or five: change two at once, or replace \
             one",
            voters.len()
        ));
    } else if next.all.len() > MEMBERS_MAX {
        return refuse(format!("a group has at most {MEMBERS_MAX} members"));
    }
    may_vote(now, consensus, &voters)?;
    Ok(change)
}

/// The others at a member's address.
fn beside<'a>(members: &'a Members, member: &'a Member) -> impl Iterator<Item = &'a Member> {
    let others = members.all.iter().filter(|it| it.id != member.id);
    others.filter(|it| it.address == member.address)
}

/// Whether a step takes this member out.
fn is_to_go(changes: &[MemberChange], id: ServerId) -> bool {
    changes.iter().any(|it| it.goes && it.member.id == id)
}

/// Whether this is so already.
fn holds(members: &Members, change: &MemberChange) -> bool {
    match members.get(change.member.id) {
        None => change.goes,
        Some(known) => !change.goes && *known == change.member,
    }
}

/// Whether a member can be counted on, for all that is known of it.
fn is_heard(now: Time, consensus: &Consensus, id: ServerId) -> bool {
    consensus.is_alone() || consensus.heard(id).is_some_and(|at| now < at + UNHEARD_MAX)
}

/// MC2
fn may_vote(now: Time, consensus: &Consensus, voters: &[ServerId]) -> Result<(), Failure> {
    let members = consensus.members();
    let shown = |id: ServerId| members.get(id).map(|it| it.address.to_string()).unwrap_or_default();
    let is_heard = |id: &ServerId| is_heard(now, consensus, *id);
    let is_new =
        |id: &&ServerId| members.get(**id).is_some_and(|it| it.standing == MemberStanding::Learner);
    for id in voters.iter().filter(is_new) {
        let has = consensus.matched(*id).get();
        let last = consensus.committed_index().get();
        if !is_heard(id) || has + LAG_MAX < last {
            let line = format!(
                "{} has {has} of {last} records, or is not heard, and cannot vote yet; try again",
                shown(*id)
            );
            return Err(Failure::not_done(ErrorCode::Busy, line));
        }
    }
    let unheard: Vec<String> =
        voters.iter().filter(|id| !is_heard(id)).map(|id| shown(*id)).collect();
    if 2 * (voters.len() - unheard.len()) <= voters.len() {
        let line = format!(
            "the group would be without a majority: {} cannot be heard; start them, or change \
             others",
            unheard.join(", ")
        );
        return Err(Failure::refused(ErrorCode::Invalid, line));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::{BegunStep, EndedStep, MemberChanges};
    use cairn_consensus::{Beginning, Consensus};
    use cairn_env::Caller;
    use cairn_protocol::{ChangeMasters, ErrorCode, Failure, Response};
    use cairn_types::{Address, Member, MemberChange, MemberStanding, ServerId, Time};

    fn learner(id: u64) -> ChangeMasters {
        let address = Address::new(format!("m{id}:1"));
        let member = Member { id: ServerId::new(id), address, standing: MemberStanding::Learner };
        ChangeMasters { changes: vec![MemberChange { member, goes: false }] }
    }

    fn begin(
        changes: &mut MemberChanges,
        consensus: &mut Consensus,
        asked: ChangeMasters,
    ) -> BegunStep {
        let (me, at) = (ServerId::new(1), Address::new("m1:1"));
        changes.begin(Time::default(), (Caller::default(), asked), (consensus, me, &at))
    }

    fn refusal(begun: BegunStep) -> Failure {
        match begun {
            BegunStep::Answered(answer) => answer.expect_err("refused"),
            other => panic!("{other:?}"),
        }
    }

    fn settle(consensus: &mut Consensus) {
        while let Some(batch) = consensus.take().expect("takes") {
            consensus.durable(Time::default(), batch.number).expect("durable");
            consensus.committed().expect("hands out");
        }
    }

    #[test]
    fn one_step_is_taken_at_a_time_also_within_the_turn_that_ends_one() {
        let from = Beginning { me: ServerId::new(1), ..Beginning::default() };
        let mut consensus = Consensus::start(from).expect("starts");
        settle(&mut consensus);
        let mut changes = MemberChanges::default();
        assert!(matches!(begin(&mut changes, &mut consensus, learner(2)), BegunStep::Waits));
        settle(&mut consensus);
        let refused = refusal(begin(&mut changes, &mut consensus, learner(3)));
        assert_eq!(refused.code, ErrorCode::Busy);
        let (_, ended) = changes.end(&consensus).expect("the first step is over");
        let EndedStep::Answered(Ok(Response::ChangeMasters(answer))) = ended else {
            panic!("{ended:?}")
        };
        assert_eq!(answer.members.all.len(), 2);
        assert!(matches!(begin(&mut changes, &mut consensus, learner(3)), BegunStep::Waits));
    }

    #[test]
    fn who_started_anew_before_it_was_told_comes_in_its_own_place() {
        let from = Beginning { me: ServerId::new(1), ..Beginning::default() };
        let mut consensus = Consensus::start(from).expect("starts");
        settle(&mut consensus);
        let mut changes = MemberChanges::default();
        assert!(matches!(begin(&mut changes, &mut consensus, learner(2)), BegunStep::Waits));
        settle(&mut consensus);
        drop(changes.end(&consensus).expect("it is over"));
        // Its process was killed before its disk was told: it has drawn another id.
        let mut again = learner(3);
        again.changes[0].member.address = Address::new("m2:1");
        assert!(matches!(begin(&mut changes, &mut consensus, again.clone()), BegunStep::Waits));
        settle(&mut consensus);
        drop(changes.end(&consensus).expect("it is over"));
        let ids: Vec<u64> = consensus.members().all.iter().map(|it| it.id.get()).collect();
        assert_eq!(ids, [1, 3], "who it was is gone");
        // Where somebody votes nobody comes so.
        again.changes[0].member =
            Member { id: ServerId::new(4), ..again.changes[0].member.clone() };
        again.changes[0].member.address = Address::new("m1:1");
        let refused = refusal(begin(&mut changes, &mut consensus, again));
        assert!(refused.message.contains("the address of another member"), "{refused:?}");
    }

    #[test]
    fn what_no_group_can_take_is_refused() {
        let from = Beginning { me: ServerId::new(1), ..Beginning::default() };
        let mut consensus = Consensus::start(from).expect("starts");
        settle(&mut consensus);
        let mut twice = learner(2);
        twice.changes.extend(learner(2).changes);
        twice.changes[1].member.address = Address::new("m4:1");
        let mut voter = learner(2);
        voter.changes[0].member.standing = MemberStanding::Voter;
        let mut entering = learner(2);
        entering.changes[0].member.standing = MemberStanding::Entering;
        // It is the last one, so it does not hand over for that (MC3).
        let mut gone = learner(1);
        gone.changes[0].goes = true;
        for asked in [twice, voter, entering, gone] {
            let refused = refusal(begin(&mut MemberChanges::default(), &mut consensus, asked));
            assert_eq!(refused.code, ErrorCode::Invalid, "{refused:?}");
        }
    }
}
