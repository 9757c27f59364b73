//! The error that travels: a code for machines, a line for people, and what may have happened.

use cairn_types::{Address, ServerId};

cairn_types::code! {
    /// What may have happened to a request that failed.
    #[derive(Default)]
    pub enum Outcome {
        /// Nothing happened; retry freely.
        NotDone = 1,
        /// It may have happened; a time-out is this.
        #[default]
        Unknown = 2,
        /// Nothing happened, and the same request will never succeed.
        Refused = 3,
    }
}

cairn_types::code! {
    /// Why a request failed. Stable: exit codes and retry rules hang on it.
    #[derive(Default)]
    pub enum ErrorCode {
        /// A defect: the server broke one of its own rules and says so.
        #[default]
        Internal = 1,
        /// No entry of that name, or no file of that id.
        NotFound = 2,
        /// The name is taken.
        AlreadyExists = 3,
        /// A file where a directory is meant.
        NotADirectory = 4,
        /// A directory where a file is meant.
        IsADirectory = 5,
        /// The directory has entries.
        DirectoryNotEmpty = 6,
        /// The argument can never be right (a directory moved into itself, a size over its limit).
        Invalid = 7,
        /// The record is larger than a quarter of a chunk.
        RecordTooLarge = 8,
        /// Another chunk version than the one named; ask the master again.
        StaleVersion = 9,
        /// This server does not hold that lease (any more); ask the master again.
        NotPrimary = 10,
        /// The chunk is closed to appends; go on in the next one.
        ChunkClosed = 11,
        /// The pushed data is not, or no longer, in the buffer; push again.
        PushMissing = 12,
        /// Fewer usable chunkservers than the request needs.
        TooFewServers = 13,
        /// No space left.
        DiskFull = 14,
        /// Bytes do not match their checksum.
        ChecksumMismatch = 15,
        /// A server or client of another cell.
        WrongCell = 16,
        /// Another server answers at this address than the one meant, or a second incarnation.
        WrongServer = 17,
        /// No common protocol version.
        VersionUnsupported = 18,
        /// Not now: a lease is still running, a set is being changed, locations not yet known.
        Busy = 19,
        /// A master of an older term, or one that is not the primary master.
        NotPrimaryMaster = 20,
        /// Bytes past the acknowledged length; ask the primary, or the master to level (R17).
        PastAcknowledged = 21,
        /// This server holds no such chunk.
        NoSuchChunk = 22,
        /// The mutation's number is older than what is remembered (R24).
        TooOld = 23,
        /// A disk refused to read or write.
        Io = 24,
        /// A secondary failed while the mutation was on its way.
        ReplicaFailed = 25,
        /// The next server of a push chain could not be reached.
        ChainBroken = 26,
        /// The serial number is not the next one (R13).
        OutOfOrder = 27,
        /// The deadline that the caller set has passed.
        DeadlineExceeded = 28,
        /// No server listens at the address, or the network does not reach it.
        Unreachable = 29,
        /// Owner, group and mode do not allow it to who asks.
        PermissionDenied = 30,
        /// More than the quota of a directory allows (R36).
        QuotaExceeded = 31,
        /// The producer was opened again since, by its name: this epoch of it is over (R38).
        ProducerFenced = 32,
        /// Other bytes stand there already (R40).
        BytesDiffer = 33,
        /// Somebody has the stream exclusively (R46).
        StreamLocked = 34,
        /// What was committed of a stream, no server of the chunk has any more (R41).
        LostBytes = 35,
    }
}

cairn_types::message! {
    /// A failed request's answer.
    #[derive(thiserror::Error)]
    #[error("{message}")]
    pub struct Failure {
        1 => code: ErrorCode,
        2 => outcome: Outcome,
        /// One line: what was being done, to what, why not.
        3 => message: String,
        /// The server that failed, where that is not the one that answers.
        4 => server: ServerId,
        /// The primary master, where a master refuses because it is not: as far as it knows, which
        /// may be long ago. Empty: it knows none.
        5 => primary: Address,
    }
}

impl Failure {
    /// Nothing happened; a later try may succeed.
    #[must_use]
    pub fn not_done(code: ErrorCode, message: impl Into<String>) -> Self {
        Self::with(code, Outcome::NotDone, message)
    }

    /// Nothing happened, and nothing ever will of this request.
    #[must_use]
    pub fn refused(code: ErrorCode, message: impl Into<String>) -> Self {
        Self::with(code, Outcome::Refused, message)
    }

    /// It may have happened.
    #[must_use]
    pub fn unknown(code: ErrorCode, message: impl Into<String>) -> Self {
        Self::with(code, Outcome::Unknown, message)
    }

    /// A master that is not in charge did nothing; `primary` is who is, as far as it knows.
    #[must_use]
    pub fn not_primary_master(message: impl Into<String>, primary: Option<Address>) -> Self {
        let primary = primary.unwrap_or_default();
        Self { primary, ..Self::not_done(ErrorCode::NotPrimaryMaster, message) }
    }

    /// Cuts the line to this many bytes at most.
    pub fn shorten(&mut self, size_max: usize) {
        self.message.truncate(self.message.floor_char_boundary(size_max));
    }

    fn with(code: ErrorCode, outcome: Outcome, message: impl Into<String>) -> Self {
        let (message, server, primary) = (message.into(), ServerId::default(), Address::default());
        Self { code, outcome, message, server, primary }
    }
}

/// A cell's settings came, and do not fit together: nobody may count by them.
impl From<cairn_types::ConfigError> for Failure {
    fn from(error: cairn_types::ConfigError) -> Self {
        Self::not_done(ErrorCode::Invalid, format!("the master's answer: {error}"))
    }
}

#[cfg(test)]
mod tests {
    use super::{ErrorCode, Failure, Outcome};
    use cairn_types::sample::{Sample, check_bytes, check_wire};
    use cairn_types::wire::Message;
    use cairn_types::{Address, Random};
    use proptest::prelude::{any, proptest};

    #[test]
    fn a_master_that_is_not_in_charge_names_who_is_and_costs_nothing_where_it_knows_none() {
        let size = |failure: &Failure| {
            let mut raw = Vec::new();
            failure.encode(&mut raw);
            raw.len()
        };
        let hint = Failure::not_primary_master("a shadow", Some(Address::new("m2:7400")));
        assert_eq!((hint.code, hint.outcome), (ErrorCode::NotPrimaryMaster, Outcome::NotDone));
        assert_eq!(hint.primary.as_str(), "m2:7400");
        let none = Failure::not_primary_master("a shadow", None);
        assert_eq!(none, Failure::not_done(ErrorCode::NotPrimaryMaster, "a shadow"));
        assert_eq!(size(&hint) - size(&none), "m2:7400".len() + 2);
    }

    proptest! {
        #[test]
        fn every_failure_comes_back_and_no_damage_makes_it_panic(seed: u64) {
            let random = &mut Random::new(seed);
            check_wire(&Failure::sample(random), random);
        }

        #[test]
        fn no_bytes_make_it_panic(raw in proptest::collection::vec(any::<u8>(), 0..100)) {
            check_bytes::<Failure>(&raw);
        }
    }
}
