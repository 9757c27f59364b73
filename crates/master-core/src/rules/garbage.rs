//! What a server may delete (§4.4, R33), and what it may not serve any more (§4.5).
//!
//! - GB1: never a handle in the making, never an up-to-date replica, never bytes of a chunk that
//!   the log does not know and has not purged (`unknown_chunks.rs`).
//! - GB2: a stale replica goes only when the chunk has its goal of good ones; or when it stands in
//!   the way: the chunk lacks a good one, no server with room is without a replica of it, nor one
//!   that is silent for a moment, and two others are left, a good one among them. It lies in its
//!   server's trash for a while then, as all that is deleted does. Only those count as good that
//!   have been heard since the stale one's server joined: one that was killed passes for live
//!   until it has been silent for long enough.
//! - GB3: what is named is judged from a report that came in this term, after its first record was
//!   applied; handle *and* version are named, so that nothing newer goes.
//! - GB4: that the log purged a chunk says something of those servers alone whose past is this
//!   log's (R3): one that came with a past that nobody can tell keeps what it had then. A log that
//!   lacks the end of a term is told so by whoever heard of it (CS2 of `chunkservers.rs`).
//! - GB5: where the master decided on a set while a member was away (R28), one that stood before
//!   the decision, comes back and holds more is kept, and told of as lost, until a person lets go
//!   of it.

use super::lacking::lacking;
use super::placement::is_room_nowhere_else;
use super::same_bytes::current_by_bytes;
use crate::chunk_place::ChunkPlace;
use crate::fleet::{behind, is_empty_creation};
use crate::state::{ChunkRecord, State};
use crate::view::View;
use cairn_protocol::{Garbage, Join, LeftOut, ReplicaReport};
use cairn_types::planted::{Rule, broken};
use cairn_types::{ChunkHandle, ReignId, ServerId, Term};

/// The deletion of what was reported (GB3).
pub(crate) fn named(report: &ReplicaReport) -> Garbage {
    Garbage { handle: report.handle, version: report.version }
}

/// The set that goes on without what was reported, if one does.
pub(crate) fn left_out_of(chunk: Option<&ChunkRecord>, report: &ReplicaReport) -> Option<LeftOut> {
    let chunk = chunk.filter(|chunk| report.version < chunk.version)?;
    Some(LeftOut { handle: report.handle, version: chunk.version })
}

/// Whether the chunk of a replica was purged, as far as its server is concerned (GB4).
pub(crate) fn is_purged(state: &State, server: ServerId, handle: ChunkHandle) -> bool {
    let is_of_this_log =
        state.known_servers().since(server).is_some_and(|since| handle.term() >= since);
    // R3 broken: what the table lacks is taken for purged.
    let lacks = broken(Rule::R3) && state.chunk(handle).is_none();
    is_of_this_log && (state.is_purged(handle) || lacks) || state.is_let_go(handle)
}

/// The first term of which what a server holds that joins is of this log's history (GB4).
pub(crate) fn since(state: &State, join: &Join, now: Term) -> Term {
    let is_empty = join.cell.is_none();
    let served = join.served;
    // Of what came before this history a person has said that it is this cell's.
    let is_before = served.reign != ReignId::default() && served.term < state.history_began();
    let is_of_this_log = state.had(served.term, served.reign) || is_before;
    match state.known_servers().since(join.at.server) {
        Some(since) if is_of_this_log => since,
        // GB4 broken: whoever comes has the past of this log.
        _ if is_empty || broken(Rule::GB4) => Term::default(),
        // Forgotten, or of a past that the log does not remember.
        _ => now,
    }
}

/// Whether what a server has just reported of a chunk, if it is one, can go.
pub(crate) fn is_garbage(
    view: &View<'_>,
    server: ServerId,
    report: &ReplicaReport,
    chunk: Option<&ChunkRecord>,
) -> bool {
    let handle = report.handle;
    if view.underway.makes(handle) && !broken(Rule::R33) {
        return false;
    }
    let Some(chunk) = chunk else {
        return is_empty_creation(report) || is_purged(view.state, server, handle);
    };
    if report.version >= chunk.version {
        return false;
    }
    if is_kept(view.state, report) {
        return false;
    }
    let place = ChunkPlace::new(chunk.file, chunk.index);
    let busy = view.underway.has_job(place) || view.underway.is_taken(place, handle);
    !busy && is_needless(view, server, handle, chunk)
}

/// Whether a replica that a decision left out holds more than the set had then: it is a person's to
/// let go of (GB5).
pub(crate) fn is_kept(state: &State, report: &ReplicaReport) -> bool {
    let handle = report.handle;
    let kept = state.kept_above(handle);
    let holds_more = kept.is_some_and(|kept| kept.keeps(report.version, report.serial));
    holds_more && state.chunk(handle).is_some_and(|chunk| report.version < chunk.version)
}

/// Whether two are left where one that is not good goes, a good one among them (GB2): of so many
/// good ones, and others.
pub(crate) fn is_enough_beside(good: usize, others: usize) -> bool {
    good >= 2 || (good == 1 && others >= 2)
}

/// Whether this server's stale replica of the chunk is of no use to it (GB2).
fn is_needless(
    view: &View<'_>,
    holder: ServerId,
    handle: ChunkHandle,
    chunk: &ChunkRecord,
) -> bool {
    // H3 broken: nothing stale ever goes.
    if broken(Rule::H3) {
        return false;
    }
    // GB2 broken: what is stale goes, however few the others are.
    if broken(Rule::GB2) {
        return true;
    }
    let (now, servers) = (view.now.time, view.fleet.servers());
    let joined = servers.get(holder).map(|it| it.joined).unwrap_or(now);
    let heard_since = |server| servers.get(server).is_some_and(|it| it.heard > joined);
    let locations = view.fleet.locations();
    // R29: one that lacks what was acknowledged is none of the goal, whatever its version.
    let up_to_date = current_by_bytes(view, handle, chunk);
    let left_behind = behind(&up_to_date);
    let good = up_to_date.iter().filter(|(server, replica)| {
        let live = servers.is_live(now, *server) && heard_since(*server);
        let there = replica.is_sound() && live;
        there && !left_behind.contains(server)
    });
    let good = good.count();
    let in_the_way = || {
        let others = locations.of(handle).count().saturating_sub(good);
        let lacks = is_enough_beside(good, others) && lacking(view, handle, chunk).is_some();
        let holders = locations.of(handle).map(|(server, _)| server).collect();
        lacks && is_room_nowhere_else(view, &holders)
    };
    good >= chunk.goal as usize || in_the_way()
}

#[cfg(test)]
mod tests {
    use super::named;
    use cairn_protocol::ReplicaReport;
    use cairn_types::{ChunkHandle, ChunkVersion};

    #[test]
    fn a_deletion_names_handle_and_version() {
        let (handle, version) = (ChunkHandle::new(3), ChunkVersion::new(9));
        let garbage = named(&ReplicaReport { handle, version, ..ReplicaReport::default() });
        assert_eq!((garbage.handle, garbage.version), (handle, version));
    }
}
