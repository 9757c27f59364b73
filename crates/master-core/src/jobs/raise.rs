//! The raise: the one act behind grant, shrink, creation and fence (R7, R8, R10).
//!
//! ```text
//!   ask all: Raise(from, to) ──► all answered ──────────────► `to` may be logged
//!        ▲                   └─► one did not ──► `to` is spent
//!        └──── those that did, from what they now stand at, a fresh `to` ◄──┘
//! ```
//! - E1: a version may be logged only if every replica that was ever asked for it stands at it. One
//!   that answers so and names another version, or another chunk, has not; nor has one whose
//!   numbers nobody can have (BE2).
//! - E2: where a replica is left out, those that stay have everything on disk before they answer.
//!   Else bytes that were acknowledged on all would stand in page caches of fewer machines than
//!   they were acknowledged on, while the disk of the one left out, which has them, counts for
//!   nothing.
//!
//! Knows nothing of why; whoever started it decides what its end means.

use super::acts::{Acts, Question};
use crate::fleet::may_begin_lease;
use crate::state::State;
use crate::view::View;
use cairn_protocol::{ErrorCode, Failure, Raise as RaiseRequest, RaiseAnswer, ReplicaReport};
use cairn_types::{ChunkHandle, ChunkVersion, ReplicaAt, ServerId, Time};
use std::collections::BTreeMap;

/// A replica to ask.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct RaiseMember {
    pub(crate) at: ReplicaAt,
    pub(crate) from: RaiseFrom,
}

/// What a replica is raised from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum RaiseFrom {
    /// The version that it stands at.
    Version(ChunkVersion),
    /// There is none yet: it is to be created.
    Nothing,
    /// A finished clone is to become it (R30).
    Clone,
}

impl RaiseMember {
    /// One that stands at a version.
    pub(crate) fn standing((at, version): (ReplicaAt, ChunkVersion)) -> Self {
        Self { at, from: RaiseFrom::Version(version) }
    }
}

/// A replica that stands at the raise's version.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct RaisedReplica {
    pub(crate) at: ReplicaAt,
    pub(crate) report: ReplicaReport,
}

/// One replica that was asked.
#[derive(Debug)]
struct MemberAnswer {
    at: ReplicaAt,
    /// None while it is waited for.
    result: Option<Result<ReplicaReport, Failure>>,
}

/// What to raise, and how.
#[derive(Clone, Copy, Debug)]
pub(crate) struct RaiseKind {
    pub(crate) handle: ChunkHandle,
    /// The replicas take the close mark too (R18).
    pub(crate) close: bool,
    /// The replicas have everything on disk before they answer (E2).
    pub(crate) syncs: bool,
    /// The chunk's lease goes on meanwhile (R14).
    pub(crate) keeps_lease: bool,
}

/// What a replica was asked for, and must stand at if it says yes (E1).
#[derive(Clone, Copy, Debug)]
pub(crate) struct RaiseAsked {
    pub(crate) handle: ChunkHandle,
    pub(crate) to: ChunkVersion,
    pub(crate) server: ServerId,
    pub(crate) keeps_lease: bool,
    /// When.
    pub(crate) at: Time,
}

impl RaiseAsked {
    /// What a replica answered, as far as it counts (E1).
    pub(crate) fn check(
        &self,
        state: &State,
        result: Result<RaiseAnswer, Failure>,
    ) -> Result<ReplicaReport, Failure> {
        let report = result?.replica;
        if report.handle == self.handle && report.version == self.to {
            // BE2
            return may_begin_lease(state, &report).then_some(report).ok_or_else(|| {
                let (server, chunk) = (self.server, self.handle.short());
                let line = format!("server {server} says of chunk {chunk} what cannot be");
                Failure::unknown(ErrorCode::Internal, line)
            });
        }
        let line = format!(
            "server {} was raised to {} of chunk {} and stands at {} of {}",
            self.server,
            self.to.short(),
            self.handle.short(),
            report.version.short(),
            report.handle.short()
        );
        Err(Failure::unknown(ErrorCode::Internal, line))
    }
}

/// One round of asking.
#[derive(Debug)]
pub(crate) struct RaiseRound {
    kind: RaiseKind,
    to: ChunkVersion,
    asked: BTreeMap<ServerId, MemberAnswer>,
}

impl RaiseRound {
    /// Asks every member for a fresh version.
    pub(crate) fn start(
        view: &View<'_>,
        kind: RaiseKind,
        members: impl IntoIterator<Item = RaiseMember>,
        acts: &mut Acts<'_>,
    ) -> Self {
        let to = acts.numbers.version();
        let mut round = Self { kind, to, asked: BTreeMap::new() };
        members.into_iter().for_each(|member| round.ask(view, member, acts));
        assert!(!round.asked.is_empty(), "somebody is raised");
        round
    }

    /// Asks one more for the same version: the round is over when it, too, has answered.
    pub(crate) fn ask(
        &mut self,
        view: &View<'_>,
        RaiseMember { at, from }: RaiseMember,
        acts: &mut Acts<'_>,
    ) {
        let RaiseKind { handle, close, syncs, keeps_lease } = self.kind;
        let request = RaiseRequest {
            term: view.term.number,
            handle,
            from: if let RaiseFrom::Version(from) = from { from } else { Default::default() },
            to: self.to,
            create: from == RaiseFrom::Nothing,
            close,
            server: at.server,
            sync: syncs,
            keeps_lease,
            adopt: from == RaiseFrom::Clone,
            committed: view.state.streams().open_chunk(handle).map(|row| row.serial),
        };
        // A server that lets a raise wait longer than it may be silent is not waited for; one that
        // has to sync may take half a lease.
        let lease = view.term.config.lease();
        let patience = if syncs { lease / 2 } else { view.term.silent() };
        let deadline = view.now.time + patience;
        acts.ask(at.clone(), Question::Raise(request, keeps_lease), deadline);
        let twice = self.asked.insert(at.server, MemberAnswer { at, result: None });
        assert!(twice.is_none(), "a server has one replica of a chunk");
    }

    pub(crate) fn kind(&self) -> RaiseKind {
        self.kind
    }

    pub(crate) fn handle(&self) -> ChunkHandle {
        self.kind.handle
    }

    pub(crate) fn to(&self) -> ChunkVersion {
        self.to
    }

    /// Takes an answer. Tells whether the round is over.
    pub(crate) fn on_answer(
        &mut self,
        server: ServerId,
        result: Result<ReplicaReport, Failure>,
    ) -> bool {
        let asked = self.asked.get_mut(&server).expect("an answer is to a question of this round");
        assert!(asked.result.is_none(), "each call is answered once");
        asked.result = Some(result);
        self.asked.values().all(|asked| asked.result.is_some())
    }

    /// Whether all that were asked stand at the version (E1).
    pub(crate) fn all_answered(&self) -> bool {
        self.asked.values().all(|asked| matches!(asked.result, Some(Ok(_))))
    }

    /// Those that stand at it, in order of server.
    pub(crate) fn raised(&self) -> Vec<RaisedReplica> {
        let raised = |asked: &MemberAnswer| match &asked.result {
            Some(Ok(report)) => {
                Some(RaisedReplica { at: asked.at.clone(), report: report.clone() })
            }
            Some(Err(_)) | None => None,
        };
        self.asked.values().filter_map(raised).collect()
    }

    /// The first of those that do not.
    pub(crate) fn silent(&self) -> Option<ServerId> {
        let is_silent = |server: &&ServerId| !self.has_answered(**server);
        self.asked.keys().find(is_silent).copied()
    }

    pub(crate) fn has_answered(&self, server: ServerId) -> bool {
        self.asked.get(&server).is_some_and(|asked| matches!(asked.result, Some(Ok(_))))
    }

    pub(crate) fn size(&self) -> usize {
        self.asked.len()
    }
}

/// The members of a further round: from what they answered (R8).
pub(crate) fn again(raised: Vec<RaisedReplica>) -> impl Iterator<Item = RaiseMember> {
    raised.into_iter().map(|r| RaiseMember::standing((r.at, r.report.version)))
}

/// How long the replicas of a set are.
pub(crate) fn lengths(raised: &[RaisedReplica]) -> Vec<(ServerId, u64)> {
    raised.iter().map(|it| (it.at.server, it.report.length)).collect()
}

/// How many replicas a set has, as records say it.
pub(crate) fn set_size(raised: &[RaisedReplica]) -> u32 {
    assert!(!raised.is_empty(), "no set is empty");
    u32::try_from(raised.len()).expect("a set is small")
}
