//! Text of a few bytes that stands in the value itself.
//!
//! Each answer about a chunk names three servers with their racks, and each of these texts would
//! be read into a box of its own (docs/decisions/2026-11-22-what-a-look-up-costs.md).

use std::cmp::Ordering;
use std::fmt;
use std::hash::{Hash, Hasher};
use std::sync::Arc;

/// Bytes that stand in place: room for any `a.b.c.d:port`.
const IN_PLACE: usize = 22;

/// A text that does not change; clones of a long one share it.
#[derive(Clone)]
pub(crate) struct Text(Held);

#[derive(Clone)]
enum Held {
    Short([u8; IN_PLACE], u8),
    Long(Arc<str>),
}

impl Held {
    /// Text that stands in place, if it is short enough.
    #[inline]
    fn short(text: &[u8]) -> Option<Self> {
        let mut bytes = [0; IN_PLACE];
        bytes.get_mut(..text.len())?.copy_from_slice(text);
        Some(Self::Short(bytes, u8::try_from(text.len()).ok()?))
    }
}

impl Text {
    pub(crate) fn new(text: &str) -> Self {
        Self(Held::short(text.as_bytes()).unwrap_or_else(|| Held::Long(text.into())))
    }

    /// From bytes that may be text; nothing where they are none.
    pub(crate) fn read(bytes: &[u8]) -> Option<Self> {
        // Addresses and racks are ASCII, which is told in a few steps.
        let short = if bytes.is_ascii() { Held::short(bytes) } else { None };
        short.map(Self).or_else(|| str::from_utf8(bytes).ok().map(Self::new))
    }

    pub(crate) fn as_bytes(&self) -> &[u8] {
        match &self.0 {
            Held::Short(bytes, size) => &bytes[..usize::from(*size)],
            Held::Long(text) => text.as_bytes(),
        }
    }

    pub(crate) fn as_str(&self) -> &str {
        match &self.0 {
            Held::Short(..) => str::from_utf8(self.as_bytes()).expect("it was put in as text"),
            Held::Long(text) => text,
        }
    }
}

impl Default for Text {
    fn default() -> Self {
        Self(Held::Short([0; IN_PLACE], 0))
    }
}

impl fmt::Debug for Text {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(self.as_str(), f)
    }
}

impl PartialEq for Text {
    fn eq(&self, other: &Self) -> bool {
        self.as_bytes() == other.as_bytes()
    }
}

impl Eq for Text {}

impl PartialOrd for Text {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for Text {
    fn cmp(&self, other: &Self) -> Ordering {
        self.as_bytes().cmp(other.as_bytes())
    }
}

impl Hash for Text {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.as_bytes().hash(state);
    }
}

#[cfg(test)]
mod tests {
    use super::{IN_PLACE, Text};
    use proptest::prelude::{ProptestConfig, any, proptest};

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(500))]

        #[test]
        fn a_text_is_what_was_put_in_and_stands_as_that_does(one in ".{0,12}", other in ".{0,12}") {
            let [a, b] = [&one, &other].map(|text| Text::new(text));
            assert_eq!((a.as_str(), a.as_bytes()), (one.as_str(), one.as_bytes()));
            assert_eq!((a.cmp(&b), a == b), (one.cmp(&other), one == other));
            assert_eq!(Text::read(one.as_bytes()), Some(a));
        }

        #[test]
        fn bytes_are_read_where_they_are_text(
            bytes in proptest::collection::vec(any::<u8>(), 0..40),
        ) {
            let text = str::from_utf8(&bytes).ok();
            assert_eq!(Text::read(&bytes), text.map(Text::new));
        }
    }

    #[test]
    fn texts_around_the_size_that_stands_in_place_come_back() {
        for size in [0, 1, IN_PLACE - 1, IN_PLACE, IN_PLACE + 1, 1000] {
            let text = "x".repeat(size);
            assert_eq!(Text::new(&text).as_str(), text);
        }
        assert_eq!(Text::default(), Text::new(""));
    }

    #[test]
    fn a_text_is_no_larger_than_a_string() {
        assert_eq!(size_of::<Text>(), size_of::<String>());
    }
}
