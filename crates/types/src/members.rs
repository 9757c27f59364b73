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
    /// The masters of the group, as the log says up to a record.
    pub struct Members { 1 => all: Vec<Member>, 2 => as_of: LogIndex }
}

impl Members {
    /// A group of one.
    #[must_use]
    pub fn alone(id: ServerId) -> Self {
        let member = Member { id, ..Member::default() };
        Self { all: vec![member], as_of: LogIndex::default() }
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
    use super::{Member, MemberStanding, Members};
    use crate::ServerId;

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
