//! A person decides which replica a chunk goes on with (R28).
//!
//! ```text
//!   cairn recover ─┬─ the chunk has a set, or soon one by itself ──► nothing to decide
//!                  ├─ no replica is named ──► the best of those that are up to date
//!                  └─ one is ──────────────► that one, if it can be read: suspect, or stale too
//! ```
//! - CR1: nothing is chosen while somebody may hold a lease: what is acknowledged there goes on.
//! - CR2: a stale replica lacks changes that were acknowledged: it is chosen only by its name.

use super::decided_set::{SetDecision, decide};
use super::members::current;
use super::replica_set::plan_raise;
use crate::chunk_place::ChunkPlace;
use crate::fleet::{KnownReplica, behind};
use crate::state::ChunkRecord;
use crate::view::View;
use cairn_protocol::{ChosenReplica, ErrorCode, Failure, Recover, RecoverAnswer};
use cairn_types::{CellPath, ChunkHandle, ChunkIndex, ServerId};

/// What a person's word on a chunk comes to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct PersonsChoice {
    pub(crate) place: ChunkPlace,
    pub(crate) server: ServerId,
    /// Whether the master has to be told of it; else its own rules say so.
    pub(crate) against_rules: bool,
}

/// Which replica of a chunk a person's word makes its set; `named`: the one that was asked for.
pub(crate) fn choose(
    view: &View<'_>,
    handle: ChunkHandle,
    named: Option<ServerId>,
) -> Result<PersonsChoice, Failure> {
    let refuse =
        |code, why: String| Err(Failure::refused(code, format!("chunk {}: {why}", handle.short())));
    let Some(chunk) = view.state.chunk(handle) else {
        return refuse(ErrorCode::NoSuchChunk, "no such chunk".to_owned());
    };
    let place = ChunkPlace::new(chunk.file, chunk.index);
    if let Some(lease) = view.leases.possible(handle, view.now.time) {
        let holder = &lease.holder.address;
        let why = format!("it is leased to {holder}, and needs no decision");
        return refuse(ErrorCode::Busy, why);
    }
    let up_to_date: Vec<(ServerId, KnownReplica)> = current(view, handle, &chunk).collect();
    let of_set = |server| up_to_date.iter().any(|(at, _)| *at == server);
    let decision = decide(view, handle, &chunk);
    if named.is_none_or(of_set) {
        let needs_none =
            format!("{} replicas are up to date: it needs no decision", up_to_date.len());
        match (decision, plan_raise(view, handle, &chunk)) {
            (SetDecision::Set(set), _) if named.is_none_or(|server| set == [server]) => {
                let server = *set.first().expect("no set is empty (T2)");
                return Ok(PersonsChoice { place, server, against_rules: false });
            }
            (SetDecision::NotNeeded, Ok(_)) => return refuse(ErrorCode::Invalid, needs_none),
            _ => {}
        }
    }
    match best(view, handle, &chunk, named) {
        Some(server) => Ok(PersonsChoice { place, server, against_rules: true }),
        None if named.is_some() => {
            let why = "that server is not here, or has no replica of it that can be read";
            refuse(ErrorCode::NotFound, why.to_owned())
        }
        None => {
            let why = "no replica that is up to date can be reached; name a stale one with --from, \
                       where that is better than nothing ('cairn explain' lists them)";
            refuse(ErrorCode::NotFound, why.to_owned())
        }
    }
}

/// Of the replicas that can be read, the one that is named, or the best of those up to date: one
/// that lacks nothing that was acknowledged, as far as is known, and is not suspect; else the one
/// that has gone furthest.
fn best(
    view: &View<'_>,
    handle: ChunkHandle,
    chunk: &ChunkRecord,
    named: Option<ServerId>,
) -> Option<ServerId> {
    let readable = |(server, replica): &(ServerId, KnownReplica)| {
        !replica.damaged && view.fleet.servers().is_live(view.now.time, *server)
    };
    if let Some(server) = named {
        let replica = view.fleet.locations().get(handle, server)?;
        return readable(&(server, replica)).then_some(server);
    }
    let there: Vec<(ServerId, KnownReplica)> =
        current(view, handle, chunk).filter(readable).collect();
    let stale = behind(&there);
    let worth = |(server, replica): &&(ServerId, KnownReplica)| {
        let sound = !replica.suspect && !stale.contains(server);
        (sound, replica.mutated_version, replica.serial, replica.length)
    };
    there.iter().max_by_key(worth).map(|(server, _)| *server)
}

/// Chunks that one answer tells of.
const CHOSEN_MAX: usize = 256;
/// Those of a path for which nothing could be chosen, and why.
const REFUSED_MAX: usize = 64;

/// A person's word on a path or a handle: what is told of it, and what the master has to be told.
pub(crate) fn recover(
    view: &View<'_>,
    wish: &Recover,
) -> Result<(RecoverAnswer, Vec<(ChunkHandle, ServerId)>), Failure> {
    let named = (wish.server != ServerId::default()).then_some(wish.server);
    let (mut answer, mut choices) = (RecoverAnswer::default(), Vec::new());
    if !wish.subject.starts_with('/') {
        let handle = ChunkHandle::parse(&wish.subject).ok_or_else(|| {
            let line = format!("{}: neither a path nor the handle of a chunk", wish.subject);
            Failure::refused(ErrorCode::NotFound, line)
        })?;
        let choice = choose(view, handle, named)?;
        note(view, (handle, choice), &mut answer, &mut choices);
        return Ok((answer, choices));
    }
    let path = CellPath::parse(&wish.subject).map_err(|error| {
        Failure::refused(ErrorCode::Invalid, format!("{}: {error}", wish.subject))
    })?;
    let file = view.state.resolve(&path)?;
    for (_, handle) in view.state.chunks_of(file, ChunkIndex::default()) {
        match choose(view, handle, named) {
            Ok(choice) => note(view, (handle, choice), &mut answer, &mut choices),
            // Nothing is wrong there; or somebody uses it.
            Err(failure) if matches!(failure.code, ErrorCode::Invalid | ErrorCode::Busy) => {}
            Err(failure) if answer.refused.len() < REFUSED_MAX => {
                answer.refused.push(failure.message);
            }
            Err(_) => {}
        }
        if answer.chosen.len() == CHOSEN_MAX {
            break;
        }
    }
    Ok((answer, choices))
}

fn note(
    view: &View<'_>,
    (handle, choice): (ChunkHandle, PersonsChoice),
    answer: &mut RecoverAnswer,
    choices: &mut Vec<(ChunkHandle, ServerId)>,
) {
    let PersonsChoice { place, server, against_rules } = choice;
    let there = view.fleet.at(server).is_some();
    assert!(there, "nobody's replica is chosen who is not known");
    if against_rules {
        choices.push((handle, server));
    }
    let replica = view.fleet.locations().get(handle, server);
    let logged = view.state.chunk(handle).map(|chunk| chunk.version).unwrap_or_default();
    answer.chosen.push(ChosenReplica {
        handle,
        file: place.file,
        index: place.index,
        at: view.fleet.at(server).cloned().unwrap_or_default(),
        length: replica.map(|replica| replica.length).unwrap_or_default(),
        suspect: replica.is_some_and(|replica| replica.suspect),
        stale: replica.is_some_and(|replica| !replica.is_current(logged)),
    });
}
