//! One suite that judges both worlds alike: what a world's own tests call.

use crate::{
    ApplyMutation, ChunkDone, ChunkError, ChunkJob, ChunkResult, Disk, IoFailure, JournalEntry,
    OpenMode, PushedData, Service, SyncError,
};
use bytes::Bytes;
use cairn_types::{
    BlockChecksums, ChunkHandle, ChunkVersion, MutationNumber, PushId, SerialNumber, SessionId,
};

/// Judges [`Disk::clone_file`]; whether this disk can.
///
/// # Panics
/// Where the disk does not do what the contract says.
pub fn judge_clones(disk: &dyn Disk) -> bool {
    disk.make_dir("cloning").expect("makes");
    let (from, to) = ("cloning/from", "cloning/to");
    assert_eq!(disk.clone_file(from, to), Err(IoFailure::NotFound));
    let source = disk.open(from, OpenMode::CreateNew).expect("a new file");
    let content: Vec<u8> = (0..70_000u32).map(|at| at.to_le_bytes()[0] ^ 7).collect();
    source.write_at(&content, 0).expect("writes");
    let can = disk.clone_file(from, to).expect("can, or says that it cannot");
    if !can {
        assert_eq!(disk.open(to, OpenMode::Read).map(drop), Err(IoFailure::NotFound));
        assert_eq!(disk.list("cloning"), Ok(vec!["from".to_owned()]), "nothing was made");
        return false;
    }
    assert_eq!(disk.clone_file(from, to), Err(IoFailure::AlreadyExists));
    let copy = disk.open(to, OpenMode::Write).expect("is there");
    let read = |file: &dyn crate::DiskFile| {
        let mut bytes = vec![0; content.len() + 1];
        let size = file.read_at(&mut bytes, 0).expect("reads");
        bytes.truncate(size);
        bytes
    };
    assert!(read(copy.as_ref()) == content, "it has the same bytes, unsynced ones too");
    // Each goes on by itself.
    copy.write_at(b"copy", 4096).expect("writes");
    source.write_at(b"source", 0).expect("writes");
    source.set_size(50_000).expect("cuts");
    copy.sync().expect("syncs");
    let (mut of_copy, mut of_source) = (content.clone(), content.clone());
    of_copy[4096..4100].copy_from_slice(b"copy");
    of_source.truncate(50_000);
    of_source[..6].copy_from_slice(b"source");
    assert!(read(copy.as_ref()) == of_copy && read(source.as_ref()) == of_source);
    disk.remove(from).expect("removes");
    assert!(read(copy.as_ref()) == of_copy, "it needs its source no more");
    true
}

/// Judges a [`Disk`] that starts out empty.
///
/// # Panics
/// Where the disk does not do what the contract says.
pub fn judge_disk(disk: &dyn Disk) {
    assert_eq!(disk.open("a", OpenMode::Read).map(drop), Err(IoFailure::NotFound));
    let file = disk.open("a", OpenMode::CreateNew).expect("a new file");
    assert_eq!(disk.open("a", OpenMode::CreateNew).map(drop), Err(IoFailure::AlreadyExists));
    file.write_at(b"hello", 3).expect("writes");
    assert_eq!(file.size(), Ok(8));
    let mut buffer = [9u8; 10];
    assert_eq!(file.read_at(&mut buffer, 0), Ok(8), "a read stops at the end");
    assert_eq!(&buffer[..8], b"\0\0\0hello", "a gap reads as zeros");
    file.set_size(4).expect("cuts");
    assert_eq!(file.read_at(&mut buffer, 4), Ok(0));
    file.allocate(100).expect("extends");
    assert_eq!(file.size(), Ok(100));
    file.sync().expect("syncs");
    let held = file.hold(2, 4).expect("no error").expect("there are so many");
    assert_eq!((held.size(), held.into_bytes().as_ref()), (4, b"\0h\0\0".as_slice()));
    assert!(file.hold(98, 3).expect("no error").is_none(), "no more is held than there is");

    assert!(file.map(101).is_err(), "no more is mapped than there is");
    let mapping = file.map(100).expect("maps");
    assert_eq!(mapping.bytes(2..6), Some(b"\0h\0\0".as_slice()));
    file.write_at(b"more", 100).expect("grows");
    drop(file);
    assert_eq!(mapping.bytes(98..101), None, "a file may grow beyond its mapping");
    let reader = disk.open("a", OpenMode::Read).expect("is there");
    assert_eq!(reader.map(104).expect("maps").bytes(100..104), Some(b"more".as_slice()));
    assert_eq!(reader.map(0).expect("maps nothing").bytes(0..0), Some(b"".as_slice()));

    disk.make_dir("d/e").expect("makes both");
    disk.make_dir("d/e").expect("an existing directory is no error");
    disk.rename("a", "d/b").expect("renames");
    disk.sync_dir("d").expect("syncs");
    let missing = disk.sync_dir("x");
    assert_eq!(missing, Err(SyncError::NotTried(IoFailure::NotFound)), "D2: nothing was tried");
    assert_eq!(disk.list("d"), Ok(vec!["b".to_owned(), "e".to_owned()]));
    assert_eq!(disk.list("x"), Err(IoFailure::NotFound));
    disk.rename("d", "x").expect("renames a directory");
    assert_eq!(disk.list("x"), Ok(vec!["b".to_owned(), "e".to_owned()]));
    assert_eq!(disk.list("d"), Err(IoFailure::NotFound));
    disk.rename("x", "d").expect("renames it back");
    assert_eq!(disk.list("d/e"), Ok(vec![]));
    assert_eq!(disk.open("a", OpenMode::Write).map(drop), Err(IoFailure::NotFound));
    let lock = disk.lock("lock").expect("free");
    assert_eq!(disk.lock("lock").map(drop), Err(IoFailure::Locked));
    drop(lock);
    drop(disk.lock("lock").expect("free again"));
    disk.remove("d/b").expect("removes");
    assert_eq!(mapping.bytes(3..4), Some(b"h".as_slice()), "a removed file's mapping stays");
    assert_eq!(disk.remove("d/b"), Err(IoFailure::NotFound));
    assert!(disk.space().expect("tells").capacity > 0);
    disk.page_cache_id().expect("tells");
    assert_eq!(disk.unreadable(), Ok(None));
    disk.forget_unreadable().expect("there is nothing to forget");
}

/// A chunk of a stream on a disk that is judged.
struct JudgedStream<'s, S> {
    service: &'s S,
    block_size: u32,
    pushes: u64,
}

impl<S: Service<Job = ChunkJob, JobResult = ChunkResult>> JudgedStream<'_, S> {
    const HANDLE: ChunkHandle = ChunkHandle::new(9);

    fn one(&self, job: ChunkJob) -> ChunkResult {
        self.service.run(vec![job]).pop().expect("one result each")
    }

    /// Pushes bytes, and makes them the end of the chunk.
    fn extend(&mut self, serial: u64, offset: u64, bytes: &[u8], sync: bool) -> ChunkResult {
        self.pushes += 1;
        let number = MutationNumber::new(self.pushes);
        let push = PushId { session: SessionId::new(1), number };
        let checksums = BlockChecksums::of(offset, bytes, self.block_size);
        let size = bytes.len() as u64;
        let block_offset = offset % u64::from(self.block_size);
        let block_offset = u32::try_from(block_offset).expect("less than a block");
        let segments = bytes.chunks(7).map(Bytes::copy_from_slice).collect();
        let (block_size, sums) = (self.block_size, checksums.clone());
        let data = PushedData { block_offset, block_size, checksums: sums, segments };
        self.service.keep(push, data).expect("it is kept");
        let (serial, push) = (SerialNumber::new(serial), Some(push));
        let extent = ApplyMutation { serial, offset, size, push, checksums };
        let (handle, version) = (Self::HANDLE, ChunkVersion::new(1));
        self.one(ChunkJob::Extend { handle, version, extent, sync })
    }

    fn bytes(&self) -> Vec<u8> {
        match self.one(ChunkJob::Read { handle: Self::HANDLE, offset: 0, size: 1 << 20 }) {
            Ok(ChunkDone::Read(done)) => done.payload.into_bytes().to_vec(),
            other => panic!("a chunk is read, and comes to {other:?}"),
        }
    }
}

/// Judges how a chunkserver's disk, which is empty, deals with the chunk of a stream (R40).
///
/// # Panics
/// Where it does not do what the contract says.
pub fn judge_extends<S>(service: &S, block_size: u32)
where
    S: Service<Job = ChunkJob, JobResult = ChunkResult>,
{
    let mut stream = JudgedStream { service, block_size, pushes: 0 };
    let (handle, version) = (JudgedStream::<S>::HANDLE, ChunkVersion::new(1));
    let create = JournalEntry::Raise { handle, version, create: true, close: false };
    assert_eq!(stream.one(ChunkJob::Journal(vec![create])), Ok(ChunkDone::Journaled));
    let long: Vec<u8> = (0..3 * block_size).map(|at| (at % 251) as u8).collect();
    let bundles: [&[u8]; 4] = [b"the first bundle", &long, b"x", &long[5..]];
    let mut all: Vec<u8> = Vec::new();
    let mut places = Vec::new();
    for (serial, bundle) in (1..).zip(bundles) {
        let offset = all.len() as u64;
        places.push((serial, offset, bundle));
        all.extend_from_slice(bundle);
        let (length, applied) = (all.len() as u64, SerialNumber::new(serial));
        let done = stream.extend(serial, offset, bundle, serial % 2 == 0);
        assert_eq!(done, Ok(ChunkDone::Applied { length, serial: applied }));
    }
    let (length, last) = (all.len() as u64, SerialNumber::new(4));
    for sync in [false, true] {
        for (serial, offset, bundle) in &places {
            let again = stream.extend(*serial, *offset, bundle, sync);
            assert_eq!(again, Ok(ChunkDone::Applied { length, serial: last }), "a repeat");
        }
    }
    for (serial, offset, bundle) in &places {
        let at = bundle.len() - 1;
        let mut other = bundle.to_vec();
        other[at] ^= 1;
        let differs = Err(ChunkError::BytesDiffer { offset: offset + at as u64 });
        assert_eq!(stream.extend(*serial, *offset, &other, false), differs);
        other[at] ^= 1;
        other.push(255);
        let longer = stream.extend(*serial, *offset, &other, false);
        assert!(matches!(longer, Err(ChunkError::BytesDiffer { .. })), "{longer:?}");
    }
    let gap = Err(ChunkError::OutOfOrder { last, length });
    for (serial, offset) in [(6, length), (5, length + 1), (5, length - 1), (5, 0)] {
        assert_eq!(stream.extend(serial, offset, b"behind a gap", false), gap);
    }
    assert_eq!(stream.bytes(), all, "nothing was changed by what was refused");
    let fifth = stream.extend(5, length, b"and on", true);
    let (length, serial) = (length + 6, SerialNumber::new(5));
    assert_eq!(fifth, Ok(ChunkDone::Applied { length, serial }));
}
