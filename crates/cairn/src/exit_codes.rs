//! Exit codes: stable, one per kind of failure, so that scripts can tell them apart.
//!
//! The table stands in `docs/guide/exit-codes.md` too; a number is never given another meaning.

use cairn_protocol::{ErrorCode, Outcome};

/// How the process ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Exit {
    /// A defect, or a failure that has no code of its own.
    Failed = 1,
    /// The command line, a setting, an address or a path can never be right.
    Usage = 2,
    /// No such path in the cell.
    NotFound = 3,
    /// The name is taken, or the directory is not empty.
    Exists = 4,
    /// A directory where a file is meant, or the other way round.
    WrongKind = 5,
    /// No answer: nobody listens there, or what does is no cell of this kind.
    Unreachable = 6,
    /// The cell cannot do it now: too few servers, a replica lost, busy.
    NotNow = 7,
    /// No space left.
    Full = 8,
    /// Bytes did not match their checksum, or a verification failed.
    Damaged = 9,
    /// Another cell, another server, another protocol version than the one meant.
    Stranger = 10,
    /// It may have happened: the answer never came.
    Unknown = 11,
    /// This machine's files: reading or writing one failed.
    Local = 12,
    /// A server stopped by itself rather than go on.
    Halted = 13,
    /// `status --check`, `fsck`: the cell serves, and has less redundancy than it should.
    Degraded = 14,
    /// Owner, group and mode of a path do not allow it.
    Denied = 15,
    /// The quota of a directory allows no more.
    Quota = 16,
    /// Another opening of the producer has taken over.
    Fenced = 17,
    /// Whoever read our output has gone; as shells report SIGPIPE. Nothing is printed.
    ReaderGone = 141,
}

impl Exit {
    /// The code of a failure that a cell reported.
    pub(crate) fn of(code: ErrorCode, outcome: Outcome) -> Self {
        match code {
            ErrorCode::NotFound => Self::NotFound,
            ErrorCode::AlreadyExists | ErrorCode::DirectoryNotEmpty => Self::Exists,
            ErrorCode::NotADirectory | ErrorCode::IsADirectory => Self::WrongKind,
            ErrorCode::Invalid | ErrorCode::RecordTooLarge => Self::Usage,
            ErrorCode::DiskFull => Self::Full,
            ErrorCode::QuotaExceeded => Self::Quota,
            ErrorCode::PermissionDenied => Self::Denied,
            ErrorCode::ProducerFenced => Self::Fenced,
            ErrorCode::ChecksumMismatch | ErrorCode::BytesDiffer | ErrorCode::LostBytes => {
                Self::Damaged
            }
            ErrorCode::WrongCell | ErrorCode::WrongServer | ErrorCode::VersionUnsupported => {
                Self::Stranger
            }
            ErrorCode::TooFewServers
            | ErrorCode::Busy
            | ErrorCode::NotPrimaryMaster
            | ErrorCode::StaleVersion
            | ErrorCode::NotPrimary
            | ErrorCode::ChunkClosed
            | ErrorCode::PushMissing
            | ErrorCode::PastAcknowledged
            | ErrorCode::NoSuchChunk
            | ErrorCode::ReplicaFailed
            | ErrorCode::ChainBroken
            | ErrorCode::OutOfOrder
            | ErrorCode::StreamLocked => Self::NotNow,
            ErrorCode::DeadlineExceeded | ErrorCode::Unreachable if outcome == Outcome::Unknown => {
                Self::Unknown
            }
            ErrorCode::DeadlineExceeded | ErrorCode::Unreachable => Self::Unreachable,
            ErrorCode::Internal | ErrorCode::TooOld | ErrorCode::Io => Self::Failed,
        }
    }

    /// The number that the shell sees.
    pub(crate) fn number(self) -> u8 {
        self as u8
    }
}

/// What a person can do where a stream has no such producer: [`advice`] is that of paths.
pub(crate) const PRODUCER_ADVICE: &str = "'cairn producers' shows which there are";

/// What a person can do about a failure that a cell reported.
pub(crate) fn advice(code: ErrorCode, outcome: Outcome) -> &'static str {
    match code {
        ErrorCode::NotFound => "look with 'cairn ls' what is there",
        // Commands that can replace what is there say so themselves.
        ErrorCode::AlreadyExists => "choose another name",
        ErrorCode::DirectoryNotEmpty => "rm -r removes a directory with what is in it",
        ErrorCode::NotADirectory => "a part of the path is a file: name a directory",
        ErrorCode::IsADirectory => "name a file, or use -r where the command has it",
        ErrorCode::Invalid => "correct it and try again",
        ErrorCode::RecordTooLarge => "a record has at most a quarter of a chunk: cut it up",
        ErrorCode::TooFewServers => {
            "start more chunkservers, or wait for them; 'cairn servers' shows who is there"
        }
        ErrorCode::DiskFull => {
            "make room on that disk; for chunkservers also: remove files, or add servers"
        }
        ErrorCode::QuotaExceeded => {
            "'cairn quota' shows what counts; what is deleted counts until it is purged"
        }
        ErrorCode::ChecksumMismatch => "'cairn explain' says which replicas are left",
        ErrorCode::WrongCell | ErrorCode::WrongServer => {
            "check --cell and which server listens at that address"
        }
        ErrorCode::VersionUnsupported => "upgrade the older side",
        ErrorCode::Unreachable | ErrorCode::DeadlineExceeded if outcome == Outcome::Unknown => {
            "it may have happened: look before you repeat it"
        }
        ErrorCode::Unreachable | ErrorCode::DeadlineExceeded => {
            "check --cell (or CAIRN_CELL) and whether a master runs there"
        }
        ErrorCode::PermissionDenied => "'cairn ls -ld' shows whose a path is; --as says who asks",
        ErrorCode::ProducerFenced => {
            "'cairn producers' shows how it stands; let one process at a time have a name"
        }
        ErrorCode::StreamLocked => {
            "try again when whoever has it has closed it, or its lease is over"
        }
        ErrorCode::LostBytes => {
            "'cairn fsck FILE' tells all of it, 'cairn explain' whether a server that was left out \
             keeps it; 'cairn fsck FILE --skip-lost' lets readers pass over it"
        }
        ErrorCode::TooOld => "start the command anew",
        ErrorCode::Io => "see the server's log and its disk",
        ErrorCode::Internal => "this is a defect: please report it with this line",
        _ => "try again in a moment; 'cairn status' and 'cairn explain' say what is going on",
    }
}

#[cfg(test)]
mod tests {
    use super::{Exit, advice};
    use cairn_protocol::{ErrorCode, Outcome};

    #[test]
    fn a_lost_answer_to_a_mutation_has_another_code_than_a_cell_that_is_not_there() {
        assert_eq!(Exit::of(ErrorCode::Unreachable, Outcome::NotDone).number(), 6);
        assert_eq!(Exit::of(ErrorCode::DeadlineExceeded, Outcome::Unknown).number(), 11);
    }

    #[test]
    fn the_guide_lists_every_code_with_its_number() {
        let guide = include_str!("../../../docs/guide/exit-codes.md");
        for code in (1..=17).chain([141]) {
            assert!(guide.contains(&format!("| {code} |")), "exit code {code} is not in the guide");
        }
        assert!(!guide.contains("| 18 |"), "a code of the guide that does not exist");
    }

    #[test]
    fn every_failure_of_a_cell_comes_with_one_line_of_advice() {
        for code in ErrorCode::ALL {
            for outcome in Outcome::ALL {
                let line = advice(*code, *outcome);
                assert!(!line.is_empty() && !line.contains('\n'), "{code:?}");
            }
        }
    }
}
