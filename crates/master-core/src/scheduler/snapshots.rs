//! Before a snapshot: leases below a tree are taken back, and their replicas fenced, while nobody
//! gets a new one (GFS §3.4, R34).
//!
//! ```text
//!   frozen ─► jobs there end ─► leases asked back ─► given back, or not heard of
//!     ─► each chunk that had one is raised, and that is logged: still
//!     ─► … ─► thawed: whoever waits is looked at anew
//! ```
//! - ST1: what is still has no lease that may be live, known or not, and none that was live when it
//!   was frozen can have a mutation applied: its replicas stand at a later, logged version.
//! - ST2: a look at a tree takes as long as there are leases, and whatever happens in the cell may
//!   be what it waits for: looks have some time between them, and others the rest of it.

use super::Scheduler;
use super::in_flight::AwaitedCall;
use super::told_acts::tell_revoked;
use crate::jobs::PlaceJob;
use crate::jobs::grant::GrantJob;
use crate::jobs::length;
use crate::leases::LeaseStatus;
use crate::record::SetLength;
use crate::rules::replica_set::plan_raise;
use crate::step::ChunkStep;
use cairn_protocol::RevokeLease;
use cairn_types::planted::{Rule, broken};
use cairn_types::{ChunkHandle, ChunkVersion, EntryId, Time};
use std::collections::BTreeMap;
use std::collections::btree_map::Entry;
use std::time::Duration;

/// A chunk that had a lease.
#[derive(Clone, Copy, Debug)]
struct Fence {
    /// It is to stand above this one.
    above: ChunkVersion,
    /// Its holder may take until then to drain.
    drains_until: Time,
    /// Before then no raise is begun anew.
    next_try: Time,
}

/// The chunks of a tree that had leases when it was frozen.
#[derive(Debug, Default)]
pub(crate) struct Fences {
    chunks: BTreeMap<ChunkHandle, Fence>,
    /// Before then nobody looks whether the tree is still (ST2), and what was waited for.
    next_look: Option<(Time, String)>,
}

/// The time between two looks at a tree, for each lease of the cell and each chunk of the tree that
/// had one: chosen so that a thousand are looked at less than fifty times a second, not measured.
const LOOK_PACE: Duration = Duration::from_micros(20);

/// Makes trees still, and lets them go on.
#[derive(Debug)]
pub(crate) struct TreeStilling<'a>(pub(crate) &'a mut Scheduler);

impl TreeStilling<'_> {
    /// From now on nobody gets a lease below that entry, nor a chunk.
    pub(crate) fn freeze(&mut self, top: EntryId) {
        self.0.frozen.freeze(top);
    }

    /// That is over: whoever waited goes on.
    pub(crate) fn thaw(&mut self, step: &mut ChunkStep<'_>, top: EntryId) {
        self.0.frozen.thaw(top);
        self.0.go_on_waiting(step);
    }

    /// Takes the next steps towards nothing being changed below that entry.
    ///
    /// # Errors
    /// What is waited for.
    pub(crate) fn still(
        &mut self,
        step: &mut ChunkStep<'_>,
        top: EntryId,
        fences: &mut Fences,
    ) -> Result<(), String> {
        if broken(Rule::R34) {
            return Ok(());
        }
        if let Some((_, why)) = fences.next_look.as_ref().filter(|(at, _)| step.now.time < *at) {
            return Err(why.clone());
        }
        self.list(step, top, fences);
        let looked = self.look(step, top, fences);
        let looked_at = self.0.leases.iter().count() + fences.chunks.len();
        let pause = LOOK_PACE * u32::try_from(looked_at).unwrap_or(u32::MAX);
        fences.next_look = looked.clone().err().map(|why| (step.now.time + pause, why));
        looked
    }

    /// The same, whenever it was looked at.
    fn look(
        &mut self,
        step: &mut ChunkStep<'_>,
        top: EntryId,
        fences: &mut Fences,
    ) -> Result<(), String> {
        let below = |file| step.state.sharing().is_within(file, top);
        let underway = self.0.places.underway();
        if let Some(place) = underway.busy().find(|place| below(place.file)) {
            return Err(format!("{place} is being changed"));
        }
        // What is to be closed is of before the snapshot.
        if let Some(place) = self.0.places.closing().find(|place| below(place.file)) {
            return Err(format!("the chunk before {place} is being closed"));
        }
        let fenced = fences.chunks.iter_mut();
        // All at once: nobody waits for one after the other.
        let fenced: Vec<Result<(), String>> =
            fenced.map(|(handle, fence)| self.fence_chunk(step, *handle, fence)).collect();
        fenced.into_iter().collect()
    }

    /// Writes down the chunks below that entry that have leases, and asks these back. A lease that
    /// is over when everything else is still was live when the tree was frozen (ST1).
    fn list(&mut self, step: &mut ChunkStep<'_>, top: EntryId, fences: &mut Fences) {
        let leased = |handle: ChunkHandle| {
            let chunk = step.state.chunk(handle)?;
            let sharing = step.state.sharing();
            let may_change = sharing.is_within(chunk.file, top) && !sharing.is_shared(handle);
            may_change.then_some((handle, chunk.version))
        };
        let live = self.0.leases.iter().filter(|(_, lease)| lease.may_live(step.now.time));
        let leased: Vec<_> = live.filter_map(|(handle, _)| leased(handle)).collect();
        for (handle, version) in leased {
            match fences.chunks.entry(handle) {
                Entry::Vacant(fence) => {
                    let drains_until = step.now.time + self.0.term.silent();
                    fence.insert(Fence { above: version, drains_until, next_try: step.now.time });
                    self.ask_back(step, handle);
                }
                // While a lease lives no raise has fenced its holder: a set may have shrunk.
                Entry::Occupied(mut fence) => fence.get_mut().above = version,
            }
        }
    }

    fn ask_back(&mut self, step: &mut ChunkStep<'_>, handle: ChunkHandle) {
        let lease = self.0.leases.get(handle).expect("it was found there");
        if lease.status != LeaseStatus::Serving {
            return;
        }
        let (id, holder) = (lease.id, lease.holder.clone());
        let revoke = RevokeLease { term: self.0.term.number, handle, lease: id };
        tell_revoked(step.out, &self.0.leases, (handle, id));
        self.0.leases.set_status(handle, id, LeaseStatus::Doubted);
        // The holder answers when it has drained.
        let deadline = step.now.time + self.0.term.config.lease();
        let purpose = AwaitedCall::Revoke(handle, id, None);
        self.0.in_flight.call(step.out, holder, revoke, deadline, purpose);
    }

    /// Raises a chunk that had a lease, once its holder has drained, or is not heard of.
    fn fence_chunk(
        &mut self,
        step: &mut ChunkStep<'_>,
        handle: ChunkHandle,
        fence: &mut Fence,
    ) -> Result<(), String> {
        // It may be purged meanwhile: then there is nothing to be fenced.
        let Some(chunk) = step.state.chunk(handle) else { return Ok(()) };
        let may_live = self.0.leases.possible(handle, step.now.time).is_some();
        if chunk.version > fence.above && !may_live {
            return Ok(());
        }
        if may_live && step.now.time < fence.drains_until {
            return Err(format!("the holder of the lease of chunk {} drains", handle.short()));
        }
        let view = self.0.view(step.now, step.state, step.fleet);
        if let Err(blocked) = plan_raise(&view, handle, &chunk) {
            return Err(format!("chunk {}: {}", handle.short(), blocked.why));
        }
        let why = format!("the replicas of chunk {} are being fenced", handle.short());
        if step.now.time < fence.next_try {
            return Err(why);
        }
        fence.next_try = step.now.time + self.0.term.heartbeat();
        self.0.change_set(step, handle, |view, chunk, acts| {
            let members = plan_raise(view, handle, chunk).ok()?;
            Some(PlaceJob::Grant(GrantJob::start(view, (handle, chunk), members, acts)))
        });
        Err(why)
    }

    /// The lengths that files have by what was acknowledged under leases that are over, where they
    /// are longer than recorded.
    pub(crate) fn lengths(&self, step: &ChunkStep<'_>, fences: &Fences) -> Vec<SetLength> {
        let view = self.0.view(step.now, step.state, step.fleet);
        fences.chunks.keys().filter_map(|handle| length::of_still(&view, *handle)).collect()
    }
}
