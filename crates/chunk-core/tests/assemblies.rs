//! Chunks that are made of ranges of others: what is asked of the disk, of other servers, and told
//! whom (R45).

mod bench;

use bench::{Bench, TERM, raise, server, version};
use bytes::Bytes;
use cairn_env::{
    Answer, ChunkDone, ChunkError, ChunkJob, CloneWork, Completion, EffectId, Event, GatheredRange,
    JournalEntry,
};
use cairn_protocol::{
    AssembleChunk, AssembleChunkAnswer, AssembledRange, AssembledSource, DropClone, ErrorCode,
    Failure, Fetch, FetchAnswer, Raise, ReplicaReport, Request, Response,
};
use cairn_types::{BlockChecksums, CellConfig, ChunkHandle, ChunkVersion, SerialNumber, ServerId};
use std::time::Duration;

const HERE: ChunkHandle = ChunkHandle::new(3 << 40 | 21);
const THERE: ChunkHandle = ChunkHandle::new(3 << 40 | 22);
const MADE: ChunkHandle = ChunkHandle::new(3 << 40 | 30);

fn block() -> u64 {
    u64::from(CellConfig::tiny().block_size)
}

/// A closed chunk of four blocks.
fn closed(handle: ChunkHandle) -> ReplicaReport {
    ReplicaReport {
        handle,
        version: version(5),
        serial: SerialNumber::new(3),
        length: 4 * block(),
        closed: true,
        ..ReplicaReport::default()
    }
}

/// A server that has one of two chunks.
fn bench() -> Bench {
    Bench::holding(&[closed(HERE)])
}

fn source(handle: ChunkHandle) -> AssembledSource {
    let replicas = vec![server(1), server(2), server(3)];
    AssembledSource { handle, version: version(5), replicas }
}

/// Ranges: of which source, from where, how many bytes.
fn order(ranges: &[(u32, u64, u64)]) -> AssembleChunk {
    let range = |(source, offset, size): &(u32, u64, u64)| AssembledRange {
        source: *source,
        offset: *offset,
        size: *size,
    };
    AssembleChunk {
        term: TERM,
        server: ServerId::new(1),
        handle: MADE,
        mutated_version: version(9),
        sources: vec![source(HERE), source(THERE)],
        ranges: ranges.iter().map(range).collect(),
        rate: 0,
        keep_ms: 60_000,
    }
}

fn adopt() -> Raise {
    let raise = raise(ChunkVersion::default(), version(10));
    Raise { handle: MADE, adopt: true, close: true, ..raise }
}

impl Bench {
    fn work(&mut self) -> (EffectId, CloneWork) {
        let (id, job) = self.job();
        let ChunkJob::Clone { handle, work } = job else { panic!("{job:?}") };
        assert_eq!(handle, MADE);
        (id, work)
    }

    fn begun(&mut self) {
        let (id, work) = self.work();
        assert_eq!(work, CloneWork::Begin { anew: true });
        self.done(id, Ok(ChunkDone::Checksums { length: 0, checksums: BlockChecksums::default() }));
    }

    fn worked(&mut self) -> CloneWork {
        let (id, work) = self.work();
        self.done(id, Ok(ChunkDone::Cloned));
        work
    }

    fn fetch(&mut self) -> (EffectId, Fetch) {
        let (id, request) = self.call();
        let Request::Fetch(fetch) = request else { panic!("{request:?}") };
        (id, fetch)
    }

    /// Another server sends so many blocks from an offset on.
    fn sent(&mut self, id: EffectId, (offset, count): (u64, usize), replica: ReplicaReport) {
        let checksums = BlockChecksums(vec![7; count]);
        let answer = FetchAnswer { offset, checksums, replica, busy: false };
        let payload = Bytes::from(vec![1; count * usize::try_from(block()).expect("small")]);
        let answer = Answer { response: Response::Fetch(answer), payload };
        self.step(Event::Completed { id, result: Completion::Answered(Ok(answer)) });
    }

    /// All ranges are in it: it is summed and finished.
    fn finished(&mut self, length: u64) -> AssembleChunkAnswer {
        let (id, work) = self.work();
        assert_eq!(work, CloneWork::Begin { anew: false });
        let checksums = BlockChecksums(vec![7; 2]);
        self.done(id, Ok(ChunkDone::Checksums { length, checksums }));
        let CloneWork::Finish { stands } = self.worked() else { panic!("it comes to disk") };
        assert_eq!((stands.handle, stands.length, stands.closed), (MADE, length, true));
        assert_eq!((stands.mutated_version, stands.serial), (version(9), SerialNumber::new(1)));
        match self.reply().1 {
            Ok(Response::AssembleChunk(answer)) => answer,
            other => panic!("{other:?}"),
        }
    }
}

#[test]
fn ranges_of_own_replicas_are_gathered_and_others_are_asked_for_with_their_blocks() {
    let mut bench = bench();
    let first = block() + 3;
    bench.ask(order(&[(0, 1, 10), (0, 20, 5), (1, first, block()), (0, 0, 2)]));
    bench.begun();
    let range = |offset, size| GatheredRange { of: HERE, offset, size };
    assert_eq!(bench.worked(), CloneWork::Gather { ranges: vec![range(1, 10), range(20, 5)] });
    // The blocks that have it, of a server that is not this one.
    let (id, fetch) = bench.fetch();
    assert_eq!((fetch.handle, fetch.version, fetch.length), (THERE, version(5), 0));
    assert_eq!((fetch.offset, fetch.size_max), (block(), 2 * block()));
    // One block comes first: the range goes on behind it.
    bench.sent(id, (block(), 1), closed(THERE));
    let CloneWork::Add { offset, from, size, .. } = bench.worked() else { panic!("added") };
    assert_eq!((offset, from, size), (block(), first, block() - 3));
    let (id, fetch) = bench.fetch();
    assert_eq!(fetch.offset, 2 * block());
    bench.sent(id, (2 * block(), 1), closed(THERE));
    let CloneWork::Add { from, size, .. } = bench.worked() else { panic!("added") };
    assert_eq!((from, size), (2 * block(), 3));
    assert_eq!(bench.worked(), CloneWork::Gather { ranges: vec![range(0, 2)] });
    let length = 17 + block();
    let answer = bench.finished(length);
    assert_eq!((answer.length, answer.fetched), (length, block()));
    // It is a replica from the raise on, and was none before.
    bench.ask(adopt());
    let (id, job) = bench.job();
    let entry = JournalEntry::Adopt { handle: MADE, version: version(10), close: true };
    assert_eq!(job, ChunkJob::Journal(vec![entry]));
    bench.done(id, Ok(ChunkDone::Journaled));
    let Ok(Response::Raise(raised)) = bench.reply().1 else { panic!("raised") };
    assert_eq!((raised.replica.length, raised.replica.closed), (length, true));
    assert_eq!(raised.replica.acknowledged, length);
}

#[test]
fn a_server_that_does_not_give_its_bytes_or_stands_otherwise_is_followed_by_the_next() {
    let mut bench = bench();
    bench.ask(order(&[(1, 0, 10)]));
    bench.begun();
    let (id, _) = bench.fetch();
    bench.answer(id, Err(Failure::not_done(ErrorCode::NoSuchChunk, "gone")));
    let (id, _) = bench.fetch();
    bench.sent(id, (0, 1), ReplicaReport { suspect: true, ..closed(THERE) });
    assert_eq!(bench.failure().code, ErrorCode::ReplicaFailed, "nobody is left");
    assert_eq!(bench.work().1, CloneWork::Drop);
    // Another version is no answer either, nor are bytes that were not asked for.
    for (place, replica) in [
        ((0, 1), ReplicaReport { version: version(4), ..closed(THERE) }),
        ((block(), 1), closed(THERE)),
        ((0, 0), closed(THERE)),
    ] {
        bench.ask(order(&[(1, 0, 10)]));
        bench.begun();
        let (id, _) = bench.fetch();
        bench.sent(id, place, replica);
        let (id, _) = bench.fetch();
        bench.sent(id, (0, 1), closed(THERE));
        assert!(matches!(bench.worked(), CloneWork::Add { from: 0, size: 10, .. }));
        bench.finished(10);
        let gone = DropClone { term: TERM, handle: MADE, server: ServerId::new(1) };
        bench.ask(gone);
        assert_eq!(bench.worked(), CloneWork::Drop);
        assert!(bench.reply().1.is_ok());
    }
}

#[test]
fn what_this_server_may_have_lost_or_has_at_another_version_is_asked_of_others() {
    for report in [
        ReplicaReport { suspect: true, ..closed(HERE) },
        ReplicaReport { version: version(4), ..closed(HERE) },
    ] {
        let mut bench = Bench::holding(&[report]);
        bench.ask(order(&[(0, 0, 10)]));
        bench.begun();
        assert_eq!(bench.fetch().1.handle, HERE);
    }
}

#[test]
fn a_block_that_does_not_verify_ends_it_and_is_looked_at_again() {
    let mut bench = bench();
    bench.ask(order(&[(0, 0, 10), (0, 2 * block(), 10)]));
    bench.begun();
    let (id, _) = bench.work();
    bench.done(id, Err(ChunkError::Corrupt { offset: 2 * block() }));
    assert_eq!(bench.failure().code, ErrorCode::ChecksumMismatch);
    let (_, job) = bench.job();
    assert_eq!(job, ChunkJob::Verify { handle: HERE, offset: 2 * block() });
    assert_eq!(bench.work().1, CloneWork::Drop);
}

#[test]
fn what_no_chunk_can_be_made_of_is_refused_and_a_name_is_taken_once() {
    let mut bench = bench();
    let chunk_size = CellConfig::tiny().chunk_size;
    for ranges in [
        &[][..],
        &[(0, 0, 0)],
        &[(2, 0, 1)],
        &[(0, chunk_size, 1)],
        &[(0, u64::MAX, 2)],
        &[(0, 0, chunk_size), (0, 0, 1)],
    ] {
        bench.ask(order(ranges));
        assert_eq!(bench.failure().code, ErrorCode::Invalid, "{ranges:?}");
    }
    bench.ask(AssembleChunk { handle: HERE, ..order(&[(0, 0, 1)]) });
    assert_eq!(bench.failure().code, ErrorCode::AlreadyExists, "it is a replica");
    bench.ask(order(&[(0, 0, 1)]));
    bench.ask(order(&[(0, 0, 1)]));
    assert_eq!(bench.failure().code, ErrorCode::Busy);
    bench.ask(AssembleChunk { server: ServerId::new(2), ..order(&[(0, 0, 1)]) });
    assert_eq!(bench.failure().code, ErrorCode::WrongServer);
}

#[test]
fn what_is_finished_and_adopted_by_nobody_goes_after_a_while() {
    let mut bench = bench();
    bench.ask(order(&[(0, 0, 10)]));
    bench.begun();
    bench.worked();
    bench.finished(10);
    let dropped = |bench: &Bench| {
        bench
            .jobs
            .iter()
            .any(|(_, job)| matches!(job, ChunkJob::Clone { handle: MADE, work: CloneWork::Drop }))
    };
    bench.tick(Duration::from_secs(59));
    assert!(!dropped(&bench), "its master may come");
    bench.tick(Duration::from_secs(2));
    assert!(dropped(&bench));
    bench.jobs.clear();
    bench.ask(adopt());
    assert_eq!(bench.failure().code, ErrorCode::NoSuchChunk);
}

#[test]
fn the_rate_holds_for_what_is_gathered_and_for_what_is_fetched() {
    let mut bench = bench();
    // Eight pieces a second, of a block each.
    let ranges: Vec<_> = (0..4).map(|at| (0, at * block(), block())).collect();
    bench.ask(AssembleChunk { rate: 8 * block(), ..order(&ranges) });
    bench.begun();
    let mut seconds = 0.0;
    for _ in 0..4 {
        while bench.jobs.is_empty() {
            bench.tick(Duration::from_millis(50));
            seconds += 0.05;
            assert!(seconds < 5.0, "it stands still");
        }
        let CloneWork::Gather { ranges } = bench.worked() else { panic!("gathered") };
        assert_eq!(ranges.iter().map(|it| it.size).sum::<u64>(), block());
    }
    assert!((0.1..0.7).contains(&seconds), "{seconds}");
}
