//! What was acknowledged against what was delivered.
//!
//! - G1: an acknowledged record is delivered once; one whose answer never came, once at most; no
//!   other record is delivered.
//! - G2: a client that waited for each answer finds its records in the order of its numbers (R37).

use crate::load_process::record::{RecordKind, parse};
use serde::{Deserialize, Serialize};
use std::collections::{BTreeMap, BTreeSet};

/// Cases of each kind that a verdict names.
const NAMED_MAX: usize = 8;

/// One client's records in one file.
#[derive(Clone, Debug, Default, Deserialize, Serialize)]
pub(crate) struct Sent {
    /// Numbers below this were sent.
    pub(crate) next: u64,
    /// Those of them whose answer never came, or was that it may not be there.
    pub(crate) unanswered: BTreeSet<u64>,
}

/// What one client did.
#[derive(Clone, Debug, Default, Deserialize, Serialize)]
pub(crate) struct ClientReport {
    pub(crate) client: u32,
    pub(crate) small: Sent,
    pub(crate) large: Sent,
    /// The longest time between two acknowledgements, and when it ended (Unix time).
    pub(crate) gap_ms: u64,
    pub(crate) gap_ended_ms: u64,
    /// The first errors.
    pub(crate) errors: Vec<String>,
}

impl ClientReport {
    fn sent(&self, kind: RecordKind) -> &Sent {
        match kind {
            RecordKind::Small => &self.small,
            RecordKind::Large => &self.large,
        }
    }
}

/// What a reader was given.
#[derive(Debug)]
pub(crate) struct Delivered {
    kind: RecordKind,
    /// How often each number came.
    counts: BTreeMap<u32, BTreeMap<u64, u32>>,
    /// The last number of each client.
    last: BTreeMap<u32, u64>,
    out_of_order: Vec<(u32, u64)>,
    foreign: Vec<String>,
}

/// How it compares. All but `good`, `acknowledged` and `delivered` tell what is wrong, but for
/// `unanswered_delivered`, which may be anything.
#[derive(Debug, Default, Serialize)]
pub(crate) struct Verdict {
    pub(crate) good: bool,
    pub(crate) acknowledged: u64,
    pub(crate) delivered: u64,
    pub(crate) unanswered: u64,
    pub(crate) unanswered_delivered: u64,
    pub(crate) missing_count: usize,
    pub(crate) missing: Vec<(u32, u64)>,
    pub(crate) doubled_count: usize,
    pub(crate) doubled: Vec<(u32, u64)>,
    pub(crate) out_of_order_count: usize,
    pub(crate) out_of_order: Vec<(u32, u64)>,
    pub(crate) foreign_count: usize,
    pub(crate) foreign: Vec<String>,
}

impl Delivered {
    /// Nothing yet.
    pub(crate) fn new(kind: RecordKind) -> Self {
        let (counts, last) = (BTreeMap::new(), BTreeMap::new());
        Self { kind, counts, last, out_of_order: Vec::new(), foreign: Vec::new() }
    }

    /// One more record, which stood at `offset`.
    pub(crate) fn see(&mut self, offset: u64, payload: &[u8]) {
        let Some((client, number)) = parse(self.kind, payload) else {
            self.foreign.push(format!("{} bytes at {offset}", payload.len()));
            return;
        };
        *self.counts.entry(client).or_default().entry(number).or_default() += 1;
        if self.last.insert(client, number).is_some_and(|last| last >= number) {
            self.out_of_order.push((client, number));
        }
    }

    /// How many acknowledged records have not come.
    pub(crate) fn missing(&self, clients: &[ClientReport]) -> Vec<(u32, u64)> {
        let mut missing = Vec::new();
        for client in clients {
            let sent = client.sent(self.kind);
            let came = self.counts.get(&client.client);
            missing.extend(
                (0..sent.next)
                    .filter(|number| !sent.unanswered.contains(number))
                    .filter(|number| came.is_none_or(|came| !came.contains_key(number)))
                    .map(|number| (client.client, number)),
            );
        }
        missing
    }

    /// The verdict (G1, G2).
    pub(crate) fn judge(mut self, clients: &[ClientReport]) -> Verdict {
        let mut verdict = Verdict::default();
        let mut missing = self.missing(clients);
        let mut doubled = Vec::new();
        for client in clients {
            let sent = client.sent(self.kind);
            verdict.acknowledged += sent.next - sent.unanswered.len() as u64;
            verdict.unanswered += sent.unanswered.len() as u64;
            for (number, count) in self.counts.remove(&client.client).unwrap_or_default() {
                verdict.delivered += u64::from(count);
                verdict.unanswered_delivered += u64::from(sent.unanswered.contains(&number));
                if count > 1 {
                    doubled.push((client.client, number));
                }
                if number >= sent.next {
                    self.foreign.push(format!("number {number} of client {}", client.client));
                }
            }
            // What was given up may still arrive late: then its client's order means nothing.
            if !sent.unanswered.is_empty() {
                self.out_of_order.retain(|(who, _)| *who != client.client);
            }
        }
        self.foreign.extend(self.counts.keys().map(|client| format!("client {client}")));
        (verdict.missing_count, verdict.doubled_count) = (missing.len(), doubled.len());
        verdict.out_of_order_count = self.out_of_order.len();
        verdict.foreign_count = self.foreign.len();
        verdict.good = missing.is_empty()
            && doubled.is_empty()
            && self.out_of_order.is_empty()
            && self.foreign.is_empty();
        for list in [&mut missing, &mut doubled, &mut self.out_of_order] {
            list.truncate(NAMED_MAX);
        }
        self.foreign.truncate(NAMED_MAX);
        (verdict.missing, verdict.doubled) = (missing, doubled);
        (verdict.out_of_order, verdict.foreign) = (self.out_of_order, self.foreign);
        verdict
    }
}

#[cfg(test)]
mod tests {
    use super::{ClientReport, Delivered, Sent, Verdict};
    use crate::load_process::record::{RecordKind, make};

    fn judge(numbers: &[u64]) -> Verdict {
        let small = Sent { next: 4, unanswered: [1].into() };
        let mut delivered = Delivered::new(RecordKind::Small);
        for number in numbers {
            delivered.see(0, &make(RecordKind::Small, 5, *number));
        }
        delivered.judge(&[ClientReport { client: 5, small, ..ClientReport::default() }])
    }

    #[test]
    fn a_record_lost_doubled_or_invented_spoils_the_verdict_and_an_unanswered_one_does_not() {
        assert!(judge(&[0, 2, 3]).good);
        assert!(judge(&[0, 1, 2, 3]).good);
        assert_eq!(judge(&[0, 3]).missing, [(5, 2)]);
        assert_eq!(judge(&[0, 2, 2, 3]).doubled, [(5, 2)]);
        assert_eq!(judge(&[0, 1, 1, 2, 3]).doubled, [(5, 1)]);
        assert_eq!(judge(&[0, 2, 3, 4]).foreign_count, 1);
    }

    #[test]
    fn a_client_that_had_every_answer_must_find_its_order() {
        let small = Sent { next: 2, ..Sent::default() };
        let mut delivered = Delivered::new(RecordKind::Small);
        delivered.see(0, &make(RecordKind::Small, 0, 1));
        delivered.see(9, &make(RecordKind::Small, 0, 0));
        let verdict = delivered.judge(&[ClientReport { small, ..ClientReport::default() }]);
        assert_eq!((verdict.good, verdict.out_of_order), (false, vec![(0, 0)]));
    }
}
