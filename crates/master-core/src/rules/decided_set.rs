//! The set that the master decides on when waiting can no longer make a better one (R28).
//!
//! ```text
//!   after a power failure:   A: all that was acknowledged   B, C: less     ─► the set is A
//!                            A: sound                       B, C: suspect  ─► the set is A
//!                            A: suspect                     B, C: dead     ─► the set is A
//! ```
//! - DS1: decided only where a replica may have lost bytes, or lacks acknowledged ones, and the
//!   rest is fewer than a set needs (R11). Members that are merely away are waited for.
//! - DS2: only when every member has told how it stands, or is dead, and some time after that.
//!   While a lease may live, what replicas told at different times says nothing of which is behind.
//! - DS3: a sound replica that lacks nothing acknowledged comes before a suspect one; of suspects,
//!   the furthest, by (version last mutated under, serial number) (R29). Of what a producer writes
//!   the log knows what is acknowledged (R41).
//! - DS4: the decision is logged as any raise is, by the record of the version and its smaller set.
//!   Who is left out is stale by version from then on, and kept until the chunk has its goal; who
//!   has applied more (damaged or suspect, or away and coming back), until a person lets go of it
//!   (`garbage.rs`). So is one that is away where a clone makes a set of the one that is left. A
//!   suspect has all up to its serial number, for its store has verified it (R26), and may lack
//!   what came behind it. Suspects that are not all of their set are none without a decision,
//!   unless each of the others was heard to have no more.
//! - DS5: what a person chose is the set at once, suspect or stale, but while somebody may hold a
//!   lease (`chosen_replica.rs`); whoever has applied more is kept. Where others turn out to be a
//!   set meanwhile it is theirs, unless the person named chunk and server.
//! - DS6: while a damaged replica here has applied more than those that would be the set, nothing
//!   is decided but by a person. Readers find its good blocks (`reading.rs`), and would be told
//!   after a decision that the bytes which it alone has are not there. Who has more of a stream's
//!   chunk, `same_bytes.rs` says.
//! - DS7: where all of a producer's chunk are here, and none has what is committed of it, those
//!   that have the most are the set: no raise finds one that has it all (R41). Who is away may have
//!   it; and so may one that is damaged, of which some starts do not know how far it has come.
//!
//! - DS8: suspects that are all of a set need no decision, and may have lost what one has that is
//!   none of it any more: a stale replica, a clone that was raised and whose answer was lost
//!   (streams' seed 2053), a disk whose old copy has spoken in its name (healing seed 23). What is
//!   above them is kept as after a decision.
//!
//! Appends do not come this way: they close the chunk and go on in the next one (R11).

use super::lacks_committed::{all_lack_committed, lacking_committed};
use super::members::{least_of, missing_is_awaited, missing_may_come};
use super::same_bytes::current_by_bytes;
use crate::fleet::{KnownReplica, PersonsWord, behind};
use crate::state::ChunkRecord;
use crate::view::View;
use cairn_types::planted::{Rule, broken};
use cairn_types::{ChunkHandle, SerialNumber, ServerId, Time};

/// How long a decision waits after the last member has told, in `dead_ms`.
const SUSPECT_WAIT: u32 = 1;
/// How long where a member is dead, in `dead_ms` from its last word: it may hold more.
const SUSPECT_WAIT_FOR_DEAD: u32 = 10;

const _: () = assert!(SUSPECT_WAIT >= 1 && SUSPECT_WAIT_FOR_DEAD > SUSPECT_WAIT);

/// What the rules say of a chunk.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum SetDecision {
    /// The set is found, or waited for, in the ordinary way.
    NotNeeded,
    /// It will be decided at that time.
    At(Time),
    /// A person's alone: a damaged replica there has applied more than the others (DS6).
    LeftToPerson(ServerId),
    /// These are the set, in order of server.
    Set(Vec<ServerId>),
}

/// Whether the set of a chunk is to be decided, and what it is then.
pub(crate) fn decide(view: &View<'_>, handle: ChunkHandle, chunk: &ChunkRecord) -> SetDecision {
    if view.leases.possible(handle, view.now.time).is_some() {
        return SetDecision::NotNeeded;
    }
    // DS5
    if let Some(server) = chosen(view, (handle, chunk)) {
        return SetDecision::Set(vec![server]);
    }
    by_rules(view, handle, chunk)
}

/// The same, whatever a person has chosen.
fn by_rules(view: &View<'_>, handle: ChunkHandle, chunk: &ChunkRecord) -> SetDecision {
    let told = current_by_bytes(view, handle, chunk);
    let usable: Vec<(ServerId, KnownReplica)> =
        told.iter().filter(|(_, replica)| !replica.damaged).copied().collect();
    let mut stale = behind(&usable);
    stale.extend(lacking_committed(view, handle, &usable));
    let level = |sound: bool| {
        let of = |(server, replica): &&(ServerId, KnownReplica)| {
            !stale.contains(server) && replica.suspect != sound
        };
        usable.iter().filter(of).map(|(server, _)| *server).collect::<Vec<ServerId>>()
    };
    // DS1. With all of the set suspect, those that are level are an ordinary set.
    let (sound, suspect) = (level(true), level(false));
    let no_sound = usable.iter().all(|(_, replica)| replica.suspect);
    let all_suspect = no_sound && usable.len() >= chunk.set_size as usize;
    let ordinary = if all_suspect { suspect.len() } else { sound.len() };
    let lacking = !stale.is_empty() || !suspect.is_empty() || usable.len() < told.len();
    // DS7
    let are_here = told.len() >= chunk.set_size as usize;
    let is_lost = are_here && all_lack_committed(view, handle, &usable) && !broken(Rule::R41);
    let is_ordinary = !lacking || ordinary >= least_of(view, handle, chunk);
    if usable.is_empty() || (is_ordinary && !is_lost) {
        return SetDecision::NotNeeded;
    }
    let Some(at) = all_told_at(view, handle, chunk, &told) else {
        return SetDecision::NotNeeded;
    };
    let set = if sound.is_empty() || is_lost { furthest(&usable) } else { sound };
    assert!(!set.is_empty(), "of some, one has gone furthest (DS3)");
    let of_bad = || told.iter().find(|(_, it)| it.damaged).map(|(server, _)| *server);
    let unread = if is_lost { of_bad() } else { None };
    if let Some(server) = damaged_above(&told, &set).or(unread) {
        return SetDecision::LeftToPerson(server);
    }
    if view.now.time < at { SetDecision::At(at) } else { SetDecision::Set(set) }
}

/// Whose replica is damaged and has applied more than any of these (DS6).
fn damaged_above(told: &[(ServerId, KnownReplica)], set: &[ServerId]) -> Option<ServerId> {
    let of_set = |(server, _): &&(ServerId, KnownReplica)| set.contains(server);
    let reached = told.iter().filter(of_set).map(|(_, replica)| replica.serial).max()?;
    let above = |(_, it): &&(ServerId, KnownReplica)| it.damaged && it.serial > reached;
    let furthest = told.iter().filter(above).max_by_key(|(server, it)| (it.serial, *server));
    let is_of_set = furthest.is_some_and(|(server, _)| set.contains(server));
    assert!(!is_of_set, "nothing is decided on a damaged replica (DS3)");
    furthest.map(|(server, _)| *server).filter(|_| !broken(Rule::R28))
}

/// What the rules say of a set before anybody of it is raised: what those told that died is
/// forgotten with the first that stands higher (`locations`, L6).
#[derive(Clone, Copy, Debug)]
pub(crate) struct PlannedDecision {
    /// It is decided on.
    decided: bool,
    /// Who comes back with more than this is kept.
    keeps_above: Option<SerialNumber>,
    /// None of them is sound (DS8).
    all_suspect: bool,
}

impl PlannedDecision {
    pub(crate) fn on(
        view: &View<'_>,
        chunk: (ChunkHandle, &ChunkRecord),
        servers: &[ServerId],
    ) -> Self {
        let decided = is_decided(view, chunk, servers);
        let keeps_above = if decided { decided_number(view, chunk, servers) } else { None };
        let all_suspect = !is_some_sound(view, chunk.0, servers) && !broken(Rule::R28);
        Self { decided, keeps_above, all_suspect }
    }

    /// Whether those of it that were raised are a part of the suspects without a decision.
    pub(super) fn is_doubted(
        self,
        view: &View<'_>,
        chunk: (ChunkHandle, &ChunkRecord),
        raised: &[ServerId],
    ) -> bool {
        !self.decided && is_doubted_part(view, chunk, raised)
    }

    /// Who comes back with more than this is kept, where those that were raised are logged as the
    /// set, and have come so far.
    pub(crate) fn keeps_above(
        self,
        view: &View<'_>,
        chunk: (ChunkHandle, &ChunkRecord),
        (raised, reached): (&[ServerId], SerialNumber),
    ) -> Option<SerialNumber> {
        let planned = || self.keeps_above.map(|number| number.min(reached));
        let doubted = || self.all_suspect.then_some(reached);
        keeps_above(view, chunk, raised).or_else(planned).or_else(doubted)
    }
}

/// Whether these are a set that is decided on.
pub(crate) fn is_decided(
    view: &View<'_>,
    (handle, chunk): (ChunkHandle, &ChunkRecord),
    servers: &[ServerId],
) -> bool {
    decide(view, handle, chunk) == SetDecision::Set(servers.to_vec())
}

/// Where these are a set that is decided on, and somebody may hold more: how far they have come
/// (R28). That is a member that is away, or one here that is damaged or suspect.
pub(crate) fn keeps_above(
    view: &View<'_>,
    chunk: (ChunkHandle, &ChunkRecord),
    servers: &[ServerId],
) -> Option<SerialNumber> {
    if is_decided(view, chunk, servers) { decided_number(view, chunk, servers) } else { None }
}

/// The same, of those that are decided on.
fn decided_number(
    view: &View<'_>,
    (handle, chunk): (ChunkHandle, &ChunkRecord),
    servers: &[ServerId],
) -> Option<SerialNumber> {
    if broken(Rule::R28) {
        return None;
    }
    // What a person chose may be stale.
    if let Some(server) = chosen(view, (handle, chunk)) {
        return view.fleet.locations().get(handle, server).map(|replica| replica.serial);
    }
    let told = current_by_bytes(view, handle, chunk);
    let of_set = told.iter().filter(|(server, _)| servers.contains(server));
    let reached = of_set.map(|(_, replica)| replica.serial).max()?;
    let is_away = told.len() < chunk.set_size as usize;
    let holds_more = told.iter().any(|(_, replica)| replica.serial > reached);
    (is_away || holds_more).then_some(reached)
}

/// Whether somebody may hold more than these, before they are raised for a clone that joins them
/// (R30). That is so where they are decided on, as above; and where without the clone they are
/// fewer than a set needs (R11), for of one that is left nobody knows whether it is an old image.
/// But not where all others were heard to have no more: here, or before they died, of what was
/// closed, or when nobody had a lease any more.
pub(crate) fn may_be_outdone(
    view: &View<'_>,
    (handle, chunk): (ChunkHandle, &ChunkRecord),
    servers: &[ServerId],
) -> bool {
    if keeps_above(view, (handle, chunk), servers).is_some() {
        return true;
    }
    if servers.len() >= least_of(view, handle, chunk) || broken(Rule::R28) {
        return false;
    }
    others_may_have_more(view, (handle, chunk), servers)
}

/// Whether these are suspect, and not all of their set, and one of the others may have more: no
/// set but by a decision (R28).
pub(super) fn is_doubted_part(
    view: &View<'_>,
    (handle, chunk): (ChunkHandle, &ChunkRecord),
    servers: &[ServerId],
) -> bool {
    servers.len() < chunk.set_size as usize
        && !is_some_sound(view, handle, servers)
        && others_may_have_more(view, (handle, chunk), servers)
        && !broken(Rule::R28)
}

fn is_some_sound(view: &View<'_>, handle: ChunkHandle, servers: &[ServerId]) -> bool {
    let replica = |server: &ServerId| view.fleet.locations().get(handle, *server);
    servers.iter().filter_map(replica).any(|replica| replica.is_sound())
}

/// Whether one of the set, but for these, was not heard to have no more than they: here, or before
/// it died.
fn others_may_have_more(
    view: &View<'_>,
    (handle, chunk): (ChunkHandle, &ChunkRecord),
    servers: &[ServerId],
) -> bool {
    assert!(!servers.is_empty(), "no set is empty (R11)");
    let told = current_by_bytes(view, handle, chunk);
    let of_set = told.iter().filter(|(server, _)| servers.contains(server));
    let reached = of_set.map(|(_, replica)| replica.serial).max();
    let lost = view.fleet.locations().lost(handle);
    // Since when nobody has a lease: what was told after that is final.
    let quiet = view.fleet.locations().quiet(handle);
    let is_final = |it: &KnownReplica| it.closed || it.reported >= quiet;
    let lost = lost.filter(|(_, it)| it.is_current(chunk.version) && is_final(it));
    let all = told.iter().copied().chain(lost);
    let with_no_more = all.filter(|(_, replica)| Some(replica.serial) <= reached).count();
    with_no_more < chunk.set_size as usize
}

/// Whose replica a person chose, if it is here and can be read (DS5). Who named no server, or a
/// whole file, chose for want of a set: the choice is void where others have come and are one.
fn chosen(view: &View<'_>, (handle, chunk): (ChunkHandle, &ChunkRecord)) -> Option<ServerId> {
    let PersonsWord { server, insists } = view.fleet.chosen(view.now.time, handle)?;
    let replica = view.fleet.locations().get(handle, server)?;
    let live = view.fleet.servers().is_live(view.now.time, server);
    let is_void = !insists && has_ordinary_set(view, handle, chunk);
    (live && !replica.damaged && !is_void).then_some(server)
}

/// Whether a set is there that needs nobody's decision.
pub(crate) fn has_ordinary_set(view: &View<'_>, handle: ChunkHandle, chunk: &ChunkRecord) -> bool {
    let told = current_by_bytes(view, handle, chunk);
    let stale = behind(&told);
    let live = |server| view.fleet.servers().is_live(view.now.time, server);
    let usable = told
        .into_iter()
        .filter(|(server, replica)| replica.is_sound() && !stale.contains(server) && live(*server));
    let servers: Vec<ServerId> = usable.map(|(server, _)| server).collect();
    let is_whole = || {
        let size = chunk.set_size as usize;
        servers.len() >= size || !missing_is_awaited(view, (handle, chunk), &servers)
    };
    // DS7
    let lacks = all_lack_committed(view, handle, &current_by_bytes(view, handle, chunk));
    !lacks
        && servers.len() >= least_of(view, handle, chunk)
        && by_rules(view, handle, chunk) == SetDecision::NotNeeded
        && is_whole()
}

/// When the last word was waited for long enough; none while a member may still come, or has
/// not told since the last lease ended (DS2).
fn all_told_at(
    view: &View<'_>,
    handle: ChunkHandle,
    chunk: &ChunkRecord,
    told: &[(ServerId, KnownReplica)],
) -> Option<Time> {
    let (now, servers) = (view.now.time, view.fleet.servers());
    let quiet = view.fleet.locations().quiet(handle);
    let mut last = view.term.started;
    for (server, replica) in told {
        let inventoried = servers.get(*server)?.inventoried?;
        if !servers.is_live(now, *server) || replica.reported < quiet {
            return None;
        }
        last = last.max(inventoried);
    }
    let dead = view.term.dead();
    if told.len() >= chunk.set_size as usize {
        return Some(last + dead * SUSPECT_WAIT);
    }
    if missing_may_come(view, handle, chunk) {
        return None;
    }
    let lost = view.fleet.locations().lost(handle);
    let lost = lost.filter(|(_, replica)| replica.is_current(chunk.version));
    let lost: Vec<ServerId> = lost.map(|(server, _)| server).collect();
    // Where all of the set were heard of, no other server that dies has any of it.
    let are_known = told.len() + lost.len() >= chunk.set_size as usize;
    let may_hold = |server| !are_known || lost.contains(&server);
    let heard = servers.dead_heard(now, may_hold).unwrap_or_default();
    Some(last.max(heard) + dead * SUSPECT_WAIT_FOR_DEAD)
}

/// Those that have applied the most (DS3).
fn furthest(replicas: &[(ServerId, KnownReplica)]) -> Vec<ServerId> {
    let place = |replica: &KnownReplica| (replica.mutated_version, replica.serial, replica.length);
    let most = replicas.iter().map(|(_, replica)| place(replica)).max();
    let at_most = replicas.iter().filter(|(_, replica)| Some(place(replica)) == most);
    at_most.map(|(server, _)| *server).collect()
}
