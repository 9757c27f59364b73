//! What is committed with each line: which file it is of, and how far that file is shipped.
//!
//! ```text
//!   ship app.log, offset 4711, head 1024 8badf00d, inode 131, device 2049, born 176408000012345
//! ```
//! - SC1: a file is another than the one of the cursor if it was born at another time, or if its
//!   first bytes (up to a kilobyte of those that were shipped) have another sum. So an inode that
//!   is used again is a new file.
//! - SC2: the device is told and not judged: many file systems have another number after a boot,
//!   and a file that is shipped anew for that would be in the stream twice.
//! - SC3: whoever cannot know how far a file is shipped says so, and does not guess.
//!
//! Knows numbers and bytes. Never sees a disk or a cell.

use cairn_types::{Crc32c, crc32c};
use std::fmt;

/// The most of a file's first bytes that its sum covers.
pub(super) const HEAD_SIZE_MAX: usize = 1024;
/// What a cursor of this command begins with.
const MARK: &str = "ship ";
/// A file counts as younger than the last line of its inode's producer if it was born so much
/// later: its machine's clock and the master's may differ.
const CLOCKS_DIFFER_MAX_MS: u64 = 3_600_000;

/// Which file: the same under whatever name, as long as it is there.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct FileKey {
    pub(super) device: u64,
    pub(super) inode: u64,
}

/// A file as a look at it showed it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct FileSeen {
    pub(super) key: FileKey,
    /// When it was made, in nanoseconds; none where its file system does not tell.
    pub(super) born: Option<u64>,
    pub(super) size: u64,
    pub(super) name: String,
}

/// What stands in a cursor.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct SourceCursor {
    pub(super) key: FileKey,
    pub(super) born: Option<u64>,
    /// How many first bytes the sum covers.
    pub(super) head_size: usize,
    pub(super) head_sum: Crc32c,
    /// Behind the last line that is in the stream.
    pub(super) offset: u64,
    /// The name that it had; for people.
    pub(super) name: String,
}

/// How a producer stands in the stream.
#[derive(Clone, Debug, Default)]
pub(super) struct ShippedSoFar {
    /// Its last record.
    pub(super) number: u64,
    /// The last cursor, and the record that it belongs to.
    pub(super) cursor: Option<(u64, String)>,
    /// When it last did something, by the master's clock.
    pub(super) changed_ms: Option<u64>,
}

/// Where a file is to be read on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum SourceStart {
    /// Nothing of it is in the stream.
    New,
    /// Behind what is there.
    Behind(u64),
    /// It is a new file under an inode that another had: from its start.
    InodeUsedAgain,
    /// It is the file that it was, and others bytes are in it: from its start.
    Truncated {
        /// How much of it was shipped.
        shipped: u64,
    },
}

impl SourceStart {
    /// The offset to read from.
    pub(super) fn offset(self) -> u64 {
        match self {
            Self::Behind(offset) => offset,
            Self::New | Self::InodeUsedAgain | Self::Truncated { .. } => 0,
        }
    }
}

/// Why nobody knows how far a file is shipped (SC3).
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum StartUnknown {
    /// The cursor has gone with its time.
    CursorGone { number: u64 },
    /// Somebody else appends under this name.
    Foreign { text: String },
}

impl fmt::Display for StartUnknown {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::CursorGone { number } => write!(
                f,
                "its producer has {number} records, and the cursor of the last is not kept any \
                 more: nobody knows how far the file is shipped"
            ),
            Self::Foreign { text } => {
                write!(f, "its producer has records of another source ({text})")
            }
        }
    }
}

impl SourceCursor {
    /// As it is stored.
    pub(super) fn text(&self) -> String {
        let Self { key: FileKey { device, inode }, head_size, head_sum, offset, name, .. } = self;
        let born = self.born.unwrap_or_default();
        format!(
            "{MARK}{name}, offset {offset}, head {head_size} {head_sum:08x}, inode {inode}, \
             device {device}, born {born}"
        )
    }

    /// As it was stored; none where it is of somebody else.
    pub(super) fn parse(text: &str) -> Option<Self> {
        // The name may have commas too, and stands first.
        let mut parts = text.strip_prefix(MARK)?.rsplitn(6, ", ");
        let mut next = |what: &str| parts.next()?.strip_prefix(what)?.strip_prefix(' ');
        let born: u64 = next("born")?.parse().ok()?;
        let device = next("device")?.parse().ok()?;
        let inode = next("inode")?.parse().ok()?;
        let (size, sum) = next("head")?.split_once(' ')?;
        let offset = next("offset")?.parse().ok()?;
        Some(Self {
            key: FileKey { device, inode },
            born: (born > 0).then_some(born),
            head_size: size.parse().ok().filter(|size| *size <= HEAD_SIZE_MAX)?,
            head_sum: Crc32c::from_str_radix(sum, 16).ok()?,
            offset,
            name: parts.next()?.to_owned(),
        })
    }

    /// Where the file goes on that has this cursor's inode, and `head` as its first bytes (SC1).
    fn start(&self, seen: &FileSeen, head: &[u8]) -> SourceStart {
        let is_other_birth = matches!((self.born, seen.born), (Some(a), Some(b)) if a != b);
        let has_head = head.get(..self.head_size).is_some_and(|it| crc32c(it) == self.head_sum);
        if is_other_birth {
            SourceStart::InodeUsedAgain
        } else if has_head && seen.size >= self.offset {
            SourceStart::Behind(self.offset)
        } else if has_head || self.born.is_some() && seen.born.is_some() || self.name == seen.name {
            // A doubt is told: it may have cost lines.
            SourceStart::Truncated { shipped: self.offset }
        } else {
            SourceStart::InodeUsedAgain
        }
    }
}

impl ShippedSoFar {
    /// As the stream tells now, and as it stood `before`: an opening lets go of a cursor that is old
    /// (R47), and a file may be quiet for months. That cursor still says how far the file is, as
    /// long as it belongs to the last record that there is: after openings in vain too.
    pub(super) fn after(self, before: &Self) -> Self {
        let Self { number, cursor, changed_ms } = self;
        let last = before.cursor.as_ref().filter(|(of, _)| *of == number);
        Self { number, cursor: cursor.or_else(|| last.cloned()), changed_ms }
    }

    /// Where the file goes on that this producer is for, with `head` as its first bytes.
    ///
    /// # Errors
    /// Where that cannot be known.
    pub(super) fn start(&self, seen: &FileSeen, head: &[u8]) -> Result<SourceStart, StartUnknown> {
        match &self.cursor {
            _ if self.number == 0 => Ok(SourceStart::New),
            None if self.is_of_before(seen) => Ok(SourceStart::InodeUsedAgain),
            None => Err(StartUnknown::CursorGone { number: self.number }),
            Some((number, text)) => match SourceCursor::parse(text) {
                Some(cursor) if *number == self.number => Ok(cursor.start(seen, head)),
                _ => Err(StartUnknown::Foreign { text: text.clone() }),
            },
        }
    }

    /// Which file it was as the last line was shipped.
    pub(super) fn owner(&self) -> Option<FileKey> {
        let (_, text) = self.cursor.as_ref()?;
        SourceCursor::parse(text).map(|cursor| cursor.key)
    }

    /// Whether all of it was there before that file was made.
    fn is_of_before(&self, seen: &FileSeen) -> bool {
        let born_ms = seen.born.map(|born| born / 1_000_000);
        let changed_ms =
            self.changed_ms.map(|changed| changed.saturating_add(CLOCKS_DIFFER_MAX_MS));
        matches!((born_ms, changed_ms), (Some(born), Some(changed)) if born > changed)
    }
}

#[cfg(test)]
mod tests {
    use super::{FileKey, FileSeen, ShippedSoFar, SourceCursor, SourceStart, StartUnknown};
    use cairn_types::crc32c;

    const KEY: FileKey = FileKey { device: 2049, inode: 131 };
    const BYTES: &[u8] = b"one\ntwo\nthree\n";

    fn cursor(offset: usize, born: Option<u64>) -> SourceCursor {
        let head_sum = crc32c(&BYTES[..offset]);
        let name = "a, offset 3, b.log".to_owned();
        SourceCursor { key: KEY, born, head_size: offset, head_sum, offset: offset as u64, name }
    }

    fn seen(size: usize, born: Option<u64>) -> FileSeen {
        FileSeen { key: KEY, born, size: size as u64, name: "b.log".to_owned() }
    }

    fn so_far(cursor: &SourceCursor) -> ShippedSoFar {
        ShippedSoFar { number: 2, cursor: Some((2, cursor.text())), changed_ms: None }
    }

    #[test]
    fn a_cursor_is_read_as_it_was_stored_whatever_the_files_name_is() {
        for born in [None, Some(1_764_080_000_000_000_001)] {
            let cursor = cursor(8, born);
            assert_eq!(SourceCursor::parse(&cursor.text()), Some(cursor));
        }
        for other in ["", "ship ", "line 7", "ship a, offset 1", "ship x, offset a, head 1 0"] {
            assert_eq!(SourceCursor::parse(other), None, "{other}");
        }
        let text = cursor(8, None).text().replace("head 8", "head 1025");
        assert_eq!(SourceCursor::parse(&text), None, "of more than anybody sums");
    }

    #[test]
    fn a_file_goes_on_behind_what_is_shipped_on_whichever_device_it_is_now() {
        let so_far = so_far(&cursor(8, Some(5)));
        let mut seen = seen(14, Some(5));
        assert_eq!(so_far.start(&seen, BYTES), Ok(SourceStart::Behind(8)));
        seen.key.device = 7;
        assert_eq!(so_far.start(&seen, BYTES), Ok(SourceStart::Behind(8)));
        seen.born = None;
        assert_eq!(so_far.start(&seen, BYTES), Ok(SourceStart::Behind(8)));
    }

    #[test]
    fn an_inode_that_is_used_again_is_a_new_file_also_where_its_first_lines_are_the_same() {
        let born = so_far(&cursor(8, Some(5)));
        assert_eq!(born.start(&seen(14, Some(6)), BYTES), Ok(SourceStart::InodeUsedAgain));
        let other = b"other\nlines\n";
        let unknown = so_far(&cursor(8, None));
        assert_eq!(unknown.start(&seen(12, None), other), Ok(SourceStart::InodeUsedAgain));
    }

    #[test]
    fn a_file_that_shrank_or_has_other_bytes_is_begun_anew_and_that_is_told() {
        let so_far = so_far(&cursor(8, Some(5)));
        let truncated = Ok(SourceStart::Truncated { shipped: 8 });
        assert_eq!(so_far.start(&seen(0, Some(5)), b""), truncated);
        assert_eq!(so_far.start(&seen(20, Some(5)), b"other lines, and more\n"), truncated);
        let shorter = SourceCursor { head_size: 4, head_sum: crc32c(b"one\n"), ..cursor(8, None) };
        let shorter = self::so_far(&shorter);
        assert_eq!(shorter.start(&seen(5, None), b"one\nt"), truncated, "the head is there");
    }

    #[test]
    fn a_cursor_that_goes_as_its_producer_is_opened_counts_where_nothing_came_meanwhile() {
        let (before, file) = (so_far(&cursor(8, Some(5))), seen(14, Some(5)));
        let told = |number, cursor| ShippedSoFar { number, cursor, changed_ms: None };
        let opened = told(2, None).after(&before);
        assert_eq!(opened.start(&file, BYTES), Ok(SourceStart::Behind(8)), "quiet for months");
        let again = told(2, None).after(&opened);
        assert_eq!(again.start(&file, BYTES), Ok(SourceStart::Behind(8)), "it was in vain");
        let other = told(3, None).after(&before);
        let why = Err(StartUnknown::CursorGone { number: 3 });
        assert_eq!(other.start(&file, BYTES), why);
        let newer = told(3, Some((3, cursor(14, Some(5)).text()))).after(&before);
        assert_eq!(newer.start(&file, BYTES), Ok(SourceStart::Behind(14)));
    }

    #[test]
    fn what_cannot_be_known_is_not_guessed() {
        let none = ShippedSoFar::default();
        assert_eq!(none.start(&seen(14, None), BYTES), Ok(SourceStart::New));
        let gone = ShippedSoFar { number: 2, cursor: None, changed_ms: Some(1000) };
        let why = Err(StartUnknown::CursorGone { number: 2 });
        assert_eq!(gone.start(&seen(14, None), BYTES), why);
        assert_eq!(gone.start(&seen(14, Some(3_600_000_000_000)), BYTES), why);
        let later = seen(14, Some(3_700_000_000_000));
        assert_eq!(gone.start(&later, BYTES), Ok(SourceStart::InodeUsedAgain));
        let mut foreign = so_far(&cursor(8, None));
        foreign.number = 3;
        assert!(matches!(foreign.start(&later, BYTES), Err(StartUnknown::Foreign { .. })));
        foreign.cursor = Some((3, "line 3".to_owned()));
        assert!(matches!(foreign.start(&later, BYTES), Err(StartUnknown::Foreign { .. })));
    }
}
