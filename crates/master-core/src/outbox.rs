//! What a step wants done: collected here, handed to the driver when the step is over.

use crate::log_jobs::LogJob;
use crate::record::Record;
use bytes::Bytes;
use cairn_env::{Caller, Effect, EffectId, LogEvent, Payload};
use cairn_protocol::{Failure, Request, Response};
use cairn_types::{Address, PATH_SIZE_MAX, ServerId, Time};

/// Names a proposed record within one life of a master.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ProposalId(pub u64);

/// What the core wants done.
#[derive(Debug)]
pub enum MasterEffect {
    /// Put a record into the log; [`MasterCore::applied`](crate::MasterCore::applied) is called
    /// with this id when it is committed.
    Propose(ProposalId, Record),
    /// Something of the world.
    Env(Effect<LogJob>),
}

/// Bytes of the line that a failure carries. What a client sent may be quoted in it, and must not
/// make the answer larger than a message can be.
const FAILURE_LINE_SIZE_MAX: usize = 16 << 10;

const _: () = assert!(FAILURE_LINE_SIZE_MAX > 3 * PATH_SIZE_MAX);

/// Effects on their way out, and the ids for them.
///
/// Effect ids from 1 up are the core's; the driver's own are its concern and start at
/// [`MasterOutbox::DRIVER_EFFECTS`].
#[derive(Debug, Default)]
pub struct MasterOutbox {
    effects: Vec<MasterEffect>,
    last_effect: u64,
    last_proposal: u64,
    /// Somebody looks for changes of state.
    tells_debug: bool,
}

impl MasterOutbox {
    /// Effect ids from here on belong to the driver.
    pub const DRIVER_EFFECTS: u64 = 1 << 63;

    /// Ids go on after this one, which another core of this process gave out last.
    pub(crate) fn number_after(&mut self, last: EffectId) {
        assert!(self.effects.is_empty() && last.0 >= self.last_effect, "ids only rise");
        self.last_effect = last.0;
    }

    /// The last id that was given out.
    pub(crate) fn last_effect(&self) -> EffectId {
        EffectId(self.last_effect)
    }

    fn fresh(&mut self) -> EffectId {
        self.last_effect += 1;
        assert!(self.last_effect < Self::DRIVER_EFFECTS, "the driver's ids begin there");
        EffectId(self.last_effect)
    }

    /// Asks `server` at `to`; the completion carries the id.
    pub fn call(
        &mut self,
        to: Address,
        server: ServerId,
        request: impl Into<Request>,
        deadline: Time,
    ) -> EffectId {
        let id = self.fresh();
        let request = request.into();
        let payload = Bytes::new();
        self.world(Effect::Call { id, to, server, request, payload, deadline });
        id
    }

    /// Answers a request.
    pub fn reply(&mut self, to: Caller, mut answer: Result<Response, Failure>) {
        if let Err(failure) = &mut answer {
            failure.shorten(FAILURE_LINE_SIZE_MAX);
        }
        self.world(Effect::Reply { to, answer, payload: Payload::default() });
    }

    /// Asks to be woken; the completion carries the id.
    pub fn wake(&mut self, at: Time) -> EffectId {
        let id = self.fresh();
        self.world(Effect::Wake { id, at });
        id
    }

    /// Tells the person who runs the master.
    pub fn log(&mut self, event: LogEvent) {
        self.world(Effect::Log(event));
    }

    /// Somebody looks for changes of state: they are told from now on.
    pub(crate) fn tell_debug(&mut self) {
        self.tells_debug = true;
    }

    /// Whether anybody looks for them: where nobody does, no event of them is built.
    pub(crate) fn tells_debug(&self) -> bool {
        self.tells_debug
    }

    /// Tells of a change of state, if somebody looks for it.
    pub(crate) fn debug(&mut self, event: impl FnOnce() -> LogEvent) {
        if self.tells_debug {
            self.log(event());
        }
    }

    /// Puts a record on its way into the log.
    pub fn propose(&mut self, record: impl Into<Record>) -> ProposalId {
        self.last_proposal += 1;
        let id = ProposalId(self.last_proposal);
        self.effects.push(MasterEffect::Propose(id, record.into()));
        id
    }

    /// Any other effect.
    pub fn world(&mut self, effect: Effect<LogJob>) {
        self.effects.push(MasterEffect::Env(effect));
    }

    /// Hands over what has collected.
    pub fn drain(&mut self) -> std::vec::Drain<'_, MasterEffect> {
        self.effects.drain(..)
    }
}

#[cfg(test)]
mod tests {
    use super::{MasterEffect, MasterOutbox};
    use cairn_env::{Caller, ConnectionId, Effect, LogEvent};
    use cairn_protocol::{ErrorCode, Failure, MESSAGE_SIZE_MAX, RequestId};
    use cairn_types::wire::Message;

    #[test]
    fn an_event_that_nobody_looks_for_is_not_built() {
        let mut out = MasterOutbox::default();
        out.debug(|| panic!("nobody looks for it"));
        assert_eq!(out.drain().count(), 0);
        out.tell_debug();
        out.debug(|| LogEvent::debug("chunk closed"));
        assert_eq!(out.drain().count(), 1);
    }

    #[test]
    fn a_failure_that_quotes_a_huge_request_still_fits_a_message() {
        let mut out = MasterOutbox::default();
        let to = Caller { connection: ConnectionId(1), request: RequestId(1) };
        let line = "é".repeat(MESSAGE_SIZE_MAX as usize);
        out.reply(to, Err(Failure::refused(ErrorCode::Invalid, line)));
        let Some(MasterEffect::Env(Effect::Reply { answer: Err(failure), .. })) =
            out.drain().next()
        else {
            panic!("a failure")
        };
        assert!(failure.to_bytes().len() < 20_000);
    }
}
