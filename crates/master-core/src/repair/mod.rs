//! Repair: which chunks lack replicas, and what is being done about it (GFS §4.3, design §9).
//!
//! Knows what is logged and what chunkservers told; decides nothing about leases.

mod below_goal;
mod handle_set;
mod survey;

use crate::fleet::Fleet;
use crate::record::Record;
use crate::rules::lacking::Urgency;
use crate::state::State;
use crate::view::View;
use cairn_protocol::{BelowGoalCount, RepairStatusAnswer};
use cairn_types::ChunkHandle;
use survey::Survey;

/// What is known about chunks that lack replicas.
#[derive(Debug, Default)]
pub(crate) struct Repair {
    survey: Survey,
}

impl Repair {
    /// A record has changed the state.
    pub(crate) fn note_logged(&mut self, state: &State, record: &Record) {
        self.survey.note_logged(state, record);
    }

    /// What the fleet has to tell of chunks that may have fewer replicas.
    pub(crate) fn take_thinned(&self, fleet: &mut Fleet) -> Vec<ChunkHandle> {
        fleet.take_thinned(self.survey.room())
    }

    /// Time has passed.
    pub(crate) fn pass(&mut self, view: &View<'_>, thinned: Vec<ChunkHandle>) {
        self.survey.pass(view, thinned);
    }

    /// For a person.
    pub(crate) fn status(&self) -> RepairStatusAnswer {
        let count = |(urgency, count): (Urgency, u64)| BelowGoalCount {
            good: urgency.good,
            goal: urgency.goal(),
            deleted: urgency.hidden,
            count,
        };
        RepairStatusAnswer { below_goal: self.survey.index().counts().map(count).collect() }
    }
}
