//! What one step works with: the time, the applied state, and where its wishes go.

use crate::fleet::Fleet;
use crate::numbers::TermNumbers;
use crate::outbox::MasterOutbox;
use crate::state::State;
use cairn_env::Now;
use cairn_protocol::ReplicaReport;
use cairn_types::{ChunkHandle, Random, ServerId};

/// The surroundings of one step.
#[derive(Debug)]
pub(crate) struct Step<'a> {
    /// When the step happens.
    pub(crate) now: Now,
    /// Durable state as applied; the step itself changes none of it.
    pub(crate) state: &'a State,
    /// Fresh numbers of this term.
    pub(crate) numbers: &'a mut TermNumbers,
    /// For choices among equals.
    pub(crate) random: &'a mut Random,
    /// Effects and proposals.
    pub(crate) out: &'a mut MasterOutbox,
}

/// The same, where chunks are concerned: with what is known of chunkservers, which their answers
/// change.
#[derive(Debug)]
pub(crate) struct ChunkStep<'a> {
    pub(crate) now: Now,
    pub(crate) state: &'a State,
    pub(crate) fleet: &'a mut Fleet,
    pub(crate) numbers: &'a mut TermNumbers,
    pub(crate) random: &'a mut Random,
    pub(crate) out: &'a mut MasterOutbox,
}

impl Step<'_> {
    /// The step with what is known of chunkservers.
    pub(crate) fn with<'b>(&'b mut self, fleet: &'b mut Fleet) -> ChunkStep<'b> {
        let Step { now, state, numbers, random, out } = self;
        ChunkStep { now: *now, state, fleet, numbers, random, out }
    }
}

impl ChunkStep<'_> {
    /// Takes in what a server answered of its replica of a chunk, as the fleet does.
    pub(crate) fn note_replica(
        &mut self,
        handle: ChunkHandle,
        server: ServerId,
        report: &ReplicaReport,
    ) -> bool {
        let when = (self.now.time, self.state, self.numbers.last_version());
        self.fleet.note_replica(when, handle, server, report)
    }
}
