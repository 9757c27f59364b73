//! The note of what could not be read under a mapping (docs/formats/unreadable-note.md), in the
//! directory of a disk.
//!
//! - U1: it is there, and its name durable, before anything is mapped: whoever writes it has no
//!   room to ask for and no name to make.

use cairn_env::UnreadableBytes;
use cairn_format::{UNREADABLE_NOTE_SIZE, UnreadableNote};
use std::fs::{File, OpenOptions};
use std::io::{Error, ErrorKind};
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};

const NAME: &str = "unreadable";
const NONE: [u8; UNREADABLE_NOTE_SIZE] = [0; UNREADABLE_NOTE_SIZE];

/// The note of one disk.
#[derive(Debug)]
pub(crate) struct NoteFile {
    directory: PathBuf,
    ready: Mutex<Option<Arc<File>>>,
}

impl NoteFile {
    pub(crate) fn in_directory(directory: &Path) -> Self {
        Self { directory: directory.to_owned(), ready: Mutex::default() }
    }

    pub(crate) fn directory(&self) -> &Path {
        &self.directory
    }

    /// The file, ready to be written to (U1).
    pub(crate) fn ready(&self) -> Result<Arc<File>, Error> {
        let mut ready = self.ready.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(file) = &*ready {
            return Ok(Arc::clone(file));
        }
        let path = self.directory.join(NAME);
        let mut options = OpenOptions::new();
        let file = options.read(true).write(true).create(true).truncate(false).open(path)?;
        if file.metadata()?.len() < UNREADABLE_NOTE_SIZE as u64 {
            file.write_all_at(&NONE, 0)?;
            file.sync_all()?;
            File::open(&self.directory)?.sync_all()?;
        }
        Ok(Arc::clone(ready.insert(Arc::new(file))))
    }

    /// What it says.
    pub(crate) fn read(&self) -> Result<Option<UnreadableBytes>, Error> {
        let mut bytes = NONE;
        match File::open(self.directory.join(NAME)).and_then(|file| file.read_at(&mut bytes, 0)) {
            Ok(_) => {}
            Err(error) if error.kind() == ErrorKind::NotFound => return Ok(None),
            Err(error) => return Err(error),
        }
        let note = UnreadableNote::decode(&bytes).ok();
        Ok(note.map(|UnreadableNote { path, offset }| UnreadableBytes { path, offset }))
    }

    /// Makes it say nothing, durably.
    pub(crate) fn clear(&self) -> Result<(), Error> {
        let file = self.ready()?;
        file.write_all_at(&NONE, 0)?;
        file.sync_data()
    }
}

#[cfg(test)]
mod tests {
    use super::NoteFile;
    use cairn_env::UnreadableBytes;
    use cairn_format::UnreadableNote;
    use std::os::unix::fs::FileExt;

    #[test]
    fn a_note_is_told_until_it_is_cleared_and_nonsense_never() {
        let directory = tempfile::tempdir().expect("a scratch directory");
        let note = NoteFile::in_directory(directory.path());
        assert_eq!(note.read().expect("reads"), None);
        let file = note.ready().expect("makes it");
        assert_eq!(note.read().expect("reads"), None);
        let (path, offset) = ("a/b".to_owned(), 4096);
        let bytes = UnreadableNote { path: path.clone(), offset }.encode().expect("short");
        file.write_all_at(&bytes, 0).expect("writes");
        let again = NoteFile::in_directory(directory.path());
        assert_eq!(again.read().expect("reads"), Some(UnreadableBytes { path, offset }));
        again.clear().expect("clears");
        assert_eq!(note.read().expect("reads"), None);
        file.write_all_at(b"nonsense", 0).expect("writes");
        assert_eq!(note.read().expect("reads"), None);
    }
}
