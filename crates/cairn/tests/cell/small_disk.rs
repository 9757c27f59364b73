//! A file system of a set size, for tests with full disks; only root may have one.

use std::path::Path;
use std::process::Command;

/// A file system of a set size, gone at the end.
pub(crate) struct SmallDisk(tempfile::TempDir);

impl SmallDisk {
    /// None where this user may not mount.
    pub(crate) fn mount(megabytes: u64) -> Option<Self> {
        let at = tempfile::TempDir::new().expect("a scratch directory");
        let mut mount = Command::new("mount");
        mount.args(["-t", "tmpfs", "-o", &format!("size={megabytes}m"), "cairn-test"]);
        let done = mount.arg(at.path()).output().ok()?;
        done.status.success().then_some(Self(at))
    }

    /// From now on it has another size.
    pub(crate) fn resize(&self, megabytes: u64) {
        let options = format!("remount,size={megabytes}m");
        let done = Command::new("mount").args(["-o", &options]).arg(self.path()).output();
        assert!(done.expect("mounts").status.success());
    }

    pub(crate) fn path(&self) -> &Path {
        self.0.path()
    }
}

impl Drop for SmallDisk {
    fn drop(&mut self) {
        let _ = Command::new("umount").arg("-l").arg(self.0.path()).status();
    }
}
