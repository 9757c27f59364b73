//! Who belongs to the group of masters.

use crate::{Address, LogIndex, ServerId};

crate::code! {
    /// What a member's word counts for.
    #[derive(Default)]
    pub enum MemberStanding {
        /// It votes.
        #[default]
        Voter = 1,
        /// It gets the log and does not vote (R25).
        Learner = 2,
        /// It votes among those who will be the group; a change is under way.
        Entering = 3,
        /// It votes among those who were the group, and goes with the end of the change.
        Leaving = 4,
    }
}

crate::message! {
    /// One master of the group. Its id was drawn when its disk was initialised (R25).
    pub struct Member { 1 => id: ServerId, 2 => address: Address, 3 => standing: MemberStanding }
}

crate::message! {
    /// The masters of the group, as the log says up to a record. `joint`: a step of several changes
    /// has begun and not ended, and both groups decide.
    pub struct Members { 1 => all: Vec<Member>, 2 => as_of: LogIndex, 3 => joint: bool }
}

crate::message! {
    /// A member that comes, changes its standing, or (`goes`) is one no more.
    pub struct MemberChange { 1 => member: Member, 2 => goes: bool }
}

crate::message! {
    /// A step from one group to the next, as the log has it (Raft's joint consensus): one change is
    /// a step by itself, several begin one in two parts, and none ends it.
    pub struct MembersChange { 1 => changes: Vec<MemberChange> }
}

impl Members {
    /// Who votes when all that is under way is over.
    #[must_use]
    pub fn voters_to_be(&self) -> Vec<ServerId> {
        let votes = [MemberStanding::Voter, MemberStanding::Entering];
        let voters = self.all.iter().filter(|member| votes.contains(&member.standing));
        voters.map(|member| member.id).collect()
    }

    /// The group after a step that stands in the log at `index`.
    #[must_use]
    pub fn changed(&self, change: &MembersChange, index: LogIndex) -> Self {
        // Also where nobody's vote changes: the step has an end of its own in the log.
        let joint = change.changes.len() > 1;
        let mut next = Self { all: self.all.clone(), as_of: index, joint };
        if change.changes.is_empty() {
            next.all.retain(|member| member.standing != MemberStanding::Leaving);
            let entering = |it: &&mut Member| it.standing == MemberStanding::Entering;
            next.all.iter_mut().filter(entering).for_each(|it| it.standing = Default::default());
            return next;
        }
        for MemberChange { member, goes } in &change.changes {
            next.change_one(member, *goes);
        }
        next
    }

    fn change_one(&mut self, member: &Member, goes: bool) {
        let Some(place) = self.all.iter().position(|known| known.id == member.id) else {
            // Who is no member cannot go.
            if !goes {
                let entering = self.joint && member.standing == MemberStanding::Voter;
                let standing = if entering { MemberStanding::Entering } else { member.standing };
                self.all.push(Member { standing, ..member.clone() });
            }
            return;
        };
        let voted = self.all[place].standing == MemberStanding::Voter;
        match (goes, voted) {
            (true, true) if self.joint => self.all[place].standing = MemberStanding::Leaving,
            (true, _) => drop(self.all.remove(place)),
            (false, true) => self.all[place].address = member.address.clone(),
            (false, false) => {
                let enters = self.joint && member.standing == MemberStanding::Voter;
                let standing = if enters { MemberStanding::Entering } else { member.standing };
                self.all[place] = Member { standing, ..member.clone() };
            }
        }
    }

    /// A group of one.
    #[must_use]
    pub fn alone(id: ServerId) -> Self {
        let member = Member { id, ..Member::default() };
        Self { all: vec![member], ..Self::default() }
    }

    /// Whether nobody belongs to it but this one.
    #[must_use]
    pub fn is_alone(&self, id: ServerId) -> bool {
        let [member] = self.all.as_slice() else { return false };
        member.id == id && member.standing == MemberStanding::Voter
    }

    /// The member of that id.
    #[must_use]
    pub fn get(&self, id: ServerId) -> Option<&Member> {
        self.all.iter().find(|member| member.id == id)
    }
}

#[cfg(test)]
mod tests {
    use super::{Member, MemberChange, MemberStanding, Members, MembersChange};
    use crate::{LogIndex, ServerId};

    fn change(changes: &[(u64, MemberStanding, bool)]) -> MembersChange {
        let one = |(id, standing, goes): &(u64, MemberStanding, bool)| {
            let member =
                Member { id: ServerId::new(*id), standing: *standing, ..Member::default() };
            MemberChange { member, goes: *goes }
        };
        MembersChange { changes: changes.iter().map(one).collect() }
    }

    fn standings(members: &Members) -> Vec<(u64, MemberStanding)> {
        members.all.iter().map(|member| (member.id.get(), member.standing)).collect()
    }

    #[test]
    fn several_changes_are_a_step_in_two_parts_and_one_is_a_step_by_itself() {
        use MemberStanding::{Entering, Learner, Leaving, Voter};
        let alone = Members::alone(ServerId::new(1));
        let learning = alone.changed(&change(&[(2, Learner, false)]), LogIndex::new(5));
        assert_eq!(standings(&learning), [(1, Voter), (2, Learner)]);
        assert!(!learning.joint && !learning.is_alone(ServerId::new(1)));
        let replaced = change(&[(1, Voter, true), (2, Voter, false)]);
        let joint = learning.changed(&replaced, LogIndex::new(6));
        assert_eq!(standings(&joint), [(1, Leaving), (2, Entering)]);
        assert!(joint.joint);
        assert_eq!(joint.voters_to_be(), [ServerId::new(2)]);
        let after = joint.changed(&change(&[]), LogIndex::new(7));
        assert_eq!(standings(&after), [(2, Voter)]);
        assert_eq!((after.as_of, after.joint), (LogIndex::new(7), false));
        let learners =
            alone.changed(&change(&[(2, Learner, false), (3, Learner, false)]), after.as_of);
        assert!(learners.joint, "though no vote changes");
        let gone = learning.changed(&change(&[(2, Voter, true)]), LogIndex::new(6));
        assert!(gone.is_alone(ServerId::new(1)));
    }

    #[test]
    fn only_one_voter_without_company_is_alone() {
        let me = ServerId::new(7);
        let alone = Members::alone(me);
        assert!(alone.is_alone(me) && !alone.is_alone(ServerId::new(8)));
        let learner = Member { standing: MemberStanding::Learner, ..alone.all[0].clone() };
        assert!(!Members { all: vec![learner.clone()], ..alone.clone() }.is_alone(me));
        let other = Member { id: ServerId::new(8), ..learner };
        let two = Members { all: vec![alone.all[0].clone(), other], ..alone };
        assert!(!two.is_alone(me));
        assert_eq!(two.get(ServerId::new(8)).map(|it| it.standing), Some(MemberStanding::Learner));
    }
}
