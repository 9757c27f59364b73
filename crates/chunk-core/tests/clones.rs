//! Copies of chunks on their way here: what is asked of the source, of the disk, and told whom.

mod bench;

use bench::{Bench, TERM, append, handle, raise, server, version};
use bytes::Bytes;
use cairn_env::{
    Answer, Caller, ChunkDone, ChunkError, ChunkJob, CloneWork, Completion, DiskError, EffectId,
    Event, JournalEntry,
};
use cairn_protocol::{
    CloneChunk, CloneChunkAnswer, CloneProgress, DropClone, ErrorCode, Failure, Fetch, FetchAnswer,
    HeartbeatAnswer, Raise, ReplicaReport, Request, Response,
};
use cairn_types::{BlockChecksums, CellConfig, ChunkVersion, SerialNumber, ServerId};
use std::time::Duration;

fn block() -> u64 {
    u64::from(CellConfig::tiny().block_size)
}

fn order(finish: bool) -> CloneChunk {
    CloneChunk {
        term: TERM,
        handle: handle(),
        version: version(5),
        server: ServerId::new(1),
        source: server(2),
        rate: 0,
        finish,
    }
}

fn adopt(to: u64) -> Raise {
    Raise { adopt: true, ..raise(ChunkVersion::default(), version(to)) }
}

/// How the source stands with so many blocks, after so many mutations.
fn stands(blocks: u64, serial: u64) -> ReplicaReport {
    ReplicaReport {
        handle: handle(),
        version: version(5),
        mutated_version: version(4),
        serial: SerialNumber::new(serial),
        length: blocks * block(),
        acknowledged: blocks * block(),
        acknowledged_serial: SerialNumber::new(serial),
        closed: true,
        ..ReplicaReport::default()
    }
}

impl Bench {
    fn clone_job(&mut self) -> (EffectId, CloneWork) {
        let (id, job) = self.job();
        let ChunkJob::Clone { handle: of, work } = job else { panic!("{job:?}") };
        assert_eq!(of, handle());
        (id, work)
    }

    /// The clone's files are looked at, and hold so many blocks of checksum 7.
    fn begun(&mut self, blocks: u64) {
        let (id, work) = self.clone_job();
        assert_eq!(work, CloneWork::Begin { anew: false });
        self.hold(id, blocks);
    }

    fn hold(&mut self, id: EffectId, blocks: u64) {
        let checksums = BlockChecksums((0..blocks).map(|_| 7).collect());
        self.done(id, Ok(ChunkDone::Checksums { length: blocks * block(), checksums }));
    }

    fn fetch(&mut self) -> (EffectId, Fetch) {
        let (id, request) = self.call();
        let Request::Fetch(fetch) = request else { panic!("{request:?}") };
        (id, fetch)
    }

    /// The source, which stands so, sends blocks from `first` on.
    fn sent(&mut self, id: EffectId, (first, count): (u64, usize), replica: ReplicaReport) {
        let checksums = BlockChecksums(vec![7; count]);
        let answer = FetchAnswer { offset: first * block(), checksums, replica, busy: false };
        let payload = Bytes::from(vec![1; count * usize::try_from(block()).expect("small")]);
        let answer = Answer { response: Response::Fetch(answer), payload };
        self.step(Event::Completed { id, result: Completion::Answered(Ok(answer)) });
    }

    fn cloned(&mut self) -> CloneWork {
        let (id, work) = self.clone_job();
        self.done(id, Ok(ChunkDone::Cloned));
        work
    }

    fn clone_answer(&mut self) -> (Caller, CloneChunkAnswer) {
        match self.reply() {
            (from, Ok(Response::CloneChunk(answer))) => (from, answer),
            other => panic!("{other:?}"),
        }
    }

    /// A clone of three blocks is finished here.
    fn with_finished_clone() -> Self {
        let mut bench = Self::joined();
        bench.ask(order(true));
        bench.begun(3);
        let (id, _) = bench.fetch();
        bench.sent(id, (0, 0), stands(3, 9));
        assert_eq!(bench.cloned(), CloneWork::Finish { stands: stands(3, 9) });
        let answer = bench.clone_answer().1;
        assert_eq!((answer.serial, answer.mutated_version), (SerialNumber::new(9), version(4)));
        bench
    }
}

#[test]
fn an_order_is_answered_once_the_clone_has_what_the_source_had() {
    let mut bench = Bench::joined();
    bench.ask(order(false));
    bench.begun(0);
    let (id, fetch) = bench.fetch();
    assert_eq!((fetch.version, fetch.offset, fetch.length), (version(5), 0, 0));
    bench.sent(id, (0, 2), stands(4, 8));
    let CloneWork::Install { offset: 0, bytes, .. } = bench.cloned() else { panic!("stored") };
    assert_eq!(bytes.len() as u64, 2 * block());
    let (id, fetch) = bench.fetch();
    assert_eq!((fetch.offset, fetch.length), (2 * block(), 2 * block()));
    bench.sent(id, (2, 2), stands(4, 9));
    bench.cloned();
    let (copied, total, waits) = (4 * block(), 4 * block(), false);
    let progress = CloneProgress { handle: handle(), copied, total, waits };
    let (id, _) = bench.fetch();
    let beat = bench.heartbeat().1;
    assert_eq!((beat.clones, beat.held.len()), (vec![progress], 0), "in no inventory");
    bench.sent(id, (4, 0), stands(4, 9));
    let answer = bench.clone_answer().1;
    assert_eq!((answer.copied, answer.length), (4 * block(), 4 * block()));
    assert!(bench.jobs.iter().all(|(_, job)| !matches!(job, ChunkJob::Clone { .. })));
    bench.ask(adopt(6));
    assert_eq!(bench.failure().code, ErrorCode::NoSuchChunk, "it is not finished");
}

#[test]
fn a_clone_is_finished_only_as_the_source_stood_all_through_a_pass() {
    let mut bench = Bench::joined();
    bench.ask(order(true));
    bench.begun(3);
    let (id, fetch) = bench.fetch();
    assert_eq!(fetch.known.0, [7, 7, 7]);
    bench.sent(id, (1, 1), stands(3, 8));
    bench.cloned();
    let (id, fetch) = bench.fetch();
    assert_eq!((fetch.offset, fetch.known.0), (2 * block(), vec![7]));
    bench.sent(id, (0, 0), stands(3, 9));
    let (id, fetch) = bench.fetch();
    assert_eq!(fetch.offset, 0, "a mutation came behind its back");
    bench.sent(id, (0, 0), stands(3, 9));
    assert_eq!(bench.cloned(), CloneWork::Finish { stands: stands(3, 9) });
    assert_eq!(bench.clone_answer().1.copied, block());
}

#[test]
fn a_source_that_is_never_still_is_not_waited_for_for_ever() {
    let mut bench = Bench::joined();
    bench.ask(order(true));
    bench.begun(2);
    for serial in 0..8 {
        let (id, _) = bench.fetch();
        bench.sent(id, (0, 1), stands(2, 2 * serial));
        bench.cloned();
        let (id, _) = bench.fetch();
        bench.sent(id, (0, 0), stands(2, 2 * serial + 1));
    }
    assert_eq!(bench.failure().code, ErrorCode::Busy);
    assert!(bench.calls.is_empty());
}

#[test]
fn a_finished_clone_becomes_the_replica_by_a_raise_and_takes_over_how_its_source_stood() {
    let mut bench = Bench::with_finished_clone();
    bench.ask(Raise { sync: true, ..adopt(6) });
    let (id, job) = bench.job();
    let entry = JournalEntry::Adopt { handle: handle(), version: version(6), close: true };
    assert_eq!(job, ChunkJob::Journal(vec![entry]), "a closed chunk's clone is closed");
    assert!(bench.replies.is_empty(), "not durable yet");
    bench.done(id, Ok(ChunkDone::Journaled));
    let Ok(Response::Raise(answer)) = bench.reply().1 else { panic!("raised") };
    assert_eq!(answer.replica, ReplicaReport { version: version(6), ..stands(3, 9) });
    assert!(bench.heartbeat().1.held.contains(&answer.replica), "from here on it is one");
    bench.ask(order(false));
    assert_eq!(bench.failure().code, ErrorCode::AlreadyExists, "it holds a replica now");
    bench.ask(adopt(7));
    assert_eq!(bench.failure().code, ErrorCode::AlreadyExists);
}

#[test]
fn a_clone_that_the_journal_refuses_was_never_a_replica() {
    let mut bench = Bench::with_finished_clone();
    bench.ask(adopt(6));
    let (id, _) = bench.job();
    bench.done(id, Err(ChunkError::Disk(DiskError::NoSpace)));
    assert!(bench.reply().1.is_err());
    assert_eq!(bench.cloned(), CloneWork::Drop);
    let beat = bench.heartbeat().1;
    assert_eq!((beat.held, beat.clones), (vec![], vec![]));
}

#[test]
fn a_clone_that_a_heartbeat_told_of_before_the_journal_refused_it_is_told_as_gone() {
    let mut bench = Bench::with_finished_clone();
    bench.ask(adopt(6));
    let (id, _) = bench.job();
    assert_eq!(bench.heartbeat().1.held.len(), 1, "it is told of, and not durable yet");
    bench.done(id, Err(ChunkError::Disk(DiskError::NoSpace)));
    let beat = bench.heartbeat().1;
    assert_eq!((beat.held, beat.lost), (vec![], vec![handle()]));
}

#[test]
fn a_source_that_does_not_give_its_bytes_is_named_and_another_one_goes_on() {
    let mut bench = Bench::joined();
    let corrupt = Failure::not_done(ErrorCode::ChecksumMismatch, "block 3");
    let gone = Failure::unknown(ErrorCode::Unreachable, "gone");
    for (failure, code) in
        [(corrupt, ErrorCode::ChecksumMismatch), (gone, ErrorCode::ReplicaFailed)]
    {
        bench.ask(order(false));
        bench.begun(1);
        let (id, _) = bench.fetch();
        bench.answer(id, Err(failure));
        let told = bench.failure();
        assert_eq!((told.code, told.server), (code, ServerId::new(2)));
    }
    bench.ask(CloneChunk { source: server(3), ..order(false) });
    bench.begun(1);
    let (id, _) = bench.fetch();
    let suspect = ReplicaReport { suspect: true, ..stands(1, 3) };
    bench.sent(id, (0, 0), suspect);
    assert_eq!(bench.failure().server, ServerId::new(3), "its bytes may be lost (R28)");
    assert!(bench.jobs.is_empty(), "what is here stays");
}

#[test]
fn bytes_of_a_source_that_had_gone_further_are_not_mixed_with_those_of_another() {
    let mut bench = Bench::joined();
    bench.ask(order(true));
    bench.begun(3);
    let (id, _) = bench.fetch();
    bench.sent(id, (0, 1), stands(2, 5));
    let (id, work) = bench.clone_job();
    assert_eq!(work, CloneWork::Begin { anew: true });
    bench.hold(id, 0);
    let (id, fetch) = bench.fetch();
    assert_eq!((fetch.offset, fetch.length), (0, 0));
    bench.sent(id, (0, 2), stands(2, 5));
    bench.cloned();
    let (id, _) = bench.fetch();
    bench.sent(id, (2, 0), stands(2, 5));
    assert_eq!(bench.cloned(), CloneWork::Finish { stands: stands(2, 5) });
}

#[test]
fn a_disk_that_refuses_ends_the_clone_and_what_there_was_of_it_goes() {
    let mut bench = Bench::joined();
    bench.ask(order(false));
    bench.begun(0);
    let (id, _) = bench.fetch();
    bench.sent(id, (0, 1), stands(3, 5));
    let (id, _) = bench.clone_job();
    bench.done(id, Err(ChunkError::Disk(DiskError::NoSpace)));
    let failure = bench.failure();
    assert_eq!((failure.code, failure.server), (ErrorCode::DiskFull, ServerId::default()));
    assert_eq!(bench.cloned(), CloneWork::Drop);
    assert_eq!(bench.heartbeat().1.clones, []);
}

/// Whether a source is asked for more.
fn asks(bench: &Bench) -> bool {
    bench.calls.iter().any(|(_, request)| matches!(request, Request::Fetch(_)))
}

/// A server that is the primary of a chunk, whose clients are busy or not, begins a clone of
/// another chunk, its source's first answer takes 100 ms, and that one's clients are busy or not.
fn after_a_first_piece(rate: u64, busy: (bool, bool)) -> Bench {
    after_a_piece_of(100, rate, busy)
}

/// The same, where that answer takes so many milliseconds.
fn after_a_piece_of(takes_ms: u64, rate: u64, (busy_here, busy_there): (bool, bool)) -> Bench {
    let mut bench = Bench::primary();
    let other = cairn_types::ChunkHandle::of(TERM, 77);
    if busy_here {
        for number in 1..=80 {
            bench.ask(append(number, 1));
        }
    }
    bench.jobs.clear();
    bench.calls.clear();
    bench.ask(CloneChunk { handle: other, rate, ..order(false) });
    let (id, job) = bench.job();
    assert!(matches!(job, ChunkJob::Clone { .. }), "{job:?}");
    bench.hold(id, 0);
    let (id, fetch) = bench.fetch();
    assert_eq!(fetch.size_max > 0, rate > 0, "a piece at a time");
    bench.tick(Duration::from_millis(takes_ms));
    let checksums = BlockChecksums(vec![7; 2]);
    let replica = ReplicaReport { handle: other, ..stands(4, 5) };
    let answer = FetchAnswer { offset: 0, checksums, replica, busy: busy_there };
    let payload = Bytes::from(vec![1; 2 * usize::try_from(block()).expect("small")]);
    let answer = Answer { response: Response::Fetch(answer), payload };
    bench.step(Event::Completed { id, result: Completion::Answered(Ok(answer)) });
    let (id, _) = bench.job();
    bench.done(id, Ok(ChunkDone::Cloned));
    bench
}

#[test]
fn the_receiver_asks_again_when_what_it_took_has_lasted_and_clients_have_had_their_turn() {
    // What two blocks last at that rate, less what may be made up for; eleven times what the piece
    // took, and no longer than a second.
    let slow = 2 * block();
    for (takes_ms, rate, busy, pause_ms) in [
        (100, slow, (false, false), 650),
        (20, 64 << 20, (true, false), 220),
        (20, 64 << 20, (false, true), 220),
        (100, 64 << 20, (true, false), 1000),
        (100, slow, (true, true), 1000),
    ] {
        let mut bench = after_a_piece_of(takes_ms, rate, busy);
        assert!(!asks(&bench), "{rate} {busy:?}");
        bench.tick(Duration::from_millis(pause_ms - 1));
        assert!(!asks(&bench), "{rate} {busy:?}");
        bench.tick(Duration::from_millis(1));
        assert!(asks(&bench), "{rate} {busy:?}");
    }
    // Meanwhile the master hears that it waits for its turn.
    let mut bench = after_a_first_piece(block() / 8, (false, false));
    let beat = bench.heartbeat().1;
    assert!(!asks(&bench) && beat.clones.len() == 1 && beat.clones[0].waits, "{beat:?}");
    for (rate, busy) in [(0, (true, true)), (64 << 20, (false, false))] {
        assert!(asks(&after_a_first_piece(rate, busy)), "{rate} {busy:?}: nothing to wait for");
    }
}

#[test]
fn a_rate_that_the_master_changes_holds_for_clones_that_are_being_made() {
    let mut bench = after_a_first_piece(2 * block(), (false, false));
    assert!(!asks(&bench));
    bench.tick(Duration::from_millis(400));
    let beat = bench.calls.iter().find(|(_, it)| matches!(it, Request::Heartbeat(_)));
    let (id, _) = beat.expect("a heartbeat is due").clone();
    let answer = HeartbeatAnswer { term: TERM, clone_rate: 0, ..HeartbeatAnswer::default() };
    bench.answer(id, Ok(Response::Heartbeat(answer.into())));
    bench.tick(Duration::from_millis(1));
    assert!(asks(&bench), "there is no limit any more");
}

#[test]
fn clones_of_one_server_take_turns_within_the_rate_for_all_of_them() {
    let mut bench = Bench::joined();
    let handles = [70, 71, 72].map(|number| cairn_types::ChunkHandle::of(TERM, number));
    for handle in handles {
        bench.ask(CloneChunk { handle, rate: 8 * block(), ..order(false) });
        let (id, _) = bench.job();
        bench.hold(id, 0);
    }
    let mut asked = Vec::new();
    for _ in 0..200 {
        while let Some((id, request)) = bench.calls.pop_front() {
            let Request::Fetch(fetch) = request else { continue };
            assert_eq!(fetch.size_max, block());
            asked.push(fetch.handle);
            let checksums = BlockChecksums(vec![7]);
            let replica = ReplicaReport { handle: fetch.handle, ..stands(1000, 5) };
            let answer = FetchAnswer { offset: fetch.offset, checksums, replica, busy: false };
            let payload = Bytes::from(vec![1; usize::try_from(block()).expect("small")]);
            let answer = Answer { response: Response::Fetch(answer), payload };
            bench.step(Event::Completed { id, result: Completion::Answered(Ok(answer)) });
            let (id, _) = bench.job();
            bench.done(id, Ok(ChunkDone::Cloned));
        }
        bench.tick(Duration::from_millis(50));
    }
    let of = |handle| asked.iter().filter(|it| **it == handle).count();
    let each = handles.map(of);
    assert!((76..=84).contains(&asked.len()), "eight blocks a second: {}", asked.len());
    assert!(each.iter().all(|count| (20..=34).contains(count)), "in turn: {each:?}");
}

#[test]
fn a_later_order_takes_the_place_of_the_one_before_and_goes_on_with_what_is_there() {
    let mut bench = Bench::joined();
    let first = bench.ask(order(false));
    bench.begun(0);
    let second = bench.ask(CloneChunk { source: server(3), ..order(false) });
    let third = bench.ask(CloneChunk { source: server(4), ..order(true) });
    assert_eq!(bench.reply().0, second);
    let (id, _) = bench.fetch();
    bench.sent(id, (0, 1), stands(1, 5));
    assert_eq!(bench.reply().0, first);
    bench.begun(1);
    let (id, _) = bench.fetch();
    bench.sent(id, (0, 0), stands(1, 5));
    bench.cloned();
    assert_eq!(bench.clone_answer().0, third);
}

#[test]
fn a_clone_that_its_master_gives_up_is_gone_and_late_answers_for_it_are_nobodys() {
    let mut bench = Bench::joined();
    bench.ask(order(false));
    bench.begun(0);
    let (late, _) = bench.fetch();
    let drop = DropClone { term: TERM, handle: handle(), server: ServerId::new(1) };
    bench.ask(drop.clone());
    assert!(bench.failure().message.contains("gave it up"));
    bench.ask(order(false));
    let (id, work) = bench.clone_job();
    assert_eq!(work, CloneWork::Drop);
    bench.done(id, Ok(ChunkDone::Cloned));
    assert!(matches!(bench.reply().1, Ok(Response::DropClone(_))));
    bench.sent(late, (0, 1), stands(1, 5));
    bench.begun(0);
    assert!(bench.jobs.is_empty(), "the new one knows nothing of it");
}

#[test]
fn a_clone_that_nobody_asks_for_is_dropped_after_a_while() {
    let mut bench = Bench::with_finished_clone();
    bench.tick(Duration::from_millis(CellConfig::tiny().dead_ms));
    assert_eq!(bench.heartbeat().1.clones, []);
    let dropped = |(_, job): &(EffectId, ChunkJob)| {
        matches!(job, ChunkJob::Clone { work: CloneWork::Drop, .. })
    };
    assert_eq!(bench.jobs.iter().filter(|job| dropped(job)).count(), 1);
    bench.ask(adopt(6));
    assert_eq!(bench.failure().code, ErrorCode::NoSuchChunk);
}

#[test]
fn an_order_of_an_older_term_or_for_another_server_is_refused() {
    let mut bench = Bench::joined();
    bench.ask(CloneChunk { term: cairn_types::Term::new(2), ..order(false) });
    assert_eq!(bench.failure().code, ErrorCode::NotPrimaryMaster);
    bench.ask(CloneChunk { server: ServerId::new(9), ..order(false) });
    assert_eq!(bench.failure().code, ErrorCode::WrongServer);
    bench.ask(CloneChunk { handle: Default::default(), ..order(false) });
    assert_eq!(bench.failure().code, ErrorCode::Invalid);
    assert!(bench.jobs.is_empty());
}

#[test]
fn a_clone_that_is_finished_frees_no_other_of_the_rate() {
    let mut bench = Bench::joined();
    let [one, other] = [70, 71].map(|number| cairn_types::ChunkHandle::of(TERM, number));
    bench.ask(CloneChunk { handle: one, rate: 8 * block(), ..order(false) });
    let (id, _) = bench.job();
    bench.hold(id, 0);
    let of_clone =
        |job: &ChunkJob, wanted| matches!(job, ChunkJob::Clone { handle, .. } if *handle == wanted);
    let mut taken = 0;
    let mut finishing = false;
    for step in 0..40 {
        if step == 20 {
            // As a master orders it when a copy joins: clients wait for that one.
            bench.ask(CloneChunk { handle: other, rate: 0, ..order(true) });
            let at = bench.jobs.iter().position(|(_, job)| of_clone(job, other)).expect("begun");
            let (id, _) = bench.jobs.remove(at).expect("it is there");
            bench.hold(id, 1);
            finishing = true;
        }
        while let Some((id, request)) = bench.calls.pop_front() {
            let Request::Fetch(fetch) = request else { continue };
            if fetch.handle == other {
                continue;
            }
            assert_eq!(fetch.size_max, block(), "while another is finished: {finishing}");
            taken += 1;
            let checksums = BlockChecksums(vec![7]);
            let replica = ReplicaReport { handle: one, ..stands(1000, 5) };
            let answer = FetchAnswer { offset: fetch.offset, checksums, replica, busy: false };
            let payload = Bytes::from(vec![1; usize::try_from(block()).expect("small")]);
            let answer = Answer { response: Response::Fetch(answer), payload };
            bench.step(Event::Completed { id, result: Completion::Answered(Ok(answer)) });
            let at = bench.jobs.iter().position(|(_, job)| of_clone(job, one)).expect("stored");
            let (id, _) = bench.jobs.remove(at).expect("it is there");
            bench.done(id, Ok(ChunkDone::Cloned));
        }
        bench.tick(Duration::from_millis(50));
    }
    assert!((14..=20).contains(&taken), "{taken} in two seconds");
}
