//! Batches' way through the core: look-ups are answered, changes of names go on from here.

use super::MasterCore;
use crate::mutations::BatchItem;
use crate::name_mutation::NameMutation;
use crate::permissions::Asker;
use crate::reads;
use cairn_env::{Caller, Now};
use cairn_protocol::{BATCH_LOCATIONS_SIZE_MAX, Batch, BatchEntry, BatchResult, Open, Stat};
use std::sync::Arc;

impl MasterCore {
    /// What a batch asks for is read at once, all of it from one state.
    pub(super) fn on_batch(&mut self, now: Now, from: Caller, batch: Batch) {
        if let Some(failure) = batch.oversized() {
            return self.out.reply(from, Err(failure));
        }
        let view = self.chunks.view(now, &self.state);
        let stats: Vec<&Stat> = batch.entries.iter().filter_map(BatchEntry::as_stat).collect();
        let opens: Vec<&Open> = batch.entries.iter().filter_map(BatchEntry::as_open).collect();
        let mut looked = reads::look_each(&view, &stats).into_iter();
        let opened = reads::open_each(&view, &opens, BATCH_LOCATIONS_SIZE_MAX);
        for answer in opened.iter().flatten() {
            for chunk in reads::nowhere(&answer.chunks) {
                self.chunks.want(now.time, chunk);
            }
        }
        let mut opened = opened.into_iter();
        let asker = Asker { state: &self.state, who: self.callers.who(from) };
        let take = |entry| match entry {
            BatchEntry::Stat(stat) => {
                let looked = looked.next().expect("each was looked at above");
                let looked = asker.looked(&stat, looked);
                BatchItem::Known(looked.map_or_else(BatchResult::failed, BatchResult::Stat))
            }
            BatchEntry::Open(open) => {
                let opened = opened.next().expect("each was opened above");
                let opened = asker.opened(&open, opened);
                BatchItem::Known(opened.map_or_else(BatchResult::failed, BatchResult::Open))
            }
            BatchEntry::MakeDirectory(make) => {
                BatchItem::Mutation(NameMutation::MakeDirectory(make))
            }
            BatchEntry::Create(create) => BatchItem::Mutation(NameMutation::Create(create)),
            BatchEntry::Rename(rename) => BatchItem::Mutation(NameMutation::Rename(rename)),
            BatchEntry::Delete(delete) => BatchItem::Mutation(NameMutation::Delete(delete)),
        };
        let entries: Vec<_> = batch.entries.into_iter().map(take).collect();
        assert!(looked.next().is_none(), "what was looked at is some entry's");
        assert!(opened.next().is_none(), "what was opened is some entry's");
        let who = Arc::clone(self.callers.who(from));
        let (mut step, mutations, _) = self.parts(now);
        mutations.on_batch(&mut step, (from, &who), entries);
    }
}
