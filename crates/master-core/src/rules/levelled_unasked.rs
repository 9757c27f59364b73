//! Which chunks the master levels though no client asks for a lease (R28).
//!
//! A replica that may have lost bytes becomes current by a raise alone. A chunk that nobody writes
//! to would wait for one for ever, and lose its redundancy with each server that dies meanwhile:
//! no copy is made of a suspect.
//!
//! - LV1: only where nobody may have a lease, known or not: to a client's chunk its client sees.
//! - LV2: only where a raise is of use: a suspect of its set becomes current, or one that lacks
//!   what was acknowledged (R29) becomes stale, and may make room for a copy. Those that stay are
//!   a set without it (R11), and all that lack nothing and are not dead: what a damaged replica
//!   alone has, or a silent one, is left out by nobody but those who ask for the chunk.
//! - LV3: never by a decision, which leaves replicas out for ever: while nobody asks for the chunk,
//!   waiting for those who are away costs nothing.
//! - LV4: but where the chunk is cornered: fewer sound replicas than a set needs, all others of
//!   the set suspect or behind (R29) and not damaged, no other server that could take a copy, and
//!   nobody away. Nothing that is waited for comes, no copy is made, and if the sound one goes so
//!   does what it alone has. The decision makes suspects stale that hold no more than it, and
//!   these make room, one by one, for copies (GB2). Where one holds more it is a person's.

use super::decided_set::{SetDecision, decide, keeps_above};
use super::garbage::is_enough_beside;
use super::members::{current, former_holder_unknown};
use super::placement::is_room_nowhere_else;
use super::replica_set::{LiveMember, growth_sheds, may_be_set, plan_raise};
use crate::fleet::{KnownReplica, behind};
use crate::state::ChunkRecord;
use crate::view::View;
use cairn_types::{ChunkHandle, ServerId};
use std::collections::BTreeSet;

/// Whom the master raises by itself now, if it does.
pub(crate) fn whom_to_level(
    view: &View<'_>,
    (handle, chunk): (ChunkHandle, &ChunkRecord),
) -> Option<Vec<LiveMember>> {
    // LV2: asked of every one that ails, with each tick; most have none like that.
    // As the raise will judge what they answer: by what each counts, not by its bytes.
    let up_to_date: Vec<(ServerId, KnownReplica)> = current(view, handle, chunk).collect();
    let stale = behind(&up_to_date);
    let is_amiss = |server: ServerId| {
        let is_suspect = |(other, it): &(ServerId, KnownReplica)| *other == server && it.suspect;
        stale.contains(&server) || up_to_date.iter().any(is_suspect)
    };
    if !up_to_date.iter().any(|(server, _)| is_amiss(*server)) {
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
    match decide(view, handle, chunk) {
        SetDecision::NotNeeded => {}
        SetDecision::Set(set) if is_cornered(view, (handle, chunk), &up_to_date, &set) => {
            return plan_raise(view, handle, chunk).ok();
        }
        // LV3
        SetDecision::Set(_) | SetDecision::At(_) | SetDecision::LeftToPerson(_) => return None,
    }
    let members = plan_raise(view, handle, chunk).ok()?;
    // LV2
    let of_use = members.iter().any(|(at, _)| is_amiss(at.server));
    let stay = members.iter().map(|(at, _)| at.server).filter(|server| !stale.contains(server));
    let stay: Vec<ServerId> = stay.collect();
    let is_set = may_be_set(view, handle, chunk, &stay).is_ok();
    (of_use && is_set && !growth_sheds(view, (handle, chunk), &stay)).then_some(members)
}

/// Whether no copy of a chunk can be made before these, on whom the rules decide, are its set, and
/// nothing is lost by the decision (LV4).
fn is_cornered(
    view: &View<'_>,
    (handle, chunk): (ChunkHandle, &ChunkRecord),
    told: &[(ServerId, KnownReplica)],
    set: &[ServerId],
) -> bool {
    let is_fit = |(server, replica): &(ServerId, KnownReplica)| {
        !replica.damaged && (replica.is_sound() || !set.contains(server))
    };
    let all_told = told.len() >= chunk.set_size as usize;
    let holders: BTreeSet<ServerId> =
        view.fleet.locations().of(handle).map(|(server, _)| server).collect();
    let others = holders.len().saturating_sub(set.len());
    all_told
        && told.iter().all(is_fit)
        && set.len() < chunk.goal as usize
        && is_enough_beside(set.len(), others)
        && keeps_above(view, (handle, chunk), set).is_none()
        && is_room_nowhere_else(view, &holders)
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
