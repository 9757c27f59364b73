//! Little-endian fields out of bytes that nobody vouches for.

use crate::FormatError;

/// Takes fields off the front of some bytes; total.
#[derive(Clone, Copy, Debug)]
pub(crate) struct FieldReader<'a>(&'a [u8]);

impl<'a> FieldReader<'a> {
    pub(crate) fn of(bytes: &'a [u8]) -> Self {
        Self(bytes)
    }

    pub(crate) fn take(&mut self, size: usize) -> Result<&'a [u8], FormatError> {
        let (front, rest) = self.0.split_at_checked(size).ok_or(FormatError::Truncated)?;
        self.0 = rest;
        Ok(front)
    }

    fn array<const N: usize>(&mut self) -> Result<[u8; N], FormatError> {
        self.take(N)?.try_into().map_err(|_| FormatError::Truncated)
    }

    pub(crate) fn u8(&mut self) -> Result<u8, FormatError> {
        Ok(u8::from_le_bytes(self.array()?))
    }

    pub(crate) fn u32(&mut self) -> Result<u32, FormatError> {
        Ok(u32::from_le_bytes(self.array()?))
    }

    pub(crate) fn u64(&mut self) -> Result<u64, FormatError> {
        Ok(u64::from_le_bytes(self.array()?))
    }

    pub(crate) fn u128(&mut self) -> Result<u128, FormatError> {
        Ok(u128::from_le_bytes(self.array()?))
    }

    /// Bytes after a size of 32 bits.
    pub(crate) fn sized(&mut self) -> Result<&'a [u8], FormatError> {
        let size = usize::try_from(self.u32()?).map_err(|_| FormatError::Truncated)?;
        self.take(size)
    }

    /// Nothing may be left.
    pub(crate) fn end(self) -> Result<(), FormatError> {
        if self.0.is_empty() { Ok(()) } else { Err(FormatError::Malformed) }
    }
}

/// Appends bytes with their size in 32 bits before them.
pub(crate) fn put_sized(bytes: &[u8], out: &mut Vec<u8>) {
    let size = u32::try_from(bytes.len()).expect("callers keep to limits far below 4 GiB");
    out.extend_from_slice(&size.to_le_bytes());
    out.extend_from_slice(bytes);
}
