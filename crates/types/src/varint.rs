//! Numbers of one to ten bytes, seven bits each, the lowest first; the last byte is below 128.
//!
//! For byte strings that are packed by hand, where a protobuf key in front of each number would
//! cost as much as the number.

/// Bytes that the longest number takes.
pub const SIZE_MAX: usize = 10;

/// Appends `value`.
#[inline]
pub fn put(out: &mut Vec<u8>, mut value: u64) {
    while value >= 0x80 {
        out.push(value.to_le_bytes()[0] | 0x80);
        value >>= 7;
    }
    out.push(value.to_le_bytes()[0]);
}

/// Takes the number that `input` begins with. Nothing where the bytes hold none.
#[inline]
pub fn take(input: &mut &[u8]) -> Option<u64> {
    match input.split_first() {
        // Most numbers are small.
        Some((byte @ 0..0x80, rest)) => {
            *input = rest;
            Some(u64::from(*byte))
        }
        _ => take_long(input),
    }
}

fn take_long(input: &mut &[u8]) -> Option<u64> {
    let mut value = 0u64;
    for (at, byte) in input.iter().take(SIZE_MAX).enumerate() {
        let bits = u64::from(byte & 0x7f);
        // The tenth byte has room for one bit.
        if at + 1 == SIZE_MAX && bits > 1 {
            return None;
        }
        value |= bits << (7 * at);
        if *byte < 0x80 {
            *input = &input[at + 1..];
            return Some(value);
        }
    }
    None
}

/// How far `to` lies from `from`, as a number that is small where they are near each other.
#[inline]
#[must_use]
pub const fn step(from: u64, to: u64) -> u64 {
    let forward = to.wrapping_sub(from);
    (forward << 1) ^ (0u64.wrapping_sub(forward >> 63))
}

/// Where a [`step`] from `from` leads.
#[inline]
#[must_use]
pub const fn stepped(from: u64, step: u64) -> u64 {
    from.wrapping_add((step >> 1) ^ 0u64.wrapping_sub(step & 1))
}

#[cfg(test)]
mod tests {
    use super::{put, step, stepped, take};

    const NUMBERS: [u64; 10] = [0, 1, 2, 127, 128, 300, 16_383, 16_384, u32::MAX as u64, u64::MAX];

    #[test]
    fn what_is_put_is_taken_and_a_cut_number_is_none() {
        for value in NUMBERS {
            let mut out = vec![];
            put(&mut out, value);
            out.push(9);
            let mut rest = out.as_slice();
            assert_eq!((take(&mut rest), rest), (Some(value), &[9][..]));
            assert_eq!(take(&mut &out[..out.len() - 2]), None);
        }
        assert_eq!(take(&mut &[0xff; 11][..]), None);
    }

    #[test]
    fn a_step_leads_where_it_should_and_is_small_between_neighbours() {
        for from in NUMBERS {
            for to in NUMBERS {
                assert_eq!(stepped(from, step(from, to)), to);
            }
        }
        assert_eq!((step(7, 7), step(7, 8), step(8, 7), step(7, 70)), (0, 2, 1, 126));
    }
}
