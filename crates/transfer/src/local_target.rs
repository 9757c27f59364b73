//! Where a file of a cell goes on this machine.
//!
//! - L1: a plain file is written under a partial name beside its target and renamed when all of it
//!   is on the disk; it has the mode of the one that it replaces, or the one that it is to be made
//!   with, and is never more open than that. Whoever made a file there meanwhile keeps it, where
//!   none was to be replaced (and where the file system can see to it while it renames).
//! - L2: a link is followed, and what is no plain file (a device, a pipe) is written through and
//!   never replaced. Who waits for another process there keeps nobody waiting: signals and the
//!   cell's answers are heard meanwhile.

use crate::byte_source::off_the_loop;
use crate::partial_files::PartialFiles;
use crate::partial_name::local_partial_name;
use rustix::fs::{CWD, RenameFlags, renameat_with};
use std::fs::{File, OpenOptions, Permissions};
use std::io::{self, ErrorKind, Write};
use std::os::unix::fs::{OpenOptionsExt, PermissionsExt};
use std::path::{Path, PathBuf};
use tokio::task::block_in_place;

/// What its owner may do with a file.
const OWNERS_BITS: u32 = 0o700;

/// Why nothing can be written there.
#[derive(Debug, thiserror::Error)]
pub enum LocalTargetError {
    /// A file is there, and was not to be replaced.
    #[error("a local file is there already")]
    Taken,
    /// A directory is there.
    #[error("it is a directory")]
    IsADirectory,
    /// It is to lie in a directory that is not there.
    #[error("there is no directory {0} on this machine")]
    NoDirectory(PathBuf),
    /// This machine refused.
    #[error(transparent)]
    Local(#[from] io::Error),
}

/// A local file that is being written.
#[derive(Debug)]
pub struct LocalTarget<'p> {
    file: File,
    /// None where it is written through (L2).
    partial: Option<PartialTarget<'p>>,
}

/// A partial file that gets its name in the end, or goes when it is dropped.
#[derive(Debug)]
struct PartialTarget<'p> {
    path: PathBuf,
    target: PathBuf,
    /// The mode of the one that it replaces.
    former: Option<Permissions>,
    /// Whatever is there by then.
    replaces: bool,
    partials: &'p PartialFiles,
}

impl PartialTarget<'_> {
    fn give_name(&self) -> Result<(), LocalTargetError> {
        if self.replaces {
            return Ok(std::fs::rename(&self.path, &self.target)?);
        }
        match renameat_with(CWD, &self.path, CWD, &self.target, RenameFlags::NOREPLACE) {
            Ok(()) => Ok(()),
            Err(rustix::io::Errno::EXIST) => Err(LocalTargetError::Taken),
            // A file system that cannot do it at once: looked at just before.
            Err(rustix::io::Errno::INVAL | rustix::io::Errno::NOSYS) => {
                if self.target.symlink_metadata().is_ok() {
                    return Err(LocalTargetError::Taken);
                }
                Ok(std::fs::rename(&self.path, &self.target)?)
            }
            Err(errno) => Err(io::Error::from(errno).into()),
        }
    }
}

impl Drop for PartialTarget<'_> {
    fn drop(&mut self) {
        // Renamed, it is not there any more.
        let _ = std::fs::remove_file(&self.path);
        self.partials.forget_local(&self.path);
    }
}

impl<'p> LocalTarget<'p> {
    /// Opens `target` for writing; with `replace`, also where a file is there. With a `mode` it is
    /// made with that, and keeps it until somebody gives it another.
    ///
    /// # Errors
    /// Where that may not or cannot be.
    ///
    /// # Panics
    /// Where it is a pipe or a device, and the runtime has no thread beside this one.
    pub async fn open(
        target: &Path,
        (replace, mode): (bool, Option<u32>),
        partials: &'p PartialFiles,
    ) -> Result<Self, LocalTargetError> {
        let (target, former) = match target.metadata() {
            Ok(there) if there.is_dir() => return Err(LocalTargetError::IsADirectory),
            Ok(_) if !replace => return Err(LocalTargetError::Taken),
            Ok(there) if there.is_file() => (target.canonicalize()?, Some(there.permissions())),
            Ok(_) => {
                let file = block_in_place(|| OpenOptions::new().write(true).open(target))?;
                return Ok(Self { file, partial: None });
            }
            Err(error) if error.kind() == ErrorKind::NotFound => {
                (new_target(target, replace)?, None)
            }
            Err(error) => return Err(error.into()),
        };
        let path = local_partial_name(&target);
        partials.note_local(&path).await;
        let former = former.filter(|_| mode.is_none());
        let mut options = OpenOptions::new();
        options.write(true).create_new(true);
        // Until it is whole it is its owner's.
        if let Some(mode) = mode.or(former.as_ref().map(|former| former.mode() & OWNERS_BITS)) {
            options.mode(mode);
        }
        let partial = PartialTarget { path, target, former, replaces: replace, partials };
        Ok(Self { file: options.open(&partial.path)?, partial: Some(partial) })
    }

    /// Whether it is no plain file (L2).
    #[must_use]
    pub fn is_written_through(&self) -> bool {
        self.partial.is_none()
    }

    /// The next bytes.
    ///
    /// # Errors
    /// Where this machine refuses.
    ///
    /// # Panics
    /// As [`open`](Self::open) does.
    pub fn write(&mut self, bytes: &[u8]) -> io::Result<()> {
        if self.is_written_through() {
            return block_in_place(|| self.file.write_all(bytes));
        }
        self.file.write_all(bytes)
    }

    /// All is written: gives a partial file its name, once the disk has it.
    ///
    /// # Errors
    /// Where this machine refuses, some only now; or a file has the name by now that is not to be
    /// replaced.
    pub async fn finish(self) -> Result<(), LocalTargetError> {
        let Self { file, partial } = self;
        let Some(partial) = partial else { return Ok(()) };
        if let Some(mode) = &partial.former {
            file.set_permissions(mode.clone())?;
        }
        off_the_loop(move || file.sync_all()).await?;
        partial.give_name()
    }
}

/// Where a file is to be made that is not there: a link that leads nowhere is followed too.
fn new_target(target: &Path, replace: bool) -> Result<PathBuf, LocalTargetError> {
    let above = |path: &Path| match path.parent() {
        Some(above) if above.as_os_str().is_empty() => PathBuf::from("."),
        Some(above) => above.to_owned(),
        None => PathBuf::from("/"),
    };
    let target = match target.read_link() {
        Ok(_) if !replace => return Err(LocalTargetError::Taken),
        Ok(to) => above(target).join(to),
        Err(_) => target.to_owned(),
    };
    let directory = above(&target);
    if !directory.is_dir() {
        return Err(LocalTargetError::NoDirectory(directory));
    }
    Ok(target)
}

#[cfg(test)]
mod tests {
    use super::{LocalTarget, LocalTargetError};
    use crate::partial_files::PartialFiles;
    use std::os::unix::fs::{PermissionsExt, symlink};
    use std::path::Path;
    use tokio::runtime::{Builder, Runtime};

    fn write(target: &Path, replace: bool, finish: bool) -> Result<(), LocalTargetError> {
        let partials = PartialFiles::default();
        with_threads().block_on(async {
            let mut file = LocalTarget::open(target, (replace, None), &partials).await?;
            file.write(b"new")?;
            if finish { file.finish().await } else { Ok(()) }
        })
    }

    fn with_threads() -> Runtime {
        Builder::new_multi_thread().worker_threads(1).enable_all().build().expect("starts")
    }

    fn names(directory: &Path) -> usize {
        std::fs::read_dir(directory).expect("lists").count()
    }

    #[test]
    fn a_plain_file_is_replaced_when_whole_and_keeps_its_mode() {
        let scratch = tempfile::tempdir().expect("a scratch directory");
        let at = scratch.path().join("x");
        std::fs::write(&at, b"old").expect("writes");
        std::fs::set_permissions(&at, std::fs::Permissions::from_mode(0o750)).expect("sets");
        assert!(matches!(write(&at, false, true), Err(LocalTargetError::Taken)));
        write(&at, true, false).expect("writes");
        assert_eq!(std::fs::read(&at).expect("reads"), b"old", "unfinished");
        write(&at, true, true).expect("writes");
        assert_eq!(std::fs::read(&at).expect("reads"), b"new");
        assert_eq!(at.metadata().expect("there").permissions().mode() & 0o777, 0o750);
        assert_eq!(names(scratch.path()), 1, "nothing is left over");
    }

    #[test]
    fn with_a_mode_it_is_never_more_open_than_that_not_even_where_it_replaces_an_open_file() {
        let scratch = tempfile::tempdir().expect("a scratch directory");
        let at = scratch.path().join("x");
        let runtime = with_threads();
        let partials = PartialFiles::default();
        for replaces in [false, true] {
            let opened = LocalTarget::open(&at, (replaces, Some(0o600)), &partials);
            let mut file = runtime.block_on(opened).expect("opens");
            file.write(b"private").expect("writes");
            let modes = |what: &str| {
                for entry in std::fs::read_dir(scratch.path()).expect("lists") {
                    let entry = entry.expect("is there");
                    let mode = entry.metadata().expect("is there").permissions().mode() & 0o777;
                    let is_old = replaces && what == "partial" && entry.path() == at;
                    assert_eq!(mode, if is_old { 0o644 } else { 0o600 }, "{what} {entry:?}");
                }
            };
            modes("partial");
            runtime.block_on(file.finish()).expect("renames");
            modes("whole");
            std::fs::set_permissions(&at, std::fs::Permissions::from_mode(0o644)).expect("sets");
        }
    }

    #[test]
    fn what_replaces_a_private_file_is_private_while_it_is_written() {
        let scratch = tempfile::tempdir().expect("a scratch directory");
        let at = scratch.path().join("x");
        std::fs::write(&at, b"old").expect("writes");
        std::fs::set_permissions(&at, std::fs::Permissions::from_mode(0o640)).expect("sets");
        let partials = PartialFiles::default();
        let opened = LocalTarget::open(&at, (true, None), &partials);
        let file = with_threads().block_on(opened).expect("opens");
        let mode = file.file.metadata().expect("there").permissions().mode() & 0o777;
        assert_eq!(mode, 0o600);
    }

    #[test]
    fn a_file_that_somebody_made_meanwhile_is_kept_unless_it_is_to_be_replaced() {
        let scratch = tempfile::tempdir().expect("a scratch directory");
        let at = scratch.path().join("x");
        let partials = PartialFiles::default();
        let runtime = with_threads();
        for (replaces, stays) in [(false, &b"precious"[..]), (true, b"new")] {
            let opened = LocalTarget::open(&at, (replaces, None), &partials);
            let mut file = runtime.block_on(opened).expect("opens");
            file.write(b"new").expect("writes");
            std::fs::write(&at, b"precious").expect("writes");
            let finished = runtime.block_on(file.finish());
            assert_eq!(matches!(finished, Err(LocalTargetError::Taken)), !replaces);
            assert_eq!(std::fs::read(&at).expect("reads"), stays);
            assert_eq!(names(scratch.path()), 1, "nothing is left over");
            std::fs::remove_file(&at).expect("removes");
        }
    }

    #[test]
    fn a_link_is_followed_and_stays() {
        let scratch = tempfile::tempdir().expect("a scratch directory");
        let at = |name: &str| scratch.path().join(name);
        std::fs::write(at("real"), b"old").expect("writes");
        symlink("real", at("link")).expect("links");
        symlink("later", at("ahead")).expect("links");
        write(&at("link"), true, true).expect("writes");
        write(&at("ahead"), true, true).expect("writes");
        for (link, to) in [("link", "real"), ("ahead", "later")] {
            assert_eq!(std::fs::read(at(to)).expect("reads"), b"new");
            assert!(at(link).symlink_metadata().expect("there").is_symlink());
        }
        assert_eq!(names(scratch.path()), 4);
    }

    #[test]
    fn a_device_is_written_through_and_a_missing_directory_is_told() {
        write(Path::new("/dev/null"), true, true).expect("writes");
        assert!(!Path::new("/dev/null").metadata().expect("there").is_file());
        let told = write(Path::new("/none/x"), false, true).expect_err("nowhere");
        assert_eq!(told.to_string(), "there is no directory /none on this machine");
        assert!(matches!(write(Path::new("/"), true, true), Err(LocalTargetError::IsADirectory)));
    }
}
