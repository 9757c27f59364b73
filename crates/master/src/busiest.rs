//! Who asks the most, and for which files: two small sketches over spans of a few seconds.
//!
//! ```text
//!   this span: counted ──► its time is over: it is the last one, and what is told
//! ```
//! - BU1: a sketch holds [`COUNTED_MAX`] counts whatever is asked. One that is not among them takes
//!   the place of the smallest and goes on from its count (space saving): what was asked for more
//!   than once in so many is among them, and a count is never too low.
//! - BU2: nothing is decided by what stands here.

use cairn_env::{Caller, ConnectionId, LATENCY_BUCKETS, LatencyCounts, Resources};
use cairn_master_core::{FilePaths, State};
use cairn_protocol::{
    BUSIEST_COUNT_MAX, BusiestAnswer, BusyClient, BusyFile, Failure, LatencyBucket, Request,
    Response, RpcDirection,
};
use cairn_types::{EntryId, Time};
use std::collections::BTreeMap;
use std::time::Duration;

/// Counts of one sketch.
const COUNTED_MAX: usize = 32;
/// How long a span is.
const SPAN: Duration = Duration::from_secs(5);

const _: () = assert!(BUSIEST_COUNT_MAX <= COUNTED_MAX);

/// The most frequent of many numbers (BU1).
#[derive(Clone, Debug, Default)]
struct Sketch {
    keys: Vec<u64>,
    counts: Vec<u64>,
}

impl Sketch {
    fn note(&mut self, key: u64) {
        if let Some(place) = self.keys.iter().position(|known| *known == key) {
            self.counts[place] += 1;
        } else if self.keys.len() < COUNTED_MAX {
            self.keys.push(key);
            self.counts.push(1);
        } else if let Some((place, _)) = self.counts.iter().enumerate().min_by_key(|(_, it)| **it) {
            self.keys[place] = key;
            self.counts[place] += 1;
        }
    }

    /// The most frequent first.
    fn sorted(&self) -> Vec<(u64, u64)> {
        let mut all: Vec<_> = self.keys.iter().copied().zip(self.counts.iter().copied()).collect();
        all.sort_by_key(|(key, count)| (std::cmp::Reverse(*count), *key));
        all
    }
}

/// What was counted in one span.
#[derive(Clone, Debug, Default)]
struct BusySpan {
    clients: Sketch,
    files: Sketch,
}

/// Counts of this span, and of the one before.
#[derive(Debug, Default)]
pub(crate) struct BusyCounts {
    began: Time,
    now: BusySpan,
    /// The last one that is over, and how long it was.
    last: (BusySpan, Duration),
}

impl BusyCounts {
    /// Somebody asks for something.
    pub(crate) fn asked(&mut self, now: Time, from: Caller, request: &Request) {
        // What servers have to say comes by itself.
        if request.direction() != RpcDirection::ClientToMaster {
            return;
        }
        self.turn(now);
        self.now.clients.note(from.connection.0);
        match request {
            Request::Lease(lease) => self.now.files.note(lease.file.get()),
            Request::RecordLength(record) => self.now.files.note(record.file.get()),
            Request::Locate(locate) => self.now.files.note(locate.file.get()),
            _ => {}
        }
    }

    /// Somebody is answered: only then it is known which file a path stands for.
    pub(crate) fn answered(&mut self, answer: &Result<Response, Failure>) {
        if let Ok(Response::Open(answer)) = answer {
            self.now.files.note(answer.entry.id.get());
        }
    }

    /// Begins another span where this one's time is over.
    fn turn(&mut self, now: Time) {
        let length = now.since(self.began);
        if length >= SPAN {
            self.last = (std::mem::take(&mut self.now), length);
            self.began = now;
        }
    }

    /// As people are told; a client that has gone, and a file that is not there, is left out.
    pub(crate) fn told(
        &mut self,
        now: Time,
        state: &State,
        resources: Option<&dyn Resources>,
    ) -> BusiestAnswer {
        self.turn(now);
        let (span, length) = &self.last;
        let mut clients: BTreeMap<String, u64> = BTreeMap::new();
        for (connection, count) in span.clients.sorted() {
            let address = resources.and_then(|it| it.peer(ConnectionId(connection)));
            if let Some(address) = address {
                *clients.entry(address).or_default() += count;
            }
        }
        let clients = clients.into_iter();
        let mut clients: Vec<BusyClient> =
            clients.map(|(address, requests)| BusyClient { address, requests }).collect();
        clients.sort_by_key(|client| std::cmp::Reverse(client.requests));
        clients.truncate(BUSIEST_COUNT_MAX);
        let mut paths = FilePaths::new(state);
        let file = |(id, requests): (u64, u64)| {
            let file = EntryId::new(id);
            let path = paths.of(file).text;
            (!path.is_empty()).then_some(BusyFile { file, path, requests })
        };
        let files = span.files.sorted().into_iter().filter_map(file);
        let files = files.take(BUSIEST_COUNT_MAX).collect();
        let (took, failed) = resources.map(Resources::asked).unwrap_or_default();
        BusiestAnswer {
            span_ms: u64::try_from(length.as_millis()).unwrap_or(u64::MAX),
            clients,
            files,
            answered: took.count(),
            failed,
            took_ns: took.sum_nanos,
            took: buckets(&took),
        }
    }
}

fn buckets(took: &LatencyCounts) -> Vec<LatencyBucket> {
    let ends = LATENCY_BUCKETS.iter().copied().chain([0]);
    ends.zip(took.counts).map(|(up_to_us, count)| LatencyBucket { up_to_us, count }).collect()
}

#[cfg(test)]
mod tests {
    use super::{BusyCounts, COUNTED_MAX, SPAN, Sketch};
    use cairn_env::{Caller, ConnectionId, LatencyCounts, Resources};
    use cairn_master_core::State;
    use cairn_protocol::{BusyClient, Lease, RequestId, ResourceUse};
    use cairn_types::{EntryId, Random, Time};

    #[test]
    fn what_is_asked_for_often_is_found_among_much_that_is_not() {
        let (mut sketch, mut random) = (Sketch::default(), Random::new(7));
        for round in 0..20_000 {
            let rare = 1_000 + random.next_u64() % 100_000;
            sketch.note(if round % 4 == 0 { round / 4 % 3 } else { rare });
        }
        assert_eq!(sketch.keys.len(), COUNTED_MAX);
        let mut first: Vec<u64> = sketch.sorted().iter().take(3).map(|(key, _)| *key).collect();
        first.sort_unstable();
        assert_eq!(first, [0, 1, 2]);
        // BU1
        assert!(sketch.sorted().iter().take(3).all(|(_, count)| *count >= 1_666));
    }

    /// Knows two connections of one machine and one of another.
    #[derive(Debug)]
    struct Peers;

    impl Resources for Peers {
        fn told(&self) -> ResourceUse {
            ResourceUse::default()
        }

        fn asked(&self) -> (LatencyCounts, u64) {
            (LatencyCounts { counts: [3; 10], sum_nanos: 9 }, 2)
        }

        fn peer(&self, connection: ConnectionId) -> Option<String> {
            let address = if connection.0 < 3 { "a" } else { "b" };
            (connection.0 < 4).then(|| address.to_owned())
        }
    }

    #[test]
    fn a_span_that_is_over_is_told_by_client_and_without_files_that_are_not_there() {
        let (mut busiest, start) = (BusyCounts::default(), Time::from_nanos(1 << 40));
        let ask = |busiest: &mut BusyCounts, now, connection| {
            let from = Caller { connection: ConnectionId(connection), request: RequestId(1) };
            let lease = Lease { file: EntryId::new(99), ..Lease::default() };
            busiest.asked(now, from, &lease.into());
        };
        for connection in [1, 2, 2, 3, 3, 4, 4, 4] {
            ask(&mut busiest, start, connection);
        }
        let state = State::default();
        let told = busiest.told(start, &state, Some(&Peers));
        assert_eq!((told.clients.len(), told.answered, told.failed), (0, 30, 2));
        assert_eq!((told.took[0].up_to_us, told.took[9].up_to_us), (100, 0));
        let told = busiest.told(start + SPAN, &state, Some(&Peers));
        let client = |address: &str, requests| BusyClient { address: address.to_owned(), requests };
        assert_eq!(told.clients, [client("a", 3), client("b", 2)]);
        assert_eq!((told.span_ms, told.files.len()), (5_000, 0));
        let told = busiest.told(start + SPAN + SPAN, &state, Some(&Peers));
        assert_eq!(told.clients, [], "nobody asked");
    }
}
