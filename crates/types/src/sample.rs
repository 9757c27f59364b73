//! Arbitrary values of every type that travels, and what must hold of each: for tests alone.
//!
//! ```text
//!   message! · choice! · code! ──► Sample ──► check_wire: there and back, cut, damaged
//! ```
//! The macros of [`wire`](crate::wire) implement [`Sample`] with everything else that they make,
//! so a new message, or a new field, is covered without anyone thinking of it. What is written by
//! hand has its `Sample` beside it.
//!
//! Half of all numbers are small, so that ids drawn apart from each other meet.

use crate::wire::{Message, WireType, encode_slice, next_key, put_key, take_slice};
use crate::{Random, varint};
use bytes::Bytes;
use std::fmt::Debug;

/// Small numbers are below this one.
const SMALL: u64 = 12;
/// Elements of a list are fewer than this.
const COUNT_MAX: u64 = 4;

/// A type that an arbitrary value can be drawn of.
pub trait Sample: Sized {
    /// Draws one.
    fn sample(random: &mut Random) -> Self;
}

impl Sample for u64 {
    fn sample(random: &mut Random) -> Self {
        // Every length of a varint, the longest too.
        if random.chance(500) { random.below(SMALL) } else { random.next_u64() >> random.below(64) }
    }
}

impl Sample for u32 {
    fn sample(random: &mut Random) -> Self {
        (u64::sample(random) & u64::from(u32::MAX)) as u32
    }
}

impl Sample for u128 {
    fn sample(random: &mut Random) -> Self {
        if random.chance(500) { random.below(SMALL).into() } else { random.next_u128() }
    }
}

impl Sample for bool {
    fn sample(random: &mut Random) -> Self {
        random.chance(500)
    }
}

impl Sample for Bytes {
    fn sample(random: &mut Random) -> Self {
        let count = random.below(40);
        (0..count).map(|_| random.below(256) as u8).collect()
    }
}

/// Few short names, so that they meet; odd ones; now and then one of more bytes than any limit.
impl Sample for String {
    fn sample(random: &mut Random) -> Self {
        const TEXTS: [&str; 10] = ["", "a", "b", "c", "a/b", "/", "..", ".deleted", "é\0\n", "𝄞"];
        let text = *random.pick(&TEXTS).expect("there are some");
        if random.chance(950) { text.to_owned() } else { text.repeat(300) }
    }
}

impl<T: Sample> Sample for Vec<T> {
    fn sample(random: &mut Random) -> Self {
        let count = random.below(COUNT_MAX);
        (0..count).map(|_| T::sample(random)).collect()
    }
}

impl<T: Sample> Sample for Box<T> {
    fn sample(random: &mut Random) -> Self {
        Self::new(T::sample(random))
    }
}

impl<T: Sample> Sample for Option<T> {
    fn sample(random: &mut Random) -> Self {
        random.chance(500).then(|| T::sample(random))
    }
}

/// `bytes` with something changed, put in, taken out or said twice, in up to four places.
#[must_use]
pub fn damaged(bytes: &[u8], random: &mut Random) -> Vec<u8> {
    let mut bytes = bytes.to_vec();
    for _ in 0..=random.below(COUNT_MAX) {
        let start = place(bytes.len(), random);
        let end = (start + 1 + place(8, random)).min(bytes.len());
        let byte = random.below(256) as u8;
        match random.below(6) {
            0 if start < end => bytes[start] ^= 1 << random.below(8),
            1 if start < end => bytes[start] = byte,
            2 => bytes.insert(start, byte),
            3 => drop(bytes.drain(start..end)),
            4 => bytes.extend_from_within(start..end),
            // A length or a number as large as can be said.
            _ => drop(bytes.splice(start..end, [0xff; 9].into_iter().chain([1]))),
        }
    }
    bytes
}

/// Two values of one choice of messages in one: the first, and some of the second's fields. A
/// number of the second takes the place of the first's, a list is continued.
#[must_use]
pub fn crossed(one: &[u8], other: &[u8], random: &mut Random) -> Option<Vec<u8>> {
    let (mut one, mut other) = (one, other);
    let (tag, wire) = next_key(&mut one).ok()??;
    if next_key(&mut other).ok()??.0 != tag {
        return None;
    }
    let mut inner = take_slice(wire, &mut one).ok()?.to_vec();
    let second = take_slice(WireType::LengthDelimited, &mut other).ok()?;
    inner.extend_from_slice(&second[place(second.len(), random)..]);
    let mut out = Vec::new();
    encode_slice(tag, &inner, &mut out);
    Some(out)
}

/// A message with some of its numbers told otherwise: one of `known`, or one at a limit. The form
/// stays: whoever reads it finds every field, and a lie in it. None where it is no message.
#[must_use]
pub fn renumbered(message: &[u8], known: &[u64], random: &mut Random) -> Option<Vec<u8>> {
    const LIMITS: [u64; 8] =
        [0, 1, (1 << 16) - 1, 1 << 26, u32::MAX as u64, 1 << 63, u64::MAX - 1, u64::MAX];
    let (mut rest, mut out) = (message, Vec::new());
    while let Some((tag, wire)) = next_key(&mut rest).ok()? {
        if wire == WireType::Varint {
            let told = varint::take(&mut rest)?;
            let number = match random.below(4) {
                0 => *random.pick(known).unwrap_or(&told),
                1 => *random.pick(&LIMITS).expect("there are some"),
                _ => told,
            };
            put_key(tag, wire, &mut out);
            varint::put(&mut out, number);
        } else {
            let told = take_slice(wire, &mut rest).ok()?;
            // A message of its own, or text that looks like one, or neither.
            let inner = renumbered(told, known, random);
            encode_slice(tag, inner.as_deref().unwrap_or(told), &mut out);
        }
    }
    Some(out)
}

/// A place among `size` items, or behind the last.
fn place(size: usize, random: &mut Random) -> usize {
    usize::try_from(random.below(size as u64 + 1)).expect("within memory")
}

/// What must hold of every message: it comes back as it went, however it is cut or damaged it
/// makes nothing panic (W2), and what is read of it all the same can be told again.
///
/// # Panics
/// When it does not hold.
pub fn check_wire<M: Message + PartialEq + Debug>(message: &M, random: &mut Random) {
    let raw = message.to_bytes();
    assert_eq!(M::decode(&raw).as_ref(), Ok(message), "comes back as it went");
    for size in 0..raw.len() {
        check_bytes::<M>(&raw[..size]);
    }
    for _ in 0..8 {
        check_bytes::<M>(&damaged(&raw, random));
    }
}

/// What must hold of any bytes at all: they are no message, or one that they fill (W2) and that
/// comes back as it went.
///
/// # Panics
/// When it does not hold.
pub fn check_bytes<M: Message + PartialEq + Debug>(raw: &[u8]) {
    let Ok(message) = M::decode(raw) else { return };
    let again = message.to_bytes();
    assert!(again.len() <= raw.len(), "more came out of {raw:x?} than went in: {message:?}");
    assert_eq!(M::decode(&again), Ok(message));
}
