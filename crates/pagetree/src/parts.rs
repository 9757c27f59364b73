//! A key in up to three pieces, compared without being put together.

use std::cmp::Ordering;

/// The pieces of a key, in order; any of them may be empty.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct KeyParts<'a>([&'a [u8]; 3]);

impl<'a> KeyParts<'a> {
    /// A key in one piece.
    pub(crate) fn whole(key: &'a [u8]) -> Self {
        Self([key, &[], &[]])
    }

    /// `middle`, between the first `front` and the last `back` bytes of `reference`.
    ///
    /// Nothing where `reference` is shorter than that.
    pub(crate) fn within(
        reference: &'a [u8],
        front: usize,
        middle: &'a [u8],
        back: usize,
    ) -> Option<Self> {
        let rest = reference.len().checked_sub(front)?.checked_sub(back)?;
        Some(Self([&reference[..front], middle, &reference[front + rest..]]))
    }

    /// Bytes of the key.
    pub(crate) fn size(&self) -> usize {
        self.0[0].len() + self.0[1].len() + self.0[2].len()
    }

    /// How many bytes at the front `key` and this one share.
    pub(crate) fn shared_front(&self, key: &[u8]) -> usize {
        let mut total = 0;
        for piece in self.0 {
            let shared = shared_front(piece, &key[total..]);
            total += shared;
            if shared < piece.len() {
                break;
            }
        }
        total
    }

    /// The same, where the first piece, of `known` bytes, is known to be shared.
    pub(crate) fn shared_front_behind(&self, known: usize, key: &[u8]) -> usize {
        let [_, middle, back] = self.0;
        known + Self([middle, back, &[]]).shared_front(&key[known..])
    }

    /// How many bytes at the back `key` and this one share, at most `most`.
    pub(crate) fn shared_back(&self, key: &[u8], most: usize) -> usize {
        let mut total = 0;
        for piece in self.0.iter().rev() {
            let shared = shared_back(piece, &key[..key.len() - total]);
            total += shared;
            if shared < piece.len() {
                break;
            }
        }
        total.min(most)
    }

    /// The last `size` bytes; nothing where the key is shorter.
    pub(crate) fn tail(&self, size: usize) -> Option<Self> {
        let mut cut = self.size().checked_sub(size)?;
        let mut pieces = self.0;
        for piece in &mut pieces {
            let gone = cut.min(piece.len());
            *piece = &piece[gone..];
            cut -= gone;
        }
        Some(Self(pieces))
    }

    /// How `key` stands to this one.
    pub(crate) fn order_of(&self, mut key: &[u8]) -> Ordering {
        for piece in self.0 {
            match order_of_front(key, piece) {
                Ordering::Equal => key = &key[piece.len()..],
                decided => return decided,
            }
        }
        if key.is_empty() { Ordering::Equal } else { Ordering::Greater }
    }

    /// Appends the key, put together.
    pub(crate) fn append_to(&self, out: &mut Vec<u8>) {
        for piece in self.0 {
            out.extend_from_slice(piece);
        }
    }
}

/// How `key` stands to all keys that begin with `front`: equal, if it does too.
pub(crate) fn order_of_front(key: &[u8], front: &[u8]) -> Ordering {
    // The first byte mostly decides, and sooner than a call that compares memory.
    match (key.first(), front.first()) {
        (_, None) => Ordering::Equal,
        (Some(one), Some(other)) if one == other => {
            let size = front.len().min(key.len());
            key[..size].cmp(&front[..size]).then(size.cmp(&front.len()))
        }
        (one, other) => one.cmp(&other),
    }
}

/// How many bytes at the front two keys share.
pub(crate) fn shared_front(one: &[u8], other: &[u8]) -> usize {
    let (one_words, _) = one.as_chunks::<8>();
    let (other_words, _) = other.as_chunks::<8>();
    let mut at = 0;
    for (one, other) in one_words.iter().zip(other_words) {
        let differ = u64::from_le_bytes(*one) ^ u64::from_le_bytes(*other);
        if differ != 0 {
            return at + differ.trailing_zeros() as usize / 8;
        }
        at += 8;
    }
    at + one[at..].iter().zip(&other[at..]).take_while(|(one, other)| one == other).count()
}

/// How many bytes at the back two keys share.
pub(crate) fn shared_back(one: &[u8], other: &[u8]) -> usize {
    let (_, one_words) = one.as_rchunks::<8>();
    let (_, other_words) = other.as_rchunks::<8>();
    let mut size = 0;
    for (one, other) in one_words.iter().rev().zip(other_words.iter().rev()) {
        let differ = u64::from_le_bytes(*one) ^ u64::from_le_bytes(*other);
        if differ != 0 {
            return size + differ.leading_zeros() as usize / 8;
        }
        size += 8;
    }
    // One of them has no whole word left; the other may.
    let (one, other) = (&one[..one.len() - size], &other[..other.len() - size]);
    let same = one.iter().rev().zip(other.iter().rev()).take_while(|(one, other)| one == other);
    size + same.count()
}

#[cfg(test)]
mod tests {
    use super::{KeyParts, shared_back, shared_front};
    use proptest::prelude::{prop_assert_eq, proptest};
    use std::cmp::Ordering;

    #[test]
    fn sharing_is_counted_past_words_and_up_to_the_shorter() {
        assert_eq!(shared_front(b"part-00042-x", b"part-00042-y"), 11);
        assert_eq!(shared_front(b"ab", b"abc"), 2);
        assert_eq!(shared_back(b"1-c000.snappy.parquet", b"22-c000.snappy.parquet"), 20);
        assert_eq!(shared_back(b"bc", b"abc"), 2);
        assert_eq!(shared_back(b"", b"abc"), 0);
    }

    proptest! {
        #[test]
        fn a_key_in_pieces_is_the_key_put_together(
            reference in "[ab]{0,20}", middle in "[ab]{0,4}", key in "[ab]{0,20}",
            front in 0usize..22, back in 0usize..22, tail in 0usize..30,
        ) {
            let (reference, key) = (reference.as_bytes(), key.as_bytes());
            let parts = KeyParts::within(reference, front, middle.as_bytes(), back);
            if front + back > reference.len() {
                assert!(parts.is_none());
                return Ok(());
            }
            let parts = parts.unwrap();
            let mut whole = Vec::new();
            parts.append_to(&mut whole);
            prop_assert_eq!(parts.size(), whole.len());
            prop_assert_eq!(parts.order_of(key), key.cmp(&whole));
            prop_assert_eq!(parts.order_of(&whole), Ordering::Equal);
            let naive = whole.iter().zip(key).take_while(|(a, b)| a == b).count();
            prop_assert_eq!(parts.shared_front(key), naive);
            let naive = whole.iter().rev().zip(key.iter().rev()).take_while(|(a, b)| a == b);
            prop_assert_eq!(parts.shared_back(key, usize::MAX), naive.count());
            let mut end = Vec::new();
            match parts.tail(tail) {
                Some(parts) => parts.append_to(&mut end),
                None => assert!(tail > whole.len()),
            }
            if tail <= whole.len() {
                prop_assert_eq!(end.as_slice(), &whole[whole.len() - tail..]);
            }
        }
    }
}
