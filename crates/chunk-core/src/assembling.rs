//! Chunks that are being made on this server of ranges of others (R45).
//!
//! ```text
//!   AssembleChunk ─► begin ─► range by range: ─┬─ here: gathered ──────────────┐ ─► its turn ─► …
//!                                              └─ elsewhere: Fetch ─► added ───┘
//!                             all of them ─► summed ─► finished, on disk: answered
//!   Raise{adopt}: it is a replica            the disk refuses, or all sources: gone, refused
//! ```
//! - AS1: until it is adopted it is in no table of replicas, as a clone is (CL1).
//! - AS2: a range is taken of a replica that stands at the version that was named, lacks nothing of
//!   it, and may have lost nothing; each block of it is verified on its way.
//! - AS3: one thing of each is under way at a time, and all together keep to the rate.

use crate::clone_pace::{AskedPiece, ClonePace};
use crate::fetched_blocks::FetchedBlocks;
use crate::outbox::{CallPurpose, DiskPurpose, Outbox, ReplicaJob, failure_of};
use crate::replica_context::ReplicaContext;
use crate::replica_table::ReplicaTable;
use bytes::Bytes;
use cairn_env::{Caller, ChunkDone, ChunkError, ChunkJob, ChunkResult, CloneWork, GatheredRange};
use cairn_protocol::{
    ASSEMBLED_RANGES_MAX, AssembleChunk, AssembleChunkAnswer, AssembledRange, AssembledSource,
    ErrorCode, Failure, Fetch, FetchAnswer, ReplicaReport, Response,
};
use cairn_types::{BlockChecksums, ChunkHandle, SerialNumber, Time, crc32c};
use std::collections::BTreeMap;
use std::time::Duration;

/// Chunks that a server makes so at once.
const ASSEMBLIES_MAX: usize = 16;
/// What is gathered, or asked for, at once.
const PIECE_SIZE_MAX: u64 = 1 << 20;
/// Ranges that are gathered at once: of each, at least a block is read.
const PIECE_RANGES_MAX: usize = 64;
/// Times `silent_ms` that a source may take for one answer.
const PATIENCE: u32 = 3;

/// How far into the ranges it is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Reached {
    range: usize,
    /// Bytes of that range.
    within: u64,
}

/// What is under way.
#[derive(Debug)]
enum AssemblyPhase {
    /// Its file is made.
    Beginning,
    /// It goes on when it is its turn.
    Resting,
    /// Ranges of this server's own go into it; how far it is then.
    Gathering(AskedPiece, Reached),
    /// Another server was asked for blocks.
    Asking(AskedPiece),
    /// Bytes of another server go into it; how far it is then.
    Adding(Reached),
    /// All is there: the checksums of its blocks are asked for.
    Summing,
    /// It is brought to disk.
    Finishing(AssembleChunkAnswer),
    /// It is on disk.
    Finished,
}

/// One chunk in the making.
#[derive(Debug)]
struct Assembly {
    order: AssembleChunk,
    /// Tells the completions of this one from those of an earlier one of that name.
    number: u64,
    /// Of each source, whether it is here.
    is_here: Vec<bool>,
    reached: Reached,
    /// Servers that did not give the present range.
    refused_by: usize,
    fetched: u64,
    phase: AssemblyPhase,
    rests_until: Time,
    from: Option<Caller>,
    touched: Time,
}

/// Those of a server.
#[derive(Debug, Default)]
pub(crate) struct Assemblies {
    all: BTreeMap<ChunkHandle, Assembly>,
    pace: ClonePace,
}

/// What came of a step.
enum AssemblyFate {
    Kept,
    Gone(Failure),
}

/// Which sources are on this server, and may be taken of (AS2).
pub(crate) fn sources_here(table: &ReplicaTable, order: &AssembleChunk) -> Vec<bool> {
    let is_here = |source: &AssembledSource| {
        let replica = table.get(source.handle).map(|it| (it.stored(), it.can_go()));
        replica.is_some_and(|(stored, is_still)| {
            let is_sound = !stored.report().suspect && !stored.is_damaged();
            is_sound && is_still && stored.version() == source.version
        })
    };
    order.sources.iter().map(is_here).collect()
}

fn check(order: &AssembleChunk, chunk_size: u64) -> Result<(), Failure> {
    let total = order.ranges.iter().try_fold(0u64, |sum, it| sum.checked_add(it.size));
    let fits = total.is_some_and(|total| (1..=chunk_size).contains(&total));
    let is_odd = |it: &AssembledRange| {
        let end = it.offset.checked_add(it.size).filter(|end| *end <= chunk_size);
        it.size == 0 || end.is_none() || it.source as usize >= order.sources.len()
    };
    if order.handle.is_none()
        || !fits
        || order.ranges.len() > ASSEMBLED_RANGES_MAX
        || order.ranges.iter().any(is_odd)
    {
        let why = "no chunk can be made of these ranges";
        return Err(Failure::refused(ErrorCode::Invalid, why));
    }
    Ok(())
}

impl Assemblies {
    pub(crate) fn is_making(&self, handle: ChunkHandle) -> bool {
        self.all.contains_key(&handle)
    }

    /// A master's order; of its sources these are here.
    pub(crate) fn order(
        &mut self,
        cx: &mut ReplicaContext<'_>,
        (from, number): (Caller, u64),
        (order, is_here): (AssembleChunk, Vec<bool>),
    ) -> Result<(), Failure> {
        check(&order, cx.config.chunk_size)?;
        if self.is_making(order.handle) || self.all.len() == ASSEMBLIES_MAX {
            let why = format!("{} chunks are being put together here already", self.all.len());
            return Err(Failure::not_done(ErrorCode::Busy, why));
        }
        self.pace.set_rate(order.rate);
        let assembly = Assembly {
            number,
            is_here,
            reached: Reached::default(),
            refused_by: 0,
            fetched: 0,
            phase: AssemblyPhase::Beginning,
            rests_until: cx.now,
            from: Some(from),
            touched: cx.now,
            order,
        };
        assembly.disk(cx.out, CloneWork::Begin { anew: true });
        self.all.insert(assembly.order.handle, assembly);
        Ok(())
    }

    /// What is finished of that name, which is none of these any more.
    pub(crate) fn take_finished(&mut self, handle: ChunkHandle) -> Option<ReplicaReport> {
        let is_finished = |it: &&Assembly| matches!(it.phase, AssemblyPhase::Finished);
        let stands = self.all.get(&handle).filter(is_finished)?.stands();
        self.all.remove(&handle);
        Some(stands)
    }

    /// What is being made of that name is given up; its files are the caller's to remove.
    pub(crate) fn give_up(&mut self, out: &mut Outbox, handle: ChunkHandle, why: &str) {
        if let Some(from) = self.all.remove(&handle).and_then(|it| it.from) {
            out.refuse(from, Failure::not_done(ErrorCode::NoSuchChunk, why));
        }
    }

    pub(crate) fn tick(&mut self, cx: &mut ReplicaContext<'_>) {
        assert!(self.all.len() <= ASSEMBLIES_MAX, "{} assemblies", self.all.len());
        let left = |it: &&Assembly| {
            it.from.is_none() && cx.now.since(it.touched) > Duration::from_millis(it.order.keep_ms)
        };
        let left: Vec<ChunkHandle> =
            self.all.values().filter(left).map(|it| it.order.handle).collect();
        for handle in left {
            self.all.remove(&handle);
            drop_files(cx.out, handle);
        }
        let rest = |it: &&Assembly| matches!(it.phase, AssemblyPhase::Resting);
        // Whoever has waited longest is first.
        let mut resting: Vec<(Time, ChunkHandle)> =
            self.all.values().filter(rest).map(|it| (it.touched, it.order.handle)).collect();
        resting.sort_unstable();
        for (_, handle) in resting {
            let number = self.all[&handle].number;
            self.with(cx, (handle, number), |assembly, cx, turn| assembly.go_on(cx, turn));
        }
    }

    /// The disk has done what it was asked for; whether that was one of these.
    pub(crate) fn on_disk(
        &mut self,
        cx: &mut ReplicaContext<'_>,
        name: (ChunkHandle, u64),
        result: &ChunkResult,
    ) -> bool {
        self.with(cx, name, |assembly, cx, turn| assembly.on_disk(cx, turn, result))
    }

    /// Another server has answered, or has not; whether that was to one of these.
    pub(crate) fn on_fetched(
        &mut self,
        cx: &mut ReplicaContext<'_>,
        name: (ChunkHandle, u64),
        result: &Result<(FetchAnswer, Bytes), Failure>,
    ) -> bool {
        self.with(cx, name, |assembly, cx, turn| assembly.on_fetched(cx, turn, result))
    }

    fn with(
        &mut self,
        cx: &mut ReplicaContext<'_>,
        (handle, number): (ChunkHandle, u64),
        act: impl FnOnce(&mut Assembly, &mut ReplicaContext<'_>, AssemblyTurn<'_>) -> AssemblyFate,
    ) -> bool {
        let works = |it: &Assembly| {
            matches!(it.phase, AssemblyPhase::Asking(_) | AssemblyPhase::Gathering(..))
        };
        let others = self.all.values().any(|it| it.order.handle != handle && works(it));
        let known = self.all.get_mut(&handle).filter(|it| it.number == number);
        let Some(assembly) = known else { return false };
        if let AssemblyFate::Gone(failure) = act(assembly, cx, (&mut self.pace, others)) {
            let gone = self.all.remove(&handle);
            if let Some(from) = gone.and_then(|it| it.from) {
                cx.out.refuse(from, failure);
            }
            drop_files(cx.out, handle);
        }
        true
    }
}

/// The pace of all, and whether a piece of another one is on its way.
type AssemblyTurn<'a> = (&'a mut ClonePace, bool);

fn drop_files(out: &mut Outbox, handle: ChunkHandle) {
    let job = ChunkJob::Clone { handle, work: CloneWork::Drop };
    out.chunk_job(handle, DiskPurpose::Nobody, job);
}

impl Assembly {
    fn disk(&self, out: &mut Outbox, work: CloneWork) {
        let (handle, number) = (self.order.handle, self.number);
        let purpose = DiskPurpose::Clone { handle, number };
        out.chunk_job(handle, purpose, ChunkJob::Clone { handle, work });
    }

    fn length(&self) -> u64 {
        self.order.ranges.iter().map(|it| it.size).sum()
    }

    /// As the replica that it becomes stands: what it has is committed, and nothing is added.
    fn stands(&self) -> ReplicaReport {
        let (length, serial) = (self.length(), SerialNumber::new(1));
        ReplicaReport {
            handle: self.order.handle,
            mutated_version: self.order.mutated_version,
            serial,
            length,
            closed: true,
            acknowledged: length,
            acknowledged_serial: serial,
            ..ReplicaReport::default()
        }
    }

    /// Bytes that lack.
    fn left(&self) -> u64 {
        let behind = self.order.ranges.get(self.reached.range..).unwrap_or_default();
        behind.iter().map(|it| it.size).sum::<u64>() - self.reached.within
    }

    /// The present range, its source, and where in the chunk it goes on.
    fn present(&self) -> Option<(AssembledRange, &AssembledSource, u64)> {
        let range = self.order.ranges.get(self.reached.range)?;
        let source = &self.order.sources[range.source as usize];
        Some((*range, source, range.offset + self.reached.within))
    }

    /// How far it is with so many bytes more of the present range.
    fn behind(&self, size: u64) -> Reached {
        let Reached { range, within } = self.reached;
        let all = self.order.ranges[range].size;
        assert!(within + size <= all, "no more than the range has");
        if within + size == all {
            return Reached { range: range + 1, within: 0 };
        }
        Reached { range, within: within + size }
    }

    /// Takes the next piece, or waits for its turn.
    fn go_on(
        &mut self,
        cx: &mut ReplicaContext<'_>,
        (pace, others): AssemblyTurn<'_>,
    ) -> AssemblyFate {
        let Some((range, _, _)) = self.present() else {
            self.phase = AssemblyPhase::Summing;
            self.disk(cx.out, CloneWork::Begin { anew: false });
            return AssemblyFate::Kept;
        };
        if cx.now < self.rests_until || !pace.may_ask(cx.now, cx.clients_busy, others) {
            self.phase = AssemblyPhase::Resting;
            return AssemblyFate::Kept;
        }
        self.touched = cx.now;
        let piece = pace.ask(cx.now, cx.clients_busy, self.left());
        let size_max = match piece.size_max {
            0 => PIECE_SIZE_MAX,
            size_max => size_max.min(PIECE_SIZE_MAX),
        };
        if self.is_here[range.source as usize] {
            self.gather(cx, piece, size_max);
            return AssemblyFate::Kept;
        }
        self.ask(cx, piece, size_max)
    }

    /// Ranges of this server's own replicas, as many as go at once.
    fn gather(&mut self, cx: &mut ReplicaContext<'_>, piece: AskedPiece, size_max: u64) {
        let (mut ranges, mut left, before) = (Vec::new(), size_max, self.reached);
        while let Some((range, source, offset)) = self.present() {
            if !self.is_here[range.source as usize] || left == 0 || ranges.len() == PIECE_RANGES_MAX
            {
                break;
            }
            let size = (range.offset + range.size - offset).min(left);
            ranges.push(GatheredRange { of: source.handle, offset, size });
            left -= size;
            self.reached = self.behind(size);
        }
        assert!(!ranges.is_empty(), "the present one is here");
        let reached = std::mem::replace(&mut self.reached, before);
        self.phase = AssemblyPhase::Gathering(piece, reached);
        self.disk(cx.out, CloneWork::Gather { ranges });
    }

    /// Asks the next server that has the present range for it.
    fn ask(
        &mut self,
        cx: &mut ReplicaContext<'_>,
        piece: AskedPiece,
        size_max: u64,
    ) -> AssemblyFate {
        let (range, source, offset) = self.present().expect("there is a range to be asked for");
        let others = source.replicas.iter().filter(|it| it.server != cx.me.server);
        let Some(to) = others.clone().nth(self.refused_by) else {
            let handle = source.handle.short();
            let why = format!("chunk {handle}: none of {} servers gave its bytes", others.count());
            return AssemblyFate::Gone(Failure::not_done(ErrorCode::ReplicaFailed, why));
        };
        let (handle, version) = (source.handle, source.version);
        let start = offset - offset % u64::from(cx.config.block_size);
        // Whole blocks come.
        let size_max = size_max.min(range.offset + range.size - start);
        let size_max = size_max.next_multiple_of(u64::from(cx.config.block_size));
        let known = BlockChecksums::default();
        let fetch = Fetch { handle, version, offset: start, length: 0, known, size_max };
        let purpose = CallPurpose::Clone { handle: self.order.handle, number: self.number };
        let deadline = cx.now + PATIENCE * Duration::from_millis(cx.config.silent_ms);
        cx.out.call(purpose, to.address.clone(), to.server, fetch, deadline);
        self.phase = AssemblyPhase::Asking(piece);
        AssemblyFate::Kept
    }

    fn on_fetched(
        &mut self,
        cx: &mut ReplicaContext<'_>,
        (pace, others): AssemblyTurn<'_>,
        result: &Result<(FetchAnswer, Bytes), Failure>,
    ) -> AssemblyFate {
        let AssemblyPhase::Asking(piece) = self.phase else {
            panic!("a server answered an assembly in {:?}", self.phase);
        };
        let (size, busy_there) = match result {
            Ok((answer, bytes)) => (bytes.len() as u64, answer.busy),
            Err(_) => (0, false),
        };
        self.rests_until = pace.answered(cx.now, piece, size, (cx.clients_busy, busy_there));
        self.touched = cx.now;
        let (range, source, offset) = self.present().expect("it was asked for");
        let end = range.offset + range.size;
        let start = offset - offset % u64::from(cx.config.block_size);
        let taken = result.as_ref().ok().and_then(|(answer, bytes)| {
            let FetchAnswer { offset: at, checksums, replica, .. } = answer;
            let stands = (replica.handle, replica.version) == (source.handle, source.version);
            // AS2
            let blocks =
                FetchedBlocks::of(start, (*at, checksums.clone()), bytes.clone(), cx.config);
            let blocks = blocks.ok().flatten().filter(|it| it.offset == start);
            blocks.filter(|it| stands && !replica.suspect && it.end() > offset)
        });
        let Some(blocks) = taken else {
            self.refused_by += 1;
            return self.go_on(cx, (pace, others));
        };
        let size = blocks.end().min(end) - offset;
        self.fetched += size;
        self.phase = AssemblyPhase::Adding(self.behind(size));
        let FetchedBlocks { offset: at, checksums, bytes } = blocks;
        self.disk(cx.out, CloneWork::Add { offset: at, checksums, bytes, from: offset, size });
        AssemblyFate::Kept
    }

    fn on_disk(
        &mut self,
        cx: &mut ReplicaContext<'_>,
        (pace, others): AssemblyTurn<'_>,
        result: &ChunkResult,
    ) -> AssemblyFate {
        self.touched = cx.now;
        let done = match result {
            Ok(done) => done,
            Err(error) => {
                self.doubt(cx.out, error);
                return AssemblyFate::Gone(failure_of(error));
            }
        };
        match (&self.phase, done) {
            (AssemblyPhase::Beginning, ChunkDone::Checksums { .. }) => {
                self.go_on(cx, (pace, others))
            }
            (AssemblyPhase::Gathering(piece, reached), ChunkDone::Cloned) => {
                let (piece, left) = (*piece, self.left());
                (self.reached, self.refused_by) = (*reached, 0);
                let size = left - self.left();
                self.rests_until = pace.answered(cx.now, piece, size, (cx.clients_busy, false));
                self.go_on(cx, (pace, others))
            }
            (AssemblyPhase::Adding(reached), ChunkDone::Cloned) => {
                (self.reached, self.refused_by) = (*reached, 0);
                self.go_on(cx, (pace, others))
            }
            (AssemblyPhase::Summing, ChunkDone::Checksums { length, checksums }) => {
                assert_eq!(*length, self.length(), "all ranges went into it");
                let sums: Vec<u8> = checksums.0.iter().flat_map(|sum| sum.to_le_bytes()).collect();
                let (checksum, fetched) = (crc32c(&sums), self.fetched);
                let answer = AssembleChunkAnswer { length: *length, checksum, fetched };
                self.phase = AssemblyPhase::Finishing(answer);
                self.disk(cx.out, CloneWork::Finish { stands: self.stands() });
                AssemblyFate::Kept
            }
            (AssemblyPhase::Finishing(answer), ChunkDone::Cloned) => {
                if let Some(from) = self.from.take() {
                    cx.out.reply(from, Response::AssembleChunk(*answer));
                }
                self.phase = AssemblyPhase::Finished;
                AssemblyFate::Kept
            }
            (phase, done) => panic!("an assembly in {phase:?} came to {done:?}"),
        }
    }

    /// A block of a replica that is here did not verify: it is looked at once more, and told of.
    fn doubt(&self, out: &mut Outbox, error: &ChunkError) {
        let ChunkError::Corrupt { offset } = *error else { return };
        let AssemblyPhase::Gathering(_, until) = &self.phase else { return };
        let gathered = self.order.ranges.iter().enumerate().skip(self.reached.range);
        let gathered = gathered.take_while(|(at, _)| *at <= until.range);
        let has = |it: &AssembledRange| it.offset + it.size > offset;
        let mut doubted: Vec<ChunkHandle> = gathered
            .filter(|(_, it)| has(it) && self.is_here[it.source as usize])
            .map(|(_, it)| self.order.sources[it.source as usize].handle)
            .collect();
        doubted.sort_unstable();
        doubted.dedup();
        for handle in doubted {
            out.replica_job(handle, ReplicaJob::Verify, ChunkJob::Verify { handle, offset });
        }
    }
}
