//! The name of an operation log's directory on real file systems.

use cairn_env::Disk;
use cairn_env_os::OsDisk;
use cairn_store::OperationLog;
use cairn_types::{CellId, LogIndex};
use std::path::Path;
use std::sync::Arc;

const CELL: CellId = CellId::new(7);

/// Opens the log there, and appends a record behind those that it gives.
fn grown(directory: &Path, index: u64) -> usize {
    let disk: Arc<dyn Disk> = Arc::new(OsDisk::open(directory).expect("opens"));
    let opened = OperationLog::open(disk, CELL, 8192, LogIndex::default());
    let (mut log, found) = opened.unwrap_or_else(|why| panic!("{why}"));
    log.append(&[(LogIndex::new(index), vec![1; 9].into())]).expect("appends");
    found.records.len()
}

/// The name was taken away and not given back, and an older build went on beside it.
#[test]
fn a_directory_that_was_left_under_its_other_name_keeps_no_log_from_being_opened() {
    let directory = tempfile::tempdir().expect("makes");
    let other = directory.path().join("log.anew");
    std::fs::create_dir(&other).expect("makes");
    assert_eq!(grown(directory.path(), 1), 0, "it is given back");
    assert!(!other.exists());
    std::fs::create_dir(&other).expect("makes");
    assert_eq!(grown(directory.path(), 2), 1, "a log that is there is not moved");
    assert_eq!(grown(directory.path(), 3), 2);
}
