//! Many clients append framed records to one file at once (GFS §3.3), and the oracle of records:
//! which were tried, which acknowledged, where.

use super::{ended, path};
use crate::file_model::Ended;
use crate::operations::{Done, Op, OpResult, Ticket};
use crate::stage::{Actor, Stage};
use bytes::Bytes;
use cairn_format::{ProducerId, encode_record};
use cairn_types::{Content, EntryId};
use std::cell::RefCell;
use std::collections::{BTreeMap, BTreeSet};
use std::rc::Rc;

/// A record's name.
pub(crate) type RecordId = (ProducerId, u64);

/// One record that was tried.
#[derive(Clone, Debug)]
pub(crate) struct Tried {
    pub(crate) framed: Bytes,
    pub(crate) ended: Ended,
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
    pub(crate) tried: BTreeMap<RecordId, Tried>,
    /// What readers were given, by where it stood.
    delivered: BTreeMap<u64, BTreeSet<RecordId>>,
    /// Bytes of the largest that was tried.
    size_max: u64,
    /// The furthest end that was acknowledged.
    acknowledged_end: u64,
}

impl RecordFile {
    pub(crate) fn named(name: &str) -> Rc<RefCell<Self>> {
        Rc::new(RefCell::new(Self { name: name.to_owned(), ..Self::default() }))
    }

    /// Whether an acknowledged record may rightly be missing: where no intact replica is alive,
    /// unless it was synced, which no power failure takes.
    pub(crate) fn may_be_lost(&self, stage: &Stage, tried: &Tried) -> bool {
        let (Some(file), Some(offset)) = (self.id, tried.offset) else { return false };
        let size = tried.framed.len() as u64;
        stage.excused(file, offset, size)
            && !(tried.sync && stage.synced_is_kept(file, offset, size))
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

    /// An append is acknowledged at `offset`; appends invoked later must stand behind it.
    fn acknowledge(&mut self, id: RecordId, offset: u64, floor: u64) -> Result<(), String> {
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
        let overlaps = self.tried.iter().find(|(other, it)| {
            **other != id
                && it.offset.is_some_and(|at| at < end && offset < at + it.framed.len() as u64)
        });
        match overlaps {
            Some((other, it)) => Err(format!(
                "{}: record {id:?} is acknowledged at {offset}, over {other:?} at {:?}",
                self.name, it.offset
            )),
            None => Ok(()),
        }
    }
}

/// A client that appends.
pub(crate) struct Appender {
    client: usize,
    file: Rc<RefCell<RecordFile>>,
    producer: ProducerId,
    next: u64,
    window: usize,
    /// With the end of what was acknowledged when it began.
    under_way: BTreeMap<Ticket, (RecordId, u64)>,
    creating: bool,
    over: bool,
}

impl Appender {
    pub(crate) fn new(
        client: usize,
        producer: u128,
        window: usize,
        file: Rc<RefCell<RecordFile>>,
    ) -> Self {
        Self {
            client,
            file,
            producer: ProducerId::new(producer),
            next: 0,
            window,
            under_way: BTreeMap::new(),
            creating: false,
            over: false,
        }
    }

    fn go_on(&mut self, stage: &mut Stage) {
        if stage.closing {
            self.over = true;
            return;
        }
        let Some(file) = self.file.borrow().id else {
            self.creating = true;
            let path = path(&self.file.borrow().name);
            stage.ask(self.client, Op::Create { path, content: Content::Records, or_open: true });
            return;
        };
        while self.under_way.len() < self.window {
            self.append(stage, file);
        }
    }

    fn append(&mut self, stage: &mut Stage, file: EntryId) {
        self.next += 1;
        let room = stage.cluster.append_size_max() as usize - cairn_format::RECORD_OVERHEAD;
        let size = if stage.random().chance(50) {
            room / 2
        } else {
            1 + stage.random().below(120) as usize
        };
        let payload: Vec<u8> = (0..size).map(|_| stage.random().next_u64() as u8).collect();
        let mut framed = Vec::new();
        encode_record(self.producer, self.next, &payload, &mut framed);
        let framed = Bytes::from(framed);
        let sync = stage.random().chance(50);
        let ticket = stage.ask(self.client, Op::Append { file, bytes: framed.clone(), sync });
        let id = (self.producer, self.next);
        let tried = Tried { framed, ended: Ended::Pending, offset: None, sync };
        let mut shared = self.file.borrow_mut();
        shared.size_max = shared.size_max.max(tried.framed.len() as u64);
        shared.tried.insert(id, tried);
        self.under_way.insert(ticket, (id, shared.acknowledged_end));
    }
}

impl Actor for Appender {
    fn start(&mut self, stage: &mut Stage) {
        stage.rest(500);
    }

    fn ended(&mut self, stage: &mut Stage, ticket: Ticket, result: OpResult) {
        if std::mem::take(&mut self.creating) {
            if let Ok(Done::Entry(entry)) = result {
                self.file.borrow_mut().id = Some(entry.id);
            }
            return stage.rest(200);
        }
        let (id, floor) = self.under_way.remove(&ticket).expect("an append of its own");
        let how = ended(stage, &result);
        let mut file = self.file.borrow_mut();
        file.tried.get_mut(&id).expect("it was tried").ended = how;
        if let Ok(Done::Offset(offset)) = result
            && let Err(message) = file.acknowledge(id, offset, floor)
        {
            if stage.excused(file.id.expect("it is appended to"), offset, 1) {
                stage.reach("append in the place of lost ones: no intact replica is alive");
            } else {
                stage.fail("records", message);
            }
        }
        stage.rest(if self.window > 1 { 800 } else { 1_500 });
    }

    fn woken(&mut self, stage: &mut Stage) {
        if self.under_way.len() < self.window && !self.creating {
            self.go_on(stage);
        }
    }

    fn finished(&self) -> bool {
        self.over && self.under_way.is_empty()
    }
}
