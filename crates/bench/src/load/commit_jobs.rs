//! What a stream asks of its master, without any bytes: chunkservers of the bench hold whatever a
//! producer says that it has stored.
//!
//! | TFS Table 1 | here |
//! |---|---|
//! | addChunk, abandonAddChunk | `AllocateChunks`: one more chunk, the last one left uncommitted |
//! | completeWrittenChunk | `CommitBundles` of one bundle |
//! | getChunksInfo(n chunks) | `ReadExtents` of n extents, each in a chunk of its own |

use super::caller::{CallerId, JobError};
use super::producer_jobs::{due, make_stream};
use super::tally::LoadTally;
use cairn_client::Cell;
use cairn_protocol::{
    AllocateChunks, Bundle, BundleHolder, CommitBundles, CommitOutcome, Extend, OpenProducer,
    OpenStreamChunk, ReadExtents, WaitLength,
};
use cairn_types::{
    BlockChecksums, CellPath, ChunkHandle, EntryId, Epoch, Incarnation, ProducerId, PushId,
    RecordNumber, ServerId,
};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::time::Duration;
use tokio::sync::watch;
use tokio::task::JoinSet;
use tokio::time::Instant;

/// Bytes of a bundle: a record of 1 KiB in its frame.
const BUNDLE_SIZE: u64 = 1056;
/// Commits a second of the one whose followers are timed.
const PROBES_A_SECOND: f64 = 20.0;
/// How long a follower waits at the master at once.
const PATIENCE_MS: u64 = 20_000;

/// One of them.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) enum ChunkOperation {
    AddAndAbandon,
    Complete,
    Info(u32),
}

/// A producer that stores nothing.
#[derive(Debug)]
pub(crate) struct Committer {
    file: EntryId,
    producer: ProducerId,
    epoch: Epoch,
    number: RecordNumber,
    chunk: OpenStreamChunk,
    holders: Vec<BundleHolder>,
}

/// The lives of servers, as they told them.
type Lives = BTreeMap<ServerId, Incarnation>;

impl Committer {
    async fn open(
        cell: &Cell,
        file: EntryId,
        name: String,
        lives: &mut Lives,
    ) -> Result<Self, JobError> {
        let opened = cell.ask(OpenProducer { file, name, ..OpenProducer::default() }).await?;
        let mut it = Self {
            file,
            producer: opened.producer,
            epoch: opened.epoch,
            number: opened.number,
            chunk: OpenStreamChunk::default(),
            holders: Vec::new(),
        };
        it.allocate(cell, vec![]).await?;
        it.find_holders(cell, lives).await?;
        Ok(it)
    }

    /// Who holds whatever is said to be stored in the chunk.
    async fn find_holders(&mut self, cell: &Cell, lives: &mut Lives) -> Result<(), JobError> {
        for replica in &self.chunk.replicas {
            let incarnation = match lives.get(&replica.server) {
                Some(known) => *known,
                None => {
                    let OpenStreamChunk { handle, version, serial, .. } = self.chunk;
                    let checksums = BlockChecksums::of(0, &[0], cell.info().config.block_size);
                    let extend = Extend {
                        handle,
                        version,
                        push: PushId::default(),
                        serial: serial.next(),
                        offset: 0,
                        size: 1,
                        checksums,
                        sync: false,
                    };
                    let told = cell.ask_server(replica, extend).await?.incarnation;
                    lives.insert(replica.server, told);
                    told
                }
            };
            self.holders.push(BundleHolder { server: replica.server, incarnation });
        }
        Ok(())
    }

    async fn allocate(&mut self, cell: &Cell, leaves: Vec<ChunkHandle>) -> Result<(), JobError> {
        let (file, producer, epoch) = (self.file, self.producer, self.epoch);
        let ask = AllocateChunks { file, producer, epoch, count: 1, leaves, unreachable: vec![] };
        let mut chunks = cell.ask(ask).await?.chunks;
        self.chunk =
            chunks.pop().ok_or_else(|| JobError::WrongAnswer("no chunk was given".to_owned()))?;
        Ok(())
    }

    /// The next bundle is in the file; how long that is then, at least.
    async fn commit(&mut self, cell: &Cell) -> Result<u64, JobError> {
        let (first, serial) = (self.number.next(), self.chunk.serial.next());
        let bundle = Bundle {
            first,
            count: 1,
            handle: self.chunk.handle,
            offset: self.chunk.length,
            size: BUNDLE_SIZE,
            serial,
            holders: self.holders.clone(),
            cursor: None,
            replaces: None,
        };
        let (file, producer, epoch) = (self.file, self.producer, self.epoch);
        let commit = CommitBundles { file, producer, epoch, bundles: vec![bundle] };
        let answer = cell.ask(commit).await?;
        match answer.bundles.first() {
            Some(told) if told.outcome == CommitOutcome::Committed => {
                (self.number, self.chunk.serial) = (first, serial);
                self.chunk.length += BUNDLE_SIZE;
                Ok(told.offset + BUNDLE_SIZE)
            }
            other => Err(JobError::WrongAnswer(format!("a bundle is not committed: {other:?}"))),
        }
    }
}

/// Producers of the callers' stream, each with a chunk; their names begin as is said.
pub(super) async fn open_many(
    cell: &Cell,
    place: &CellPath,
    (called, count): (&str, u64),
) -> Result<Vec<Committer>, JobError> {
    let file = make_stream(cell, place).await?.file().entry().id;
    let caller = place.name().expect("a caller's place has a name");
    let (mut all, mut lives) = (Vec::new(), Lives::new());
    for number in 0..count {
        let name = format!("{called}-{caller}-{number}");
        all.push(Committer::open(cell, file, name, &mut lives).await?);
    }
    Ok(all)
}

/// A bundle a second from each.
pub(super) async fn commits(
    cell: &Cell,
    all: Vec<Committer>,
    seconds: u64,
    id: CallerId,
) -> Result<LoadTally, JobError> {
    let (begun, count) = (Instant::now(), all.len() as u64);
    let mut producers = JoinSet::new();
    for (nth, mut one) in (0..count).zip(all) {
        let cell = cell.clone();
        let id = CallerId { number: id.number * count + nth, of: id.of * count, ..id };
        producers.spawn(async move {
            let mut tally = LoadTally::default();
            for round in 0..seconds {
                tokio::time::sleep_until(due(begun, round, 1.0, id)).await;
                tally.timed(one.commit(&cell)).await?;
            }
            Ok::<LoadTally, JobError>(tally)
        });
    }
    let mut tally = LoadTally::default();
    while let Some(done) = producers.join_next().await {
        tally.add(&done.expect("it does not panic")?);
    }
    tally.bytes = tally.operations * BUNDLE_SIZE;
    Ok(tally)
}

/// From the answer to a commit until each of `waiters` is told of it. Those are told of others'
/// commits too.
pub(super) async fn wait_length(
    cell: &Cell,
    mut probe: Committer,
    waiters: u64,
    seconds: u64,
) -> Result<LoadTally, JobError> {
    let begun = Instant::now();
    let (tell, told) = watch::channel(vec![]);
    let end = begun + Duration::from_secs(seconds);
    let mut all = JoinSet::new();
    for _ in 0..waiters {
        let (cell, file, told) = (cell.clone(), probe.file, told.clone());
        all.spawn(async move {
            let (mut seen, mut length) = (Vec::new(), 0);
            while Instant::now() < end {
                let wish =
                    WaitLength { file, length, patience_ms: PATIENCE_MS, ..WaitLength::default() };
                length = cell.ask(wish).await?.length;
                seen.push((length, Instant::now()));
            }
            Ok::<LoadTally, JobError>(delays(&told.borrow(), &seen))
        });
    }
    let mut commits: Vec<(u64, Instant)> = Vec::new();
    let caller = CallerId { process: 0, caller: 0, number: 0, of: 1 };
    for nth in 0..((seconds - 1) as f64 * PROBES_A_SECOND) as u64 {
        tokio::time::sleep_until(due(begun, nth, PROBES_A_SECOND, caller)).await;
        commits.push((probe.commit(cell).await?, Instant::now()));
        tell.send_replace(commits.clone());
    }
    tokio::time::sleep_until(end).await;
    probe.commit(cell).await?;
    let mut tally = LoadTally::default();
    while let Some(done) = all.join_next().await {
        tally.add(&done.expect("it does not panic")?);
    }
    Ok(tally)
}

/// For each commit, when the one who saw these lengths knew of it.
fn delays(commits: &[(u64, Instant)], seen: &[(u64, Instant)]) -> LoadTally {
    let mut tally = LoadTally::default();
    let mut seen = seen.iter().peekable();
    for (end, at) in commits {
        while seen.next_if(|(length, _)| length < end).is_some() {}
        let Some((_, when)) = seen.peek() else { break };
        tally.latencies.push(when.saturating_duration_since(*at));
        tally.operations += 1;
    }
    tally
}

/// What is there before the clock starts.
pub(super) async fn prepare_operation(
    cell: &Cell,
    place: &CellPath,
    what: ChunkOperation,
    id: CallerId,
) -> Result<Vec<Committer>, JobError> {
    let all = open_many(cell, place, ("client", 1)).await?;
    let ChunkOperation::Info(count) = what else { return Ok(all) };
    // One client has as many producers make a chunk each as all ask for; the others begin when
    // they are there.
    let file = all[0].file;
    if id.number == 0 {
        for mut one in open_many(cell, place, ("other", u64::from(count))).await? {
            one.commit(cell).await?;
        }
    }
    let length = u64::from(count) * BUNDLE_SIZE - 1;
    cell.ask(WaitLength { file, length, patience_ms: PATIENCE_MS, ..WaitLength::default() })
        .await?;
    Ok(all)
}

pub(super) async fn chunk_operations(
    cell: &Cell,
    mut one: Committer,
    what: ChunkOperation,
    operations: u64,
) -> Result<LoadTally, JobError> {
    let mut tally = LoadTally::default();
    for _ in 0..operations {
        match what {
            ChunkOperation::AddAndAbandon => {
                let left = one.chunk.handle;
                tally.timed(one.allocate(cell, vec![left])).await?;
            }
            ChunkOperation::Complete => {
                tally.timed(one.commit(cell)).await?;
            }
            ChunkOperation::Info(limit) => {
                let ask = ReadExtents { file: one.file, limit, ..ReadExtents::default() };
                let answer = tally.timed(cell.ask(ask)).await?;
                if answer.chunks.len() != limit as usize {
                    let why = format!("{} chunks instead of {limit}", answer.chunks.len());
                    return Err(JobError::WrongAnswer(why));
                }
            }
        }
    }
    Ok(tally)
}
