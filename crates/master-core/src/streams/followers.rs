//! Readers that follow a stream: they wait here until it is longer.
//!
//! - FW1: who waits costs nothing until the file grows, or his time is over.

use crate::step::Step;
use crate::view::View;
use cairn_env::Caller;
use cairn_protocol::{ErrorCode, Failure, Response, WaitLength, WaitLengthAnswer};
use cairn_types::{EntryId, Time};
use std::collections::BTreeMap;
use std::time::Duration;

/// Nobody waits longer.
const PATIENCE_MAX: Duration = Duration::from_secs(60);
/// So many wait at once.
const FOLLOWERS_MAX: usize = 100_000;

/// One who waits.
#[derive(Clone, Copy, Debug)]
struct Follower {
    from: Caller,
    length: u64,
    until: Time,
}

/// All who wait, by file.
#[derive(Debug, Default)]
pub(super) struct Followers {
    by_file: BTreeMap<EntryId, Vec<Follower>>,
    count: usize,
}

impl Followers {
    /// Somebody wants a file to be longer; the answer, where that is so already.
    pub(super) fn on_wish(
        &mut self,
        view: &View<'_>,
        from: Caller,
        wish: &WaitLength,
    ) -> Result<Option<Response>, Failure> {
        let length = super::listing::stream(view, wish.file)?.length;
        if length > wish.length || wish.patience_ms == 0 {
            let log = view.state.applied();
            return Ok(Some(Response::WaitLength(WaitLengthAnswer { length, log })));
        }
        if self.count >= FOLLOWERS_MAX {
            let line = "too many followers wait at the master; try again";
            return Err(Failure::not_done(ErrorCode::Busy, line));
        }
        let patience = Duration::from_millis(wish.patience_ms).min(PATIENCE_MAX);
        let until = view.now.time + patience;
        let follower = Follower { from, length: wish.length, until };
        self.by_file.entry(wish.file).or_default().push(follower);
        self.count += 1;
        Ok(None)
    }

    /// A file may be longer: whoever waited for that is told.
    pub(super) fn on_longer(&mut self, step: &mut Step<'_>, file: EntryId) {
        let Some(waiting) = self.by_file.get_mut(&file) else { return };
        let length = step.state.entry(file).map_or(0, |entry| entry.length);
        let log = step.state.applied();
        for follower in waiting.extract_if(.., |it| it.length < length) {
            let answer = Response::WaitLength(WaitLengthAnswer { length, log });
            step.out.reply(follower.from, Ok(answer));
            assert!(self.count > 0, "who is told has waited");
            self.count -= 1;
        }
        if waiting.is_empty() {
            self.by_file.remove(&file);
        }
    }

    /// Time has passed: those whose time is over are told how long the file is.
    pub(super) fn on_tick(&mut self, step: &mut Step<'_>) {
        let log = step.state.applied();
        for (file, waiting) in &mut self.by_file {
            let over = waiting.extract_if(.., |it| it.until <= step.now.time);
            for follower in over {
                let entry = step.state.entry(*file);
                let answer = entry.map(|entry| {
                    Response::WaitLength(WaitLengthAnswer { length: entry.length, log })
                });
                let gone = || Failure::refused(ErrorCode::NotFound, "the file is gone");
                step.out.reply(follower.from, answer.ok_or_else(gone));
                assert!(self.count > 0, "who is told has waited");
                self.count -= 1;
            }
        }
        self.by_file.retain(|_, waiting| !waiting.is_empty());
    }
}
