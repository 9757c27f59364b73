//! What this disk allows a group-committed log: records of 256 bytes, as many to a flush as there
//! are waiters, into preallocated space.

use std::fs::OpenOptions;
use std::io;
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::time::{Duration, Instant};

const RECORD: usize = 256;
const SIZE: u64 = 64 << 20;
const FOR: Duration = Duration::from_secs(2);

/// Records a second with this many waiters.
pub(super) fn group_committed(directory: &Path, waiters: u64) -> io::Result<f64> {
    let path = directory.join("disk-floor");
    let file = OpenOptions::new().create_new(true).write(true).open(&path)?;
    for piece in 0..SIZE >> 20 {
        file.write_all_at(&[0; 1 << 20], piece << 20)?;
    }
    file.sync_all()?;
    let batch = vec![0x5a; RECORD * usize::try_from(waiters).unwrap_or(1)];
    let (begun, mut records, mut offset) = (Instant::now(), 0, 0);
    while begun.elapsed() < FOR {
        file.write_all_at(&batch, offset)?;
        file.sync_data()?;
        offset = (offset + batch.len() as u64) % (SIZE - batch.len() as u64);
        records += waiters;
    }
    let rate = records as f64 / begun.elapsed().as_secs_f64();
    std::fs::remove_file(path)?;
    Ok(rate)
}
