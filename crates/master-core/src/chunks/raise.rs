//! The raise: the one act behind grant, shrink, creation and fence (R7, R8, R10).
//!
//! ```text
//!   ask all: Raise(from, to) ──► all answered ──────────────► `to` may be logged
//!        ▲                   └─► one did not ──► `to` is spent
//!        └──── those that did, from what they now stand at, a fresh `to` ◄──┘
//! ```
//! - E1: a version may be logged only if every replica that was ever asked for it stands at it.
//! - E2: where a replica is left out, those that stay have everything on disk before they answer.
//!   Else bytes that were acknowledged on all would stand in page caches of fewer machines than
//!   they were acknowledged on, while the disk of the one left out, which has them, counts for
//!   nothing.
//!
//! Knows nothing of why; whoever started it decides what its end means.

use super::Pending;
use crate::step::Step;
use cairn_env::EffectId;
use cairn_protocol::{Failure, Raise as RaiseRequest, ReplicaReport};
use cairn_types::{ChunkHandle, ChunkVersion, ReplicaAt, ServerId, Term, Time};
use std::collections::BTreeMap;
use std::time::Duration;

/// A replica to ask.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Member {
    pub(super) at: ReplicaAt,
    /// The version it stands at; none: it is to be created.
    pub(super) from: Option<ChunkVersion>,
}

/// A replica that stands at the raise's version.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Raised {
    pub(super) at: ReplicaAt,
    pub(super) report: ReplicaReport,
}

#[derive(Debug)]
struct Asked {
    at: ReplicaAt,
    effect: EffectId,
    /// None while it is waited for.
    result: Option<Result<ReplicaReport, Failure>>,
}

/// What to raise, and how.
#[derive(Clone, Copy, Debug)]
pub(super) struct RaiseKind {
    pub(super) term: Term,
    pub(super) handle: ChunkHandle,
    /// The replicas take the close mark too (R18).
    pub(super) close: bool,
    /// A member of the logged set is left out (E2).
    pub(super) shrinks: bool,
}

/// One round of asking.
#[derive(Debug)]
pub(super) struct Raise {
    kind: RaiseKind,
    to: ChunkVersion,
    asked: BTreeMap<ServerId, Asked>,
}

impl Raise {
    /// Asks every member for a fresh version; their answers come under `place`.
    pub(super) fn start(
        step: &mut Step<'_>,
        calls: &mut BTreeMap<EffectId, Pending>,
        place: super::Place,
        kind: RaiseKind,
        members: Vec<Member>,
    ) -> Self {
        let to = step.numbers.version();
        let deadline = deadline(step, kind);
        let mut asked = BTreeMap::new();
        for Member { at, from } in members {
            let request = RaiseRequest {
                term: kind.term,
                handle: kind.handle,
                from: from.unwrap_or_default(),
                to,
                create: from.is_none(),
                close: kind.close,
                server: at.server,
                sync: kind.shrinks,
            };
            let effect = step.out.call(at.address.clone(), at.server, request, deadline);
            calls.insert(effect, Pending::Raise(place, at.server));
            asked.insert(at.server, Asked { at, effect, result: None });
        }
        Self { kind, to, asked }
    }

    pub(super) fn kind(&self) -> RaiseKind {
        self.kind
    }

    pub(super) fn to(&self) -> ChunkVersion {
        self.to
    }

    /// Takes an answer; of another round it changes nothing. Tells whether the round is over.
    pub(super) fn on_answer(
        &mut self,
        effect: EffectId,
        server: ServerId,
        result: Result<ReplicaReport, Failure>,
    ) -> bool {
        match self.asked.get_mut(&server) {
            Some(asked) if asked.effect == effect => asked.result = Some(result),
            _ => return false,
        }
        self.asked.values().all(|asked| asked.result.is_some())
    }

    /// Whether all that were asked stand at the version (E1).
    pub(super) fn all_answered(&self) -> bool {
        self.asked.values().all(|asked| matches!(asked.result, Some(Ok(_))))
    }

    /// Those that stand at it, in order of server.
    pub(super) fn raised(&self) -> Vec<Raised> {
        let raised = |asked: &Asked| match &asked.result {
            Some(Ok(report)) => Some(Raised { at: asked.at.clone(), report: report.clone() }),
            _ => None,
        };
        self.asked.values().filter_map(raised).collect()
    }

    pub(super) fn has_answered(&self, server: ServerId) -> bool {
        self.asked.get(&server).is_some_and(|asked| matches!(asked.result, Some(Ok(_))))
    }

    pub(super) fn size(&self) -> usize {
        self.asked.len()
    }
}

/// The members of a further round: from what they answered (R8).
pub(super) fn again(raised: Vec<Raised>) -> Vec<Member> {
    raised.into_iter().map(|r| Member { at: r.at, from: Some(r.report.version) }).collect()
}

/// A server that lets a raise wait longer than it may be silent is not waited for; one that has to
/// sync may take half a lease.
fn deadline(step: &Step<'_>, kind: RaiseKind) -> Time {
    let config = step.state.config();
    let patience = if kind.shrinks { config.lease_ms / 2 } else { config.silent_ms };
    step.now.time + Duration::from_millis(patience)
}
