//! What is to be done next for a place that somebody waits for.
//!
//! ```text
//!   a chunk there:  may its set be raised? ─yes─► raise, to grant a lease
//!                     ├─no─► an append: close it and go on in the next chunk;  a write: wait
//!                     └─no, and it is closed: whoever lacks the mark is given it
//!   … of others too: copied first, and the file has the copy
//!   none there:     may the chunk before take appends? ─yes─► fence it     ─no─► open one
//! ```

use super::charging::check_charge;
use super::closing::{may_take_appends, open_before};
use super::decided_set::{SetDecision, decide};
use super::live_file::{is_live_file, no_file};
use super::members::{current, former_holder_unknown};
use super::placement::is_enough_without_trouble;
use super::replica_set::{Blocked, LiveMember, live_members, plan_raise};
use crate::chunk_place::ChunkPlace;
use crate::fleet::KnownReplica;
use crate::jobs::waiters::Wants;
use crate::leases::LeaseStatus;
use crate::state::{ChunkRecord, EntryRecord};
use crate::view::View;
use cairn_protocol::Failure;
use cairn_types::planted::{Rule, broken};
use cairn_types::{ChunkHandle, Content, ServerId, Time};

/// What a place's job does next.
#[derive(Debug)]
pub(crate) enum NextStep {
    /// The file is gone.
    Fail(Failure),
    /// A quota has no room for what some want to write (R36).
    FailWriters(Failure),
    /// There is nothing to do: each waiter's wish is looked at anew.
    Finish,
    /// Appends go on at the next place.
    GoOnInNext,
    /// Nothing can be done now; why, and of which chunk servers should tell first.
    Wait { why: String, want: Option<ChunkHandle> },
    /// The chunk's set is raised, to grant a lease on it.
    Raise(ChunkHandle, ChunkRecord, Vec<LiveMember>),
    /// The chunk before is closed to appends by raising these with the mark, or this one, closed
    /// already, gets it.
    Fence(ChunkHandle, Vec<LiveMember>),
    /// A chunk that the file shares with others, its own or the one before, is copied by these.
    Copy(ChunkHandle, ChunkRecord, Vec<LiveMember>),
    /// A chunk is made.
    Open,
}

impl NextStep {
    fn wait(why: &str) -> Self {
        Self::Wait { why: why.to_owned(), want: None }
    }
}

/// What those who wait for a place, since when, have done for it.
pub(crate) fn next_step(
    view: &View<'_>,
    (place, since): (ChunkPlace, Time),
    wants: Wants,
) -> NextStep {
    if !is_live_file(view.state, place.file) {
        return NextStep::Fail(no_file(place.file));
    }
    // R34; a close that is to be logged is of before the snapshot.
    let frozen = view.is_frozen(place.file);
    match view.state.chunk_at(place.file, place.index) {
        Some(_) if !wants.lease => NextStep::Finish,
        None if wants.close => without_chunk(view, place),
        _ if frozen => NextStep::wait("a snapshot of it is being taken"),
        Some(handle) => {
            let first = wants.mutates.then(|| for_mutation(view, place, handle)).flatten();
            let next = || with_chunk(view, (place, since), handle, wants.appends);
            check_raise(view, place, wants.mutates, first.unwrap_or_else(next))
        }
        None => check_raise(view, place, wants.mutates, without_chunk(view, place)),
    }
}

/// Nobody is raised for what would be refused for a quota (R36): a raise ends the lease that there
/// is, and a fence the chunk.
fn check_raise(view: &View<'_>, place: ChunkPlace, writes: bool, next: NextStep) -> NextStep {
    match next {
        NextStep::Raise(..) | NextStep::Fence(..) | NextStep::Copy(..) if writes => {
            match check_charge(view, place) {
                Err(failure) => NextStep::FailWriters(failure),
                Ok(()) => next,
            }
        }
        _ => next,
    }
}

/// What comes before a file's chunk is mutated that other files have, too (R32); none: nothing.
/// Until it has a chunk of its own nobody goes on in a next one: that would close the one that the
/// others have.
fn for_mutation(view: &View<'_>, place: ChunkPlace, handle: ChunkHandle) -> Option<NextStep> {
    if !view.state.sharing().is_shared(handle) || broken(Rule::R32) {
        return None;
    }
    let chunk = view.state.chunk(handle)?;
    if view.underway.is_taken(place, handle) {
        return Some(NextStep::wait("the chunk, which other files have too, is being changed"));
    }
    if let Some(rest) = view.troubles.rest(view.now.time, handle) {
        let why = format!("it is to be copied first; the next try is in {} ms", rest.as_millis());
        return Some(NextStep::Wait { why, want: None });
    }
    Some(match plan_raise(view, handle, &chunk) {
        Ok(members) => NextStep::Copy(handle, chunk, members),
        Err(blocked) => NextStep::Wait { why: blocked.why, want: Some(handle) },
    })
}

fn with_chunk(
    view: &View<'_>,
    (place, since): (ChunkPlace, Time),
    handle: ChunkHandle,
    appends: bool,
) -> NextStep {
    let Some(chunk) = view.state.chunk(handle) else {
        return NextStep::wait("the chunk's record cannot be read");
    };
    if appends && chunk.closed {
        return NextStep::Finish;
    }
    if view.underway.is_taken(place, handle) {
        return NextStep::wait("the chunk is being closed");
    }
    // R41: no set of it goes into the log but by a seal, which asks what is committed.
    if view.state.streams().open_chunk(handle).is_some() && !broken(Rule::R41) {
        let want = None;
        return NextStep::Wait { why: "a producer writes it: it is sealed first".to_owned(), want };
    }
    let lease = view.leases.possible(handle, view.now.time);
    if appends && lease.is_some_and(|lease| lease.status == LeaseStatus::Doubted) {
        return NextStep::GoOnInNext;
    }
    let decided = decide(view, handle, &chunk) != SetDecision::NotNeeded;
    if appends && decided && !broken(Rule::R11) {
        return NextStep::GoOnInNext;
    }
    let failed = view.troubles.has_failed(handle);
    // One replica alone was decided on (R28), or all there was room for, and has yet to be copied.
    let is_alone = chunk.set_size == 1 && chunk.goal > 1;
    if appends && (failed || is_alone) && goes_elsewhere(view, (place, since), &chunk) {
        return NextStep::GoOnInNext;
    }
    if let Some(rest) = view.troubles.rest(view.now.time, handle) {
        let why =
            format!("the last try came to nothing; the next one is in {} ms", rest.as_millis());
        return NextStep::Wait { why, want: None };
    }
    let has_mark = current(view, handle, &chunk).any(|(_, replica)| replica.closed);
    match plan_raise(view, handle, &chunk) {
        // A primary closed it and its word was lost: no append lease any more (R18).
        Ok(_) if appends && has_mark => NextStep::GoOnInNext,
        Ok(members) => NextStep::Raise(handle, chunk, members),
        Err(blocked) if appends && !bears_a_wait(view, place, since, &blocked) => {
            NextStep::GoOnInNext
        }
        Err(blocked) => match to_be_marked(view, handle, &chunk) {
            Some(members) => NextStep::Fence(handle, members),
            None => NextStep::Wait { why: blocked.why, want: Some(handle) },
        },
    }
}

/// Who is raised with the mark of a closed chunk that gets no lease: a chunk may be closed while
/// nobody could be given it, and without it no reader is told where the chunk's bytes end (R19).
/// That changes neither the logged version nor the set.
fn to_be_marked(
    view: &View<'_>,
    handle: ChunkHandle,
    chunk: &ChunkRecord,
) -> Option<Vec<LiveMember>> {
    let may_be_leased = view.leases.possible(handle, view.now.time).is_some()
        || former_holder_unknown(view, handle, chunk);
    if !chunk.closed || may_be_leased {
        return None;
    }
    let servers = view.fleet.servers();
    let live = |server: &ServerId| servers.is_live(view.now.time, *server);
    let lacks_mark = |(server, replica): (ServerId, KnownReplica)| live(&server) && !replica.closed;
    let lacking = current(view, handle, chunk).any(lacks_mark);
    lacking.then(|| live_members(view, current(view, handle, chunk)))
}

/// Whether appends wait where the chunk is blocked, rather than go on in the next one. What is left
/// of this one then reads as zeros: record readers skip them, but a file of bytes has a hole that
/// nobody meant. So there a server that is late with its heartbeat is waited for.
pub(crate) fn bears_a_wait(
    view: &View<'_>,
    place: ChunkPlace,
    since: Time,
    blocked: &Blocked,
) -> bool {
    let of_bytes = |file: EntryRecord| file.content == Content::Bytes;
    // Less than what a request may take, or it would begin anew each time.
    let patience = view.term.config.lease() / 4;
    blocked.starting
        || view.state.entry(place.file).is_some_and(of_bytes) && view.now.time < since + patience
}

/// Whether appends to a chunk whose lease came to nothing had better go on in the next one, which
/// can be made on servers that are in no trouble.
fn goes_elsewhere(
    view: &View<'_>,
    (place, since): (ChunkPlace, Time),
    chunk: &ChunkRecord,
) -> bool {
    let starting = view.term.is_starting(view.now.time);
    let blocked = Blocked { why: String::new(), starting };
    let elsewhere = is_enough_without_trouble(view, chunk.goal as usize);
    elsewhere && !bears_a_wait(view, place, since, &blocked)
}

fn without_chunk(view: &View<'_>, place: ChunkPlace) -> NextStep {
    let Some((handle, chunk)) = open_before(view.state, place) else { return NextStep::Open };
    if view.underway.is_taken(place, handle) {
        return NextStep::wait("the chunk before is being changed");
    }
    // What is opened closes the one before: for this file alone.
    if let Some(first) = for_mutation(view, place, handle) {
        return first;
    }
    if !may_take_appends(view, handle, &chunk) || broken(Rule::R18) {
        return NextStep::Open;
    }
    let members = live_members(view, current(view, handle, &chunk));
    if members.is_empty() {
        let why = "no replica of the chunk before can be reached to close it; its lease runs";
        return NextStep::wait(why);
    }
    NextStep::Fence(handle, members)
}
