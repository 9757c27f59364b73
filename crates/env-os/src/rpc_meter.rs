//! Requests that a server answered, by rpc and outcome, how long that took, and the file bytes that
//! went with them: counted by its loop, read by any thread.
//!
//! - RM1: a request is counted once, when its answer is queued; one whose connection went before is
//!   counted as nobody's.
//! - RM2: what is counted here decides nothing.

use cairn_env::{LatencyCounts, LatencyMeter};
use cairn_protocol::{RPC_NAMES, RequestId, rpc_name};
use cairn_types::Time;
use std::collections::VecDeque;
use std::sync::atomic::{AtomicU64, Ordering};

/// Above the highest number of an rpc.
const KINDS: usize = 256;

/// Counts of one rpc.
#[derive(Debug, Default)]
struct RpcSlot {
    failed: AtomicU64,
    received: AtomicU64,
    sent: AtomicU64,
    took: LatencyMeter,
}

/// Counts of all rpcs.
#[derive(Debug)]
pub(crate) struct RpcMeter {
    slots: Vec<RpcSlot>,
}

/// What was counted of one rpc.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RpcCounts {
    /// Its name.
    pub name: &'static str,
    /// Answers, by how long they took from when the request was taken up; failures among them.
    pub took: LatencyCounts,
    /// Answers that were failures.
    pub failed: u64,
    /// File bytes that came with its requests.
    pub received: u64,
    /// File bytes that went with its answers.
    pub sent: u64,
}

impl Default for RpcMeter {
    fn default() -> Self {
        assert!(RPC_NAMES.iter().all(|(kind, _)| usize::from(*kind) < KINDS));
        Self { slots: (0..KINDS).map(|_| RpcSlot::default()).collect() }
    }
}

impl RpcMeter {
    /// A request of this rpc that came then is answered, with so many bytes.
    pub(crate) fn answered(&self, begun: &Begun, now: Time, is_failure: bool, bytes: usize) {
        let Some(slot) = self.slots.get(usize::from(begun.kind)) else { return };
        slot.took.note(now.since(begun.at));
        slot.failed.fetch_add(u64::from(is_failure), Ordering::Relaxed);
        slot.received.fetch_add(begun.size, Ordering::Relaxed);
        slot.sent.fetch_add(bytes as u64, Ordering::Relaxed);
    }

    /// Of each rpc that was asked for at all.
    pub(crate) fn told(&self) -> Vec<RpcCounts> {
        let of = |(kind, slot): (usize, &RpcSlot)| {
            let name = rpc_name(u16::try_from(kind).ok()?)?;
            let load = |count: &AtomicU64| count.load(Ordering::Relaxed);
            let (failed, received, sent) =
                (load(&slot.failed), load(&slot.received), load(&slot.sent));
            Some(RpcCounts { name, took: slot.took.told(), failed, received, sent })
        };
        let all = self.slots.iter().enumerate().filter_map(of);
        all.filter(|counts| counts.took.count() > 0).collect()
    }
}

/// A request that has no answer yet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Begun {
    id: RequestId,
    pub(crate) kind: u16,
    /// When it had arrived, and when it was taken up.
    pub(crate) came: Time,
    at: Time,
    /// Bytes that came with it.
    size: u64,
}

/// Those of one connection, in the order in which they were begun; bounded as these are (N2).
#[derive(Debug, Default)]
pub(crate) struct BegunRequests {
    all: VecDeque<Begun>,
}

impl BegunRequests {
    /// A request of this rpc, which had come then, is taken up.
    pub(crate) fn begin(
        &mut self,
        (came, at): (Time, Time),
        id: RequestId,
        (kind, size): (u16, u64),
    ) {
        self.all.push_back(Begun { id, kind, came, at, size });
    }

    /// The one that is answered now: mostly the first.
    pub(crate) fn end(&mut self, id: RequestId) -> Option<Begun> {
        let place = self.all.iter().position(|begun| begun.id == id)?;
        self.all.remove(place)
    }
}

#[cfg(test)]
mod tests {
    use super::{BegunRequests, RpcMeter};
    use cairn_protocol::RequestId;
    use cairn_types::Time;

    #[test]
    fn requests_are_counted_by_rpc_and_outcome_with_their_bytes_and_their_time() {
        let (meter, mut begun) = (RpcMeter::default(), BegunRequests::default());
        let at = Time::from_nanos;
        for (id, kind, size) in [(1, 80, 500), (2, 83, 0), (3, 80, 700)] {
            begun.begin((at(900), at(1_000)), RequestId(id), (kind, size));
        }
        for (id, is_failure, bytes) in [(3, true, 0), (1, false, 0), (2, false, 4_096)] {
            let one = begun.end(RequestId(id)).expect("was begun");
            meter.answered(&one, at(3_001_000), is_failure, bytes);
        }
        assert_eq!(begun.end(RequestId(1)), None, "it is answered once");
        let told = meter.told();
        let [push, read] = &told[..] else { panic!("{told:?}") };
        assert_eq!((push.name, push.failed, push.received, push.sent), ("Push", 1, 1_200, 0));
        assert_eq!((read.name, read.failed, read.received, read.sent), ("Read", 0, 0, 4_096));
        assert_eq!((push.took.count(), push.took.sum_nanos), (2, 6_000_000));
    }
}
