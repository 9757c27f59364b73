//! The start of every file: magic, format version, fields, checksum.
//!
//! ```text
//!   0  magic, 8 bytes    8  format version u32    12  fields …    size - 4  CRC32C of all before
//! ```

use crate::FormatError;
use crate::fields::FieldReader;
use cairn_types::crc32c;

/// Begins a sealed block.
pub(crate) fn begin(magic: [u8; 8], version: u32) -> Vec<u8> {
    let mut out = magic.to_vec();
    out.extend_from_slice(&version.to_le_bytes());
    out
}

/// Pads to `size - 4` bytes and puts the checksum behind them.
pub(crate) fn seal(mut out: Vec<u8>, size: usize) -> Vec<u8> {
    assert!(out.len() <= size - 4, "the fields of a sealed block fit into it");
    out.resize(size - 4, 0);
    let checksum = crc32c(&out);
    out.extend_from_slice(&checksum.to_le_bytes());
    out
}

/// Checks magic, version and checksum of the block of `size` bytes at the front of `raw`; gives
/// the fields.
pub(crate) fn open(
    raw: &[u8],
    size: usize,
    magic: [u8; 8],
    newest: u32,
) -> Result<FieldReader<'_>, FormatError> {
    Ok(open_versioned(raw, size, magic, newest)?.1)
}

/// The same, with the format version that was found.
pub(crate) fn open_versioned(
    raw: &[u8],
    size: usize,
    magic: [u8; 8],
    newest: u32,
) -> Result<(u32, FieldReader<'_>), FormatError> {
    let raw = raw.get(..size).ok_or(FormatError::Truncated)?;
    let mut fields = FieldReader::of(raw);
    if fields.take(8)? != magic {
        return Err(FormatError::Magic);
    }
    let found = fields.u32()?;
    let body = fields.take(size - 16)?;
    if fields.u32()? != crc32c(&raw[..size - 4]) {
        return Err(FormatError::Checksum);
    }
    if found == 0 || found > newest {
        return Err(FormatError::Version { found, newest });
    }
    Ok((found, FieldReader::of(body)))
}
