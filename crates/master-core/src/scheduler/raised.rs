//! What a replica's answer to a raise tells, whatever the raise was for.

use super::in_flight::{AwaitedCall, InFlight};
use crate::jobs::raise::RaiseAsked;
use crate::leases::{GrantedLease, LeaseStatus, Leases};
use crate::step::ChunkStep;
use crate::this_term::ThisTerm;
use crate::told::{name_of, of_chunk, of_lease};
use crate::troubles::Troubles;
use cairn_protocol::{ErrorCode, Failure, Probe, ReplicaReport};
use cairn_types::LeaseId;

/// What such an answer may change.
#[derive(Debug)]
pub(super) struct RaiseLearner<'a> {
    pub(super) leases: &'a mut Leases,
    pub(super) troubles: &'a mut Troubles,
    pub(super) in_flight: &'a mut InFlight,
}

impl RaiseLearner<'_> {
    /// Tells of the lease that its holder has no more, now that it took this raise (R7).
    fn tell_ended(&self, step: &mut ChunkStep<'_>, asked: &RaiseAsked) {
        let RaiseAsked { handle, server, .. } = *asked;
        let held = |lease: &&GrantedLease| {
            lease.holder.server == server && lease.status != LeaseStatus::Over
        };
        if let Some(lease) = self.leases.get(handle).filter(held) {
            step.out.debug(|| of_lease(name_of(LeaseStatus::Over), handle, lease));
        }
    }

    /// Takes in one replica's answer.
    pub(super) fn note(
        &mut self,
        step: &mut ChunkStep<'_>,
        this_term: &ThisTerm,
        asked: &RaiseAsked,
        result: &Result<ReplicaReport, Failure>,
    ) {
        let RaiseAsked { handle, server, keeps_lease, .. } = *asked;
        let when = (asked.at, step.now.time);
        if let Err(failure) = result {
            let event = || of_chunk("raise not taken", handle, asked.to).with("server", server);
            step.out.debug(|| event().with("why", &failure.message));
        }
        match result {
            Ok(report) => {
                self.troubles.note_raised(handle, server);
                // Of a chunk that is being made, or was not made in the end, nothing is noted.
                let noted = step.note_replica(handle, server, report);
                if noted && !keeps_lease {
                    self.tell_ended(step, asked);
                    self.leases.raised_at(handle, server);
                }
            }
            Err(failure) if failure.code == ErrorCode::NoSuchChunk => {
                step.fleet.forget_replica(handle, server);
            }
            // It stands elsewhere than it last told: ask, so that the next raise fits.
            Err(failure) if failure.code == ErrorCode::StaleVersion => {
                self.troubles.note_stands_elsewhere(step.now.time, handle, server);
                // Who was forgotten meanwhile will tell anew.
                let Some(at) = step.fleet.at(server).cloned() else { return };
                let (term, lease) = (this_term.number, LeaseId::default());
                let request = Probe { term, handle, lease };
                let deadline = step.now.time + 2 * this_term.heartbeat();
                self.in_flight.call(
                    step.out,
                    at,
                    request,
                    deadline,
                    AwaitedCall::Refresh(handle, server),
                );
            }
            // It told nothing of its replica.
            Err(_) => {
                self.troubles.note_late(when, handle, server);
                self.troubles.note_server(step.now.time, server);
            }
        }
    }
}
