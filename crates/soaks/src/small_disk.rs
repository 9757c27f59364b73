//! A file system of a set size for the data of one chunkserver, so that it can be full.
//!
//! - D1: it is mounted in a name space of mounts that only this process and its children have: it
//!   goes with the last of them, however they end.

use anyhow::{Context, Result, bail};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::Command;

/// Says that this process has mounts of its own already.
const OWN_MOUNTS: &str = "CAIRN_SOAK_OWN_MOUNTS";
/// More than any soak stores.
const ROOM_MEGABYTES: u64 = 12_000;
/// What is left of a disk that is full.
const LEFT_MEGABYTES: u64 = 1;
const LEFT_MEGABYTES_MAX: u64 = 64;

/// One of them; gone at the end.
#[derive(Debug)]
pub(crate) struct SmallDisk {
    at: PathBuf,
}

/// Starts this program once more, with mounts of its own; goes on where that is done already, or
/// where this user may not have them.
pub(crate) fn take_own_mounts() {
    if std::env::var_os(OWN_MOUNTS).is_some() {
        return;
    }
    let may = Command::new("unshare").args(["--mount", "true"]).output();
    if let (Ok(ours), true) = (std::env::current_exe(), may.is_ok_and(|it| it.status.success())) {
        let mut again = Command::new("unshare");
        again.arg("--mount").arg(ours).args(std::env::args_os().skip(1)).env(OWN_MOUNTS, "1");
        // Comes back only where it failed: then there are no small disks.
        let _ = again.exec();
    }
}

impl SmallDisk {
    /// None where this user may not mount.
    ///
    /// # Errors
    /// Where the directory cannot be made.
    pub(crate) fn mount(at: &Path) -> Result<Option<Self>> {
        if std::env::var_os(OWN_MOUNTS).is_none() {
            return Ok(None);
        }
        std::fs::create_dir_all(at)?;
        let mut mount = Command::new("mount");
        mount.args(["-t", "tmpfs", "-o", &format!("size={ROOM_MEGABYTES}m"), "cairn-soak"]);
        let done = mount.arg(at).output().context("mount")?;
        Ok(done.status.success().then_some(Self { at: at.to_owned() }))
    }

    /// Where it is mounted.
    pub(crate) fn path(&self) -> &Path {
        &self.at
    }

    /// From now on it has no more room than for a few blocks.
    ///
    /// # Errors
    /// Where the system refuses that.
    pub(crate) fn fill(&self) -> Result<()> {
        let mut left = LEFT_MEGABYTES;
        // Somebody may write meanwhile, and no disk is made smaller than what is on it.
        while let Err(error) = self.resize(self.used_megabytes()? + left) {
            left *= 2;
            if left > LEFT_MEGABYTES_MAX {
                return Err(error);
            }
        }
        Ok(())
    }

    /// It has room again.
    ///
    /// # Errors
    /// Where the system refuses that.
    pub(crate) fn ease(&self) -> Result<()> {
        self.resize(ROOM_MEGABYTES)
    }

    fn used_megabytes(&self) -> Result<u64> {
        let told = Command::new("df").args(["-m", "--output=used"]).arg(&self.at).output()?;
        let told = String::from_utf8_lossy(&told.stdout).into_owned();
        let used = told.lines().nth(1).and_then(|line| line.trim().parse().ok());
        used.with_context(|| format!("df says {told}"))
    }

    fn resize(&self, megabytes: u64) -> Result<()> {
        let options = format!("remount,size={megabytes}m");
        let done = Command::new("mount").args(["-o", &options]).arg(&self.at).output()?;
        if !done.status.success() {
            bail!("{options}: {}", String::from_utf8_lossy(&done.stderr).trim());
        }
        Ok(())
    }
}

impl Drop for SmallDisk {
    fn drop(&mut self) {
        // What is in use yet goes with the processes that use it (D1).
        let _ = Command::new("umount").arg("-l").arg(&self.at).status();
        let _ = std::fs::remove_dir(&self.at);
    }
}
