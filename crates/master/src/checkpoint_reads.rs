//! Pieces of this member's checkpoints, read for other members and for people who take a backup.

use crate::master_disk::PIECES_LANE;
use bytes::Bytes;
use cairn_env::{Caller, Effect, EffectId, Payload};
use cairn_master_core::{LogDone, LogJob, LogResult};
use cairn_protocol::{
    ErrorCode, Failure, FetchCheckpoint, FetchCheckpointAnswer, ReadBackup, ReadBackupAnswer,
    Request, Response,
};
use cairn_types::crc32c;
use std::collections::BTreeMap;

/// Pieces that are read at once for others: each is as much memory as it has bytes.
const READS_MAX: usize = 16;
/// Of these, for people: whoever takes backups keeps no member from its checkpoint.
const BACKUP_READS_MAX: usize = 8;
const _: () = assert!(BACKUP_READS_MAX < READS_MAX);

/// A piece, and how whoever asks for it is answered.
#[derive(Clone, Debug)]
pub(crate) struct PieceWish {
    piece: FetchCheckpoint,
    form: AnswerForm,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum AnswerForm {
    /// A member's, of a root.
    Root,
    /// A member's, of pages.
    Pages,
    /// A person's, of either.
    Backup,
}

impl PieceWish {
    /// What a request asks for, if it asks for a piece.
    pub(crate) fn of(request: &Request) -> Option<Self> {
        match request {
            Request::FetchCheckpoint(piece) => {
                let form = if piece.size == 0 { AnswerForm::Root } else { AnswerForm::Pages };
                Some(Self { piece: piece.clone(), form })
            }
            Request::ReadBackup(ReadBackup { index, offset, size }) => {
                let piece = FetchCheckpoint { index: *index, offset: *offset, size: *size };
                Some(Self { piece, form: AnswerForm::Backup })
            }
            _ => None,
        }
    }
}

/// Pieces that are being read.
#[derive(Debug, Default)]
pub(crate) struct CheckpointReads {
    reads: BTreeMap<EffectId, (Caller, AnswerForm)>,
}

impl CheckpointReads {
    /// Takes a wish for a piece, which this effect reads; or the refusal, where too many are read.
    pub(crate) fn begin(
        &mut self,
        id: EffectId,
        (from, wish): (Caller, PieceWish),
    ) -> Effect<LogJob> {
        let for_people = self.reads.values().filter(|(_, form)| *form == AnswerForm::Backup);
        let is_one_too_many =
            wish.form == AnswerForm::Backup && for_people.count() >= BACKUP_READS_MAX;
        if is_one_too_many || self.reads.len() >= READS_MAX {
            let line = "too many pieces of checkpoints are asked for at once; try again";
            return reply(from, Err(Failure::not_done(ErrorCode::Busy, line)), Bytes::new());
        }
        self.reads.insert(id, (from, wish.form));
        Effect::Disk { id, lane: PIECES_LANE, job: LogJob::ReadCheckpoint(wish.piece) }
    }

    /// The answer that this effect was for, if it was for one.
    pub(crate) fn end(&mut self, id: EffectId, result: &LogResult) -> Option<Effect<LogJob>> {
        let (to, form) = self.reads.remove(&id)?;
        let bytes = match result {
            Ok(LogDone::Piece(Some(bytes))) => bytes.clone(),
            Ok(_) => {
                let line = "that checkpoint is not here any more";
                let failure = Failure::refused(ErrorCode::NotFound, line);
                return Some(reply(to, Err(failure), Bytes::new()));
            }
            Err(error) => {
                let failure = Failure::refused(ErrorCode::Io, error.to_string());
                return Some(reply(to, Err(failure), Bytes::new()));
            }
        };
        let checksum = crc32c(&bytes);
        let (answer, payload) = match form {
            AnswerForm::Root => {
                let answer = FetchCheckpointAnswer { root: bytes, checksum: crc32c(&[]) };
                (Response::FetchCheckpoint(answer), Bytes::new())
            }
            AnswerForm::Pages => {
                let answer = FetchCheckpointAnswer { root: Bytes::new(), checksum };
                (Response::FetchCheckpoint(answer), bytes)
            }
            AnswerForm::Backup => {
                (Response::ReadBackup(ReadBackupAnswer { bytes, checksum }), Bytes::new())
            }
        };
        Some(reply(to, Ok(answer), payload))
    }
}

fn reply(to: Caller, answer: Result<Response, Failure>, payload: Bytes) -> Effect<LogJob> {
    Effect::Reply { to, answer, payload: Payload::Bytes(payload) }
}

#[cfg(test)]
mod tests {
    use super::{BACKUP_READS_MAX, CheckpointReads, PieceWish};
    use cairn_env::{Caller, Effect, EffectId};
    use cairn_protocol::{FetchCheckpoint, ReadBackup};

    #[test]
    fn whoever_takes_backups_keeps_no_member_from_its_checkpoint() {
        let mut reads = CheckpointReads::default();
        let mut next = 0;
        let mut is_read = |wish: Option<PieceWish>| {
            next += 1;
            let wish = (Caller::default(), wish.expect("it asks for a piece"));
            matches!(reads.begin(EffectId(next), wish), Effect::Disk { .. })
        };
        let backup = || PieceWish::of(&ReadBackup::default().into());
        for _ in 0..BACKUP_READS_MAX {
            assert!(is_read(backup()));
        }
        assert!(!is_read(backup()));
        assert!(is_read(PieceWish::of(&FetchCheckpoint::default().into())));
    }
}
