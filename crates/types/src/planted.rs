//! Planted bugs: each rule of protocol.md can be broken on purpose, so that the simulator can show
//! that a checker would see it.
//!
//! ```text
//! if planted::broken(Rule::R8) { /* the bug, named after the rule */ }
//! ```
//! Without the feature `planted-bugs`, [`broken`] is a constant `false` and nothing of this is in
//! the program. With it, the set is the simulator's configuration: one per thread, because the
//! whole simulated cell lives in one thread.

crate::code! {
    /// The rules that can be broken on purpose.
    #[derive(Default)]
    pub enum Rule {
        /// Unique numbers.
        #[default]
        R1 = 1,
        /// Terms fence.
        R2 = 2,
        /// What a log does not know is not garbage.
        R3 = 3,
        /// Clocks: the holder counts shorter than the master.
        R4 = 4,
        /// One live incarnation of a server.
        R5 = 5,
        /// The times of R6 in their order.
        R6 = 6,
        /// A raise is durable, and what it leaves behind is refused.
        R7 = 7,
        /// A number that not all took is spent.
        R8 = 8,
        /// A replica above the logged version is as good as one at it.
        R9 = 9,
        /// Creation obeys R7 and R8.
        R10 = 10,
        /// A set is never shrunk below two.
        R11 = 11,
        /// Version and lease are named and compared.
        R12 = 12,
        /// Serial order.
        R13 = 13,
        /// Acknowledge when all have applied.
        R14 = 14,
        /// A push is named and compared, served once.
        R15 = 15,
        /// A new primary levels.
        R16 = 16,
        /// Acknowledged length.
        R17 = 17,
        /// Close before the next is opened.
        R18 = 18,
        /// A closed chunk is full by definition; no other is.
        R19 = 19,
        /// Files go by id; hidden files get no lease.
        R20 = 20,
        /// Leadership is confirmed by a majority.
        R21 = 21,
        /// A new master waits for old leases.
        R22 = 22,
        /// Answers leave when applied.
        R23 = 23,
        /// Outcomes are remembered.
        R24 = 24,
        /// An empty disk takes no old id, and a group is made once.
        R25 = 25,
        /// Data, checksums, head.
        R26 = 26,
        /// Dirty marks.
        R27 = 27,
        /// Suspect replicas become current by decision only.
        R28 = 28,
        /// A replica behind the furthest is stale.
        R29 = 29,
        /// A clone joins while nobody can mutate its chunk.
        R30 = 30,
        /// A report of bad bytes is a hint.
        R31 = 31,
        /// Who writes to a shared chunk gets a copy of its own, durable before it is logged.
        R32 = 32,
        /// Garbage: handle and version, nothing newer.
        R33 = 33,
        /// Nothing changes below a tree while a snapshot of it is taken.
        R34 = 34,
        /// Path locks.
        R35 = 35,
        /// Totals and quotas.
        R36 = 36,
        /// Record ids and windows.
        R37 = 37,
        /// The log commits: the newest epoch, the next number.
        R38 = 38,
        /// A number stands for one content for ever.
        R39 = 39,
        /// A stream's chunk grows at its end, bundle by bundle.
        R40 = 40,
        /// A seal keeps what is committed.
        R41 = 41,
        /// What nobody writes any more is sealed, or abandoned.
        R42 = 42,
        /// Holders are believed in the life in which they stored a bundle.
        R43 = 43,
        /// Readers of streams see committed bytes only.
        R44 = 44,
        /// What is settled is what was copied, and what is needed still stays.
        R45 = 45,
        /// One at a time has a stream exclusively.
        R46 = 46,
        /// A producer's number lives as long as its file.
        R47 = 47,
        /// What lacks replicas gets them, or a set that can be copied.
        H1 = 101,
        /// What is bad is found, and told.
        H2 = 102,
        /// What no chunk needs goes from the disks.
        H3 = 103,
        /// Jobs come to their end.
        H4 = 104,
        /// What the master tells of the cell is so.
        H5 = 105,
        /// A shadow master says how far behind it may be.
        A26 = 126,
        /// Every directory of the way to a name is searched by its mode as it is then.
        PE1 = 201,
        /// A name is taken away by who may, in a sticky directory as well.
        PE2 = 202,
        /// Where the operation log cannot be read is not where it ends.
        L6 = 221,
        /// A verdict is taken back only where every block has verified.
        SL2 = 211,
        /// A stale replica goes when its chunk has what it needs, and not before.
        GB2 = 212,
        /// Of whom nobody can tell whether its past is this log's, what it had then stays.
        GB4 = 213,
    }
}

#[cfg(feature = "planted-bugs")]
mod set {
    use super::Rule;
    use std::cell::Cell;

    thread_local! {
        static BROKEN: Cell<Option<Rule>> = const { Cell::new(None) };
    }

    /// Breaks one rule, or none, in this thread from now on.
    pub fn plant(rule: Option<Rule>) {
        BROKEN.with(|broken| broken.set(rule));
    }

    /// Whether this rule is broken on purpose.
    #[must_use]
    pub fn broken(rule: Rule) -> bool {
        BROKEN.with(|broken| broken.get() == Some(rule))
    }
}

#[cfg(feature = "planted-bugs")]
pub use set::{broken, plant};

/// Whether this rule is broken on purpose: never, in this build.
#[cfg(not(feature = "planted-bugs"))]
#[must_use]
#[inline]
pub const fn broken(_: Rule) -> bool {
    false
}
