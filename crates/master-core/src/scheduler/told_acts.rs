//! What jobs do with leases and sets, told to whoever looks for a reason.

use crate::jobs::acts::{Act, Question};
use crate::leases::{GrantedLease, LeaseStatus, Leases};
use crate::outbox::MasterOutbox;
use crate::state::State;
use crate::told::{listed, name_of, of_chunk, of_lease, with_lease};
use cairn_env::LogEvent;
use cairn_protocol::GrantLease;
use cairn_types::{ChunkHandle, LeaseId, ReplicaAt, SerialNumber, Time};

/// Tells of an act that is about to be done, if it changes a lease or a set.
pub(super) fn tell_act(out: &mut MasterOutbox, leases: &Leases, state: &State, act: &Act) {
    if out.tells_debug()
        && let Some(event) = event_of(leases, state, act)
    {
        out.log(event);
    }
}

fn event_of(leases: &Leases, state: &State, act: &Act) -> Option<LogEvent> {
    let leased = |handle, id| leases.get(handle).filter(|lease| lease.id == id);
    match act {
        Act::Ask { at, question: Question::Grant(grant), .. } => Some(granted(at, grant)),
        Act::DoubtLease(handle, id, status) => {
            leased(*handle, *id).map(|lease| of_lease(name_of(*status), *handle, lease))
        }
        Act::ShrinkLease(handle, id, version, secondaries) => leased(*handle, *id).map(|lease| {
            let event = of_chunk("set shrunk", *handle, *version);
            let servers = listed(secondaries.iter().map(|at| at.server));
            with_lease(event, *id, lease.holder.server).with("secondaries", servers)
        }),
        Act::Fence(handle) => {
            state.chunk(*handle).map(|chunk| of_chunk("chunk fenced", *handle, chunk.version))
        }
        Act::Placed(handle, server, report) => {
            let event = of_chunk("replica made", *handle, report.version);
            Some(event.with_number("serial", report.serial.get()).with("server", server))
        }
        _ => None,
    }
}

fn granted(holder: &ReplicaAt, grant: &GrantLease) -> LogEvent {
    let event = of_chunk("lease granted", grant.handle, grant.version);
    let event = event.with_number("serial", grant.serial.get());
    let secondaries = listed(grant.secondaries.iter().map(|at| at.server));
    with_lease(event, grant.lease, holder.server).with("secondaries", secondaries)
}

/// Tells of a lease that its holder has given back, whose replica goes so far.
pub(super) fn tell_given_back(
    out: &mut MasterOutbox,
    (handle, lease): (ChunkHandle, &GrantedLease),
    serial: SerialNumber,
) {
    let event = || of_lease("lease given back", handle, lease);
    out.debug(|| event().with_number("serial", serial.get()));
}

/// Tells of a lease that is asked back, while it is there.
pub(super) fn tell_revoked(
    out: &mut MasterOutbox,
    leases: &Leases,
    (handle, id): (ChunkHandle, LeaseId),
) {
    if let Some(lease) = leases.get(handle).filter(|lease| lease.id == id) {
        out.debug(|| of_lease("lease revoked", handle, lease));
    }
}

/// Doubts a lease that is asked back, and tells of it.
pub(super) fn doubt_revoked(
    out: &mut MasterOutbox,
    leases: &mut Leases,
    (handle, id): (ChunkHandle, LeaseId),
) {
    tell_revoked(out, leases, (handle, id));
    leases.set_status(handle, id, LeaseStatus::Doubted);
}

/// Takes out the leases whose time is over, and tells of them.
pub(super) fn expire(
    out: &mut MasterOutbox,
    leases: &mut Leases,
    now: Time,
) -> Vec<(ChunkHandle, GrantedLease)> {
    let expired = leases.expire(now);
    assert!(expired.iter().all(|(_, lease)| now >= lease.until), "a lease lasts until its time");
    // What was over before has been told.
    let ran_out = expired.iter().filter(|(_, lease)| lease.status != LeaseStatus::Over);
    for (handle, lease) in ran_out {
        out.debug(|| of_lease("lease expired", *handle, lease));
    }
    expired
}
