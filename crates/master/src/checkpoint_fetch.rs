//! Another member's checkpoint, fetched where this one lacks records that the others have no more.
//!
//! ```text
//!   offered ──► root ──► pages, piece by piece, each to disk ──► taken over: state and log from it
//!                 └─ no answer, or not there any more: over; the next offer goes on where it was
//! ```
//! - CF1: one is fetched at a time. An offer of the same member's checkpoint in the same page file
//!   goes on with what has come, for pages are only added to it; any other begins anew.
//! - CF2: a piece is compared with its checksum before it is kept; pages have their own.

use crate::master_disk::PIECE_SIZE;
use bytes::Bytes;
use cairn_consensus::CheckpointOffer;
use cairn_env::{Answer, EffectId};
use cairn_format::CheckpointRoot;
use cairn_master_core::{LogDone, LogJob, LogResult, TakenOver};
use cairn_protocol::{Failure, FetchCheckpoint, OfferedCheckpoint, Response};
use cairn_types::{ServerId, crc32c};

/// What to do next.
#[derive(Debug)]
pub(crate) enum FetchStep {
    /// Ask for this, of that member.
    Ask(ServerId, FetchCheckpoint),
    /// Have the disk do this.
    Disk(LogJob),
    /// It is durable here: the state and the log go on with it.
    TakeOver(CheckpointOffer, TakenOver),
    /// Nothing; there may be another offer.
    Rest,
}

/// What is waited for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Awaited {
    Call(EffectId),
    Disk(EffectId),
}

/// The checkpoint that is fetched.
#[derive(Debug, Default)]
pub(crate) struct CheckpointFetch {
    offer: Option<CheckpointOffer>,
    /// Its root file, and what that says.
    root: Option<(Bytes, CheckpointRoot)>,
    /// Whose page file has come so far: member, its number there, bytes (CF1).
    kept: Option<(ServerId, u64, u64)>,
    awaited: Option<Awaited>,
}

impl CheckpointFetch {
    /// A checkpoint is offered (CF1).
    pub(crate) fn offer(&mut self, offer: CheckpointOffer) -> FetchStep {
        if self.awaited.is_some() {
            return FetchStep::Rest;
        }
        self.root = None;
        self.offer = Some(offer);
        self.next()
    }

    fn next(&self) -> FetchStep {
        let Some(CheckpointOffer { from, checkpoint: OfferedCheckpoint { index, .. } }) =
            self.offer.as_ref()
        else {
            return FetchStep::Rest;
        };
        let (from, index) = (*from, *index);
        let Some((root, read)) = &self.root else {
            return FetchStep::Ask(from, FetchCheckpoint { index, offset: 0, size: 0 });
        };
        let offset = self.kept.map_or(0, |(_, _, bytes)| bytes);
        if offset >= read.page_file_size {
            return FetchStep::Disk(LogJob::TakeOver(root.clone()));
        }
        let size = (read.page_file_size - offset).min(PIECE_SIZE as u64);
        FetchStep::Ask(from, FetchCheckpoint { index, offset, size })
    }

    /// This call carries what was to be asked.
    pub(crate) fn asked(&mut self, id: EffectId) {
        self.awaited = Some(Awaited::Call(id));
    }

    /// This is what the disk was to do.
    pub(crate) fn told_disk(&mut self, id: EffectId) {
        self.awaited = Some(Awaited::Disk(id));
    }

    /// Whether this call was to another member for a piece; it is over.
    pub(crate) fn is_answer(&mut self, id: EffectId) -> bool {
        self.awaited.take_if(|awaited| *awaited == Awaited::Call(id)).is_some()
    }

    /// Whether the disk did this for it; it is done.
    pub(crate) fn is_done(&mut self, id: EffectId) -> bool {
        self.awaited.take_if(|awaited| *awaited == Awaited::Disk(id)).is_some()
    }

    /// A member answers, or does not.
    pub(crate) fn on_answer(&mut self, result: Result<Answer, Failure>) -> FetchStep {
        let (Ok(Answer { response: Response::FetchCheckpoint(answer), payload }), Some(offer)) =
            (result, &self.offer)
        else {
            // It may have another one by now.
            return FetchStep::Rest;
        };
        let Some((_, root)) = &self.root else {
            let Ok(root) = CheckpointRoot::decode(&answer.root) else { return FetchStep::Rest };
            if root.index != offer.checkpoint.index {
                return FetchStep::Rest;
            }
            let whose = (offer.from, root.page_file);
            let goes_on = |kept: &(ServerId, u64, u64)| {
                (kept.0, kept.1) == whose && kept.2 <= root.page_file_size
            };
            self.kept = self.kept.filter(goes_on).or(Some((whose.0, whose.1, 0)));
            self.root = Some((answer.root, root));
            return self.next();
        };
        let offset = self.kept.map_or(0, |(_, _, bytes)| bytes);
        let fits = offset + payload.len() as u64 <= root.page_file_size;
        if payload.is_empty() || !fits || crc32c(&payload) != answer.checksum {
            return FetchStep::Rest;
        }
        let size = payload.len() as u64;
        if let Some((.., bytes)) = &mut self.kept {
            *bytes += size;
        }
        FetchStep::Disk(LogJob::KeepPiece { offset, bytes: payload })
    }

    /// The disk has done its part, or has not.
    pub(crate) fn on_disk(&mut self, result: LogResult) -> FetchStep {
        match result {
            Ok(LogDone::Kept) => self.next(),
            Ok(LogDone::TakenOver(Some(taken))) => {
                let offer = std::mem::take(self).offer;
                let offer = offer.expect("what is taken over was offered");
                let OfferedCheckpoint { index, term, .. } = offer.checkpoint;
                let as_of = (taken.state.applied(), taken.state.applied_term());
                assert_eq!(as_of, (index, term), "it is what was offered");
                FetchStep::TakeOver(offer, taken)
            }
            // What has come is not known to be there, or does not read: anew with the next offer.
            _ => {
                *self = Self::default();
                FetchStep::Rest
            }
        }
    }
}
