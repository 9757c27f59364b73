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

#[cfg(test)]
mod tests {
    use super::{CheckpointFetch, FetchStep};
    use crate::master_disk::PIECE_SIZE;
    use bytes::Bytes;
    use cairn_consensus::CheckpointOffer;
    use cairn_env::{Answer, DiskError, EffectId};
    use cairn_format::CheckpointRoot;
    use cairn_master_core::{LogDone, LogJob};
    use cairn_protocol::{
        ErrorCode, Failure, FetchCheckpoint, FetchCheckpointAnswer, OfferedCheckpoint, Response,
    };
    use cairn_types::{LogIndex, ServerId, crc32c};

    const PIECE: u64 = PIECE_SIZE as u64;
    /// Of a page file: two pieces, and a bit.
    const PAGES: u64 = 2 * PIECE + 5;

    fn offer(from: u64, index: u64) -> CheckpointOffer {
        let checkpoint =
            OfferedCheckpoint { index: LogIndex::new(index), ..OfferedCheckpoint::default() };
        CheckpointOffer { from: ServerId::new(from), checkpoint }
    }

    fn root(index: u64, (page_file, page_file_size): (u64, u64)) -> Answer {
        let index = LogIndex::new(index);
        let root = CheckpointRoot { index, page_file, page_file_size, ..CheckpointRoot::default() };
        let answer = FetchCheckpointAnswer { root: root.encode().into(), checksum: crc32c(&[]) };
        Answer { response: Response::FetchCheckpoint(answer), payload: Bytes::new() }
    }

    fn piece(size: u64) -> Answer {
        let payload = Bytes::from(vec![7; usize::try_from(size).expect("small")]);
        let answer = FetchCheckpointAnswer { root: Bytes::new(), checksum: crc32c(&payload) };
        Answer { response: Response::FetchCheckpoint(answer), payload }
    }

    /// Where it asks for pages, and for how many; nothing of both: for the root.
    fn asked_for(step: &FetchStep) -> (u64, u64) {
        match step {
            FetchStep::Ask(_, FetchCheckpoint { offset, size, .. }) => (*offset, *size),
            other => panic!("it asks for nothing: {other:?}"),
        }
    }

    /// What it asked is answered.
    fn answered(fetch: &mut CheckpointFetch, answer: Answer) -> FetchStep {
        fetch.asked(EffectId(1));
        assert!(fetch.is_answer(EffectId(1)), "it waits for this");
        fetch.on_answer(Ok(answer))
    }

    /// Whom it asked does not answer.
    fn unanswered(fetch: &mut CheckpointFetch) {
        fetch.asked(EffectId(1));
        assert!(fetch.is_answer(EffectId(1)), "it waits for this");
        let gone = Failure::not_done(ErrorCode::Unreachable, "gone");
        assert!(matches!(fetch.on_answer(Err(gone)), FetchStep::Rest));
    }

    /// A piece comes, and is kept at this offset.
    fn kept(fetch: &mut CheckpointFetch, size: u64, at: u64) -> FetchStep {
        match answered(fetch, piece(size)) {
            FetchStep::Disk(LogJob::KeepPiece { offset, .. }) => assert_eq!(offset, at),
            other => panic!("it is not kept: {other:?}"),
        }
        fetch.told_disk(EffectId(2));
        assert!(fetch.is_done(EffectId(2)), "it waits for this");
        fetch.on_disk(Ok(LogDone::Kept))
    }

    /// One piece of member 1's page file 4 has come, and then nobody answers.
    fn cut_short() -> CheckpointFetch {
        let mut fetch = CheckpointFetch::default();
        assert_eq!(asked_for(&fetch.offer(offer(1, 10))), (0, 0));
        assert_eq!(asked_for(&answered(&mut fetch, root(10, (4, PAGES)))), (0, PIECE));
        assert_eq!(asked_for(&kept(&mut fetch, PIECE, 0)), (PIECE, PIECE));
        unanswered(&mut fetch);
        fetch
    }

    /// Where it goes on, by an offer of this and what its root says.
    fn goes_on_at(fetch: &mut CheckpointFetch, offered: (u64, u64), pages: (u64, u64)) -> u64 {
        let (from, index) = offered;
        assert_eq!(asked_for(&fetch.offer(offer(from, index))), (0, 0), "its root first");
        asked_for(&answered(fetch, root(index, pages))).0
    }

    #[test]
    fn the_same_page_file_offered_again_goes_on_with_what_has_come() {
        let mut fetch = cut_short();
        assert_eq!(goes_on_at(&mut fetch, (1, 10), (4, PAGES)), PIECE);
        // Cut short before anything more has come, and there is a later checkpoint in it by now.
        unanswered(&mut fetch);
        assert_eq!(goes_on_at(&mut fetch, (1, 12), (4, PAGES + PIECE)), PIECE);
        assert_eq!(asked_for(&kept(&mut fetch, PIECE, PIECE)), (2 * PIECE, PIECE));
        assert_eq!(asked_for(&kept(&mut fetch, PIECE, 2 * PIECE)), (3 * PIECE, 5));
        match kept(&mut fetch, 5, 3 * PIECE) {
            FetchStep::Disk(LogJob::TakeOver(root)) => {
                let root = CheckpointRoot::decode(&root).expect("whole");
                assert_eq!(root.index, LogIndex::new(12), "the last one offered");
            }
            other => panic!("all has come: {other:?}"),
        }
    }

    #[test]
    fn pages_of_another_file_or_another_member_begin_anew() {
        assert_eq!(goes_on_at(&mut cut_short(), (1, 10), (5, PAGES)), 0, "another file");
        assert_eq!(goes_on_at(&mut cut_short(), (2, 10), (4, PAGES)), 0, "another member");
        assert_eq!(goes_on_at(&mut cut_short(), (1, 10), (4, PIECE - 1)), 0, "less than has come");
        // What came of the first is gone by then.
        let mut fetch = cut_short();
        goes_on_at(&mut fetch, (2, 10), (4, PAGES));
        unanswered(&mut fetch);
        assert_eq!(goes_on_at(&mut fetch, (1, 10), (4, PAGES)), 0);
    }

    #[test]
    fn a_piece_that_came_damaged_or_did_not_get_to_the_disk_is_asked_for_again() {
        let mut fetch = cut_short();
        goes_on_at(&mut fetch, (1, 10), (4, PAGES));
        let mut damaged = piece(PIECE);
        damaged.payload = Bytes::from(vec![8; PIECE_SIZE]);
        for wrong in [damaged, piece(0), piece(PAGES)] {
            assert!(matches!(answered(&mut fetch, wrong), FetchStep::Rest));
            assert_eq!(goes_on_at(&mut fetch, (1, 10), (4, PAGES)), PIECE);
        }
        // What is on the disk is not known any more.
        let step = answered(&mut fetch, piece(PIECE));
        assert!(matches!(step, FetchStep::Disk(LogJob::KeepPiece { .. })));
        fetch.told_disk(EffectId(2));
        assert!(fetch.is_done(EffectId(2)));
        assert!(matches!(fetch.on_disk(Err(DiskError::NoSpace)), FetchStep::Rest));
        assert_eq!(goes_on_at(&mut fetch, (1, 10), (4, PAGES)), 0);
    }

    #[test]
    fn one_checkpoint_is_fetched_at_a_time() {
        let mut fetch = CheckpointFetch::default();
        assert_eq!(asked_for(&fetch.offer(offer(1, 10))), (0, 0));
        fetch.asked(EffectId(1));
        assert!(matches!(fetch.offer(offer(2, 11)), FetchStep::Rest));
        assert!(fetch.is_answer(EffectId(1)));
        let of_another = fetch.on_answer(Ok(root(11, (4, PAGES))));
        assert!(matches!(of_another, FetchStep::Rest), "it was not offered");
    }
}
