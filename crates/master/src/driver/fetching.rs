//! The driver's part in fetching a checkpoint from another member, and in going on with it.

use crate::checkpoint_fetch::FetchStep;
use crate::driver::Master;
use crate::master_disk::CHECKPOINT_LANE;
use cairn_consensus::{CheckpointOffer, ConsensusError};
use cairn_env::Now;
use cairn_master_core::{LogJob, MasterEffect, TakenOver};

impl Master {
    /// Does what comes next of the checkpoint that is fetched from another member.
    pub(super) fn go_on_fetching(
        &mut self,
        now: Now,
        step: FetchStep,
        wishes: &mut Vec<MasterEffect>,
    ) -> Result<(), ConsensusError> {
        match step {
            FetchStep::Rest => {}
            FetchStep::Ask(member, fetch) => {
                let id = self.fresh();
                // Of who is no member any more nothing is fetched.
                if let Some(call) = self.group.ask(now.time, id, (member, fetch.into())) {
                    self.fetch.asked(id);
                    wishes.push(MasterEffect::Env(call));
                }
            }
            FetchStep::Disk(job) => {
                let (id, job) = self.disk_effect(CHECKPOINT_LANE, job);
                self.fetch.told_disk(id);
                wishes.push(MasterEffect::Env(job));
            }
            FetchStep::TakeOver(offer, taken) => self.take_over(now, offer, taken, wishes)?,
        }
        Ok(())
    }

    /// Goes on with another member's checkpoint, which is durable here, in place of its own state.
    fn take_over(
        &mut self,
        now: Now,
        offer: CheckpointOffer,
        taken: TakenOver,
        wishes: &mut Vec<MasterEffect>,
    ) -> Result<(), ConsensusError> {
        let as_of = (offer.checkpoint.index, offer.checkpoint.term);
        if !self.group.consensus_mut().take_over(now.time, offer)? {
            return Ok(());
        }
        let before = self.role.replace_state(*taken.state);
        self.backlog.clear();
        self.page_file = Some(taken.page_file);
        wishes.extend(self.pace.take_over(as_of).into_iter().map(MasterEffect::Env));
        self.group.consensus_mut().has_checkpoint(as_of.0, as_of.1);
        self.gauges.has_checkpoint(now.time, as_of.0);
        let (_, free) = self.disk_effect(CHECKPOINT_LANE, LogJob::Free(before.into()));
        wishes.push(MasterEffect::Env(free));
        Ok(())
    }
}
