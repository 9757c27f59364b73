//! Same order: under one version all replicas of a chunk apply the same mutation as the same
//! serial number, and each replica one after the other (R13). In all of a chunk's life a push is
//! one mutation: it gets one serial number (R15).

use super::checker::{Checker, Verdict};
use crate::ledger::Ledger;
use cairn_env::{ApplyMutation, ChunkJob, ChunkResult};
use cairn_env_sim::NodeId;
use cairn_types::{ChunkHandle, ChunkVersion, PushId, SerialNumber};
use std::collections::BTreeMap;

type OrderKey = (ChunkHandle, ChunkVersion, SerialNumber);
type OrderedMutation = (u64, u64, Option<PushId>);

#[derive(Default)]
pub(crate) struct SameOrder {
    mutations: BTreeMap<OrderKey, (OrderedMutation, NodeId)>,
    serials: BTreeMap<(ChunkHandle, PushId), (SerialNumber, NodeId)>,
    last: BTreeMap<(NodeId, ChunkHandle), SerialNumber>,
}

impl SameOrder {
    fn take(
        &mut self,
        node: NodeId,
        (handle, version): (ChunkHandle, ChunkVersion),
        mutation: &ApplyMutation,
    ) -> Verdict {
        let what = (mutation.offset, mutation.size, mutation.push);
        let place = (handle, version, mutation.serial);
        let (first, by) = self.mutations.entry(place).or_insert((what, node));
        if *first != what {
            return Err(format!(
                "serial number {} of chunk {} at version {} is {first:?} on {by:?} and {what:?} \
                 on {node:?}",
                mutation.serial,
                handle.short(),
                version.short(),
            ));
        }
        self.take_once(node, handle, mutation)?;
        let last = self.last.insert((node, handle), mutation.serial);
        let levels = mutation.push.is_none();
        if let Some(last) = last
            && !levels
            && mutation.serial > last.next()
        {
            return Err(format!(
                "{node:?} applies serial number {} of chunk {} after {last}",
                mutation.serial,
                handle.short(),
            ));
        }
        Ok(())
    }

    fn take_once(
        &mut self,
        node: NodeId,
        handle: ChunkHandle,
        mutation: &ApplyMutation,
    ) -> Verdict {
        let Some(push) = mutation.push else { return Ok(()) };
        let taken = (mutation.serial, node);
        let (serial, by) = self.serials.entry((handle, push)).or_insert(taken);
        if *serial == mutation.serial {
            return Ok(());
        }
        Err(format!(
            "{push:?} is serial number {serial} of chunk {} on {by:?} and {} on {node:?}",
            handle.short(),
            mutation.serial,
        ))
    }
}

impl Checker for SameOrder {
    fn name(&self) -> &'static str {
        "same_order"
    }

    fn chunk_job(
        &mut self,
        node: NodeId,
        job: &ChunkJob,
        result: &ChunkResult,
        _: &Ledger,
    ) -> Verdict {
        match (job, result) {
            (ChunkJob::Apply { handle, version, mutations, .. }, Ok(_)) => mutations
                .iter()
                .try_for_each(|mutation| self.take(node, (*handle, *version), mutation)),
            _ => Ok(()),
        }
    }

    fn lives(&mut self, node: NodeId, _: bool) {
        // What a restarted replica counts from is its disk's business; levelling sets it anew.
        self.last.retain(|(of, _), _| *of != node);
    }
}
