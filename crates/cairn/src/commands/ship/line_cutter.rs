//! Lines out of bytes that come in pieces.
//!
//! - LC1: a line is handed out once its newline is there, and not before.
//! - LC2: one that is longer than a record may be is handed out in parts: no file is ever stuck,
//!   and none is held in memory whole.

/// Cuts what is read of one file.
#[derive(Debug)]
pub(super) struct LineCutter {
    held: Vec<u8>,
    /// Where in `held` the next line begins.
    next: usize,
    /// No newline stands before this.
    searched: usize,
    /// Bytes that a record may have.
    size_max: usize,
    /// The newline belongs to it: in a stream of bytes.
    keeps_newline: bool,
}

/// A line, or a part of one (LC2).
#[derive(Debug, PartialEq, Eq)]
pub(super) struct CutLine<'a> {
    pub(super) bytes: &'a [u8],
    /// Bytes of the file that are behind it then.
    pub(super) size: u64,
    pub(super) is_part: bool,
}

impl LineCutter {
    pub(super) fn new(size_max: usize, keeps_newline: bool) -> Self {
        let size_max = size_max.max(1);
        Self { held: Vec::new(), next: 0, searched: 0, size_max, keeps_newline }
    }

    /// Takes what was read behind the last piece.
    pub(super) fn push(&mut self, bytes: &[u8]) {
        self.held.drain(..self.next);
        self.searched -= self.next;
        self.next = 0;
        self.held.extend_from_slice(bytes);
    }

    /// The next line that is whole.
    pub(super) fn line(&mut self) -> Option<CutLine<'_>> {
        let newline = self.held[self.searched..].iter().position(|byte| *byte == b'\n');
        let start = self.next;
        let end = newline.map(|at| self.searched + at);
        self.searched = end.map_or(self.held.len(), |end| end + 1);
        match end {
            Some(end) if end - start <= self.size_max - usize::from(self.keeps_newline) => {
                self.next = end + 1;
                let kept = if self.keeps_newline { end + 1 } else { end };
                let size = (self.next - start) as u64;
                Some(CutLine { bytes: &self.held[start..kept], size, is_part: false })
            }
            None if self.held.len() - start <= self.size_max => None,
            _ => {
                self.next = start + self.size_max;
                self.searched = self.next;
                let bytes = &self.held[start..self.next];
                Some(CutLine { bytes, size: self.size_max as u64, is_part: true })
            }
        }
    }

    /// How many bytes wait for their newline.
    pub(super) fn waiting(&self) -> usize {
        self.held.len() - self.next
    }

    /// How many of them are behind the last newline: the others are lines that were not handed out.
    pub(super) fn unfinished(&self) -> usize {
        let held = &self.held[self.next..];
        held.iter().rev().take_while(|byte| **byte != b'\n').count()
    }

    /// What waits for a newline that will never come.
    pub(super) fn take_rest(&mut self) -> Vec<u8> {
        let rest = self.held.split_off(self.next);
        self.clear();
        rest
    }

    /// Forgets what it has.
    pub(super) fn clear(&mut self) {
        self.held.clear();
        (self.next, self.searched) = (0, 0);
    }
}

#[cfg(test)]
mod tests {
    use super::LineCutter;

    fn lines(cutter: &mut LineCutter) -> Vec<(String, u64, bool)> {
        let mut all = Vec::new();
        while let Some(line) = cutter.line() {
            let text = String::from_utf8(line.bytes.to_vec()).expect("text");
            all.push((text, line.size, line.is_part));
        }
        all
    }

    fn whole(text: &str, size: u64) -> (String, u64, bool) {
        (text.to_owned(), size, false)
    }

    #[test]
    fn a_line_comes_with_its_newline_wherever_the_pieces_are_cut() {
        let text = b"one\n\nthree\nfour";
        for at in 0..text.len() {
            let mut cutter = LineCutter::new(8, false);
            cutter.push(&text[..at]);
            let mut all = lines(&mut cutter);
            cutter.push(&text[at..]);
            all.extend(lines(&mut cutter));
            assert_eq!(all, [whole("one", 4), whole("", 1), whole("three", 6)], "{at}");
            assert_eq!((cutter.waiting(), cutter.unfinished()), (4, 4));
            assert_eq!(cutter.take_rest(), b"four");
            assert_eq!(cutter.waiting(), 0);
        }
    }

    #[test]
    fn a_line_that_is_too_long_comes_in_parts_and_one_that_just_fits_as_a_whole() {
        let mut cutter = LineCutter::new(4, false);
        cutter.push(b"1234\n12345\n123456789");
        let part = |text: &str| (text.to_owned(), text.len() as u64, true);
        let mut wanted = vec![whole("1234", 5), part("1234"), whole("5", 2)];
        wanted.extend([part("1234"), part("5678")]);
        assert_eq!(lines(&mut cutter), wanted);
        assert_eq!(cutter.waiting(), 1);
        let mut cutter = LineCutter::new(4, true);
        cutter.push(b"123\n1234\n");
        assert_eq!((cutter.waiting(), cutter.unfinished()), (9, 0), "whole lines");
        assert_eq!(lines(&mut cutter), [whole("123\n", 4), part("1234"), whole("\n", 1)]);
    }
}
