//! The simulator's own books on streams: what each record of the log may have committed, and where
//! it stands in its file. Never the system's opinion: what the cell made of a record is compared
//! with what R38 leaves.
//!
//! - SB1: a number of a producer is committed once, in its newest epoch, behind the one before.
//! - SB2: what is committed stands at the end of its file and of its chunk, which is that epoch's
//!   own and neither sealed nor abandoned.
//! - SB3: a repeat is answered as the first time.
//! - SB4: what is put into another chunk stood there as the record says, and nothing more comes to
//!   the chunks that had it (R45).
//! - SB5: a chunk takes the next bundle of its producer until it is sealed or abandoned (R42).

use crate::checkers::Verdict;
use cairn_master_core::stream_records::{ReplaceRange, ReplacedRange};
use cairn_master_core::{Applied, Record};
use cairn_protocol::{BundleAnswer, CommitOutcome};
use cairn_types::{
    ChunkHandle, EntryId, Epoch, MutationNumber, ProducerId, PushId, SerialNumber, SessionId,
};
use std::collections::{BTreeMap, BTreeSet};

/// A bundle that is in a stream.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct CommittedNote {
    /// Where in the file.
    pub(crate) offset: u64,
    pub(crate) size: u64,
    pub(crate) producer: String,
    pub(crate) epoch: Epoch,
    pub(crate) first: u64,
    pub(crate) count: u64,
    pub(crate) handle: ChunkHandle,
    /// Where in the chunk.
    pub(crate) chunk_offset: u64,
    pub(crate) serial: SerialNumber,
    /// It took the place of others (R46).
    pub(crate) replaces: bool,
}

/// One producer of a file.
#[derive(Clone, Debug, Default)]
struct ProducerNote {
    name: String,
    epoch: Epoch,
    closed: bool,
    /// The last that is committed.
    number: u64,
}

/// One chunk of a stream.
#[derive(Clone, Debug)]
struct StreamChunkNote {
    file: EntryId,
    producer: ProducerId,
    epoch: Epoch,
    length: u64,
    serial: SerialNumber,
    /// Sealed or abandoned.
    over: bool,
}

/// All streams of a run.
#[derive(Debug, Default)]
pub(crate) struct StreamBook {
    producers: BTreeMap<(EntryId, ProducerId), ProducerNote>,
    chunks: BTreeMap<ChunkHandle, StreamChunkNote>,
    files: BTreeMap<EntryId, Vec<CommittedNote>>,
    /// Where in its file's list the bundle of a producer is that begins with that record.
    places: BTreeMap<EntryId, BTreeMap<String, BTreeMap<u64, usize>>>,
    /// What took the place of others (R46), by its number.
    replaced: BTreeMap<(EntryId, u64), CommittedNote>,
    /// Chunks of which a person has made holes.
    pub(crate) holes: BTreeSet<ChunkHandle>,
    /// How many servers have to hold what is committed of a stream, and its level, where that is
    /// said (R43).
    said: BTreeMap<EntryId, (u32, u32)>,
}

/// Servers that have to have a bundle before it is committed, where nothing is said and the set has
/// as many (R43).
const COMMIT_REPLICAS: usize = 2;

/// The name under which the ledger knows a bundle: it may have been pushed more than once, and is
/// one mutation of its chunk all the same (R40).
pub(crate) fn bundle_name(handle: ChunkHandle, serial: SerialNumber) -> PushId {
    let session = SessionId::new(u128::from(handle.get()));
    PushId { session, number: MutationNumber::new(serial.get()) }
}

impl StreamBook {
    /// What is in a stream, in its order.
    pub(crate) fn committed(&self, file: EntryId) -> &[CommittedNote] {
        self.files.get(&file).map(Vec::as_slice).unwrap_or_default()
    }

    /// How long a stream is.
    pub(crate) fn length(&self, file: EntryId) -> u64 {
        self.committed(file).last().map_or(0, |last| last.offset + last.size)
    }

    /// How much of a chunk is committed.
    pub(crate) fn chunk_length(&self, handle: ChunkHandle) -> u64 {
        self.chunks.get(&handle).map_or(0, |chunk| chunk.length)
    }

    /// How many servers of a set of this size have to have a bundle before it is committed (R43).
    pub(crate) fn replicas_needed(&self, file: EntryId, set_size: usize) -> usize {
        match self.said.get(&file) {
            Some((said, level)) => (*said).min(*level).max(1) as usize,
            None => set_size.min(COMMIT_REPLICAS),
        }
    }

    /// The bundle that has this byte of a stream.
    pub(crate) fn at(&self, file: EntryId, offset: u64) -> Option<&CommittedNote> {
        let all = self.committed(file);
        let at = all.partition_point(|note| note.offset + note.size <= offset);
        all.get(at)
    }

    /// The bundle that has this byte now: what took the place of others last, else what was there
    /// first (R46).
    pub(crate) fn at_now(&self, file: EntryId, offset: u64) -> Option<&CommittedNote> {
        let is_there =
            |note: &&CommittedNote| (note.offset..note.offset + note.size).contains(&offset);
        let replaced = self.replaced.range((file, 0)..=(file, u64::MAX)).map(|(_, note)| note);
        replaced.rev().find(is_there).or_else(|| self.at(file, offset))
    }

    /// A producer's bundle that begins with that record.
    pub(crate) fn bundle(&self, file: EntryId, name: &str, first: u64) -> Option<&CommittedNote> {
        let place = self.places.get(&file)?.get(name)?.get(&first)?;
        self.committed(file).get(*place)
    }

    /// A record is durable in the log, and came to this; gives what it put into a stream.
    pub(crate) fn take(
        &mut self,
        record: &Record,
        applied: &Applied,
    ) -> Result<Vec<CommittedNote>, String> {
        match (record, applied) {
            // Where it was there already, no file ever has that id.
            (Record::AddFile(add), _) if add.commit_replicas > 0 => {
                self.said.insert(add.id, (add.commit_replicas, add.replication));
            }
            // One that comes again is answered as the first time (R24), and begins nothing.
            (Record::OpenProducer(open), Applied::ProducerOpened(opened))
                if opened.epoch == open.epoch =>
            {
                let note = self.producers.entry((open.file, opened.producer)).or_default();
                if open.epoch <= note.epoch {
                    let (was, is) = (note.epoch, open.epoch);
                    return Err(format!("producer {}: epoch {is} begins after {was}", open.name));
                }
                (note.name, note.epoch, note.closed) = (open.name.clone(), open.epoch, false);
            }
            (Record::CloseProducer(close), _) => {
                if let Some(note) = self.producers.get_mut(&(close.file, close.producer)) {
                    note.closed |= note.epoch == close.epoch;
                }
            }
            (Record::ForgetProducer(forget), _) => {
                let is_meant = |(file, _): &(EntryId, ProducerId), note: &mut ProducerNote| {
                    *file == forget.file && note.name == forget.name
                };
                self.producers.retain(|key, note| !is_meant(key, note));
            }
            (Record::AllocateChunk(new), _) => {
                let note = StreamChunkNote {
                    file: new.file,
                    producer: new.producer,
                    epoch: new.epoch,
                    length: 0,
                    serial: SerialNumber::default(),
                    over: false,
                };
                self.chunks.insert(new.handle, note);
            }
            (Record::ReplaceRange(replace), Applied::RangeReplaced(_)) => self.replace(replace)?,
            (Record::SkipLost(skip), Applied::Changed(_)) => {
                self.holes.insert(skip.handle);
            }
            (Record::SealChunk(seal), _) => self.end_chunk(seal.handle, false)?,
            (Record::AbandonChunk(abandon), _) => self.end_chunk(abandon.handle, true)?,
            (Record::CommitBundles(commit), Applied::BundlesCommitted(done)) => {
                let key = (commit.file, commit.producer);
                let mut fresh = Vec::new();
                for (bundle, answer) in commit.bundles.iter().zip(&done.bundles) {
                    let (first, count) = (bundle.first.get(), bundle.count);
                    let note = CommittedNote {
                        offset: answer.offset,
                        size: bundle.size,
                        producer: self
                            .producers
                            .get(&key)
                            .map(|it| it.name.clone())
                            .unwrap_or_default(),
                        epoch: commit.epoch,
                        first,
                        count,
                        handle: bundle.handle,
                        chunk_offset: bundle.offset,
                        serial: bundle.serial,
                        replaces: bundle.replaces.is_some(),
                    };
                    fresh.extend(self.commit(key, note, answer)?);
                }
                return Ok(fresh);
            }
            _ => {}
        }
        Ok(Vec::new())
    }

    /// A range stands in another chunk: all of it is committed, of chunks that are over, and the
    /// bundles in it are whole (SB4).
    fn replace(&mut self, record: &ReplaceRange) -> Verdict {
        let length = record.replaced.iter().map(|it| it.size).sum::<u64>();
        let end = record.offset + length;
        let note = StreamChunkNote {
            file: record.file,
            producer: ProducerId::default(),
            epoch: Epoch::default(),
            length,
            serial: SerialNumber::new(1),
            over: true,
        };
        self.chunks.insert(record.handle, note);
        // What stands where, once ranges have been replaced, its readers judge: these books have
        // each bundle where it was put first.
        if self.replaced.range((record.file, 0)..=(record.file, u64::MAX)).next().is_some() {
            return Ok(());
        }
        // Of a copy nothing is in these books.
        let Some(all) = self.files.get_mut(&record.file) else { return Ok(()) };
        let first = all.partition_point(|note| note.offset + note.size <= record.offset);
        let (mut named, mut within) = (record.replaced.iter().copied(), None::<ReplacedRange>);
        let mut at = record.offset;
        for note in all[first..].iter_mut().take_while(|note| note.offset < end) {
            let range = within.take().or_else(|| named.next());
            let fits = range.filter(|it| {
                (it.handle, it.offset) == (note.handle, note.chunk_offset)
                    && it.size >= note.size
                    && note.offset == at
            });
            let over = self.chunks.get(&note.handle).is_none_or(|chunk| chunk.over);
            let Some(range) = fits.filter(|_| over) else {
                return Err(format!("{note:?} is settled, and stands otherwise: {range:?} (SB4)"));
            };
            let rest = ReplacedRange {
                offset: range.offset + note.size,
                size: range.size - note.size,
                ..range
            };
            within = Some(rest).filter(|rest| rest.size > 0);
            at += note.size;
            note.handle = record.handle;
            note.chunk_offset = note.offset - record.offset;
            note.serial = SerialNumber::new(1);
        }
        if at != end || within.is_some() || named.next().is_some() {
            return Err(format!("a range up to {end} is settled, and the stream has it to {at}"));
        }
        Ok(())
    }

    fn end_chunk(&mut self, handle: ChunkHandle, abandoned: bool) -> Verdict {
        let Some(chunk) = self.chunks.get_mut(&handle) else {
            return Err(format!("chunk {} is ended, and is no stream's", handle.short()));
        };
        if abandoned && chunk.length > 0 {
            return Err(format!("chunk {} is abandoned with committed bytes", handle.short()));
        }
        chunk.over = true;
        Ok(())
    }

    /// Whether a bundle is the next of its producer, and of a chunk that this one writes (SB5). A
    /// file of which ranges were replaced may have let go of the chunk.
    fn is_written(&self, (file, id): (EntryId, ProducerId), note: &CommittedNote) -> bool {
        let producer = self
            .producers
            .get(&(file, id))
            .filter(|it| it.epoch == note.epoch && !it.closed && it.number + 1 == note.first);
        let chunk = self.chunks.get(&note.handle).filter(|it| {
            (it.file, it.producer, it.epoch) == (file, id, note.epoch)
                && (it.length, it.serial.next()) == (note.chunk_offset, note.serial)
                && !it.over
        });
        producer.is_some() && chunk.is_some() && !note.replaces
    }

    /// One bundle of a request, and what it was answered; itself, if it is in the stream by that.
    fn commit(
        &mut self,
        (file, id): (EntryId, ProducerId),
        note: CommittedNote,
        answer: &BundleAnswer,
    ) -> Result<Option<CommittedNote>, String> {
        let is_written = self.is_written((file, id), &note);
        let Some(producer) = self.producers.get_mut(&(file, id)) else {
            return Err(format!("{note:?} is answered, and nobody has opened its producer"));
        };
        let last = note.first + note.count.saturating_sub(1);
        let is_newest = producer.epoch == note.epoch;
        let is_known = last <= producer.number;
        let stands = format!("{producer:?}");
        let wrong = |why: &str| Err(format!("{note:?} of {stands} is answered {answer:?}: {why}"));
        match answer.outcome {
            CommitOutcome::Fenced if is_newest && !producer.closed => wrong("it is not fenced"),
            CommitOutcome::DoneBefore if !is_known => wrong("it was never done"),
            CommitOutcome::NotNext if is_newest && note.first == producer.number + 1 => {
                wrong("it is the next")
            }
            // SB5
            CommitOutcome::ChunkLost if is_written => {
                wrong("its chunk is neither sealed nor abandoned")
            }
            CommitOutcome::Committed if is_known => {
                // SB3
                let before = match note.replaces {
                    true => self.replaced.get(&(file, note.first)),
                    false => self.bundle(file, &note.producer, note.first),
                };
                let is_it = before.is_some_and(|it| {
                    (it.count, it.offset, it.epoch) == (note.count, note.offset, note.epoch)
                });
                if is_it { Ok(None) } else { wrong("these numbers were committed otherwise") }
            }
            CommitOutcome::Committed => {
                let chunk = self.chunks.get_mut(&note.handle);
                let Some(chunk) = chunk.filter(|it| !it.over) else {
                    return wrong("its chunk is over (SB2)");
                };
                let end = self.files.get(&file).and_then(|all| all.last());
                let end = end.map_or(0, |last| last.offset + last.size);
                if !is_newest || producer.closed || note.first != producer.number + 1 {
                    return wrong("not the next of the newest epoch (SB1)");
                }
                if (chunk.file, chunk.producer, chunk.epoch) != (file, id, note.epoch) {
                    return wrong("another's chunk (SB2)");
                }
                if (note.chunk_offset, note.serial) != (chunk.length, chunk.serial.next()) {
                    return wrong("not at its chunk's end (SB2)");
                }
                if note.offset != end && !note.replaces {
                    return wrong("not at its file's end (SB2)");
                }
                (chunk.length, chunk.serial) = (chunk.length + note.size, note.serial);
                producer.number = last;
                let all = self.files.entry(file).or_default();
                if note.replaces {
                    self.replaced.insert((file, note.first), note.clone());
                    return Ok(Some(note));
                }
                let places = self.places.entry(file).or_default();
                let of_producer = places.entry(note.producer.clone()).or_default();
                // A producer that was forgotten begins anew: its name's first bundle is the one.
                of_producer.entry(note.first).or_insert(all.len());
                all.push(note.clone());
                Ok(Some(note))
            }
            CommitOutcome::Fenced
            | CommitOutcome::DoneBefore
            | CommitOutcome::NotNext
            | CommitOutcome::ChunkLost => Ok(None),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::StreamBook;
    use cairn_master_core::applied::{BundlesCommitted, Changed, ProducerOpened};
    use cairn_master_core::{Applied, Record};
    use cairn_protocol::{BundleAnswer, CommitOutcome};
    use cairn_types::{ChunkHandle, EntryId, Epoch, ProducerId, RecordNumber, SerialNumber};

    const FILE: EntryId = EntryId::new(3);
    const PRODUCER: ProducerId = ProducerId::new(5);

    fn open(book: &mut StreamBook, epoch: u64) -> Result<(), String> {
        let mut record = Record::OpenProducer(Default::default());
        if let Record::OpenProducer(it) = &mut record {
            (it.file, it.producer, it.epoch) = (FILE, PRODUCER, Epoch::new(epoch));
            it.name = "p".to_owned();
        }
        let (epoch, cursor_gone) = (Epoch::new(epoch), false);
        let opened = ProducerOpened { producer: PRODUCER, epoch, cursor_gone };
        book.take(&record, &Applied::ProducerOpened(opened)).map(drop)
    }

    fn allocate(book: &mut StreamBook, chunk: u64, epoch: u64) {
        let mut record = Record::AllocateChunk(Default::default());
        if let Record::AllocateChunk(it) = &mut record {
            (it.file, it.producer, it.epoch) = (FILE, PRODUCER, Epoch::new(epoch));
            it.handle = ChunkHandle::new(chunk);
        }
        book.take(&record, &Applied::Changed(Changed::default())).expect("nothing to complain of");
    }

    fn seal(book: &mut StreamBook, chunk: u64) {
        let mut record = Record::SealChunk(Default::default());
        if let Record::SealChunk(it) = &mut record {
            it.handle = ChunkHandle::new(chunk);
        }
        book.take(&record, &Applied::Changed(Changed::default())).expect("nothing to complain of");
    }

    /// A bundle of one record and ten bytes: chunk, epoch, number, its ordinal in the chunk, and
    /// where in the file it is told to be.
    fn commit(
        book: &mut StreamBook,
        (chunk, epoch): (u64, u64),
        (number, serial, at): (u64, u64, u64),
        outcome: CommitOutcome,
    ) -> Result<usize, String> {
        let mut record = Record::CommitBundles(Default::default());
        if let Record::CommitBundles(it) = &mut record {
            (it.file, it.producer, it.epoch) = (FILE, PRODUCER, Epoch::new(epoch));
            it.bundles = vec![Default::default()];
            let bundle = &mut it.bundles[0];
            (bundle.first, bundle.count) = (RecordNumber::new(number), 1);
            (bundle.handle, bundle.size) = (ChunkHandle::new(chunk), 10);
            (bundle.serial, bundle.offset) = (SerialNumber::new(serial), 10 * (serial - 1));
        }
        let bundles = vec![BundleAnswer { outcome, offset: at }];
        let number = RecordNumber::new(number);
        let done = BundlesCommitted { bundles, number, gone: Vec::new() };
        book.take(&record, &Applied::BundlesCommitted(done)).map(|fresh| fresh.len())
    }

    /// A stream of two records in one chunk.
    fn stream() -> StreamBook {
        let mut book = StreamBook::default();
        open(&mut book, 1).expect("the first epoch");
        allocate(&mut book, 7, 1);
        let done = CommitOutcome::Committed;
        assert_eq!(commit(&mut book, (7, 1), (1, 1, 0), done), Ok(1));
        assert_eq!(commit(&mut book, (7, 1), (2, 2, 10), done), Ok(1));
        book
    }

    #[test]
    fn what_follows_is_committed_and_a_repeat_is_answered_as_the_first_time() {
        let mut book = stream();
        let done = CommitOutcome::Committed;
        assert_eq!(commit(&mut book, (7, 1), (2, 2, 10), done), Ok(0), "a repeat");
        assert_eq!(commit(&mut book, (7, 1), (3, 3, 20), done), Ok(1));
        let places: Vec<u64> = book.committed(FILE).iter().map(|note| note.offset).collect();
        assert_eq!((places, book.length(FILE)), (vec![0, 10, 20], 30));
        assert_eq!(book.at(FILE, 19).map(|note| note.first), Some(2));
        assert_eq!(book.at(FILE, 30), None);
    }

    #[test]
    fn whatever_r38_forbids_is_complained_of() {
        let done = CommitOutcome::Committed;
        let complaint = |place, bundle| commit(&mut stream(), place, bundle, done).err();
        for (place, bundle, what) in [
            ((7, 1), (4, 3, 20), "a number was left out"),
            ((7, 1), (2, 3, 20), "a number stands twice"),
            ((7, 1), (2, 2, 20), "a repeat stands elsewhere"),
            ((7, 1), (3, 3, 30), "a gap in the file"),
            ((7, 1), (3, 3, 10), "over another bundle"),
            ((7, 1), (3, 4, 20), "a gap in the chunk"),
            ((8, 1), (3, 1, 20), "a chunk that nobody allocated"),
            ((7, 2), (3, 3, 20), "an epoch that never was"),
        ] {
            assert!(complaint(place, bundle).is_some(), "{what}");
        }
        let mut fenced = stream();
        open(&mut fenced, 2).expect("the next epoch");
        assert!(commit(&mut fenced, (7, 1), (3, 3, 20), done).is_err(), "a zombie");
        assert!(commit(&mut fenced, (7, 2), (3, 3, 20), done).is_err(), "a zombie's chunk");
        assert_eq!(commit(&mut fenced, (7, 1), (3, 3, 0), CommitOutcome::Fenced), Ok(0));
        assert!(open(&mut fenced, 2).is_err(), "one epoch twice");
        let mut sealed = stream();
        seal(&mut sealed, 7);
        assert!(commit(&mut sealed, (7, 1), (3, 3, 20), done).is_err(), "a sealed chunk");
        assert_eq!(commit(&mut sealed, (7, 1), (3, 3, 0), CommitOutcome::ChunkLost), Ok(0));
    }

    #[test]
    fn a_refusal_that_is_not_so_is_complained_of() {
        let complaint = |outcome| commit(&mut stream(), (7, 1), (3, 3, 20), outcome).is_err();
        assert!(complaint(CommitOutcome::Fenced), "it is the newest");
        assert!(complaint(CommitOutcome::DoneBefore), "it was never done");
        assert!(complaint(CommitOutcome::NotNext), "it is the next");
    }
}
