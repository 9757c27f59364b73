//! The lines that one client's pushes stand in: one for each chain of servers, each with a window
//! of its own (`push_window.rs`).
//!
//! ```text
//!   push ──► its chain's line ──► window: now, or in its turn
//!                  ▲                 │ ended in time: what it took
//!                  └── a new line ◄──┘ begins with what was learned last
//! ```
//! What is stuck on one chain says nothing of another. With one window for all, a client that wrote
//! to one file through a link that was cut pushed nothing to any other for as long as that lasted
//! (stream seed 585).
//!
//! - PL1: whoever is stuck keeps nobody waiting but those of the same chain, and for the same
//!   servers in the same order.
//! - PL2: a line that nobody has used yet begins with what pushes took lately where they ended in
//!   time, on whatever line that was: the link that all of them share may be the slow one.

use crate::ids::TaskId;
use crate::tasks::push_window::PushWindow;
use cairn_types::{ReplicaAt, ServerId, Time};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

/// Lines that are remembered though nothing stands in them.
const LINES_MAX: usize = 256;

const STANDS: &str = "no line is forgotten while one stands in it";

/// The servers of a chain, in its order.
pub(crate) type Line = Arc<[ServerId]>;

/// The line of a chain.
pub(crate) fn line_of(chain: &[ReplicaAt]) -> Line {
    chain.iter().map(|replica| replica.server).collect()
}

/// What a client's pushes share.
#[derive(Debug, Default)]
pub(crate) struct PushLines {
    windows: BTreeMap<Line, PushWindow>,
    /// Where each task's data stands, on its way or waiting.
    of_task: BTreeMap<TaskId, Line>,
    /// Lines in which somebody waits whose turn may have come.
    changed: BTreeSet<Line>,
    /// What pushes took lately that ended in time (PL2).
    lasting: Option<Duration>,
}

impl PushLines {
    /// Whether so many bytes may go down a line now; if not, the task has its turn later. What it
    /// pushed before is over.
    pub(crate) fn begin(&mut self, now: Time, task: TaskId, (line, size): (Line, u64)) -> bool {
        self.leave(task);
        if !self.windows.contains_key(&line) && self.windows.len() >= LINES_MAX {
            self.windows.retain(|_, window| !window.is_empty());
        }
        let lasting = self.lasting;
        let window = self.windows.entry(line.clone()).or_insert_with(|| PushWindow::new(lasting));
        self.of_task.insert(task, line);
        window.begin(now, task, size)
    }

    /// The next that waited and may go now.
    pub(crate) fn next_turn(&mut self, now: Time) -> Option<TaskId> {
        while let Some(line) = self.changed.first() {
            match self.windows.get_mut(line).and_then(|window| window.next_turn(now)) {
                Some(task) => return Some(task),
                None => self.changed.pop_first(),
            };
        }
        None
    }

    /// How long a task's push is to be waited for, where it would be `usual` on a fast line.
    pub(crate) fn patience(&self, task: TaskId, usual: Duration) -> Duration {
        let line = self.of_task.get(&task).expect("who pushes stands in a line");
        self.windows.get(line).expect(STANDS).patience(usual)
    }

    /// A push ended in time, for which `usual` would be waited on a fast line.
    pub(crate) fn in_time(&mut self, now: Time, task: TaskId, usual: Duration) {
        let Some(line) = self.of_task.get(&task) else { return };
        let window = self.windows.get_mut(line).expect(STANDS);
        window.in_time(now, task, usual);
        self.lasting = Some(window.lasting());
        if window.has_waiting() {
            self.changed.insert(line.clone());
        }
    }

    /// The same of a push that brought an order along.
    pub(crate) fn ordered(&mut self, now: Time, task: TaskId, usual: Duration) {
        let Some(line) = self.of_task.get(&task) else { return };
        let window = self.windows.get_mut(line).expect(STANDS);
        window.ordered(now, task, usual);
        if window.has_waiting() {
            self.changed.insert(line.clone());
        }
    }

    /// A push was not answered in time, for which `usual` would be waited on a fast line: half of
    /// what is on its way may go then, so nobody's turn has come before some of it leaves.
    pub(crate) fn late(&mut self, now: Time, task: TaskId, usual: Duration) {
        // It may have left when the answer comes: then it says nothing of who is on the way now.
        let Some(line) = self.of_task.get(&task) else { return };
        self.windows.get_mut(line).expect(STANDS).late(now, task, usual);
    }

    /// The task's data is not on its way any more, nor waits for its turn.
    pub(crate) fn leave(&mut self, task: TaskId) {
        let Some(line) = self.of_task.remove(&task) else { return };
        let window = self.windows.get_mut(&line).expect(STANDS);
        window.leave(task);
        if window.has_waiting() {
            self.changed.insert(line);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::{LINES_MAX, Line, PushLines};
    use crate::ids::TaskId;
    use cairn_types::{ServerId, Time};
    use std::time::Duration;

    const USUAL: Duration = Duration::from_secs(1);

    fn at(millis: u64) -> Time {
        Time::default() + Duration::from_millis(millis)
    }

    fn line(servers: &[u64]) -> Line {
        servers.iter().map(|server| ServerId::new(*server)).collect()
    }

    #[test]
    fn what_is_stuck_in_one_line_keeps_no_other_waiting() {
        let (mut lines, cut, sound) = (PushLines::default(), line(&[1, 3, 2]), line(&[1, 3, 4]));
        assert!(lines.begin(at(1), TaskId(1), (cut.clone(), 10)));
        lines.late(at(5_000), TaskId(1), USUAL);
        assert!(lines.begin(at(5_000), TaskId(1), (cut.clone(), 10)), "again: one always goes");
        assert!(!lines.begin(at(5_001), TaskId(2), (cut.clone(), 10)), "the same line");
        assert!(lines.begin(at(5_001), TaskId(3), (sound.clone(), 10)), "another one (PL1)");
        assert_eq!(lines.next_turn(at(5_002)), None);
        lines.leave(TaskId(1));
        assert_eq!(lines.next_turn(at(5_002)), Some(TaskId(2)));
        assert_eq!(lines.next_turn(at(5_002)), None);
        assert!(lines.patience(TaskId(2), USUAL) > lines.patience(TaskId(3), USUAL));
    }

    #[test]
    fn a_new_line_begins_with_what_was_learned_on_another() {
        let (mut lines, first, second) = (PushLines::default(), line(&[1]), line(&[2]));
        lines.begin(at(1), TaskId(1), (first.clone(), 10));
        let unknown = lines.patience(TaskId(1), USUAL);
        lines.in_time(at(2_001), TaskId(1), USUAL);
        lines.begin(at(2_002), TaskId(2), (second.clone(), 10));
        assert_eq!(lines.patience(TaskId(2), USUAL), USUAL + Duration::from_secs(6), "PL2");
        assert_ne!(lines.patience(TaskId(2), USUAL), unknown);
        lines.late(at(9_000), TaskId(2), USUAL);
        lines.begin(at(9_001), TaskId(3), (line(&[3]), 10));
        assert_eq!(lines.patience(TaskId(3), USUAL), USUAL + Duration::from_secs(6));
    }

    #[test]
    fn lines_that_nothing_stands_in_are_forgotten_when_there_are_many() {
        let mut lines = PushLines::default();
        for id in 0..2 * LINES_MAX as u64 {
            assert!(lines.begin(at(1), TaskId(id), (line(&[id]), 10)));
            if id > 0 {
                lines.leave(TaskId(id));
            }
        }
        assert!(lines.windows.len() <= LINES_MAX);
        assert!(lines.windows.contains_key(&line(&[0])), "its data is on its way");
        assert!(lines.changed.is_empty(), "nobody waits: no line is looked at");
        assert_eq!(lines.next_turn(at(2)), None);
    }
}
