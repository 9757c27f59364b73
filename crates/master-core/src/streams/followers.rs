//! Readers that follow a stream: they wait here until it is longer.

use crate::parked_followers::ParkedFollowers;
use crate::step::Step;
use crate::stream_extents::stream;
use crate::view::View;
use cairn_env::Caller;
use cairn_protocol::{ErrorCode, Failure, Response, WaitLength, WaitLengthAnswer};
use cairn_types::EntryId;

/// All who wait.
#[derive(Debug, Default)]
pub(super) struct Followers(ParkedFollowers);

impl Followers {
    /// Somebody wants a file to be longer; the answer, where that is so already.
    pub(super) fn on_wish(
        &mut self,
        view: &View<'_>,
        from: Caller,
        wish: &WaitLength,
    ) -> Result<Option<Response>, Failure> {
        let length = stream(view, wish.file)?.length;
        if length > wish.length || wish.patience_ms == 0 {
            let log = view.state.applied();
            return Ok(Some(Response::WaitLength(WaitLengthAnswer { length, log })));
        }
        self.0.park(view.now.time, from, wish).map(|()| None)
    }

    /// A file may be longer: whoever waited for that is told.
    pub(super) fn on_longer(&mut self, step: &mut Step<'_>, file: EntryId) {
        let length = step.state.entry(file).map_or(0, |entry| entry.length);
        let log = step.state.applied();
        for follower in self.0.take_longer(file, length) {
            let answer = Response::WaitLength(WaitLengthAnswer { length, log });
            step.out.reply(follower, Ok(answer));
        }
    }

    /// Time has passed: those whose time is over are told how long the file is.
    pub(super) fn on_tick(&mut self, step: &mut Step<'_>) {
        let log = step.state.applied();
        for (file, follower) in self.0.take_over(step.now.time) {
            let answer = step
                .state
                .entry(file)
                .map(|entry| Response::WaitLength(WaitLengthAnswer { length: entry.length, log }));
            let gone = || Failure::refused(ErrorCode::NotFound, "the file is gone");
            step.out.reply(follower, answer.ok_or_else(gone));
        }
    }
}
