//! How large keys, values and pages get.

/// Bytes that a key may have.
pub const KEY_SIZE_MAX: usize = 8 * 1024;
/// Bytes that a value may have.
pub const VALUE_SIZE_MAX: usize = 1024 * 1024;
/// Bytes that a leaf with more than one entry has at most. Larger ones cost an insert more, and
/// smaller ones have more of what each page costs beside its entries (measured: docs/formats).
pub const LEAF_SIZE_MAX: usize = 3072;
/// Children that an inner page has at most. More would make copying a shared one dearer.
pub(crate) const CHILD_COUNT_MAX: usize = 64;
