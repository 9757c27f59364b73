//! Which chunks the master levels though no client asks for a lease (R28).
//!
//! A replica that may have lost bytes becomes current by a raise alone. A chunk that nobody writes
//! to would wait for one for ever, and lose its redundancy with each server that dies meanwhile:
//! no copy is made of a suspect.
//!
//! - LV1: only where nobody may have a lease, known or not: to a client's chunk its client sees.
//! - LV2: only where a raise is of use: a suspect of its set becomes current.
//! - LV3: never by a decision, which leaves replicas out for ever: while nobody asks for the chunk,
//!   waiting for those who are away costs nothing.

use super::decided_set::{SetDecision, decide};
use super::members::{current, former_holder_unknown};
use super::replica_set::{LiveMember, plan_raise};
use crate::fleet::KnownReplica;
use crate::state::ChunkRecord;
use crate::view::View;
use cairn_types::{ChunkHandle, ServerId};

/// Whom the master raises by itself now, if it does.
pub(crate) fn whom_to_level(
    view: &View<'_>,
    (handle, chunk): (ChunkHandle, &ChunkRecord),
) -> Option<Vec<LiveMember>> {
    // LV2: asked of every one that ails, with each tick; most have no suspect.
    if !view.fleet.locations().of(handle).any(|(_, replica)| replica.suspect) {
        return None;
    }
    let now = view.now.time;
    let may_be_leased =
        view.leases.possible(handle, now).is_some() || former_holder_unknown(view, handle, chunk);
    // LV1; R20: a deleted file's chunk gets no lease.
    if may_be_leased || view.state.sharing().is_hidden(handle, chunk) {
        return None;
    }
    if view.troubles.rest(now, handle).is_some() {
        return None;
    }
    // What a producer writes is sealed, and that makes it current.
    if view.state.streams().open_chunk(handle).is_some() {
        return None;
    }
    // LV3
    if decide(view, handle, chunk) != SetDecision::NotNeeded {
        return None;
    }
    let members = plan_raise(view, handle, chunk).ok()?;
    let replica = |server| view.fleet.locations().get(handle, server);
    let suspect = |(at, _): &LiveMember| replica(at.server).is_some_and(|it| it.suspect);
    // LV2
    members.iter().any(suspect).then_some(members)
}

/// Whether suspects are all there is of a chunk, and the master waits for nobody but time to level
/// them: to copy from there is nothing, and nothing that a person must do.
pub(crate) fn is_to_be_levelled(
    view: &View<'_>,
    (handle, chunk): (ChunkHandle, &ChunkRecord),
) -> bool {
    let is_suspect = |(_, replica): (ServerId, KnownReplica)| replica.suspect && !replica.damaged;
    let suspects = current(view, handle, chunk).any(is_suspect);
    let leased = view.leases.possible(handle, view.now.time).is_some();
    let ordinary = decide(view, handle, chunk) == SetDecision::NotNeeded;
    suspects && ordinary && (leased || plan_raise(view, handle, chunk).is_ok())
}
