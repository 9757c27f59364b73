//! Totals: what lies below each directory, kept as it changes, so that nobody walks for it (R36).
//!
//! ```text
//!   created in /a/b ──► pending: /a/b has one file more ─┐ when many directories wait, or where a
//!   written in /a/b ──► pending: … and so many bytes     ├─ directory moves or goes
//!                                                        ▼
//!   totals   directory id ─► what lies below it: /a/b, /a and / are changed once for all of it
//!   charged  file id ─► up to where it is charged, while somebody may write it
//! ```
//! - TO1: a directory's total is what its row says and what waits below it; rows and waiting
//!   changes together are what a walk over all entries would find.
//! - TO2: what is deleted counts where it was deleted from, as long as that is there, until it is
//!   purged: the way up from it goes on there. What a directory that is gone had of deleted things
//!   counts nowhere.
//! - TO3: no change waits below a directory that leaves its place, is deleted or goes: its way up
//!   would be another one then.
//! - TO4: a file is charged its recorded length, and up to the end of its last chunk while somebody
//!   may write it. Holes count.
//!
//! Knows no limits: quotas.rs does.

use super::map::{DamageMark, Map};
use super::packing::{Packed, put_number};
use bytes::Bytes;
use cairn_types::EntryId;
use std::collections::BTreeMap;
use std::ops::{AddAssign, Sub, SubAssign};

/// Directories whose changes wait at most: then all are taken up together.
const PENDING_MAX: usize = 256;

/// A sum over entries; or by how much it changes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SubtreeSum {
    /// Files.
    pub files: i64,
    /// Directories.
    pub directories: i64,
    /// The recorded lengths of the files, as `du` sums them.
    pub lengths: i128,
    /// The same, as often as each file has replicas.
    pub stored: i128,
    /// What they are charged: of what is being written, whole chunks (TO4).
    pub bytes: i128,
}

impl SubtreeSum {
    /// Files and directories.
    #[must_use]
    pub fn names(&self) -> u64 {
        u64::try_from(self.files.saturating_add(self.directories)).unwrap_or_default()
    }

    /// The bytes that are charged.
    #[must_use]
    pub fn charged(&self) -> u64 {
        at_most(self.bytes)
    }

    /// The recorded lengths.
    #[must_use]
    pub fn recorded(&self) -> u64 {
        at_most(self.lengths)
    }

    /// The recorded lengths, of all replicas together.
    #[must_use]
    pub fn on_disks(&self) -> u64 {
        at_most(self.stored)
    }

    pub(super) fn pack(&self, out: &mut Vec<u8>) {
        put_number(out, self.files.cast_unsigned());
        put_number(out, self.directories.cast_unsigned());
        for wide in [self.lengths, self.stored, self.bytes.wrapping_sub(self.lengths)] {
            let wide = wide.cast_unsigned();
            put_number(out, low(wide));
            put_number(out, low(wide >> 64));
        }
    }

    pub(super) fn unpack(packed: &mut Packed<'_>) -> Option<Self> {
        let files = packed.number()?.cast_signed();
        let directories = packed.number()?.cast_signed();
        let mut wide = || {
            let low = u128::from(packed.number()?);
            Some((low | u128::from(packed.number()?) << 64).cast_signed())
        };
        let (lengths, stored, beyond) = (wide()?, wide()?, wide()?);
        Some(Self { files, directories, lengths, stored, bytes: lengths.wrapping_add(beyond) })
    }
}

fn at_most(number: i128) -> u64 {
    u64::try_from(number.max(0)).unwrap_or(u64::MAX)
}

impl AddAssign for SubtreeSum {
    fn add_assign(&mut self, other: Self) {
        self.files = self.files.wrapping_add(other.files);
        self.directories = self.directories.wrapping_add(other.directories);
        self.lengths = self.lengths.wrapping_add(other.lengths);
        self.stored = self.stored.wrapping_add(other.stored);
        self.bytes = self.bytes.wrapping_add(other.bytes);
    }
}

impl SubAssign for SubtreeSum {
    fn sub_assign(&mut self, other: Self) {
        self.files = self.files.wrapping_sub(other.files);
        self.directories = self.directories.wrapping_sub(other.directories);
        self.lengths = self.lengths.wrapping_sub(other.lengths);
        self.stored = self.stored.wrapping_sub(other.stored);
        self.bytes = self.bytes.wrapping_sub(other.bytes);
    }
}

/// What lies below a directory; or by how much that changes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Totals {
    /// What is there.
    pub live: SubtreeSum,
    /// What was deleted and is not purged.
    pub deleted: SubtreeSum,
}

impl Totals {
    /// Of what is there.
    pub(super) fn of_live(live: SubtreeSum) -> Self {
        Self { live, deleted: SubtreeSum::default() }
    }

    /// All that counts.
    #[must_use]
    pub fn all(&self) -> SubtreeSum {
        let mut all = self.live;
        all += self.deleted;
        all
    }

    /// The same, seen from above something deleted.
    pub(super) fn as_deleted(&self) -> Self {
        Self { live: SubtreeSum::default(), deleted: self.all() }
    }

    fn is_nothing(&self) -> bool {
        *self == Self::default()
    }

    fn pack(&self) -> Vec<u8> {
        let mut out = Vec::with_capacity(24);
        self.live.pack(&mut out);
        // Of most directories nothing is.
        if self.deleted != SubtreeSum::default() {
            self.deleted.pack(&mut out);
        }
        out
    }

    fn unpack(packed: &[u8]) -> Option<Self> {
        let mut packed = Packed(packed);
        let live = SubtreeSum::unpack(&mut packed)?;
        let mut deleted = SubtreeSum::default();
        if !packed.0.is_empty() {
            deleted = SubtreeSum::unpack(&mut packed)?;
        }
        packed.end(Self { live, deleted })
    }
}

fn low(wide: u128) -> u64 {
    (wide & u128::from(u64::MAX)) as u64
}

impl AddAssign for Totals {
    fn add_assign(&mut self, other: Self) {
        self.live += other.live;
        self.deleted += other.deleted;
    }
}

impl Sub for Totals {
    type Output = Self;

    fn sub(mut self, other: Self) -> Self {
        self.live -= other.live;
        self.deleted -= other.deleted;
        self
    }
}

cairn_types::message! {
    /// In an image: a change that waits, or a quota that the tree has an older row of.
    pub struct PendingTotals { 1 => directory: EntryId, 2 => packed: Bytes }
}

/// The totals of all directories, and what waits to be added to them.
#[derive(Clone, Debug)]
pub(super) struct TotalsTable {
    totals: Map,
    charged: Map,
    pending: BTreeMap<EntryId, Totals>,
}

impl TotalsTable {
    pub(super) fn new(mark: &DamageMark) -> Self {
        Self::of([Map::new(mark), Map::new(mark)])
    }

    /// From what an image has.
    pub(super) fn of([totals, charged]: [Map; 2]) -> Self {
        Self { totals, charged, pending: BTreeMap::new() }
    }

    pub(super) fn maps(&self) -> [&Map; 2] {
        [&self.totals, &self.charged]
    }

    pub(super) fn maps_mut(&mut self) -> [&mut Map; 2] {
        [&mut self.totals, &mut self.charged]
    }

    /// What waits, for an image.
    pub(super) fn pending(&self) -> Vec<PendingTotals> {
        let pending = self.pending.iter();
        let packed = pending.map(|(id, change)| (*id, change.pack()));
        packed
            .map(|(directory, packed)| PendingTotals { directory, packed: packed.into() })
            .collect()
    }

    /// What an image says that waited; whether that makes sense.
    pub(super) fn take_up_pending(&mut self, pending: &[PendingTotals]) -> bool {
        pending.iter().all(|PendingTotals { directory, packed }| {
            let change = Totals::unpack(packed);
            change.is_some_and(|change| self.pending.insert(*directory, change).is_none())
        })
    }

    /// These changes wait, and nothing else.
    pub(super) fn wait_all(&mut self, changes: BTreeMap<EntryId, Totals>) {
        self.pending = changes;
    }

    /// The row of a directory, without what waits.
    pub(super) fn row(&self, directory: EntryId) -> Totals {
        self.totals.get(&key(directory), Totals::unpack).unwrap_or_default()
    }

    /// Adds to a directory's row.
    pub(super) fn add(&mut self, directory: EntryId, change: Totals) {
        let mut total = self.row(directory);
        total += change;
        if total.is_nothing() {
            self.totals.remove(&key(directory));
        } else {
            self.totals.set(&key(directory), &total.pack());
        }
    }

    /// A directory is gone.
    pub(super) fn forget(&mut self, directory: EntryId) {
        self.totals.remove(&key(directory));
    }

    /// Notes a change below a directory; whether so many wait that they are to be taken up.
    pub(super) fn note(&mut self, directory: EntryId, change: Totals) -> bool {
        assert!(!change.is_nothing(), "nothing waits for no reason");
        *self.pending.entry(directory).or_default() += change;
        self.pending.len() > PENDING_MAX
    }

    /// The changes that wait, by directory.
    pub(super) fn waiting(&self) -> &BTreeMap<EntryId, Totals> {
        &self.pending
    }

    /// The same, which are taken up now.
    pub(super) fn take_pending(&mut self) -> BTreeMap<EntryId, Totals> {
        std::mem::take(&mut self.pending)
    }

    /// Up to where a file is charged though its recorded length may be less (TO4).
    pub(super) fn charged(&self, file: EntryId) -> Option<u64> {
        // Mostly nobody writes.
        if self.charged.len() == 0 {
            return None;
        }
        self.charged.get(&key(file), |packed| {
            let mut packed = Packed(packed);
            let up_to = packed.number()?;
            packed.end(up_to)
        })
    }

    /// From now on it is charged so far, or its recorded length alone.
    pub(super) fn charge(&mut self, file: EntryId, up_to: Option<u64>) {
        match up_to {
            Some(up_to) => {
                let mut packed = Vec::with_capacity(10);
                put_number(&mut packed, up_to);
                self.charged.set(&key(file), &packed);
            }
            None => self.charged.remove(&key(file)),
        }
    }

    /// The files behind an id that are charged further than they are long, by id.
    pub(super) fn charged_after(&self, file: EntryId) -> impl Iterator<Item = EntryId> + use<'_> {
        let mut walk = self.charged.walk(&key(file));
        let all = std::iter::from_fn(move || {
            walk.unpack(|key, _| {
                let mut key = Packed(key);
                let id = EntryId::new(key.key()?);
                key.end(Some(id))
            })
        });
        all.skip_while(move |found| *found <= file)
    }
}

fn key(id: EntryId) -> [u8; 8] {
    id.get().to_be_bytes()
}

#[cfg(test)]
mod tests {
    use super::{SubtreeSum, Totals};
    use proptest::prelude::{any, proptest};

    proptest! {
        #[test]
        fn totals_come_back_and_no_bytes_make_it_panic(
            counts: (i64, i64, i64, i64), sizes: [i128; 6], live: bool,
            raw in proptest::collection::vec(any::<u8>(), 0..60),
        ) {
            let sum = |files, directories, sizes: &[i128]| {
                let (lengths, stored, bytes) = (sizes[0], sizes[1], sizes[2]);
                SubtreeSum { files, directories, lengths, stored, bytes }
            };
            let live_sum = sum(counts.0, counts.1, &sizes[..3]);
            let deleted = sum(counts.2, counts.3, &sizes[3..]);
            let deleted = if live { SubtreeSum::default() } else { deleted };
            let totals = Totals { live: live_sum, deleted };
            assert_eq!(Totals::unpack(&totals.pack()), Some(totals));
            let _ = Totals::unpack(&raw);
        }
    }

    #[test]
    fn the_total_of_a_common_directory_takes_few_bytes() {
        let (lengths, bytes, stored) = (1 << 36, 1 << 36, 3 << 36);
        let live = SubtreeSum { files: 1000, directories: 3, lengths, stored, bytes };
        let totals = Totals { live, ..Totals::default() };
        assert_eq!(totals.pack().len(), 2 + 1 + 6 + 1 + 6 + 1 + 1 + 1);
    }
}
