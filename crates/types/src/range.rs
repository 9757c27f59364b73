//! A run of bytes: offset and size.

crate::message! {
    /// `size` bytes from `offset` on, of a chunk or a file as the field says.
    #[derive(Copy, Hash, PartialOrd, Ord)]
    pub struct ByteRange {
        1 => offset: u64,
        2 => size: u64,
    }
}

impl ByteRange {
    /// The first offset behind the range; saturates, so that hostile numbers stay harmless.
    #[must_use]
    pub const fn end(self) -> u64 {
        self.offset.saturating_add(self.size)
    }
}
