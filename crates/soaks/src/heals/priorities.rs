//! Whether clones begin in the order that they should (RP1), seen from outside by looking often.
//!
//! ```text
//!   look k − 1                          look k
//!   chunk u: one good replica, waits    u still waits        a clone of chunk v, which has two,
//!   for its turn; its source gives      its source is free   has begun in between
//!   nothing, some server takes nothing  yet                  ──► v was before its turn
//! ```
//! Where u's source was busy at either look, or no server that could have taken it was free, u was
//! not startable, and v may begin; but not from u's own source to one that could have taken u: that
//! was a place for u. A chunk that was ever seen to rest, after a clone of it had come to nothing,
//! proves nothing: it may have rested between two looks.

use crate::load::{LoadPart, LoadPlace};
use crate::load_process::{CellSeen, ChunkSeen};
use crate::report::Report;
use anyhow::Result;
use std::collections::{BTreeMap, BTreeSet};

/// Clones out of turn that are named.
const EXAMPLES_MAX: usize = 24;

/// What was seen.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct PrioritiesSeen {
    looks: usize,
    /// Clones of chunks with one good replica that began.
    urgent_begun: usize,
    /// Of chunks with more.
    others_begun: usize,
    /// Of these, those that began while an urgent one could have.
    out_of_turn: usize,
}

/// Looks at all chunks of a cell, again and again.
#[derive(Debug)]
pub(crate) struct PriorityWatch {
    part: LoadPart,
    order: CloneOrder,
}

/// What is made of the looks.
#[derive(Debug, Default)]
struct CloneOrder {
    clones_per_server: usize,
    before: BTreeMap<String, ChunkSeen>,
    /// A chunk was seen below its goal.
    has_lacked: bool,
    seen: PrioritiesSeen,
    /// Chunks that were seen to rest.
    rested: BTreeSet<String>,
    /// Those that were out of turn.
    examples: Vec<String>,
}

impl PriorityWatch {
    /// Of a cell whose servers take, and give, so many clones at once.
    ///
    /// # Errors
    /// Where the cell cannot be reached.
    pub(crate) fn start(place: &LoadPlace, clones_per_server: usize) -> Result<Self> {
        let part = LoadPart::start(place, 0, &["look", &place.cell])?;
        Ok(Self { part, order: CloneOrder { clones_per_server, ..CloneOrder::default() } })
    }

    /// Looks once; whether so many servers are live, all others dead, and all chunks at their goals
    /// again: one that is only silent costs nothing, and one that has just died has yet to.
    ///
    /// # Errors
    /// Where the cell does not say how they are.
    pub(crate) fn look(&mut self, live: usize) -> Result<bool> {
        self.part.order("look")?;
        let seen: CellSeen = serde_json::from_str(&self.part.expect("seen")?)?;
        let as_many = seen.live.len() == live && seen.silent == 0;
        Ok(self.order.compare(seen) && self.order.has_lacked && as_many)
    }

    /// The line of what was seen; who saw too little has shown nothing.
    pub(crate) fn report(&self, report: &mut Report) {
        self.order.report(report);
    }
}

impl CloneOrder {
    fn report(&self, report: &mut Report) {
        let PrioritiesSeen { looks, urgent_begun, others_begun, out_of_turn } = self.seen;
        report.line(
            "two killed: no clone two to three begins before a startable one to two",
            "none",
            format!(
                "{out_of_turn}; {looks} looks saw {urgent_begun} clones one to two begin, and \
                 {others_begun} two to three {}",
                self.examples.iter().take(EXAMPLES_MAX).cloned().collect::<Vec<_>>().join(", ")
            ),
            out_of_turn == 0 && urgent_begun > 0 && others_begun > 0,
        );
    }

    fn compare(&mut self, seen: CellSeen) -> bool {
        let CellSeen { live, chunks: now, .. } = seen;
        self.seen.looks += 1;
        let looks = self.seen.looks;
        let limit = self.clones_per_server;
        let before = std::mem::take(&mut self.before);
        let ends = |look: &BTreeMap<String, ChunkSeen>,
                    which: fn(&(String, String)) -> &String|
         -> Vec<String> {
            look.values().filter_map(|it| it.clone.as_ref()).map(which).cloned().collect()
        };
        let count = |all: &[String], who: &String| all.iter().filter(|it| *it == who).count();
        let (gave, give) = (ends(&before, |it| &it.0), ends(&now, |it| &it.0));
        let taken = ends(&before, |it| &it.1);
        let resting = now.iter().filter(|(_, it)| it.rests).map(|(handle, _)| handle.clone());
        self.rested.extend(resting);
        let waits = |it: &ChunkSeen| it.good == 1 && it.waits_for_turn && it.clone.is_none();
        let waited = |(handle, urgent): &(&String, &ChunkSeen)| {
            let fresh = !self.rested.contains(*handle);
            fresh && before.get(*handle).is_some_and(waits) && waits(urgent)
        };
        let waiting: Vec<&ChunkSeen> = now.iter().filter(waited).map(|(_, it)| it).collect();
        let idle = |who: &String| count(&gave, who) < limit && count(&give, who) < limit;
        let startable = waiting.iter().any(|urgent| {
            let mut takers = live.difference(&urgent.holders);
            urgent.holders.iter().all(idle) && takers.any(|who| count(&taken, who) < limit)
        });
        for (handle, chunk) in &now {
            let idle_before = before.get(handle).is_some_and(|it| it.clone.is_none());
            let Some((source, receiver)) = chunk.clone.as_ref().filter(|_| idle_before) else {
                continue;
            };
            if chunk.good == 1 {
                self.seen.urgent_begun += 1;
                continue;
            }
            let robbed = waiting.iter().any(|urgent| {
                urgent.holders.len() == 1
                    && urgent.holders.contains(source)
                    && !urgent.holders.contains(receiver)
            });
            self.seen.others_begun += 1;
            if startable || robbed {
                self.seen.out_of_turn += 1;
                self.examples.push(format!("{handle} {source} to {receiver} at look {looks}"));
            }
        }
        let whole = now.values().all(|chunk| chunk.good >= chunk.goal);
        self.has_lacked |= !whole;
        self.before = now;
        whole
    }
}

#[cfg(test)]
mod tests {
    use super::{CellSeen, ChunkSeen, CloneOrder};
    use std::collections::BTreeSet;

    fn chunk(good: u64, holders: &[&str], clone: Option<(&str, &str)>) -> ChunkSeen {
        ChunkSeen {
            good,
            goal: 3,
            holders: holders.iter().map(|it| (*it).to_owned()).collect(),
            clone: clone.map(|(from, to)| (from.to_owned(), to.to_owned())),
            waits_for_turn: clone.is_none(),
            rests: false,
        }
    }

    fn out_of_turn(looks: [&[(&str, ChunkSeen)]; 2]) -> usize {
        let mut watch = CloneOrder { clones_per_server: 1, ..CloneOrder::default() };
        for look in looks {
            let live: BTreeSet<String> = ["a", "b", "c", "d"].map(str::to_owned).into();
            let chunks = look.iter().map(|(it, seen)| ((*it).to_owned(), seen.clone())).collect();
            assert!(!watch.compare(CellSeen { live, silent: 0, chunks }));
        }
        watch.seen.out_of_turn
    }

    #[test]
    fn a_clone_two_to_three_is_out_of_turn_only_where_one_to_two_could_have_begun() {
        let urgent = ("u", chunk(1, &["a"], None));
        let waits = ("v", chunk(2, &["b", "c"], None));
        let begins = ("v", chunk(2, &["b", "c"], Some(("b", "d"))));
        assert_eq!(
            out_of_turn([&[urgent.clone(), waits.clone()], &[urgent.clone(), begins.clone()]]),
            1
        );
        // Its source gives another.
        let busy = ("w", chunk(1, &["a"], Some(("a", "c"))));
        let before = [urgent.clone(), waits.clone(), busy.clone()];
        assert_eq!(out_of_turn([&before, &[urgent.clone(), begins.clone(), busy]]), 0);
        // It gives to one that could have taken the urgent one, and has its place.
        let robs = ("v", chunk(2, &["a", "c"], Some(("a", "d"))));
        let idle = ("v", chunk(2, &["a", "c"], None));
        assert_eq!(out_of_turn([&[urgent.clone(), idle], &[urgent.clone(), robs]]), 1);
        // It begins itself.
        let begun = ("u", chunk(1, &["a"], Some(("a", "c"))));
        assert_eq!(out_of_turn([&[urgent.clone(), waits], &[begun, begins.clone()]]), 0);
        // It was there before.
        assert_eq!(out_of_turn([&[urgent.clone(), begins.clone()], &[urgent, begins]]), 0);
    }
}
