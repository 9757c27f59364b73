//! What the rules about chunks look at: all that is known, and nothing of it to be changed.

use crate::fleet::Fleet;
use crate::leases::Leases;
use crate::state::State;
use crate::this_term::ThisTerm;
use crate::troubles::Troubles;
use crate::underway::Underway;
use cairn_env::Now;

/// The master's knowledge at one instant.
#[derive(Clone, Copy, Debug)]
pub(crate) struct View<'a> {
    pub(crate) now: Now,
    /// What is logged and applied.
    pub(crate) state: &'a State,
    pub(crate) term: &'a ThisTerm,
    /// What chunkservers told.
    pub(crate) fleet: &'a Fleet,
    pub(crate) leases: &'a Leases,
    /// What went wrong lately.
    pub(crate) troubles: &'a Troubles,
    /// What is being done.
    pub(crate) underway: &'a Underway,
}
