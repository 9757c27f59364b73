//! What ails a chunk's replicas, beside how many good ones it lacks (`lacking.rs`).

use super::decided_set::{SetDecision, decide};
use super::good_replicas::told_behind;
use super::levelled_unasked::is_to_be_levelled;
use super::same_bytes::current_by_bytes;
use crate::fleet::{KnownReplica, behind};
use crate::state::ChunkRecord;
use crate::view::View;
use cairn_types::{ChunkHandle, ServerId};

/// What a chunk's set waits for, where its replicas are not enough for an ordinary one: until then
/// no copy could join it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Undecided {
    #[default]
    No,
    /// The master decides on it when it has waited for long enough.
    Yet,
    /// Nothing but a person's word.
    LeftToPerson,
}

/// One chunk's; nearly all are well.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Condition {
    /// No server that is not dead has an up-to-date replica that is not damaged. Where each has bad
    /// blocks, and in other places, all of it may be read between them: nobody counts on that.
    pub(crate) unavailable: bool,
    /// A replica has blocks that cannot be read, or do not match their checksums.
    pub(crate) damaged: bool,
    /// A replica may have lost bytes in a power failure.
    pub(crate) suspect: bool,
    /// A replica is there that the others have gone on without.
    pub(crate) stale: bool,
    /// None is good, and the master levels those that there are (R28).
    pub(crate) to_be_levelled: bool,
    /// There is a good one, and a copy of it could not join (R28).
    pub(crate) undecided: Undecided,
}

/// How a chunk's replicas are; none: all is well with them. That those of a deleted file are
/// suspect is no news: it gets no lease, so nothing is done about it before it is brought back
/// (R20).
pub(crate) fn condition(
    view: &View<'_>,
    handle: ChunkHandle,
    chunk: &ChunkRecord,
) -> Option<Condition> {
    let up_to_date = current_by_bytes(view, handle, chunk);
    let told = view.fleet.locations().of(handle).count();
    assert!(told >= up_to_date.len(), "what is up to date was told of");
    // While a lease is live its replicas tell at different times how far they are (R29).
    let leased = view.leases.possible(handle, view.now.time).is_some();
    let hidden = || view.state.sharing().is_hidden(handle, chunk);
    let is_suspect = |(_, it): &(ServerId, KnownReplica)| it.suspect && !it.damaged;
    let suspect = up_to_date.iter().any(is_suspect) && !hidden();
    let stale = if leased { Vec::new() } else { behind(&up_to_date) };
    let is_good =
        |(server, it): &(ServerId, KnownReplica)| it.is_sound() && !stale.contains(server);
    let none_good = !up_to_date.iter().any(is_good);
    let to_be_levelled = suspect && none_good && is_to_be_levelled(view, (handle, chunk));
    let some_behind = !stale.is_empty();
    let is_told_behind = some_behind && !told_behind(view, handle, &up_to_date).is_empty();
    let lacking = some_behind || up_to_date.iter().any(|(_, replica)| !replica.is_sound());
    let undecided = match lacking && !none_good {
        true => undecided(view, (handle, chunk)),
        false => Undecided::No,
    };
    let condition = Condition {
        unavailable: up_to_date.iter().all(|(_, replica)| replica.damaged),
        damaged: up_to_date.iter().any(|(_, replica)| replica.damaged),
        suspect,
        stale: told > up_to_date.len() || is_told_behind,
        to_be_levelled,
        undecided,
    };
    (condition != Condition::default()).then_some(condition)
}

/// Whether a copy of the chunk has to wait for a decision before it could join (DS2, DS6).
pub(crate) fn undecided(
    view: &View<'_>,
    (handle, chunk): (ChunkHandle, &ChunkRecord),
) -> Undecided {
    match decide(view, handle, chunk) {
        SetDecision::NotNeeded | SetDecision::Set(_) => Undecided::No,
        SetDecision::At(_) => Undecided::Yet,
        SetDecision::LeftToPerson(_) => Undecided::LeftToPerson,
    }
}
