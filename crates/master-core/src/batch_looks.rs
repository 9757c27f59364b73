//! The look-ups of a batch: looked up together, then told one by one to whoever may know.

use crate::mutations::BatchItem;
use crate::name_mutation::NameMutation;
use crate::permissions::Asker;
use crate::reads;
use crate::view::View;
use cairn_protocol::{
    BATCH_LOCATIONS_SIZE_MAX, Batch, BatchEntry, BatchResult, Failure, Looked, Open, OpenAnswer,
    Stat,
};
use cairn_types::ChunkHandle;
use std::vec::IntoIter;

/// What was found, in the order in which it was asked for.
pub(crate) struct BatchLooks {
    looked: IntoIter<Result<Looked, Failure>>,
    opened: IntoIter<Result<OpenAnswer, Failure>>,
}

impl BatchLooks {
    /// All that a batch asks for, from one state.
    pub(crate) fn of(view: &View<'_>, batch: &Batch) -> Self {
        let stats: Vec<&Stat> = batch.entries.iter().filter_map(BatchEntry::as_stat).collect();
        let opens: Vec<&Open> = batch.entries.iter().filter_map(BatchEntry::as_open).collect();
        let changes = batch.entries.iter().filter(|entry| entry.is_mutation()).count();
        assert_eq!(stats.len() + opens.len() + changes, batch.entries.len(), "each is told once");
        Self {
            looked: reads::look_each(view, &stats).into_iter(),
            opened: reads::open_each(view, &opens, BATCH_LOCATIONS_SIZE_MAX).into_iter(),
        }
    }

    /// The chunks of which no replica is known.
    pub(crate) fn nowhere(&self) -> impl Iterator<Item = ChunkHandle> {
        let answers = self.opened.as_slice().iter().flatten();
        answers.flat_map(|answer| reads::nowhere(&answer.chunks))
    }

    /// The next entry, with its answer if it is a look-up.
    pub(crate) fn item(&mut self, asker: Asker<'_>, entry: BatchEntry) -> BatchItem {
        let change = match entry {
            BatchEntry::Stat(stat) => return BatchItem::Known(self.stat(asker, &stat)),
            BatchEntry::Open(open) => return BatchItem::Known(self.open(asker, &open)),
            BatchEntry::MakeDirectory(make) => NameMutation::MakeDirectory(make),
            BatchEntry::Create(create) => NameMutation::Create(create),
            BatchEntry::Rename(rename) => NameMutation::Rename(rename),
            BatchEntry::Delete(delete) => NameMutation::Delete(delete),
        };
        BatchItem::Mutation(change)
    }

    /// The answer to the next `Stat`.
    pub(crate) fn stat(&mut self, asker: Asker<'_>, stat: &Stat) -> BatchResult {
        let found = self.looked.next().expect("each was looked at");
        asker.looked(stat, found).map_or_else(BatchResult::failed, BatchResult::Stat)
    }

    /// The answer to the next `Open`.
    pub(crate) fn open(&mut self, asker: Asker<'_>, open: &Open) -> BatchResult {
        let found = self.opened.next().expect("each was opened");
        asker.opened(open, found).map_or_else(BatchResult::failed, BatchResult::Open)
    }

    /// All are told.
    pub(crate) fn end(mut self) {
        assert!(self.looked.next().is_none(), "what was looked at is some entry's");
        assert!(self.opened.next().is_none(), "what was opened is some entry's");
    }
}
