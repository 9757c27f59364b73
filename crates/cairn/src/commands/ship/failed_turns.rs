//! Files whose turn failed: when each is tried again, and whether the cell takes their lines again.
//!
//! ```text
//!   well ──► failed ── after its pause ──► tried ──► something is committed, or nothing is left to
//!              ▲                             │       be: well
//!              └── in vain: twice the pause ─┘
//! ```
//! - FT1: a try that was in vain though its producer was opened leaves an epoch and a chunk behind
//!   in the cell: the next one waits for twice as long, up to `PAUSE_MAX_MS`. One that came no
//!   further than the opening leaves nothing, and is made again every second.
//! - FT2: that a producer was opened says nothing: under a full quota that goes well each time, and
//!   what is appended is refused. Only what was committed counts.
//!
//! Knows files' keys and the time it is handed. Never sees a file or a cell.

use super::source_cursor::FileKey;
use std::collections::BTreeMap;

/// How long after a first failure the next try is.
pub(super) const PAUSE_MS: u64 = 1_000;
/// The longest time from a failure to the next try.
pub(super) const PAUSE_MAX_MS: u64 = 30_000;

/// How far a turn came that failed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum TurnFailure {
    /// The file of this machine cannot be read.
    OfFile,
    /// The cell did not answer, or opened no producer.
    Unopened,
    /// The producer was open, and what was appended was refused, or may not be there.
    InVain,
}

#[derive(Clone, Copy, Debug)]
struct FailedTurn {
    pause_ms: u64,
    again_at_ms: u64,
    is_of_cell: bool,
}

/// All files that failed, and are not well again.
#[derive(Debug, Default)]
pub(super) struct FailedTurns {
    files: BTreeMap<FileKey, FailedTurn>,
}

impl FailedTurns {
    /// A turn of that file failed.
    pub(super) fn add(&mut self, key: FileKey, failure: TurnFailure, now_ms: u64) {
        let before = self.files.get(&key).map(|it| it.pause_ms);
        let pause_ms = match failure {
            TurnFailure::OfFile | TurnFailure::Unopened => PAUSE_MS,
            TurnFailure::InVain => {
                before.map_or(PAUSE_MS, |pause_ms| (pause_ms * 2).min(PAUSE_MAX_MS))
            }
        };
        let again_at_ms = now_ms.saturating_add(pause_ms);
        let is_of_cell = failure != TurnFailure::OfFile;
        self.files.insert(key, FailedTurn { pause_ms, again_at_ms, is_of_cell });
    }

    /// Whether that file may have its turn.
    pub(super) fn is_due(&self, key: FileKey, now_ms: u64) -> bool {
        self.files.get(&key).is_none_or(|it| it.again_at_ms <= now_ms)
    }

    /// Something of it was committed since, or nothing is left to be (FT2).
    pub(super) fn well(&mut self, key: FileKey) {
        self.files.remove(&key);
    }

    /// Forgets files that are followed no more.
    pub(super) fn keep(&mut self, is_followed: impl Fn(FileKey) -> bool) {
        self.files.retain(|key, _| is_followed(*key));
    }

    /// Whether the cell takes what it is given of every file.
    pub(super) fn is_cell_well(&self) -> bool {
        !self.files.values().any(|it| it.is_of_cell)
    }
}

#[cfg(test)]
mod tests {
    use super::{FailedTurns, FileKey, PAUSE_MAX_MS, TurnFailure};

    const A: FileKey = FileKey { device: 1, inode: 11 };
    const B: FileKey = FileKey { device: 1, inode: 12 };

    /// The pauses between tries that fail like this, one after the other.
    fn pauses(failed: &mut FailedTurns, failures: &[TurnFailure]) -> Vec<u64> {
        let pause = |failure| {
            failed.add(A, failure, 500);
            let mut pauses = (0..=PAUSE_MAX_MS).step_by(500);
            pauses.find(|pause| failed.is_due(A, 500 + pause)).expect("it is tried again")
        };
        failures.iter().copied().map(pause).collect()
    }

    #[test]
    fn what_is_in_vain_is_tried_less_and_less_often_until_something_is_committed() {
        let mut failed = FailedTurns::default();
        assert!(failed.is_due(A, 0), "it has not failed");
        let in_vain = [TurnFailure::InVain; 7];
        let longer = [1_000, 2_000, 4_000, 8_000, 16_000, 30_000, 30_000];
        assert_eq!(pauses(&mut failed, &in_vain), longer);
        assert!(failed.is_due(B, 0), "each file by itself");
        failed.well(A);
        assert_eq!(pauses(&mut failed, &in_vain), longer);
    }

    #[test]
    fn a_cell_that_does_not_answer_is_asked_again_every_second() {
        let mut failed = FailedTurns::default();
        assert_eq!(pauses(&mut failed, &[TurnFailure::InVain]), [1_000]);
        assert_eq!(pauses(&mut failed, &[TurnFailure::Unopened; 3]), [1_000; 3]);
    }

    #[test]
    fn the_cell_is_well_when_every_file_is_that_it_failed_and_those_that_are_left_do_not_count() {
        let mut failed = FailedTurns::default();
        assert!(failed.is_cell_well());
        failed.add(A, TurnFailure::InVain, 0);
        failed.add(B, TurnFailure::Unopened, 0);
        failed.well(A);
        assert!(!failed.is_cell_well());
        failed.add(A, TurnFailure::OfFile, 0);
        failed.keep(|key| key == A);
        assert!(failed.is_cell_well() && !failed.is_due(A, 0), "unreadable here, and of no cell");
    }
}
