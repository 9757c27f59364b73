//! Terms fence: a chunkserver that has done what a master of one term ordered does nothing any
//! more that a master of a lower term ordered, however late its order arrives (R2).

use super::{Checker, Verdict};
use crate::ledger::Ledger;
use cairn_env_sim::{NodeId, Seen};
use cairn_protocol::{Failure, Request, Response};
use cairn_types::Term;
use std::collections::BTreeMap;

#[derive(Default)]
pub(crate) struct TermsFence {
    /// The highest term obeyed.
    obeyed: BTreeMap<NodeId, Term>,
}

/// The term of a master's order.
fn term_of(request: &Request) -> Option<Term> {
    match request {
        Request::Raise(raise) => Some(raise.term),
        Request::GrantLease(grant) => Some(grant.term),
        Request::RevokeLease(revoke) => Some(revoke.term),
        _ => None,
    }
}

impl Checker for TermsFence {
    fn name(&self) -> &'static str {
        "terms_fence"
    }

    fn answered(
        &mut self,
        seen: &Seen<'_>,
        answer: &Result<Response, Failure>,
        _: &Ledger,
    ) -> Verdict {
        let (Some(term), Ok(_)) = (term_of(seen.request), answer) else { return Ok(()) };
        let highest = self.obeyed.entry(seen.to).or_default();
        if term < *highest {
            return Err(format!(
                "{:?} does what a master of term {term} ordered by {}, after it has obeyed one of \
                 term {highest}",
                seen.to,
                seen.request.name(),
            ));
        }
        *highest = term;
        Ok(())
    }
}
