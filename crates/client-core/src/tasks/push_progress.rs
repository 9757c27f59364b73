//! How far the data of one mutation is on its way to the replicas (GFS §3.2).
//!
//! ```text
//!   one push down the chain ──► all have it
//!            │ broken
//!            ▼
//!   a push to each apart that may still be there ──► those that answered have it
//! ```
//! - P1: data that one secondary cannot take is no reason to stop: the order goes to the primary
//!   anyway, whose forward then fails there, and the set is shrunk (R14). One that is slow gets the
//!   data meanwhile.

use crate::retry::{is_final, is_silence};
use cairn_env::EffectId;
use cairn_protocol::{ErrorCode, Failure};
use cairn_types::ServerId;
use std::collections::{BTreeMap, BTreeSet};

/// The pushes under way, and who is known not to have the data.
#[derive(Debug, Default)]
pub(crate) struct PushProgress {
    /// The server that each push went to first.
    pending: BTreeMap<EffectId, ServerId>,
    /// To each server apart, since the chain broke.
    apart: bool,
    failed: BTreeSet<ServerId>,
    /// Who has the data, of those that got it apart.
    taken: BTreeSet<ServerId>,
    /// Whoever does not have it by now is not waited for.
    hurries: bool,
}

/// What a failed push means.
#[derive(Debug)]
pub(crate) enum FailedPush {
    /// It can never succeed.
    Final(Failure),
    /// The chain broke: the data goes to each server apart.
    ChainBroke(Failure),
    /// One server cannot take it (P1).
    ServerFailed(Failure),
}

impl PushProgress {
    /// The data goes to each server apart.
    pub(crate) fn apart() -> Self {
        Self { apart: true, ..Self::default() }
    }

    /// A push went out to `server` first.
    pub(crate) fn sent(&mut self, call: EffectId, server: ServerId) {
        assert!(self.apart || self.pending.is_empty(), "down the chain there is one push");
        self.pending.insert(call, server);
    }

    /// Whether it is one of those under way.
    pub(crate) fn awaits(&self, call: EffectId) -> bool {
        self.pending.contains_key(&call)
    }

    /// From now on it will do that this server has the data.
    pub(crate) fn hurry(&mut self) {
        self.hurries = true;
    }

    /// Whether the order can go to that primary (P1).
    pub(crate) fn will_do(&self, primary: ServerId) -> bool {
        self.pending.is_empty() || (self.hurries && self.taken.contains(&primary))
    }

    /// Whether so many have the data, and who is late is not waited for; or none is under way.
    pub(crate) fn will_do_for(&self, enough: usize) -> bool {
        self.pending.is_empty() || (self.hurries && self.taken.len() >= enough)
    }

    /// A push has ended.
    ///
    /// # Errors
    /// What its failure means.
    pub(crate) fn ended(
        &mut self,
        call: EffectId,
        result: Result<(), Failure>,
    ) -> Result<(), FailedPush> {
        let first = self.pending.remove(&call).expect("a push ends once");
        let Err(failure) = result else {
            self.taken.insert(first);
            return Ok(());
        };
        if is_final(&failure) && !is_silence(&failure) {
            return Err(FailedPush::Final(failure));
        }
        // Of a chain only these two tell who it was; apart, it is the one that was asked.
        if failure.code == ErrorCode::ChainBroken && failure.server != ServerId::default() {
            self.failed.insert(failure.server);
        } else if self.apart || failure.code == ErrorCode::Unreachable {
            self.failed.insert(first);
        }
        if std::mem::replace(&mut self.apart, true) {
            return Err(FailedPush::ServerFailed(failure));
        }
        assert!(self.pending.is_empty(), "down the chain there is one push");
        Err(FailedPush::ChainBroke(failure))
    }

    /// Whether pushes go to each server apart.
    pub(crate) fn is_apart(&self) -> bool {
        self.apart
    }

    /// Whether a push to this server alone is under way.
    pub(crate) fn is_awaited_of(&self, server: ServerId) -> bool {
        self.apart && self.pending.values().any(|first| *first == server)
    }

    /// Whether a server is known not to have the data.
    pub(crate) fn has_failed(&self, server: ServerId) -> bool {
        self.failed.contains(&server)
    }
}
