//! One suite that judges both worlds alike: what a world's own tests call.

use crate::{Disk, IoFailure, OpenMode, SyncError};

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
