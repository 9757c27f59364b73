//! A person decides which replica a chunk goes on with (R28).
//!
//! ```text
//!   cairn recover ─┬─ the chunk has a set, or soon one by itself ──► nothing to decide
//!                  ├─ no replica is named ──► the best of those that are up to date
//!                  └─ one is ──────────────► that one, if it can be read: suspect, or stale too
//! ```
//! - CR1: nothing is chosen while somebody may hold a lease: what is acknowledged there goes on.
//! - CR2: a stale replica lacks changes that were acknowledged: it is chosen only by its server's
//!   name, of a whole file only where no replica that is up to date can be read, of one chunk only
//!   where no set is there, or it holds more than that (`garbage.rs`, GB5).
//! - CR3: while servers may still tell what they hold, nothing is chosen but by the names of chunk
//!   and server.

use super::decided_set::{SetDecision, decide, has_ordinary_set};
use super::lacks_committed::all_lack_committed;
use super::members::current;
use super::replica_set::plan_raise;
use super::same_bytes::current_by_bytes;
use crate::chunk_place::ChunkPlace;
use crate::fleet::{KnownReplica, PersonsWord, behind};
use crate::state::ChunkRecord;
use crate::view::View;
use cairn_protocol::{ChosenReplica, ErrorCode, Failure, Recover, RecoverAnswer};
use cairn_types::{CellPath, ChunkHandle, EntryKind, ServerId};

/// What a person's word on a chunk comes to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct PersonsChoice {
    pub(crate) place: ChunkPlace,
    pub(crate) server: ServerId,
    /// Whether the master has to be told of it; else its own rules say so.
    pub(crate) against_rules: bool,
}

/// What a person names.
#[derive(Clone, Copy, Debug)]
pub(crate) struct PersonsWish {
    server: Option<ServerId>,
    /// A single chunk, by its handle.
    one_chunk: bool,
}

impl PersonsWish {
    /// A chunk by its handle, and a server: whoever says that knows what else there is.
    fn insists(self) -> bool {
        self.one_chunk && self.server.is_some()
    }
}

/// Why nothing is chosen of a chunk.
#[derive(Debug)]
pub(crate) struct NotChosen {
    failure: Failure,
    /// Nothing is wrong with it, or somebody uses it.
    is_well: bool,
}

/// Which replica of a chunk a person's word makes its set.
pub(crate) fn choose(
    view: &View<'_>,
    handle: ChunkHandle,
    wish: PersonsWish,
) -> Result<PersonsChoice, NotChosen> {
    let line = |why: &str| format!("chunk {}: {why}", handle.short());
    let refuse =
        |code, why: &str| NotChosen { failure: Failure::refused(code, line(why)), is_well: false };
    let well = |code, why: &str| NotChosen { is_well: true, ..refuse(code, why) };
    let Some(chunk) = view.state.chunk(handle) else {
        return Err(refuse(ErrorCode::NotFound, "no such chunk"));
    };
    let place = ChunkPlace::new(chunk.file, chunk.index);
    if let Some(lease) = view.leases.possible(handle, view.now.time) {
        let holder = &lease.holder.address;
        let why = format!("it is leased to {holder}, and needs no decision");
        return Err(well(ErrorCode::Busy, &why));
    }
    let named = wish.server;
    let up_to_date = current_by_bytes(view, handle, &chunk);
    let of_set = |server| up_to_date.iter().any(|(at, _)| *at == server);
    let needs_none = format!("{} replicas are up to date: it needs no decision", up_to_date.len());
    if named.is_none_or(of_set) {
        match (decide(view, handle, &chunk), plan_raise(view, handle, &chunk)) {
            (SetDecision::Set(set), _) if named.is_none_or(|server| set == [server]) => {
                let server = *set.first().expect("no set is empty (T2)");
                return Ok(PersonsChoice { place, server, against_rules: false });
            }
            // What all lack of a producer's chunk may be with one that is away, for ever (DS7).
            (SetDecision::NotNeeded, Ok(_)) if !all_lack_committed(view, handle, &up_to_date) => {
                return Err(well(ErrorCode::Invalid, &needs_none));
            }
            _ => {}
        }
    } else if best(view, handle, &chunk, named).is_some()
        && !named.is_some_and(|server| is_kept(view, handle, server))
    {
        // CR2
        if has_ordinary_set(view, handle, &chunk) {
            return Err(well(ErrorCode::Invalid, &needs_none));
        }
        if !wish.one_chunk && best(view, handle, &chunk, None).is_some() {
            let why = "that server's replica is stale, and one that is up to date can be read; \
                       whoever wants the stale one all the same names the chunk by its handle";
            return Err(refuse(ErrorCode::Invalid, why));
        }
    }
    match best(view, handle, &chunk, named) {
        Some(_) if !wish.insists() && may_be_told_more(view, (handle, &chunk)) => {
            let why = "servers that hold more of it may still come, or tell of it; try again in a \
                       while, or name the chunk and with --from the server";
            let failure = Failure::not_done(ErrorCode::Busy, line(why));
            Err(NotChosen { failure, is_well: false })
        }
        Some(server) => Ok(PersonsChoice { place, server, against_rules: true }),
        None if named.is_some() => {
            let why = "that server is not here, or has no replica of it that can be read";
            Err(refuse(ErrorCode::NotFound, why))
        }
        None => {
            let why = why_none(view, (handle, &chunk), &up_to_date);
            Err(refuse(ErrorCode::NotFound, &why))
        }
    }
}

/// Why no replica of a chunk can be chosen, and what else may be done.
fn why_none(
    view: &View<'_>,
    (handle, chunk): (ChunkHandle, &ChunkRecord),
    up_to_date: &[(ServerId, KnownReplica)],
) -> String {
    let stale = "name a stale one with --from, where that is better than nothing \
                 ('cairn explain' lists them)";
    // Whoever has just died is buried a moment later.
    let is_away = |server| !view.fleet.servers().is_live(view.now.time, server);
    let locations = view.fleet.locations();
    let away = locations.of(handle).filter(|(server, _)| is_away(*server));
    let mut held = away.chain(locations.lost(handle));
    let has_damaged = up_to_date.iter().any(|(_, replica)| replica.damaged);
    match held.any(|(_, it)| it.is_current(chunk.version)) {
        false if has_damaged => format!(
            "each replica that is up to date has blocks that cannot be read: 'cairn cp \
             --data' makes a whole copy if every block is good somewhere, 'cairn get \
             --salvage' fetches what can be read; {stale}"
        ),
        true => format!(
            "no replica that is up to date can be reached; start one of the servers that \
             held it ('cairn explain' names them); if none comes back, {stale}"
        ),
        false => format!("no replica that is up to date can be reached; {stale}"),
    }
}

/// Whether a server's replica is kept because it holds more than a set that was decided on.
fn is_kept(view: &View<'_>, handle: ChunkHandle, server: ServerId) -> bool {
    let kept = view.state.kept_above(handle);
    let replica = view.fleet.locations().get(handle, server);
    kept.zip(replica).is_some_and(|(kept, replica)| kept.keeps(replica.version, replica.serial))
}

/// CR3
fn may_be_told_more(view: &View<'_>, (handle, chunk): (ChunkHandle, &ChunkRecord)) -> bool {
    let now = view.now.time;
    let begins = now < view.term.started + view.term.dead();
    let lacks = current(view, handle, chunk).count() < chunk.set_size as usize;
    view.fleet.servers().is_gathering(now) || (begins && lacks)
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
    let mut there = current_by_bytes(view, handle, chunk);
    there.retain(readable);
    let stale = behind(&there);
    let worth = |(server, replica): &&(ServerId, KnownReplica)| {
        let sound = !replica.suspect && !stale.contains(server);
        (sound, replica.mutated_version, replica.serial, replica.length)
    };
    there.iter().max_by_key(worth).map(|(server, _)| *server)
}

/// Chunks of a file that one request looks at: some milliseconds.
const LOOKED_AT_MAX: usize = 512;
/// Chunks that one answer tells of.
const CHOSEN_MAX: usize = 256;
/// Those of a path for which nothing could be chosen, and why.
const REFUSED_MAX: usize = 64;

/// A person's word on a path or a handle: what is told of it, and what the master has to be told.
pub(crate) fn recover(
    view: &View<'_>,
    wish: &Recover,
) -> Result<(RecoverAnswer, Vec<(ChunkHandle, PersonsWord)>), Failure> {
    let server = (wish.server != ServerId::default()).then_some(wish.server);
    let named = PersonsWish { server, one_chunk: !wish.subject.starts_with('/') };
    let (mut answer, mut choices) = (RecoverAnswer::default(), Vec::new());
    if named.one_chunk {
        let handle = ChunkHandle::parse(&wish.subject).ok_or_else(|| {
            let line = format!("{}: neither a path nor the handle of a chunk", wish.subject);
            Failure::refused(ErrorCode::NotFound, line)
        })?;
        let choice = choose(view, handle, named).map_err(|it| it.failure)?;
        answer.chosen.push(told(view, handle, choice));
        choices.extend(word(handle, choice, named));
        return Ok((answer, choices));
    }
    let path = CellPath::parse(&wish.subject).map_err(|error| {
        Failure::refused(ErrorCode::Invalid, format!("{}: {error}", wish.subject))
    })?;
    let file = view.state.resolve(&path)?;
    if view.state.entry(file).is_some_and(|it| it.kind == EntryKind::Directory) {
        let line = format!("{path}: it is a directory: name its files, one by one");
        return Err(Failure::refused(ErrorCode::IsADirectory, line));
    }
    for (looked, (index, handle)) in view.state.chunks_of(file, wish.from).enumerate() {
        if looked == LOOKED_AT_MAX || answer.chosen.len() == CHOSEN_MAX {
            answer.resume = Some(index);
            break;
        }
        match choose(view, handle, named) {
            Ok(choice) => {
                answer.chosen.push(told(view, handle, choice));
                choices.extend(word(handle, choice, named));
            }
            Err(NotChosen { is_well: false, failure }) if answer.refused.len() < REFUSED_MAX => {
                answer.refused.push(failure.message);
            }
            Err(_) => {}
        }
    }
    assert!(answer.chosen.len() <= CHOSEN_MAX, "what one answer tells is bounded");
    Ok((answer, choices))
}

/// What the master has to be told of a choice.
fn word(
    handle: ChunkHandle,
    choice: PersonsChoice,
    wish: PersonsWish,
) -> Option<(ChunkHandle, PersonsWord)> {
    let word = PersonsWord { server: choice.server, insists: wish.insists() };
    choice.against_rules.then_some((handle, word))
}

fn told(view: &View<'_>, handle: ChunkHandle, choice: PersonsChoice) -> ChosenReplica {
    let PersonsChoice { place, server, .. } = choice;
    let there = view.fleet.at(server).is_some();
    assert!(there, "nobody's replica is chosen who is not known");
    let replica = view.fleet.locations().get(handle, server);
    let logged = view.state.chunk(handle).map(|chunk| chunk.version).unwrap_or_default();
    ChosenReplica {
        handle,
        file: place.file,
        index: place.index,
        at: view.fleet.at(server).cloned().unwrap_or_default(),
        length: replica.map(|replica| replica.length).unwrap_or_default(),
        suspect: replica.is_some_and(|replica| replica.suspect),
        stale: replica.is_some_and(|replica| !replica.is_current(logged)),
    }
}
