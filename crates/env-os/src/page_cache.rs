//! Naming the life of the page cache behind a directory, so that whoever comes next can tell
//! whether what was not synced is still there (R27).
//!
//! ```text
//!   boot ── of the machine ─┬─ /sys/fs/<type>/<device>: made anew whenever the file system is
//!                           ├─ else the mount's number, which is never given twice (Linux 6.8)
//!                           ├─ else, where the file system lives in memory: the boot alone
//!                           └─ else nothing proves it: a name that nobody had before
//! ```
//! A machine that goes on does not keep its page cache: a disk that went away and came back (a
//! storage outage) is mounted anew, and what was not written is gone.

use rustix::fs::{AtFlags, CWD, StatxFlags, major, minor};
use std::hash::{DefaultHasher, Hash, Hasher};
use std::io::Error;
use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{SystemTime, UNIX_EPOCH};

/// Where the kernel tells one boot from the next.
const BOOT_ID: &str = "/proc/sys/kernel/random/boot_id";
/// File systems that show each mounted device in `/sys/fs`, under the device's name.
const SHOWN_IN_SYSFS: [&str; 3] = ["ext4", "xfs", "f2fs"];
/// `STATX_MNT_ID_UNIQUE`: the number of a mount, which no other gets until the next boot.
const UNIQUE_MOUNT_ID: u32 = 0x4000;
/// The magic numbers of file systems that are gone with their page cache: tmpfs, ramfs.
const IN_MEMORY: [u64; 2] = [0x0102_1994, 0x8584_58f6];

/// The name of the page cache's life behind `directory`.
pub(crate) fn page_cache_id(directory: &Path) -> Result<String, Error> {
    let boot = std::fs::read_to_string(BOOT_ID)?;
    let boot = boot.trim();
    let device = std::fs::metadata(directory)?.dev();
    if let Some(number) = of_file_system(major(device), minor(device)) {
        return Ok(format!("{boot} file system {number}"));
    }
    if let Some(number) = of_mount(directory) {
        return Ok(format!("{boot} mount {number}"));
    }
    if is_in_memory(directory) {
        return Ok(boot.to_owned());
    }
    Ok(format!("{boot} start {}", unproven()))
}

/// A number for the file system under `directory`, which no other has, on this machine or another:
/// of several directories on one disk, the space is there once.
pub(crate) fn file_system(directory: &Path) -> Result<u64, Error> {
    let boot = std::fs::read_to_string(BOOT_ID)?;
    let device = std::fs::metadata(directory)?.dev();
    let mut hasher = DefaultHasher::new();
    (boot.trim(), device).hash(&mut hasher);
    Ok(hasher.finish())
}

/// The inode of what `/sys/fs` shows of a device: the kernel makes it at each mount that is not of
/// a file system mounted already, and never gives the number again.
fn of_file_system(major: u32, minor: u32) -> Option<u64> {
    let device = std::fs::read_link(format!("/sys/dev/block/{major}:{minor}")).ok()?;
    let shown = |kind: &&str| {
        let entry = Path::new("/sys/fs").join(kind).join(device.file_name()?);
        Some(std::fs::metadata(entry).ok()?.ino())
    };
    SHOWN_IN_SYSFS.iter().find_map(shown)
}

fn of_mount(directory: &Path) -> Option<u64> {
    let wanted = StatxFlags::from_bits_retain(UNIQUE_MOUNT_ID);
    let told = rustix::fs::statx(CWD, directory, AtFlags::empty(), wanted).ok()?;
    (told.stx_mask & UNIQUE_MOUNT_ID != 0).then_some(told.stx_mnt_id)
}

fn is_in_memory(directory: &Path) -> bool {
    rustix::fs::statfs(directory)
        .is_ok_and(|told| IN_MEMORY.contains(&(told.f_type.cast_unsigned())))
}

/// What no call before has given.
fn unproven() -> String {
    static CALLS: AtomicU64 = AtomicU64::new(0);
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    let (process, call) = (std::process::id(), CALLS.fetch_add(1, Ordering::Relaxed));
    format!("{}-{process}-{call}", now.as_nanos())
}

#[cfg(test)]
mod tests {
    use super::{of_mount, page_cache_id, unproven};

    #[test]
    fn one_mount_in_one_boot_has_one_name() {
        let directory = tempfile::tempdir().expect("a scratch directory");
        let id = page_cache_id(directory.path()).expect("Linux tells");
        let again = page_cache_id(directory.path()).expect("Linux tells");
        assert!(id == again || id.contains(" start "), "{id}, {again}");
    }

    #[test]
    fn two_mounts_have_two_names_and_what_is_not_proven_has_a_new_one_each_time() {
        let [root, proc] = ["/", "/proc"].map(|path| of_mount(path.as_ref()));
        assert!(root.is_none() || root != proc, "{root:?}");
        assert_ne!(unproven(), unproven());
    }
}
