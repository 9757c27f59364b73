//! Streams (TFS §2.4, R38 to R47): what producers and readers of streams ask of the master.
//!
//! ```text
//!   OpenProducer, CommitBundles, … ──► a record ──► applied: all is decided there ─► answer
//!   AllocateChunks ──► jobs of the scheduler ──► all of them told ─► answer
//!   WaitLength ──► parked (`followers.rs`) ──► a commit, or the time is over ─► answer
//!   tick ──► chunks that nobody writes any more are sealed or abandoned (`sealing.rs`);
//!            small extents are put together (`settling.rs`)
//! ```
//! - SR1: holders are believed here and nowhere else, before the record is proposed (R43): what
//!   servers are up to is soft, and no record's business.
//! - SR2: nothing here is needed after a fail-over: whoever waits asks anew.

mod commits;
mod exclusive;
mod followers;
mod listing;
mod sealing;
mod settling;
mod window;

use crate::applied::{Applied, ProducerOpened};
use crate::chunk_place::ChunkPlace;
use crate::chunks::Chunks;
use crate::jobs::allocate::StreamWriter;
use crate::name_mutation::check_named;
use crate::outbox::ProposalId;
use crate::record::{EXCLUSIVE_LEVEL, LOST_LEVEL, STREAM_LEVEL};
use crate::rules::commit_replicas::replicas_needed;
use crate::scheduler::{SetNews, WrittenChunks};
use crate::state::{Remembered, records_stand};
use crate::step::Step;
use crate::stream_extents::{extents, stream};
use crate::stream_records::{
    CloseProducerRecord, ForgetProducerRecord, OpenProducerRecord, SkipLostTail,
};
use crate::view::View;
use cairn_env::Caller;
use cairn_protocol::{
    AllocateChunks, AllocateChunksAnswer, ClientToStreams, CloseProducer, CloseProducerAnswer,
    CommitBundlesAnswer, ErrorCode, Failure, ForgetProducer, ForgetProducerAnswer, JobStatus,
    OpenProducer, OpenProducerAnswer, OpenStreamChunk, PRODUCER_CHUNKS_MAX, PRODUCER_NAME_SIZE_MAX,
    Response, SkipLost, SkipLostAnswer,
};
use cairn_types::{ChunkHandle, Content, EntryId, Epoch, ProducerId};
use exclusive::ExclusiveOpenings;
use followers::Followers;
use sealing::Sealing;
use settling::StreamSettling;
use std::collections::{BTreeMap, BTreeSet};
use std::mem::take;

/// Who waits for a record, and for what of it.
#[derive(Debug)]
enum Waiting {
    Opened(EntryId),
    Committed(EntryId, ProducerId),
    Closed,
    Forgotten,
    Skipped,
}

/// Who waits for chunks.
#[derive(Debug)]
struct Allocation {
    from: Caller,
    wish: AllocateChunks,
    pending: BTreeSet<ChunkPlace>,
    failure: Option<Failure>,
}

/// What is under way for streams.
#[derive(Debug, Default)]
pub(crate) struct StreamWork {
    waiting: BTreeMap<ProposalId, (Caller, Waiting)>,
    allocations: Vec<Allocation>,
    followers: Followers,
    exclusive: ExclusiveOpenings,
    sealing: Sealing,
    settling: StreamSettling,
}

/// So many requests wait for chunks at once.
const ALLOCATIONS_MAX: usize = 65_536;

impl StreamWork {
    /// What a producer or a reader asks.
    pub(crate) fn on_request(
        &mut self,
        step: &mut Step<'_>,
        chunks: &mut Chunks,
        from: Caller,
        request: ClientToStreams,
    ) {
        let view = chunks.view(step.now, step.state);
        let answer = match request {
            ClientToStreams::OpenProducer(open) if open.exclusive => {
                self.open_exclusively(step, &view, from, open)
            }
            ClientToStreams::OpenProducer(open) => self.open(step, from, open).map(|()| None),
            ClientToStreams::AllocateChunks(wish) => {
                self.exclusive.heard(&view, (wish.file, wish.producer, wish.epoch));
                self.allocate(step, chunks, from, wish).map(|()| None)
            }
            ClientToStreams::CommitBundles(commit) => {
                let of = (commit.file, commit.producer);
                self.exclusive.heard(&view, (of.0, of.1, commit.epoch));
                match commits::consider(&view, commit) {
                    Ok(record) => {
                        let proposal = step.out.propose(record);
                        self.wait(proposal, from, Waiting::Committed(of.0, of.1));
                        Ok(None)
                    }
                    Err(answer) => {
                        let answer = answer.and_then(|it| self.unless_committing(of, it));
                        answer.map(|it| Some(Response::CommitBundles(it)))
                    }
                }
            }
            ClientToStreams::CloseProducer(close) => {
                self.close(step, from, &close);
                Ok(None)
            }
            ClientToStreams::ForgetProducer(forget) => {
                self.forget(step, from, forget).map(|()| None)
            }
            ClientToStreams::SkipLost(skip) => self.skip_lost(step, from, skip).map(|()| None),
            ClientToStreams::ListProducers(wish) => {
                listing::producers(&view, &wish).map(|it| Some(Response::ListProducers(it)))
            }
            ClientToStreams::ReadExtents(wish) => {
                extents(&view, &wish).map(|it| Some(Response::ReadExtents(it)))
            }
            ClientToStreams::WaitLength(wish) => self.followers.on_wish(&view, from, &wish),
        };
        match answer {
            Ok(None) => {}
            Ok(Some(answer)) => step.out.reply(from, Ok(answer)),
            Err(failure) => step.out.reply(from, Err(failure)),
        }
    }

    fn wait(&mut self, proposal: ProposalId, from: Caller, what: Waiting) {
        let other = self.waiting.insert(proposal, (from, what));
        assert!(other.is_none(), "a record is one caller's");
    }

    fn open(
        &mut self,
        step: &mut Step<'_>,
        from: Caller,
        open: OpenProducer,
    ) -> Result<(), Failure> {
        step.state.check_level(STREAM_LEVEL, "a stream")?;
        check_name(&open.name)?;
        self.begin(step, from, open, Epoch::default())
    }

    fn begin(
        &mut self,
        step: &mut Step<'_>,
        from: Caller,
        open: OpenProducer,
        takes_over: Epoch,
    ) -> Result<(), Failure> {
        check_named(open.mutation, format_args!("producer {}", open.name))?;
        let file = open.file;
        let proposal = step.out.propose(OpenProducerRecord {
            time: step.now.wall,
            mutation: open.mutation,
            file,
            name: open.name,
            producer: step.numbers.producer(),
            epoch: step.numbers.epoch(),
            takes_over,
        });
        self.wait(proposal, from, Waiting::Opened(file));
        Ok(())
    }

    /// Somebody wants a stream for itself, or to have it for longer (R46).
    fn open_exclusively(
        &mut self,
        step: &mut Step<'_>,
        view: &View<'_>,
        from: Caller,
        open: OpenProducer,
    ) -> Result<Option<Response>, Failure> {
        step.state.check_level(EXCLUSIVE_LEVEL, "an exclusive opening")?;
        let stream = stream(view, open.file)?;
        if !open.renews.is_none() {
            return self.exclusive.renew(view, &open).map(|it| Some(Response::OpenProducer(it)));
        }
        if stream.content == Content::Records {
            return Err(records_stand(open.file));
        }
        if !open.name.is_empty() {
            let line = format!("producer {}: an exclusive opening has no name", open.name);
            return Err(Failure::refused(ErrorCode::Invalid, line));
        }
        // What comes again is answered as the first time (R24).
        let is_new = matches!(step.state.remembered(open.mutation), Remembered::New);
        let takes_over = match self.exclusive.taken_over_from(view, open.file) {
            Err(failure) if is_new => return Err(failure),
            takes_over => takes_over.unwrap_or_default(),
        };
        self.begin(step, from, open, takes_over).map(|()| None)
    }

    /// What is answered at once to a commit, if no earlier one of that producer is on its way into
    /// the log: that one may be of these very bundles, and what became of them is not known yet.
    fn unless_committing(
        &self,
        of: (EntryId, ProducerId),
        answer: CommitBundlesAnswer,
    ) -> Result<CommitBundlesAnswer, Failure> {
        let is_earlier = |what: &Waiting| match what {
            Waiting::Committed(file, producer) => (*file, *producer) == of,
            Waiting::Opened(_) | Waiting::Closed | Waiting::Forgotten | Waiting::Skipped => false,
        };
        if !self.waiting.values().any(|(_, what)| is_earlier(what)) {
            return Ok(answer);
        }
        let line = "an earlier commit of that producer is being logged; try again";
        Err(Failure::not_done(ErrorCode::Busy, line))
    }

    fn close(&mut self, step: &mut Step<'_>, from: Caller, close: &CloseProducer) {
        let CloseProducer { file, producer, epoch } = *close;
        let record = CloseProducerRecord { time: step.now.wall, file, producer, epoch };
        let proposal = step.out.propose(record);
        self.wait(proposal, from, Waiting::Closed);
    }

    fn forget(
        &mut self,
        step: &mut Step<'_>,
        from: Caller,
        forget: ForgetProducer,
    ) -> Result<(), Failure> {
        check_name(&forget.name)?;
        check_named(forget.mutation, format_args!("producer {}", forget.name))?;
        let ForgetProducer { mutation, file, name } = forget;
        let record = ForgetProducerRecord { time: step.now.wall, mutation, file, name };
        let proposal = step.out.propose(record);
        self.wait(proposal, from, Waiting::Forgotten);
        Ok(())
    }

    /// A person has seen what is lost, and lets readers pass over it (R41).
    fn skip_lost(
        &mut self,
        step: &mut Step<'_>,
        from: Caller,
        SkipLost { file, handle }: SkipLost,
    ) -> Result<(), Failure> {
        step.state.check_level(LOST_LEVEL, "a hole in a stream")?;
        let proposal = step.out.propose(SkipLostTail { time: step.now.wall, file, handle });
        self.wait(proposal, from, Waiting::Skipped);
        Ok(())
    }

    /// Makes what lacks of the chunks that a producer wants to have open.
    fn allocate(
        &mut self,
        step: &mut Step<'_>,
        chunks: &mut Chunks,
        from: Caller,
        wish: AllocateChunks,
    ) -> Result<(), Failure> {
        let view = chunks.view(step.now, step.state);
        let producer = listing::producer(&view, (wish.file, wish.producer, wish.epoch))?;
        if self.allocations.len() >= ALLOCATIONS_MAX {
            let line = "too many producers wait for chunks; try again";
            return Err(Failure::not_done(ErrorCode::Busy, line));
        }
        let own = |handle: &&ChunkHandle| producer.chunks.contains(handle);
        let mut left: BTreeSet<ChunkHandle> = wish.leaves.iter().filter(own).copied().collect();
        left.extend(producer.chunks.iter().filter(|it| !sealing::is_usable(&view, **it)));
        self.sealing.leave(&left);
        let pending: usize = self.pending_of(&wish);
        let have = producer.chunks.iter().filter(|it| !self.sealing.is_left(**it)).count();
        let free = PRODUCER_CHUNKS_MAX.saturating_sub(producer.chunks.len());
        let wanted = (wish.count as usize).min(PRODUCER_CHUNKS_MAX);
        let lacking = wanted.saturating_sub(have + pending).min(free);
        self.sealing.end_left(step, chunks, &left);
        if lacking == 0 && have == 0 && pending == 0 {
            let line = "the chunks that it had are being sealed; try again";
            return Err(Failure::not_done(ErrorCode::Busy, line));
        }
        let writer = StreamWriter {
            producer: wish.producer,
            epoch: wish.epoch,
            unreachable: wish.unreachable.clone(),
        };
        let file = wish.file;
        let (mut chunk_step, scheduler) = chunks.for_streams(step);
        let mut scheduler = WrittenChunks(scheduler);
        let places = (0..lacking).map(|_| scheduler.allocate(&mut chunk_step, (file, &writer)));
        let pending: BTreeSet<ChunkPlace> = places.collect();
        if pending.is_empty() {
            let answer = self.allocated(&chunks.view(step.now, step.state), &wish, None)?;
            step.out.reply(from, Ok(Response::AllocateChunks(answer)));
            return Ok(());
        }
        self.allocations.push(Allocation { from, wish, pending, failure: None });
        self.go_on(step, chunks);
        Ok(())
    }

    /// Chunks that are being made for the same epoch already.
    fn pending_of(&self, wish: &AllocateChunks) -> usize {
        let same = |it: &&Allocation| {
            (it.wish.file, it.wish.producer, it.wish.epoch)
                == (wish.file, wish.producer, wish.epoch)
        };
        self.allocations.iter().filter(same).map(|it| it.pending.len()).sum()
    }

    /// A record is applied.
    pub(crate) fn on_applied(
        &mut self,
        step: &mut Step<'_>,
        chunks: &mut Chunks,
        proposal: ProposalId,
        applied: &Applied,
    ) {
        self.sealing.on_applied(proposal);
        self.exclusive.on_applied(proposal);
        self.settling.on_applied(proposal);
        if let Some((from, what)) = self.waiting.remove(&proposal) {
            if let Waiting::Committed(file, _) = what {
                self.followers.on_longer(step, file);
            }
            if let Waiting::Opened(file) = what {
                // From now on its lease runs (EX1).
                let _ = self.exclusive.holder(&chunks.view(step.now, step.state), file);
            }
            let answer = match applied {
                Applied::Failed(failure) => Err(failure.clone()),
                applied => answer(step, &what, applied),
            };
            step.out.reply(from, answer);
        }
        self.go_on(step, chunks);
    }

    /// Takes up what has become of jobs.
    pub(crate) fn go_on(&mut self, step: &mut Step<'_>, chunks: &mut Chunks) {
        let now = step.now;
        let (_, scheduler) = chunks.for_streams(step);
        let news = SetNews::of(scheduler);
        let (allocated, sealed) = (take(&mut news.allocated), take(&mut news.sealed));
        self.settling.on_assembled(now, take(&mut news.assembled));
        self.sealing.on_sealed(now.time, sealed);
        if allocated.is_empty() {
            return;
        }
        for (place, result) in allocated {
            for allocation in &mut self.allocations {
                if allocation.pending.remove(&place)
                    && let Err(failure) = &result
                {
                    allocation.failure = Some(failure.clone());
                }
            }
        }
        let view = chunks.view(step.now, step.state);
        let is_over = |it: &mut Allocation| it.pending.is_empty();
        let over: Vec<Allocation> = self.allocations.extract_if(.., is_over).collect();
        for Allocation { from, wish, failure, .. } in over {
            let answer = self.allocated(&view, &wish, failure);
            step.out.reply(from, answer.map(Response::AllocateChunks));
        }
    }

    fn allocated(
        &self,
        view: &View<'_>,
        wish: &AllocateChunks,
        failure: Option<Failure>,
    ) -> Result<AllocateChunksAnswer, Failure> {
        let producer = listing::producer(view, (wish.file, wish.producer, wish.epoch))?;
        let open = producer.chunks.iter().filter(|it| !self.sealing.is_left(**it));
        let mut chunks: Vec<OpenStreamChunk> =
            open.filter_map(|it| sealing::described(view, *it)).collect();
        if chunks.is_empty() {
            let none = || Failure::not_done(ErrorCode::Busy, "its chunks are not there yet");
            return Err(failure.unwrap_or_else(none));
        }
        let stream = stream(view, wish.file)?;
        for chunk in &mut chunks {
            let size = u32::try_from(chunk.replicas.len()).unwrap_or(u32::MAX);
            chunk.commit_replicas = replicas_needed(&stream, size);
        }
        // For clients that ask what holds for all.
        let commit_replicas = chunks.iter().map(|it| it.commit_replicas).max().unwrap_or_default();
        Ok(AllocateChunksAnswer { chunks, commit_replicas })
    }

    /// What is done for streams, as a job; none while there is nothing to do.
    pub(crate) fn job(&self, view: &View<'_>) -> Option<JobStatus> {
        self.settling.job(view)
    }

    /// Time has passed.
    pub(crate) fn on_tick(&mut self, step: &mut Step<'_>, chunks: &mut Chunks) {
        self.followers.on_tick(step);
        self.exclusive.on_tick(step);
        let to_leave = self.settling.on_tick(step, chunks);
        self.sealing.leave(&to_leave);
        self.sealing.on_tick(step, chunks);
        self.go_on(step, chunks);
    }
}

fn answer(step: &Step<'_>, what: &Waiting, applied: &Applied) -> Result<Response, Failure> {
    Ok(match (what, applied) {
        (Waiting::Opened(file), Applied::ProducerOpened(opened)) => {
            let ProducerOpened { producer, epoch, cursor_gone } = *opened;
            let streams = step.state.streams();
            let number = streams.producer(*file, producer).map(|it| it.number);
            let is_exclusive = streams.exclusive(*file).is_some_and(|(id, _)| id == producer);
            Response::OpenProducer(OpenProducerAnswer {
                producer,
                epoch,
                number: number.unwrap_or_default(),
                cursor: streams.cursor(*file, producer),
                cursor_gone,
                lease_ms: if is_exclusive { step.state.config().lease_ms } else { 0 },
            })
        }
        (Waiting::Committed(..), Applied::BundlesCommitted(committed)) => {
            let (bundles, number) = (committed.bundles.clone(), committed.number);
            Response::CommitBundles(CommitBundlesAnswer { bundles, number })
        }
        (Waiting::Closed, Applied::Changed(_)) => Response::CloseProducer(CloseProducerAnswer {}),
        (Waiting::Forgotten, Applied::Changed(_)) => {
            Response::ForgetProducer(ForgetProducerAnswer {})
        }
        (Waiting::Skipped, Applied::Changed(_)) => Response::SkipLost(SkipLostAnswer {}),
        // What is remembered under that name (R24) is of another request.
        (Waiting::Opened(_) | Waiting::Forgotten, _) => {
            let line = "that number of the session names another request";
            return Err(Failure::refused(ErrorCode::Invalid, line));
        }
        (what, other) => unreachable!("{what:?} does not come to {other:?}"),
    })
}

fn check_name(name: &str) -> Result<(), Failure> {
    if (1..=PRODUCER_NAME_SIZE_MAX).contains(&name.len()) {
        return Ok(());
    }
    let line = format!(
        "a producer's name has 1 to {PRODUCER_NAME_SIZE_MAX} bytes; this one has {}",
        name.len()
    );
    Err(Failure::refused(ErrorCode::Invalid, line))
}
