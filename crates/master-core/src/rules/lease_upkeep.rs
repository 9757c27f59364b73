//! What a heartbeat does for the leases that its sender holds: extensions, and leases of an earlier
//! term (R21, R22).
//!
//! - LU1: a lease of an earlier term goes on if its holder tells of it before anybody else got one,
//!   and before all of them have run out; only while it is told is it extended.
//! - LU2: an extension is of this lease, at its version, for this life of its holder; and only
//!   while the chunk is in use and nothing is under way that speaks against it (G3).
//! - LU4: no lease goes on that could change what a snapshot has (R34).
//! - LU3: one that was asked back in vain serves on as soon as its holder tells of it: a word of
//!   its being asked that comes late ends it, and the holder tells of it no more.

use super::members::former_holder_unknown;
use crate::chunk_place::ChunkPlace;
use crate::leases::{GrantedLease, LeaseStatus};
use crate::underway::Activity;
use crate::view::View;
use cairn_protocol::HeldLease;
use cairn_types::planted::{Rule, broken};
use cairn_types::{Incarnation, ServerId};

/// A server in one of its lives.
pub(crate) type Holder = (ServerId, Incarnation);

/// Whether a lease goes on for a whole lease time (LU2).
pub(crate) fn may_extend(view: &View<'_>, (server, incarnation): Holder, held: &HeldLease) -> bool {
    // Of a chunk without a record, or without a lease here, the holder's runs out by itself.
    let Some(chunk) = view.state.chunk(held.handle) else { return false };
    let Some(lease) = view.leases.get(held.handle) else { return false };
    let place = ChunkPlace::new(chunk.file, chunk.index);
    let doing = view.underway.at(place);
    let shrinking = matches!(doing, Activity::Shrinking(_));
    let changed = doing != Activity::Nothing || view.underway.is_taken(place, held.handle);
    let held_still = lease.status == LeaseStatus::AskedBack && lease.may_live(view.now.time);
    let hidden = view.state.is_hidden(chunk.file) && !broken(Rule::R20);
    // R34: neither while a snapshot is being taken, nor of what was in one.
    let snapped = view.is_frozen(chunk.file) || view.state.sharing().is_shared(held.handle);
    let this_lease = lease.id == held.lease && lease.holder.server == server;
    let same = (lease.version == held.version || shrinking) && lease.incarnation == incarnation;
    this_lease
        && same
        && (lease.serves(view.now.time) || held_still)
        && held.wanted
        && (shrinking || !changed)
        && !hidden
        && (!snapped || broken(Rule::R34))
}

/// The lease that an earlier term granted, to be taken over (LU1).
pub(crate) fn adopted(
    view: &View<'_>,
    (server, incarnation): Holder,
    held: &HeldLease,
) -> Option<GrantedLease> {
    let chunk = view.state.chunk(held.handle)?;
    let place = ChunkPlace::new(chunk.file, chunk.index);
    let known = view.leases.get(held.handle).is_some()
        || view.leases.is_fenced(held.handle)
        || view.underway.at(place) != Activity::Nothing
        || view.underway.is_taken(place, held.handle);
    // LU1: what is told later is made up, and readers would be sent to whoever tells it.
    let earlier = held.lease.term() < view.term.number
        && chunk.version == held.version
        && former_holder_unknown(view, held.handle, &chunk);
    let snapped = view.state.sharing().is_shared(held.handle) && !broken(Rule::R34);
    if known || !earlier || snapped || view.state.is_hidden(chunk.file) {
        return None;
    }
    assert!(held.lease.term() < view.term.number, "of an earlier term (LU1)");
    let now = view.now.time;
    Some(GrantedLease {
        id: held.lease,
        version: held.version,
        holder: view.fleet.at(server)?.clone(),
        incarnation,
        secondaries: None,
        granted: now,
        until: now + view.term.config.lease(),
        status: LeaseStatus::Serving,
        confirmed: true,
        takes_appends: !chunk.closed,
        adopted: true,
        acknowledged: held.acknowledged,
    })
}
