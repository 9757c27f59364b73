//! People who take a backup: each waits for a checkpoint of all that this member had applied when
//! he asked. Its files are then read piece by piece.

use cairn_env::{Caller, DiskError, Effect, Payload};
use cairn_master_core::LogJob;
use cairn_protocol::{BackUpAnswer, ErrorCode, Failure, Response};
use cairn_types::LogIndex;

/// People who may wait at once: one checkpoint serves all of them.
const WAITS_MAX: usize = 16;

/// Who waits.
#[derive(Debug)]
pub(crate) struct Backups {
    /// The last checkpoint that is durable.
    made: LogIndex,
    /// Who waits, for a checkpoint as of which record at least.
    waits: Vec<(Caller, LogIndex)>,
}

impl Backups {
    pub(crate) fn new(made: LogIndex) -> Self {
        Self { made, waits: Vec::new() }
    }

    /// Somebody takes a backup: the answer, where there is one already.
    pub(crate) fn begin(&mut self, from: Caller, applied: LogIndex) -> Option<Effect<LogJob>> {
        if applied == LogIndex::default() {
            let line = "this master has nothing to back up yet; ask another one of its group";
            return Some(reply(from, Err(Failure::refused(ErrorCode::NotFound, line))));
        } else if applied == self.made {
            return Some(reply(from, Ok(self.made)));
        } else if self.waits.len() >= WAITS_MAX {
            let line = "too many backups are taken at once; try again";
            return Some(reply(from, Err(Failure::not_done(ErrorCode::Busy, line))));
        }
        self.waits.push((from, applied));
        None
    }

    /// Whether somebody waits for a checkpoint.
    pub(crate) fn is_waited_for(&self) -> bool {
        !self.waits.is_empty()
    }

    /// A checkpoint is durable: the answers for whom it is enough.
    pub(crate) fn made(&mut self, index: LogIndex) -> Vec<Effect<LogJob>> {
        self.made = index;
        let enough = self.waits.extract_if(.., |(_, applied)| *applied <= index);
        enough.map(|(from, _)| reply(from, Ok(index))).collect()
    }

    /// None can be made now: that is the answer.
    pub(crate) fn failed(&mut self, why: &DiskError) -> Vec<Effect<LogJob>> {
        let line = format!("this master's disk makes no checkpoint: {why}");
        let failure = Failure::refused(ErrorCode::Io, line);
        self.waits.drain(..).map(|(from, _)| reply(from, Err(failure.clone()))).collect()
    }
}

fn reply(to: Caller, index: Result<LogIndex, Failure>) -> Effect<LogJob> {
    let answer = index.map(|index| Response::BackUp(BackUpAnswer { index }));
    Effect::Reply { to, answer, payload: Payload::default() }
}

#[cfg(test)]
mod tests {
    use super::{Backups, WAITS_MAX};
    use cairn_env::{Caller, DiskError, Effect};
    use cairn_master_core::LogJob;
    use cairn_protocol::{BackUpAnswer, ErrorCode, Response};
    use cairn_types::LogIndex;

    fn answer(effect: Effect<LogJob>) -> Result<u64, ErrorCode> {
        let Effect::Reply { answer, .. } = effect else { panic!("not an answer: {effect:?}") };
        match answer {
            Ok(Response::BackUp(BackUpAnswer { index })) => Ok(index.get()),
            other => Err(other.expect_err("of a backup").code),
        }
    }

    #[test]
    fn each_is_answered_by_the_first_checkpoint_that_has_what_was_applied_when_he_asked() {
        let at = LogIndex::new;
        let mut backups = Backups::new(at(5));
        let now = backups.begin(Caller::default(), at(5)).map(answer);
        assert_eq!(now, Some(Ok(5)), "it is there already");
        assert!(backups.begin(Caller::default(), at(7)).is_none());
        assert!(backups.begin(Caller::default(), at(9)).is_none());
        let told = |told: Vec<_>| told.into_iter().map(answer).collect::<Vec<_>>();
        assert_eq!(told(backups.made(at(6))), []);
        assert_eq!(told(backups.made(at(8))), [Ok(8)]);
        assert!(backups.is_waited_for());
        assert_eq!(told(backups.failed(&DiskError::NoSpace)), [Err(ErrorCode::Io)]);
        assert!(!backups.is_waited_for());
    }

    #[test]
    fn nothing_to_back_up_and_more_than_may_wait_are_refused() {
        let mut backups = Backups::new(LogIndex::default());
        let nothing = backups.begin(Caller::default(), LogIndex::default()).map(answer);
        assert_eq!(nothing, Some(Err(ErrorCode::NotFound)));
        for _ in 0..WAITS_MAX {
            assert!(backups.begin(Caller::default(), LogIndex::new(1)).is_none());
        }
        let refused: Option<Result<u64, ErrorCode>> =
            backups.begin(Caller::default(), LogIndex::new(1)).map(answer);
        assert_eq!(refused, Some(Err(ErrorCode::Busy)));
    }
}
