//! Pages as they are stored; docs/formats/pagetree.md.
//!
//! ```text
//!   leaf:   its run
//!   inner:  level u8 │ count of children │ child … │ run of separators
//!   child:  offset │ size │ CRC32C u32 │ (level above 1) bytes of its subtree
//! ```
//! - P1: a stored page is verified before anything in it is believed: its checksum, which its
//!   parent has, and then its structure.

use crate::damaged::{Damage, Damaged};
use crate::node::{ChildPage, InnerPage};
use crate::run_check::{check, groups_are_full};
use crate::source::{PagePlace, PageSource, SubtreePlace};
use crate::varint::{put, put_size, take, take_size};
use cairn_types::Crc32c;

/// Bytes of a child's checksum.
const CHECKSUM_SIZE: usize = 4;
/// Bytes that a child's reference takes at least.
const CHILD_SIZE_MIN: usize = 2 + CHECKSUM_SIZE;

/// A leaf's run, verified (P1).
pub(crate) fn verified_leaf<'a>(
    source: &'a PageSource,
    place: &PagePlace,
) -> Result<&'a [u8], Damaged> {
    let bytes = source.verified_page(place)?;
    match check(bytes) {
        Some(count) if count > 0 => Ok(bytes),
        _ => Err(place.damaged(Damage::Malformed)),
    }
}

/// An inner page, verified (P1).
pub(crate) fn decode(
    source: &PageSource,
    place: &SubtreePlace,
    level: u8,
) -> Result<InnerPage, Damaged> {
    let bytes = source.verified_page(&place.place)?;
    let inner = parse(bytes, level).ok_or(place.place.damaged(Damage::Malformed))?;
    inner.set_place(source.file, *place);
    Ok(inner)
}

/// The bytes of a page whose children all lie at `children`, with its subtree's size.
pub(crate) fn encode(inner: &InnerPage, children: &[SubtreePlace]) -> (Vec<u8>, u64) {
    let mut out = vec![inner.level];
    put_size(&mut out, children.len());
    for child in children {
        put(&mut out, child.place.offset);
        put(&mut out, u64::from(child.place.size));
        out.extend_from_slice(&child.place.checksum.to_le_bytes());
        if inner.level > 1 {
            put(&mut out, child.subtree_size);
        }
    }
    out.extend_from_slice(inner.separators.run());
    let below: u64 = children.iter().map(|child| child.subtree_size).sum();
    let size = below + out.len() as u64;
    (out, size)
}

fn parse(bytes: &[u8], level: u8) -> Option<InnerPage> {
    if *bytes.first()? != level || level == 0 {
        return None;
    }
    let (count, mut at) = take_size(bytes, 1)?;
    // Memory is taken only for what the page itself can fill.
    if count > bytes.len() / CHILD_SIZE_MIN {
        return None;
    }
    let mut children = Vec::with_capacity(count);
    for _ in 0..count {
        let (child, end) = parse_child(bytes, at, level)?;
        children.push(child);
        at = end;
    }
    let separators = bytes.get(at..)?;
    if check(separators)? != count.saturating_sub(1) || !groups_are_full(separators)? {
        return None;
    }
    Some(InnerPage::new(level, separators.to_vec(), children))
}

fn parse_child(bytes: &[u8], at: usize, level: u8) -> Option<(ChildPage, usize)> {
    let (offset, at) = take(bytes, at)?;
    let (size, at) = take(bytes, at)?;
    let size = u32::try_from(size).ok()?;
    let checksum = Crc32c::from_le_bytes(*bytes.get(at..)?.first_chunk()?);
    let at = at + CHECKSUM_SIZE;
    let place = PagePlace { offset, size, checksum };
    if level == 1 {
        return Some((ChildPage::stored_leaf(place), at));
    }
    let (subtree_size, at) = take(bytes, at)?;
    Some((ChildPage::stored_inner(SubtreePlace { place, subtree_size }), at))
}
