//! Patterns for names, as shells have them: of a search in the master, of paths on a command line.

/// Whether a name matches a pattern, see [`NamePattern`].
#[must_use]
pub fn name_matches(pattern: &str, name: &str) -> bool {
    NamePattern::new(pattern).matches(name)
}

/// A pattern of `*`, `?` and `[a-z]` or `[!a-z]`; an empty one matches all.
#[derive(Clone, Debug)]
pub struct NamePattern {
    characters: Vec<char>,
    /// Behind the last bracket that closes.
    closed: usize,
}

impl NamePattern {
    /// Reads one; each text is one.
    #[must_use]
    pub fn new(text: &str) -> Self {
        let characters: Vec<char> = text.chars().collect();
        let closed = characters.iter().rposition(|it| *it == ']').map_or(0, |at| at + 1);
        Self { characters, closed }
    }

    /// Whether a name matches, in steps of the order of both lengths multiplied.
    #[must_use]
    pub fn matches(&self, name: &str) -> bool {
        let pattern = &self.characters;
        if pattern.is_empty() {
            return true;
        }
        let name: Vec<char> = name.chars().collect();
        let (mut p, mut n) = (0, 0);
        // Where to go on when what follows the last star does not fit: one name character further.
        let mut star: Option<(usize, usize)> = None;
        while n < name.len() {
            if pattern.get(p) == Some(&'*') {
                p += 1;
                star = Some((p, n));
            } else if let Some(size) = self.one(p, name[n]) {
                p += size;
                n += 1;
            } else if let Some((after_star, from)) = star {
                p = after_star;
                n = from + 1;
                star = Some((p, n));
            } else {
                return false;
            }
        }
        pattern[p..].iter().all(|rest| *rest == '*')
    }

    /// How much of the pattern matches one character from there on; none where it does not.
    fn one(&self, at: usize, character: char) -> Option<usize> {
        let pattern = &self.characters[at..];
        match pattern.first()? {
            '?' => Some(1),
            // Beyond there is none to be looked for.
            '[' if at < self.closed => one_of_class(pattern, character),
            literal => (*literal == character).then_some(1),
        }
    }
}

/// The same of a bracket.
fn one_of_class(pattern: &[char], character: char) -> Option<usize> {
    match class(pattern, character) {
        Some((size, true)) => Some(size),
        Some((_, false)) => None,
        // No closing bracket: it stands for itself.
        None => (character == '[').then_some(1),
    }
}

/// The size of a bracket expression and whether the character is of it.
fn class(pattern: &[char], character: char) -> Option<(usize, bool)> {
    let negated = pattern.get(1) == Some(&'!');
    let start = 1 + usize::from(negated);
    // A bracket right at the start is one of the set.
    let end = start + 1 + pattern.get(start + 1..)?.iter().position(|c| *c == ']')?;
    let mut set = &pattern[start..end];
    let mut inside = false;
    while let Some(first) = set.first() {
        if set.len() >= 3 && set[1] == '-' {
            inside |= (*first..=set[2]).contains(&character);
            set = &set[3..];
        } else {
            inside |= *first == character;
            set = &set[1..];
        }
    }
    Some((end + 1, inside != negated))
}

/// Whether a text is a pattern rather than a plain name.
#[must_use]
pub fn is_name_pattern(text: &str) -> bool {
    text.contains(['*', '?', '['])
}

#[cfg(test)]
mod tests {
    use super::{is_name_pattern, name_matches};

    #[test]
    fn patterns() {
        for (pattern, name, expected) in [
            ("*", "a", true),
            ("a*c", "abbc", true),
            ("a*c", "abbd", false),
            ("a*b*c", "aXbYbZc", true),
            ("?", "é", true),
            ("?", "ab", false),
            ("part-[0-9][!0-4]", "part-17", true),
            ("part-[0-9][!0-4]", "part-13", false),
            ("[]x]", "]", true),
            ("[ab", "[ab", true),
            ("[a][b", "a[b", true),
            ("[a]*[", "a[[", true),
            ("[", "b", false),
            ("**", "", true),
        ] {
            assert_eq!(name_matches(pattern, name), expected, "{pattern} on {name}");
        }
    }

    #[test]
    fn a_plain_name_is_no_pattern() {
        assert!(!is_name_pattern("part-00042.parquet"));
        assert!(["*", "a?", "[ab]"].into_iter().all(is_name_pattern));
    }
}
