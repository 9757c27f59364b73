//! How much data of one client may be on its way down one chain of servers at once: more while
//! pushes end soon, less after one that did not end in time.
//!
//! ```text
//!   may it go? ─yes─► on its way ──► ended soon: more may be on its way
//!      │ no              ▲     └───► late: half as much
//!      └─► waits its turn┘
//! ```
//! Where several clients push through one slow link, what each has on its way stands in one line.
//! If each push that stood there for too long is sent again, the line grows with every one, and at
//! last nothing arrives in time: all that the link carries then is for nobody.
//!
//! - PW1: one mutation's data may always be on its way, however little the limit.
//! - PW2: a limit is halved once for all that were sent before it was halved last: they stood in
//!   the same line.
//! - PW3: whoever waits has its turn in the order in which it came.
//! - PW4: a push is waited for several times as long as pushes took lately, and twice as long as
//!   before after each halving: who stands in a slow line learns how slow it is from those before
//!   it, and not by being sent twice. Who knows nothing yet takes the line for a slow one.
//! - PW5: more may go only after a push that took a small part of its time: by as much as it was,
//!   until one is late, and by a little then. Who began with all that it has would learn how slow
//!   the line is by sending all of it twice.

use crate::ids::TaskId;
use cairn_types::Time;
use std::collections::{BTreeMap, VecDeque};
use std::time::Duration;

/// Bytes on their way at once, at first and at the most.
const LIMIT_FIRST: u64 = 2 << 20;
const LIMIT_MAX: u64 = 256 << 20;
/// Of the time that a push is waited for on a fast line, this part is soon (PW5).
const SOON_PART: u32 = 2;
/// What pushes are taken to last before one has ended, and at the most, and how many times that
/// they are waited for (PW4).
const LASTING_FIRST: Duration = Duration::from_secs(1);
const LASTING_MAX: Duration = Duration::from_secs(10);
const LASTING_TIMES: u32 = 3;

/// Data on its way.
#[derive(Debug)]
struct OnItsWay {
    size: u64,
    since: Time,
}

/// What a client's pushes down one chain share.
#[derive(Debug)]
pub(crate) struct PushWindow {
    limit: u64,
    /// When it was halved last; not yet, where a push that ends soon doubles what may go (PW5).
    halved: Option<Time>,
    /// What pushes lasted lately: the longest, forgotten by halves (PW4).
    lasting: Duration,
    on_their_way: BTreeMap<TaskId, OnItsWay>,
    /// The sum of them.
    size: u64,
    waiting: VecDeque<(TaskId, u64)>,
}

impl PushWindow {
    /// Nothing is on its way. `lasting`: what pushes took lately, where that is known.
    pub(crate) fn new(lasting: Option<Duration>) -> Self {
        let (on_their_way, waiting) = (BTreeMap::new(), VecDeque::new());
        let (limit, halved, lasting) = (LIMIT_FIRST, None, lasting.unwrap_or(LASTING_FIRST));
        Self { limit, halved, lasting, on_their_way, size: 0, waiting }
    }

    /// Whether nothing is on its way, nor waits.
    pub(crate) fn is_empty(&self) -> bool {
        self.on_their_way.is_empty() && self.waiting.is_empty()
    }

    /// Whether somebody waits for its turn.
    pub(crate) fn has_waiting(&self) -> bool {
        !self.waiting.is_empty()
    }

    /// What pushes took lately.
    pub(crate) fn lasting(&self) -> Duration {
        self.lasting
    }

    /// Whether so many bytes may go now; if not, the task has its turn later.
    pub(crate) fn begin(&mut self, now: Time, task: TaskId, size: u64) -> bool {
        let goes = self.waiting.is_empty() && self.has_room(size);
        if goes {
            self.let_go(now, task, size);
        } else {
            self.waiting.push_back((task, size));
        }
        goes
    }

    /// The next that waited and may go now (PW3).
    pub(crate) fn next_turn(&mut self, now: Time) -> Option<TaskId> {
        let (task, size) = *self.waiting.front()?;
        if !self.has_room(size) {
            return None;
        }
        self.waiting.pop_front();
        self.let_go(now, task, size);
        Some(task)
    }

    fn has_room(&self, size: u64) -> bool {
        self.on_their_way.is_empty() || self.size.saturating_add(size) <= self.limit
    }

    fn let_go(&mut self, since: Time, task: TaskId, size: u64) {
        let other = self.on_their_way.insert(task, OnItsWay { size, since });
        assert!(other.is_none(), "a mutation's data is counted once");
        self.size += size;
    }

    /// How long a push is to be waited for, where it would be `usual` on a fast line (PW4).
    pub(crate) fn patience(&self, usual: Duration) -> Duration {
        usual + self.lasting * LASTING_TIMES
    }

    /// A push ended in time, for which `usual` would be waited on a fast line: once one was late, a
    /// window that is full of such grows by about one of them (PW5).
    pub(crate) fn in_time(&mut self, now: Time, task: TaskId, usual: Duration) {
        let Some(OnItsWay { since, .. }) = self.on_their_way.get(&task) else { return };
        let took = now.since(*since);
        self.ordered(now, task, usual);
        self.lasting = (self.lasting / 2).max(took).min(LASTING_MAX);
    }

    /// The same of a push that brought an order along: how long that took says nothing of how long
    /// pushes last.
    pub(crate) fn ordered(&mut self, now: Time, task: TaskId, usual: Duration) {
        let Some(OnItsWay { size, since }) = self.on_their_way.get(&task) else { return };
        if now.since(*since) * SOON_PART < usual {
            let a_little = size.saturating_mul(*size) / self.limit;
            let more = if self.halved.is_none() { *size } else { a_little.max(1) };
            self.limit = (self.limit + more).min(LIMIT_MAX);
        }
    }

    /// A push was not answered in time, for which `usual` would be waited on a fast line (PW2).
    pub(crate) fn late(&mut self, now: Time, task: TaskId, usual: Duration) {
        let Some(OnItsWay { since, .. }) = self.on_their_way.get(&task) else { return };
        if self.halved.is_none_or(|halved| *since >= halved) {
            (self.limit, self.halved) = ((self.size / 2).max(1), Some(now));
            let twice_as_patient = self.lasting * 2 + usual / LASTING_TIMES;
            self.lasting = twice_as_patient.min(LASTING_MAX);
        }
        assert!((1..=LIMIT_MAX).contains(&self.limit), "a limit lets something go (PW1)");
    }

    /// The task's data is not on its way any more, nor waits for its turn.
    pub(crate) fn leave(&mut self, task: TaskId) {
        match self.on_their_way.remove(&task) {
            Some(gone) => self.size -= gone.size,
            None => self.waiting.retain(|(waiting, _)| *waiting != task),
        }
        assert!(self.size == 0 || !self.on_their_way.is_empty(), "what is nowhere has no size");
    }
}

#[cfg(test)]
mod tests {
    use super::{LASTING_FIRST, LASTING_MAX, LASTING_TIMES, LIMIT_FIRST, LIMIT_MAX, PushWindow};
    use crate::ids::TaskId;
    use cairn_types::Time;
    use std::time::Duration;

    fn at(millis: u64) -> Time {
        Time::default() + Duration::from_millis(millis)
    }

    #[test]
    fn after_a_late_one_half_as_much_goes_at_once_and_the_rest_in_its_turn() {
        let mut window = PushWindow::new(None);
        for id in 1..=8 {
            assert!(window.begin(at(1), TaskId(id), 10), "nothing is late so far");
        }
        let usual = Duration::from_secs(1);
        window.late(at(2), TaskId(1), usual);
        window.late(at(2), TaskId(2), usual);
        assert_eq!(window.limit, 40, "they stood in one line");
        window.leave(TaskId(1));
        assert!(!window.begin(at(2), TaskId(1), 30));
        assert!(!window.begin(at(2), TaskId(9), 1), "in the order in which they came");
        (2..=6).for_each(|id| window.leave(TaskId(id)));
        assert_eq!(window.next_turn(at(3)), None, "20 are on their way");
        window.leave(TaskId(7));
        assert_eq!(window.next_turn(at(3)), Some(TaskId(1)));
        assert_eq!(window.next_turn(at(3)), None);
        window.leave(TaskId(9));
        window.late(at(4), TaskId(1), usual);
        assert_eq!(window.limit, 20);
        window.leave(TaskId(1));
        window.leave(TaskId(8));
        assert!(window.begin(at(5), TaskId(1), 100), "one always goes");
        assert!(!window.begin(at(5), TaskId(2), 1));
    }

    #[test]
    fn while_they_end_in_time_more_may_go_up_to_a_limit() {
        let mut window = PushWindow::new(None);
        window.begin(at(1), TaskId(1), 10);
        window.late(at(2), TaskId(1), Duration::from_millis(1));
        assert_eq!(window.limit, 5);
        let mut before = window.limit;
        for _ in 0..100 {
            window.in_time(at(3), TaskId(1), Duration::from_millis(5));
            assert!(window.limit > before);
            before = window.limit;
        }
        assert!(before >= 40, "{before}");
        window.in_time(at(3), TaskId(1), Duration::from_millis(4));
        assert_eq!(window.limit, before, "PW5: half of its time is not soon");
        window.limit = LIMIT_MAX;
        window.in_time(at(3), TaskId(1), Duration::from_millis(5));
        assert_eq!(window.limit, LIMIT_MAX);
    }

    #[test]
    fn who_begins_finds_out_how_much_may_go_before_anything_is_late() {
        let mut window = PushWindow::new(None);
        let (piece, soon) = (1 << 20, Duration::from_secs(1));
        assert!(window.begin(at(1), TaskId(1), piece) && window.begin(at(1), TaskId(2), piece));
        assert!(!window.begin(at(1), TaskId(3), piece), "not all at once");
        window.in_time(at(100), TaskId(1), soon);
        window.in_time(at(100), TaskId(2), soon);
        assert_eq!(window.limit, 2 * LIMIT_FIRST);
        window.late(at(2000), TaskId(1), soon);
        window.leave(TaskId(2));
        let before = window.limit;
        window.in_time(at(100), TaskId(1), soon);
        assert!(window.limit - before <= piece, "PW5");
    }

    #[test]
    fn a_push_is_waited_for_several_times_as_long_as_pushes_took_lately() {
        let (mut window, usual) = (PushWindow::new(None), Duration::from_secs(1));
        let unknown = usual + LASTING_FIRST * LASTING_TIMES;
        assert_eq!(window.patience(usual), unknown, "nobody knows the line");
        let took = |window: &mut PushWindow, millis: u64| {
            window.begin(at(1), TaskId(1), 10);
            window.in_time(at(1 + millis), TaskId(1), usual);
            window.leave(TaskId(1));
            window.patience(usual)
        };
        assert_eq!(took(&mut window, 2_000), usual + Duration::from_secs(6));
        let waited = [1, 1, 1].map(|millis| took(&mut window, millis).as_millis());
        assert_eq!(waited, [4_000, 2_500, 1_750], "one that ended soon is no reason to forget all");
        let at_last = (0..20).map(|_| took(&mut window, 1)).last();
        assert_eq!(at_last, Some(usual + Duration::from_millis(3)), "a fast line");
        for round in 0..8 {
            let (now, before) = (at(10_000 * (round + 1)), window.patience(usual));
            window.begin(now, TaskId(1), 10);
            window.begin(now, TaskId(2), 10);
            (1..=2).for_each(|id| window.late(now + before, TaskId(id), usual));
            let most = usual + LASTING_MAX * LASTING_TIMES;
            let (after, twice) = (window.patience(usual), (2 * before).min(most));
            assert!(twice.abs_diff(after) < Duration::from_micros(1), "once for all in one line");
            (1..=2).for_each(|id| window.leave(TaskId(id)));
        }
    }
}
