//! Having bytes fetched from memory before they are read.

use std::hint::black_box;

/// Bytes that come from memory at once.
const LINE_SIZE: usize = 64;

/// Has lines of `bytes` from `at` on fetched.
#[inline]
pub(crate) fn touch(bytes: &[u8], at: usize, lines: usize) {
    let line = |number: usize| bytes.get(at + number * LINE_SIZE).copied().unwrap_or_default();
    black_box((0..lines).fold(0, |sum: u8, number| sum ^ line(number)));
}
