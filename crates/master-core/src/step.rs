//! What one step works with: the time, the applied state, and where its wishes go.

use crate::numbers::Numbers;
use crate::outbox::Outbox;
use crate::state::State;
use cairn_env::Now;

/// The surroundings of one step.
#[derive(Debug)]
pub(crate) struct Step<'a> {
    /// When the step happens.
    pub(crate) now: Now,
    /// Durable state as applied; the step itself changes none of it.
    pub(crate) state: &'a State,
    /// Fresh numbers of this term.
    pub(crate) numbers: &'a mut Numbers,
    /// Effects and proposals.
    pub(crate) out: &'a mut Outbox,
}
