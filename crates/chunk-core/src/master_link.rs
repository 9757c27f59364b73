//! The chunkserver's side of its talk with the master: join, inventory, heartbeat (GFS §2.3).
//!
//! ```text
//!   start ──► Join ──┬─► Heartbeat every heartbeat_ms
//!               ▲    └─► Inventory, slice by slice (`inventory.rs`)
//!               └────────── rejoin, or no answer for long
//! ```
//! - M1: a higher term is made durable before anything of it is obeyed; a lower one is refused
//!   (R2).
//! - M2: a lease is extended from when the heartbeat was *sent* (R4), and only while it lasts.

use crate::core::ChunkCore;
use crate::inventory::Telling;
use crate::outbox::{JOURNAL_LANE, Purpose, lane_of};
use crate::primary::holder_expiry;
use crate::replica::Replica;
use cairn_env::{ChunkJob, Effect, JournalEntry, LogEvent, Now, Space};
use cairn_protocol::{
    ErrorCode, Failure, Heartbeat, HeartbeatAnswer, HeldLease, Hello, Join, JoinAnswer,
    ReplicaReport, Role,
};
use cairn_types::planted::{Rule, broken};
use cairn_types::{CellId, ChunkHandle, ChunkVersion, ServerId, Term, Time};
use std::collections::BTreeSet;
use std::time::Duration;

/// Replicas that a heartbeat reports in turn, so that the master can name what is garbage.
const HELD_PER_HEARTBEAT: usize = 200;
/// Pause before another try to join.
const JOIN_RETRY: Duration = Duration::from_millis(500);
/// How long one call to the master may take.
const MASTER_DEADLINE: Duration = Duration::from_secs(2);
/// Heartbeats between looks at the trash.
const TRASH_EVERY: u64 = 20;

/// Where this server stands with its master.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Stage {
    /// Not joined; the next try is due then.
    Away(Time),
    /// A join is under way.
    Joining,
    /// Joined; the next heartbeat is due then.
    Joined(Time),
}

#[derive(Debug)]
pub(crate) struct MasterLink {
    pub(crate) stage: Stage,
    /// The inventory that is under way.
    pub(crate) inventory: Option<Telling>,
    pub(crate) term: Term,
    pub(crate) cell: CellId,
    pub(crate) space: Space,
    pub(crate) which: usize,
    pub(crate) beats: u64,
    pub(crate) held_after: ChunkHandle,
    /// Since when another incarnation is in the way (R5).
    pub(crate) refused_since: Option<Time>,
    /// When the master last answered.
    pub(crate) heard: Time,
    /// Since when no master took this server in.
    pub(crate) away_since: Option<Time>,
    /// What was said last of why none did.
    pub(crate) said: String,
    /// Replicas that changed since a heartbeat told of them.
    pub(crate) changed: BTreeSet<ChunkHandle>,
}

impl ChunkCore {
    /// Whatever time asks of the link.
    pub(crate) fn tick_link(&mut self, now: Now) {
        match self.link.stage {
            Stage::Away(due) if now.time >= due => self.join(now),
            Stage::Joined(due) if now.time >= due => self.beat(now),
            _ => {}
        }
    }

    pub(crate) fn call_master(
        &mut self,
        now: Now,
        purpose: Purpose,
        request: impl Into<cairn_protocol::Request>,
    ) {
        let to = self.master_address();
        self.out.call(purpose, to, ServerId::default(), request, now.time + MASTER_DEADLINE);
    }

    pub(crate) fn identify(&mut self) {
        let at = &self.settings.at;
        let hello =
            Hello::new(self.link.cell, Role::Chunkserver, at.server, self.settings.incarnation);
        self.out.push(Effect::Identify(hello));
    }

    fn join(&mut self, now: Now) {
        self.link.stage = Stage::Joining;
        let (mut highest_handle, mut highest_version) =
            (self.settings.highest_handle, self.settings.highest_version);
        for replica in self.replicas.values() {
            highest_handle = highest_handle.max(replica.handle);
            highest_version = highest_version.max(replica.version);
        }
        let request = Join {
            at: self.settings.at.clone(),
            incarnation: self.settings.incarnation,
            cell: self.link.cell,
            capacity: self.link.space.capacity,
            used: self.link.space.used,
            term: self.link.term,
            highest_handle,
            highest_version,
        };
        self.call_master(now, Purpose::Joined, request);
    }

    pub(crate) fn on_joined(&mut self, now: Now, result: Result<JoinAnswer, Failure>) {
        // Nothing is counted by settings that do not fit together.
        let result = result.and_then(|answer| Ok(answer.config.validate().map(|()| answer)?));
        match result {
            Ok(answer) if self.link.cell.is_none() || self.link.cell == answer.cell => {
                if let Err(refusal) = self.obey_term(answer.term) {
                    self.retry_join(now, &refusal);
                    return;
                }
                if self.link.cell.is_none() {
                    self.link.cell = answer.cell;
                    let entry = JournalEntry::Joined(answer.cell, self.settings.at.server);
                    let job = ChunkJob::Journal(vec![entry]);
                    self.out.disk(Purpose::Nobody, JOURNAL_LANE, job);
                    self.identify();
                }
                self.config = answer.config;
                self.knows_config = true;
                self.link.heard = now.time;
                self.link.refused_since = None;
                self.link.stage = Stage::Joined(now.time);
                self.begin_inventory(now, answer.join);
            }
            Ok(answer) => {
                let why = format!("the master's cell is {}", answer.cell);
                self.retry_join(now, &Failure::refused(ErrorCode::WrongCell, why));
            }
            Err(failure) => self.retry_join(now, &failure),
        }
    }

    /// Tries again later; what can never succeed ends the process with its reason.
    pub(crate) fn retry_join(&mut self, now: Now, failure: &Failure) {
        match failure.code {
            ErrorCode::WrongCell => {
                let (cell, master) = (self.link.cell, self.master_address());
                self.out.push(Effect::Halt(format!(
                    "this data directory belongs to cell {cell}, and the master at {master} is \
                     another cell's ({}); name a master of its own cell, or give --data an empty \
                     directory",
                    failure.message
                )));
            }
            ErrorCode::VersionUnsupported => {
                self.out.push(Effect::Halt(failure.message.clone()));
            }
            // R5: another incarnation of this server lives, longer than it takes to be buried.
            ErrorCode::WrongServer => {
                let since = *self.link.refused_since.get_or_insert(now.time);
                if now.time.since(since) > Duration::from_millis(self.config.dead_ms) {
                    self.out.push(Effect::Halt(failure.message.clone()));
                }
            }
            _ => {}
        }
        self.say_why_away(now, failure);
        self.link.which += 1;
        self.link.stage = Stage::Away(now.time + JOIN_RETRY);
        self.link.inventory = None;
    }

    /// Tells a person why no master takes this server in: once for each reason, and not for what
    /// is over in a moment.
    fn say_why_away(&mut self, now: Now, failure: &Failure) {
        let since = *self.link.away_since.get_or_insert(now.time);
        let patience = Duration::from_millis(self.config.silent_ms);
        if now.time.since(since) >= patience && self.link.said != failure.message {
            let (master, why) = (self.master_address(), &failure.message);
            let event = LogEvent::warn("not in the cell").with("master", master).with("why", why);
            self.out.push(Effect::Log(event));
            self.link.said.clone_from(&failure.message);
        }
    }

    /// A master has taken this server in, and all that it holds.
    pub(crate) fn say_joined(&mut self) {
        self.link.away_since = None;
        if !std::mem::take(&mut self.link.said).is_empty() {
            let event = LogEvent::info("in the cell").with("master", self.master_address());
            self.out.push(Effect::Log(event));
        }
    }

    pub(crate) fn held_leases(&mut self, now: Time, clear: bool) -> Vec<HeldLease> {
        let mut held = Vec::new();
        for handle in &self.watched {
            let Some(replica) = self.replicas.get_mut(handle) else { continue };
            let (handle, version) = (replica.handle, replica.version);
            let acknowledged = replica.acknowledged;
            if let Some(primary) = replica.primary.as_mut().filter(|p| p.is_live(now)) {
                let (lease, wanted) = (primary.lease, primary.used || !primary.log.is_empty());
                held.push(HeldLease { handle, version, lease, acknowledged, wanted });
                primary.used &= !clear;
            }
        }
        held
    }

    /// What a heartbeat tells of replicas: first of those that changed since they were told of,
    /// as far as there is room, and then of the others in turn.
    fn replicas_to_tell(&mut self) -> Vec<ReplicaReport> {
        let mut held = Vec::new();
        while held.len() < HELD_PER_HEARTBEAT / 2
            && let Some(handle) = self.link.changed.pop_first()
        {
            held.extend(self.replicas.get(&handle).map(Replica::report));
        }
        let wanted = HELD_PER_HEARTBEAT - held.len();
        let rest = self.replicas.range(self.link.held_after.next()..);
        let in_turn: Vec<ReplicaReport> =
            rest.take(wanted).map(|(_, replica)| replica.report()).collect();
        self.link.held_after = match in_turn.last() {
            Some(report) if in_turn.len() == wanted => report.handle,
            _ => ChunkHandle::default(),
        };
        held.extend(in_turn);
        held
    }

    fn beat(&mut self, now: Now) {
        self.link.beats += 1;
        self.link.stage = Stage::Joined(now.time + Duration::from_millis(self.config.heartbeat_ms));
        self.out.disk(Purpose::Space, JOURNAL_LANE, ChunkJob::Space);
        if self.link.beats.is_multiple_of(TRASH_EVERY) {
            let now_ms = now.wall.as_millis();
            let before_ms = now_ms.saturating_sub(self.config.trash_ms);
            let job = ChunkJob::EmptyTrash { before_ms, now_ms };
            self.out.disk(Purpose::Nobody, JOURNAL_LANE, job);
        }
        let leases = self.held_leases(now.time, true);
        let held = self.replicas_to_tell();
        let watched = self.watched.iter().filter_map(|handle| self.replicas.get(handle));
        let damaged = watched.filter(|replica| replica.damaged);
        let request = Heartbeat {
            server: self.settings.at.server,
            incarnation: self.settings.incarnation,
            capacity: self.link.space.capacity,
            used: self.link.space.used,
            leases,
            damaged: damaged.map(|replica| replica.handle).collect(),
            held,
            term: self.link.term,
        };
        self.call_master(now, Purpose::Heartbeat(now.time), request);
    }

    pub(crate) fn on_heartbeat_answer(
        &mut self,
        now: Now,
        sent: Time,
        result: Result<HeartbeatAnswer, Failure>,
    ) {
        let answer = match result {
            Ok(answer) if self.obey_term(answer.term).is_ok() => answer,
            Ok(_) => return,
            Err(failure) => {
                let silence = now.time.since(self.link.heard);
                if silence > Duration::from_millis(self.config.silent_ms) {
                    self.retry_join(now, &failure);
                }
                return;
            }
        };
        self.link.heard = now.time;
        if answer.rejoin {
            self.link.stage = Stage::Away(now.time);
            self.link.inventory = None;
            return;
        }
        for handle in &self.watched {
            let replica = self.replicas.get_mut(handle);
            let Some(primary) = replica.and_then(|it| it.primary.as_mut()) else { continue };
            if answer.extended.contains(&primary.lease) && primary.is_live(now.time) {
                let counted_from = if broken(Rule::R4) { now.time } else { sent };
                let cx =
                    Self::context(now, &self.config, &mut self.out, &self.settings, &self.link);
                primary.expires = primary.expires.max(holder_expiry(&cx, counted_from));
            }
        }
        for garbage in answer.garbage {
            self.collect(garbage.handle, garbage.version);
        }
        for doubted in answer.verify {
            if let Some((replica, mut cx)) = self.replica(now, doubted.handle) {
                replica.verify(&mut cx, doubted.offset);
            }
        }
    }

    /// Lets go of a replica that the master calls garbage: nothing newer than the version named,
    /// and nothing that takes part in a lease (R33).
    fn collect(&mut self, handle: ChunkHandle, version: ChunkVersion) {
        let idle = self.replicas.get(&handle).is_some_and(|replica| {
            let newer = replica.version > version && !broken(Rule::R33);
            !newer && replica.primary.is_none() && replica.busy.is_none()
        });
        if idle {
            self.out.disk(
                Purpose::Trashed(handle),
                lane_of(handle),
                ChunkJob::Trash { handle, version },
            );
        }
    }

    /// Takes over a higher term, durably before anything of it is done; refuses a lower one.
    pub(crate) fn obey_term(&mut self, term: Term) -> Result<(), Failure> {
        if term < self.link.term && !broken(Rule::R2) {
            let why =
                format!("a master of term {term}; this server has heard of {}", self.link.term);
            return Err(Failure::refused(ErrorCode::NotPrimaryMaster, why));
        }
        if term > self.link.term {
            let before = std::mem::replace(&mut self.link.term, term);
            // The journal's lane keeps order: whatever this term asks for lies behind this entry.
            let job = ChunkJob::Journal(vec![JournalEntry::Term(term)]);
            self.out.disk(Purpose::TermKept(before), JOURNAL_LANE, job);
        }
        Ok(())
    }
}
