//! The data of one mutation on its way to the servers of a set (GFS §3.2): down their chain, and
//! where that breaks to each apart.
//!
//! - DP1: one push has one name, however often its bytes go (R15).
//! - DP2: data goes once there is room for it among what this client has on its way down the same
//!   chain (`push_lines.rs`).

use crate::tasks::push_lines::line_of;
use crate::tasks::push_progress::{FailedPush, PushProgress};
use crate::tasks::task_context::TaskContext;
use bytes::Bytes;
use cairn_env::{Answer, EffectId};
use cairn_protocol::{AppendOrder, ErrorCode, Failure, Push, Rpc};
use cairn_types::{BlockChecksums, PushId, ReplicaAt};
use std::time::Duration;

/// The time that the same data is waited for is doubled so often at most.
const LATE_DOUBLINGS_MAX: u32 = 4;

/// How long a chain is waited for before the data goes another way.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum PushHaste {
    /// There is another chunk for it.
    Short,
    /// The same, but whoever has it late is left with the chunk.
    ShortForAll,
    /// It has to go to this chunk.
    Long,
}

/// What is pushed.
#[derive(Clone, Debug)]
pub(crate) struct DataToPush {
    pub(crate) push: PushId,
    pub(crate) bytes: Bytes,
    pub(crate) checksums: BlockChecksums,
    /// Its position within a block.
    pub(crate) block_offset: u64,
    pub(crate) haste: PushHaste,
    /// What the first of the chain, which is the primary then, does once all of it have the data.
    /// Where the data goes another way, nobody is told of it.
    pub(crate) order: Option<AppendOrder>,
}

/// Data, and how far it is on its way.
#[derive(Debug)]
pub(crate) struct DataPush {
    data: DataToPush,
    /// The servers in the order in which it travels.
    chain: Vec<ReplicaAt>,
    progress: PushProgress,
    /// It waits for its turn (DP2).
    queued: bool,
    /// Pushes of it that were late.
    late: u32,
}

impl DataPush {
    /// `late` of the same data were late before.
    pub(crate) fn new(data: DataToPush, chain: Vec<ReplicaAt>, late: u32) -> Self {
        assert!(!data.bytes.is_empty(), "nothing is not pushed");
        assert!(!chain.is_empty(), "a chunk has a server");
        Self { data, chain, progress: PushProgress::default(), queued: false, late }
    }

    /// The same to each server apart, from the start.
    pub(crate) fn apart(data: DataToPush, servers: Vec<ReplicaAt>, late: u32) -> Self {
        Self { progress: PushProgress::apart(), ..Self::new(data, servers, late) }
    }

    /// Sends the data, once there is room for it on its way.
    pub(crate) fn begin(&mut self, cx: &mut TaskContext<'_>) {
        let copies = if self.is_apart() { self.servers_left().len() } else { 1 };
        let size = (self.data.bytes.len() * copies) as u64;
        let line = line_of(&self.chain);
        self.queued = !cx.client.push_lines.begin(cx.now(), cx.id, (line, size));
        if !self.queued {
            self.send(cx);
        }
    }

    /// Its turn has come: the data goes down the chain, or to each server apart.
    pub(crate) fn send(&mut self, cx: &mut TaskContext<'_>) {
        self.queued = false;
        if !self.is_apart() {
            self.send_to(cx, &self.chain.clone());
            if self.has_ordered() {
                cx.set_alarm(cx.client.impatience());
            }
            return;
        }
        for replica in self.servers_left() {
            self.send_to(cx, &[replica]);
        }
        let grace = match self.data.haste {
            PushHaste::Short => cx.client.impatience() / 4,
            PushHaste::ShortForAll | PushHaste::Long => cx.client.impatience(),
        };
        cx.set_alarm(grace);
    }

    /// Those that may still be there: each gets the data by itself.
    fn servers_left(&self) -> Vec<ReplicaAt> {
        let chain = self.chain.iter();
        chain.filter(|replica| !self.progress.has_failed(replica.server)).cloned().collect()
    }

    fn send_to(&mut self, cx: &mut TaskContext<'_>, chain: &[ReplicaAt]) {
        let (first, rest) = chain.split_first().expect("a chunk has a server");
        let block_size = cx.client.cell().block_size;
        let DataToPush { push, bytes, checksums, block_offset, order, .. } = &self.data;
        let order = order.clone().filter(|_| !self.is_apart());
        let request = Push {
            push: *push,
            block_offset: u32::try_from(*block_offset).expect("less than a block"),
            checksums: checksums.clone(),
            chain: rest.to_vec(),
            block_size,
            order: order.map(Box::new),
        };
        let usual = self.usual_patience(cx, rest.is_empty());
        let again = usual * (1 << self.late.min(LATE_DOUBLINGS_MAX));
        let patience = cx.client.push_lines.patience(cx.id, usual).max(again);
        let to = (first.address.clone(), first.server);
        let call = cx.call(to, request, bytes.clone(), patience);
        self.progress.sent(call, first.server);
    }

    /// How long a push is waited for on a fast line.
    fn usual_patience(&self, cx: &TaskContext<'_>, to_one: bool) -> Duration {
        // A second more for each MB, so that a slow network is not taken for a dead server.
        let for_size = Duration::from_micros(self.data.bytes.len() as u64);
        // A chain is as slow as its slowest, and there is another way for the data.
        let patience = match self.data.haste {
            _ if to_one => cx.client.patience(),
            PushHaste::Short | PushHaste::ShortForAll => cx.client.impatience(),
            PushHaste::Long => cx.client.patience() / 2,
        };
        patience + for_size
    }

    /// A push is done, or not; where the chain broke, the data goes to each server apart.
    ///
    /// # Errors
    /// What its failure means.
    pub(crate) fn answered(
        &mut self,
        cx: &mut TaskContext<'_>,
        call: EffectId,
        result: Result<Answer, Failure>,
    ) -> Result<(), FailedPush> {
        let result = Push::answer(result.map(|answer| answer.response));
        let usual = self.usual_patience(cx, self.is_apart() || self.chain.len() == 1);
        match &result {
            Ok(_) => {
                cx.client.push_lines.in_time(cx.now(), cx.id, usual);
            }
            // It may be the order that takes its time: sent apart, the data tells.
            Err(_) if self.has_ordered() => {}
            Err(failure) if failure.code == ErrorCode::DeadlineExceeded => {
                cx.client.push_lines.late(cx.now(), cx.id, usual);
                self.late += 1;
            }
            // It says nothing of how long the line is.
            Err(_) => {}
        }
        let ended = self.progress.ended(call, result.map(drop));
        if let Err(FailedPush::ChainBroke(_)) = ended {
            self.begin(cx);
        }
        ended
    }

    /// Whether its push down the chain, which has gone out, brings the order, too.
    pub(crate) fn has_ordered(&self) -> bool {
        self.data.order.is_some() && !self.queued && !self.is_apart()
    }

    /// The order that went down the chain with it is answered: all of the chain have it.
    pub(crate) fn was_ordered(&mut self, cx: &mut TaskContext<'_>, call: EffectId) {
        let usual = self.usual_patience(cx, self.chain.len() == 1);
        cx.client.push_lines.ordered(cx.now(), cx.id, usual);
        self.progress.ended(call, Ok(())).expect("what is done has not failed");
    }

    /// Whether it is one of those under way.
    pub(crate) fn awaits(&self, call: EffectId) -> bool {
        self.progress.awaits(call)
    }

    /// Whether it waits for its turn.
    pub(crate) fn is_queued(&self) -> bool {
        self.queued
    }

    /// Whether it goes to each server apart.
    pub(crate) fn is_apart(&self) -> bool {
        self.progress.is_apart()
    }

    /// How often it was late.
    pub(crate) fn late(&self) -> u32 {
        self.late
    }

    /// How far it is.
    pub(crate) fn progress(&mut self) -> &mut PushProgress {
        &mut self.progress
    }
}
