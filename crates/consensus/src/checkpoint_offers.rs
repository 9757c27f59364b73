//! Checkpoints on offer: to members that lack what is no more in the primary's log, and to this
//! one.
//!
//! ```text
//!   primary: lacks records ──► OfferCheckpoint ──► member: offer ──(fetched, durable)──► take_over
//! ```
//! - CO1: whoever was offered one and has not got it is looked at anew now and then: the offer may
//!   be lost, or the checkpoint gone.
//! - CO2: an offer is taken by whoever fetches the checkpoint; the library hears of it when it is
//!   there.

use cairn_protocol::OfferedCheckpoint;
use cairn_types::ServerId;
use raft::{ProgressState, ProgressTracker};
use std::collections::BTreeMap;

/// Ticks until a checkpoint that was offered and not taken over is offered again.
const OFFER_TICKS: usize = 20;

/// A checkpoint of another member.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CheckpointOffer {
    /// Whose.
    pub from: ServerId,
    /// Which.
    pub checkpoint: OfferedCheckpoint,
}

/// What is on offer.
#[derive(Debug, Default)]
pub(crate) struct CheckpointOffers {
    /// The last one to this member, which nobody has taken yet.
    to_me: Option<CheckpointOffer>,
    /// Members that were offered one, and for how many ticks.
    to_others: BTreeMap<ServerId, usize>,
}

impl CheckpointOffers {
    pub(crate) fn note(&mut self, offer: CheckpointOffer) {
        self.to_me = Some(offer);
    }

    pub(crate) fn take(&mut self) -> Option<CheckpointOffer> {
        self.to_me.take()
    }

    /// A tick has passed: whose offer counts as lost (CO1).
    pub(crate) fn lost(&mut self, progress: &ProgressTracker) -> Vec<ServerId> {
        let waits = progress.iter().filter(|(_, it)| it.state == ProgressState::Snapshot);
        let waiting: Vec<ServerId> = waits.map(|(id, _)| ServerId::new(*id)).collect();
        self.to_others.retain(|id, _| waiting.contains(id));
        let mut lost = Vec::new();
        for id in waiting {
            let ticks = self.to_others.entry(id).or_default();
            *ticks += 1;
            if *ticks >= OFFER_TICKS {
                *ticks = 0;
                lost.push(id);
            }
        }
        lost
    }
}
