//! Terms fence: an order of a master that reaches a chunkserver after that has done what a master
//! of a higher term ordered is not done any more (R2).
//!
//! What was taken in before may be finished after: it counts when it came.

use super::checker::{Checker, Verdict};
use crate::ledger::Ledger;
use cairn_env_sim::{NodeId, SeenRequest};
use cairn_protocol::{Failure, Request, Response};
use cairn_types::Term;
use std::collections::BTreeMap;

#[derive(Default)]
pub(crate) struct TermsFence {
    /// The highest term obeyed.
    obeyed: BTreeMap<NodeId, Term>,
    /// Orders that came too late, and the term that had been obeyed by then.
    late: Vec<(NodeId, Request, Term)>,
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

    fn delivered(&mut self, seen: &SeenRequest<'_>, _: &Ledger) -> Verdict {
        let highest = self.obeyed.get(&seen.to).copied().unwrap_or_default();
        if term_of(seen.request).is_some_and(|term| term < highest) {
            self.late.push((seen.to, seen.request.clone(), highest));
        }
        Ok(())
    }

    fn answered(
        &mut self,
        seen: &SeenRequest<'_>,
        answer: &Result<Response, Failure>,
        _: &Ledger,
    ) -> Verdict {
        let (Some(term), Ok(_)) = (term_of(seen.request), answer) else { return Ok(()) };
        let is_this =
            |(to, late, _): &&(NodeId, Request, Term)| *to == seen.to && late == seen.request;
        if let Some((_, _, highest)) = self.late.iter().find(is_this) {
            return Err(format!(
                "{:?} does what a master of term {term} ordered by {}, and had obeyed one of term \
                 {highest} before it came",
                seen.to,
                seen.request.name(),
            ));
        }
        let obeyed = self.obeyed.entry(seen.to).or_default();
        *obeyed = term.max(*obeyed);
        Ok(())
    }
}
