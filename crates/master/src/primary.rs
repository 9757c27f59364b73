//! This member while it is in charge: the core of one term, and whoever waits for it.
//!
//! ```text
//!   request ──► leadership confirmed? ──yes──► core ──► answer
//!                  └─ no: held until it is, or until another member is in charge
//! ```
//! - PR1: no request is taken while another member may have been elected (R21, R23): neither a
//!   look-up nor a heartbeat, with which leases are extended and garbage is named (R33).
//! - PR2: when the term ends for this member, whoever waits hears it: not done where the request
//!   was held, unknown where the core had it.

use cairn_consensus::CommittedRecord;
use cairn_env::{Caller, Effect, EffectId, Event, Now, Payload};
use cairn_master_core::{LogResult, MasterCore, MasterEffect, ProposalId, Record, State};
use cairn_protocol::{ErrorCode, Failure, Outcome, Request, Response};
use cairn_types::{LogIndex, Term};
use std::collections::{BTreeMap, BTreeSet, VecDeque};

/// Requests that wait for leadership to be confirmed.
const HELD_MAX: usize = 1024;

/// The core of a term, and who waits.
#[derive(Debug)]
pub(crate) struct Primary {
    core: MasterCore,
    /// What each record on its way is, and who proposed it.
    proposed: BTreeMap<LogIndex, (ProposalId, Record)>,
    /// Effects up to this one are of earlier terms.
    others_effects: EffectId,
    /// Whom the core owes an answer; noted in a group alone.
    owed: BTreeSet<Caller>,
    held: VecDeque<(Caller, Request)>,
}

impl Primary {
    pub(crate) fn new(mut core: MasterCore, others_effects: EffectId) -> Self {
        core.number_effects_after(others_effects);
        let (proposed, owed, held) = (BTreeMap::new(), BTreeSet::new(), VecDeque::new());
        Self { core, proposed, others_effects, owed, held }
    }

    pub(crate) fn core(&self) -> &MasterCore {
        &self.core
    }

    pub(crate) fn core_mut(&mut self) -> &mut MasterCore {
        &mut self.core
    }

    pub(crate) fn term(&self) -> Term {
        self.core.term()
    }

    /// Takes a request of a group's primary, or holds it (PR1).
    pub(crate) fn on_request(
        &mut self,
        now: Now,
        (from, request): (Caller, Request),
        is_confirmed: bool,
        wishes: &mut Vec<MasterEffect>,
    ) {
        // Who is in charge is said as it is believed.
        if is_confirmed || matches!(request, Request::FindPrimary(_)) {
            self.owed.insert(from);
            self.core.step(now, Event::Request { from, request }, wishes);
        } else if self.held.len() < HELD_MAX {
            self.held.push_back((from, request));
        } else {
            let line = "the master waits to hear from the others; try again";
            wishes.push(reply(from, Err(Failure::not_done(ErrorCode::Busy, line))));
        }
    }

    /// Leadership is confirmed: what was held is taken.
    pub(crate) fn take_held(&mut self, now: Now, wishes: &mut Vec<MasterEffect>) {
        for request in std::mem::take(&mut self.held) {
            self.on_request(now, request, true, wishes);
        }
    }

    pub(crate) fn holds(&self) -> bool {
        !self.held.is_empty()
    }

    /// Takes any other event, if it is this core's.
    pub(crate) fn step(
        &mut self,
        now: Now,
        event: Event<(), LogResult>,
        wishes: &mut Vec<MasterEffect>,
    ) {
        if let Event::Completed { id, .. } = &event
            && *id <= self.others_effects
        {
            return;
        }
        self.core.step(now, event, wishes);
    }

    /// An answer leaves.
    pub(crate) fn answered(&mut self, to: Caller) {
        self.owed.remove(&to);
    }

    /// A record is on its way.
    pub(crate) fn proposed(&mut self, index: LogIndex, proposal: (ProposalId, Record)) {
        let other = self.proposed.insert(index, proposal);
        assert!(other.is_none(), "a place in the log is given to one record");
    }

    /// A record is committed. Every one of this term was proposed here, and those before it were
    /// applied before it began; the library's own are empty.
    pub(crate) fn apply(
        &mut self,
        now: Now,
        committed: &CommittedRecord,
        wishes: &mut Vec<MasterEffect>,
    ) {
        let at = (committed.index, committed.term);
        match self.proposed.remove(&committed.index) {
            Some((id, record)) => self.core.applied(now, at, id, &record, wishes),
            None => {
                assert!(committed.data.is_empty(), "a record that nobody proposed");
                self.core.skip(committed.index, committed.term);
            }
        }
    }

    /// Another member is in charge, or none: gives the state, the last effect that was numbered,
    /// and the answers for whoever waits (PR2).
    pub(crate) fn end(self, refusal: &Failure) -> (State, EffectId, Vec<MasterEffect>) {
        let held = self.held.into_iter().map(|(from, _)| reply(from, Err(refusal.clone())));
        let unknown = || Failure { outcome: Outcome::Unknown, ..refusal.clone() };
        let owed = self.owed.into_iter().map(|from| reply(from, Err(unknown())));
        let answers = held.chain(owed).collect();
        let last = self.core.last_effect();
        (self.core.into_state(), last, answers)
    }
}

/// An answer that is not the core's.
pub(crate) fn reply(to: Caller, answer: Result<Response, Failure>) -> MasterEffect {
    MasterEffect::Env(Effect::Reply { to, answer, payload: Payload::default() })
}
