//! What is deleted: where it was, and until when it can be brought back (§4.4).
//!
//! ```text
//!   hidden    entry id → where it was, when it was deleted, until when it is kept
//!   by place  (directory id, name, 0, newest first, entry id) → nothing
//!   by time   (kept until, entry id) → nothing
//! ```
//! - HD1: the three trees tell of the same entries, those that stand in the hidden root: a
//!   directory with all below it is one.
//! - HD2: where it was is the directory's id: it is brought back into that directory, wherever
//!   that has been moved meanwhile.

use super::map::{DamageMark, Map};
use super::packing::{Packed, put_near, put_number};
use cairn_types::{CellPath, EntryId, NAME_SIZE_MAX, WallTime};
use std::time::Duration;

/// Of deleted names alone; no other name in the root is called so.
pub(crate) const HIDDEN_NAME: &str = ".deleted";

/// What is known of something deleted.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct HiddenRecord {
    /// The directory that it stood in.
    pub(crate) parent: EntryId,
    /// What it was called there.
    pub(crate) name: String,
    /// When it was deleted.
    pub(crate) deleted: WallTime,
    /// It is kept up to this log time.
    pub(crate) until: Duration,
    /// Some of it is gone, so that it is brought back no more.
    pub(crate) purging: bool,
}

impl HiddenRecord {
    /// Of what stood there, and is kept whole.
    pub(super) fn new(from: (EntryId, &str), deleted: WallTime, until: Duration) -> Self {
        let (parent, name) = (from.0, from.1.to_owned());
        assert!(CellPath::is_name(&name), "it stood there under a name");
        Self { parent, name, deleted, until, purging: false }
    }

    /// The name that it has in the hidden root, unique because the id is. A long name loses its
    /// end in it.
    #[must_use]
    pub(crate) fn hidden_name(&self, id: EntryId) -> String {
        let time = self.deleted.as_millis();
        let mut hidden = format!("{HIDDEN_NAME}-{}-{time}-{}", id.short(), self.name);
        hidden.truncate(hidden.floor_char_boundary(NAME_SIZE_MAX));
        assert!(CellPath::is_name(&hidden), "a hidden name is a name");
        hidden
    }

    fn pack(&self, id: EntryId) -> Vec<u8> {
        let mut out = Vec::with_capacity(24 + self.name.len());
        put_near(&mut out, self.parent.get(), id.get());
        put_number(&mut out, self.deleted.as_millis());
        put_number(&mut out, millis(self.until));
        out.push(u8::from(self.purging));
        out.extend_from_slice(self.name.as_bytes());
        out
    }

    fn unpack(id: EntryId, packed: &[u8]) -> Option<Self> {
        let mut packed = Packed(packed);
        let parent = EntryId::new(packed.near(id.get())?);
        let deleted = WallTime::from_millis(packed.number()?);
        let until = Duration::from_millis(packed.number()?);
        let purging = match packed.byte()? {
            0 => false,
            1 => true,
            _ => return None,
        };
        let name = packed.text().filter(|name| CellPath::is_name(name))?.to_owned();
        Some(Self { parent, name, deleted, until, purging })
    }
}

/// Where something deleted stands among all that was deleted from its directory.
#[derive(Clone, Copy, Debug)]
pub(crate) struct DeletedFrom<'a> {
    /// What it was called.
    pub(crate) name: &'a str,
    /// When it was deleted.
    pub(crate) deleted: WallTime,
    /// Its id.
    pub(crate) id: EntryId,
}

/// All that is deleted and not purged.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct HiddenTable {
    hidden: Map,
    by_place: Map,
    by_time: Map,
}

impl HiddenTable {
    pub(super) fn new(mark: &DamageMark) -> Self {
        Self::of([(); 3].map(|()| Map::new(mark)))
    }

    /// From what an image has.
    pub(super) fn of([hidden, by_place, by_time]: [Map; 3]) -> Self {
        Self { hidden, by_place, by_time }
    }

    pub(super) fn maps(&self) -> [&Map; 3] {
        [&self.hidden, &self.by_place, &self.by_time]
    }

    pub(super) fn maps_mut(&mut self) -> [&mut Map; 3] {
        [&mut self.hidden, &mut self.by_place, &mut self.by_time]
    }

    pub(super) fn count(&self) -> u64 {
        self.hidden.len()
    }

    pub(crate) fn get(&self, id: EntryId) -> Option<HiddenRecord> {
        self.hidden.get(&id_key(id), |packed| HiddenRecord::unpack(id, packed))
    }

    /// Notes what was deleted, or that it is kept otherwise than before (HD1).
    pub(super) fn set(&mut self, id: EntryId, record: &HiddenRecord) {
        assert!(CellPath::is_name(&record.name), "it was called so (HD1)");
        self.remove(id);
        self.hidden.set(&id_key(id), &record.pack(id));
        let from = DeletedFrom { name: &record.name, deleted: record.deleted, id };
        self.by_place.set(&place_key(record.parent, from), &[]);
        self.by_time.set(&time_key(record.until, id), &[]);
    }

    /// It is not deleted any more, or gone altogether; nothing where it was not.
    pub(super) fn remove(&mut self, id: EntryId) {
        let Some(record) = self.get(id) else { return };
        self.hidden.remove(&id_key(id));
        let from = DeletedFrom { name: &record.name, deleted: record.deleted, id };
        self.by_place.remove(&place_key(record.parent, from));
        self.by_time.remove(&time_key(record.until, id));
    }

    /// One that is kept no longer at this log time.
    pub(crate) fn due(&self, log_time: Duration) -> Option<EntryId> {
        self.by_time.walk(&[]).unpack(|key, _| {
            let mut key = Packed(key);
            let is_due = Duration::from_millis(key.key()?) <= log_time;
            let id = EntryId::new(key.key()?);
            key.end(is_due.then_some(id))
        })
    }

    /// How many are kept no longer at this log time; no more than `max` are counted.
    pub(crate) fn due_count(&self, log_time: Duration, max: usize) -> usize {
        let mut walk = self.by_time.walk(&[]);
        let due = std::iter::from_fn(move || {
            walk.unpack(|key, _| {
                let mut key = Packed(key);
                let is_due = Duration::from_millis(key.key()?) <= log_time;
                let _id = key.key()?;
                key.end(is_due.then_some(()))
            })
        });
        due.take(max).count()
    }

    /// The entries behind an id, in order of ids.
    pub(crate) fn after(
        &self,
        id: EntryId,
    ) -> impl Iterator<Item = (EntryId, HiddenRecord)> + use<'_> {
        let mut walk = self.hidden.walk(&id_key(id));
        let all = std::iter::from_fn(move || {
            walk.unpack(|key, packed| {
                let id = EntryId::new(Packed(key).key()?);
                Some(Some((id, HiddenRecord::unpack(id, packed)?)))
            })
        });
        all.skip_while(move |(found, _)| *found <= id)
    }

    /// What was deleted from a directory, in order of names, of one name the newest first; with
    /// `from`, what comes at or behind it.
    pub(crate) fn of_directory(
        &self,
        directory: EntryId,
        from: Option<DeletedFrom<'_>>,
    ) -> impl Iterator<Item = EntryId> + use<'_> {
        let start = match from {
            Some(from) => place_key(directory, from),
            None => id_key(directory).to_vec(),
        };
        let mut walk = self.by_place.walk(&start);
        std::iter::from_fn(move || {
            walk.unpack(|key, _| {
                let (name, id) = key.split_last_chunk()?;
                let is_there = name.starts_with(&id_key(directory));
                Some(is_there.then(|| EntryId::new(u64::from_be_bytes(*id))))
            })
        })
    }

    /// What was deleted last of those that were called so in that directory.
    pub(crate) fn newest(&self, directory: EntryId, name: &str) -> Option<EntryId> {
        let from = DeletedFrom { name, deleted: WallTime::from_millis(u64::MAX), id: ROOT_ID };
        let called_so = |id| Some((id, self.get(id).filter(|record| record.name == name)?));
        let mut all = self.of_directory(directory, Some(from)).map_while(called_so);
        let (first, HiddenRecord { deleted, .. }) = all.next()?;
        // Of several within a millisecond: ids rise, so who was made last was mostly deleted last.
        let last = all.take_while(|(_, record)| record.deleted == deleted).last();
        Some(last.map_or(first, |(id, _)| id))
    }
}

/// No entry has an id below it.
const ROOT_ID: EntryId = EntryId::new(0);

fn id_key(id: EntryId) -> [u8; 8] {
    id.get().to_be_bytes()
}

/// No name has a zero in it, so one name's end before a longer one's.
fn place_key(directory: EntryId, from: DeletedFrom<'_>) -> Vec<u8> {
    let mut key = id_key(directory).to_vec();
    key.extend_from_slice(from.name.as_bytes());
    key.push(0);
    key.extend_from_slice(&(u64::MAX - from.deleted.as_millis()).to_be_bytes());
    key.extend_from_slice(&id_key(from.id));
    key
}

fn time_key(until: Duration, id: EntryId) -> [u8; 16] {
    (u128::from(millis(until)) << 64 | u128::from(id.get())).to_be_bytes()
}

fn millis(time: Duration) -> u64 {
    u64::try_from(time.as_millis()).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use super::{DamageMark, DeletedFrom, HiddenRecord, HiddenTable};
    use cairn_types::{EntryId, WallTime};
    use proptest::prelude::{any, proptest};
    use std::time::Duration;

    const DIRECTORY: EntryId = EntryId::new(7);

    fn record(name: &str, deleted: u64, until: u64) -> HiddenRecord {
        let (deleted, until) = (WallTime::from_millis(deleted), Duration::from_millis(until));
        let (parent, name) = (DIRECTORY, name.to_owned());
        HiddenRecord { parent, name, deleted, until, purging: false }
    }

    #[test]
    fn the_newest_of_a_name_is_found_and_names_that_begin_alike_are_told_apart() {
        let mut table = HiddenTable::new(&DamageMark::default());
        for (id, name, deleted) in [(11, "a", 5), (12, "a", 9), (13, "a", 7), (14, "ab", 99)] {
            table.set(EntryId::new(id), &record(name, deleted, 100 - deleted));
        }
        assert_eq!(table.newest(DIRECTORY, "a"), Some(EntryId::new(12)));
        assert_eq!(table.newest(DIRECTORY, "ab"), Some(EntryId::new(14)));
        assert_eq!(table.newest(DIRECTORY, ""), None);
        assert_eq!(table.newest(EntryId::new(6), "a"), None);
        let all: Vec<u64> = table.of_directory(DIRECTORY, None).map(|id| id.get()).collect();
        assert_eq!(all, [12, 13, 11, 14]);
        let deleted = WallTime::from_millis(7);
        let from = DeletedFrom { name: "a", deleted, id: EntryId::new(13) };
        let rest: Vec<u64> = table.of_directory(DIRECTORY, Some(from)).map(|id| id.get()).collect();
        assert_eq!(rest, [13, 11, 14]);
        // Within one millisecond.
        table.set(EntryId::new(15), &record("a", 9, 91));
        assert_eq!(table.newest(DIRECTORY, "a"), Some(EntryId::new(15)));
        table.remove(EntryId::new(15));
        table.remove(EntryId::new(12));
        assert_eq!(table.newest(DIRECTORY, "a"), Some(EntryId::new(13)));
        assert_eq!(table.after(EntryId::new(11)).count(), 2);
        assert_eq!(table.count(), 3);
    }

    proptest! {
        #[test]
        fn a_record_comes_back_and_no_bytes_make_it_panic(
            ids: (u64, u64), name in "[a-zü]{1,40}", times: (u64, u64), purging: bool,
            raw in proptest::collection::vec(any::<u8>(), 0..40),
        ) {
            let parent = EntryId::new(ids.1);
            let record = HiddenRecord { parent, purging, ..record(&name, times.0, times.1) };
            let id = EntryId::new(ids.0);
            assert_eq!(HiddenRecord::unpack(id, &record.pack(id)), Some(record));
            let _ = HiddenRecord::unpack(id, &raw);
        }
    }
}
