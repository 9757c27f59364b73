//! Streams' way into the core.

use super::MasterCore;
use crate::chunks::Chunks;
use crate::permissions::Asker;
use crate::rules::behind;
use crate::step::Step;
use crate::streams::StreamWork;
use cairn_env::{Caller, Now};
use cairn_protocol::ClientToStreams;

/// Whether a record of the log may come of it.
fn changes_streams(request: &ClientToStreams) -> bool {
    !matches!(
        request,
        ClientToStreams::ListProducers(_)
            | ClientToStreams::ReadExtents(_)
            | ClientToStreams::WaitLength(_)
    )
}

impl MasterCore {
    /// What producers and readers of streams ask.
    pub(super) fn on_streams(&mut self, now: Now, from: Caller, request: ClientToStreams) {
        let view = self.chunks.view(now, &self.state);
        let full = self.log_space.refusal().or_else(|| behind::refusal(&view));
        if let Some(refusal) = full.filter(|_| changes_streams(&request)) {
            return self.out.reply(from, Err(refusal));
        }
        let asker = Asker { state: &self.state, who: self.callers.who(from) };
        if let Err(denied) = asker.check_streams(&request) {
            return self.out.reply(from, Err(denied));
        }
        self.with_streams(now, |streams, step, chunks| {
            streams.on_request(step, chunks, from, request);
        });
    }

    pub(super) fn with_streams(
        &mut self,
        now: Now,
        act: impl FnOnce(&mut StreamWork, &mut Step<'_>, &mut Chunks),
    ) {
        let (state, out) = (&self.state, &mut self.out);
        let (numbers, random) = (&mut self.numbers, &mut self.random);
        let mut step = Step { now, state, numbers, random, out };
        act(&mut self.streams, &mut step, &mut self.chunks);
    }
}
