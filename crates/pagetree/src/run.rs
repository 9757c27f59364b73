//! A sorted run of entries in one byte string, read in place; docs/formats/pagetree.md.
//!
//! ```text
//!   count of groups u16 │ where bodies start u32 │ head, head, … │ body, body, …
//!   head:   front │ back │ size of middle │ size of body u32 │ middle       a group's first key
//!   body:   1 + size of value │ value │ entry, entry, …                     its value, the others
//!   entry:  front │ back │ size of middle │ size of value │ middle │ value
//!           └ bytes shared with the reference at its front and at its back, never overlapping
//!
//!   body of a group whose first key has no value:   0 │ entry, entry, …     a reference, no entry
//!
//!   first head's key ◄── reference of the other heads;    head's key ◄── reference of its entries
//! ```
//! A look-up walks the heads, which lie together, and then one group's entries; neither puts a key
//! together. `front` and the first bytes of `middle` mostly decide, because of U2: an entry that
//! shares more with its reference than the sought key does lies on the same side of that key as the
//! reference.
//!
//! - U1: keys ascend strictly, within a group and from group to group.
//! - U2: `front` is all that the entry and its reference share at the front; `back` is what they
//!   share at the back of the rest.
//! - U3: heads, groups and entries fill the byte string without a gap.
//! - U4: a group has an entry. Its first key alone may be none: taken out, it stays as a reference,
//!   or else each removal from a queue's front would change what the others refer to.
//!
//! Every reader is total: bytes that are no run give nothing, never a panic.

use crate::parts::{KeyParts, order_of_front, shared_front};
use crate::varint::take_size;
use std::cmp::Ordering;

/// Bytes before the heads.
pub(crate) const TABLE_SIZE: usize = 2 + 4;
/// Bytes of a body's size.
pub(crate) const BODY_SIZE_SIZE: usize = 4;
/// Entries of a group as a run is built. In-place edits may make it larger.
pub(crate) const GROUP_COUNT: usize = 16;

/// Bytes of a middle that are looked at at once.
const LEAD_SIZE: usize = size_of::<u64>();
/// Of a head with short sizes, the sizes and a lead.
const HEAD_LOOK_SIZE: usize = 3 + BODY_SIZE_SIZE + LEAD_SIZE;
/// The same of an entry.
const ENTRY_LOOK_SIZE: usize = 4 + LEAD_SIZE;

/// What a sought key shares with a reference, and the first bytes that it goes on with as a number:
/// zeros where it has ended.
#[derive(Clone, Copy, Debug)]
struct KeyProbe {
    shared: u64,
    lead: u64,
}

/// The first bytes of a lead, by how many.
const MASKS: [u64; LEAD_SIZE + 1] = {
    let mut masks = [u64::MAX; LEAD_SIZE + 1];
    let mut size = 0;
    while size < LEAD_SIZE {
        masks[size] = !(u64::MAX >> (8 * size));
        size += 1;
    }
    masks
};

impl KeyProbe {
    fn new(key: &[u8], shared: usize) -> Self {
        let rest = &key[shared..];
        let lead = rest.first_chunk().copied().unwrap_or_else(|| {
            let mut lead = [0; LEAD_SIZE];
            lead[..rest.len()].copy_from_slice(rest);
            lead
        });
        Self { shared: shared as u64, lead: u64::from_be_bytes(lead) }
    }

    /// How the key stands to one that shares `front` bytes with the reference and goes on with a
    /// middle of `size` bytes, of which `bytes` are the first; equal where they do not tell. What
    /// shares more with the reference lies on the reference's side, which is below the key, and
    /// what shares less lies above (U2). A key that has ended is not above what goes on, and
    /// neither are its zeros.
    #[inline]
    fn order_to(self, front: u8, size: u8, bytes: [u8; LEAD_SIZE]) -> Ordering {
        let mask = MASKS[usize::from(size).min(LEAD_SIZE)];
        let whole = |high: u64, low: u64| u128::from(high) << u64::BITS | u128::from(low & mask);
        let theirs = u64::from_be_bytes(bytes);
        whole(front.into(), self.lead).cmp(&whole(self.shared, theirs))
    }
}

/// An entry as it is stored, without its reference.
#[derive(Clone, Copy, Debug)]
pub(crate) struct RunEntry<'a> {
    pub(crate) front: usize,
    pub(crate) back: usize,
    pub(crate) middle: &'a [u8],
    pub(crate) value: &'a [u8],
    /// Where the next one starts.
    pub(crate) end: usize,
}

/// What a group's first key has.
#[derive(Clone, Copy, Debug)]
pub(crate) struct GroupFirst<'a> {
    /// Nothing where the key is a reference alone.
    pub(crate) value: Option<&'a [u8]>,
    /// Where the next entry starts.
    pub(crate) end: usize,
}

/// A group's head, and where its body lies.
#[derive(Clone, Copy, Debug)]
pub(crate) struct RunGroup<'a> {
    pub(crate) front: usize,
    pub(crate) back: usize,
    pub(crate) middle: &'a [u8],
    /// Where the body's size stands.
    pub(crate) size_at: usize,
    pub(crate) body: usize,
    pub(crate) body_end: usize,
}

/// The groups of a run that were not visited yet.
#[derive(Clone, Copy, Debug)]
pub(crate) struct RunGroups<'a> {
    bytes: &'a [u8],
    pub(crate) left: usize,
    head: usize,
    body: usize,
}

/// Where a key is in a run, or would be.
#[derive(Clone, Copy, Debug)]
pub(crate) struct KeySpot<'a> {
    /// The last group whose first key is not above the sought one; the first, where all are.
    pub(crate) group: RunGroup<'a>,
    /// How many groups come before.
    pub(crate) group_index: usize,
    /// Those that come after.
    pub(crate) after: RunGroups<'a>,
    /// How many keys of the group lie below.
    pub(crate) index: usize,
    /// The offset of the next entry that does not; of the body, where that is the first.
    pub(crate) at: usize,
    /// That entry, if it has the key.
    pub(crate) found: Option<RunEntry<'a>>,
    /// The group's first key.
    pub(crate) reference: KeyParts<'a>,
}

/// The group where a sought key is or would be.
#[derive(Debug)]
pub(crate) struct KeyLanding<'a> {
    group: RunGroup<'a>,
    group_index: usize,
    after: RunGroups<'a>,
    /// Its first key.
    reference: KeyParts<'a>,
    /// What the sought key shares with that at the front; nothing where it is below.
    shared: Option<usize>,
}

/// A run.
#[derive(Clone, Copy, Debug)]
pub(crate) struct EntryRun<'a> {
    bytes: &'a [u8],
}

impl<'a> RunGroups<'a> {
    /// The next group. Nothing where there is none, or the bytes hold none.
    #[inline]
    pub(crate) fn take(&mut self) -> Option<RunGroup<'a>> {
        self.left = self.left.checked_sub(1)?;
        let [front, back, middle, _] = short_head(self.bytes, self.head)?;
        let ([front, back, middle], at) = if (front | back | middle) < 0x80 {
            ([front, back, middle].map(usize::from), self.head + 3)
        } else {
            self.long_head()?
        };
        let size = u32::from_le_bytes(*self.bytes.get(at..)?.first_chunk()?);
        let middle_at = at + BODY_SIZE_SIZE;
        let (body, body_end) = (self.body, self.body.checked_add(size as usize)?);
        self.head = middle_at.checked_add(middle)?;
        self.body = body_end;
        let middle = self.bytes.get(middle_at..self.head)?;
        Some(RunGroup { front, back, middle, size_at: at, body, body_end })
    }

    #[cold]
    fn long_head(&self) -> Option<([usize; 3], usize)> {
        let (front, at) = take_size(self.bytes, self.head)?;
        let (back, at) = take_size(self.bytes, at)?;
        let (middle, at) = take_size(self.bytes, at)?;
        Some(([front, back, middle], at))
    }

    /// Passes by groups whose first keys are plainly below a key. The last of them, still to be
    /// taken, and how many they were; and whether the next one is plainly above.
    #[inline]
    fn pass_by(&mut self, key: KeyProbe) -> (Option<Self>, usize, bool) {
        let Self { bytes, left: all, mut head, mut body } = *self;
        let (mut left, mut last, mut is_above) = (all, (head, body), false);
        while left > 0 {
            let Some(look) = chunk_at::<HEAD_LOOK_SIZE>(bytes, head) else { break };
            let [front, back, middle, s0, s1, s2, s3, rest @ ..] = *look;
            if (front | back | middle) >= 0x80 {
                break;
            }
            match key.order_to(front, middle, rest) {
                Ordering::Greater => {}
                order => {
                    is_above = order == Ordering::Less;
                    break;
                }
            }
            last = (head, body);
            left -= 1;
            head += 3 + BODY_SIZE_SIZE + usize::from(middle);
            body = body.saturating_add(u32::from_le_bytes([s0, s1, s2, s3]) as usize);
        }
        *self = Self { bytes, left, head, body };
        let (head, body) = last;
        let last = (left < all).then_some(Self { bytes, left: left + 1, head, body });
        (last, all - left, is_above)
    }

    /// Where the next group's body starts.
    pub(crate) fn bodies(&self) -> usize {
        self.body
    }

    /// Whether all were visited, and heads and bodies ended where they should (U3).
    pub(crate) fn ended(&self, bodies: usize) -> bool {
        self.left == 0 && self.head == bodies && self.body == self.bytes.len()
    }
}

impl KeyLanding<'_> {
    /// Where the group's body starts.
    pub(crate) fn body(&self) -> usize {
        self.group.body
    }
}

impl<'a> RunGroup<'a> {
    /// The group's first key, `first_key` being the run's.
    pub(crate) fn key(&self, first_key: &'a [u8]) -> Option<KeyParts<'a>> {
        KeyParts::within(first_key, self.front, self.middle, self.back)
    }
}

impl<'a> EntryRun<'a> {
    /// Looks at nothing.
    pub(crate) fn new(bytes: &'a [u8]) -> Self {
        Self { bytes }
    }

    /// The groups.
    pub(crate) fn groups(&self) -> Option<RunGroups<'a>> {
        let (count, rest) = self.bytes.split_first_chunk()?;
        let body = u32::from_le_bytes(*rest.first_chunk()?) as usize;
        let left = usize::from(u16::from_le_bytes(*count));
        Some(RunGroups { bytes: self.bytes, left, head: TABLE_SIZE, body })
    }

    /// What a group's first key has.
    pub(crate) fn first(&self, group: &RunGroup<'a>) -> Option<GroupFirst<'a>> {
        let (size, at) = take_size(self.bytes, group.body)?;
        let Some(size) = size.checked_sub(1) else {
            return Some(GroupFirst { value: None, end: at });
        };
        let end = at.checked_add(size)?;
        Some(GroupFirst { value: Some(self.bytes.get(at..end)?), end })
    }

    /// The entry at an offset, not a first key's.
    #[inline]
    pub(crate) fn entry(&self, at: usize) -> Option<RunEntry<'a>> {
        let head = short_head(self.bytes, at)?;
        let ([front, back, middle, value], at) = if u32::from_le_bytes(head) & 0x8080_8080 == 0 {
            (head.map(usize::from), at + head.len())
        } else {
            self.long_head(at)?
        };
        let middle_end = at.checked_add(middle)?;
        let end = middle_end.checked_add(value)?;
        Some(RunEntry {
            front,
            back,
            middle: self.bytes.get(at..middle_end)?,
            value: self.bytes.get(middle_end..end)?,
            end,
        })
    }

    #[cold]
    fn long_head(&self, at: usize) -> Option<([usize; 4], usize)> {
        let (front, at) = take_size(self.bytes, at)?;
        let (back, at) = take_size(self.bytes, at)?;
        let (middle, at) = take_size(self.bytes, at)?;
        let (value, at) = take_size(self.bytes, at)?;
        Some(([front, back, middle, value], at))
    }

    /// How many entries of a group lie from the offset of one on, not the first key's.
    pub(crate) fn count_from(&self, group: &RunGroup<'a>, mut at: usize) -> Option<usize> {
        let mut count = 0;
        while at < group.body_end {
            at = self.entry(at)?.end;
            count += 1;
        }
        Some(count)
    }

    /// Finds where `key` is or would be. The first key of the run may be above it: then the spot
    /// is the start of the first group. Nothing where the run is empty or malformed.
    pub(crate) fn seek(&self, key: &[u8]) -> Option<KeySpot<'a>> {
        let mut after = self.groups()?;
        let group = after.take()?;
        self.seek_from((group, 0, after), None, key)
    }

    /// The same for a key that is not below the one that `spot` was sought for: goes on from there.
    pub(crate) fn seek_on(&self, spot: &KeySpot<'a>, key: &[u8]) -> Option<KeySpot<'a>> {
        if let Some(next) = self.next_if(spot, key) {
            return Some(next);
        }
        let passed = (spot.index > 0).then_some((spot.index, spot.at));
        self.seek_from((spot.group, spot.group_index, spot.after), passed, key)
    }

    /// The entry behind one that was found, in the same group, if that has the key: in a run of
    /// keys that follow one another, nearly always.
    #[inline]
    fn next_if(&self, spot: &KeySpot<'a>, key: &[u8]) -> Option<KeySpot<'a>> {
        let at = spot.found?.end;
        if at >= spot.group.body_end {
            return None;
        }
        let entry = self.entry(at)?;
        let shared = spot.reference.shared_front(key);
        // What has the key shares as much with the reference as the key does (U2).
        if entry.front != shared {
            return None;
        }
        let order = order_of_rest(key, shared, entry.middle, entry.back, &spot.reference)?;
        let next = || KeySpot { index: spot.index + 1, at, found: Some(entry), ..*spot };
        (order == Ordering::Equal).then(next)
    }

    /// Seeks from a group on, of which the entries before `passed`, an index and an offset, lie
    /// below the key.
    fn seek_from(
        &self,
        from: (RunGroup<'a>, usize, RunGroups<'a>),
        passed: Option<(usize, usize)>,
        key: &[u8],
    ) -> Option<KeySpot<'a>> {
        let KeyLanding { group, group_index, after, reference, shared } = self.land(from, key)?;
        let Some(shared) = shared else {
            let (at, found) = (group.body, None);
            return Some(KeySpot { group, group_index, after, index: 0, at, found, reference });
        };
        let passed = passed.filter(|_| group_index == from.1);
        let (index, at, found) = self.seek_in(key, shared, (&group, &reference), passed)?;
        Some(KeySpot { group, group_index, after, index, at, found, reference })
    }

    /// The last group, from one on, whose first key is not above `key`; the first group, where all
    /// are.
    #[inline]
    fn land(
        &self,
        (mut group, mut group_index, mut after): (RunGroup<'a>, usize, RunGroups<'a>),
        key: &[u8],
    ) -> Option<KeyLanding<'a>> {
        let first_key = if group_index == 0 { group.middle } else { self.groups()?.take()?.middle };
        let mut reference = KeyParts::whole(first_key);
        let mut shared = shared_front(first_key, key);
        if key.get(shared) < first_key.get(shared) {
            return Some(KeyLanding { group, group_index, after, reference, shared: None });
        }
        let probe = KeyProbe::new(key, shared);
        loop {
            let (last, count, is_above) = after.pass_by(probe);
            if let Some(mut last) = last {
                (group, group_index) = (last.take()?, group_index + count);
            }
            if is_above || after.left == 0 {
                break;
            }
            let mut beyond = after;
            let next = beyond.take()?;
            let above = if next.front == shared {
                let order = order_of_rest(key, shared, next.middle, next.back, &reference)?;
                order == Ordering::Less
            } else {
                next.front < shared
            };
            if above {
                break;
            }
            (group, group_index, after) = (next, group_index + 1, beyond);
        }
        if group_index > 0 {
            reference = group.key(first_key)?;
            // Else it has the byte of the run's first key where the sought key has another (U2).
            if group.front <= shared {
                shared = reference.shared_front_behind(group.front, key);
            }
        }
        Some(KeyLanding { group, group_index, after, reference, shared: Some(shared) })
    }

    /// Where `key` is or would be in the group where it landed; `passed` as of `seek_from`.
    #[inline]
    fn seek_in(
        &self,
        key: &[u8],
        shared: usize,
        (group, reference): (&RunGroup<'a>, &KeyParts<'a>),
        passed: Option<(usize, usize)>,
    ) -> Option<(usize, usize, Option<RunEntry<'a>>)> {
        let GroupFirst { value, end } = self.first(group)?;
        if shared == key.len() && shared == reference.size() {
            let RunGroup { front, back, middle, body, .. } = *group;
            return Some((
                0,
                body,
                value.map(|value| RunEntry { front, back, middle, value, end }),
            ));
        }
        self.seek_entry(key, shared, (group, reference), passed.unwrap_or((1, end)))
    }

    /// Walks a group from an entry on, not its first: how many keys are passed by, where the walk
    /// ends, and what has the key. `key` is above the group's first key, and the entries
    /// before, and shares the first key's first `shared` bytes.
    #[inline]
    fn seek_entry(
        &self,
        key: &[u8],
        shared: usize,
        (group, reference): (&RunGroup<'a>, &KeyParts<'a>),
        (mut index, mut at): (usize, usize),
    ) -> Option<(usize, usize, Option<RunEntry<'a>>)> {
        let probe = KeyProbe::new(key, shared);
        while at < group.body_end {
            // Most entries are passed by, and a look at the sizes and what follows them tells.
            if let Some(look) = chunk_at::<ENTRY_LOOK_SIZE>(self.bytes, at) {
                let [front, back, middle, value, rest @ ..] = *look;
                if (front | back | middle | value) < 0x80 {
                    match probe.order_to(front, middle, rest) {
                        Ordering::Greater => {
                            index += 1;
                            at += 4 + usize::from(middle) + usize::from(value);
                            continue;
                        }
                        Ordering::Less => break,
                        Ordering::Equal => {}
                    }
                }
            }
            let entry = self.entry(at)?;
            if entry.front < shared {
                break;
            }
            if entry.front == shared {
                match order_of_rest(key, shared, entry.middle, entry.back, reference)? {
                    Ordering::Less => break,
                    Ordering::Equal => return Some((index, at, Some(entry))),
                    Ordering::Greater => {}
                }
            }
            index += 1;
            at = entry.end;
        }
        Some((index, at, None))
    }
}

/// The four bytes at an offset: an entry's sizes, if none is above 127.
#[inline]
fn short_head(bytes: &[u8], at: usize) -> Option<[u8; 4]> {
    bytes.get(at..)?.first_chunk().copied()
}

/// Bytes at an offset.
#[inline]
fn chunk_at<const SIZE: usize>(bytes: &[u8], at: usize) -> Option<&[u8; SIZE]> {
    bytes.get(at..)?.first_chunk()
}

/// How `key` stands to one of which the first `shared` bytes are the same, and which goes on with
/// `middle` and the last `back` bytes of its reference.
fn order_of_rest(
    key: &[u8],
    shared: usize,
    middle: &[u8],
    back: usize,
    reference: &KeyParts<'_>,
) -> Option<Ordering> {
    let key = &key[shared..];
    match order_of_front(key, middle) {
        Ordering::Equal => Some(reference.tail(back)?.order_of(&key[middle.len()..])),
        decided => Some(decided),
    }
}

/// The value of `key`; the outer nothing where the bytes are no run with entries.
pub(crate) fn find<'a>(bytes: &'a [u8], key: &[u8]) -> Option<Option<&'a [u8]>> {
    find_in(bytes, key, &landing(bytes, key)?)
}

/// The first half of [`find`], which looks at heads alone.
#[inline]
pub(crate) fn landing<'a>(bytes: &'a [u8], key: &[u8]) -> Option<KeyLanding<'a>> {
    let run = EntryRun::new(bytes);
    let mut after = run.groups()?;
    let group = after.take()?;
    run.land((group, 0, after), key)
}

/// The second half, which looks at one body.
#[inline]
pub(crate) fn find_in<'a>(
    bytes: &'a [u8],
    key: &[u8],
    landing: &KeyLanding<'a>,
) -> Option<Option<&'a [u8]>> {
    let KeyLanding { group, reference, shared, .. } = landing;
    let Some(shared) = *shared else { return Some(None) };
    let (_, _, found) = EntryRun::new(bytes).seek_in(key, shared, (group, reference), None)?;
    Some(found.map(|entry| entry.value))
}

/// Where the first key, an entry's or a reference alone, stands in the bytes, whole. Nothing where
/// there is none.
pub(crate) fn first_key_at(bytes: &[u8]) -> Option<usize> {
    let first = EntryRun::new(bytes).groups()?.take()?;
    Some(first.size_at + BODY_SIZE_SIZE)
}

/// How many keys of a run are not above `key`, in a run whose groups all have [`GROUP_COUNT`]
/// entries but the last, and no references alone.
pub(crate) fn rank(bytes: &[u8], key: &[u8]) -> Option<usize> {
    let run = EntryRun::new(bytes);
    if run.groups()?.left == 0 {
        return Some(0);
    }
    let spot = run.seek(key)?;
    Some(spot.group_index * GROUP_COUNT + spot.index + usize::from(spot.found.is_some()))
}
