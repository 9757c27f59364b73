//! The group of masters, as people see it and make it.

use crate::MasterRole;
use cairn_types::{CellId, LogIndex, Member, MemberChange, Members, ServerId, Term};

cairn_types::message! {
    /// Who belongs to the group of masters, and how far each is. Every master answers, whatever it
    /// is, from what it believes; one that belongs to no group yet says no members.
    pub struct ListMasters { }
}
cairn_types::message! {
    /// A member and how much of the log it is known to have; only the primary knows that.
    pub struct MasterStatus { 1 => member: Member, 2 => matched: LogIndex }
}
cairn_types::message! {
    /// What the master that was asked knows.
    pub struct ListMastersAnswer {
        1 => me: ServerId,
        /// None where it belongs to no group yet.
        2 => cell: CellId,
        3 => role: MasterRole,
        4 => term: Term,
        /// Who is in charge; zero where it knows none.
        5 => primary: ServerId,
        /// The last record that it has applied.
        6 => applied: LogIndex,
        7 => members: Vec<MasterStatus>,
    }
}

cairn_types::message! {
    /// A step to another group of masters, asked of the primary: all of the changes at once. What
    /// holds already is no change.
    pub struct ChangeMasters { 1 => changes: Vec<MemberChange> }
}
cairn_types::message! {
    /// It is over; the members now.
    pub struct ChangeMastersAnswer { 1 => members: Members }
}

cairn_types::message! {
    /// Makes a master whose disk is empty a member of this group (R25). Asked of each of them; one
    /// that is a member of just this group already says yes.
    pub struct JoinGroup { 1 => cell: CellId, 2 => members: Members }
}
cairn_types::message! {
    /// It is one, durably.
    pub struct JoinGroupAnswer { }
}
