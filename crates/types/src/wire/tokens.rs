//! Keys, numbers and byte strings, of which messages are made, as protobuf writes them.
//!
//! An answer to a look-up has some forty keys and as many numbers, nearly all of one byte; read and
//! written through a library's general buffers they took a third of what a client does for it
//! (docs/decisions/2026-11-22-what-a-look-up-costs.md).

use super::{WireError, WireType};
use crate::varint;
use prost::encoding::DecodeContext;

/// Writes a field's key.
#[inline]
pub(crate) fn put_key(tag: u32, wire: WireType, out: &mut Vec<u8>) {
    varint::put(out, u64::from(tag) << 3 | wire as u64);
}

/// Writes one length-delimited field.
#[inline]
pub fn encode_slice(tag: u32, value: &[u8], out: &mut Vec<u8>) {
    put_key(tag, WireType::LengthDelimited, out);
    varint::put(out, value.len() as u64);
    out.extend_from_slice(value);
}

/// Writes one length-delimited field in place: what `encode` appends is its value.
pub fn encode_nested(tag: u32, out: &mut Vec<u8>, encode: impl FnOnce(&mut Vec<u8>)) {
    put_key(tag, WireType::LengthDelimited, out);
    let start = out.len();
    // Most sizes take one byte; for the others the value is moved once it is known.
    out.push(0);
    encode(out);
    let size = out.len() - start - 1;
    if let Ok(short @ 0..0x80) = u8::try_from(size) {
        out[start] = short;
    } else {
        let mut number = Vec::new();
        varint::put(&mut number, size as u64);
        out.splice(start..=start, number);
    }
}

/// Reads the value of one length-delimited field, its key being read already.
///
/// # Errors
/// [`WireError`] when the wire type is another or the input is shorter than it says.
#[inline]
pub fn take_slice<'a>(wire: WireType, input: &mut &'a [u8]) -> Result<&'a [u8], WireError> {
    if wire != WireType::LengthDelimited {
        return Err(WireError::Malformed);
    }
    let size = varint::take(input).and_then(|size| usize::try_from(size).ok());
    let taken = size.and_then(|size| input.split_at_checked(size));
    let (value, rest) = taken.ok_or(WireError::Malformed)?;
    *input = rest;
    Ok(value)
}

/// Reads the value of one field of text, its key being read already.
///
/// # Errors
/// [`WireError`] as of [`take_slice`], and where the bytes are not UTF-8.
pub fn take_text<'a>(wire: WireType, input: &mut &'a [u8]) -> Result<&'a str, WireError> {
    str::from_utf8(take_slice(wire, input)?).map_err(|_| WireError::Malformed)
}

/// Reads the value of one field that is a number, its key being read already.
#[inline]
pub(crate) fn take_varint(wire: WireType, input: &mut &[u8]) -> Result<u64, WireError> {
    let taken = if wire == WireType::Varint { varint::take(input) } else { None };
    taken.ok_or(WireError::Malformed)
}

/// Reads the next key, or nothing at the end of the message.
///
/// # Errors
/// [`WireError`] when the bytes are not a key.
#[inline]
pub fn next_key(input: &mut &[u8]) -> Result<Option<(u32, WireType)>, WireError> {
    if input.is_empty() {
        return Ok(None);
    }
    let key = varint::take(input).ok_or(WireError::Malformed)?;
    let tag = u32::try_from(key >> 3).ok().filter(|tag| (1..=TAG_MAX).contains(tag));
    let tag = tag.ok_or(WireError::Malformed)?;
    Ok(Some((tag, WireType::try_from(key & 7)?)))
}

/// Of a field, in protobuf.
const TAG_MAX: u32 = (1 << 29) - 1;

/// Skips a field that this build does not know (W1).
///
/// # Errors
/// [`WireError`] when its bytes are malformed.
pub fn skip(tag: u32, wire: WireType, input: &mut &[u8]) -> Result<(), WireError> {
    Ok(prost::encoding::skip_field(wire, tag, input, DecodeContext::default())?)
}

#[cfg(test)]
mod tests {
    use super::{encode_nested, encode_slice, next_key, put_key};
    use crate::varint;
    use proptest::prelude::{any, proptest};
    use prost::encoding::{WireType, decode_key, encode_key};

    #[test]
    fn a_value_written_in_place_is_the_value_written_beside_and_copied() {
        for size in [0, 1, 127, 128, 16_383, 16_384] {
            let value = vec![7; size];
            let (mut in_place, mut copied) = (vec![1, 2], vec![1, 2]);
            encode_nested(5, &mut in_place, |out| out.extend_from_slice(&value));
            encode_slice(5, &value, &mut copied);
            assert_eq!(in_place, copied, "{size} bytes");
        }
    }

    #[test]
    fn a_key_is_written_as_the_library_writes_it() {
        for tag in [1, 2, 15, 16, 2047, 2048, (1 << 29) - 1] {
            for wire in [WireType::Varint, WireType::LengthDelimited] {
                let (mut ours, mut theirs) = (vec![], vec![]);
                put_key(tag, wire, &mut ours);
                encode_key(tag, wire, &mut theirs);
                assert_eq!(ours, theirs);
            }
        }
    }

    proptest! {
        #[test]
        fn a_key_is_read_as_the_library_reads_it(
            key: u64, shift in 0u32..64, raw in proptest::collection::vec(any::<u8>(), 1..12),
        ) {
            let mut near = vec![];
            varint::put(&mut near, key >> shift);
            for bytes in [near, raw] {
                let (mut ours, mut theirs) = (bytes.as_slice(), bytes.as_slice());
                let told = next_key(&mut ours).ok();
                assert_eq!(told, decode_key(&mut theirs).ok().map(Some));
                if told.is_some() {
                    assert_eq!(ours, theirs);
                }
            }
        }
    }
}
