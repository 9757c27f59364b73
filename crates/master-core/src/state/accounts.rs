//! What each directory holds, and may hold: totals and quotas, as the names change (R36).
//!
//! ```text
//!   names.rs ──made · changed · moved · gone──► Accounts ─┬─► totals.rs   what lies below each
//!                                                         └─► quotas.rs   limits, and what counts
//! ```
//! - AC1: each entry counts in the directory that it stands in, and above; one that was deleted in
//!   the one that it was deleted from (TO2).
//!
//! Looks at the names along ways up alone, and changes none.

use super::entry_record::EntryRecord;
use super::hidden::HiddenTable;
use super::map::{DamageMark, Map};
use super::names::{HIDDEN_ROOT, ROOT, entries_of};
use super::quotas::{Exceeded, Quota, QuotaLimits, QuotaTable};
use super::totals::{PendingTotals, SubtreeSum, Totals, TotalsTable};
use cairn_types::planted::{Rule, broken};
use cairn_types::{EntryId, EntryKind};
use std::collections::BTreeMap;
use std::sync::Arc;

/// More steps up than any entry has: a way that is longer is a broken tree.
const DEPTH_MAX: usize = 100_000;

/// The ways up from directories, along which things count.
#[derive(Clone, Copy)]
pub(super) struct Ways<'a> {
    pub(super) entries: &'a Map,
    pub(super) hidden: &'a HiddenTable,
}

impl<'a> Ways<'a> {
    fn entry(&self, id: EntryId) -> Option<EntryRecord> {
        let key = id.get().to_be_bytes();
        let stored = self.entries.get(&key, |packed| EntryRecord::unpack(id, packed));
        stored.map(|(record, _)| record)
    }

    /// The directory that an entry counts in; of the roots, none.
    pub(super) fn counts_in(&self, id: EntryId) -> Option<EntryId> {
        let record = self.entry(id).filter(|record| record.parent != id)?;
        let (directory, _) = self.place(id, record.parent)?;
        self.entry(directory).map(|_| directory)
    }

    /// The directory that an entry counts in, and whether it was deleted from there (AC1).
    fn place(&self, id: EntryId, parent: EntryId) -> Option<(EntryId, bool)> {
        if parent != HIDDEN_ROOT {
            return Some((parent, false));
        }
        self.hidden.get(id).map(|hidden| (hidden.parent, true))
    }

    /// The way up from a directory, itself first, along which it counts; and whether it is deleted
    /// as seen from there. It ends at the root, or below what is gone.
    fn up(self, directory: EntryId) -> impl Iterator<Item = (EntryId, bool)> + use<'a> {
        let mut next = Some((directory, false));
        std::iter::from_fn(move || {
            let (id, deleted) = next.take().filter(|(id, _)| *id != HIDDEN_ROOT)?;
            let record = self.entry(id)?;
            if id != ROOT {
                let place = self.place(id, record.parent);
                next = place.map(|(above, crossed)| (above, deleted || crossed));
            }
            Some((id, deleted))
        })
        .take(DEPTH_MAX)
    }
}

/// Totals and quotas.
#[derive(Clone, Debug)]
pub(super) struct Accounts {
    totals: TotalsTable,
    quotas: QuotaTable,
}

impl Accounts {
    pub(super) fn new(mark: &DamageMark) -> Self {
        Self { totals: TotalsTable::new(mark), quotas: QuotaTable::new(mark) }
    }

    /// From what an image has.
    pub(super) fn of([totals, quotas, charged]: [Map; 3]) -> Self {
        let totals = TotalsTable::of([totals, charged]);
        Self { totals, quotas: QuotaTable::of(quotas) }
    }

    pub(super) fn maps(&self) -> [&Map; 3] {
        let [totals, charged] = self.totals.maps();
        [totals, self.quotas.map(), charged]
    }

    pub(super) fn maps_mut(&mut self) -> [&mut Map; 3] {
        let [totals, charged] = self.totals.maps_mut();
        [totals, self.quotas.map_mut(), charged]
    }

    /// What waits to be added to totals, for an image.
    pub(super) fn pending(&self) -> Vec<PendingTotals> {
        self.totals.pending()
    }

    /// What an image says that waited; whether that makes sense.
    pub(super) fn take_up_pending(
        &mut self,
        pending: &[PendingTotals],
        hot: &[PendingTotals],
    ) -> bool {
        self.totals.take_up_pending(pending) && self.quotas.take_up_hot(hot)
    }

    pub(super) fn quotas(&self) -> &QuotaTable {
        &self.quotas
    }

    pub(super) fn totals(&self) -> &TotalsTable {
        &self.totals
    }

    /// What an entry counts by itself.
    fn own(&self, id: EntryId, record: &EntryRecord) -> SubtreeSum {
        let is_file = record.kind == EntryKind::File;
        counted(record, is_file.then(|| self.totals.charged(id)).flatten())
    }

    /// What an entry counts with all below it, once nothing waits there.
    fn whole(&self, id: EntryId, record: &EntryRecord) -> Totals {
        let mut whole = Totals::of_live(self.own(id, record));
        if record.kind == EntryKind::Directory {
            whole += self.totals.row(id);
        }
        whole
    }

    /// An entry is made, which is new: nothing charges it yet.
    pub(super) fn made(&mut self, ways: Ways<'_>, record: &EntryRecord) {
        self.note(ways, record.parent, Totals::of_live(counted(record, None)));
    }

    /// A file has another length, or level, than before.
    pub(super) fn changed(
        &mut self,
        ways: Ways<'_>,
        id: EntryId,
        (former, now): (&EntryRecord, &EntryRecord),
    ) {
        assert_eq!(former.parent, now.parent, "what is changed stays where it is");
        let charged = self.totals.charged(id);
        let mut change = counted(now, charged);
        change -= counted(former, charged);
        self.note_at(ways, (id, now.parent), change);
    }

    /// From now on a file is charged so far, or its recorded length alone.
    pub(super) fn charge(
        &mut self,
        ways: Ways<'_>,
        (id, record): (EntryId, &EntryRecord),
        up_to: Option<u64>,
    ) {
        let former = self.totals.charged(id);
        if up_to == former {
            return;
        }
        self.totals.charge(id, up_to);
        let mut change = counted(record, up_to);
        change -= counted(record, former);
        self.note_at(ways, (id, record.parent), change);
    }

    /// An entry is about to leave its place for another directory, or is deleted, which is a move
    /// into the hidden root.
    pub(super) fn moved(&mut self, ways: Ways<'_>, id: EntryId, record: &EntryRecord, to: EntryId) {
        let Some((from, was_deleted)) = ways.place(id, record.parent) else { return };
        assert!(id != ROOT && id != HIDDEN_ROOT, "the two roots stay where they are");
        let (to, deleted) = if to == HIDDEN_ROOT { (from, true) } else { (to, false) };
        if (from, was_deleted) == (to, deleted) {
            // Within its directory.
            return;
        }
        if record.kind == EntryKind::Directory {
            // TO3
            self.take_up(ways);
            self.quotas.forget_ways();
        }
        let whole = self.whole(id, record);
        let seen = |deleted: bool| if deleted { whole.as_deleted() } else { whole };
        if from == to {
            return self.note(ways, from, seen(deleted) - seen(was_deleted));
        }
        self.note(ways, from, Totals::default() - seen(was_deleted));
        self.note(ways, to, seen(deleted));
    }

    /// An entry is about to go.
    pub(super) fn gone(&mut self, ways: Ways<'_>, id: EntryId, record: &EntryRecord) {
        assert!(id != ROOT && id != HIDDEN_ROOT, "the two roots are there for good");
        if record.kind == EntryKind::Directory {
            // TO3
            self.take_up(ways);
            self.quotas.forget_ways();
        }
        let whole = self.whole(id, record);
        if let Some((from, deleted)) = ways.place(id, record.parent) {
            let seen = if deleted { whole.as_deleted() } else { whole };
            self.note(ways, from, Totals::default() - seen);
        }
        match record.kind {
            EntryKind::Directory => {
                self.totals.forget(id);
                self.quotas.forget(id);
            }
            EntryKind::File if self.totals.charged(id).is_some() => self.totals.charge(id, None),
            EntryKind::File => {}
        }
    }

    /// What an entry counts changes.
    fn note_at(&mut self, ways: Ways<'_>, (id, parent): (EntryId, EntryId), change: SubtreeSum) {
        let Some((directory, deleted)) = ways.place(id, parent) else { return };
        let change = Totals::of_live(change);
        self.note(ways, directory, if deleted { change.as_deleted() } else { change });
    }

    /// What lies below a directory changes.
    fn note(&mut self, ways: Ways<'_>, directory: EntryId, change: Totals) {
        if change == Totals::default() {
            return;
        }
        if !self.quotas.is_empty() {
            for above in self.quotas_above(ways, directory).iter() {
                // QU1
                self.quotas.add(*above, change.all());
            }
        }
        if self.totals.note(directory, change) {
            self.take_up(ways);
        }
    }

    /// Adds all that waits to the totals that it belongs to.
    pub(super) fn take_up(&mut self, ways: Ways<'_>) {
        let mut changes: BTreeMap<EntryId, Totals> = BTreeMap::new();
        let waiting = self.totals.waiting().len();
        for (directory, change) in self.totals.take_pending() {
            for (above, deleted) in ways.up(directory) {
                *changes.entry(above).or_default() +=
                    if deleted { change.as_deleted() } else { change };
            }
        }
        assert!(waiting > 0 || changes.is_empty(), "what waited is taken up, and nothing else");
        for (directory, change) in changes {
            self.totals.add(directory, change);
        }
        assert!(self.totals.waiting().is_empty(), "nothing waits any more (TO3)");
    }

    /// What lies below a directory (TO1).
    pub(super) fn total(&self, ways: Ways<'_>, directory: EntryId) -> Totals {
        let mut total = self.totals.row(directory);
        for (below, change) in self.totals.waiting() {
            if let Some((_, deleted)) = ways.up(*below).find(|(id, _)| *id == directory) {
                total += if deleted { change.as_deleted() } else { *change };
            }
        }
        total
    }

    /// Which directories above one have quotas, itself first.
    pub(super) fn quotas_above(&self, ways: Ways<'_>, directory: EntryId) -> Arc<[EntryId]> {
        self.quotas.above(directory, ways.up(directory).map(|(id, _)| id))
    }

    /// Whether so much more may lie below a directory, as far as quotas go (R36).
    pub(super) fn check(
        &self,
        ways: Ways<'_>,
        directory: EntryId,
        more: SubtreeSum,
    ) -> Result<(), Exceeded> {
        // QU2
        if self.quotas.is_empty() || broken(Rule::R36) {
            return Ok(());
        }
        let above = self.quotas_above(ways, directory);
        above.iter().try_for_each(|id| self.quotas.check(*id, more))
    }

    /// Whether an entry may be moved into a directory: what counts in a quota already is no more
    /// for it.
    pub(super) fn check_move(
        &self,
        ways: Ways<'_>,
        (id, record): (EntryId, &EntryRecord),
        to: EntryId,
    ) -> Result<(), Exceeded> {
        if self.quotas.is_empty() || broken(Rule::R36) {
            return Ok(());
        }
        let place = ways.place(id, record.parent);
        let from = place.map(|(from, _)| self.quotas_above(ways, from)).unwrap_or_default();
        let above = self.quotas_above(ways, to);
        let mut others = above.iter().filter(|id| !from.contains(id)).peekable();
        if others.peek().is_none() {
            return Ok(());
        }
        let mut whole = Totals::of_live(self.own(id, record));
        if record.kind == EntryKind::Directory {
            whole += self.total(ways, id);
        }
        others.try_for_each(|id| self.quotas.check(*id, whole.all()))
    }

    /// A directory has these limits from now on.
    pub(super) fn set_quota(&mut self, ways: Ways<'_>, directory: EntryId, limits: QuotaLimits) {
        let used = self.total(ways, directory).all();
        self.quotas.set(directory, limits, used);
    }

    /// The quota of a directory.
    pub(super) fn quota(&self, directory: EntryId) -> Option<Quota> {
        self.quotas.get(directory)
    }

    /// Up to where a file is charged though its recorded length may be less.
    pub(super) fn charged(&self, file: EntryId) -> Option<u64> {
        self.totals.charged(file)
    }

    /// Whether the same counts, whatever waits to be added.
    pub(super) fn same(&self, ways: Ways<'_>, other: (&Self, Ways<'_>)) -> bool {
        let settled = |accounts: &Self, ways: Ways<'_>| {
            let mut accounts = accounts.clone();
            accounts.take_up(ways);
            accounts.quotas.cool();
            accounts
        };
        let (one, other) = (settled(self, ways), settled(other.0, other.1));
        one.maps() == other.maps()
    }

    #[cfg(test)]
    pub(super) fn forget_totals(&mut self) {
        let mark = DamageMark::default();
        let charged = self.totals.maps()[1].clone();
        self.totals = TotalsTable::of([Map::new(&mark), charged]);
    }

    /// Counts all anew, of an image that was made before there were totals. Looks at every entry.
    pub(super) fn count_all(&mut self, ways: Ways<'_>) {
        let mut counted: BTreeMap<EntryId, Totals> = BTreeMap::new();
        let entries = entries_of(ways.entries);
        for (id, record) in entries.filter(|(id, _)| ![ROOT, HIDDEN_ROOT].contains(id)) {
            let Some((directory, deleted)) = ways.place(id, record.parent) else { continue };
            let own = Totals::of_live(self.own(id, &record));
            *counted.entry(directory).or_default() += if deleted { own.as_deleted() } else { own };
        }
        self.totals.wait_all(counted);
        self.take_up(ways);
    }
}

/// What an entry counts by itself; a file, where it is charged so far.
fn counted(record: &EntryRecord, charged: Option<u64>) -> SubtreeSum {
    match record.kind {
        EntryKind::Directory => SubtreeSum { directories: 1, ..SubtreeSum::default() },
        EntryKind::File => {
            let charged = charged.unwrap_or_default().max(record.length);
            let (lengths, bytes) = (i128::from(record.length), i128::from(charged));
            let stored = lengths.saturating_mul(record.replication.into());
            SubtreeSum { files: 1, directories: 0, lengths, stored, bytes }
        }
    }
}
