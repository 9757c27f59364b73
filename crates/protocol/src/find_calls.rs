//! Which of a cell's masters is in charge: asked of each of them, by whoever looks for it.

use cairn_types::{Address, Term};

cairn_types::code! {
    /// What a master is to its cell.
    #[derive(Default)]
    pub enum MasterRole {
        /// In charge: it takes requests.
        Primary = 1,
        /// Another one is in charge, or none.
        Shadow = 2,
        /// On its way to be in charge: its term is not in the log yet (R23).
        #[default]
        Starting = 3,
    }
}

impl MasterRole {
    /// Its name, which stays as it is.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Primary => "primary",
            Self::Shadow => "shadow",
            Self::Starting => "starting",
        }
    }
}

cairn_types::message! {
    /// Who is in charge? Answered at once by every master, whatever it is, from what it believes.
    pub struct FindPrimary { }
}
cairn_types::message! {
    /// What the master that was asked is. It may have been deposed, and not know yet: of two that
    /// say that they are in charge, the one of the higher term is.
    pub struct FindPrimaryAnswer {
        1 => role: MasterRole,
        2 => term: Term,
        /// Whom a shadow takes for the primary; empty where it knows none.
        3 => primary: Address,
        /// All masters of the cell; none where this one cannot tell.
        4 => masters: Vec<Address>,
    }
}
