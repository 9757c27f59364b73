//! A shadow is a prefix: what a master says that is not in charge is what the committed records up
//! to the one that it names make of an empty state, and none is missing that any master had applied
//! before it was up to date, as it says (A26).
//!
//! ```text
//!   AskShadowAnswer { applied, word } ──► the committed log, replayed up to `applied` ──► the same
//!   AskShadowAnswer { behind_ms }     ──► what any master had applied by then is applied here
//! ```

use super::checker::Verdict;
use super::group_agrees::GroupAgrees;
use cairn_consensus::StoredRecord;
use cairn_env_sim::{NodeId, WorldTime};
use cairn_master_core::{Record, State};
use cairn_protocol::{AskShadow, AskShadowAnswer, ShadowQuestion, ShadowWord};
use cairn_types::LogIndex;
use cairn_types::wire::Message;
use std::collections::BTreeMap;

/// Clocks drift, and milliseconds are rounded.
const LATE_NS: u64 = 100_000_000;

/// The checker.
#[derive(Default)]
pub(crate) struct ShadowIsPrefix {
    /// Each member as it was when it answered last.
    replayed: BTreeMap<NodeId, State>,
    /// When a record was first seen to be applied, by any master.
    applied: BTreeMap<LogIndex, WorldTime>,
}

impl ShadowIsPrefix {
    /// As reports name it.
    pub(crate) const NAME: &'static str = "shadow_is_prefix";

    /// A master has applied all up to this one.
    pub(crate) fn applied(&mut self, at: WorldTime, last: LogIndex) {
        self.applied.entry(last).or_insert(at);
    }

    /// A shadow has answered.
    pub(crate) fn answered(
        &mut self,
        (at, node): (WorldTime, NodeId),
        ask: &AskShadow,
        answer: &AskShadowAnswer,
        group: &GroupAgrees,
    ) -> Verdict {
        let state = self.replayed.entry(node).or_default();
        if state.applied() > answer.applied {
            // It has started anew, from an older checkpoint.
            *state = State::default();
        }
        for (index, bytes) in group.committed_behind(state.applied(), answer.applied)? {
            replay(state, *index, bytes)?;
        }
        compare(state, &ask.question, &answer.word)?;
        let Some(behind_ms) = answer.behind_ms else { return Ok(()) };
        let late = behind_ms.saturating_mul(1_000_000).saturating_add(LATE_NS);
        let missing = self.applied.range(answer.applied.next()..).next();
        match missing.filter(|(_, since)| since.0.saturating_add(late) < at.0) {
            None => Ok(()),
            Some((index, since)) => Err(format!(
                "master {} says that it is {behind_ms} ms behind, and has applied record {}; \
                 another had applied record {index} at {since:?}",
                node.0, answer.applied
            )),
        }
    }
}

fn replay(state: &mut State, index: LogIndex, bytes: &[u8]) -> Verdict {
    let undecodable = |_| format!("record {index} does not decode");
    let stored = StoredRecord::decode(bytes).map_err(undecodable)?;
    if stored.data.is_empty() {
        state.skip_to(index, stored.term);
    } else {
        let record = Record::decode(&stored.data).map_err(undecodable)?;
        let _ = state.apply(index, stored.term, &record);
    }
    Ok(())
}

/// Names and entries; where chunks are is no part of the state.
fn compare(state: &State, question: &ShadowQuestion, word: &ShadowWord) -> Verdict {
    match (question, word) {
        (ShadowQuestion::Stat(stat), ShadowWord::Stat(answer)) => {
            let name = stat.path.name().unwrap_or_default();
            let id = state.resolve(&stat.path).map_err(|failure| failure.message)?;
            let entry = state.describe(id, name);
            if entry.as_ref() == Some(&answer.entry) {
                return Ok(());
            }
            Err(format!("{} is {:?}, its log makes {entry:?}", stat.path, answer.entry))
        }
        (ShadowQuestion::Stat(stat), ShadowWord::Failed(failure)) => {
            match state.resolve(&stat.path) {
                Ok(_) => Err(format!("{} is in its log: {failure}", stat.path)),
                Err(_) => Ok(()),
            }
        }
        (ShadowQuestion::List(list), ShadowWord::List(answer)) if list.skip == 0 => {
            let id = state.resolve(&list.path).map_err(|failure| failure.message)?;
            let mut entries = state.list(id, &list.after);
            let differs = answer.entries.iter().find_map(|told| {
                let entry = entries.next();
                (entry.as_ref() != Some(told)).then_some((told, entry))
            });
            let Some((told, entry)) = differs else { return Ok(()) };
            Err(format!("{} is listed with {told:?}, its log makes {entry:?}", list.path))
        }
        // R44
        (ShadowQuestion::ReadExtents(ask), ShadowWord::ReadExtents(answer)) => {
            let length = state.entry(ask.file).map(|entry| entry.length);
            let told = (answer.log, Some(answer.entry.length));
            stream_is(told, (ask.seen, state.applied(), length))
        }
        (ShadowQuestion::WaitLength(ask), ShadowWord::WaitLength(answer)) => {
            let length = state.entry(ask.file).map(|entry| entry.length);
            let told = (answer.log, Some(answer.length));
            stream_is(told, (ask.seen, state.applied(), length))
        }
        _ => Ok(()),
    }
}

/// As of which record, and how long a stream is told to be, to who has seen so much of the log.
fn stream_is(
    told: (LogIndex, Option<u64>),
    (seen, applied, length): (LogIndex, LogIndex, Option<u64>),
) -> Verdict {
    if told == (applied, length) && told.0 >= seen {
        return Ok(());
    }
    Err(format!("{told:?} is told to who has seen {seen}; the log makes {length:?} of {applied}"))
}
