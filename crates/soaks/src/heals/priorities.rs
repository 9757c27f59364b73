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

use crate::report::Report;
use anyhow::{Context, Result};
use serde_json::Value;
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

/// One chunk at one look.
#[derive(Clone, Debug, PartialEq, Eq)]
struct ChunkSeen {
    good: u64,
    goal: u64,
    holders: BTreeSet<String>,
    /// From whom to whom.
    clone: Option<(String, String)>,
    waits_for_turn: bool,
    rests: bool,
}

type Look = BTreeMap<String, ChunkSeen>;

/// Looks at the chunks of some files.
#[derive(Debug)]
pub(crate) struct PriorityWatch {
    paths: Vec<String>,
    clones_per_server: usize,
    before: Look,
    seen: PrioritiesSeen,
    /// Chunks that were seen to rest.
    rested: BTreeSet<String>,
    /// Those that were out of turn.
    examples: Vec<String>,
}

impl PriorityWatch {
    /// Where servers take, and give, so many at once.
    pub(crate) fn of(paths: Vec<String>, clones_per_server: usize) -> Self {
        Self {
            paths,
            clones_per_server,
            before: Look::new(),
            seen: PrioritiesSeen::default(),
            rested: BTreeSet::new(),
            examples: Vec::new(),
        }
    }

    /// The line of what was seen; who saw too little has shown nothing.
    pub(crate) fn report(&self, report: &mut Report) {
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

    /// Looks once, by what `told` says that a command told; whether all chunks are at their goals.
    ///
    /// # Errors
    /// Where the cell does not say how they are.
    pub(crate) fn look(&mut self, told: impl Fn(&[&str]) -> Result<Vec<Value>>) -> Result<bool> {
        let live: BTreeSet<String> = (told(&["servers"])?.iter())
            .filter(|server| server["state"] == "live")
            .filter_map(|server| server["address"].as_str().map(str::to_owned))
            .collect();
        let mut now = Look::new();
        for path in &self.paths {
            let told = told(&["explain", path])?;
            now.extend(look_of(told.first().with_context(|| format!("nothing of {path}"))?)?);
        }
        Ok(self.compare(now, &live))
    }

    fn compare(&mut self, now: Look, live: &BTreeSet<String>) -> bool {
        self.seen.looks += 1;
        let looks = self.seen.looks;
        let limit = self.clones_per_server;
        let before = std::mem::take(&mut self.before);
        let ends = |look: &Look, which: fn(&(String, String)) -> &String| -> Vec<String> {
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
        self.before = now;
        whole
    }
}

/// What `explain --json` tells of a path.
fn look_of(told: &Value) -> Result<Look> {
    let chunks = told["chunks"].as_array().with_context(|| format!("no chunks in {told}"))?;
    let mut look = Look::new();
    for chunk in chunks {
        let texts = |value: &Value| value.as_str().map(str::to_owned);
        let replicas = chunk["replicas"].as_array().into_iter().flatten();
        let clone = &chunk["clone"];
        let seen = ChunkSeen {
            good: chunk["good"].as_u64().context("a count of good replicas")?,
            goal: chunk["goal"].as_u64().context("a goal")?,
            holders: replicas.filter_map(|it| texts(&it["address"])).collect(),
            clone: texts(&clone["source"]).zip(texts(&clone["receiver"])),
            waits_for_turn: chunk["waits_for"]["code"] == "TURN",
            rests: chunk["waits_for"]["code"] == "REST",
        };
        look.insert(texts(&chunk["handle"]).context("a handle")?, seen);
    }
    Ok(look)
}

#[cfg(test)]
mod tests {
    use super::{ChunkSeen, Look, PriorityWatch};
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
        let live: BTreeSet<String> = ["a", "b", "c", "d"].map(str::to_owned).into();
        let mut watch = PriorityWatch::of(Vec::new(), 1);
        for look in looks {
            let look: Look =
                look.iter().map(|(it, seen)| ((*it).to_owned(), seen.clone())).collect();
            assert!(!watch.compare(look, &live));
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
