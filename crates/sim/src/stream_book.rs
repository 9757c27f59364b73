//! The simulator's own books on streams: what each record of the log may have committed, and where
//! it stands in its file. Never the system's opinion: what the cell made of a record is compared
//! with what R38 leaves.
//!
//! - SB1: a number of a producer is committed once, in its newest epoch, behind the one before.
//! - SB2: what is committed stands at the end of its file and of its chunk, which is that epoch's
//!   own and neither sealed nor abandoned.
//! - SB3: a repeat is answered as the first time.

use crate::checkers::Verdict;
use cairn_master_core::{Applied, Record};
use cairn_protocol::{BundleAnswer, CommitOutcome};
use cairn_types::{
    ChunkHandle, EntryId, Epoch, MutationNumber, ProducerId, PushId, SerialNumber, SessionId,
};
use std::collections::BTreeMap;

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
}

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

    /// The bundle that has this byte of a stream.
    pub(crate) fn at(&self, file: EntryId, offset: u64) -> Option<&CommittedNote> {
        let all = self.committed(file);
        let at = all.partition_point(|note| note.offset + note.size <= offset);
        all.get(at)
    }

    /// A producer's bundle that begins with that record.
    pub(crate) fn bundle(&self, file: EntryId, name: &str, first: u64) -> Option<&CommittedNote> {
        let mut all = self.committed(file).iter();
        all.find(|note| note.producer == name && note.first == first)
    }

    /// A record is durable in the log, and came to this; gives what it put into a stream.
    pub(crate) fn take(
        &mut self,
        record: &Record,
        applied: &Applied,
    ) -> Result<Vec<CommittedNote>, String> {
        match (record, applied) {
            (Record::OpenProducer(open), Applied::ProducerOpened(opened)) => {
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
                    };
                    fresh.extend(self.commit(key, note, answer)?);
                }
                return Ok(fresh);
            }
            _ => {}
        }
        Ok(Vec::new())
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

    /// One bundle of a request, and what it was answered; itself, if it is in the stream by that.
    fn commit(
        &mut self,
        (file, id): (EntryId, ProducerId),
        note: CommittedNote,
        answer: &BundleAnswer,
    ) -> Result<Option<CommittedNote>, String> {
        let Some(producer) = self.producers.get_mut(&(file, id)) else {
            return Err(format!("{note:?} is answered, and nobody has opened its producer"));
        };
        let last = note.first + note.count.saturating_sub(1);
        let is_newest = producer.epoch == note.epoch;
        let is_known = last <= producer.number;
        let wrong = |why: &str| Err(format!("{note:?} is answered {answer:?}: {why}"));
        match answer.outcome {
            CommitOutcome::Fenced if is_newest && !producer.closed => wrong("it is not fenced"),
            CommitOutcome::DoneBefore if !is_known => wrong("it was never done"),
            CommitOutcome::NotNext if is_newest && note.first == producer.number + 1 => {
                wrong("it is the next")
            }
            CommitOutcome::Committed if is_known => {
                // SB3
                let before = self.bundle(file, &note.producer, note.first);
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
                if note.offset != end {
                    return wrong("not at its file's end (SB2)");
                }
                (chunk.length, chunk.serial) = (chunk.length + note.size, note.serial);
                producer.number = last;
                self.files.entry(file).or_default().push(note.clone());
                Ok(Some(note))
            }
            CommitOutcome::Fenced
            | CommitOutcome::DoneBefore
            | CommitOutcome::NotNext
            | CommitOutcome::ChunkLost => Ok(None),
        }
    }
}
