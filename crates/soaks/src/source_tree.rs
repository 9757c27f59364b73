//! Real files to store, taken from this machine, and the comparison of what came back.

use anyhow::{Context, Result, bail};
use std::fs::File;
use std::io::{BufWriter, Read, Seek, SeekFrom, Write};
use std::path::{Path, PathBuf};
use std::process::Command;

const PIECE_SIZE: u64 = 1 << 20;

/// Where files are taken from, how many at most, and how many bytes.
struct Source {
    root: PathBuf,
    files_max: u64,
    bytes_max: u64,
}

/// Files and bytes.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Sum {
    pub(crate) files: u64,
    pub(crate) bytes: u64,
}

impl Sum {
    /// Megabytes a second.
    pub(crate) fn rate(self, seconds: f64) -> f64 {
        self.bytes as f64 / 1e6 / seconds
    }
}

/// Copies a real tree of about 500 MB to `to`: the toolchain's libraries and documentation, and
/// what else this machine has to share. Symbolic links are left out.
///
/// # Errors
/// When this machine has not enough, or the disk refuses.
pub(crate) fn gather(to: &Path) -> Result<Sum> {
    let output = Command::new("rustc").args(["--print", "sysroot"]).output();
    let sysroot = String::from_utf8(output.context("cannot start rustc")?.stdout)?;
    let sysroot = Path::new(sysroot.trim());
    let sources = [
        ("libraries", sysroot.join("lib"), 2_000, 250_000_000),
        ("documentation", sysroot.join("share/doc"), 7_000, 140_000_000),
        ("share", PathBuf::from("/usr/share"), 9_000, 180_000_000),
    ];
    let mut sum = Sum::default();
    for (name, root, files_max, bytes_max) in sources {
        let source = Source { root, files_max, bytes_max };
        let mut taken = Sum::default();
        copy(&source.root.clone(), &to.join(name), &source, &mut taken)?;
        sum.files += taken.files;
        sum.bytes += taken.bytes;
    }
    if sum.files < 5_000 || sum.bytes < 300_000_000 {
        bail!("this machine has only {} files, {} bytes to offer", sum.files, sum.bytes);
    }
    Ok(sum)
}

fn copy(from: &Path, to: &Path, source: &Source, taken: &mut Sum) -> Result<()> {
    std::fs::create_dir_all(to)?;
    for entry in sorted(from)? {
        let (kind, target) = (entry.file_type()?, to.join(entry.file_name()));
        if taken.files >= source.files_max {
            return Ok(());
        }
        if kind.is_dir() {
            copy(&entry.path(), &target, source, taken)?;
        } else if kind.is_file() && entry.file_name().to_str().is_some() {
            let size = entry.metadata()?.len();
            if taken.bytes + size <= source.bytes_max {
                std::fs::copy(entry.path(), &target)
                    .with_context(|| entry.path().display().to_string())?;
                taken.files += 1;
                taken.bytes += size;
            }
        }
    }
    Ok(())
}

fn sorted(directory: &Path) -> Result<Vec<std::fs::DirEntry>> {
    let entries = std::fs::read_dir(directory).with_context(|| directory.display().to_string())?;
    let mut entries = entries.collect::<Result<Vec<_>, _>>()?;
    entries.sort_by_key(std::fs::DirEntry::file_name);
    Ok(entries)
}

/// Writes a pseudo-random file (xorshift; the same each time).
///
/// # Errors
/// Where the disk refuses.
pub(crate) fn generate(path: &Path, size: u64) -> Result<()> {
    let mut file = BufWriter::with_capacity(1 << 20, File::create_new(path)?);
    let mut state = 0x9e37_79b9_7f4a_7c15_u64;
    for _ in 0..size / 8 {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        file.write_all(&state.to_le_bytes())?;
    }
    file.flush().context("writing it")
}

/// Every file of a tree, in order.
///
/// # Errors
/// Where it cannot be read.
pub(crate) fn files(root: &Path) -> Result<Vec<PathBuf>> {
    let mut found = Vec::new();
    for entry in sorted(root)? {
        if entry.file_type()?.is_dir() {
            found.extend(files(&entry.path())?);
        } else {
            found.push(entry.path());
        }
    }
    Ok(found)
}

/// Compares two trees, names and bytes.
///
/// # Errors
/// With the first file that differs.
pub(crate) fn compare(ours: &Path, theirs: &Path) -> Result<Sum> {
    let (mine, other) = (files(ours)?, files(theirs)?);
    if mine.len() != other.len() {
        bail!("{} files went in, {} came out", mine.len(), other.len());
    }
    let mut sum = Sum::default();
    for (a, b) in mine.iter().zip(&other) {
        if a.strip_prefix(ours)? != b.strip_prefix(theirs)? {
            bail!("{} came out as {}", a.display(), b.display());
        }
        if a.metadata()?.len() != b.metadata()?.len() {
            bail!("{} came out with another length", b.display());
        }
        sum.bytes += same(a, 0, b)?;
        sum.files += 1;
    }
    Ok(sum)
}

/// Compares all of `part` with as many bytes of `whole` from `offset` on; how many these are.
///
/// # Errors
/// Where they differ.
pub(crate) fn same(whole: &Path, offset: u64, part: &Path) -> Result<u64> {
    let (mut mine, theirs) = (File::open(whole)?, File::open(part)?);
    mine.seek(SeekFrom::Start(offset))?;
    let mut compared = 0;
    loop {
        let (mut left, mut right) = (Vec::new(), Vec::new());
        (&theirs).take(PIECE_SIZE).read_to_end(&mut right)?;
        (&mine).take(right.len() as u64).read_to_end(&mut left)?;
        if left != right {
            let (part, whole) = (part.display(), whole.display());
            bail!("{part} differs from {whole} within 1 MiB after {compared} bytes");
        }
        if right.is_empty() {
            return Ok(compared);
        }
        compared += right.len() as u64;
    }
}

#[cfg(test)]
mod tests {
    use super::{compare, files, generate};

    #[test]
    fn a_changed_byte_and_a_missing_file_are_found() {
        let root = std::env::temp_dir().join(format!("source-tree-{}", std::process::id()));
        let (a, b) = (root.join("a"), root.join("b"));
        for side in [&a, &b] {
            std::fs::create_dir_all(side.join("in")).expect("makes");
            generate(&side.join("in/x"), 80_000).expect("writes");
        }
        assert_eq!(compare(&a, &b).expect("the same").bytes, 80_000);
        let mut bytes = std::fs::read(b.join("in/x")).expect("reads");
        bytes[79_999] ^= 1;
        std::fs::write(b.join("in/x"), &bytes).expect("writes");
        assert!(compare(&a, &b).is_err());
        std::fs::remove_file(&files(&b).expect("lists")[0]).expect("removes");
        assert!(compare(&a, &b).is_err());
        std::fs::remove_dir_all(&root).expect("cleans up");
    }
}
