//! The checkers, one file each (design §13). They watch the seam in true time and say what must
//! never be otherwise; none asks the system under test for its opinion.

mod ack_set;
mod acknowledged_length;
mod append_only;
mod checker;
mod closed_for_ever;
mod deletions;
pub(crate) mod group_agrees;
pub(crate) mod it_heals;
pub(crate) mod linearizable_names;
pub(crate) mod linearization;
mod no_live_chunk_collected;
mod one_primary;
pub(crate) mod permissions_hold;
pub(crate) mod quotas_hold;
pub(crate) mod replay_is_state;
mod same_order;
pub(crate) mod shadow_is_prefix;
mod spent_numbers;
mod stream_chunks;
mod terms_fence;
mod version_first;

pub(crate) use checker::{Checker, Verdict};

/// Those that watch every run.
pub(crate) fn all() -> Vec<Box<dyn Checker>> {
    vec![
        Box::new(one_primary::OnePrimary::default()),
        Box::new(terms_fence::TermsFence::default()),
        Box::new(version_first::VersionFirst),
        Box::new(ack_set::AckSet),
        Box::new(acknowledged_length::AcknowledgedLength::default()),
        Box::new(append_only::AppendOnly::default()),
        Box::new(closed_for_ever::ClosedForEver::default()),
        Box::new(same_order::SameOrder::default()),
        Box::new(spent_numbers::SpentNumbers::default()),
        Box::new(stream_chunks::StreamChunks::default()),
        Box::new(no_live_chunk_collected::NoLiveChunkCollected::default()),
    ]
}
