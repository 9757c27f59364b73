//! What `cairn append` commits with each line: how many lines of which input are in the stream.
//!
//! ```text
//!   line 3000, crc32c 8badf00d
//!        └─ so many lines of the input, and what they sum up to
//! ```
//! - LQ1: the sum covers all lines up to that one, each with its end: a last line that had none yet
//!   sums up like the same line with its end. Pieces of a size have no end.
//! - LQ2: an input is the one that was begun if as many lines of it sum up to the same. Cursors of
//!   versions before this one say no sum (`line 3000`), and are believed.
//!
//! Knows lines and texts. Never sees a stream or an input.

use cairn_types::{Crc32c, crc32c_append};
use std::fmt;

/// What a cursor of this command begins with.
const LINE: &str = "line ";
/// What stands between its number and its sum.
const SUM: &str = ", crc32c ";

/// How far an input is, as its cursor says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct LineCursor {
    pub(super) lines: u64,
    /// None in a cursor of a version before this one.
    pub(super) sum: Option<Crc32c>,
}

impl LineCursor {
    /// None where it is no cursor of this command.
    pub(super) fn parse(text: &str) -> Option<Self> {
        let rest = text.strip_prefix(LINE)?;
        let Some((lines, sum)) = rest.split_once(SUM) else {
            return Some(Self { lines: rest.parse().ok()?, sum: None });
        };
        let sum = Crc32c::from_str_radix(sum, 16).ok()?;
        Some(Self { lines: lines.parse().ok()?, sum: Some(sum) })
    }
}

impl fmt::Display for LineCursor {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{LINE}{}", self.lines)?;
        self.sum.map_or(Ok(()), |sum| write!(f, "{SUM}{sum:08x}"))
    }
}

/// The lines of an input that were passed over or appended, and their sum.
#[derive(Clone, Copy, Debug)]
pub(super) struct SummedLines {
    /// The byte that ends each line; none: pieces of a size.
    end: Option<u8>,
    count: u64,
    sum: Crc32c,
}

impl SummedLines {
    pub(super) fn new(end: Option<u8>) -> Self {
        Self { end, count: 0, sum: 0 }
    }

    /// Takes the next line in, or the next piece (LQ1).
    pub(super) fn add(&mut self, line: &[u8]) {
        self.count += 1;
        self.sum = crc32c_append(self.sum, line);
        // A stream of bytes is given it with the line.
        if let Some(end) = self.end.filter(|end| line.last() != Some(end)) {
            self.sum = crc32c_append(self.sum, &[end]);
        }
    }

    /// Where the input is now.
    pub(super) fn cursor(&self) -> LineCursor {
        LineCursor { lines: self.count, sum: Some(self.sum) }
    }
}

#[cfg(test)]
mod tests {
    use super::{LineCursor, SummedLines};
    use cairn_types::crc32c;

    fn sum(end: Option<u8>, lines: &[&str]) -> Option<u32> {
        let mut summed = SummedLines::new(end);
        lines.iter().for_each(|line| summed.add(line.as_bytes()));
        summed.cursor().sum
    }

    #[test]
    fn a_cursor_is_read_as_it_was_stored_and_so_is_one_of_a_version_before() {
        for sum in [0, 0x8bad_f00d] {
            let cursor = LineCursor { lines: 3000, sum: Some(sum) };
            assert_eq!(LineCursor::parse(&cursor.to_string()), Some(cursor));
        }
        let before = LineCursor { lines: 7, sum: None };
        assert_eq!(LineCursor::parse("line 7"), Some(before));
        assert_eq!(before.to_string(), "line 7");
        let others = [
            "",
            "line ",
            "line x",
            "mine",
            "line 7, ",
            "line 7, crc32c ",
            "line 7, crc32c x",
            "line x, crc32c 8badf00d",
            "line 7, crc32c 8badf00d1",
            "line 7, crc32c 1, crc32c 1",
        ];
        for other in others {
            assert_eq!(LineCursor::parse(other), None, "{other}");
        }
    }

    #[test]
    fn the_sum_is_that_of_the_inputs_bytes_with_every_lines_end_also_where_the_last_has_none() {
        let lines = Some(b'\n');
        assert_eq!(sum(lines, &["one", "", "two"]), Some(crc32c(b"one\n\ntwo\n")));
        assert_eq!(sum(lines, &["one\n", "\n", "two"]), Some(crc32c(b"one\n\ntwo\n")));
        assert_ne!(sum(lines, &["one", "two"]), sum(lines, &["onet", "wo"]));
        assert_ne!(sum(lines, &["one", "two"]), sum(Some(0), &["one", "two"]));
        assert_eq!(sum(None, &["aaaa", "b\n"]), Some(crc32c(b"aaaab\n")));
        assert_eq!(sum(lines, &[]), Some(0));
    }
}
