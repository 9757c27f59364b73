//! What copies of chunks on their own disk (R32) must be, on every kind of disk: what each world's
//! own tests call.

use crate::{AcknowledgedMark, ChunkStore, ReadyMutation};
use bytes::Bytes;
use cairn_env::{ChunkDone, ChunkError, CloneWork, Disk, JournalEntry, PushedData};
use cairn_protocol::{ReplicaFault, ReplicaReport};
use cairn_types::{BlockChecksums, ChunkHandle, ChunkVersion, SerialNumber, Term};
use std::sync::Arc;

const BLOCK: u32 = 1024;
const SOURCE: ChunkHandle = ChunkHandle::new(0x1_0000_0000_0007);
const COPY: ChunkHandle = ChunkHandle::new(0x1_0000_0000_0009);

fn version(number: u64) -> ChunkVersion {
    ChunkVersion::of(Term::new(1), number)
}

/// A chunk under test, and what it must hold.
struct JudgedChunk {
    handle: ChunkHandle,
    content: Vec<u8>,
    serial: u64,
}

impl JudgedChunk {
    fn write(&mut self, store: &ChunkStore, offset: usize, bytes: &[u8]) {
        self.serial += 1;
        let end = offset + bytes.len();
        self.content.resize(self.content.len().max(end), 0);
        self.content[offset..end].copy_from_slice(bytes);
        let data = PushedData {
            block_offset: 0,
            block_size: BLOCK,
            checksums: BlockChecksums::of(0, bytes, BLOCK),
            segments: vec![Bytes::copy_from_slice(bytes)],
        };
        let (serial, size) = (SerialNumber::new(self.serial), bytes.len() as u64);
        let mutation = ReadyMutation { serial, offset: offset as u64, size, data: Some(data) };
        let none = AcknowledgedMark { length: 0, serial: SerialNumber::default() };
        let applied = store.apply(self.handle, version(1), &[mutation], none, false);
        assert_eq!(applied.expect("applies").0, self.content.len() as u64);
    }

    fn judge(&self, store: &ChunkStore) {
        let read = store.read(self.handle, 0, 1 << 30).expect("reads");
        let (checksums, bytes) = (read.checksums, read.payload.into_bytes());
        assert!(checksums.verify(0, &bytes, BLOCK), "a reader takes it for good");
        assert!(bytes == self.content, "the bytes of {}", self.handle.short());
    }

    fn stands(&self) -> ReplicaReport {
        ReplicaReport {
            handle: COPY,
            version: version(1),
            mutated_version: version(1),
            serial: SerialNumber::new(self.serial),
            length: self.content.len() as u64,
            ..ReplicaReport::default()
        }
    }
}

fn copy(store: &ChunkStore, source: &JudgedChunk) -> Result<(), ChunkError> {
    let mut next = Some(0);
    while let Some(offset) = next {
        let done = store.clone_work(COPY, &CloneWork::Copy { of: SOURCE, offset })?;
        let ChunkDone::Copied { next: then } = done else { panic!("{done:?}") };
        next = then;
    }
    store.clone_work(COPY, &CloneWork::Finish { stands: source.stands() })?;
    let adopt = JournalEntry::Adopt { handle: COPY, version: version(1), close: false };
    store.journal(&[adopt])
}

/// Judges a copy of a chunk with blocks that were appended, overwritten and never synced, on a disk
/// that starts out empty; whether the copy's file was made as a clone of the chunk's.
///
/// # Panics
/// Where the copy, or its source, is not what it must be.
pub fn judge_local_copy(disk: &Arc<dyn Disk>) -> bool {
    let (store, _) = ChunkStore::open(Arc::clone(disk)).expect("an empty disk");
    store.configure(BLOCK);
    let (handle, content, create) = (SOURCE, Vec::new(), true);
    let raise = JournalEntry::Raise { handle, version: version(1), create, close: false };
    store.journal(&[raise]).expect("makes a replica");
    let mut source = JudgedChunk { handle, content, serial: 0 };
    let bytes: Vec<u8> = (0..200_000u32).map(|at| (at % 251).to_le_bytes()[0]).collect();
    source.write(&store, 0, &bytes);
    source.write(&store, 5_000, &[7; 3_000]);
    source.write(&store, 199_000, &[8; 3_500]);
    copy(&store, &source).expect("copies");
    let mut made =
        JudgedChunk { handle: COPY, content: source.content.clone(), serial: source.serial };
    made.judge(&store);
    let (fault, reflinked) = store.look(COPY).expect("looks");
    assert_eq!(fault, ReplicaFault::Sound);
    assert_eq!(store.look(SOURCE), Ok((ReplicaFault::Sound, false)));
    // Each goes on by itself, and what was changed is where it was changed.
    made.write(&store, 10, &[1; 2_000]);
    source.write(&store, 4_000, &[2; 100_000]);
    made.write(&store, 202_500, &[3; 5_000]);
    made.judge(&store);
    source.judge(&store);
    drop(store);
    let (store, found) = ChunkStore::open(Arc::clone(disk)).expect("opens again");
    store.configure(BLOCK);
    assert_eq!(found.replicas.len(), 2, "both are replicas");
    made.judge(&store);
    source.judge(&store);
    assert_eq!(store.look(COPY).expect("looks").1, reflinked, "as it was made");
    reflinked
}
