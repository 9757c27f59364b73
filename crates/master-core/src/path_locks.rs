//! Path locks: which namespace operations may be on their way together (§4.1, R35).
//!
//! ```text
//!   create /a/x   R(/)  R(/a)  W(/a/x)  ─┐ run together: both only read /a
//!   create /a/y   R(/)  R(/a)  W(/a/y)  ─┘
//!   mkdir -p /a   R(/)  R(/a)            ─ /a is there: runs beside both
//!   delete /a     R(/)  W(/a)           ◄─ waits for all, and what comes later waits for it
//! ```
//! All or nothing, in order of arrival: an operation runs once no earlier one that is still here
//! conflicts with it. Held and waiting locks therefore stand in the same queues.
//!
//! - PL1: of two that conflict, the one that came first runs first, to its end.
//! - PL2: the earliest operation that is here runs, so none waits for ever.
//! - PL3: a path that nobody locks takes no memory.
//! - PL4: whoever leaves looks only at those that may have waited for it: thousands may run, and
//!   wait, below one directory.
//!
//! Knows names only; what they stand for is looked up when the locks are held.

use cairn_types::CellPath;
use cairn_types::planted::{Rule, broken};
use std::collections::{BTreeMap, BTreeSet, VecDeque};

/// An operation's place in the order of arrival.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct Ticket(u64);

/// How a path is locked.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Mode {
    Read,
    Write,
}

/// The locks of one operation: some paths, and read on everything above them. A path that is locked
/// in two ways is locked in the stronger one.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct LockSet {
    /// One path or two.
    locked: Vec<(CellPath, Mode)>,
}

impl LockSet {
    /// Write on `path`, read on everything above it.
    #[must_use]
    pub(crate) fn write(self, path: &CellPath) -> Self {
        self.with(path, Mode::Write)
    }

    /// Read on `path` and everything above it.
    #[must_use]
    pub(crate) fn read(self, path: &CellPath) -> Self {
        self.with(path, Mode::Read)
    }

    /// Whether a path is written, or one above it.
    pub(crate) fn excludes_others_from(&self, path: &CellPath) -> bool {
        let above =
            |(locked, mode): &(CellPath, Mode)| *mode == Mode::Write && path.is_within(locked);
        self.locked.iter().any(above)
    }

    fn with(mut self, path: &CellPath, mode: Mode) -> Self {
        self.locked.push((path.clone(), mode));
        self
    }

    /// Each path that is locked, once, and how.
    fn paths(&self) -> impl Iterator<Item = (&str, Mode)> {
        self.locked.iter().enumerate().flat_map(|(index, (locked, _))| {
            let before = &self.locked[..index];
            let news = move |path: &&str| !before.iter().any(|(other, _)| other.passes(path));
            way_down(locked).filter(news).map(|path| (path, self.mode(path)))
        })
    }

    fn mode(&self, path: &str) -> Mode {
        let at = self.locked.iter().filter(|(locked, _)| locked.as_str() == path);
        at.map(|(_, mode)| *mode).max().unwrap_or(Mode::Read)
    }
}

/// The paths from the root down to this one.
fn way_down(path: &CellPath) -> impl Iterator<Item = &str> {
    let text = path.as_str();
    let between = text.match_indices('/').skip(1).map(|(at, _)| &text[..at]);
    std::iter::once("/").chain(between).chain((!path.is_root()).then_some(text))
}

/// Who locks one path, in order of arrival.
#[derive(Debug, Default)]
struct Queue {
    all: Tickets,
    writers: Tickets,
    /// Of those, who does not run yet.
    waiting: Tickets,
}

impl Queue {
    /// The last in the order of arrival joins.
    fn join(&mut self, ticket: Ticket, mode: Mode) {
        assert!(self.all.back().is_none_or(|last| *last < ticket), "in order of arrival (PL1)");
        self.all.push_back(ticket);
        if mode == Mode::Write {
            self.writers.push_back(ticket);
        }
    }

    fn leave(&mut self, ticket: Ticket) {
        let has_joined = remove(&mut self.all, ticket);
        assert!(has_joined, "who leaves has joined");
        remove(&mut self.writers, ticket);
        assert!(self.writers.len() <= self.all.len(), "a writer is one of all");
    }

    /// Who may run now that somebody has left who locked the path like that. Only a writer waits
    /// for readers, until it is the first of all; whoever stands behind a writer still waits for
    /// it.
    fn candidates(&self, left: Mode) -> impl Iterator<Item = Ticket> {
        let first_writer = self.writers.front().copied();
        let is_first = first_writer.is_some() && first_writer == self.all.front().copied();
        let from = match left {
            Mode::Read => first_writer.filter(|_| is_first).unwrap_or(Ticket(u64::MAX)),
            Mode::Write => Ticket::default(),
        };
        let behind = self.waiting.range(self.waiting.partition_point(|it| *it < from)..).copied();
        behind.take_while(move |it| first_writer.is_none_or(|writer| *it <= writer))
    }
}

/// Whether it stood there.
fn remove(tickets: &mut Tickets, ticket: Ticket) -> bool {
    let found = tickets.binary_search(&ticket);
    found.is_ok_and(|index| tickets.remove(index).is_some())
}

/// Ascending. Most leave near the front.
type Tickets = VecDeque<Ticket>;

#[derive(Debug)]
struct LockedOperation {
    locks: LockSet,
    runs: bool,
}

/// All path locks.
#[derive(Debug, Default)]
pub(crate) struct PathLocks {
    last: u64,
    operations: BTreeMap<Ticket, LockedOperation>,
    queues: BTreeMap<String, Queue>,
    /// How often somebody who waits was looked at (PL4).
    #[cfg(test)]
    looked_at: u64,
}

impl PathLocks {
    /// Asks for locks; true where the operation may run at once. Otherwise a later
    /// [`release`](Self::release) says when.
    pub(crate) fn request(&mut self, locks: LockSet) -> (Ticket, bool) {
        self.last += 1;
        let ticket = Ticket(self.last);
        // R35 broken: nobody waits for anybody.
        let locks = if broken(Rule::R35) { LockSet::default() } else { locks };
        for (path, mode) in locks.paths() {
            if let Some(queue) = self.queues.get_mut(path) {
                queue.join(ticket, mode);
            } else {
                let mut queue = Queue::default();
                queue.join(ticket, mode);
                self.queues.insert(path.to_owned(), queue);
            }
        }
        let runs = self.may_run(ticket, &locks);
        if !runs {
            self.note_waiting(&locks, |waiting| waiting.push_back(ticket));
        }
        self.operations.insert(ticket, LockedOperation { locks, runs });
        (ticket, runs)
    }

    /// Gives locks back; adds those that may run now to `ready`, in order of arrival.
    pub(crate) fn release(&mut self, ticket: Ticket, ready: &mut Vec<Ticket>) {
        let Some(gone) = self.operations.remove(&ticket) else {
            unreachable!("locks are given back once");
        };
        if !gone.runs {
            self.note_waiting(&gone.locks, |waiting| _ = remove(waiting, ticket));
        }
        let mut candidates = BTreeSet::new();
        for (path, mode) in gone.locks.paths() {
            let Some(queue) = self.queues.get_mut(path) else {
                unreachable!("whoever locks a path stands in its queue");
            };
            queue.leave(ticket);
            if queue.all.is_empty() {
                self.queues.remove(path);
            } else {
                candidates.extend(queue.candidates(mode));
            }
        }
        #[cfg(test)]
        {
            self.looked_at += candidates.len() as u64;
        }
        for candidate in candidates {
            self.start_if_ready(candidate, ready);
        }
    }

    fn start_if_ready(&mut self, ticket: Ticket, ready: &mut Vec<Ticket>) {
        let Some(operation) = self.operations.get(&ticket) else {
            unreachable!("whoever stands in a queue is here");
        };
        assert!(!operation.runs, "who waits in a queue does not run");
        if !self.may_run(ticket, &operation.locks) {
            return;
        }
        let locks = operation.locks.clone();
        self.note_waiting(&locks, |waiting| _ = remove(waiting, ticket));
        self.operations.insert(ticket, LockedOperation { locks, runs: true });
        ready.push(ticket);
    }

    /// Whether no earlier operation conflicts (PL1).
    fn may_run(&self, ticket: Ticket, locks: &LockSet) -> bool {
        locks.paths().all(|(path, mode)| {
            let Some(queue) = self.queues.get(path) else {
                unreachable!("whoever asks for a path has joined its queue");
            };
            let rivals = if mode == Mode::Write { &queue.all } else { &queue.writers };
            rivals.front().is_none_or(|first| *first >= ticket)
        })
    }

    fn note_waiting(&mut self, locks: &LockSet, note: impl Fn(&mut Tickets)) {
        for (path, _) in locks.paths() {
            // The last one to leave takes the queue along (PL3).
            if let Some(queue) = self.queues.get_mut(path) {
                note(&mut queue.waiting);
                assert!(queue.waiting.len() <= queue.all.len(), "who waits stands in the queue");
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::{LockSet, Mode, PathLocks, Ticket};
    use cairn_types::CellPath;

    fn locks(paths: &[&str]) -> LockSet {
        paths.iter().fold(LockSet::default(), |set, path| {
            set.write(&CellPath::parse(path).expect("a path"))
        })
    }

    #[test]
    fn each_path_down_to_the_written_ones_is_locked_once() {
        let set = locks(&["/a/b", "/a", "/ab/c"]);
        let paths: Vec<(&str, Mode)> = set.paths().collect();
        let (read, write) = (Mode::Read, Mode::Write);
        let all = [("/", read), ("/a", write), ("/a/b", write), ("/ab", read), ("/ab/c", write)];
        assert_eq!(paths, all);
        assert_eq!(locks(&["/"]).paths().collect::<Vec<_>>(), [("/", write)]);
    }

    #[test]
    fn two_creations_in_one_directory_run_together() {
        let mut held = PathLocks::default();
        assert!(held.request(locks(&["/a/x"])).1);
        assert!(held.request(locks(&["/a/y"])).1);
    }

    #[test]
    fn an_operation_does_not_wait_for_its_own_locks() {
        let mut held = PathLocks::default();
        assert!(held.request(locks(&["/a", "/a/b"])).1, "read and written: written");
        assert!(!held.request(locks(&["/a/c"])).1);
    }

    #[test]
    fn a_latecomer_does_not_overtake_whoever_waits_for_the_same() {
        let mut held = PathLocks::default();
        let (create, _) = held.request(locks(&["/a/x"]));
        let (delete, runs) = held.request(locks(&["/a"]));
        assert!(!runs);
        let (late, runs) = held.request(locks(&["/a/y"]));
        assert!(!runs, "it would starve the deletion");
        let mut ready = Vec::new();
        held.release(create, &mut ready);
        assert_eq!(ready, [delete]);
        ready.clear();
        held.release(delete, &mut ready);
        assert_eq!(ready, [late]);
        held.release(late, &mut ready);
        assert!(held.queues.is_empty() && held.operations.is_empty());
    }

    #[test]
    fn who_needs_but_that_a_directory_stays_runs_beside_what_is_below_it() {
        let path = |text| CellPath::parse(text).expect("a path");
        let stays = |text| LockSet::default().read(&path(text));
        let mut held = PathLocks::default();
        let (still, _) = held.request(locks(&["/a/b"]));
        assert!(held.request(stays("/a")).1 && held.request(stays("/a")).1);
        assert!(held.request(locks(&["/a/c"])).1, "nobody waits behind one of them");
        assert!(!held.request(stays("/a/b")).1, "/a/b stands still");
        let (gone, runs) = held.request(locks(&["/a"]));
        assert!(!runs && !held.request(stays("/a")).1);
        let mut ready = Vec::new();
        held.release(still, &mut ready);
        assert_eq!(ready.len(), 1);
        assert!(!ready.contains(&gone), "others hold what is below it");
    }

    #[test]
    fn whoever_leaves_looks_at_none_but_those_that_may_have_waited_for_it() {
        let (mut held, mut ready) = (PathLocks::default(), Vec::new());
        let create =
            |held: &mut PathLocks, name: usize| held.request(locks(&[&format!("/a/{name}")])).0;
        let before: Vec<Ticket> = (0..500).map(|name| create(&mut held, name)).collect();
        let (moved, runs) = held.request(locks(&["/a", "/b"]));
        assert!(!runs);
        let behind: Vec<Ticket> = (500..1000).map(|name| create(&mut held, name)).collect();
        for ticket in before {
            held.release(ticket, &mut ready);
        }
        assert_eq!((ready.as_slice(), held.looked_at), (&[moved][..], 1));
        held.release(moved, &mut ready);
        assert_eq!((ready.len(), held.looked_at), (501, 501), "PL4");
        for ticket in behind {
            held.release(ticket, &mut ready);
        }
        assert_eq!(held.looked_at, 501);
        assert!(held.queues.is_empty(), "PL3");
    }

    /// Takes every way in which arrivals and endings can follow each other. A trail is replayed
    /// from the start: 0 is an arrival, n the end of the n-th running operation.
    fn explore(wishes: &[LockSet], done: &mut u64, trail: &[usize]) {
        let mut held = PathLocks::default();
        let mut arrived: Vec<Ticket> = Vec::new();
        let mut running: Vec<Ticket> = Vec::new();
        let mut ended: Vec<Ticket> = Vec::new();
        for step in trail {
            if *step == 0 {
                let (ticket, runs) = held.request(wishes[arrived.len()].clone());
                arrived.push(ticket);
                running.extend(runs.then_some(ticket));
            } else {
                let gone = running.remove(step - 1);
                held.release(gone, &mut running);
                ended.push(gone);
            }
        }
        let wish = |ticket| &wishes[arrived.iter().position(|t| *t == ticket).expect("arrived")];
        let here: Vec<Ticket> = arrived.iter().filter(|t| !ended.contains(t)).copied().collect();
        for (at, one) in here.iter().enumerate() {
            let waits = here[..at].iter().any(|earlier| conflict(wish(*earlier), wish(*one)));
            assert_eq!(running.contains(one), !waits, "PL1 and no more: {trail:?}");
        }
        let all = arrived.len() == wishes.len();
        if trail.len() == 2 * wishes.len() {
            assert!(held.queues.is_empty(), "PL3");
            *done += 1;
            return;
        }
        assert!(!all || !running.is_empty(), "PL2: {trail:?}");
        for step in usize::from(all)..=running.len() {
            explore(wishes, done, &[trail, &[step]].concat());
        }
    }

    /// Whether one writes what the other one locks.
    fn conflict(one: &LockSet, other: &LockSet) -> bool {
        one.paths().any(|(path, mode)| {
            other.paths().any(|(other, theirs)| path == other && mode.max(theirs) == Mode::Write)
        })
    }

    /// Every operation that writes one or two of these paths, and some that read one.
    fn operations_on(paths: &[&str]) -> Vec<LockSet> {
        let pairs = paths
            .iter()
            .enumerate()
            .flat_map(|(at, one)| paths[at..].iter().map(move |other| locks(&[*one, *other])));
        let path = |path: &&str| CellPath::parse(path).expect("a path");
        let reads = paths[..2].iter().map(|it| LockSet::default().read(&path(it)));
        pairs.chain(reads).collect()
    }

    /// Takes all sequences of `size` of these operations.
    fn explore_all(operations: &[LockSet], size: usize) -> u64 {
        let mut done = 0;
        for number in 0..operations.len().pow(u32::try_from(size).expect("small")) {
            let digit = |at| number / operations.len().pow(at) % operations.len();
            let wishes =
                (0..size).map(|at| operations[digit(u32::try_from(at).expect("small"))].clone());
            explore(&wishes.collect::<Vec<_>>(), &mut done, &[]);
        }
        done
    }

    #[test]
    fn no_order_of_arrivals_and_endings_deadlocks_or_lets_two_rivals_run() {
        // A directory, names in it, another directory and a name in that: creations, deletions,
        // renames within, across, upwards and of a directory over what is below it.
        let done = explore_all(&operations_on(&["/a", "/a/x", "/a/y", "/b", "/b/z"]), 3);
        assert!(done >= 17_u64.pow(3), "only {done} ways were taken");
        // One more of them, where they meet in one directory.
        let done = explore_all(&operations_on(&["/a", "/a/x", "/a/y"]), 4);
        assert!(done >= 8_u64.pow(4), "only {done} ways were taken");
    }
}
