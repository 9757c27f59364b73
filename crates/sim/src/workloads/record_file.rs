//! A file of records and its oracle: which were tried, which acknowledged, where, and what readers
//! were given.

use crate::file_model::MutationEnd;
use crate::simulation::Simulation;
use bytes::Bytes;
use cairn_format::RecordSource;
use cairn_types::EntryId;
use std::cell::RefCell;
use std::collections::{BTreeMap, BTreeSet};
use std::rc::Rc;

/// A record's name.
pub(crate) type RecordId = (RecordSource, u64);

/// One record that was tried.
#[derive(Clone, Debug)]
pub(crate) struct TriedRecord {
    pub(crate) framed: Bytes,
    pub(crate) ended: MutationEnd,
    /// Where it stands, once acknowledged.
    pub(crate) offset: Option<u64>,
    /// Acknowledged only when all disks have it.
    pub(crate) sync: bool,
}

/// A file of records and its oracle.
#[derive(Debug, Default)]
pub(crate) struct RecordFile {
    pub(crate) name: String,
    pub(crate) id: Option<EntryId>,
    pub(crate) tried: BTreeMap<RecordId, TriedRecord>,
    /// Those that are acknowledged, by where they stand: none lies over another.
    stands: BTreeMap<u64, RecordId>,
    /// What readers were given, by where it stood.
    delivered: BTreeMap<u64, BTreeSet<RecordId>>,
    /// Bytes of the largest that was tried.
    pub(super) size_max: u64,
    /// The furthest end that was acknowledged.
    pub(super) acknowledged_end: u64,
}

impl RecordFile {
    pub(crate) fn named(name: &str) -> Rc<RefCell<Self>> {
        Rc::new(RefCell::new(Self { name: name.to_owned(), ..Self::default() }))
    }

    /// Whether an acknowledged record may rightly be missing: where no intact replica is alive,
    /// unless it was synced, which no power failure takes.
    pub(crate) fn may_be_lost(&self, sim: &Simulation, tried: &TriedRecord) -> bool {
        let (Some(file), Some(offset)) = (self.id, tried.offset) else { return false };
        let size = tried.framed.len() as u64;
        sim.excused(file, offset, size) && !(tried.sync && sim.synced_is_kept(file, offset, size))
    }

    /// A reader is given a record that stands at `offset`.
    pub(crate) fn deliver(&mut self, record: RecordId, offset: u64) {
        self.delivered.entry(offset).or_default().insert(record);
    }

    /// Another record that a reader was given from somewhere in this range, and from where.
    pub(crate) fn delivered_over(
        &self,
        record: RecordId,
        offset: u64,
        size: u64,
    ) -> Option<(RecordId, u64)> {
        let from = offset.saturating_sub(self.size_max);
        let near = self.delivered.range(from..offset + size);
        let each = near.flat_map(|(at, records)| records.iter().map(|other| (*other, *at)));
        each.filter(|(other, _)| *other != record).find(|(other, at)| {
            self.tried.get(other).is_some_and(|it| offset < at + it.framed.len() as u64)
        })
    }

    /// The acknowledged records that have bytes in this range.
    pub(crate) fn standing(
        &self,
        from: u64,
        until: u64,
    ) -> impl Iterator<Item = (RecordId, &TriedRecord)> {
        let before = self.stands.range(..from).next_back();
        let within = self.stands.range(from..until.max(from));
        let near = before.into_iter().chain(within).map(|(_, id)| (*id, &self.tried[id]));
        near.filter(move |(_, it)| it.offset.is_some_and(|at| from < at + it.framed.len() as u64))
    }

    /// An append is acknowledged at `offset`; appends invoked later must stand behind it.
    pub(crate) fn acknowledge(
        &mut self,
        id: RecordId,
        offset: u64,
        floor: u64,
    ) -> Result<(), String> {
        let tried = self.tried.get_mut(&id).expect("it was tried");
        tried.offset = Some(offset);
        let end = offset + tried.framed.len() as u64;
        if offset < floor {
            return Err(format!(
                "{}: record {id:?} is acknowledged at {offset}, while an append that was \
                 acknowledged before it began ends at {floor}",
                self.name
            ));
        }
        self.acknowledged_end = self.acknowledged_end.max(end);
        let overlaps = self.standing(offset, end).find(|(other, _)| *other != id);
        match overlaps {
            Some((other, it)) => Err(format!(
                "{}: record {id:?} is acknowledged at {offset}, over {other:?} at {:?}",
                self.name, it.offset
            )),
            None => {
                self.stands.insert(offset, id);
                Ok(())
            }
        }
    }
}
