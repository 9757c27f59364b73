//! A chunk store under test, and what it must hold: the chunk's bytes after each serial number.

#![allow(dead_code, unreachable_pub, reason = "each test file includes it and uses a part")]

use bytes::Bytes;
use cairn_env::{ChunkError, JournalEntry, PushedData, ReadDone};
use cairn_env_sim::SimDisk;
use cairn_protocol::ReplicaReport;
use cairn_store::{AcknowledgedMark, ChunkStore, ReadyMutation};
use cairn_types::{BlockChecksums, ChunkHandle, ChunkVersion, Random, SerialNumber, Term};

pub const BLOCK: u32 = 1024;
pub const HANDLE: ChunkHandle = ChunkHandle::new(0x1_0000_0000_0007);

/// What is done to the chunk.
#[derive(Clone, Debug)]
pub enum Step {
    Raise(u64),
    Apply { writes: Vec<Write>, sync: bool },
    Sync,
    Settle,
}

#[derive(Clone, Debug)]
pub enum Write {
    Bytes { offset: u64, bytes: Vec<u8>, block_offset: u32 },
    Zeros { to: u64 },
}

pub fn version(number: u64) -> ChunkVersion {
    ChunkVersion::of(Term::new(1), number)
}

/// What must be there.
#[derive(Debug, Default)]
pub struct Model {
    /// The bytes after each serial number, from zero on.
    pub contents: Vec<Vec<u8>>,
    /// Acknowledged.
    pub applied: usize,
    /// Acknowledged as being on disk.
    pub synced: usize,
    pub version: u64,
    /// The step that failed was a raise to this version.
    pub raising: u64,
}

pub fn new_disk() -> SimDisk {
    SimDisk::new("sim", 1 << 30)
}

pub fn open(disk: &SimDisk) -> (ChunkStore, Option<ReplicaReport>) {
    let (store, found) = ChunkStore::open(disk.session()).expect("opens after any crash");
    store.configure(BLOCK);
    (store, found.replicas.into_iter().find(|replica| replica.handle == HANDLE))
}

pub fn pushed(bytes: &[u8], block_offset: u32) -> PushedData {
    let middle = bytes.len() / 3;
    PushedData {
        block_offset,
        block_size: BLOCK,
        checksums: BlockChecksums::of(u64::from(block_offset), bytes, BLOCK),
        segments: vec![
            Bytes::copy_from_slice(&bytes[..middle]),
            Bytes::copy_from_slice(&bytes[middle..]),
        ],
    }
}

fn changed(mut content: Vec<u8>, write: &Write) -> Vec<u8> {
    match write {
        Write::Bytes { offset, bytes, .. } => {
            let start = usize::try_from(*offset).unwrap();
            let end = start + bytes.len();
            content.resize(content.len().max(end), 0);
            content[start..end].copy_from_slice(bytes);
        }
        Write::Zeros { to } => content.resize(content.len().max(usize::try_from(*to).unwrap()), 0),
    }
    content
}

impl Model {
    pub fn new() -> Self {
        Self { contents: vec![Vec::new()], ..Self::default() }
    }

    fn mutations(&mut self, writes: &[Write]) -> Vec<ReadyMutation> {
        let mut mutations = Vec::new();
        for write in writes {
            let serial = SerialNumber::new(self.contents.len() as u64);
            let before = self.contents.last().unwrap().clone();
            self.contents.push(changed(before, write));
            mutations.push(match write {
                Write::Bytes { offset, bytes, block_offset } => ReadyMutation {
                    serial,
                    offset: *offset,
                    size: bytes.len() as u64,
                    data: Some(pushed(bytes, *block_offset)),
                },
                Write::Zeros { to } => ReadyMutation { serial, offset: *to, size: 0, data: None },
            });
        }
        mutations
    }

    /// Does one step.
    pub fn take(&mut self, store: &ChunkStore, step: &Step) -> Result<(), ChunkError> {
        match step {
            Step::Raise(to) => {
                self.raising = *to;
                let create = self.version == 0;
                let (handle, version) = (HANDLE, version(*to));
                store.journal(&[JournalEntry::Raise { handle, version, create, close: false }])?;
                self.version = *to;
            }
            Step::Apply { writes, sync } => {
                let mutations = self.mutations(writes);
                let acknowledged = AcknowledgedMark {
                    length: self.contents[self.applied].len() as u64,
                    serial: SerialNumber::new(self.applied as u64),
                };
                let version = version(self.version);
                let (length, serial) =
                    store.apply(HANDLE, version, &mutations, acknowledged, *sync)?;
                self.applied = self.contents.len() - 1;
                assert_eq!(length, self.contents[self.applied].len() as u64);
                assert_eq!(serial, SerialNumber::new(self.applied as u64));
                if *sync {
                    self.synced = self.applied;
                }
            }
            Step::Sync => {
                store.sync(HANDLE)?;
                self.synced = self.applied;
            }
            Step::Settle => {
                let length = self.contents[self.applied].len() as u64;
                let serial = SerialNumber::new(self.applied as u64);
                store.settle(HANDLE, AcknowledgedMark { length, serial })?;
            }
        }
        Ok(())
    }

    /// Does the steps until one fails.
    pub fn take_all(&mut self, store: &ChunkStore, steps: &[Step]) {
        for step in steps {
            if self.take(store, step).is_err() {
                break;
            }
        }
    }

    /// Checks what was found: a state that was, at or after serial number `least`.
    pub fn check(
        &mut self,
        store: &ChunkStore,
        found: Option<ReplicaReport>,
        least: usize,
        context: &str,
    ) {
        let Some(found) = found else {
            assert_eq!(self.version, 0, "{context}: the replica is gone");
            return;
        };
        let versions = [version(self.version), version(self.raising)];
        assert!(versions.contains(&found.version), "{context}: {found:?} {versions:?}");
        let serial = usize::try_from(found.serial.get()).unwrap();
        assert!(serial >= least, "{context}: back to {serial}, {least} was promised");
        assert!(serial < self.contents.len(), "{context}");
        let content = read_all(store).unwrap_or_else(|error| panic!("{context}: {error}"));
        let same = content == self.contents[serial];
        assert!(same, "{context}: not the bytes of serial number {serial}");
        self.contents.truncate(serial + 1);
        self.applied = serial;
        self.version = found.version.counter();
    }
}

/// What a reader gets, at once.
#[derive(Debug, PartialEq)]
pub struct Got {
    pub offset: u64,
    pub bytes: Bytes,
    pub checksums: BlockChecksums,
}

impl Got {
    /// Whether the reader takes it for good.
    pub fn verifies(&self) -> bool {
        self.checksums.verify(self.offset, &self.bytes, BLOCK)
    }
}

impl From<ReadDone> for Got {
    fn from(done: ReadDone) -> Self {
        let ReadDone { offset, payload, checksums } = done;
        Self { offset, bytes: payload.into_bytes(), checksums }
    }
}

/// Reads as a reader whose answer arrives at once.
pub fn read(store: &ChunkStore, offset: u64, size: u64) -> Result<Got, ChunkError> {
    store.read(HANDLE, offset, size).map(Got::from)
}

/// All bytes, each block verified by the reader.
pub fn read_all(store: &ChunkStore) -> Result<Vec<u8>, ChunkError> {
    let got = read(store, 0, 1 << 30)?;
    assert!(got.verifies(), "the reader sees bad bytes");
    Ok(got.bytes.to_vec())
}

/// Steps that append, overwrite, level, sync, by the seed.
pub fn steps(random: &mut Random, count: u64) -> Vec<Step> {
    let mut length = 0;
    let mut raised = 1;
    let mut found = vec![Step::Raise(1)];
    for _ in 0..count {
        found.push(match random.below(10) {
            0 => {
                raised += 1;
                Step::Raise(raised)
            }
            1 => Step::Sync,
            2 => Step::Settle,
            _ => {
                let many = 1 + random.below(4);
                let writes = (0..many).map(|_| write(random, &mut length)).collect();
                Step::Apply { writes, sync: random.chance(250) }
            }
        });
    }
    found
}

fn write(random: &mut Random, length: &mut u64) -> Write {
    if random.chance(100) {
        *length = (*length).max(random.below(*length + 2000));
        return Write::Zeros { to: *length };
    }
    let size_max = if random.chance(300) { 9000 } else { 600 };
    let size = 1 + random.below(size_max);
    let offset = match random.below(10) {
        0..5 => *length,
        5 => *length + random.below(3000),
        _ => random.below(*length + 1),
    };
    *length = (*length).max(offset + size);
    let aligned = u32::try_from(offset % u64::from(BLOCK)).unwrap();
    let block_offset = if random.chance(500) { aligned } else { 0 };
    let bytes = (0..size).map(|_| u8::try_from(random.below(256)).unwrap()).collect();
    Write::Bytes { offset, bytes, block_offset }
}
