//! One primary: in true time, once a replica has accepted a lease on a chunk, no other replica
//! acknowledges anything under an older one (R4, R8, R18, R22).

use super::checker::{Checker, Verdict};
use crate::acknowledged_mutation::acknowledges;
use crate::ledger::Ledger;
use cairn_env_sim::{NodeId, SeenRequest};
use cairn_protocol::{Failure, Request, Response};
use cairn_types::{ChunkHandle, LeaseId};
use std::collections::BTreeMap;

#[derive(Default)]
pub(crate) struct OnePrimary {
    /// The lease accepted last, and by whom.
    accepted: BTreeMap<ChunkHandle, (LeaseId, NodeId)>,
}

fn lease_of(request: &Request) -> Option<LeaseId> {
    match request {
        Request::Write(write) => Some(write.lease),
        Request::Append(append) => Some(append.lease),
        _ => None,
    }
}

impl Checker for OnePrimary {
    fn name(&self) -> &'static str {
        "one_primary"
    }

    fn answered(
        &mut self,
        seen: &SeenRequest<'_>,
        answer: &Result<Response, Failure>,
        _: &Ledger,
    ) -> Verdict {
        if let (Request::GrantLease(grant), Ok(_)) = (seen.request, answer) {
            self.accepted.insert(grant.handle, (grant.lease, seen.to));
            return Ok(());
        }
        let Some((handle, ..)) = acknowledges(seen.request, answer) else { return Ok(()) };
        let named = lease_of(seen.request).expect("mutations name their lease");
        match self.accepted.get(&handle) {
            Some((lease, holder)) if *lease != named && *holder != seen.to => Err(format!(
                "{:?} acknowledges on chunk {} under lease {}, while {holder:?} holds lease {}",
                seen.to,
                handle.short(),
                named.short(),
                lease.short(),
            )),
            _ => Ok(()),
        }
    }
}
