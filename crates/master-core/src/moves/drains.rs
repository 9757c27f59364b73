//! Servers that are being emptied: how far each is, and whether it may be switched off.
//!
//! What empties them stands elsewhere: their replicas count for no goal (`rules/good_replicas.rs`),
//! so that repair copies what they hold, and are left out once there are enough others
//! (`surplus.rs`).
//!
//! - DR1: a server may be switched off when it has told all that it holds, holds no replica of any
//!   chunk, and nothing that was on its way to it can make one any more.
//! - DR2: one that is away then is off, and nobody misses it. So is one that died before, as long
//!   as no chunk lacks a replica, unless it kept something when it last told this master all that
//!   it holds.

use crate::job_pace::JobPace;
use crate::repair::Repair;
use crate::repair::undrained::{KeptBy, LOOKED_AT_MAX};
use crate::rules::good_replicas::{counted, good};
use crate::rules::placement::{CopyTakers, takers_beside, with_room_count};
use crate::state::DrainOrder;
use crate::view::View;
use cairn_protocol::{
    DrainAnswer, ErrorCode, Failure, JobKind, JobState, JobStatus, ReasonCode, ServerDuty,
    ServerState,
};
use cairn_types::{ChunkHandle, ServerId, Time};
use std::collections::BTreeMap;

/// One of them.
#[derive(Debug)]
struct DrainProgress {
    /// Since when this master knows that it is to be emptied.
    since: Time,
    /// Replicas that it holds.
    left: u64,
    /// Chunks that it kept for a person when it last told this master all that it holds.
    kept: usize,
    /// It was empty when it was heard of last (DR1).
    emptied: bool,
    /// Nobody misses it while it is away (DR2).
    is_off: bool,
    pace: JobPace,
}

/// All of them.
#[derive(Debug, Default)]
pub(super) struct Drains {
    by_server: BTreeMap<ServerId, DrainProgress>,
}

/// Why a server is not emptied where others have room, and all of them a replica.
const NO_TAKER: &str = "each server with room has a replica of some of its chunks already: add \
                        servers, or make room on the others";

/// What the id of a drain begins with.
const ID: &str = "drain-";

/// The server whose drain has this id.
pub(super) fn server_of(view: &View<'_>, id: &str) -> Option<ServerId> {
    let named = |drain: &&DrainOrder| id_of(drain.server) == id;
    view.state.known_servers().duties().drains().find(named).map(|drain| drain.server)
}

fn id_of(server: ServerId) -> String {
    format!("{ID}{server}")
}

/// Why a server cannot be emptied while chunks have a goal as high as that, as the cell is now.
fn why_blocked(view: &View<'_>, server: ServerId, goal: u32) -> Option<String> {
    let (now, servers) = (view.now.time, view.fleet.servers());
    let others = servers.ids().filter(|other| {
        let is_dead = servers.state(now, *other) == Some(ServerState::Dead);
        *other != server && !is_dead && !view.state.known_servers().duties().is_draining(*other)
    });
    let others = others.count();
    if others < goal as usize {
        return Some(format!(
            "some of its chunks are to have {goal} replicas, and {others} other servers are left: \
             add servers, or lower their replication"
        ));
    }
    (with_room_count(view) == 0)
        .then(|| "no other server that is reached has room: add some".to_owned())
}

/// The same of one that is being emptied and holds so many replicas, as its chunks are found to be.
fn why_stuck(view: &View<'_>, repair: &Repair, server: ServerId, left: u64) -> Option<String> {
    if left == 0 {
        return None;
    }
    let (waiting, goal) = repair.to_be_drained();
    let blocked = why_blocked(view, server, goal).filter(|_| waiting > 0);
    let kept = || match repair.keeps_on(view, server)? {
        KeptBy::NoTaker => Some(NO_TAKER.to_owned()),
        KeptBy::NoSource(count) => Some(format!(
            "{count} of its chunks have no good replica that could be copied: 'cairn fsck' names \
             them, 'cairn explain' says why"
        )),
        KeptBy::DeletedSuspects(count) => Some(format!(
            "{count} of its chunks are deleted files', and may have lost bytes in a power failure: \
             they go when these are purged, or can be copied once they are brought back"
        )),
    };
    blocked.or_else(kept)
}

/// Whether no server could take a copy of some chunk that a server holds, and is needed there; of
/// many chunks, some are looked at.
fn holds_what_none_can_take(view: &View<'_>, server: ServerId) -> bool {
    let takers = CopyTakers::of(view);
    let mut some = view.state.chunks_after(ChunkHandle::default()).take(LOOKED_AT_MAX);
    some.any(|(handle, chunk)| {
        let good = good(view, handle, &chunk);
        let others = counted(view, &good).into_iter().filter(|other| *other != server).count();
        let is_held = good.iter().any(|(holder, _)| *holder == server);
        is_held && others < chunk.goal as usize && !takers.take(view, handle)
    })
}

/// Whether a server may be emptied: others are to be left that take new chunks.
pub(super) fn may_begin(view: &View<'_>, server: ServerId) -> Result<(), Failure> {
    let least = view.term.config.min_replicas.max(1) as usize;
    let others = takers_beside(view, server);
    if others >= least || view.state.known_servers().duties().is_draining(server) {
        return Ok(());
    }
    let line = format!(
        "nothing could be stored in the cell any more: {others} others take new chunks (those that \
         are full, dead, not reached, or to be emptied themselves do not), and {least} are needed; \
         add a server first, or undrain one"
    );
    Err(Failure::refused(ErrorCode::TooFewServers, line))
}

/// Whether a server that is heard of may be switched off, drained since then (DR1).
fn is_emptied(view: &View<'_>, repair: &Repair, server: ServerId, since: Time) -> bool {
    let known = view.fleet.servers().get(server);
    let told = known.is_some_and(|known| known.inventoried.is_some() && !known.buried);
    let settled = view.now.time >= since + view.term.silent();
    let holds = view.fleet.locations().counts().get(&server).copied().unwrap_or(0);
    let kept = view.fleet.unknown_count_of(server);
    told && settled && holds == 0 && kept == 0 && !repair.receives(server)
}

/// The highest goal of the chunks that a server holds; where there are too many to be looked at,
/// that of a file of which nobody says anything, if it is higher.
fn highest_goal(view: &View<'_>, server: ServerId) -> Option<u32> {
    let mut all = view.state.chunks_after(ChunkHandle::default());
    let held = |handle| view.fleet.locations().get(handle, server).is_some();
    let some = all.by_ref().take(LOOKED_AT_MAX).filter(|(handle, _)| held(*handle));
    let highest = some.map(|(_, chunk)| chunk.goal).max();
    let rest = all.next().map(|_| view.term.config.replication);
    highest.max(rest)
}

impl Drains {
    /// Time has passed.
    pub(super) fn pass(&mut self, view: &View<'_>, repair: &Repair) {
        self.by_server.retain(|server, _| view.state.known_servers().duties().is_draining(*server));
        if view.state.known_servers().duties().drains().len() == 0 {
            return;
        }
        let held = view.fleet.locations().counts();
        for DrainOrder { server, .. } in view.state.known_servers().duties().drains() {
            let left = held.get(server).copied().unwrap_or(0);
            let (since, pace) = (view.now.time, JobPace::default());
            let (kept, emptied, is_off) = (0, false, false);
            let fresh = || DrainProgress { since, left, kept, emptied, is_off, pace };
            let progress = self.by_server.entry(*server).or_insert_with(fresh);
            progress.pace.is_at_work(view.now);
            if left < progress.left {
                progress.pace.note(view.now, progress.left - left);
            }
            progress.left = left;
            match view.fleet.servers().state(view.now.time, *server) {
                Some(ServerState::Live) => {
                    // One that is back has yet to tell what it keeps.
                    let known = view.fleet.servers().get(*server);
                    if known.is_some_and(|known| known.inventoried.is_some()) {
                        progress.kept = view.fleet.unknown_count_of(*server);
                    }
                    progress.emptied = is_emptied(view, repair, *server, progress.since);
                    progress.is_off = progress.emptied;
                }
                Some(ServerState::Silent) => {}
                Some(ServerState::Dead) | None => {
                    let is_missed = progress.kept > 0 || !repair.lacks_nothing(view);
                    progress.is_off = progress.emptied || !is_missed;
                }
            }
        }
        assert_eq!(
            self.by_server.len(),
            view.state.known_servers().duties().drains().len(),
            "one for each"
        );
    }

    /// What a server is, for people.
    pub(super) fn duty(&self, view: &View<'_>, repair: &Repair, server: ServerId) -> ServerDuty {
        match view.state.known_servers().duties().is_draining(server) {
            false => ServerDuty::Serving,
            true if self.is_drained(view, repair, server) => ServerDuty::Drained,
            true => ServerDuty::Draining,
        }
    }

    /// DR1
    fn is_drained(&self, view: &View<'_>, repair: &Repair, server: ServerId) -> bool {
        let Some(progress) = self.by_server.get(&server) else { return false };
        match view.fleet.servers().state(view.now.time, server) {
            Some(ServerState::Live) => is_emptied(view, repair, server, progress.since),
            _ => progress.is_off,
        }
    }

    /// Whether a server that is away is off (DR2).
    pub(super) fn is_off(&self, server: ServerId) -> bool {
        self.by_server.get(&server).is_some_and(|progress| progress.is_off)
    }

    /// Why servers cannot be emptied: a code and a line for each, for `Status`.
    pub(super) fn warnings(&self, view: &View<'_>, repair: &Repair) -> Vec<String> {
        let stuck = |DrainOrder { server, .. }: &DrainOrder| {
            let left = self.by_server.get(server).map_or(0, |progress| progress.left);
            let why = why_stuck(view, repair, *server, left)?;
            let at = view.fleet.at(*server).map(|at| at.address.to_string()).unwrap_or_default();
            let code = ReasonCode::DrainBlocked.code();
            Some(format!("{code}: {at} cannot be emptied: {why}"))
        };
        view.state.known_servers().duties().drains().filter_map(stuck).collect()
    }

    /// As jobs, for a person.
    pub(super) fn jobs(&self, view: &View<'_>, repair: &Repair) -> Vec<JobStatus> {
        view.state
            .known_servers()
            .duties()
            .drains()
            .filter_map(|drain| self.job(view, repair, drain))
            .collect()
    }

    fn job(&self, view: &View<'_>, repair: &Repair, drain: &DrainOrder) -> Option<JobStatus> {
        let server = drain.server;
        let progress = self.by_server.get(&server)?;
        let at = view.fleet.at(server).map(|at| at.address.to_string());
        let subject = at.unwrap_or_else(|| server.to_string());
        let kept = view.fleet.unknown_count_of(server);
        let (state, note) = match view.fleet.servers().state(view.now.time, server) {
            Some(ServerState::Dead) | None if self.is_off(server) => {
                let note = "it is off, and nobody misses it: 'cairn servers --forget' takes it off \
                            the list";
                (JobState::Done, note.to_owned())
            }
            _ if self.is_drained(view, repair, server) => {
                (JobState::Done, "it may be switched off".to_owned())
            }
            Some(ServerState::Dead) | None => {
                let kept = self.by_server.get(&server).map_or(0, |progress| progress.kept);
                let note = match kept {
                    0 => "it is dead: what it held is copied from others, as far as they have it"
                        .to_owned(),
                    _ => format!("it is dead, and has {kept} lost chunks that it kept: start it"),
                };
                (JobState::Waiting, note)
            }
            Some(ServerState::Silent) => (JobState::Waiting, "it is silent".to_owned()),
            Some(ServerState::Live) => match why_stuck(view, repair, server, progress.left) {
                Some(why) => (JobState::Waiting, why),
                None if kept > 0 && (progress.left == 0 || repair.to_be_drained().0 == 0) => {
                    let note = format!("it keeps {kept} lost chunks: 'cairn lost' lists them");
                    (JobState::Waiting, note)
                }
                None => (JobState::Running, String::new()),
            },
        };
        let (id, kind) = (id_of(server), JobKind::Drain);
        let status = JobStatus { id, kind, subject, state, note, ..JobStatus::default() };
        let told = progress.pace.tell(view.now, progress.left, status);
        Some(JobStatus { began: drain.began, ..told })
    }

    /// What it would be to empty a server.
    pub(super) fn plan(view: &View<'_>, server: ServerId) -> DrainAnswer {
        let held = view.fleet.locations().counts().get(&server).copied().unwrap_or(0);
        let stored = view.fleet.servers().get(server).map_or(0, |known| known.report.stored);
        let goal = highest_goal(view, server).filter(|_| held > 0);
        let blocked = goal.and_then(|goal| why_blocked(view, server, goal));
        let none = || holds_what_none_can_take(view, server).then(|| NO_TAKER.to_owned());
        let blocked = blocked.or_else(none).unwrap_or_default();
        DrainAnswer { chunk_count: held, stored, blocked }
    }
}
