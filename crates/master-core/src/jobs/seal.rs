//! Sealing a stream's chunk: those that have what is committed of it are raised with the close
//! mark, and from then on it is any closed chunk (R41, R42).
//!
//! ```text
//!   Raising: Raise(close) ─► all stand, and have what is committed ─► Logging: SealChunk
//!      └─ somebody did not answer, or lacks some: a fresh number, without him (R8)
//! ```
//! - SL1: after the first raise nobody can write it: its servers refuse the version (R12).
//! - SL2: whoever lacks what is committed is not of the set, but for a set that was decided on
//!   (R28): what that lacks is lost, the log notes it, and readers are told.
//! - SL3: where no set can be had yet, those that are sound get the mark all the same: from then on
//!   it is known for good what they have, and what they lack (`lacks_committed.rs`).

use super::acts::{Act, Acts};
use super::events::{JobEvent, PlaceView};
use super::raise::{RaiseKind, RaiseMember, RaiseRound, RaisedReplica, again, set_size};
use crate::applied::Applied;
use crate::fleet::KnownReplica;
use crate::record::LOST_LEVEL;
use crate::rules::decided_set::{is_decided, keeps_above};
use crate::rules::members::current;
use crate::rules::replica_set::{LiveMember, live_members, may_be_set, plan_raise};
use crate::state::ChunkRecord;
use crate::stream_records::SealChunk;
use crate::view::View;
use cairn_protocol::{ErrorCode, Failure};
use cairn_types::planted::{Rule, broken};
use cairn_types::{ChunkHandle, SerialNumber, ServerId};

/// A chunk that is being sealed.
#[derive(Debug)]
pub(crate) struct SealJob {
    handle: ChunkHandle,
    raise: RaiseRound,
    is_logging: bool,
}

impl SealJob {
    /// Raises its replicas; none, where its set cannot be raised now: it is tried again.
    pub(crate) fn start(
        view: &View<'_>,
        (handle, chunk): (ChunkHandle, &ChunkRecord),
        acts: &mut Acts<'_>,
    ) -> Option<Self> {
        let members = match plan_raise(view, handle, chunk) {
            Ok(members) => members,
            Err(_) => unmarked(view, handle, chunk),
        };
        if members.is_empty() {
            return None;
        }
        let members = members.into_iter().map(RaiseMember::standing).collect();
        let raise = raise(view, handle, members, acts);
        Some(Self { handle, raise, is_logging: false })
    }

    pub(crate) fn handle(&self) -> ChunkHandle {
        self.handle
    }

    pub(crate) fn describe(&self) -> String {
        match self.is_logging {
            false => format!("raising {} replicas to seal a producer's chunk", self.raise.size()),
            true => "logging the seal".to_owned(),
        }
    }

    pub(crate) fn on(&mut self, at: &PlaceView<'_>, event: JobEvent<'_>, acts: &mut Acts<'_>) {
        match event {
            JobEvent::RaiseAnswered(server, result) if !self.is_logging => {
                if self.raise.on_answer(server, result) {
                    self.on_raised(&at.view, acts);
                }
            }
            JobEvent::Applied(Applied::Failed(failure)) => self.give_up(failure.clone(), acts),
            JobEvent::Applied(_) => {
                acts.push(Act::Sealed(self.handle, Ok(())));
                acts.push(Act::Finish);
            }
            other => unreachable!("{other:?} is not waited for (JB2)"),
        }
    }

    /// A round of the raise is over.
    fn on_raised(&mut self, view: &View<'_>, acts: &mut Acts<'_>) {
        let handle = self.handle;
        let row = view.state.streams().open_chunk(handle);
        let (Some(row), Some(chunk)) = (row, view.state.chunk(handle)) else {
            let gone = Failure::not_done(ErrorCode::NoSuchChunk, "nobody writes it any more");
            return self.give_up(gone, acts);
        };
        let raised = self.raise.raised();
        let servers = |of: &[RaisedReplica]| of.iter().map(|r| r.at.server).collect::<Vec<_>>();
        let of_all = servers(&raised);
        let decided = is_decided(view, (handle, &chunk), &of_all);
        // SL2
        let has = |r: &RaisedReplica| {
            let report = &r.report;
            (report.serial >= row.serial && report.length >= row.length) || broken(Rule::R41)
        };
        let good: Vec<RaisedReplica> =
            raised.iter().filter(|r| decided || has(r)).cloned().collect();
        let members: Vec<ServerId> = servers(&good);
        if let Err(blocked) = may_be_set(view, handle, &chunk, &members) {
            let why = format!("chunk {}: {}", handle.short(), blocked.why);
            return self.give_up(Failure::not_done(ErrorCode::TooFewServers, why), acts);
        }
        // R8: whoever was asked and is not of the set may stand at this very version.
        if !self.raise.all_answered() || good.len() < raised.len() {
            let members = again(good).collect();
            self.raise = raise(view, handle, members, acts);
            return;
        }
        assert!(!good.is_empty(), "no set is empty (R11)");
        assert!(!decided || members == of_all, "what is decided on is the set (SL2)");
        assert!(self.raise.kind().close, "a seal leaves the close mark (R41)");
        let least: Option<SerialNumber> = good.iter().map(|r| r.report.serial).min();
        // R41 broken: whoever was raised is of the set, whatever it has.
        let serial = least.filter(|_| raised.iter().all(has) && !broken(Rule::R41));
        let notes_lost = serial.is_none() && view.state.level() >= LOST_LEVEL;
        let held = good.iter().map(|r| r.report.length).min().filter(|_| notes_lost);
        let may_lack = decided || serial.is_some() || broken(Rule::R41);
        assert!(may_lack, "only a set that was decided on lacks something (SL2)");
        acts.propose(SealChunk {
            time: view.now.wall,
            handle,
            version: self.raise.to(),
            set_size: set_size(&good),
            serial,
            keeps_above: keeps_above(view, (handle, &chunk), &of_all),
            held,
        });
        self.is_logging = true;
    }

    fn give_up(&self, failure: Failure, acts: &mut Acts<'_>) {
        acts.push(Act::Sealed(self.handle, Err(failure)));
        acts.push(Act::Finish);
    }
}

/// SL3
fn unmarked(view: &View<'_>, handle: ChunkHandle, chunk: &ChunkRecord) -> Vec<LiveMember> {
    let lacks_mark = |(_, it): &(ServerId, KnownReplica)| it.is_sound() && !it.closed;
    live_members(view, current(view, handle, chunk).filter(lacks_mark))
}

fn raise(
    view: &View<'_>,
    handle: ChunkHandle,
    members: Vec<RaiseMember>,
    acts: &mut Acts<'_>,
) -> RaiseRound {
    // What is sealed is on disk, whoever is of the set (E2).
    let kind = RaiseKind { handle, close: true, syncs: true, keeps_lease: false };
    RaiseRound::start(view, kind, members, acts)
}
