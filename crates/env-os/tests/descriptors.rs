//! A process that runs out of descriptors: nothing is given up for it (D1). One test, because the
//! limit is the process's.

mod toy;

use cairn_env::{
    ChunkError, ChunkJob, Disk, DiskError, IoFailure, JournalEntry, OpenMode, Service, SyncError,
};
use cairn_env_os::{DescriptorBudget, OsDisk};
use cairn_protocol::Response;
use cairn_store::ChunkDisk;
use cairn_types::{CellId, ChunkHandle, ChunkVersion, ServerId};
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use rustix::time::{ClockId, clock_gettime};
use std::fs::File;
use std::io::Read;
use std::net::TcpStream;
use std::sync::Arc;
use std::time::Duration;
use toy::Node;

fn limit_to(soft: u64, hard: u64) {
    let limit = Rlimit { current: Some(soft), maximum: Some(hard) };
    setrlimit(Resource::Nofile, limit).expect("a lower limit is granted");
}

/// Descriptors until there are none left.
fn take_all() -> Vec<File> {
    std::iter::from_fn(|| File::open("/dev/null").ok()).collect()
}

fn cpu_time() -> Duration {
    let told = clock_gettime(ClockId::ProcessCPUTime);
    Duration::new(told.tv_sec as u64, told.tv_nsec as u32)
}

fn raise(handle: u64) -> ChunkJob {
    let (handle, version) = (ChunkHandle::new(handle), ChunkVersion::new(1));
    ChunkJob::Journal(vec![JournalEntry::Raise { handle, version, create: true, close: false }])
}

#[test]
fn a_process_without_descriptors_loses_nothing_but_the_work_that_needs_one() {
    limit_to(100, 400);
    let budget = DescriptorBudget::raise();
    assert_eq!(getrlimit(Resource::Nofile).current, Some(400), "the soft limit is raised");
    assert_eq!(budget.limit(), 400);

    let scratch = tempfile::tempdir().expect("a scratch directory");
    let share = budget.share(1, 1).expect("enough for one directory");
    let disk = OsDisk::open_within(scratch.path(), share.files_per_directory).expect("opens");
    let disk: Arc<dyn Disk> = Arc::new(disk);
    let (chunks, _) = ChunkDisk::open(vec![Arc::clone(&disk)], 1 << 20).expect("opens");
    let joined = JournalEntry::Joined(CellId::new(1), ServerId::new(1));
    assert!(chunks.run(vec![ChunkJob::Journal(vec![joined])])[0].is_ok());

    let (server, client) = (Node::start(1), Node::start(2));
    client.probe(&server).expect("an answer");

    let mut all = take_all();
    assert_eq!(disk.open("x", OpenMode::Create).map(drop), Err(IoFailure::NoDescriptors));
    assert_eq!(disk.sync_dir(""), Err(SyncError::NotTried(IoFailure::NoDescriptors)));
    let many = |from: u64| -> Vec<_> { chunks.run((from..from + 10).map(raise).collect()) };
    // One is left: for the file that is written, and not for the directory to be synced.
    all.pop();
    let joined = JournalEntry::Joined(CellId::new(1), ServerId::new(1));
    let failed = chunks.run(vec![ChunkJob::Journal(vec![joined])]).remove(0);
    let expected = Err(ChunkError::Disk(DiskError::Io(IoFailure::NoDescriptors)));
    assert_eq!(failed, expected, "what was never tried is no failed fsync");
    assert!(!chunks.has_failed(), "no directory is given up for it");

    // Somebody knocks, and is let in once there is room: the loop neither spins nor ends.
    drop(all);
    let address = server.address.as_str().to_owned();
    let mut all = take_all();
    all.pop();
    let knocking = TcpStream::connect(&address).expect("the kernel takes it in");
    let before = cpu_time();
    let patience = Some(Duration::from_millis(500));
    knocking.set_read_timeout(patience).expect("sets");
    assert!((&knocking).read(&mut [0]).is_err(), "nobody speaks to it yet");
    let spent = cpu_time() - before;
    assert!(spent < Duration::from_millis(100), "{spent:?} of half a second");
    let answer = client.probe(&server).expect("whoever is in is answered");
    assert!(matches!(answer.response, Response::ChunkLength(_)));
    drop(all);
    assert!(many(1).iter().all(Result::is_ok), "and all works again");
    drop(knocking);
    let third = Node::start(3);
    third.probe(&server).expect("it is let in");
}
