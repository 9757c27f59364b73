//! The journal of a data directory: at which version each replica stands, durably (R7, R18, R27).
//!
//! ```text
//!   journal          begun anew at each start (all replicas as they stand), then line by line
//!   journal.draft    the next one, until it is durable and takes the name
//! ```
//! - VJ1: a line that is flushed comes before whatever its sender does because of it; so many lines
//!   share a flush, and a torn tail was never believed by anyone.
//! - VJ2: a journal names the life of the page cache that it was begun in. In another one, what has
//!   the dirty mark may have lost bytes: it is suspect, and stays so through all restarts.
//! - VJ3: where a start finds no room for its journal, the one of the last life stays as it is, and
//!   every line is refused until there is room to begin the new one. What was read is served; no
//!   change is accepted, for none could be remembered.
//! - VJ4: where a line is damaged that was durable, each replica may have stood otherwise than the
//!   others say: at a higher version, closed, dirty. So all are suspect, and are served as such;
//!   files without a line are replicas too, at the version that they were last changed under.
//! - VJ5: where it is not known which of two journals has the name, neither takes a line: one that
//!   has lost its name is nowhere after a restart, whatever its sync says.

use crate::whole_files::{
    disk_error, put_draft_in_place, read_file_within, sync_failure, write_draft,
};
use cairn_env::{Disk, DiskError, DiskFile, JournalEntry, OpenMode};
use cairn_format::{
    FormatError, JOURNAL_HEADER_SIZE, JournalHeader, JournalLine, ReplicaLine, ScrubPosition,
    decode_journal_header, encode_journal_header, guess_journal_header, journal_seed, stream,
};
use cairn_types::planted::{self, Rule};
use cairn_types::{ChunkHandle, ChunkVersion, ReignId, Term};
use std::collections::BTreeMap;
use std::sync::Arc;

pub(crate) const JOURNAL_PATH: &str = "journal";
/// Bytes that a journal may grow by, beyond its double, before it is begun anew.
const GROWTH_MAX: u64 = 1 << 20;
/// What is larger is none. A replica takes 48 bytes when a journal is begun, and it may double: the
/// journal of ninety million replicas in one directory is read.
const SIZE_MAX: u64 = 1 << 33;

/// What a journal says.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct JournalState {
    pub(crate) replicas: BTreeMap<ChunkHandle, ReplicaLine>,
    pub(crate) term: Term,
    pub(crate) reign: (Term, ReignId),
    /// The highest ever seen, those in the trash too (R1).
    pub(crate) highest_handle: ChunkHandle,
    pub(crate) highest_version: ChunkVersion,
    pub(crate) scrub: ScrubPosition,
    /// The life of the page cache in which its lines were written.
    pub(crate) page_cache: String,
}

impl JournalState {
    fn apply(&mut self, line: &JournalLine) {
        match line {
            JournalLine::Raise { handle, version, close, .. } => {
                let replica = self.replicas.entry(*handle).or_default();
                replica.handle = *handle;
                replica.version = *version;
                replica.closed |= *close;
                // R27: the raise is the dirty mark of what follows under it.
                replica.dirty |= !planted::broken(Rule::R27);
                self.highest_handle = self.highest_handle.max(*handle);
                self.highest_version = self.highest_version.max(*version);
            }
            JournalLine::Term(term) => self.term = self.term.max(*term),
            JournalLine::Reign(term, reign) => self.reign = (*term, *reign),
            JournalLine::Dirty(handle) => self.change(*handle, |replica| replica.dirty = true),
            JournalLine::Clean { handle, sequence } => self.change(*handle, |replica| {
                replica.dirty = false;
                replica.clean_sequence = *sequence;
            }),
            JournalLine::Cleared(handle) => {
                self.change(*handle, |replica| replica.suspect = false);
            }
            JournalLine::Damaged(handle) => self.change(*handle, |replica| replica.damaged = true),
            JournalLine::Scrubbed(at) => self.scrub = *at,
            JournalLine::Gone(handle) => {
                self.replicas.remove(handle);
            }
            JournalLine::Stood(replica) => {
                self.replicas.insert(replica.handle, *replica);
            }
            JournalLine::Begun { page_cache, handle, version } => {
                self.page_cache.clone_from(page_cache);
                self.highest_handle = *handle;
                self.highest_version = *version;
            }
        }
    }

    fn change(&mut self, handle: ChunkHandle, change: impl FnOnce(&mut ReplicaLine)) {
        if let Some(replica) = self.replicas.get_mut(&handle) {
            change(replica);
        }
    }

    /// VJ2: dirty marks of an earlier life of the page cache become suspicion.
    pub(crate) fn suspect_all_dirty(&mut self) {
        for replica in self.replicas.values_mut().filter(|replica| replica.dirty) {
            replica.suspect = true;
            replica.dirty = false;
        }
    }

    /// VJ4: lines are missing, of whichever replica; and what is missing may have been the highest.
    pub(crate) fn suspect_all(&mut self) {
        for replica in self.replicas.values_mut() {
            (replica.suspect, replica.dirty) = (true, false);
            self.highest_handle = self.highest_handle.max(replica.handle);
            self.highest_version = self.highest_version.max(replica.version);
        }
        self.term = self.term.max(self.highest_version.term());
    }

    /// The lines that say all of this.
    fn lines(&self) -> impl Iterator<Item = JournalLine> {
        let begun = JournalLine::Begun {
            page_cache: self.page_cache.clone(),
            handle: self.highest_handle,
            version: self.highest_version,
        };
        let stood = self.replicas.values().copied().map(JournalLine::Stood);
        let (term, reign) = self.reign;
        let server = [
            JournalLine::Term(self.term),
            JournalLine::Reign(term, reign),
            JournalLine::Scrubbed(self.scrub),
        ];
        std::iter::once(begun).chain(server).chain(stood)
    }
}

/// What says that replicas are sound again: how each stands, without the damage. It goes before all
/// that shares its flush, which is newer.
pub(crate) fn sound_lines(journal: &VersionJournal, entries: &[JournalEntry]) -> Vec<JournalLine> {
    let sound = entries.iter().filter_map(|entry| match entry {
        JournalEntry::Sound(handle) => journal.replica(*handle),
        _ => None,
    });
    sound.map(|line| JournalLine::Stood(ReplicaLine { damaged: false, ..line })).collect()
}

/// Why a journal cannot be used.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum JournalOpenError {
    /// The disk refused.
    #[error(transparent)]
    Disk(#[from] DiskError),
    /// The header, or a line whose checksum is right, is of another build.
    #[error("journal: {0}")]
    Format(#[from] FormatError),
}

/// A journal as it was found.
#[derive(Clone, Debug)]
pub(crate) struct FoundJournal {
    pub(crate) header: JournalHeader,
    pub(crate) state: JournalState,
    /// Where lines that were durable are damaged, if any are (VJ4).
    pub(crate) damaged_at: Option<usize>,
}

/// What is in the journal of `disk`; nothing where there is none.
pub(crate) fn read_journal(disk: &dyn Disk) -> Result<Option<FoundJournal>, JournalOpenError> {
    let Some(file) = read_file_within(disk, JOURNAL_PATH, SIZE_MAX).map_err(disk_error)? else {
        return Ok(None);
    };
    let (header, mut damaged_at) = match decode_journal_header(&file) {
        Ok(header) => (header, None),
        Err(error @ FormatError::Version { .. }) => return Err(error.into()),
        Err(_) => (guess_journal_header(&file), Some(0)),
    };
    let seed = journal_seed(header.generation);
    let payloads = match stream::scan(&file, JOURNAL_HEADER_SIZE, seed) {
        Ok(found) => found.payloads,
        Err(corruption) => {
            damaged_at = damaged_at.or(Some(corruption.offset));
            stream::salvage(&file, JOURNAL_HEADER_SIZE, seed)
        }
    };
    let mut state = JournalState::default();
    for payload in payloads {
        state.apply(&JournalLine::decode(&file[payload])?);
    }
    Ok(Some(FoundJournal { header, state, damaged_at }))
}

/// A journal, open for appending.
#[derive(Debug)]
pub(crate) struct VersionJournal {
    disk: Arc<dyn Disk>,
    file: Box<dyn DiskFile>,
    generation: u64,
    /// Where the next line goes.
    end: u64,
    /// What of it is durable (format::stream, S1).
    synced: u64,
    /// Its size when it was begun.
    begun_size: u64,
    /// It is the last life's, or may have no name any more, and takes no line (VJ3, VJ5).
    to_be_begun: bool,
    state: JournalState,
}

impl VersionJournal {
    /// Begins a journal that says `state`, durably, in the place of the one before.
    pub(crate) fn begin(
        disk: Arc<dyn Disk>,
        state: JournalState,
        generation: u64,
    ) -> Result<Self, DiskError> {
        let journal = Self::draft(disk, state, generation)?;
        put_draft_in_place(journal.disk.as_ref(), JOURNAL_PATH)?;
        Ok(journal)
    }

    /// The same, which is in nobody's place yet.
    fn draft(disk: Arc<dyn Disk>, state: JournalState, generation: u64) -> Result<Self, DiskError> {
        let mut bytes = encode_journal_header(generation);
        for line in state.lines() {
            put_line(&line, generation, 0, &mut bytes);
        }
        let file = write_draft(disk.as_ref(), JOURNAL_PATH, &bytes)?;
        let end = bytes.len() as u64;
        let to_be_begun = false;
        Ok(Self { disk, file, generation, end, synced: end, begun_size: end, to_be_begun, state })
    }

    /// The journal of the last life, of this generation, where a new one could not be begun (VJ3).
    pub(crate) fn of_last_life(
        disk: Arc<dyn Disk>,
        state: JournalState,
        generation: u64,
    ) -> Result<Self, DiskError> {
        let file = disk.open(JOURNAL_PATH, OpenMode::Write).map_err(disk_error)?;
        let end = file.size().map_err(disk_error)?;
        let to_be_begun = true;
        Ok(Self { disk, file, generation, end, synced: end, begun_size: end, to_be_begun, state })
    }

    /// Whether it is this life's.
    pub(crate) fn is_begun(&self) -> bool {
        !self.to_be_begun
    }

    /// Its generation, and how much of it must be as it was written; none where it is not this
    /// life's, or may have no name any more.
    pub(crate) fn durable(&self) -> Option<(u64, u64)> {
        self.is_begun().then_some((self.generation, self.synced))
    }

    /// What the journal says.
    pub(crate) fn state(&self) -> &JournalState {
        &self.state
    }

    /// The line of one replica.
    pub(crate) fn replica(&self, handle: ChunkHandle) -> Option<ReplicaLine> {
        self.state.replicas.get(&handle).copied()
    }

    /// Appends lines and flushes them (VJ1).
    pub(crate) fn append(&mut self, lines: &[JournalLine]) -> Result<(), DiskError> {
        if self.to_be_begun {
            *self = Self::begin(Arc::clone(&self.disk), self.state.clone(), self.generation + 1)?;
        }
        // R7: a raise is durable before it is answered.
        let keep = |line: &JournalLine| {
            !planted::broken(Rule::R7) || !matches!(line, JournalLine::Raise { create: false, .. })
        };
        let mut bytes = Vec::new();
        for line in lines.iter().filter(|line| keep(line)) {
            put_line(line, self.generation, self.synced, &mut bytes);
        }
        self.write(&bytes)?;
        self.file.sync().map_err(sync_failure)?;
        self.synced = self.end;
        lines.iter().for_each(|line| self.state.apply(line));
        self.begin_anew_if_long()
    }

    /// Writes behind the end, or leaves nothing there: a line that was refused must not come back
    /// behind a later one.
    fn write(&mut self, bytes: &[u8]) -> Result<(), DiskError> {
        if let Err(failure) = self.file.write_at(bytes, self.end) {
            // What is there now is not known, as after a failed sync: the directory is given up.
            self.file.set_size(self.end).map_err(DiskError::SyncFailed)?;
            return Err(disk_error(failure));
        }
        self.end += bytes.len() as u64;
        Ok(())
    }

    fn begin_anew_if_long(&mut self) -> Result<(), DiskError> {
        if self.end <= 2 * self.begun_size + GROWTH_MAX {
            return Ok(());
        }
        match self.begin_anew() {
            Err(DiskError::SyncFailed(reason)) => Err(DiskError::SyncFailed(reason)),
            // The one there is does, until there is room again.
            Ok(()) | Err(_) => Ok(()),
        }
    }

    /// Puts one that says the same in its place. After an error it is as it was.
    fn begin_anew(&mut self) -> Result<(), DiskError> {
        let disk = Arc::clone(&self.disk);
        let next = Self::draft(disk, self.state.clone(), self.generation + 1)?;
        match put_draft_in_place(self.disk.as_ref(), JOURNAL_PATH) {
            Ok(()) => *self = next,
            Err(DiskError::SyncFailed(reason)) => return Err(DiskError::SyncFailed(reason)),
            // What either of the two says so far is durable. But which has the name is not
            // known, so neither takes another line (VJ5).
            Err(_) => (self.generation, self.to_be_begun) = (next.generation, true),
        }
        Ok(())
    }

    /// The same, because it is damaged; where that cannot be, it takes no line until it can: one
    /// that is added to it would make nothing better known to the next start (VJ3, VJ4).
    pub(crate) fn begin_anew_or_refuse(&mut self) -> Result<(), DiskError> {
        let begun = self.begin_anew();
        self.to_be_begun |= begun.is_err();
        begun
    }
}

fn put_line(line: &JournalLine, generation: u64, synced: u64, out: &mut Vec<u8>) {
    let mut payload = Vec::new();
    line.encode(&mut payload);
    stream::put_record(journal_seed(generation), synced, &[&payload], out);
}

#[cfg(test)]
mod tests {
    use super::{JournalLine, JournalState};
    use cairn_types::Random;
    use cairn_types::sample::Sample;
    use proptest::prelude::proptest;

    /// A line of any kind; few handles, so that lines meet.
    fn any_line(random: &mut Random) -> JournalLine {
        let (kind, flags) = (1 + random.below(11) as u8, random.below(8) as u8);
        let numbers = match kind {
            2 | 3 | 5 | 6 | 10 => 1,
            7 => 3,
            _ => 2,
        };
        let mut raw = vec![kind, flags];
        for _ in 0..numbers {
            raw.extend_from_slice(&u64::sample(random).to_le_bytes());
        }
        if kind == 8 {
            raw.extend_from_slice(&[3, 0, 0, 0, b'b', b'o', b'0' + flags]);
        }
        JournalLine::decode(&raw).expect("a line")
    }

    proptest! {
        #[test]
        fn a_journal_begun_anew_says_the_same_whatever_stood_in_the_one_before(seed: u64) {
            let random = &mut Random::new(seed);
            let mut state = JournalState::default();
            for _ in 0..random.below(100) {
                state.apply(&any_line(random));
            }
            if random.chance(300) {
                state.suspect_all_dirty();
            }
            let mut anew = JournalState::default();
            state.lines().for_each(|line| anew.apply(&line));
            assert_eq!(anew, state, "J1");
        }
    }
}
