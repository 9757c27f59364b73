//! Files in memory.
//!
//! A machine may give its host back what nobody has touched for a minute, files in the page cache
//! among it: then a "warm" read asks the disk, for one side more than for the other.

use std::fs::{self, File};
use std::io::{self, Read};
use std::path::Path;

const BUFFER_SIZE: usize = 1 << 20;

/// Reads a file, or all below a directory, so that whoever reads it next finds it in memory; says
/// how many bytes that were.
pub(crate) fn warm_files(path: &Path) -> io::Result<u64> {
    let mut size = 0;
    if fs::symlink_metadata(path)?.is_dir() {
        for entry in fs::read_dir(path)? {
            match warm_files(&entry?.path()) {
                // A server that runs may remove what it no longer needs.
                Err(error) if error.kind() == io::ErrorKind::NotFound => {}
                below => size += below?,
            }
        }
        return Ok(size);
    }
    let (mut file, mut buffer) = (File::open(path)?, vec![0; BUFFER_SIZE]);
    loop {
        match file.read(&mut buffer)? {
            0 => return Ok(size),
            count => size += count as u64,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::warm_files;

    #[test]
    fn all_below_a_directory_is_read_and_what_is_not_there_is_told() {
        let scratch = tempfile::tempdir().expect("a scratch directory");
        let below = scratch.path().join("below");
        std::fs::create_dir(&below).expect("made");
        std::fs::write(below.join("file"), vec![1; 3 << 20]).expect("writes");
        assert_eq!(warm_files(scratch.path()).expect("all is there"), 3 << 20);
        assert!(warm_files(&below.join("other")).is_err());
    }
}
