//! Whether a directory is fit to be a server's, before anything is written to it.
//!
//! - DD1: what is not empty and was never a server's is somebody else's.
//! - DD2: no directory of a server lies in another one of it, nor is named twice.

use crate::cli_error::Cause;
use crate::exit_codes::Exit;
use std::ffi::OsString;
use std::path::{Path, PathBuf};

/// Either of these is in every directory that a server has opened.
const OURS: [&str; 2] = ["lock", IDENTITY];
/// In every directory of a server that has joined a cell.
const IDENTITY: &str = "identity";
/// What a file system makes by itself.
const NOBODYS: &str = "lost+found";

/// Refuses a directory with somebody's files in it (DD1).
///
/// # Errors
/// With one of the files.
pub(crate) fn check_ours(data: &Path) -> Result<(), Cause> {
    // One that is missing is made; one that cannot be read says so when it is opened.
    let Ok(entries) = std::fs::read_dir(data) else { return Ok(()) };
    let names: Vec<_> = entries.filter_map(Result::ok).map(|entry| entry.file_name()).collect();
    if names.iter().any(|name| OURS.iter().any(|ours| name == ours)) {
        return Ok(());
    }
    let strange = names.iter().find(|name| *name != NOBODYS);
    strange.map_or(Ok(()), |name| {
        let why = format!(
            "{} has files that are no server's, such as '{}'",
            data.display(),
            name.to_string_lossy()
        );
        Err(Cause::new(Exit::Local, why, "name an empty directory"))
    })
}

/// Refuses a directory for a whole cell in which something else lies than its servers' (DD1).
///
/// # Errors
/// With one of the files.
pub(crate) fn check_dev(data: &Path) -> Result<(), Cause> {
    let Ok(entries) = std::fs::read_dir(data) else { return Ok(()) };
    let names = entries.filter_map(Result::ok).map(|entry| entry.file_name());
    let is_ours = |name: &str| name == "master" || name.starts_with("chunkserver-");
    let strange = |name: &OsString| *name != NOBODYS && !name.to_str().is_some_and(is_ours);
    names.into_iter().find(strange).map_or(Ok(()), |name| {
        let (shown, name) = (data.display(), name.to_string_lossy());
        let why = format!("{shown} has files that are no cell's, such as '{name}'");
        Err(Cause::new(Exit::Local, why, "name an empty directory, or one that dev made"))
    })
}

/// Whether the directory is missing of a server that has others already: its disk is not mounted,
/// or a person has yet to make it. Made here, it would be a hole where a disk was.
pub(crate) fn is_missing(data: &Path, all: &[PathBuf]) -> bool {
    let has_a_past = |it: &PathBuf| it.join(IDENTITY).exists();
    // Where nobody can say, opening it says why.
    matches!(data.try_exists(), Ok(false)) && all.iter().any(has_a_past)
}

/// Refuses directories that are one, or lie in each other (DD2).
///
/// # Errors
/// With the two.
pub(crate) fn check_apart(all: &[PathBuf]) -> Result<(), Cause> {
    let resolved: Vec<PathBuf> = all.iter().map(|path| resolve(path)).collect();
    for (at, one) in resolved.iter().enumerate() {
        for (other_at, other) in resolved.iter().enumerate() {
            let (shown, shown_other) = (all[at].display(), all[other_at].display());
            let advice = "give each disk one directory of its own";
            if at < other_at && one == other {
                let why = format!("{shown} and {shown_other} are one directory, named twice");
                return Err(Cause::new(Exit::Usage, why, advice));
            }
            if one != other && one.starts_with(other) {
                let why = format!("{shown} lies in {shown_other}");
                return Err(Cause::new(Exit::Usage, why, advice));
            }
        }
    }
    Ok(())
}

/// The path without links and dots, as far as it is there.
fn resolve(path: &Path) -> PathBuf {
    let absolute = std::path::absolute(path).unwrap_or_else(|_| path.to_owned());
    for above in absolute.ancestors() {
        if let Ok(real) = above.canonicalize() {
            let rest = absolute.strip_prefix(above).expect("it is an ancestor");
            return real.join(rest);
        }
    }
    absolute
}

#[cfg(test)]
mod tests {
    use super::{check_apart, check_dev, check_ours};
    use std::os::unix::fs::symlink;
    use std::path::PathBuf;

    #[test]
    fn a_cell_in_one_process_takes_no_directory_with_somebodys_files() {
        let scratch = tempfile::tempdir().expect("a scratch directory");
        let fits = || check_dev(scratch.path()).is_ok();
        assert!(fits() && check_dev(&scratch.path().join("new")).is_ok());
        for name in ["master", "chunkserver-1", "chunkserver-12", "lost+found"] {
            std::fs::create_dir(scratch.path().join(name)).expect("makes");
        }
        assert!(fits(), "it was made so");
        std::fs::write(scratch.path().join("thesis.tex"), b"").expect("writes");
        let refused = check_dev(scratch.path()).expect_err("it is somebody's");
        assert!(refused.why.contains("thesis.tex"), "{}", refused.why);
    }

    #[test]
    fn links_and_dots_hide_nothing() {
        let scratch = tempfile::tempdir().expect("a scratch directory");
        let at = |name: &str| scratch.path().join(name);
        std::fs::create_dir(at("a")).expect("makes");
        symlink("a", at("link")).expect("links");
        let apart = |names: [&str; 2]| check_apart(&names.map(at)).is_ok();
        assert!(apart(["a", "b"]) && apart(["a", "ab"]) && apart(["x/y", "x/z"]));
        for names in [["a", "link"], ["a", "./a"], ["a/b", "link"], ["new", "new/b"]] {
            assert!(!apart(names), "{names:?}");
        }
        assert!(check_apart(&[PathBuf::from("/only")]).is_ok());
    }

    #[test]
    fn a_disk_that_was_just_made_and_a_directory_that_was_used_are_fit() {
        let scratch = tempfile::tempdir().expect("a scratch directory");
        std::fs::create_dir(scratch.path().join("lost+found")).expect("makes");
        assert!(check_ours(scratch.path()).is_ok() && check_ours("/none/x".as_ref()).is_ok());
        std::fs::write(scratch.path().join("x"), b"").expect("writes");
        assert!(check_ours(scratch.path()).is_err());
        std::fs::write(scratch.path().join("lock"), b"").expect("writes");
        assert!(check_ours(scratch.path()).is_ok());
    }
}
