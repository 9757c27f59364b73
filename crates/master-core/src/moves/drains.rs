//! Servers that are being emptied: how far each is, and whether it may be switched off.
//!
//! What empties them stands elsewhere: their replicas count for no goal (`rules/good_replicas.rs`),
//! so that repair copies what they hold, and are left out once there are enough others
//! (`surplus.rs`).
//!
//! - DR1: a server may be switched off when it has told all that it holds, holds no replica of any
//!   chunk, and nothing that was on its way to it can make one any more.

use crate::job_pace::JobPace;
use crate::repair::Repair;
use crate::rules::placement::with_room_count;
use crate::state::DrainOrder;
use crate::view::View;
use cairn_protocol::{
    DrainAnswer, JobKind, JobState, JobStatus, ReasonCode, ServerDuty, ServerState,
};
use cairn_types::{ServerId, Time};
use std::collections::BTreeMap;

/// One of them.
#[derive(Debug)]
struct DrainProgress {
    /// Since when this master knows that it is to be emptied.
    since: Time,
    /// Replicas that it holds.
    left: u64,
    pace: JobPace,
}

/// All of them.
#[derive(Debug, Default)]
pub(super) struct Drains {
    by_server: BTreeMap<ServerId, DrainProgress>,
}

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
    (with_room_count(view) == 0).then(|| "no other server has room: add some".to_owned())
}

impl Drains {
    /// Time has passed.
    pub(super) fn pass(&mut self, view: &View<'_>) {
        self.by_server.retain(|server, _| view.state.known_servers().duties().is_draining(*server));
        if view.state.known_servers().duties().drains().len() == 0 {
            return;
        }
        let held = view.fleet.locations().counts();
        for DrainOrder { server, .. } in view.state.known_servers().duties().drains() {
            let left = held.get(server).copied().unwrap_or(0);
            let fresh = || DrainProgress { since: view.now.time, left, pace: JobPace::default() };
            let progress = self.by_server.entry(*server).or_insert_with(fresh);
            progress.pace.is_at_work(view.now);
            if left < progress.left {
                progress.pace.note(view.now, progress.left - left);
            }
            progress.left = left;
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
        let known = view.fleet.servers().get(server);
        let told = known.is_some_and(|known| known.inventoried.is_some() && !known.buried);
        let settled = view.now.time >= progress.since + view.term.silent();
        let holds = view.fleet.locations().counts().get(&server).copied().unwrap_or(0);
        let kept = view.fleet.unknown_count_of(server);
        told && settled && holds == 0 && kept == 0 && !repair.receives(server)
    }

    /// Why servers cannot be emptied: a code and a line for each, for `Status`.
    pub(super) fn warnings(&self, view: &View<'_>, repair: &Repair) -> Vec<String> {
        let (waiting, goal) = repair.to_be_drained();
        let stuck = |DrainOrder { server, .. }: &DrainOrder| {
            let left = self.by_server.get(server).is_some_and(|progress| progress.left > 0);
            let why = why_blocked(view, *server, goal).filter(|_| left && waiting > 0)?;
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
        let (waiting, goal) = repair.to_be_drained();
        let blocked = why_blocked(view, server, goal).filter(|_| waiting > 0);
        let kept = view.fleet.unknown_count_of(server);
        let (state, note) = match view.fleet.servers().state(view.now.time, server) {
            _ if self.is_drained(view, repair, server) => {
                (JobState::Done, "it may be switched off".to_owned())
            }
            Some(ServerState::Dead) | None => {
                let note = "it is dead: what it held is copied from others, as far as they have it";
                (JobState::Waiting, note.to_owned())
            }
            Some(ServerState::Silent) => (JobState::Waiting, "it is silent".to_owned()),
            Some(ServerState::Live) => match blocked.filter(|_| progress.left > 0) {
                Some(why) => (JobState::Waiting, why),
                None if progress.left == 0 && kept > 0 => {
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
        let goal = view.term.config.replication;
        let blocked = why_blocked(view, server, goal).unwrap_or_default();
        DrainAnswer { chunk_count: held, stored, blocked }
    }
}
