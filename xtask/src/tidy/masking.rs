//! Tells code, comments and strings of a Rust file apart, without parsing it.
//!
//! ```text
//!   let a = "fn {"; // why        text
//!   let a = "    ";               code:     comments and what strings hold blanked
//!                   // why        comments: everything else blanked
//! ```
//! - Both results have the text's lines and columns (in characters).

/// A text, split into what the compiler reads and what people read.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct Masked {
    /// Code alone.
    pub(crate) code: String,
    /// Comments alone.
    pub(crate) comments: String,
}

/// Splits `text`.
pub(crate) fn mask(text: &str) -> Masked {
    let mut masker = Masker { text: text.chars().collect(), at: 0, masked: Masked::default() };
    while masker.at < masker.text.len() {
        masker.next();
    }
    masker.masked
}

/// Where a character goes.
#[derive(Clone, Copy)]
enum Kind {
    Code,
    Comment,
    Literal,
}

struct Masker {
    text: Vec<char>,
    at: usize,
    masked: Masked,
}

impl Masker {
    fn peek(&self, ahead: usize) -> Option<char> {
        self.text.get(self.at + ahead).copied()
    }

    fn take(&mut self, kind: Kind, count: usize) {
        let end = (self.at + count).min(self.text.len());
        for &c in &self.text[self.at..end] {
            let shown = |yes: bool| if yes || c == '\n' { c } else { ' ' };
            self.masked.code.push(shown(matches!(kind, Kind::Code)));
            self.masked.comments.push(shown(matches!(kind, Kind::Comment)));
        }
        self.at = end;
    }

    fn next(&mut self) {
        match (self.peek(0), self.peek(1)) {
            (Some('/'), Some('/')) => self.line_comment(),
            (Some('/'), Some('*')) => self.block_comment(),
            (Some('"'), _) => self.string(),
            (Some('r'), _) if self.raw_string_hashes().is_some() => self.raw_string(),
            (Some('\''), _) => self.quote(),
            _ => self.take(Kind::Code, 1),
        }
    }

    fn line_comment(&mut self) {
        while self.peek(0).is_some_and(|c| c != '\n') {
            self.take(Kind::Comment, 1);
        }
    }

    fn block_comment(&mut self) {
        let mut depth = 0;
        while self.at < self.text.len() {
            match (self.peek(0), self.peek(1)) {
                (Some('/'), Some('*')) => depth += 1,
                (Some('*'), Some('/')) => depth -= 1,
                _ => {
                    self.take(Kind::Comment, 1);
                    continue;
                }
            }
            self.take(Kind::Comment, 2);
            if depth == 0 {
                return;
            }
        }
    }

    fn string(&mut self) {
        self.take(Kind::Code, 1);
        while let Some(c) = self.peek(0) {
            match c {
                '"' => return self.take(Kind::Code, 1),
                '\\' => self.take(Kind::Literal, 2),
                _ => self.take(Kind::Literal, 1),
            }
        }
    }

    /// How many `#` open the raw string that starts here; nothing where none does.
    fn raw_string_hashes(&self) -> Option<usize> {
        let before = self.at.checked_sub(1).map(|at| self.text[at]);
        let within_a_name = before.is_some_and(|c| is_name(c) && !matches!(c, 'b' | 'c'));
        let hashes = self.text[self.at + 1..].iter().take_while(|c| **c == '#').count();
        (!within_a_name && self.peek(1 + hashes) == Some('"')).then_some(hashes)
    }

    fn raw_string(&mut self) {
        let hashes = self.raw_string_hashes().unwrap_or_default();
        self.take(Kind::Code, hashes + 2);
        while self.at < self.text.len() {
            let closes = self.peek(0) == Some('"')
                && (1..=hashes).all(|ahead| self.peek(ahead) == Some('#'));
            if closes {
                return self.take(Kind::Code, hashes + 1);
            }
            self.take(Kind::Literal, 1);
        }
    }

    /// A character literal, or the start of a lifetime.
    fn quote(&mut self) {
        if self.peek(1) == Some('\\') {
            self.take(Kind::Code, 1);
            self.take(Kind::Literal, 2);
            while self.peek(0).is_some_and(|c| c != '\'') {
                self.take(Kind::Literal, 1);
            }
            self.take(Kind::Code, 1);
        } else if self.peek(2) == Some('\'') {
            self.take(Kind::Code, 1);
            self.take(Kind::Literal, 1);
            self.take(Kind::Code, 1);
        } else {
            self.take(Kind::Code, 1);
        }
    }
}

/// Whether a character can be part of a name.
pub(crate) fn is_name(c: char) -> bool {
    c.is_alphanumeric() || c == '_'
}

/// Where `word` stands in `code` as a word of its own, as byte positions.
pub(crate) fn words<'a>(code: &'a str, word: &'a str) -> impl Iterator<Item = usize> + 'a {
    code.match_indices(word).map(|(at, _)| at).filter(move |at| {
        let before = code[..*at].chars().next_back();
        let after = code[at + word.len()..].chars().next();
        !before.is_some_and(is_name) && !after.is_some_and(is_name)
    })
}

#[cfg(test)]
mod tests {
    use super::{mask, words};

    fn code(text: &str) -> String {
        mask(text).code
    }

    #[test]
    fn comments_and_strings_are_blanked_and_columns_stay() {
        assert_eq!(code("a \"{\\\"\" b // }"), "a \"   \" b     ");
        assert_eq!(code("a /* { /* } */ */ b"), "a                 b");
        assert_eq!(mask("a // b\nc").comments, "  // b\n ");
    }

    #[test]
    fn raw_strings_end_at_their_own_hashes() {
        assert_eq!(code("r#\"a\"b\"# c"), "r#\"   \"# c");
        assert_eq!(code("br\"\\\" c"), "br\" \" c");
        assert_eq!(code("bar\"x\" c"), "bar\" \" c");
    }

    #[test]
    fn a_lifetime_is_no_character() {
        assert_eq!(code("&'a str, '{', '\\'', b'}'"), "&'a str, ' ', '  ', b' '");
    }

    #[test]
    fn a_word_is_found_only_on_its_own() {
        assert_eq!(words("unsafe_code unsafe {", "unsafe").collect::<Vec<_>>(), [12]);
    }
}
