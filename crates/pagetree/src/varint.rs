//! Numbers of one to ten bytes, seven bits each, the lowest first; the last byte is below 128.

/// Bytes that the longest number takes.
const SIZE_MAX: usize = 10;

/// Appends `value`.
pub(crate) fn put(out: &mut Vec<u8>, mut value: u64) {
    while value >= 0x80 {
        out.push(value.to_le_bytes()[0] | 0x80);
        value >>= 7;
    }
    out.push(value.to_le_bytes()[0]);
}

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
    let mut value = 0u64;
    for step in 0..SIZE_MAX {
        let byte = u64::from(*bytes.get(at + step)?);
        let bits = byte & 0x7f;
        // The tenth byte has room for one bit.
        if step + 1 == SIZE_MAX && bits > 1 {
            return None;
        }
        value |= bits << (7 * step);
        if byte < 0x80 {
            return Some((value, at + step + 1));
        }
    }
    None
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
