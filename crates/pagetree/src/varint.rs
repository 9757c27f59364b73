//! Sizes and counts as `cairn_types::varint` writes numbers, read at a place in a page.

pub(crate) use cairn_types::varint::put;

/// Appends a size or a count.
pub(crate) fn put_size(out: &mut Vec<u8>, value: usize) {
    put(out, value as u64);
}

/// How many bytes a size takes.
pub(crate) fn size_of(value: usize) -> usize {
    let bits = (usize::BITS - value.leading_zeros()).max(1) as usize;
    bits.div_ceil(7)
}

/// Reads the number at `at`, and where it ends. Nothing where the bytes hold none.
pub(crate) fn take(bytes: &[u8], at: usize) -> Option<(u64, usize)> {
    let mut rest = bytes.get(at..)?;
    let value = cairn_types::varint::take(&mut rest)?;
    Some((value, bytes.len() - rest.len()))
}

/// Reads a size at `at`, and where it ends.
pub(crate) fn take_size(bytes: &[u8], at: usize) -> Option<(usize, usize)> {
    let (value, end) = take(bytes, at)?;
    Some((usize::try_from(value).ok()?, end))
}

#[cfg(test)]
mod tests {
    use super::{put, size_of, take};

    #[test]
    fn what_is_put_is_taken_and_a_cut_number_is_none() {
        for value in [0, 1, 127, 128, 300, 16_383, 16_384, u64::from(u32::MAX), u64::MAX] {
            let mut out = vec![9];
            put(&mut out, value);
            assert_eq!(take(&out, 1), Some((value, out.len())));
            assert_eq!(take(&out[..out.len() - 1], 1), None);
            assert_eq!(size_of(usize::try_from(value).unwrap()), out.len() - 1);
        }
        assert_eq!(take(&[0xff; 11], 0), None);
        assert_eq!(take(&[], 0), None);
    }
}
