//! Chunks that the master levels though no client asks, some at a time (R28): after a power failure
//! there may be thousands of them.
//!
//! ```text
//!   chunks that ail (survey) ─► whom_to_level ─► a grant that nobody waits for ─► its lease, which
//!                                                nobody wants, runs out
//! ```
//! - UL1: of a cell so many are raised at once, and a look considers so many.
//! - UL2: none begins while a server may still tell what it holds: it may be of the set.
//! - UL3: one that has begun rests for a while, whatever comes of it, longer each time.

use super::rests::Rests;
use super::survey::Survey;
use crate::chunk_place::ChunkPlace;
use crate::jobs::PlaceJob;
use crate::jobs::grant::GrantJob;
use crate::rules::condition::Condition;
use crate::rules::levelled_unasked::whom_to_level;
use crate::scheduler::Scheduler;
use crate::step::ChunkStep;
use crate::underway::Activity;
use cairn_types::ChunkHandle;
use cairn_types::planted::{Rule, broken};
use std::collections::BTreeSet;

/// Chunks that are being levelled at once (UL1).
const LEVELS_MAX: usize = 64;
/// Chunks that one look considers (UL1).
const CONSIDERED_MAX: usize = 256;

/// What is known, and being done, about them.
#[derive(Debug, Default)]
pub(super) struct UnaskedLevels {
    /// Where a grant was begun that may still be under way.
    under_way: BTreeSet<ChunkPlace>,
    rests: Rests,
    /// Where the look goes on.
    looked: (Condition, ChunkHandle),
}

impl UnaskedLevels {
    /// Time has passed.
    pub(super) fn pass(
        &mut self,
        step: &mut ChunkStep<'_>,
        scheduler: &mut Scheduler,
        survey: &Survey,
    ) {
        let now = step.now.time;
        let view = scheduler.view(step.now, step.state, step.fleet);
        self.under_way.retain(|place| view.underway.at(*place) != Activity::Nothing);
        self.rests.pass(now, scheduler.term().dead());
        // UL2
        let waits = step.fleet.servers().is_gathering(now);
        // H1 broken: what nobody asks for stays as it is.
        if waits || broken(Rule::H1) {
            return;
        }
        let ailing = survey.conditions().from(self.looked).take(CONSIDERED_MAX + 1);
        let mut some: Vec<(Condition, ChunkHandle)> = ailing.collect();
        self.looked = match some.len() > CONSIDERED_MAX {
            true => some.pop().expect("there are more than that"),
            false => Default::default(),
        };
        for ailing in some {
            if self.under_way.len() >= LEVELS_MAX {
                self.looked = ailing;
                break;
            }
            if !self.rests.rests(now, ailing.1) {
                self.level(step, scheduler, ailing.1);
            }
        }
        assert!(self.under_way.len() <= LEVELS_MAX, "so many at once (UL1)");
    }

    fn level(&mut self, step: &mut ChunkStep<'_>, scheduler: &mut Scheduler, handle: ChunkHandle) {
        // It may have been purged since it was written down.
        let Some(chunk) = step.state.chunk(handle) else { return };
        let file = step.state.sharing().live_file_of(handle, &chunk);
        let place = ChunkPlace::new(file, chunk.index);
        let begun = scheduler.change_set(step, handle, |view, chunk, acts| {
            // R34: what is to be still is not stirred.
            let may = !view.is_frozen(chunk.file);
            let members = may.then(|| whom_to_level(view, (handle, chunk))).flatten()?;
            Some(PlaceJob::Grant(GrantJob::start(view, (handle, chunk), members, acts)))
        });
        if begun {
            self.under_way.insert(place);
            // UL3
            self.rests.note((step.now.time, scheduler.term().heartbeat()), handle, None);
        }
    }
}
