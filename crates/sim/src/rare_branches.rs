//! The rare branches of the system under test, as reports count them: by what was asked, and how it
//! was answered.

use cairn_env_sim::SeenRequest;
use cairn_protocol::{BatchEntry, ErrorCode as Code, Failure, Request, Response};
use cairn_types::ChunkHandle;

/// Which branch an answer is of, if it is one that is counted.
pub(crate) fn rare_branch(
    seen: &SeenRequest<'_>,
    answer: &Result<Response, Failure>,
) -> Option<&'static str> {
    Some(match (seen.request, answer) {
        (Request::Raise(raise), Ok(_)) if raise.close => "raise with the close mark",
        (Request::Raise(_), Err(_)) => "raise refused",
        (Request::GrantLease(_), Ok(_)) => "lease granted",
        (Request::GrantLease(_), Err(_)) => "lease grant refused",
        (Request::SecondaryFailed(_), Ok(_)) => "secondary failed, set shrunk",
        (Request::SecondaryFailed(_), Err(_)) => "secondary failed, not shrunk",
        (Request::Probe(probe), Err(failure)) if probe.handle == ChunkHandle::default() => {
            match failure.code {
                Code::NoSuchChunk => return None,
                _ => "server not reached",
            }
        }
        (Request::Probe(_), _) => "probe",
        (Request::Fetch(_), Ok(_)) => "replica caught up with another",
        (Request::Batch(batch), _)
            if matches!(batch.entries.first(), Some(BatchEntry::Open(_))) =>
        {
            "files opened together"
        }
        (Request::RevokeLease(_), _) => "lease revoked",
        (Request::Join(_), Ok(_)) => "server joined",
        (Request::Write(_) | Request::Append(_) | Request::Read(_), Err(failure)) => {
            code_name(failure)
        }
        _ => return None,
    })
}

fn code_name(failure: &Failure) -> &'static str {
    match failure.code {
        Code::StaleVersion => "refused: stale version",
        Code::NotPrimary => "refused: not primary",
        Code::ChunkClosed => "refused: chunk closed",
        Code::PushMissing => "refused: push missing",
        Code::PastAcknowledged => "refused: past the acknowledged length",
        Code::ChecksumMismatch => "refused: checksum",
        Code::NoSuchChunk => "refused: no such chunk",
        Code::ReplicaFailed => "refused: replica failed",
        Code::Busy => "refused: busy",
        _ => "refused: other",
    }
}
