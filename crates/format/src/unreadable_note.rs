//! What a process notes in its last moment, when mapped bytes could not be read;
//! docs/formats/unreadable-note.md.
//!
//! - U1: all but the place is prepared before: putting the place in takes no memory and no
//!   checksum, so that it can be done where next to nothing is allowed.

use crate::{FormatError, sealed};

/// Bytes of the file: one sector.
pub const UNREADABLE_NOTE_SIZE: usize = 512;
/// Bytes that a path in a note may have.
pub const UNREADABLE_PATH_MAX: usize = SEALED_SIZE - 12 - 4 - 4;

const MAGIC: [u8; 8] = *b"CAIRNUNR";
const VERSION: u32 = 1;
/// The part with the path; the place stands behind it, twice.
const SEALED_SIZE: usize = 448;
const OFFSET_AT: usize = SEALED_SIZE;
const COMPLEMENT_AT: usize = OFFSET_AT + 8;

/// Bytes of a file that could not be read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct UnreadableNote {
    /// Of which file, from the directory's root.
    pub path: String,
    /// From where on.
    pub offset: u64,
}

impl UnreadableNote {
    /// The bytes of the file; none where the path is too long.
    #[must_use]
    pub fn encode(&self) -> Option<[u8; UNREADABLE_NOTE_SIZE]> {
        if self.path.len() > UNREADABLE_PATH_MAX {
            return None;
        }
        let mut out = sealed::begin(MAGIC, VERSION);
        let size = u32::try_from(self.path.len()).expect("compared above");
        out.extend_from_slice(&size.to_le_bytes());
        out.extend_from_slice(self.path.as_bytes());
        let mut note = [0; UNREADABLE_NOTE_SIZE];
        note[..SEALED_SIZE].copy_from_slice(&sealed::seal(out, SEALED_SIZE));
        Self::put_offset(&mut note, self.offset);
        Some(note)
    }

    /// Puts another place into a note (U1).
    pub fn put_offset(note: &mut [u8; UNREADABLE_NOTE_SIZE], offset: u64) {
        note[OFFSET_AT..COMPLEMENT_AT].copy_from_slice(&offset.to_le_bytes());
        note[COMPLEMENT_AT..COMPLEMENT_AT + 8].copy_from_slice(&(!offset).to_le_bytes());
    }

    /// Reads the file.
    ///
    /// # Errors
    /// [`FormatError`]; zeros are no note.
    pub fn decode(file: &[u8]) -> Result<Self, FormatError> {
        let whole = file.get(..UNREADABLE_NOTE_SIZE).ok_or(FormatError::Truncated)?;
        let mut fields = sealed::open(whole, SEALED_SIZE, MAGIC, VERSION)?;
        let size = usize::try_from(fields.u32()?).unwrap_or(usize::MAX);
        let path = std::str::from_utf8(fields.take(size)?).map_err(|_| FormatError::Malformed)?;
        let number =
            |at: usize| whole[at..at + 8].iter().rev().fold(0, |n, b| n << 8 | u64::from(*b));
        let offset = number(OFFSET_AT);
        if number(COMPLEMENT_AT) != !offset {
            return Err(FormatError::Checksum);
        }
        Ok(Self { path: path.to_owned(), offset })
    }
}

#[cfg(test)]
mod tests {
    use super::{UNREADABLE_PATH_MAX, UnreadableNote};
    use proptest::prelude::{any, proptest};

    fn note(path: &str, offset: u64) -> UnreadableNote {
        UnreadableNote { path: path.to_owned(), offset }
    }

    #[test]
    fn a_note_comes_back_with_the_place_that_was_put_in_last() {
        for path in ["", "checkpoints/1.pages", "x".repeat(UNREADABLE_PATH_MAX).as_str()] {
            let mut raw = note(path, 0).encode().expect("short enough");
            UnreadableNote::put_offset(&mut raw, 1 << 40);
            assert_eq!(UnreadableNote::decode(&raw), Ok(note(path, 1 << 40)));
        }
        assert_eq!(note(&"x".repeat(UNREADABLE_PATH_MAX + 1), 0).encode(), None);
    }

    #[test]
    fn what_was_changed_anywhere_that_counts_and_zeros_are_none() {
        let raw = note("a", 5).encode().expect("short enough");
        for at in 0..raw.len() {
            let mut changed = raw;
            changed[at] ^= 1;
            let counts = at < super::COMPLEMENT_AT + 8;
            assert_eq!(UnreadableNote::decode(&changed).is_err(), counts, "{at}");
        }
        assert!(UnreadableNote::decode(&[0; 512]).is_err());
    }

    proptest! {
        #[test]
        fn no_bytes_make_it_panic(raw in proptest::collection::vec(any::<u8>(), 0..600)) {
            let _ = UnreadableNote::decode(&raw);
        }
    }
}
