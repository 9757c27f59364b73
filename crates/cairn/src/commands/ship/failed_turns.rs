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
//!   what is appended is refused. Only what was committed counts; that the file cannot be read now,
//!   of which something was appended in vain, says nothing of the cell either.
//!
//! Knows files' keys and the time it is handed. Never sees a file or a cell.

use super::source_cursor::FileKey;
use std::collections::BTreeMap;

/// How long after a first failure the next try is.
pub(super) const PAUSE_MS: u64 = 1_000;
/// The longest time from a failure to the next try.
pub(super) const PAUSE_MAX_MS: u64 = 30_000;

/// What failed of a turn, and how far it came.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct TurnFailure {
    /// The file of this machine cannot be read, or nobody knows how far it is shipped; else the
    /// cell did not answer, or did not take what it was given.
    pub(super) is_of_file: bool,
    /// The producer was opened for it (FT1): what was appended was refused, or may not be there.
    pub(super) is_in_vain: bool,
}

#[derive(Clone, Copy, Debug)]
struct FailedTurn {
    pause_ms: u64,
    again_at_ms: u64,
    is_of_cell: bool,
    /// The cell had been given something, and it is not known that it took it.
    is_in_vain: bool,
}

/// All files that failed, and are not well again.
#[derive(Debug, Default)]
pub(super) struct FailedTurns {
    files: BTreeMap<FileKey, FailedTurn>,
}

impl FailedTurns {
    /// A turn of that file failed.
    pub(super) fn add(&mut self, key: FileKey, failure: TurnFailure, now_ms: u64) {
        let TurnFailure { is_of_file, is_in_vain } = failure;
        let before = self.files.get(&key);
        let pause_ms = match before {
            Some(before) if is_in_vain => (before.pause_ms * 2).min(PAUSE_MAX_MS),
            _ => PAUSE_MS,
        };
        let again_at_ms = now_ms.saturating_add(pause_ms);
        let was_given = before.is_some_and(|it| it.is_of_cell && it.is_in_vain);
        let turn = FailedTurn {
            pause_ms,
            again_at_ms,
            is_of_cell: !is_of_file || was_given,
            is_in_vain: is_in_vain || was_given,
        };
        self.files.insert(key, turn);
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

    const IN_VAIN: TurnFailure = TurnFailure { is_of_file: false, is_in_vain: true };
    const UNOPENED: TurnFailure = TurnFailure { is_of_file: false, is_in_vain: false };
    const UNREADABLE: TurnFailure = TurnFailure { is_of_file: true, is_in_vain: false };

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
        let in_vain = [IN_VAIN; 7];
        let longer = [1_000, 2_000, 4_000, 8_000, 16_000, 30_000, 30_000];
        assert_eq!(pauses(&mut failed, &in_vain), longer);
        assert!(failed.is_due(B, 0), "each file by itself");
        failed.well(A);
        assert_eq!(pauses(&mut failed, &in_vain), longer);
        failed.well(A);
        let of_file = TurnFailure { is_of_file: true, ..IN_VAIN };
        assert_eq!(pauses(&mut failed, &[of_file; 3]), longer[..3], "an opening is one");
    }

    #[test]
    fn a_cell_that_does_not_answer_is_asked_again_every_second() {
        let mut failed = FailedTurns::default();
        assert_eq!(pauses(&mut failed, &[IN_VAIN]), [1_000]);
        assert_eq!(pauses(&mut failed, &[UNOPENED; 3]), [1_000; 3]);
    }

    #[test]
    fn the_cell_is_well_when_every_file_is_that_it_failed_and_those_that_are_left_do_not_count() {
        let mut failed = FailedTurns::default();
        assert!(failed.is_cell_well());
        failed.add(A, IN_VAIN, 0);
        failed.add(B, UNOPENED, 0);
        failed.well(A);
        assert!(!failed.is_cell_well());
        failed.add(A, UNREADABLE, 0);
        failed.keep(|key| key == A);
        assert!(failed.is_cell_well() && !failed.is_due(A, 0), "unreadable here, and of no cell");
        failed.add(A, IN_VAIN, 0);
        failed.add(A, UNREADABLE, 0);
        failed.add(A, UNREADABLE, 0);
        assert!(!failed.is_cell_well(), "nothing was committed since");
        failed.well(A);
        assert!(failed.is_cell_well());
    }
}
