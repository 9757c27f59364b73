//! A disk of a master that can be full, and can fail: a file system in an image, which lies on a
//! small disk. Where that one has no more room, writes to the image are errors of the device.
//!
//! ```text
//!   data ── ext4 ── loop device ── image ── tmpfs of a set size
//!            └ filled: no space left         └ filled: input/output errors
//! ```

use crate::small_disk::SmallDisk;
use anyhow::{Context, Result, bail};
use std::fs::File;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::Command;

/// Room for what a master keeps when it makes a checkpoint every hundred thousand records.
const SIZE: &str = "768M";
/// What is written in one go to fill it up.
const PIECES: [usize; 2] = [1 << 20, 4 << 10];

/// One of them; gone at the end.
#[derive(Debug)]
pub(crate) struct FailingDisk {
    at: PathBuf,
    image: PathBuf,
    below: SmallDisk,
}

fn run(words: &[&str]) -> Result<()> {
    let (program, rest) = words.split_first().context("a program")?;
    let done = Command::new(program).args(rest).output().context(words.join(" "))?;
    if !done.status.success() {
        bail!("{}: {}", words.join(" "), String::from_utf8_lossy(&done.stderr).trim());
    }
    Ok(())
}

fn shown(path: &Path) -> &str {
    path.to_str().expect("names of the soak's own")
}

impl FailingDisk {
    /// Makes one.
    ///
    /// # Errors
    /// Where this user may not mount.
    pub(crate) fn mount(at: &Path) -> Result<Self> {
        // Its own, beside it: `with_extension` would give all of a cell's disks the same one.
        let mut below = at.as_os_str().to_owned();
        below.push("-below");
        let below = SmallDisk::mount(Path::new(&below))?;
        let below = below.context("this user may not mount: failing disks cannot be had")?;
        let image = below.path().join("image");
        std::fs::create_dir_all(at)?;
        run(&["truncate", "-s", SIZE, shown(&image)])?;
        let lazy = "lazy_itable_init=0,lazy_journal_init=0";
        run(&["mkfs.ext4", "-q", "-m", "0", "-E", lazy, shown(&image)])?;
        let disk = Self { at: at.to_owned(), image, below };
        disk.mount_image()?;
        Ok(disk)
    }

    fn mount_image(&self) -> Result<()> {
        run(&["mount", "-o", "loop", shown(&self.image), shown(&self.at)])
    }

    /// Where it is mounted.
    pub(crate) fn path(&self) -> &Path {
        &self.at
    }

    /// Somebody else takes all of its room.
    ///
    /// # Errors
    /// Where it has room all the same.
    pub(crate) fn fill(&self) -> Result<()> {
        let mut filler = File::create(self.filler())?;
        for size in PIECES {
            let piece = vec![0x5a; size];
            while filler.write_all(&piece).is_ok() {}
        }
        Ok(())
    }

    /// It has room again.
    ///
    /// # Errors
    /// Where the system refuses that.
    pub(crate) fn ease(&self) -> Result<()> {
        Ok(std::fs::remove_file(self.filler())?)
    }

    fn filler(&self) -> PathBuf {
        self.at.join("filler")
    }

    /// From now on writes fail, where the file system has not written before: what a file had that
    /// is gone, the filler above all, is given back to the small disk first.
    ///
    /// # Errors
    /// Where the system refuses that.
    pub(crate) fn fail(&self) -> Result<()> {
        // What was removed is free once the file system's journal says so.
        run(&["sync", "-f", shown(&self.at)])?;
        run(&["fstrim", shown(&self.at)])?;
        self.below.fill()
    }

    /// It is well again, with what it has for certain; nobody may use it meanwhile.
    ///
    /// # Errors
    /// Where the system refuses that.
    pub(crate) fn mend(&self) -> Result<()> {
        run(&["umount", shown(&self.at)])?;
        self.below.ease()?;
        self.mount_image()
    }
}

impl Drop for FailingDisk {
    fn drop(&mut self) {
        // What is in use yet goes with the processes that use it.
        let _ = Command::new("umount").arg("-l").arg(&self.at).status();
        let _ = std::fs::remove_dir(&self.at);
    }
}
