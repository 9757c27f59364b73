//! Replay is state: whatever a master has in memory, live or recovered from checkpoint and log, is
//! what the records of its log make of an empty state, one after the other (§2.6, S1).
//!
//! ```text
//!   LogJob::Append at the seam ──► records as bytes ──► a state of the checker's own
//!                                                            ║ equal, at each start of a master,
//!   the master's disk ──► recovered state ──► live state ════╝ checkpoint, death, and at the end
//! ```
//! The checker knows each record from its first byte and never reads a checkpoint. A record whose
//! append failed may be on the disk or not: the recovered state's index tells, and never falls
//! behind what was durable.

use super::checker::Verdict;
use super::quotas_hold::{judge, judge_totals, uses};
use cairn_consensus::StoredRecord;
use cairn_env::{Driver, Effect, Event, Now};
use cairn_master::{Master, MasterDisk};
use cairn_master_core::{LogJob, LogResult, Record, State};
use cairn_types::wire::Message;
use cairn_types::{LogIndex, Term};
use std::cell::RefCell;
use std::collections::BTreeMap;
use std::rc::Rc;

/// How much of two states that differ a complaint shows, around where they do.
const SHOWN_BEFORE: usize = 120;
const SHOWN_AFTER: usize = 160;

/// A master into which the checker can look while it runs.
pub(crate) struct SharedMaster(pub(crate) Rc<RefCell<Master>>);

impl Driver for SharedMaster {
    type Service = MasterDisk;
    type Command = ();

    fn handle(&mut self, now: Now, event: Event<(), LogResult>, effects: &mut Vec<Effect<LogJob>>) {
        self.0.borrow_mut().handle(now, event, effects);
    }

    fn end_of_batch(&mut self, now: Now, effects: &mut Vec<Effect<LogJob>>) {
        self.0.borrow_mut().end_of_batch(now, effects);
    }
}

/// The checker.
#[derive(Default)]
pub(crate) struct ReplayIsState {
    /// Records that the checker's own state does not hold yet.
    records: BTreeMap<LogIndex, bytes::Bytes>,
    /// The last record that is durable for certain.
    durable: LogIndex,
    replayed: State,
    live: Option<Rc<RefCell<Master>>>,
    /// There is no one history any more.
    given_up: bool,
    /// It is one of several: what its disk has is not all committed, and it may begin behind.
    in_group: bool,
    /// Another's checkpoint is on its disk, and did not read when it was there: it may later (seed
    /// 686 at b7fbed5a, whose page could not be read for a while).
    may_take_over: bool,
    /// The record that the checkpoint stands for that it took over last.
    begun: LogIndex,
    /// Records replayed since they were asked for.
    seen: Vec<(LogIndex, bytes::Bytes)>,
}

impl ReplayIsState {
    /// As reports name it.
    pub(crate) const NAME: &'static str = "replay_is_state";

    /// From here on nothing is compared: the log is not what was written to it.
    pub(crate) fn give_up(&mut self) {
        (self.given_up, self.live) = (true, None);
    }

    /// A master has recovered its state and is about to begin its term.
    pub(crate) fn opened(&mut self, in_group: bool, master: Rc<RefCell<Master>>) {
        self.live = (!self.given_up).then_some(master);
        self.in_group = in_group;
        if in_group {
            self.replayed = State::default();
            // What an append that failed has left may be there.
            let last = self.records.last_key_value().map(|(index, _)| *index);
            self.durable = last.unwrap_or_default();
        }
    }

    /// What the master has applied, if it lives.
    pub(crate) fn applied_by_now(&self) -> Option<LogIndex> {
        Some(self.live.as_ref()?.borrow().state().applied())
    }

    /// The term that the master that was opened last has begun, if it is looked at.
    pub(crate) fn term(&self) -> Option<Term> {
        Some(self.live.as_ref()?.borrow().state().term())
    }

    /// The records replayed since the last time.
    pub(crate) fn take_seen(&mut self) -> Vec<(LogIndex, bytes::Bytes)> {
        std::mem::take(&mut self.seen)
    }

    /// The master's disk did this, or tried to.
    pub(crate) fn ran(&mut self, job: &LogJob, done: bool) {
        let LogJob::Append(entries) = job else { return };
        // The mark has no place in the order.
        for (index, bytes) in entries.iter().filter(|(index, _)| *index > LogIndex::default()) {
            // What a new primary master overwrites is gone with all that came after it.
            self.records.split_off(index);
            self.records.insert(*index, bytes.clone());
        }
        let last = self.records.last_key_value().map(|(index, _)| *index);
        if let (Some(last), true) = (last, done) {
            self.durable = last.max(self.replayed.applied());
        }
    }

    pub(crate) fn begun(&self) -> LogIndex {
        self.begun
    }

    /// A checkpoint of another master that is on the disk did not read.
    pub(crate) fn may_take_over(&mut self) {
        self.may_take_over = true;
    }

    /// The record up to which a checkpoint stands that reads now, and did not when it came.
    pub(crate) fn took_over_after_all(&self) -> Option<LogIndex> {
        let applied = self.applied_by_now().filter(|_| self.in_group && self.may_take_over);
        applied.filter(|applied| *applied > self.durable)
    }

    /// A checkpoint of another master stands for these records, all that are committed up to its.
    pub(crate) fn take_over(&mut self, committed: Vec<(LogIndex, bytes::Bytes)>) {
        let Some((last, _)) = committed.last() else { return };
        (self.may_take_over, self.begun) = (false, *last);
        self.durable = self.durable.max(*last);
        self.records.extend(committed);
    }

    /// The records that the master opened last has recovered though they were not known to be
    /// durable: their append failed, and they are on the disk all the same.
    pub(crate) fn found_on_disk(&self) -> Vec<bytes::Bytes> {
        if self.in_group {
            return Vec::new();
        }
        let applied = self.live.as_ref().map(|master| master.borrow().state().applied());
        let found = applied.filter(|applied| *applied > self.durable);
        let range = found.map(|applied| self.records.range(self.durable.next()..=applied));
        range.into_iter().flatten().map(|(_, record)| record.clone()).collect()
    }

    /// The master that was opened last begins: it has all that was durable.
    pub(crate) fn recovered(&mut self) -> Verdict {
        let applied = self.live.as_ref().map(|master| master.borrow().state().applied());
        match applied {
            Some(_) if self.in_group => self.check(),
            Some(applied) if applied < self.durable => Err(format!(
                "the master has recovered up to record {applied}; {} was durable",
                self.durable
            )),
            Some(applied) => {
                self.durable = applied;
                self.check()
            }
            None => Ok(()),
        }
    }

    /// Compares the two states as they are.
    pub(crate) fn check(&mut self) -> Verdict {
        // A drill may have no master yet.
        let Some(live) = self.live.clone() else { return Ok(()) };
        let master = live.borrow();
        let state = master.state();
        if state.applied() > self.durable {
            return Err(format!(
                "the master has applied record {}; {} is the last that is durable",
                state.applied(),
                self.durable
            ));
        }
        self.replay_to(state.applied())?;
        if *state == self.replayed { Ok(()) } else { Err(difference(state, &self.replayed)) }
    }

    /// What the log makes of an empty state, as far as the master has applied it; none where there
    /// is no one history, or no master.
    pub(crate) fn state(&mut self) -> Result<Option<&State>, String> {
        let Some(live) = self.live.clone() else { return Ok(None) };
        let applied = live.borrow().state().applied();
        self.replay_to(applied)?;
        Ok(Some(&self.replayed))
    }

    fn replay_to(&mut self, end: LogIndex) -> Verdict {
        while self.replayed.applied() < end {
            let index = self.replayed.applied().next();
            let bytes = match self.in_group {
                true => self.records.get(&index).cloned(),
                false => self.records.remove(&index),
            };
            let bytes = bytes.ok_or_else(|| format!("record {index} was never appended"))?;
            let undecodable = |_| format!("record {index} does not decode");
            let stored = StoredRecord::decode(&bytes).map_err(undecodable)?;
            if self.in_group {
                self.seen.push((index, bytes));
            }
            if stored.data.is_empty() {
                self.replayed.skip_to(index, stored.term);
            } else {
                let record = Record::decode(&stored.data).map_err(undecodable)?;
                let before = uses(&self.replayed);
                self.replayed.apply(index, stored.term, &record);
                judge(&self.replayed, &before, &record).map_err(of_quotas)?;
            }
        }
        judge_totals(&self.replayed).map_err(of_quotas)
    }
}

/// A complaint of another checker, which looks at the same states.
fn of_quotas(why: String) -> String {
    format!("quotas_hold: {why}")
}

/// Where the states begin to differ, for a complaint.
fn difference(state: &State, replayed: &State) -> String {
    let (there, here) = (format!("{state:?}"), format!("{replayed:?}"));
    let same = there.bytes().zip(here.bytes()).take_while(|(a, b)| a == b).count();
    let around = |text: &str| {
        let from = same.saturating_sub(SHOWN_BEFORE);
        let until = text.len().min(same + SHOWN_AFTER);
        String::from_utf8_lossy(&text.as_bytes()[from..until]).into_owned()
    };
    format!(
        "at record {} the master's state has «{}», its log makes «{}»",
        state.applied(),
        around(&there),
        around(&here)
    )
}
