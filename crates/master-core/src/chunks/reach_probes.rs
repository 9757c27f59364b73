//! Asking chunkservers whether they are reached at the address that they give (RK1 of the fleet's
//! reach).

use super::told_of;
use crate::fleet::ReachNews;
use crate::step::ChunkStep;
use crate::this_term::ThisTerm;
use cairn_env::{EffectId, LogEvent};
use cairn_protocol::{Failure, Probe, Response};
use cairn_types::{JoinId, ServerId};
use std::collections::BTreeMap;

/// The questions that are on their way.
#[derive(Debug, Default)]
pub(super) struct ReachProbes(BTreeMap<EffectId, (ServerId, JoinId)>);

impl ReachProbes {
    /// Asks whoever is to be asked.
    pub(super) fn pass(&mut self, step: &mut ChunkStep<'_>, term: &ThisTerm) {
        let now = step.now.time;
        for (at, join) in step.fleet.take_to_probe(now) {
            // Of no chunk: that there is none is an answer, and each build has it.
            let probe = Probe { term: term.number, ..Probe::default() };
            let id = step.out.call(at.address, at.server, probe, now + term.silent());
            let other = self.0.insert(id, (at.server, join));
            assert!(other.is_none(), "a call has one purpose");
        }
    }

    /// Whether the answer was to one of these.
    pub(super) fn on_answer(
        &mut self,
        step: &mut ChunkStep<'_>,
        term: &ThisTerm,
        (id, result): (EffectId, &Result<Response, Failure>),
    ) -> bool {
        let Some((server, join)) = self.0.remove(&id) else { return false };
        let result = result.as_ref().map(|_| ());
        let when = (step.now.time, term.heartbeat());
        let event = match step.fleet.note_reach(when, (server, join), result) {
            ReachNews::Nothing => return true,
            ReachNews::Unreached => LogEvent::warn("chunkserver not reached"),
            ReachNews::ReachedAgain => LogEvent::info("chunkserver reached again"),
        };
        let known = step.fleet.servers().get(server).expect("there is news of it");
        let why = known.reach.why().unwrap_or_default();
        let event = told_of(event, &known.at);
        step.out.log(if why.is_empty() { event } else { event.with("why", why) });
        true
    }
}
