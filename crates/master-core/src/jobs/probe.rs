//! Asking a primary that a client doubts whether it is there (R18): only the master declares a
//! primary failed.
//!
//! ```text
//!   Probe ─┬─► it holds the lease ───────► waiters are answered
//!          ├─► it does not ──────────────► the lease is over ─┬─► looked at again
//!          └─► no answer ────────────────► the lease is in doubt ─┘
//! ```

use super::acts::{Act, Acts, Question};
use super::events::JobEvent;
use crate::leases::{GrantedLease, LeaseStatus};
use crate::view::View;
use cairn_protocol::Probe;
use cairn_types::{ChunkHandle, LeaseId};

/// One question to one primary.
#[derive(Debug)]
pub(crate) struct ProbeJob {
    handle: ChunkHandle,
    lease: LeaseId,
}

impl ProbeJob {
    /// Asks the holder of `lease`.
    pub(crate) fn start(
        view: &View<'_>,
        handle: ChunkHandle,
        lease: &GrantedLease,
        acts: &mut Acts<'_>,
    ) -> Self {
        assert!(lease.serves(view.now.time), "only who serves is asked whether it does");
        let probe = Probe { term: view.term.number, handle, lease: lease.id };
        let deadline = view.now.time + 2 * view.term.heartbeat();
        acts.ask(lease.holder.clone(), Question::Probe(probe), deadline);
        Self { handle, lease: lease.id }
    }

    pub(crate) fn on(&mut self, event: JobEvent<'_>, acts: &mut Acts<'_>) {
        let JobEvent::ProbeAnswered(result) = event else {
            unreachable!("a probe waits for its answer alone (JB2): {event:?}");
        };
        let status = match result {
            Ok(answer) if answer.holds => return acts.push(Act::Finish),
            Ok(_) => LeaseStatus::Over,
            Err(_) => LeaseStatus::Doubted,
        };
        acts.push(Act::DoubtLease(self.handle, self.lease, status));
        acts.push(Act::LookAgain("the primary does not answer as such".into()));
    }
}
