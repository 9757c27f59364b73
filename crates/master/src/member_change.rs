//! Changing who belongs to the group, step by step, asked of the primary (design §4).
//!
//! ```text
//!   ChangeMasters ──► may it be done? ──► a record of the log ──► both groups ──► the new one
//!                          └─ refused                                              └─► answer
//! ```
//! - MC1: one step at a time, and none that leaves another number of voters than one, three or
//!   five.
//! - MC2: nobody votes who lacks more than a little of the log, and no step is begun while fewer
//!   than a majority of who will vote can be heard: it might never end.
//! - MC3: the primary does not take itself out: it hands over, and the next one is asked.
//! - MC4: one that was alone has told nobody where it is: that goes with the first step.

use cairn_consensus::{Consensus, ConsensusError, TICK};
use cairn_env::Caller;
use cairn_protocol::{ChangeMasters, ChangeMastersAnswer, ErrorCode, Failure, Response};
use cairn_types::{
    Address, LogIndex, Member, MemberChange, MemberStanding, Members, MembersChange, ServerId,
    Term, Time,
};
use std::time::Duration;

/// Numbers of voters that a group may have.
const VOTERS: [usize; 3] = [1, 3, 5];
/// Members that a group may have, those that do not vote among them.
const MEMBERS_MAX: usize = 16;
/// Records that one who is to vote may lack (MC2).
const LAG_MAX: u64 = 1_000;
/// Who was not heard for so long cannot be counted on (MC2).
const UNHEARD_MAX: Duration = TICK.saturating_mul(12);

/// Who waits for a step to end.
#[derive(Debug, Default)]
pub(crate) struct MemberChanges {
    waits: Option<(Caller, LogIndex, Term)>,
}

impl MemberChanges {
    /// Takes a wish of a person; an answer, where it does not wait for the group.
    ///
    /// # Errors
    /// [`ConsensusError`] when the library refuses.
    pub(crate) fn begin(
        &mut self,
        now: Time,
        (from, asked): (Caller, ChangeMasters),
        (consensus, address): (&mut Consensus, &Address),
    ) -> Result<Option<Result<Response, Failure>>, ConsensusError> {
        let Some((term, _)) = consensus.leads() else { unreachable!("asked of who is in charge") };
        let change = match allowed(now, asked, consensus, address) {
            Ok(change) => change,
            Err(refusal) => return Ok(Some(Err(refusal))),
        };
        if change.changes.is_empty() {
            let members = consensus.members().clone();
            return Ok(Some(Ok(Response::ChangeMasters(ChangeMastersAnswer { members }))));
        }
        let index = consensus.change_members(&change)?;
        assert!(self.waits.is_none(), "one step at a time (MC1)");
        self.waits = Some((from, index, term));
        Ok(None)
    }

    /// The answer of a step that has ended, or whose end this member will not see.
    pub(crate) fn end(
        &mut self,
        consensus: &Consensus,
    ) -> Option<(Caller, Result<Response, Failure>)> {
        let (to, index, term) = self.waits?;
        let members = consensus.members();
        let answer = if consensus.leads().map(|(term, _)| term) != Some(term) {
            let line = "another master is in charge now; 'cairn masters' shows the members";
            Err(Failure::unknown(ErrorCode::NotPrimaryMaster, line))
        } else if members.as_of >= index && !consensus.is_changing() {
            Ok(Response::ChangeMasters(ChangeMastersAnswer { members: members.clone() }))
        } else {
            return None;
        };
        self.waits = None;
        Some((to, answer))
    }
}

/// Whether this primary would take itself out (MC3).
pub(crate) fn takes_out(asked: &ChangeMasters, me: ServerId) -> bool {
    asked.changes.iter().any(|it| it.goes && it.member.id == me)
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
    for MemberChange { member, goes } in &changes {
        let known = members.get(member.id);
        let taken = members.all.iter().any(|it| it.id != member.id && it.address == member.address);
        let shown = member.address.as_str();
        if *goes {
            continue;
        } else if shown.is_empty() || member.id == ServerId::default() {
            return refuse("a member has an id and an address".to_owned());
        } else if taken {
            return refuse(format!("{shown} is the address of another member"));
        } else if known.is_none() && member.standing != MemberStanding::Learner {
            return refuse(format!(
                "{shown} has nothing of the log yet: it learns before it votes"
            ));
        } else if known.is_some_and(|it| it.standing == MemberStanding::Voter) {
            return refuse(format!("{shown} votes; take it out, and in again"));
        }
    }
    if changes.is_empty() {
        return Ok(MembersChange { changes });
    }
    if let Some(me) = members.all.iter().find(|it| it.address.as_str().is_empty()) {
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

/// Whether this is so already.
fn holds(members: &Members, change: &MemberChange) -> bool {
    match members.get(change.member.id) {
        None => change.goes,
        Some(known) => !change.goes && *known == change.member,
    }
}

/// MC2
fn may_vote(now: Time, consensus: &Consensus, voters: &[ServerId]) -> Result<(), Failure> {
    let members = consensus.members();
    let shown = |id: ServerId| members.get(id).map(|it| it.address.to_string()).unwrap_or_default();
    let is_heard = |id: &ServerId| {
        consensus.is_alone() || consensus.heard(*id).is_some_and(|at| now < at + UNHEARD_MAX)
    };
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
