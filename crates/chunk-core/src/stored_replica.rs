//! What this server's disk holds of one chunk, as its decisions know it.
//!
//! - T1: a version only rises.
//! - T2: no more is told as acknowledged than is stored here (R17).

use crate::outbox::{DiskPurpose, Outbox, ReplicaJob};
use crate::told::told_of;
use cairn_env::{
    ApplyMutation, ChunkDone, ChunkError, ChunkJob, ChunkResult, Effect, JournalEntry, LogEvent,
};
use cairn_protocol::{ErrorCode, Failure, Forwarded, LevelSource, Raise, ReplicaReport};
use cairn_types::planted::{Rule, broken};
use cairn_types::{ChunkHandle, ChunkVersion, LeaseId, ReplicaAt, SerialNumber};

/// How far a chunk's bytes are acknowledged: where readers may go (R17), and what no up-to-date
/// replica lacks (R29).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct AcknowledgedMark {
    pub(crate) length: u64,
    pub(crate) serial: SerialNumber,
}

/// Whether the disk has said how a replica stands. After a change that failed half-way it may have
/// got further than was heard.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum DiskWord {
    #[default]
    Known,
    Asked,
    /// It was asked, and did not say.
    Owed,
}

#[derive(Debug, Default)]
pub(crate) struct StoredReplica {
    handle: ChunkHandle,
    version: ChunkVersion,
    mutated_version: ChunkVersion,
    serial: SerialNumber,
    length: u64,
    acknowledged: AcknowledgedMark,
    closed: bool,
    suspect: bool,
    damaged: bool,
    end_unknown: bool,
    /// It could not be read when its server started, and nothing was asked of it since.
    unread: bool,
    disk_word: DiskWord,
    /// Its set goes on without it, as its master said.
    left_out: bool,
    /// Bytes that were counted for it last.
    counted: u64,
}

impl StoredReplica {
    /// A replica that a raise is about to create (R10).
    pub(crate) fn to_be_created(handle: ChunkHandle) -> Self {
        Self { handle, ..Self::default() }
    }

    /// A replica that a clone is about to become: it has bytes, and no version yet (R30).
    pub(crate) fn of_clone(stands: &ReplicaReport) -> Self {
        assert!(!stands.suspect, "a clone of bytes that may be lost");
        let version = ChunkVersion::default();
        Self::from_recovered(&ReplicaReport { version, closed: false, ..stands.clone() })
    }

    /// A replica as its disk was found.
    pub(crate) fn from_recovered(recovered: &ReplicaReport) -> Self {
        Self {
            handle: recovered.handle,
            version: recovered.version,
            mutated_version: recovered.mutated_version,
            serial: recovered.serial,
            length: recovered.length,
            acknowledged: AcknowledgedMark {
                length: recovered.acknowledged,
                serial: recovered.acknowledged_serial,
            },
            closed: recovered.closed,
            suspect: recovered.suspect,
            damaged: false,
            end_unknown: false,
            unread: false,
            disk_word: DiskWord::Known,
            left_out: false,
            counted: recovered.length,
        }
    }

    pub(crate) fn report(&self) -> ReplicaReport {
        ReplicaReport {
            handle: self.handle,
            version: self.version,
            mutated_version: self.mutated_version,
            serial: self.serial,
            length: self.length,
            closed: self.closed,
            suspect: self.suspect,
            acknowledged: self.acknowledged.length,
            acknowledged_serial: self.acknowledged.serial,
        }
    }

    /// How it stands, as one that others are levelled by; it is `at` that server (R16).
    pub(crate) fn as_source(&self, at: ReplicaAt) -> LevelSource {
        let Self { mutated_version, serial, length, .. } = *self;
        LevelSource { at, mutated_version, serial, length }
    }

    /// Whether its bytes are those of the source: in one order, the same mutations.
    pub(crate) fn stands_as(&self, source: &LevelSource) -> bool {
        *source == self.as_source(source.at.clone())
    }

    pub(crate) fn handle(&self) -> ChunkHandle {
        self.handle
    }

    pub(crate) fn version(&self) -> ChunkVersion {
        self.version
    }

    /// The serial number of the last mutation that it applied.
    pub(crate) fn serial(&self) -> SerialNumber {
        self.serial
    }

    /// Bytes that are counted for it.
    pub(crate) fn counted(&self) -> u64 {
        self.counted
    }

    /// Counts its bytes anew: as it was counted before, and now.
    pub(crate) fn count(&mut self) -> (u64, u64) {
        let before = std::mem::replace(&mut self.counted, self.length);
        (before, self.counted)
    }

    /// Stored bytes.
    pub(crate) fn length(&self) -> u64 {
        self.length
    }

    pub(crate) fn acknowledged(&self) -> AcknowledgedMark {
        self.acknowledged
    }

    /// Whether it has the close mark (R18).
    pub(crate) fn is_closed(&self) -> bool {
        self.closed
    }

    /// Whether it may have lost bytes (R27).
    pub(crate) fn is_suspect(&self) -> bool {
        self.suspect
    }

    /// Whether a stored block failed its checksum: no lease, and readers only where no other
    /// replica is left, until it is replaced.
    pub(crate) fn is_damaged(&self) -> bool {
        self.damaged
    }

    /// Whether `version` is the one it stands at (R12).
    pub(crate) fn check_version(&self, version: ChunkVersion) -> Result<(), Failure> {
        if version == self.version || broken(Rule::R12) {
            return Ok(());
        }
        Err(Failure::not_done(
            ErrorCode::StaleVersion,
            format!(
                "chunk {} stands at version {} here, the request names {}",
                self.handle.short(),
                self.version.short(),
                version.short()
            ),
        ))
    }

    /// Whether it may be raised so (R7).
    pub(crate) fn check_raise(&self, raise: &Raise) -> Result<(), Failure> {
        if !raise.create && !raise.adopt {
            self.check_version(raise.from)?;
        }
        if raise.to > self.version {
            return Ok(());
        }
        let why = format!("a raise to {} goes backwards", raise.to.short());
        Err(Failure::not_done(ErrorCode::StaleVersion, why))
    }

    /// Stands at a newer version from here on, whether or not it is durable yet. A close mark is
    /// taken only once it is: readers go on in the next chunk by it (R18).
    pub(crate) fn rise(&mut self, raise: &Raise) {
        assert!(raise.to > self.version, "{} is not a raise of {} (T1)", raise.to, self.version);
        self.version = raise.to;
        // It is asked, so it may be of the set again; what it holds is the set's to say.
        (self.left_out, self.unread) = (false, false);
    }

    /// The set stands at `version`: below it, this replica is none of it.
    pub(crate) fn leave_out(&mut self, version: ChunkVersion) {
        self.left_out |= self.version < version;
    }

    /// Whether its set goes on without it.
    pub(crate) fn is_left_out(&self) -> bool {
        self.left_out
    }

    /// The close mark is durable here (R18).
    pub(crate) fn close(&mut self, out: &mut Outbox) {
        if !std::mem::replace(&mut self.closed, true) {
            out.debug(|| self.told(LogEvent::debug("chunk closed")));
        }
    }

    /// The event with how this replica stands.
    pub(crate) fn told(&self, event: LogEvent) -> LogEvent {
        told_of(event, &self.report())
    }

    /// What has become of a lease of its chunk.
    pub(crate) fn told_lease(&self, name: &'static str, lease: LeaseId) -> LogEvent {
        self.told(LogEvent::debug(name)).with("lease", lease.short())
    }

    /// It stands where a raise has brought it, durably.
    pub(crate) fn tell_raised(&self, out: &mut Outbox, raise: &Raise) {
        let name = match (raise.create || raise.adopt, raise.close && raise.committed.is_some()) {
            (true, _) => "replica made",
            // A stream's chunk, of which the log says how much is committed.
            (false, true) => "chunk sealed",
            (false, false) => "raise taken",
        };
        out.debug(|| self.told(LogEvent::debug(name)));
    }

    /// The disk holds this much, up to that serial number, under the present version.
    pub(crate) fn changed(&mut self, length: u64, serial: SerialNumber) {
        self.length = length;
        self.serial = serial;
        self.mutated_version = self.version;
    }

    /// A bundle stands in a stream's chunk, as the disk says; it may have been there before (R40).
    pub(crate) fn extended(&mut self, length: u64, serial: SerialNumber) {
        if (length, serial) != (self.length, self.serial) {
            self.changed(length, serial);
        }
    }

    /// A change of its bytes failed, and not before the first one: the disk is asked how it stands,
    /// before whoever asks for bytes is told.
    pub(crate) fn fail_half_way(&mut self, out: &mut Outbox) {
        self.ask_disk(out);
    }

    /// Whether a raise may become durable now; else the disk has something to do or to say first.
    pub(crate) fn is_ready_to_rise(&mut self, out: &mut Outbox, raise: &Raise) -> bool {
        // What is adopted is on disk already.
        let syncs = raise.sync && !raise.adopt;
        match self.disk_word {
            DiskWord::Known if syncs => self.sync(out, ReplicaJob::SyncToRaise),
            DiskWord::Known => return true,
            DiskWord::Asked | DiskWord::Owed => self.ask_disk(out),
        }
        false
    }

    /// Asks the disk how it stands, unless it is asked; it brings that to disk.
    fn ask_disk(&mut self, out: &mut Outbox) {
        if std::mem::replace(&mut self.disk_word, DiskWord::Asked) != DiskWord::Asked {
            let job = ChunkJob::Reopen { handle: self.handle };
            out.replica_job(self.handle, ReplicaJob::Stand, job);
        }
    }

    /// The disk has said how it stands; false: not of this replica, but of one before it.
    pub(crate) fn on_stood(&mut self, result: ChunkResult) -> Result<bool, ChunkError> {
        if self.disk_word != DiskWord::Asked {
            return Ok(false);
        }
        self.disk_word = DiskWord::Owed;
        match result {
            Ok(ChunkDone::Reopened(stands)) => {
                self.disk_word = DiskWord::Known;
                self.length = stands.length;
                self.serial = stands.serial;
                self.mutated_version = stands.mutated_version;
                Ok(true)
            }
            Ok(done) => panic!("a replica was to be looked at, and came to {done:?}"),
            Err(error) => {
                self.learn_of(&error);
                Err(error)
            }
        }
    }

    /// What a disk error says about the bytes.
    pub(crate) fn learn_of(&mut self, error: &ChunkError) {
        self.damaged |= matches!(error, ChunkError::Corrupt { .. });
    }

    /// Whether it lacks bytes that it had, and nobody knows how many.
    pub(crate) fn is_end_unknown(&self) -> bool {
        self.end_unknown
    }

    /// What one is told who asks for such bytes.
    pub(crate) fn end_lost(&self) -> Failure {
        let short = self.handle.short();
        let why = format!("chunk {short} is damaged here: what it held is lost");
        Failure::not_done(ErrorCode::ChecksumMismatch, why)
    }

    /// Its disk has lost bytes of it, nobody knows how many.
    pub(crate) fn lose_bytes(&mut self) {
        (self.damaged, self.end_unknown) = (true, true);
    }

    /// Nobody knows what it holds, because it cannot be read.
    pub(crate) fn leave_unread(&mut self) {
        assert!(self.end_unknown, "what was read is known");
        self.unread = true;
    }

    /// Whether what it holds may be found by reading it once more.
    pub(crate) fn is_unread(&self) -> bool {
        self.unread
    }

    /// It has been read: it stands so, and is verified next. Whether it was to be read.
    pub(crate) fn reopen(&mut self, stands: &ReplicaReport) -> bool {
        if !self.unread || stands.version != self.version {
            return false;
        }
        let Self { left_out, counted, .. } = *self;
        *self = Self { damaged: true, left_out, counted, ..Self::from_recovered(stands) };
        true
    }

    /// Whether all that was ever promised of it may still be here, though a block was found bad.
    pub(crate) fn may_turn_out_sound(&self) -> bool {
        self.damaged && !self.suspect && !self.end_unknown
    }

    /// Every block of it was verified since one was found bad.
    pub(crate) fn turn_out_sound(&mut self) {
        assert!(self.may_turn_out_sound(), "bytes are lost, whatever can be read (R28)");
        self.damaged = false;
    }

    /// A block was looked at, and does not match its checksum: a person is told of the first.
    pub(crate) fn find_bad_block(&mut self, out: &mut Outbox) {
        if !std::mem::replace(&mut self.damaged, true) {
            let event = LogEvent::error("bad block").with("chunk", self.handle.short());
            out.push(Effect::Log(event));
        }
    }

    /// Takes a newer mark as far as the bytes reach (T2); whether that changed anything.
    pub(crate) fn learn_acknowledged(&mut self, mark: AcknowledgedMark) -> bool {
        let before = self.acknowledged;
        self.acknowledged = AcknowledgedMark {
            length: before.length.max(mark.length.min(self.length)),
            serial: before.serial.max(mark.serial.min(self.serial)),
        };
        before != self.acknowledged
    }

    /// As the primary, which knows: mutations up to here are applied by every replica of the set.
    pub(crate) fn acknowledge(&mut self, end: u64, serial: Option<SerialNumber>) {
        self.acknowledged.length = self.acknowledged.length.max(end.min(self.length));
        if let Some(serial) = serial {
            assert!(serial <= self.serial, "{serial} is acknowledged, and not applied here (T2)");
            self.acknowledged.serial = serial;
        }
    }

    /// The master has logged a version that counts this replica in although it may have lost
    /// bytes: from here on what it holds is what the chunk is (R28).
    pub(crate) fn become_current(&mut self, out: &mut Outbox) {
        if std::mem::take(&mut self.suspect) {
            out.journal(DiskPurpose::Nobody, JournalEntry::Cleared(self.handle));
        }
    }

    /// The log's word on how much of a stream's chunk counts: who has that much has lost nothing
    /// that does (R28, R41).
    pub(crate) fn learn_committed(&mut self, out: &mut Outbox, last: Option<SerialNumber>) {
        if last.is_some_and(|last| last <= self.serial) && !self.end_unknown {
            self.become_current(out);
        }
    }

    /// Writes the acknowledged length into the head, so that a restart knows it.
    pub(crate) fn settle(&self, out: &mut Outbox) {
        let job = ChunkJob::Settle {
            handle: self.handle,
            acknowledged: self.acknowledged.length,
            acknowledged_serial: self.acknowledged.serial,
        };
        out.chunk_job(self.handle, DiskPurpose::Nobody, job);
    }

    /// Changes the stored bytes, under the present version.
    pub(crate) fn apply<'f>(
        &self,
        out: &mut Outbox,
        mutations: impl Iterator<Item = &'f Forwarded>,
        sync: bool,
    ) {
        let mutations: Vec<ApplyMutation> = mutations.map(to_apply).collect();
        assert!(!mutations.is_empty(), "nothing to apply");
        let job = ChunkJob::Apply {
            handle: self.handle,
            version: self.version,
            mutations,
            acknowledged: self.acknowledged.length,
            acknowledged_serial: self.acknowledged.serial,
            sync,
        };
        out.replica_job(self.handle, ReplicaJob::Apply, job);
    }

    /// Makes the present version durable, and with it perhaps its creation or its close mark.
    pub(crate) fn journal(&self, out: &mut Outbox, create: bool, close: bool) {
        let (handle, version) = (self.handle, self.version);
        let entry = JournalEntry::Raise { handle, version, create, close };
        out.journal(DiskPurpose::Replica(handle, ReplicaJob::Journal(version)), entry);
    }

    /// The same as a raise wants it: a clone becomes a replica by it (R30).
    pub(crate) fn journal_raise(&self, out: &mut Outbox, raise: &Raise) {
        let (handle, version) = (self.handle, self.version);
        let Raise { create, close, adopt, .. } = *raise;
        if !adopt {
            return self.journal(out, create, close);
        }
        let entry = JournalEntry::Adopt { handle, version, close };
        out.journal(DiskPurpose::Replica(handle, ReplicaJob::Journal(version)), entry);
    }

    /// Brings what is stored to disk.
    pub(crate) fn sync(&self, out: &mut Outbox, what: ReplicaJob) {
        out.replica_job(self.handle, what, ChunkJob::Sync { handle: self.handle });
    }
}

/// The disk's form of a mutation.
fn to_apply(forwarded: &Forwarded) -> ApplyMutation {
    ApplyMutation {
        serial: forwarded.serial,
        offset: forwarded.offset,
        size: forwarded.size,
        push: forwarded.push,
        checksums: forwarded.checksums.clone(),
    }
}
