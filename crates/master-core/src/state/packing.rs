//! Small numbers in few bytes: how keys and values of the state's trees are written
//! (docs/formats/state-image.md).
//!
//! - PK1: unpacking is total: bytes that were not packed so give nothing, never a panic.
//! - PK2: keys are big-endian, so that their order as bytes is that of their numbers.

use cairn_types::varint;

pub(super) use cairn_types::varint::put as put_number;

/// Appends a number as the step from one that the reader knows: few bytes, if they are near.
pub(super) fn put_near(out: &mut Vec<u8>, number: u64, known: u64) {
    put_number(out, varint::step(known, number));
}

/// Packed bytes that are not read yet.
#[derive(Clone, Copy, Debug)]
pub(super) struct Packed<'a>(pub(super) &'a [u8]);

impl<'a> Packed<'a> {
    /// The next byte.
    pub(super) fn byte(&mut self) -> Option<u8> {
        let (byte, rest) = self.0.split_first()?;
        self.0 = rest;
        Some(*byte)
    }

    /// The next number.
    pub(super) fn number(&mut self) -> Option<u64> {
        varint::take(&mut self.0)
    }

    /// The next number, which is a small one.
    pub(super) fn small(&mut self) -> Option<u32> {
        u32::try_from(self.number()?).ok()
    }

    /// The next number, written as the step from `known`.
    pub(super) fn near(&mut self, known: u64) -> Option<u64> {
        Some(varint::stepped(known, self.number()?))
    }

    /// The next eight bytes of a key, as a number.
    pub(super) fn key(&mut self) -> Option<u64> {
        let (number, rest) = self.0.split_first_chunk()?;
        self.0 = rest;
        Some(u64::from_be_bytes(*number))
    }

    /// The next sixteen bytes of a key, as a number.
    pub(super) fn wide_key(&mut self) -> Option<u128> {
        let (number, rest) = self.0.split_first_chunk()?;
        self.0 = rest;
        Some(u128::from_be_bytes(*number))
    }

    /// `value`, if all was read.
    pub(super) fn end<T>(self, value: T) -> Option<T> {
        self.0.is_empty().then_some(value)
    }

    /// The rest as text.
    pub(super) fn text(self) -> Option<&'a str> {
        std::str::from_utf8(self.0).ok()
    }
}

#[cfg(test)]
mod tests {
    use super::{Packed, put_near, put_number};
    use proptest::prelude::{any, proptest};

    const EDGES: [u64; 9] = [0, 1, 127, 128, 16_383, 16_384, 1 << 40, u64::MAX - 1, u64::MAX];

    #[test]
    fn what_is_packed_comes_back_and_a_cut_number_is_none() {
        for number in EDGES {
            let mut out = Vec::new();
            put_number(&mut out, number);
            assert_eq!(Packed(&out).number(), Some(number));
            assert_eq!(Packed(&out[..out.len() - 1]).number(), None);
            for known in EDGES {
                out.clear();
                put_near(&mut out, number, known);
                let mut packed = Packed(&out);
                assert_eq!(packed.near(known), Some(number));
                assert_eq!(packed.end(7), Some(7));
            }
        }
        let mut near = Vec::new();
        put_near(&mut near, 1_000_000, 1_000_063);
        assert_eq!(near.len(), 1, "a small difference takes one byte");
        assert_eq!(Packed(&[0xff; 11]).number(), None);
    }

    proptest! {
        #[test]
        fn no_bytes_make_it_panic(raw in proptest::collection::vec(any::<u8>(), 0..20)) {
            let mut packed = Packed(&raw);
            let _ = (packed.byte(), packed.number(), packed.small(), packed.near(9));
            let _ = (packed.key(), packed.wide_key(), packed.text(), packed.end(()));
        }
    }
}
