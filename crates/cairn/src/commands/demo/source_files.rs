//! Files to store: this program itself, and a tree of many sizes; and the comparison afterwards.

use crate::cli_error::{CliError, Doing};
use crate::commands::demo::verdict::failed;
use cairn_transfer::LocalTree;
use cairn_types::Random;
use std::fs::File;
use std::io::{BufWriter, Read, Write};
use std::path::Path;

const DIRECTORIES: u64 = 12;
const FILES_EACH: u64 = 20;
const SMALL_FILE_SIZE_MAX: u64 = 100_000;
const PIECE_SIZE: u64 = 64 << 10;

/// What was made or compared.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct FileSum {
    /// Files.
    pub(crate) files: u64,
    /// Bytes in them.
    pub(crate) bytes: u64,
}

/// Makes the tree below `root`.
///
/// # Errors
/// Where the local disk refuses.
pub(crate) fn make(root: &Path, megabytes: u64) -> Result<FileSum, CliError> {
    let doing = || format!("making files in {}", root.display());
    let mut random = Random::new(7);
    let mut sum = FileSum::default();
    for directory in 0..DIRECTORIES {
        let path = root.join(format!("directory-{directory:02}"));
        std::fs::create_dir_all(&path).doing(doing)?;
        for file in 0..FILES_EACH {
            // Empty ones, tiny ones, ones at the edges of blocks, and any.
            let size = match file {
                0..3 => file,
                3..6 => 65_534 + file - 2,
                _ => random.below(SMALL_FILE_SIZE_MAX),
            };
            write(&path.join(format!("file {file:02}")), size, &mut random).doing(doing)?;
            sum.files += 1;
            sum.bytes += size;
        }
    }
    let large = megabytes << 20;
    write(&root.join("large"), large, &mut random).doing(doing)?;
    let program = std::env::current_exe().doing(doing)?;
    let program_size = std::fs::copy(program, root.join("cairn")).doing(doing)?;
    Ok(FileSum { files: sum.files + 2, bytes: sum.bytes + large + program_size })
}

fn write(path: &Path, size: u64, random: &mut Random) -> std::io::Result<()> {
    let mut file = BufWriter::with_capacity(1 << 18, File::create_new(path)?);
    let mut left = size;
    while left > 0 {
        let word = random.next_u64().to_le_bytes();
        let take = left.min(word.len() as u64) as usize;
        file.write_all(&word[..take])?;
        left -= take as u64;
    }
    file.flush()
}

/// Compares two trees byte by byte.
///
/// # Errors
/// With the first file that differs.
pub(crate) fn compare(ours: &Path, theirs: &Path) -> Result<FileSum, CliError> {
    let doing = "comparing every byte";
    let [mine, other] = [ours, theirs].map(|root| {
        let mut files = LocalTree::walk(root).files;
        files.sort_by(|a, b| a.relative.cmp(&b.relative));
        files
    });
    if mine.len() != other.len() {
        return Err(failed(
            doing,
            format!("{} files were stored, {} are there", mine.len(), other.len()),
        ));
    }
    let mut sum = FileSum::default();
    for (a, b) in mine.iter().zip(&other) {
        if a.relative != b.relative || !same(&a.path, &b.path).doing(|| doing.to_owned())? {
            return Err(failed(doing, format!("{} came back different", a.relative)));
        }
        sum.files += 1;
        sum.bytes += a.size;
    }
    Ok(sum)
}

fn same(a: &Path, b: &Path) -> std::io::Result<bool> {
    let (a, b) = (File::open(a)?, File::open(b)?);
    let (mut mine, mut theirs) = (Vec::new(), Vec::new());
    loop {
        mine.clear();
        theirs.clear();
        (&a).take(PIECE_SIZE).read_to_end(&mut mine)?;
        (&b).take(PIECE_SIZE).read_to_end(&mut theirs)?;
        if mine != theirs || mine.is_empty() {
            return Ok(mine == theirs);
        }
    }
}
