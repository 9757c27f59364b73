//! What is committed with each line: which file it is of, and how far that file is shipped.
//!
//! ```text
//!   ship app.log, tail 0badcafe, offset 4711, head 1024 8badf00d, inode 131, device 2049, born 176
//! ```
//! - SC1: a file is another than the one of the cursor if it was born at another time, or if its
//!   first bytes (up to a kilobyte of those that were shipped) have another sum. So an inode that
//!   is used again is a new file.
//! - SC2: the device is told and not judged: many file systems have another number after a boot,
//!   and a file that is shipped anew for that would be in the stream twice.
//! - SC3: whoever cannot know how far a file is shipped says so, and does not guess.
//! - SC4: a file goes on at the offset only if it is that long, and the bytes before the offset (up
//!   to 256) have the same sum: a power loss of its machine may take back what was not on the disk.
//!   Else it is shipped from its start, for to double is better than to lose, and that is told.
//!
//! Knows numbers and bytes. Never sees a disk or a cell.

use cairn_types::{Crc32c, crc32c};
use std::fmt;

/// The most of a file's first bytes that its sum covers.
pub(super) const HEAD_SIZE_MAX: usize = 1024;
/// The most of the bytes before the offset that their sum covers.
pub(super) const TAIL_SIZE_MAX: usize = 256;
/// Between a name and the sum of the tail, of eight digits. An older `ship` takes the two for the
/// name, which it tells people; only where births are unknown and the file has other bytes does it
/// judge by the name, and then it does not tell that the file is begun anew. A cursor of an older
/// one has no sum, and is taken at its word.
const TAIL: &str = ", tail ";
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

/// Some bytes of a file, by their sum.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct BytesSum {
    pub(super) size: usize,
    pub(super) sum: Crc32c,
}

/// What stands in a cursor.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct SourceCursor {
    pub(super) key: FileKey,
    pub(super) born: Option<u64>,
    /// The first bytes.
    pub(super) head: BytesSum,
    /// Behind the last line that is in the stream.
    pub(super) offset: u64,
    /// Of the bytes before the offset, as many as [`tail_size`] (SC4); none of an older version.
    pub(super) tail_sum: Option<Crc32c>,
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
    /// The same, though it is as long as it was: cut short and grown again, or written anew (SC4).
    Replaced {
        /// How much of it was shipped.
        shipped: u64,
    },
}

/// What a look at a file's bytes has shown.
#[derive(Clone, Copy, Debug)]
pub(super) struct FileBytes<'a> {
    /// The first ones.
    pub(super) head: &'a [u8],
    /// Those of [`ShippedSoFar::tail_place`].
    pub(super) tail: &'a [u8],
}

/// How many bytes before the offset the sum covers.
pub(super) fn tail_size(offset: u64) -> usize {
    usize::try_from(offset).unwrap_or(TAIL_SIZE_MAX).min(TAIL_SIZE_MAX)
}

impl BytesSum {
    pub(super) fn of(bytes: &[u8]) -> Self {
        Self { size: bytes.len(), sum: crc32c(bytes) }
    }

    /// Of a head, as it was stored.
    fn parse(text: &str) -> Option<Self> {
        let (size, sum) = text.split_once(' ')?;
        let size = size.parse().ok().filter(|size| *size <= HEAD_SIZE_MAX)?;
        Some(Self { size, sum: Crc32c::from_str_radix(sum, 16).ok()? })
    }
}

impl fmt::Display for BytesSum {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {:08x}", self.size, self.sum)
    }
}

impl SourceStart {
    /// The offset to read from.
    pub(super) fn offset(self) -> u64 {
        match self {
            Self::Behind(offset) => offset,
            Self::New | Self::InodeUsedAgain | Self::Truncated { .. } | Self::Replaced { .. } => 0,
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
        let Self { key: FileKey { device, inode }, head, offset, name, .. } = self;
        let born = self.born.unwrap_or_default();
        let tail = self.tail_sum.map(|sum| format!("{TAIL}{sum:08x}")).unwrap_or_default();
        format!(
            "{MARK}{name}{tail}, offset {offset}, head {head}, inode {inode}, device {device}, \
             born {born}"
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
        let head = BytesSum::parse(next("head")?)?;
        let offset = next("offset")?.parse().ok()?;
        let name = parts.next()?;
        let tail = name
            .rsplit_once(TAIL)
            .filter(|(_, sum)| sum.len() == 8)
            .and_then(|(name, sum)| Some((name, Crc32c::from_str_radix(sum, 16).ok()?)));
        let (name, tail_sum) = tail.map_or((name, None), |(name, sum)| (name, Some(sum)));
        let (key, born) = (FileKey { device, inode }, (born > 0).then_some(born));
        Some(Self { key, born, head, offset, tail_sum, name: name.to_owned() })
    }

    /// Where the file goes on that has this cursor's inode, and these bytes (SC1, SC4).
    fn start(&self, seen: &FileSeen, bytes: FileBytes<'_>) -> SourceStart {
        let is_other_birth = matches!((self.born, seen.born), (Some(a), Some(b)) if a != b);
        let head = bytes.head.get(..self.head.size);
        let has_head = head.is_some_and(|it| BytesSum::of(it) == self.head);
        let has_tail = self.tail_sum.is_none_or(|sum| crc32c(bytes.tail) == sum);
        if is_other_birth {
            SourceStart::InodeUsedAgain
        } else if has_head && seen.size >= self.offset && has_tail {
            SourceStart::Behind(self.offset)
        } else if has_head && seen.size >= self.offset {
            SourceStart::Replaced { shipped: self.offset }
        } else if has_head || self.born.is_some() && seen.born.is_some() || self.name == seen.name {
            // A doubt is told: it may have cost lines.
            SourceStart::Truncated { shipped: self.offset }
        } else {
            SourceStart::InodeUsedAgain
        }
    }
}

impl ShippedSoFar {
    /// As the stream tells now, and as it stood `before`: an opening lets go of a cursor that is
    /// old (R47), and a file may be quiet for months. That cursor still says how far the file is,
    /// as long as it belongs to the last record that there is: after openings in vain too.
    pub(super) fn after(self, before: &Self) -> Self {
        let Self { number, cursor, changed_ms } = self;
        let last = before.cursor.as_ref().filter(|(of, _)| *of == number);
        Self { number, cursor: cursor.or_else(|| last.cloned()), changed_ms }
    }

    /// Which bytes of the file [`start`](Self::start) wants to see: from where on, and how many.
    pub(super) fn tail_place(&self) -> (u64, usize) {
        let cursor = self.cursor.as_ref().and_then(|(_, text)| SourceCursor::parse(text));
        let offset = cursor.map_or(0, |cursor| cursor.offset);
        let size = tail_size(offset);
        (offset - size as u64, size)
    }

    /// Where the file goes on that this producer is for, with these bytes.
    ///
    /// # Errors
    /// Where that cannot be known.
    pub(super) fn start(
        &self,
        seen: &FileSeen,
        bytes: FileBytes<'_>,
    ) -> Result<SourceStart, StartUnknown> {
        match &self.cursor {
            _ if self.number == 0 => Ok(SourceStart::New),
            None if self.is_of_before(seen) => Ok(SourceStart::InodeUsedAgain),
            None => Err(StartUnknown::CursorGone { number: self.number }),
            Some((number, text)) => match SourceCursor::parse(text) {
                Some(cursor) if *number == self.number => Ok(cursor.start(seen, bytes)),
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
    use super::{
        BytesSum, FileBytes, FileKey, FileSeen, ShippedSoFar, SourceCursor, SourceStart,
        StartUnknown,
    };
    use cairn_types::crc32c;

    const KEY: FileKey = FileKey { device: 2049, inode: 131 };
    const BYTES: &[u8] = b"one\ntwo\nthree\n";

    fn cursor(offset: usize, born: Option<u64>) -> SourceCursor {
        let (head, tail_sum) = (BytesSum::of(&BYTES[..offset]), Some(crc32c(&BYTES[..offset])));
        let name = "a, offset 3, tail, b.log".to_owned();
        SourceCursor { key: KEY, born, head, offset: offset as u64, tail_sum, name }
    }

    /// Where a file with these bytes goes on.
    fn start(
        so_far: &ShippedSoFar,
        seen: &FileSeen,
        bytes: &[u8],
    ) -> Result<SourceStart, StartUnknown> {
        let (from, size) = so_far.tail_place();
        let from = usize::try_from(from).expect("small");
        let tail = bytes.get(from..from + size).unwrap_or_default();
        so_far.start(seen, FileBytes { head: bytes, tail })
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
    fn a_cursor_of_a_version_without_a_sum_of_the_tail_is_read_and_that_one_reads_the_next_ones() {
        let new = cursor(8, Some(5)).text();
        let tail = format!("{:08x}", crc32c(&BYTES[..8]));
        let old = new.replace(&format!(", tail {tail}"), "");
        let without = SourceCursor { tail_sum: None, ..cursor(8, Some(5)) };
        assert!(old != new && without.text() == old);
        assert_eq!(SourceCursor::parse(&old), Some(without));
        // It split off these five, and took what is before them for the name.
        let parts: Vec<&str> = new.rsplitn(6, ", ").collect();
        let name = format!("ship a, offset 3, tail, b.log, tail {tail}");
        assert_eq!(parts[1..], ["device 2049", "inode 131", parts[3], "offset 8", &name]);
    }

    #[test]
    fn a_file_that_was_cut_short_and_has_grown_again_is_begun_anew_and_that_is_told() {
        let (so_far, seen) = (so_far(&cursor(8, Some(5))), seen(14, Some(5)));
        let head = FileBytes { head: BYTES, tail: b"other\n" };
        assert_eq!(so_far.start(&seen, head), Ok(SourceStart::Replaced { shipped: 8 }));
        let old = SourceCursor { tail_sum: None, ..cursor(8, Some(5)) };
        assert_eq!(self::so_far(&old).start(&seen, head), Ok(SourceStart::Behind(8)), "untold");
    }

    #[test]
    fn a_file_goes_on_behind_what_is_shipped_on_whichever_device_it_is_now() {
        let so_far = so_far(&cursor(8, Some(5)));
        let mut seen = seen(14, Some(5));
        assert_eq!(start(&so_far, &seen, BYTES), Ok(SourceStart::Behind(8)));
        seen.key.device = 7;
        assert_eq!(start(&so_far, &seen, BYTES), Ok(SourceStart::Behind(8)));
        seen.born = None;
        assert_eq!(start(&so_far, &seen, BYTES), Ok(SourceStart::Behind(8)));
    }

    #[test]
    fn an_inode_that_is_used_again_is_a_new_file_also_where_its_first_lines_are_the_same() {
        let born = so_far(&cursor(8, Some(5)));
        assert_eq!(start(&born, &seen(14, Some(6)), BYTES), Ok(SourceStart::InodeUsedAgain));
        let other = b"other\nlines\n";
        let unknown = so_far(&cursor(8, None));
        assert_eq!(start(&unknown, &seen(12, None), other), Ok(SourceStart::InodeUsedAgain));
    }

    #[test]
    fn a_file_that_shrank_or_has_other_bytes_is_begun_anew_and_that_is_told() {
        let so_far = so_far(&cursor(8, Some(5)));
        let truncated = Ok(SourceStart::Truncated { shipped: 8 });
        assert_eq!(start(&so_far, &seen(0, Some(5)), b""), truncated);
        assert_eq!(start(&so_far, &seen(20, Some(5)), b"other lines, and more\n"), truncated);
        let shorter = SourceCursor { head: BytesSum::of(b"one\n"), ..cursor(8, None) };
        let shorter = self::so_far(&shorter);
        assert_eq!(start(&shorter, &seen(5, None), b"one\nt"), truncated, "the head is there");
    }

    #[test]
    fn a_cursor_that_goes_as_its_producer_is_opened_counts_where_nothing_came_meanwhile() {
        let (before, file) = (so_far(&cursor(8, Some(5))), seen(14, Some(5)));
        let told = |number, cursor| ShippedSoFar { number, cursor, changed_ms: None };
        let opened = told(2, None).after(&before);
        assert_eq!(start(&opened, &file, BYTES), Ok(SourceStart::Behind(8)), "quiet for months");
        let again = told(2, None).after(&opened);
        assert_eq!(start(&again, &file, BYTES), Ok(SourceStart::Behind(8)), "it was in vain");
        let other = told(3, None).after(&before);
        let why = Err(StartUnknown::CursorGone { number: 3 });
        assert_eq!(start(&other, &file, BYTES), why);
        let newer = told(3, Some((3, cursor(14, Some(5)).text()))).after(&before);
        assert_eq!(start(&newer, &file, BYTES), Ok(SourceStart::Behind(14)));
    }

    #[test]
    fn what_cannot_be_known_is_not_guessed() {
        let none = ShippedSoFar::default();
        assert_eq!(start(&none, &seen(14, None), BYTES), Ok(SourceStart::New));
        let gone = ShippedSoFar { number: 2, cursor: None, changed_ms: Some(1000) };
        let why = Err(StartUnknown::CursorGone { number: 2 });
        assert_eq!(start(&gone, &seen(14, None), BYTES), why);
        assert_eq!(start(&gone, &seen(14, Some(3_600_000_000_000)), BYTES), why);
        let later = seen(14, Some(3_700_000_000_000));
        assert_eq!(start(&gone, &later, BYTES), Ok(SourceStart::InodeUsedAgain));
        let mut foreign = so_far(&cursor(8, None));
        foreign.number = 3;
        assert!(matches!(start(&foreign, &later, BYTES), Err(StartUnknown::Foreign { .. })));
        foreign.cursor = Some((3, "line 3".to_owned()));
        assert!(matches!(start(&foreign, &later, BYTES), Err(StartUnknown::Foreign { .. })));
    }
}
